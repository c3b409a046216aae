"""The section [time] of a problem file: unit, origin and order of dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from picardfit.files.time_column import ALL, TimeSettings
from picardfit.files.toml_source import Source, schema
from picardfit.model.inputs import Input, Table
from picardfit.problem.calendar import Calendar, as_order, as_unit, known_unit
from picardfit.problem.experiment import Experiment

SECTION = "time"


def read_time(source: Source, content: Mapping[str, object]) -> TimeSettings:
    """The settings of [time]; where it names no unit, dates count in that of t in [units]."""
    table = source.known((SECTION,), content.get(SECTION), schema()["properties"][SECTION]["properties"])
    units = content.get("units")
    model_unit = units.get("t") if isinstance(units, dict) else None
    own = known_unit(model_unit) if isinstance(model_unit, str) else None
    unit, order, origin = table.get("unit"), table.get("date_order"), table.get("origin", ALL)
    found = TimeSettings(
        unit=own if unit is None else source.attempt((SECTION, "unit"), as_unit, unit),
        order=source.attempt((SECTION, "date_order"), as_order, order),
        origin=source.attempt((SECTION, "origin"), lambda: TimeSettings.of(None, origin, None).origin) or ALL,
    )
    if unit is not None and isinstance(model_unit, str) and found.unit and found.unit != own:
        source.fault((SECTION, "unit"), "files.units_differ", str(unit), other=model_unit)
    return found


def date_of(given: object, calendar: Calendar | None) -> float | date:
    """A date of a problem file, of TOML or as text, as a time of the calendar; without one it stays a date."""
    return Calendar(given).start if calendar is None else float(calendar.times([given])[0])


def common_origin(experiments: Sequence[Experiment], settings: TimeSettings) -> list[Experiment]:
    """The experiments of several files in one calendar, that of the first date of all, where that is wanted."""
    calendars = [one.calendar for one in experiments if one.calendar is not None]
    if settings.origin != ALL or not calendars:
        return list(experiments)
    first = min(calendars, key=lambda one: (bool(one.zone), one.origin))
    return [one if one.calendar is None else _moved(one, one.calendar, first) for one in experiments]


def _moved(one: Experiment, own: Calendar, other: Calendar) -> Experiment:
    """The experiment with its times, and those of its tables of inputs, in another calendar."""
    if own == other or bool(own.zone) != bool(other.zone):
        return one
    shift = float(other.times([own.start])[0])
    inputs = {name: _shifted(signal, shift) for name, signal in one.inputs.items()}
    lines = None if one.lines is None else one.lines.shifted(shift)
    times, t0 = one.times + shift, one.t0 + shift
    return replace(one, times=times, t0=t0, inputs=inputs, calendar=other, lines=lines)


def _shifted(signal: Input, shift: float) -> Input:
    return Table(signal.times + shift, signal.values, signal.kind) if isinstance(signal, Table) else signal
