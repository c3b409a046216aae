"""`picardfit predict`: what a saved fit predicts at any times, with bands, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import HERE, AsJson, complaints, csv_text, print_json
from picardfit.cli.figures import Dpi, Experiments, LogX, LogY, Size, Style, look_of
from picardfit.cli.saved import FitPath, saved_fit, with_curves
from picardfit.errors import InputError, closest

if TYPE_CHECKING:
    import numpy as np

    from picardfit.display.plots.style import Look
    from picardfit.fit import Fit
    from picardfit.inference.bands import Bands
    from picardfit.problem.experiment import Experiment

POINTS = 101  # times along an experiment if none are given: enough for a smooth curve
TABLES = {".csv": ",", ".tsv": "\t"}


def predict(
    folder: FitPath = HERE,
    times: Annotated[
        list[str] | None,
        typer.Option(
            help="from:to:count (a whole number), from:to:step (with a decimal point, 0:20:0.5), or a list 0,1,2; "
            "dates where the data have dates; may be repeated. By default 101 times along the data."
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the bands, between 0 and 1.")] = 0.95,
    noise: Annotated[
        bool, typer.Option("--noise", help="Bands in which a new measurement lies, not the true curve.")
    ] = False,
    experiments: Experiments = None,
    observables: Annotated[
        list[str] | None,
        typer.Option(
            "--observables",
            "--observable",
            "-y",
            help="An observable or state to predict; may be repeated. By default all observables.",
        ),
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="A table (.csv, .tsv) or picture (.png, .svg, .pdf) to write; may be repeated. By default the table "
            "goes to standard output."
        ),
    ] = None,
    size: Size = None,
    dpi: Dpi = None,
    log_x: LogX = None,
    log_y: LogY = None,
    style: Style = "screen",
    as_json: AsJson = False,
) -> None:
    """Predict observables of a saved fit at any times, also beyond the data, with confidence bands.

    The table has the columns NAME, NAME_lower and NAME_upper of every observable. Increments count since the row
    before, the first of an experiment since the sample before it, or since t0.
    """
    with complaints(as_json):
        from picardfit.display.plots.axes import check_axes

        if not 0 < level < 1:
            raise InputError("cli.level", level=level)
        look, files = look_of(style, size, dpi, log_x, log_y), list(map(_checked, out or []))
        result, stale = saved_fit(folder)
        if result.solution is None:
            raise InputError("cli.nothing_to_predict", ended=result.conclusion)
        result, banded = with_curves(result), result.problem.random is None and result.status.converged
        names = _names(result, observables or [], noise)
        check_axes(result, look, experiments, names)
        chosen = experiments or result.problem.names
        found = _predictions(result, chosen, times, level, noise, banded)
        remarks = [*stale, *_left_out(result, chosen, found, times), *_held_inputs(result, found)]
        remarks += [*_first_counts(result, names), *_no_bands(result, banded)]
        table = _table(result, found, names)
        for path in files:
            _write(path, result, found, names, table, noise, look)
        if as_json:
            record: dict[str, object] = {"success": result.success, "level": level, "noise": noise}
            record |= {"predictions": _record(found, names), "remarks": remarks}
            print_json({**record, "files": list(map(str, files))})
        else:
            _tell(files, table, remarks)
    raise typer.Exit(0 if result.success else 1)


def _tell(
    files: Sequence[Path], table: tuple[Sequence[str], Sequence[Sequence[object]]], remarks: Sequence[str]
) -> None:
    """Say which files were written, or print the table; then the remarks."""
    if files:
        typer.echo(f"written to {', '.join(map(str, files))}")
    else:
        typer.echo(csv_text(*table), nl=False)
    for remark in remarks:
        typer.echo(f"picardfit: {remark}", err=True)


def _checked(path: Path) -> Path:
    """A path whose ending is that of a table or of a picture, and that can be written."""
    from picardfit.display.plots.style import FORMATS, check_format
    from picardfit.whole_files import regular_target

    if path.suffix.lower() not in TABLES:
        try:
            check_format(path)
        except InputError:
            known = [*TABLES, *(f".{one}" for one in FORMATS)]
            raise InputError("cli.prediction_format", str(path), known=known) from None
    regular_target(path)
    return path


def _names(fit: Fit, wanted: Sequence[str], noise: bool) -> list[str]:
    """The observables, or those and the states that were asked for; noise belongs to observables only."""
    model = fit.problem.model
    known = list(dict.fromkeys([*model.observables, *model.states]))
    for name in wanted:
        if name not in known:
            raise InputError("cli.no_such_observable", name, known=known, close=closest(name, known))
        if noise and name not in model.observables:
            raise InputError("cli.noise_of_state", name, known=list(model.observables))
    return list(dict.fromkeys(wanted)) or list(model.observables)


def _predictions(
    fit: Fit, experiments: Sequence[str], times: Sequence[str] | None, level: float, noise: bool, banded: bool
) -> dict[str, Bands]:
    """The predictions of these experiments, each at the given times or along its data.

    Of several experiments each leaves out the times before its own t0; one that has no other times is left out.
    The first increment begins at the sample before it.
    """
    import numpy as np

    found = {}
    for name, wanted in _times(fit, experiments, times).items():
        one = fit.problem.experiments[fit.problem.names.index(name)]
        earlier = one.times[one.times < wanted.min()][-1:] if fit.problem.model.increments else np.zeros(0)
        at = np.concatenate([earlier, wanted])
        if banded:
            bands = fit.predict(name, at, bands=True, level=level, noise=noise)
        else:
            bands = _without_bands(fit, one, at, level)
        found[name] = bands.since(len(earlier))
    return found


def _times(fit: Fit, experiments: Sequence[str], times: Sequence[str] | None) -> dict[str, np.ndarray]:
    """The times of each experiment: those along its data, or the given ones from its own t0 on.

    Times before t0 stay, to be refused, where no experiment has begun by then.
    """
    import numpy as np

    from picardfit.problem.named_values import experiment_index

    given = {}
    for name in dict.fromkeys(experiments):
        one = fit.problem.experiments[experiment_index(fit.problem, name)]
        if times is None:
            given[name] = np.linspace(one.t0, float(one.times[-1]), POINTS)
        else:
            given[name] = _wanted(times, one)
    begins = {one.name: one.t0 for one in fit.problem.experiments}
    if all((at < begins[name]).any() for name, at in given.items()):
        return given
    return {name: at[at >= begins[name]] for name, at in given.items() if (at >= begins[name]).any()}


def _wanted(times: Sequence[str], one: Experiment) -> np.ndarray:
    """The times that were asked for, as times of an experiment."""
    import numpy as np

    from picardfit.cli.times import TimesText

    return np.concatenate([TimesText(text).of(one) for text in times])


def _left_out(
    fit: Fit, experiments: Sequence[str], found: Mapping[str, Bands], times: Sequence[str] | None
) -> list[str]:
    """Which experiments begin after some of the times that were asked for, or after all of them."""
    from picardfit.display.verdicts import words

    if times is None:
        return []
    chosen = [one for one in fit.problem.experiments if one.name in experiments]
    late = [one.name for one in chosen if (_wanted(times, one) < one.t0).any() and one.name in found]
    none = [one.name for one in chosen if one.name not in found]
    said = [f"times before the beginning of {words(late)} are left out there."] if late else []
    verbs = ("begins", "is") if len(none) == 1 else ("begin", "are")
    after = f"{verbs[0]} after the last of these times, and {verbs[1]}"
    return [
        *said,
        *([f"{words(none)} {after} left out."] if none else []),
    ]


def _first_counts(fit: Fit, names: Sequence[str]) -> list[str]:
    """Since when increments count."""
    counted = [name for name in names if name in fit.problem.model.increments]
    said = f"rows of {', '.join(counted)} count since the row before, the first since the sample before it, or t0."
    return [said] if counted else []


def _no_bands(fit: Fit, banded: bool) -> list[str]:
    """Why there are no bands."""
    why = "these are curves of individuals" if fit.status.converged else "the fit did not converge"
    return [] if banded else [f"{why}, so that there are no bands."]


def _held_inputs(fit: Fit, found: Mapping[str, Bands]) -> list[str]:
    """Which inputs are tables that end before the predictions do, so that their last values hold."""
    from picardfit.display.verdicts import words
    from picardfit.model.inputs import Table

    held = {
        name: None
        for one in fit.problem.experiments
        for name, source in one.signals.items()
        if one.name in found and isinstance(source, Table) and name in fit.problem.model.inputs
        if found[one.name].times.max() > max(one.times[-1], source.times[-1])
    }
    if not held:
        return []
    which = (
        f"the table of {words(list(held))} ends"
        if len(held) == 1
        else f"the tables of {words(list(held))} end"
    )
    return [f"{which} before the predictions do: the last value is held."]


def _without_bands(fit: Fit, one: Experiment, times: np.ndarray, level: float) -> Bands:
    """Curves with bands that are not known, of a fit that did not converge."""
    import numpy as np

    from picardfit.inference.bands import Band, Bands

    nothing = np.full(len(times), np.nan)
    states, observables = (
        {name: Band(values, nothing, nothing, nothing) for name, values in curves.items()}
        for curves in (fit.states(one.name, times), fit.predict(one.name, times))
    )
    return Bands(times, level, states, observables, one.calendar)


def _table(
    fit: Fit, found: Mapping[str, Bands], names: Sequence[str]
) -> tuple[list[str], list[list[object]]]:
    """Header and rows: experiment, date where the data have dates, time, and three columns for every name."""
    dated, rows = any(one.calendar is not None for one in found.values()), []
    for experiment, bands in found.items():
        columns: list[Sequence[object]] = [[experiment] * len(bands.times)]
        if dated:
            calendar = bands.calendar
            columns.append(
                [""] * len(bands.times) if calendar is None else calendar.texts(bands.times, exact=True)
            )
        columns.append(bands.times.tolist())
        for name in names:
            columns += [part.tolist() for part in (bands[name].value, bands[name].low, bands[name].high)]
        rows += [list(row) for row in zip(*columns, strict=True)]
    header = [f"{name}{end}" for name in names for end in ("", "_lower", "_upper")]
    return ["experiment", *(["date"] if dated else []), "time", *header], rows


def _write(
    path: Path,
    fit: Fit,
    found: Mapping[str, Bands],
    names: Sequence[str],
    table: tuple[list[str], list[list[object]]],
    noise: bool,
    look: Look,
) -> None:
    from picardfit.display.plots import plot_predictions
    from picardfit.display.plots.choice import chosen
    from picardfit.whole_files import write_text

    separator = TABLES.get(path.suffix.lower())
    if separator is not None:
        write_text(path, csv_text(*table, separator))
        return
    every = list(found) == list(fit.problem.names)
    choice = chosen(fit, None if every else list(found), look.experiments)
    plot_predictions(fit, found, names, path, choice, noise, look)


def _record(found: Mapping[str, Bands], names: Sequence[str]) -> dict[str, object]:
    """The predictions for JSON."""
    record: dict[str, object] = {}
    for experiment, bands in found.items():
        own: dict[str, object] = {"times": bands.times}
        if bands.calendar is not None:
            own["dates"] = bands.calendar.texts(bands.times, exact=True)
        for name in names:
            own[name] = {"value": bands[name].value, "low": bands[name].low, "high": bands[name].high}
        record[experiment] = own
    return record
