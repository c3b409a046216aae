"""PEtab version 2: experiments of one period, or of a pre-equilibration and a period, as the records of version 1."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from picardfit.errors import InputError
from picardfit.importers.petab.files import Listing, Row, as_value
from picardfit.importers.petab.tables import (
    Condition,
    ObservableRow,
    ParameterRow,
    Tables,
    all_measurements,
    listed_name,
    measurement_row,
    observable_row,
    one_model,
    parameter_row,
)

if TYPE_CHECKING:
    import libsbml

DISTRIBUTIONS = {
    "normal": ("lin", "normal"),
    "laplace": ("lin", "laplace"),
    "log-normal": ("log", "normal"),
    "log-laplace": ("log", "laplace"),
}
PRIORS = {
    "uniform": "uniform",
    "normal": "normal",
    "laplace": "laplace",
    "log-normal": "logNormal",
    "log-laplace": "logLaplace",
    "log-uniform": "logUniform",
    "cauchy": "cauchy",
    "gamma": "gamma",
    "exponential": "exponential",
    "chi-squared": "chiSquared",
}
AS_IS = "the model as it is"


def second_version(listed: Listing, wide: float = 100.0) -> Tables:
    """The tables of a problem in version 2.

    `wide`: a parameter whose positive bounds are this factor or more apart is searched in its logarithm, because
    version 2 has no parameterScale; two decades are where a linear search begins to neglect the lower one.
    """
    if listed.files("mapping_files"):
        raise listed.at(InputError("importers.mapping_table"), "mapping_files")
    parameters = listed.table("parameter", "parameter_files", ("parameterId", "estimate"))
    columns = ("observableId", "observableFormula", "noiseFormula")
    observables = listed.table("observable", "observable_files", columns)
    measurements = listed.table("measurement", "measurement_files", ("observableId", "measurement", "time"))
    document, model_file = one_model(_model_files(listed), listed)
    conditions, experiments = _runs(listed, document)
    observed = {name: _observable(name, row) for name, row in observables.by("observableId").items()}
    records = []
    for row in measurements.rows:
        name = AS_IS
        if row.text("experimentId"):
            name = listed_name(row, "experimentId", experiments, "experiment")
        records.append(measurement_row(row, observed, *experiments[name]))
    measured, frame = all_measurements(measurements, records)
    return Tables(
        name=listed.path.stem,
        document=document,
        model_file=model_file,
        parameters={name: _parameter(name, row, wide) for name, row in parameters.by("parameterId").items()},
        conditions=conditions,
        observables=observed,
        measurements=measured,
        frames={"parameters": parameters.frame, "measurements": frame},
    )


def _model_files(listed: Listing) -> list[tuple[Listing, str]]:
    """The entries that name the files of models."""
    models = listed.content.get("model_files") or {}
    if not isinstance(models, dict) or not all(isinstance(one, dict) for one in models.values()):
        raise listed.at(InputError("importers.model_files"), "model_files")
    for name, one in models.items():
        if one.get("language") != "sbml":
            language = str(one.get("language") or "no language")
            error = InputError("importers.model_language", str(name), language=language)
            raise listed.at(error, "model_files", str(name))
    return [(listed.inside(("model_files", str(name)), one), "location") for name, one in models.items()]


def _parameter(name: str, row: Row, wide: float) -> ParameterRow:
    estimated = row.choice("estimate", ("true", "false", "True", "False"), "true").lower() == "true"
    prior = row.choice("priorDistribution", ("", *PRIORS), "")
    lower, upper = row.number("lowerBound"), row.number("upperBound")
    log = lower is not None and upper is not None and 0 < lower * wide <= upper < inf
    numbers = row.values("priorParameters")
    return parameter_row(row, name, "lin", log, estimated, PRIORS.get(prior, ""), numbers)


def _observable(name: str, row: Row) -> ObservableRow:
    kinds = DISTRIBUTIONS[row.choice("noiseDistribution", DISTRIBUTIONS, "normal")]
    holders = [
        tuple(piece.strip() for piece in row.text(column).split(";") if piece.strip())
        for column in ("observablePlaceholders", "noisePlaceholders")
    ]
    return observable_row(row, name, *kinds, holders)


def _runs(
    listed: Listing, document: libsbml.SBMLDocument
) -> tuple[dict[str, Condition], dict[str, tuple[str | None, str]]]:
    """The conditions of all periods, and experiment -> its conditions of pre-equilibration (or None) and simulation."""
    conditions = _conditions(listed)
    merged_conditions: dict[str, Condition] = {AS_IS: Condition(None, {})}
    experiments: dict[str, tuple[str | None, str]] = {AS_IS: (None, AS_IS)}
    periods: dict[str, dict[float, tuple[Row, list[str]]]] = {}  # experiment -> begin -> its conditions
    columns = ("experimentId", "time", "conditionId")
    for row in listed.optional_rows("experiment", "experiment_files", columns):
        experiment, time = row.text("experimentId"), row.number("time")
        if time is None or time not in (-inf, 0.0):
            given = row.text("time", "nothing")
            raise row.at(InputError("importers.period", experiment, time=given))
        _, ids = periods.setdefault(experiment, {}).setdefault(time, (row, []))
        if row.text("conditionId"):
            ids.append(listed_name(row, "conditionId", conditions, "condition"))
    for experiment, found in periods.items():
        merged = {time: _merged(row, ids, conditions, experiment) for time, (row, ids) in found.items()}
        before = None
        if -inf in merged:  # what a pre-equilibration set stays set, except for what changes by itself
            before = " and ".join(found[-inf][1]) or AS_IS
            merged_conditions[before] = merged[-inf]
            kept = {n: v for n, v in merged[-inf].values.items() if not _moves(n, document)}
            later = merged.get(0.0, Condition(merged[-inf].source, {}))
            merged[0.0] = Condition(later.source, kept | later.values)
        name = experiment
        while name in merged_conditions:
            name += "_"
        merged_conditions[name] = merged[0.0]
        experiments[experiment] = (before, name)
    return merged_conditions, experiments


def _merged(row: Row, ids: list[str], conditions: dict[str, Condition], experiment: str) -> Condition:
    """The conditions of one period together; `row`: the first row of the period."""
    found = Condition(conditions[ids[0]].source if ids else row, {})
    for one in ids:
        twice = found.values.keys() & conditions[one].values.keys()
        if twice:
            raise row.at(InputError("importers.set_twice", experiment, names=sorted(twice)))
        found.values.update(conditions[one].values)
    return found


def _conditions(listed: Listing) -> dict[str, Condition]:
    found: dict[str, Condition] = {}
    columns = ("conditionId", "targetId", "targetValue")
    for row in listed.optional_rows("condition", "condition_files", columns):
        condition, target, value = (row.required(column) for column in columns)
        found.setdefault(condition, Condition(row, {})).values[target] = as_value(value)
    return found


def _moves(name: str, document: libsbml.SBMLDocument) -> bool:
    """Whether something of the model changes by itself, so that a pre-equilibration moves it."""
    model = document.getModel()
    rule = model.getRuleByVariable(name)
    return model.getSpecies(name) is not None or (rule is not None and rule.isRate())
