"""`picardfit fit`: estimates the parameters of a problem file, and writes the files of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from picardfit.cli.common import (
    HERE,
    AsJson,
    ProblemPath,
    Quiet,
    Verbose,
    as_far_as_possible,
    assignments,
    complaints,
    csv_text,
    output_folder,
    print_json,
    tell_unwritten,
    with_errors,
)
from picardfit.cli.saved import RESULTS
from picardfit.errors import Audience
from picardfit.whole_files import make_folder

if TYPE_CHECKING:
    import numpy as np

    from picardfit.errors import InputError
    from picardfit.files.sections.settings import FitSettings
    from picardfit.fit import Fit
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem
    from picardfit.solvers.loop import Progress

Out = Annotated[
    Path | None, typer.Option(help="Folder for the output files. By default `results` beside the problem.")
]
Starts = Annotated[int | None, typer.Option(min=1, help="Number of starting points to try.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the starting points.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes that share the starts.")]
MaxIterations = Annotated[int | None, typer.Option(min=1, help="Largest number of iterations per start.")]
PARAMETER_COLUMNS = ("name", "estimate", "standard_error", "lower", "upper", "also_fits", "unit", "remark")
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
    verbose: Verbose = False,
) -> None:
    """Estimate the parameters, print a table, and write fit.json, parameters.csv, predictions.csv and report.html.

    Ctrl-C stops the search and keeps the best result so far. Options override the fit section of the file.
    """
    with complaints(as_json):
        from picardfit.files.problem_file import read_problem_file

        file = read_problem_file(problem)
        settings = changed(file.settings, starts, seed, workers, max_iterations)
        settings = replace(settings, start={**settings.start, **assignments(start or [], "--start")})
        folder = output_folder(out or file.path.parent / RESULTS)
        result = run(file.with_data, settings, quiet or as_json, ledger, verbose)
        done = kept(result, settings, folder, file.title, report)
        _, told, show = _tellers(file.with_data)
        if as_json:
            content = {**told(result, settings.level, file.title, done.written), "set_aside": done.aside}
            print_json(with_errors(content, done.unwritten))
        elif not quiet:
            typer.echo(file.title)
            show(result, settings.level)
            names = ", ".join(path.name for path in done.written)
            typer.echo(f"written to {folder}: {names or 'nothing'}")
        tell_set_aside(done.aside, as_json)
        tell_unwritten(done.unwritten, as_json)
    raise typer.Exit(0 if result.success else 1)


@dataclass(frozen=True)
class Kept:
    """The files of a fit."""

    written: list[Path]
    unwritten: InputError | None  # why the next could not be written
    aside: dict[str, str]  # files of an earlier fit: old name -> new name


def kept(result: Fit, settings: FitSettings, folder: Path, title: str, report: bool = True) -> Kept:
    """Write the files of a fit, as far as possible; those of an earlier fit that this one lacks are set aside."""
    write, _, _ = _tellers(result.problem)
    written, unwritten = as_far_as_possible(write(result, folder, report, settings.level, title))
    return Kept(written, unwritten, set_aside(folder, written) if failed(result) else {})


def _tellers(problem: Problem) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """What writes, records and shows a fit: populations have spreads and individuals."""
    if problem.random is None:
        from picardfit.cli.show import show_fit

        return write_fit, record, show_fit
    from picardfit.cli.population import population_record, show_population, write_population

    return write_population, population_record, show_population


def changed(
    settings: FitSettings,
    starts: int | None,
    seed: int | None,
    workers: int | None,
    max_iterations: int | None,
) -> FitSettings:
    """The settings of the file, overridden by those of the command line that were given."""
    given: dict[str, Any] = {"starts": starts, "seed": seed, "workers": workers}
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
    if max_iterations is not None:
        settings = replace(settings, method=replace(settings.method, max_iterations=max_iterations))
    return settings


def run(
    problem: Problem,
    settings: FitSettings,
    quiet: bool = False,
    ledger: Path | None = None,
    verbose: bool = False,
    also: Callable[[Progress], None] | None = None,
) -> Fit:
    """Fit, showing progress on a terminal, with `verbose` all that the search does; Ctrl-C returns the best so far.

    `also`: a function that is called with the progress, too.
    """
    from picardfit.cli.progress import watched
    from picardfit.fit import fit as estimate
    from picardfit.parallel.ordered_map import processes

    with (
        processes(settings.workers) as executor,
        watched(quiet, executor is None, verbose, also=also) as progress,
    ):
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
            marginal=settings.marginal,
        )


def record(result: Fit, level: float, title: str, written: Sequence[Path]) -> dict[str, object]:
    """The fit as JSON, with its title and the files that were written."""
    from picardfit.cli.show import alternatives
    from picardfit.files.fit_file import criteria_record, derived_record, diagnostics_record

    every = (dict(zip(PARAMETER_COLUMNS, row, strict=True)) for row in _parameters(result, level))
    rows = {row.pop("name"): row for row in every}
    derived = {
        name: {**one, "also_fits": rows[name]["also_fits"]}
        for name, one in derived_record(result, level).items()
    }
    return {
        "success": result.success,
        "status": result.status.name,
        "message": result.conclusion.sentence(Audience.COMMAND),
        "loss": result.loss,
        "iterations": result.iterations,
        "seconds": result.seconds,
        "level": level,
        "estimates": {name: row for name, row in rows.items() if name not in result.derived},
        **({"derived": derived} if result.derived else {}),
        "criteria": criteria_record(result),
        "diagnostics": diagnostics_record(result),
        "fit_as_well": alternatives(result),
        "certificate": None if result.solution is None else asdict(result.certificate),
        "title": title,
        "files": [str(path) for path in written],
    }


def write_fit(
    fit: Fit, folder: Path, report: bool = True, level: float = 0.95, title: str = "Report of a fit"
) -> Iterator[Path]:
    """Write fit.json, parameters.csv, predictions.csv and report.html into a folder, each when it is asked for.

    A fit that failed has no parameters.csv, so that nobody reads its values as estimates.
    """
    from picardfit.whole_files import write_text

    make_folder(folder)
    yield fit.save(folder / "fit.json")
    if not failed(fit):
        yield write_text(folder / "parameters.csv", csv_text(PARAMETER_COLUMNS, _parameters(fit, level)))
    if fit.solution is not None:
        yield write_text(folder / "predictions.csv", csv_text(*_predictions(fit, level)))
        if report:
            yield fit.report(folder / "report.html", title)


def failed(fit: Fit) -> bool:
    """Whether the values of a fit are no estimates."""
    return not fit.status.estimated


def set_aside(folder: Path, written: Sequence[Path]) -> dict[str, str]:
    """Rename what an earlier fit left in a folder and this one did not write: old name -> new name.

    The earlier tables are neither lost nor taken for those of the fit that failed.
    """
    moved = {}
    for name in ("parameters.csv", "predictions.csv", "report.html"):
        path = folder / name
        if path.is_file() and path not in written:
            moved[name] = path.replace(path.with_suffix(f".earlier{path.suffix}")).name
    return moved


def tell_set_aside(moved: Mapping[str, str], as_json: bool) -> None:
    """Say that files of an earlier fit have new names, also to those who asked for quiet."""
    if moved and not as_json:
        names = ", ".join(f"{old} is now {new}" for old, new in moved.items())
        typer.echo(f"picardfit: this fit failed; of an earlier one, {names}.", err=True)


def _parameters(fit: Fit, level: float) -> list[tuple[object, ...]]:
    """A row under PARAMETER_COLUMNS for each parameter and estimated initial state, with all digits."""
    from picardfit.cli.show import remarked
    from picardfit.display.text import number

    if fit.solution is None:
        return []
    rows: list[tuple[object, ...]] = []
    for one, remark in remarked(fit, level):
        if not fit.status.converged and one.name in fit.standard_errors:
            remark = remark or "the fit did not converge"
        if one.profiled is not None:
            low, high = map(number, one.profiled)
            remark += f", by profile {low} to {high}"
        rows.append((one.name, one.value, one.error, one.low, one.high, one.rival, one.unit, remark))
    return rows


def _predictions(fit: Fit, level: float, points: int = 201) -> tuple[list[str], list[list[object]]]:
    """Observables and hidden states along every experiment, each with its confidence band; NaN without one.

    The times are `points` evenly spaced ones, enough for a smooth curve, and the sampling times; where the data have
    dates, a column of dates precedes them. Increments stand at their own sampling times only: since other times they
    would be other numbers.
    """
    import numpy as np

    model = fit.problem.model
    names = [*model.observables, *(name for name in model.states if name not in model.observables)]
    rows: list[list[object]] = []
    dated = any(one.calendar is not None for one in fit.problem.experiments)
    for one in fit.problem.experiments:
        times = np.unique(np.concatenate([np.linspace(one.t0, one.times[-1], points), one.times]))
        curves = {**fit.states(one.name, times), **fit.predict(one.name, times)}
        bands = fit.bands(one.name, times, level) if fit.status.converged else None
        columns = []
        for name in names:
            nothing = np.full(len(times), np.nan)
            ends = (nothing, nothing) if bands is None else (bands[name].low, bands[name].high)
            if name in model.increments:
                columns += _increments(fit, one, name, times, level)
            else:
                columns += [curves[name], *ends]
        whens: list[list[object]] = [[time] for time in times.tolist()]
        if dated:
            dates = [""] * len(times) if one.calendar is None else one.calendar.texts(times, exact=True)
            whens = [[date, *when] for date, when in zip(dates, whens, strict=True)]
        table = np.stack(columns, axis=1).tolist()
        rows += [[one.name, *when, *row] for when, row in zip(whens, table, strict=True)]
    header = [f"{name}{end}" for name in names for end in ("", "_lower", "_upper")]
    return ["experiment", *(["date"] if dated else []), "time", *header], rows


def _increments(fit: Fit, one: Experiment, name: str, times: np.ndarray, level: float) -> list[np.ndarray]:
    """Value and ends of the band of an increment at its own samples among the times, NaN elsewhere."""
    import numpy as np

    columns = [np.full(len(times), np.nan) for _ in range(3)]
    if name not in one.observables:
        return columns
    at = one.count_times(name)
    there = np.searchsorted(times, at)
    columns[0][there] = fit.predict(one.name, at)[name]
    if fit.status.converged:
        band = fit.bands(one.name, at, level)[name]
        columns[1][there], columns[2][there] = band.low, band.high
    return columns
