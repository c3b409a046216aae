"""`picardfit fit`: estimates the parameters of a problem file."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import (
    HERE,
    AsJson,
    ProblemPath,
    Quiet,
    assignments,
    complaints,
    make_folder,
    print_json,
)
from picardfit.errors import Audience

if TYPE_CHECKING:
    from picardfit.files.sections.settings import FitSettings
    from picardfit.fit import Fit
    from picardfit.problem.problem import Problem

Out = Annotated[
    Path | None, typer.Option(help="Folder for the output files. By default `results` beside the problem.")
]
Starts = Annotated[int | None, typer.Option(min=1, help="Number of starting points to try.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the starting points.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes that share the starts.")]
MaxIterations = Annotated[int | None, typer.Option(min=1, help="Largest number of iterations per start.")]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html, or do not.")]


def fit(
    problem: ProblemPath = HERE,
    out: Out = None,
    starts: Starts = None,
    seed: Seed = None,
    workers: Workers = None,
    max_iterations: MaxIterations = None,
    start: Annotated[
        list[str] | None,
        typer.Option(help="The starting value of a parameter, as in --start birth=0.5; may be repeated."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="A file that keeps finished starts, so that an interrupted run can be resumed."),
    ] = None,
    report: Report = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the parameters, print a table, and write fit.json, parameters.csv, predictions.csv and report.html.

    Ctrl-C stops the search and keeps the best result so far. Options override the fit section of the file.
    """
    with complaints(as_json):
        from picardfit.files.problem_file import read_problem_file

        file = read_problem_file(problem)
        settings = changed(file.settings, starts, seed, workers, max_iterations)
        settings = replace(settings, start={**settings.start, **assignments(start or [], "--start")})
        folder = make_folder(out or file.path.parent / "results")
        result = run(file.with_data, settings, quiet or as_json, ledger)
        deliver(result, file.title, folder, settings.level, report, as_json, quiet)
    raise typer.Exit(0 if result.success else 1)


def changed(
    settings: FitSettings,
    starts: int | None,
    seed: int | None,
    workers: int | None,
    max_iterations: int | None,
) -> FitSettings:
    """The settings of the file, overridden by those of the command line that were given."""
    settings = replace(
        settings,
        starts=settings.starts if starts is None else starts,
        seed=settings.seed if seed is None else seed,
        workers=settings.workers if workers is None else workers,
    )
    if max_iterations is not None:
        settings = replace(settings, method=replace(settings.method, max_iterations=max_iterations))
    return settings


def run(problem: Problem, settings: FitSettings, quiet: bool = False, ledger: Path | None = None) -> Fit:
    """Fit, showing progress on a terminal; Ctrl-C returns the best result so far."""
    from picardfit.cli.progress import watched
    from picardfit.fit import fit as estimate
    from picardfit.parallel.ordered_map import processes

    with processes(settings.workers) as executor, watched(quiet, catch=executor is None) as progress:
        return estimate(
            problem,
            settings.method,
            start=settings.start or None,
            start_initial=settings.start_initial or None,
            starts=settings.starts,
            seed=settings.seed,
            executor=executor,
            ledger=ledger,
            progress=progress,
        )


def deliver(
    result: Fit, title: str, folder: Path, level: float, report: bool, as_json: bool, quiet: bool
) -> None:
    """Write the files of a fit and print it."""
    from picardfit.cli.output import write_fit
    from picardfit.cli.show import show_fit

    written = write_fit(result, folder, report, level, title)
    if as_json:
        print_json(record(result, level) | {"title": title, "files": [str(path) for path in written]})
    elif not quiet:
        typer.echo(title)
        show_fit(result, level)
        typer.echo(f"written to {folder}: {', '.join(path.name for path in written)}")


def record(result: Fit, level: float) -> dict[str, object]:
    """The fit as JSON."""
    from picardfit.cli.output import PARAMETER_COLUMNS, parameter_records
    from picardfit.cli.show import alternatives

    rows = (dict(zip(PARAMETER_COLUMNS, row, strict=True)) for row in parameter_records(result, level))
    return {
        "success": result.success,
        "status": result.status.name,
        "message": result.conclusion.sentence(Audience.COMMAND),
        "loss": result.loss,
        "iterations": result.iterations,
        "seconds": result.seconds,
        "level": level,
        "estimates": {row.pop("name"): row for row in rows},
        "fit_as_well": alternatives(result),
        "certificate": None if result.solution is None else asdict(result.certificate),
    }
