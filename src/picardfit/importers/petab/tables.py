"""The tables of a PEtab problem as plain, checked records, and the rows that versions 1 and 2 write alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isinf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from picardfit.errors import InputError, closest
from picardfit.importers.petab.files import Listing, PetabTable, Row, Value
from picardfit.importers.sbml import read_document, valid_model

if TYPE_CHECKING:
    import libsbml
    import pandas as pd


@dataclass(frozen=True)
class ParameterRow:
    source: Row
    name: str
    scale: str
    log: bool  # whether it is searched in its logarithm
    lower: float
    upper: float
    nominal: float | None
    estimated: bool
    prior: str  # objectivePriorType, empty if none
    prior_parameters: tuple[float, ...]
    start_prior: str = ""  # initializationPriorType
    start_parameters: tuple[float, ...] = ()
    one_prior: bool = False  # whether starting points are drawn from the prior too, as in version 2

    @property
    def stuck_at_zero(self) -> bool:
        """Whether its nominal value is 0, which a logarithmic scale never reaches: it stays there."""
        return self.estimated and self.scale != "lin" and self.nominal == 0


@dataclass(frozen=True)
class ObservableRow:
    source: Row
    name: str
    formula: str
    noise: str
    transformation: str
    distribution: str
    observable_holders: tuple[str, ...]  # placeholders in the formula
    noise_holders: tuple[str, ...]  # and in that of the noise


class Run(NamedTuple):
    """What makes measurements belong to one experiment of the problem."""

    before: str | None  # condition of the pre-equilibration
    condition: str  # of the first period that is simulated
    steady: bool = False  # whether it is measured at its steady state
    begin: float = 0.0
    later: tuple[tuple[float, str], ...] = ()  # begin and condition of further periods

    @property
    def name(self) -> str:
        begun = self.condition if self.before is None else f"{self.condition} after {self.before}"
        return f"{begun} at rest" if self.steady else begun


@dataclass(frozen=True)
class MeasurementRow:
    source: Row
    observable: str
    run: Run
    time: float  # in the run: an experiment measured at its steady state (time inf) begins there, at 0
    value: float
    observable_parameters: tuple[Value, ...]
    noise_parameters: tuple[Value, ...]


@dataclass(frozen=True)
class Condition:
    """The values that a condition sets, by entity; `source`: its first row, None for the unchanged model."""

    source: Row | None
    values: dict[str, Value]

    def at(self, error: InputError) -> InputError:
        """The error with the file and line of the row that declares the condition."""
        return error if self.source is None else self.source.at(error)


@dataclass(frozen=True, eq=False)
class Tables:
    """All content of a PEtab problem; `frames` are the tables as they were read, to write results beside."""

    name: str
    document: libsbml.SBMLDocument
    model_file: Path
    parameters: dict[str, ParameterRow]
    conditions: dict[str, Condition]
    observables: dict[str, ObservableRow]
    measurements: tuple[MeasurementRow, ...]
    frames: dict[str, pd.DataFrame]
    lasting: bool = False  # whether what a period sets stays set in those after it, as in version 2
    aliases: dict[str, tuple[Row, str]] = field(
        default_factory=dict
    )  # petabEntityId -> its row, modelEntityId
    ignored: tuple[str, ...] = ()  # what does not change the meaning and was not read
    without_number: tuple[Row, ...] = ()  # rows of the measurement table that hold none


def one_model(named: Sequence[tuple[Listing, str]], around: Listing) -> tuple[libsbml.SBMLDocument, Path]:
    """The only model of a problem, and its file; `named`: the entries that name files of models in `around`."""
    paths = [(path, listing, entry) for listing, entry in named for path in listing.files(entry)]
    if len(paths) != 1:
        raise around.at(InputError("importers.not_one_model", count=len(paths)))
    path, listing, entry = paths[0]
    listing.check_file(path, "model file", entry)
    document = read_document(path)
    valid_model(document, path)
    return document, path


def all_measurements(
    table: PetabTable, rows: list[MeasurementRow | None]
) -> tuple[tuple[MeasurementRow, ...], pd.DataFrame, tuple[Row, ...]]:
    """The rows with a number, the same rows of the table, and the others."""
    found = tuple(row for row in rows if row is not None)
    if not found:
        raise InputError("importers.no_measurements")
    without = tuple(row for row, one in zip(table.rows, rows, strict=True) if one is None)
    return found, table.frame[[row is not None for row in rows]], without


def parameter_row(
    row: Row, name: str, scale: str, log: bool, estimated: bool, prior: str, numbers: tuple[Value, ...]
) -> ParameterRow:
    """A parameter with its bounds and nominal value."""
    lower, upper, nominal = (row.number(key) for key in ("lowerBound", "upperBound", "nominalValue"))
    if estimated and (lower is None or upper is None):
        raise row.at(InputError("importers.no_bounds", name))
    lower, upper = lower or 0.0, upper or 0.0
    if estimated and not lower <= upper:
        raise row.at(InputError("importers.bounds_exchanged", name))
    if estimated and scale != "lin" and not lower > 0:
        raise row.at(InputError("importers.lower_bound_on_log_scale", name, value=lower))
    if not estimated and nominal is None:
        raise row.at(InputError("importers.fixed_without_value", name))
    if nominal is not None and not isfinite(nominal):
        raise row.at(InputError("importers.nominal_not_finite", name, value=nominal))
    hyper = prior_numbers(row, name, numbers)
    return ParameterRow(row, name, scale, log, lower, upper, nominal, estimated, prior, hyper)


def prior_numbers(row: Row, name: str, values: tuple[Value, ...]) -> tuple[float, ...]:
    """The numbers of a prior."""
    found = tuple(n for n in values if isinstance(n, float))
    if len(found) < len(values):
        raise row.at(InputError("importers.prior_numbers", name))
    return found


def observable_row(
    row: Row, name: str, transformation: str, distribution: str, holders: list[tuple[str, ...]]
) -> ObservableRow:
    """An observable; `holders`: the placeholders in its formula and in that of its noise."""
    formula, noise = row.required("observableFormula"), row.text("noiseFormula", "1")
    return ObservableRow(row, name, formula, noise, transformation, distribution, *holders)


def measurement_row(row: Row, observables: dict[str, ObservableRow], run: Run) -> MeasurementRow | None:
    """A measurement of an observable in a run; None where the row holds no number."""
    name = listed_name(row, "observableId", observables, "observable")
    value, time = row.number("measurement"), row.number("time")
    if value is None:
        return None
    if time is None or not isfinite(value) or time == -inf:
        given = row.text("time", "nothing")
        raise row.at(InputError("importers.bad_measurement", name, time=given, value=value))
    if time < run.begin:
        raise row.at(InputError("importers.measured_too_early", name, time=time, begin=run.begin))
    one = observables[name]
    if one.transformation != "lin" and value <= 0:
        raise row.at(InputError("importers.measurement_on_log_scale", name, value=value))
    both = (
        _placeholder_values(row, name, "observableParameters", len(one.observable_holders)),
        _placeholder_values(row, name, "noiseParameters", len(one.noise_holders)),
    )
    if isinf(time) and run.later:
        raise row.at(InputError("importers.rest_after_periods", name))
    run = run._replace(steady=isinf(time))
    return MeasurementRow(row, name, run, run.begin if run.steady else time, value, *both)


def listed_name(row: Row, column: str, known: dict, kind: str) -> str:
    """The name in a cell, which another table must hold."""
    name = row.text(column)
    if name not in known:
        raise row.at(InputError("importers.not_in_table", name, kind=kind, close=closest(name, known)))
    return name


def _placeholder_values(row: Row, observable: str, column: str, needed: int) -> tuple[Value, ...]:
    values = row.values(column)
    numbers = {"column": column, "needed": needed, "given": len(values)}
    if len(values) < needed:
        raise row.at(InputError("importers.too_few_placeholders", observable).with_values(**numbers))
    if len(values) > needed:
        raise row.at(InputError("importers.too_many_placeholders", observable).with_values(**numbers))
    if any(isinstance(value, float) and not isfinite(value) for value in values):
        raise row.at(InputError("importers.placeholder_not_finite", column))
    return values
