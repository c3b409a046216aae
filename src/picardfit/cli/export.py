"""`picardfit export`: the fitted model as a file of another program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from picardfit.cli.common import HERE, AsJson, ProblemPath, Quiet, complaints, print_json
from picardfit.cli.current import fit_and_folder
from picardfit.cli.saved import check_single, with_curves
from picardfit.errors import Audience, InputError

if TYPE_CHECKING:
    from picardfit.exporters.formats import Exported


def export(
    problem: ProblemPath = HERE,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write; its ending says for which program: .py, _casadi.py, .xml, .ant, .mo, .stan. "
            "By default `model.py` in `results` beside the problem."
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="python, casadi, sbml, antimony, modelica or stan, where the ending does not say it."
        ),
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            "--experiment", "-e", help="The experiment to write; by default all, or the first of several."
        ),
    ] = None,
    petab: Annotated[
        bool,
        typer.Option(
            "--petab",
            help="Write the whole problem, with the estimates, as PEtab version 2 into a folder: --out, or `petab` in "
            "`results` beside the problem.",
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the fitted model for another program: SciPy, CasADi, SBML, Antimony, Modelica, Stan, PEtab.

    PROBLEM may also be a saved fit.json. A problem is fitted unless its results hold a fit of it as it is now.
    """
    if petab:
        _write_petab(problem, out, as_json, quiet, (format, experiment))
    with complaints(as_json):
        from picardfit.exporters.formats import FORMATS, export, format_of

        kind = format_of(
            Path("model.py") if out is None else out, format
        )  # before the fit, which takes longer
        result, folder = fit_and_folder(problem, None if out is None else out.parent, quiet or as_json)
        if result.solution is None:
            raise InputError("cli.nothing_to_export", ended=result.conclusion)
        result = with_curves(result)
        target = folder / f"model{FORMATS[kind].endings[0]}" if out is None else out
        written = export(result, target, kind, experiment)
        if as_json:
            print_json(
                {
                    "success": result.success,
                    "format": written.format,
                    "experiments": written.experiments,
                    "files": [str(path) for path in written.paths],
                }
            )
        elif not quiet:
            if not result.success:
                typer.echo(result.conclusion.sentence(Audience.COMMAND), err=True)
            _show(written, chosen=experiment is not None)
    raise typer.Exit(0 if result.success else 1)


def _write_petab(
    problem: Path, out: Path | None, as_json: bool, quiet: bool, others: tuple[str | None, str | None]
) -> NoReturn:
    """Fit, and write the problem with its estimates as PEtab."""
    with complaints(as_json):
        if any(others):
            raise InputError("cli.petab_alone")
        result, folder = fit_and_folder(problem, None if out is None else out.parent, quiet or as_json)
        if result.solution is None:
            raise InputError("cli.nothing_to_export", ended=result.conclusion)
        check_single(result, "export --petab", problem)
        written = result.to_petab(folder / "petab" if out is None else out)
        if as_json:
            print_json({"success": result.success, "format": "petab", "files": [str(written)]})
        elif not quiet:
            if not result.success:
                typer.echo(result.conclusion.sentence(Audience.COMMAND), err=True)
            typer.echo(f"written to {written}")
    raise typer.Exit(0 if result.success else 1)


def _show(written: Exported, chosen: bool) -> None:
    if written.others and not chosen:
        name, count = written.experiments[0], len(written.others)
        more = f"{count} more experiment{'s' if count > 1 else ''}"
        typer.echo(f"experiment {name}; the fit has {more}, choose with --experiment")
    typer.echo(f"written to {', '.join(map(str, written.paths))}")
