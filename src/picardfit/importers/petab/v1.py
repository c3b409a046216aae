"""PEtab version 1: the tables that its YAML file names."""

from __future__ import annotations

import re
from dataclasses import replace

from picardfit.errors import InputError
from picardfit.importers.petab.files import Listing, Row, Value, as_value
from picardfit.importers.petab.tables import (
    Condition,
    MeasurementRow,
    ObservableRow,
    ParameterRow,
    Run,
    Tables,
    all_measurements,
    listed_name,
    measurement_row,
    observable_row,
    one_model,
    parameter_row,
    prior_numbers,
)

SCALES = ("lin", "log", "log10")


def first_version(listed: Listing) -> Tables:
    """The tables of a problem in version 1."""
    problems = listed.content.get("problems")
    if not isinstance(problems, list) or len(problems) != 1 or not isinstance(problems[0], dict):
        raise listed.at(InputError("importers.not_one_problem"), "problems")
    own = listed.inside(("problems", 0), problems[0])
    parameters = listed.table("parameter", "parameter_file", ("parameterId", "parameterScale", "estimate"))
    conditions = own.table("condition", "condition_files", ("conditionId",))
    observables = own.table("observable", "observable_files", ("observableId", "observableFormula"))
    columns = ("observableId", "simulationConditionId", "measurement", "time")
    measurements = own.table("measurement", "measurement_files", columns)
    observed = {name: _observable(name, row) for name, row in observables.by("observableId").items()}
    known = {name: _condition(row) for name, row in conditions.by("conditionId").items()}
    measured, frame, without = all_measurements(
        measurements, [_measurement(row, observed, known) for row in measurements.rows]
    )
    document, model_file = one_model([(own, "sbml_files")], own)
    return Tables(
        name=listed.path.stem,
        document=document,
        model_file=model_file,
        parameters={name: _parameter(name, row) for name, row in parameters.by("parameterId").items()},
        conditions=known,
        observables=observed,
        measurements=measured,
        frames={"parameters": parameters.frame, "measurements": frame},
        without_number=without,
        ignored=(*listed.ignored(), *own.ignored()),
    )


def _parameter(name: str, row: Row) -> ParameterRow:
    scale = row.choice("parameterScale", SCALES, "lin")
    estimate = row.number("estimate")
    if estimate not in (0.0, 1.0):
        raise row.at(InputError("importers.estimate", name, text=row.text("estimate")))
    (prior, numbers), (drawn, first) = (_prior(row, kind) for kind in ("objective", "initialization"))
    found = parameter_row(row, name, scale, scale != "lin", bool(estimate), prior, numbers)
    return replace(found, start_prior=drawn, start_parameters=prior_numbers(row, name, first))


def _prior(row: Row, kind: str) -> tuple[str, tuple[Value, ...]]:
    """Type and parameters of a prior; parameters without a type are those of a parameterScaleUniform."""
    numbers = row.values(f"{kind}PriorParameters")
    return row.text(f"{kind}PriorType", "parameterScaleUniform" if numbers else ""), numbers


def _observable(name: str, row: Row) -> ObservableRow:
    transformation = row.choice("observableTransformation", SCALES, "lin")
    distribution = row.choice("noiseDistribution", ("normal", "laplace"), "normal")
    holders = [_holders(kind, name, row.text(f"{kind}Formula")) for kind in ("observable", "noise")]
    return observable_row(row, name, transformation, distribution, holders)


def _holders(kind: str, name: str, formula: str) -> tuple[str, ...]:
    """observableParameter1_<id>, ... up to the largest number in a formula."""
    found = re.findall(rf"\b{kind}Parameter(\d+)_{re.escape(name)}\b", formula)
    return tuple(f"{kind}Parameter{n}_{name}" for n in range(1, max(map(int, found), default=0) + 1))


def _condition(row: Row) -> Condition:
    columns = (column for column in row.cells if column not in ("conditionId", "conditionName"))
    return Condition(row, {entity: as_value(text) for entity in columns if (text := row.text(entity))})


def _measurement(
    row: Row, observables: dict[str, ObservableRow], conditions: dict[str, Condition]
) -> MeasurementRow | None:
    row.required("simulationConditionId")
    condition = listed_name(row, "simulationConditionId", conditions, "condition")
    before = None
    if row.text("preequilibrationConditionId"):
        before = listed_name(row, "preequilibrationConditionId", conditions, "condition")
    return measurement_row(row, observables, Run(before, condition))
