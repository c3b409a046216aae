"""`picardfit petab`: fits a PEtab problem."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import (
    AsJson,
    Quiet,
    Verbose,
    as_far_as_possible,
    complaints,
    console,
    output_folder,
    print_json,
    print_table,
    tell_unwritten,
    with_errors,
)
from picardfit.cli.fit import (
    MaxIterations,
    Out,
    Report,
    Seed,
    Starts,
    Workers,
    changed,
    failed,
    record,
    run,
    set_aside,
    tell_set_aside,
    write_fit,
)
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.importers.petab import Imported


def petab(
    path: Annotated[Path, typer.Argument(help="The YAML file of a PEtab problem, or a folder with one.")],
    out: Out = None,
    starts: Starts = None,
    seed: Seed = None,
    workers: Workers = None,
    max_iterations: MaxIterations = None,
    report: Report = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Fit a PEtab problem, as `picardfit fit` fits a problem file.

    Also writes parameters_NAME.tsv, the parameter table with the estimates as nominalValue (linear), and
    simulations_NAME.tsv, the measurement table with a column `simulation`.
    """
    with complaints(as_json):
        from picardfit.files.sections.settings import FitSettings

        path = petab_file(path)
        imported = opened(path)
        settings = changed(FitSettings(), starts, seed, workers, max_iterations)
        folder = output_folder(out or path.parent / "results")
        result = run(imported.problem, settings, quiet or as_json, verbose=verbose)
        files = write_fit(result, folder, report, settings.level, imported.tables.name)
        written, unwritten = as_far_as_possible(chain(files, _tables(result, imported, folder)))
        aside = set_aside(folder, written) if failed(result) else {}
        if as_json:
            content = {**_record(result, imported, settings.level, written), "set_aside": aside}
            print_json(with_errors(content, unwritten))
        elif not quiet:
            _show(result, imported, settings.level)
            typer.echo(f"written to {folder}: {', '.join(one.name for one in written) or 'nothing'}")
        tell_set_aside(aside, as_json)
        tell_unwritten(unwritten, as_json)
    raise typer.Exit(0 if result.success else 1)


def opened(path: Path) -> Imported:
    """The problem of a PEtab file; the command shows its remarks itself, so Python's warnings are silenced."""
    from picardfit.importers.petab import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load(path)


def petab_file(path: Path) -> Path:
    """The YAML file of a problem: the path itself, or the only one in a folder."""
    if not path.is_dir():
        return path
    found = sorted(one for one in path.iterdir() if is_petab(one))
    if len(found) != 1:
        raise InputError("cli.petab_folder", str(path), names=[one.name for one in found])
    return found[0]


def is_petab(path: Path) -> bool:
    """Whether a file describes a PEtab problem, judged by its ending."""
    return path.suffix.lower() in (".yaml", ".yml")


def _tables(result: Fit, imported: Imported, folder: Path) -> Iterator[Path]:
    """Write the PEtab tables of a fit; none where it failed."""
    from picardfit.importers.petab import write

    if failed(result):
        return
    try:
        yield from write(result, imported, folder).values()
    except InputError:
        if result.success:
            raise


def _show(result: Fit, imported: Imported, level: float) -> None:
    from picardfit.cli.show import show_fit
    from picardfit.display.text import number

    out = console()
    typer.echo(imported.tables.name)
    show_fit(result, level)
    if result.solution is not None and {"log", "log10"} & set(imported.scales.values()):
        scaled = _on_scale(result, imported)
        rows = [(name, scale, number(value, 6)) for name, (scale, _, value) in scaled.items()]
        print_table(out, ("parameterId", "parameterScale", "estimate on it"), rows, numeric=(2,))
        out.print()
    for remark in imported.remarks:
        out.print(f"Warning: {remark}\n", markup=False, style="yellow")


def _on_scale(result: Fit, imported: Imported) -> dict[str, tuple[str, float, float]]:
    """parameterId -> (scale, estimate, estimate on that scale), of the parameters that were estimated."""
    from picardfit.importers.petab import on_scale
    from picardfit.importers.petab.problem import spelled

    found = {}
    for identifier, row in imported.tables.parameters.items():
        name = spelled(identifier)
        if row.estimated and name not in imported.idle:
            value = result.parameters[name]
            found[identifier] = (row.scale, value, on_scale(value, row.scale))
    return found


def _record(result: Fit, imported: Imported, level: float, written: list[Path]) -> dict[str, object]:
    estimates = {} if result.solution is None else _on_scale(result, imported)
    return record(result, level, imported.tables.name, written) | {
        "nllh": result.nllh,
        "petab": {
            name: {"parameterScale": scale, "estimate": value, "on_scale": scaled}
            for name, (scale, value, scaled) in estimates.items()
        },
        "warnings": [str(one) for one in (*imported.remarks, *result.warnings)],
    }
