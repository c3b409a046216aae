"""The tables of a PEtab problem as plain records, checked; version 1 is read here, version 2 in petab_v2.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite, isinf
from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.errors import InputError, did_you_mean
from picardfit.importers.petab.files import Listing, Row, Sheet, Value, as_value, read_listing
from picardfit.importers.sbml import read_document, valid_model

if TYPE_CHECKING:
    import libsbml
    import pandas as pd

SCALES = ("lin", "log", "log10")
DISTRIBUTIONS = ("normal", "laplace")


@dataclass(frozen=True)
class ParameterRow:
    where: str
    name: str
    scale: str
    log: bool  # whether it is searched in its logarithm
    lower: float
    upper: float
    nominal: float | None
    estimated: bool
    prior: str  # objectivePriorType, empty if none
    prior_parameters: tuple[float, ...]


@dataclass(frozen=True)
class ObservableRow:
    where: str
    name: str
    formula: str
    noise: str
    transformation: str
    distribution: str
    observable_holders: tuple[str, ...]  # placeholders in the formula
    noise_holders: tuple[str, ...]  # and in that of the noise


@dataclass(frozen=True)
class MeasurementRow:
    where: str
    observable: str
    before: str | None  # condition of the pre-equilibration
    condition: str
    time: float  # inf: when the system has come to rest
    value: float
    observable_parameters: tuple[Value, ...]
    noise_parameters: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Tables:
    """Everything a PEtab problem says; `frames` are the tables as they were read, to write results beside."""

    name: str
    document: libsbml.SBMLDocument
    model_file: str
    parameters: dict[str, ParameterRow]
    conditions: dict[str, dict[str, Value]]  # condition -> entity -> value; empty cells left out
    observables: dict[str, ObservableRow]
    measurements: tuple[MeasurementRow, ...]
    frames: dict[str, pd.DataFrame]


def read_tables(path: str | Path) -> Tables:
    """The tables that a PEtab YAML file names."""
    from picardfit.importers.petab.v2 import second_version

    listed = read_listing(path)
    version = listed.version.split(".")[0]
    if version not in ("1", "2"):
        raise InputError(
            f"`{listed.path}` has format_version {listed.version or 'none'}: PEtab versions 1 and 2 are read."
        )
    try:
        return _first_version(listed) if version == "1" else second_version(listed)
    except InputError as error:
        raise InputError(f"`{listed.path.name}`: {error}") from None


def _first_version(listed: Listing) -> Tables:
    problems = listed.content.get("problems")
    if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
        raise InputError("it does not hold exactly one problem: split it into one file for each.")
    own = problems[0]
    parameters = listed.sheet(
        "parameter", listed.files("parameter_file"), ("parameterId", "parameterScale", "estimate")
    )
    conditions = listed.sheet("condition", listed.files("condition_files", own), ("conditionId",))
    observables = listed.sheet(
        "observable", listed.files("observable_files", own), ("observableId", "observableFormula")
    )
    measurements = listed.sheet(
        "measurement",
        listed.files("measurement_files", own),
        ("observableId", "simulationConditionId", "measurement", "time"),
    )
    observed = {name: _observable(name, row) for name, row in observables.by("observableId").items()}
    known = {name: _condition(row) for name, row in conditions.by("conditionId").items()}
    measured, frame = all_measurements(
        measurements, [_measurement(row, observed, known) for row in measurements.rows]
    )
    document, model_file = one_model(listed.files("sbml_files", own))
    return Tables(
        name=listed.path.stem,
        document=document,
        model_file=model_file,
        parameters={name: _parameter(name, row) for name, row in parameters.by("parameterId").items()},
        conditions=known,
        observables=observed,
        measurements=measured,
        frames={"parameters": parameters.frame, "measurements": frame},
    )


def one_model(paths: list[Path]) -> tuple[libsbml.SBMLDocument, str]:
    """The only model of a problem, and the name of its file."""
    if len(paths) != 1:
        raise InputError(f"it names {len(paths)} SBML files: only problems with one SBML model are read.")
    path = paths[0]
    if not path.is_file():
        raise InputError(f"there is no model file `{path}`: correct its name, or add it.")
    document = read_document(path)
    valid_model(document, f"`{path.name}`")
    return document, path.name


def all_measurements(
    sheet: Sheet, rows: list[MeasurementRow | None]
) -> tuple[tuple[MeasurementRow, ...], pd.DataFrame]:
    """The rows with a number, and the same rows of the table."""
    found = tuple(row for row in rows if row is not None)
    if not found:
        raise InputError(f"the measurement table ({sheet.files}) holds no number: add measurements.")
    return found, sheet.frame[[row is not None for row in rows]]


def _parameter(name: str, row: Row) -> ParameterRow:
    scale = row.choice("parameterScale", SCALES, "lin")
    estimate = row.number("estimate")
    if estimate not in (0.0, 1.0):
        raise InputError(f"{row.where}: estimate of `{name}` is `{row.text('estimate')}`: write 0 or 1.")
    prior, numbers = row.text("objectivePriorType"), row.values("objectivePriorParameters")
    return parameter_row(row, name, scale, scale != "lin", bool(estimate), prior, numbers)


def parameter_row(
    row: Row, name: str, scale: str, log: bool, estimated: bool, prior: str, numbers: tuple[Value, ...]
) -> ParameterRow:
    """A parameter with its bounds and nominal value, which both versions write in the same way."""
    lower, upper, nominal = (row.number(key) for key in ("lowerBound", "upperBound", "nominalValue"))
    if estimated and (lower is None or upper is None):
        raise InputError(
            f"{row.where}: the parameter `{name}` has no bounds: fill in lowerBound and upperBound."
        )
    if estimated and not lower <= upper:
        raise InputError(f"{row.where}: lowerBound of `{name}` is above its upperBound: exchange them.")
    if estimated and scale != "lin" and not lower > 0:
        raise InputError(
            f"{row.where}: lowerBound of `{name}` is {lower:g} on a logarithmic scale: write a positive number."
        )
    if not estimated and nominal is None:
        raise InputError(f"{row.where}: the fixed parameter `{name}` has no value: fill in nominalValue.")
    if nominal is not None and not isfinite(nominal):
        raise InputError(f"{row.where}: nominalValue of `{name}` is {nominal}: write a finite number.")
    if not all(isinstance(n, float) for n in numbers):
        raise InputError(f"{row.where}: the numbers of the prior of `{name}` are not numbers: correct them.")
    bounds = (0.0 if lower is None else lower, 0.0 if upper is None else upper)
    return ParameterRow(row.where, name, scale, log, *bounds, nominal, estimated, prior, numbers)


def _observable(name: str, row: Row) -> ObservableRow:
    formula, noise = row.text("observableFormula"), row.text("noiseFormula", "1")
    return observable_row(
        row,
        name,
        row.choice("observableTransformation", SCALES, "lin"),
        row.choice("noiseDistribution", DISTRIBUTIONS, "normal"),
        _holders("observable", name, formula),
        _holders("noise", name, noise),
    )


def _holders(kind: str, name: str, formula: str) -> tuple[str, ...]:
    """observableParameter1_<id>, ... as far as they go in a formula."""
    found = re.findall(rf"\b{kind}Parameter(\d+)_{re.escape(name)}\b", formula)
    return tuple(f"{kind}Parameter{n}_{name}" for n in range(1, max(map(int, found), default=0) + 1))


def observable_row(
    row: Row,
    name: str,
    transformation: str,
    distribution: str,
    first: tuple[str, ...],
    second: tuple[str, ...],
) -> ObservableRow:
    formula = row.text("observableFormula")
    if not formula:
        raise InputError(f"{row.where}: the observable `{name}` has no formula: fill in observableFormula.")
    return ObservableRow(
        row.where, name, formula, row.text("noiseFormula", "1"), transformation, distribution, first, second
    )


def _condition(row: Row) -> dict[str, Value]:
    columns = (column for column in row.cells if column not in ("conditionId", "conditionName"))
    return {entity: as_value(text) for entity in columns if (text := row.text(entity))}


def _measurement(
    row: Row, observables: dict[str, ObservableRow], conditions: dict[str, dict]
) -> MeasurementRow | None:
    before = row.text("preequilibrationConditionId") or None
    condition = row.text("simulationConditionId")
    if not condition:
        raise InputError(f"{row.where}: simulationConditionId is empty: fill it in.")
    for name in (condition, before):
        if name is not None and name not in conditions:
            raise InputError(
                f"{row.where} names the condition `{name}`, which is not in the condition table: add it there."
                + did_you_mean(name, conditions)
            )
    return measurement_row(row, observables, before, condition)


def measurement_row(
    row: Row, observables: dict[str, ObservableRow], before: str | None, condition: str
) -> MeasurementRow | None:
    """A measurement of an observable, which both versions write in the same way; None where there is none."""
    where, observable = row.where, row.text("observableId")
    if observable not in observables:
        raise InputError(
            f"{where} names the observable `{observable}`, which is not in the observable table: add it there."
            + did_you_mean(observable, observables)
        )
    value, time = row.number("measurement"), row.number("time")
    if value is None:
        return None
    if time is None or not isfinite(value) or time < 0:
        raise InputError(
            f"{where} has time {row.text('time') or 'nothing'} and measurement {value}: write finite numbers, "
            f"time from 0 on (or inf for a system at rest)."
        )
    one = observables[observable]
    if one.transformation != "lin" and value <= 0:
        raise InputError(f"{where} is {value:g} on a logarithmic scale: write a positive number.")
    both = [row.values(key) for key in ("observableParameters", "noiseParameters")]
    for values, holders, column in zip(
        both,
        (one.observable_holders, one.noise_holders),
        ("observableParameters", "noiseParameters"),
        strict=True,
    ):
        if len(values) < len(holders):
            raise InputError(
                f"{where}: the observable `{observable}` needs {len(holders)} values in {column}, "
                f"there are {len(values)}: add them, separated by semicolons."
            )
        if any(isinstance(v, float) and not isfinite(v) for v in values):
            raise InputError(f"{where}: {column} is not finite: write finite numbers.")
    if isinf(time) and before is not None:
        raise InputError(
            f"{where} is measured at rest (time inf) after a pre-equilibration, which is not supported: "
            f"remove it, or the pre-equilibration."
        )
    return MeasurementRow(where, observable, before, condition, time, value, *both)
