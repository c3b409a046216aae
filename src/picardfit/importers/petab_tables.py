"""The tables of a PEtab problem (version 1) as plain records, checked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import isfinite, isinf, isnan
from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.errors import InputError, did_you_mean, listing

if TYPE_CHECKING:
    import libsbml
    import pandas as pd

SCALES = ("lin", "log", "log10")
DISTRIBUTIONS = ("normal", "laplace")

Value = float | str  # a number, or the name of a parameter


@dataclass(frozen=True)
class ParameterRow:
    name: str
    scale: str
    lower: float
    upper: float
    nominal: float | None
    estimated: bool
    prior: str  # objectivePriorType, empty if none
    prior_parameters: tuple[float, ...]


@dataclass(frozen=True)
class ObservableRow:
    name: str
    formula: str
    noise: str
    transformation: str
    distribution: str


@dataclass(frozen=True)
class MeasurementRow:
    observable: str
    before: str | None  # condition of the pre-equilibration
    condition: str
    time: float
    value: float
    observable_parameters: tuple[Value, ...]
    noise_parameters: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Tables:
    """Everything a PEtab problem says; `frames` are the tables as they were read, to write results beside."""

    name: str
    document: libsbml.SBMLDocument
    parameters: dict[str, ParameterRow]
    conditions: dict[str, dict[str, Value]]  # condition -> entity -> value; empty cells left out
    observables: dict[str, ObservableRow]
    measurements: tuple[MeasurementRow, ...]
    frames: dict[str, pd.DataFrame]


def read_tables(path: str | Path) -> Tables:
    """The tables that a PEtab YAML file names."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file `{path}`: give the path of a PEtab YAML file.")
    source = _source(path)
    try:
        return _checked(path, source)
    except InputError as error:
        raise InputError(f"`{path.name}`: {error}") from None


