"""`picardfit validate`: predicts other data with the parameters of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import (
    FILE_ENDINGS,
    HERE,
    AsJson,
    ProblemPath,
    Quiet,
    as_far_as_possible,
    assignments,
    complaints,
    console,
    output_folder,
    print_json,
    print_table,
    tell_unwritten,
    with_errors,
)
from picardfit.cli.current import current_fit
from picardfit.cli.saved import check_single
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.inference.validation import Validation


def validate(
    problem: ProblemPath = HERE,
    data: Annotated[
        list[Path] | None,
        typer.Option(help="A table of measurements that were not fitted; may be repeated."),
    ] = None,
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="Predict each experiment by a fit to all others.")
    ] = False,
    initial: Annotated[
        str, typer.Option(help="Initial states that nothing gives: fitted (to the new data) or given.")
    ] = "fitted",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="The initial value of a state, as in --set level=2; may be repeated."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that share the experiments.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The picture (.png, .svg, .pdf), or a folder for validation.png. By default `results` beside the "
            "problem."
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict data that were not fitted, with parameters held: R², errors, tests of the residuals, a picture.

    The files of --data are read as those of the problem file, and get its inputs, initial states and t0.
    """
    with complaints(as_json):
        from picardfit.files.problem_file import read_other_data
        from picardfit.parallel.ordered_map import processes

        _check_what(problem, data or [], leave_one_out)
        picture = _target(out, problem)
        experiments = read_other_data(problem, data) if data else None
        result = current_fit(problem, quiet or as_json)
        check_single(result, "validate", problem)
        with processes(workers) as executor:
            found = result.validate(
                experiments,
                initial=assignments(set_, "--set") if set_ else initial,  # type: ignore[arg-type]  # checked there
                leave_out=leave_one_out,
                executor=executor,
                progress=False if quiet or as_json else None,
            )
        written, unwritten = as_far_as_possible(_picture(found, picture) for _ in range(1))
        if as_json:
            from picardfit.display.validation import validation_record

            files = [str(path) for path in written]
            print_json(with_errors({"success": True, **validation_record(found), "files": files}, unwritten))
        elif not quiet:
            _show(found)
            typer.echo(f"written to {', '.join(map(str, written)) or 'nothing'}")
        tell_unwritten(unwritten, as_json)


def _check_what(problem: Path, data: Sequence[Path], leave_one_out: bool) -> None:
    """InputError unless there is a problem file and one way to get data that were not fitted."""
    if bool(data) == leave_one_out:
        raise InputError("cli.validate_both" if data else "cli.validate_nothing")
    if problem.suffix == ".json":
        raise InputError("cli.validate_saved", str(problem))
    for path in data:
        if not path.exists():
            raise InputError("cli.no_data_file", str(path))


def _target(out: Path | None, problem: Path) -> Path:
    """The file of the picture: the one that was named, or validation.png in a folder."""
    from picardfit.display.plots.style import check_format
    from picardfit.whole_files import regular_target

    if out is not None and out.suffix.lower() in FILE_ENDINGS and not out.is_dir():
        check_format(out)
        regular_target(out)
        return out
    folder = output_folder(out or (problem if problem.is_dir() else problem.parent) / "results")
    return folder / "validation.png"


def _picture(found: Validation, path: Path) -> Path:
    found.plot(path)
    return path


def _show(found: Validation) -> None:
    from picardfit.display.validation import HEADER, NUMERIC, score_rows, validation_lines

    out = console()
    print_table(out, HEADER, score_rows(found), numeric=NUMERIC)
    out.print()
    for line in validation_lines(found):
        out.print(line, markup=False)