def _source(path: Path):
    try:
        import petab.v1 as petab
    except ImportError:
        raise InputError(
            "PEtab problems need the packages petab and python-libsbml: install them with "
            "pip install 'picardfit[petab]'."
        ) from None
    import yaml

    try:
        content = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"`{path}` is not a YAML file ({error}): give a PEtab YAML file.") from None
    version = str(content.get("format_version", "")) if isinstance(content, dict) else ""
    if not version.startswith("1"):
        raise InputError(
            f"`{path}` has format_version {version or 'none'}: only PEtab version 1 is read; convert it to that."
        )
    if len(content.get("problems", ())) != 1:
        raise InputError(f"`{path}` does not hold exactly one problem: split it into one file for each.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the library about its own use of pandas
            return petab.Problem.from_yaml(str(path))
    except Exception as error:  # whatever the library finds wrong with the files is told
        raise InputError(f"`{path}` could not be read ({error}): correct the file it names.") from error


def _checked(path: Path, source) -> Tables:
    for name, kind in (
        ("parameter_df", "parameter"),
        ("condition_df", "condition"),
        ("observable_df", "observable"),
        ("measurement_df", "measurement"),
    ):
        if getattr(source, name) is None:
            raise InputError(f"the {kind} table is missing: name its file.")
    document = getattr(source.model, "sbml_document", None)
    if document is None:
        raise InputError("the model is not in SBML: only SBML models are read.")
    observables = {str(name): _observable(str(name), row) for name, row in source.observable_df.iterrows()}
    conditions = {str(name): _condition(row) for name, row in source.condition_df.iterrows()}
    rows = [
        _measurement(k, row, observables, conditions)
        for k, (_, row) in enumerate(source.measurement_df.iterrows(), 2)
    ]
    rows = [row for row in rows if row is not None]
    if not rows:
        raise InputError("the measurement table holds no number: add measurements.")
    return Tables(
        name=path.stem,
        document=document,
        parameters={str(name): _parameter(str(name), row) for name, row in source.parameter_df.iterrows()},
        conditions=conditions,
        observables=observables,
        measurements=tuple(rows),
        frames={
            "parameters": source.parameter_df,
            "measurements": source.measurement_df,
            "observables": source.observable_df,
        },
    )


def _parameter(name: str, row: pd.Series) -> ParameterRow:
    scale = _text(row, "parameterScale", "lin")
    if scale not in SCALES:
        raise InputError(f"the parameterScale `{scale}` of `{name}` is not known: use {listing(SCALES)}.")
    estimated = float(row.get("estimate", 1)) != 0
    lower, upper, nominal = (_number(row.get(key)) for key in ("lowerBound", "upperBound", "nominalValue"))
    if estimated and (lower is None or upper is None):
        raise InputError(f"the parameter `{name}` has no bounds: fill in lowerBound and upperBound.")
    if not estimated and nominal is None:
        raise InputError(f"the fixed parameter `{name}` has no value: fill in nominalValue.")
    prior = _text(row, "objectivePriorType", "")
    numbers = [
        _value(piece) for piece in _text(row, "objectivePriorParameters", "").split(";") if piece.strip()
    ]
    if prior and not all(isinstance(n, float) for n in numbers):
        raise InputError(f"the objectivePriorParameters of `{name}` are not numbers: correct them.")
    return ParameterRow(name, scale, lower or 0.0, upper or 0.0, nominal, estimated, prior, tuple(numbers))


def _observable(name: str, row: pd.Series) -> ObservableRow:
    transformation = _text(row, "observableTransformation", "lin")
    distribution = _text(row, "noiseDistribution", "normal")
    if transformation not in SCALES:
        raise InputError(
            f"the observableTransformation `{transformation}` of `{name}` is not known: use {listing(SCALES)}."
        )
    if distribution not in DISTRIBUTIONS:
        raise InputError(
            f"the noiseDistribution `{distribution}` of `{name}` is not known: use {listing(DISTRIBUTIONS)}."
        )
    return ObservableRow(
        name,
        _text(row, "observableFormula", ""),
        _text(row, "noiseFormula", "1"),
        transformation,
        distribution,
    )


def _condition(row: pd.Series) -> dict[str, Value]:
    cells = {str(k): v for k, v in row.items() if k != "conditionName" and not _empty(v)}
    return {entity: _value(cell) for entity, cell in cells.items()}


def _measurement(
    line: int, row: pd.Series, observables: dict[str, ObservableRow], conditions: dict[str, dict]
) -> MeasurementRow | None:
    """One row; None where nothing was measured."""
    where = f"line {line} of the measurement table"
    observable, condition = str(row["observableId"]), str(row["simulationConditionId"])
    before = _text(row, "preequilibrationConditionId", "") or None
    for name, known, kind in (
        (observable, observables, "observable"),
        (condition, conditions, "condition"),
        (before, conditions, "condition"),
    ):
        if name is not None and name not in known:
            raise InputError(
                f"{where} names the {kind} `{name}`, which is not in the {kind} table: add it there."
                + did_you_mean(name, known)
            )
    value, time = _number(row["measurement"]), _number(row["time"])
    if value is None:
        return None
    if time is not None and isinf(time):
        raise InputError(
            f"{where} is a measurement at steady state (time inf), which is not supported: remove it."
        )
    if time is None or not isfinite(value) or time < 0:
        raise InputError(
            f"{where} has time {time} and measurement {value}: write finite numbers, time from 0 on."
        )
    if observables[observable].transformation != "lin" and value <= 0:
        raise InputError(f"{where} is {value:g} on a logarithmic scale: write a positive number.")
    both = [_overrides(row.get(key)) for key in ("observableParameters", "noiseParameters")]
    return MeasurementRow(observable, before, condition, time, value, *both)


def _overrides(cell: object) -> tuple[Value, ...]:
    if _empty(cell):
        return ()
    return tuple(_value(piece) for piece in str(cell).split(";"))


def _value(cell: object) -> Value:
    """A number where the cell is one, else its text."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return str(cell).strip()


def _number(cell: object) -> float | None:
    if _empty(cell):
        return None
    value = _value(cell)
    if not isinstance(value, float):
        raise InputError(f"`{cell}` stands where a number is expected: correct the table.")
    return value


def _text(row: pd.Series, key: str, default: str) -> str:
    cell = row.get(key)
    return default if _empty(cell) else str(cell).strip()


def _empty(cell: object) -> bool:
    return (
        cell is None or (isinstance(cell, float) and isnan(cell)) or str(cell).strip().lower() in ("", "nan")
    )
