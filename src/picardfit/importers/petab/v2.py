"""PEtab version 2: experiments of periods that begin at any time, as the records of version 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from picardfit.errors import InputError
from picardfit.importers.petab.files import Listing, Row, as_value
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
)

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
    "chisquare": "chiSquared",
    "chi-squared": "chiSquared",
    "rayleigh": "rayleigh",
}
AS_IS = "the model as it is"


def second_version(listed: Listing, wide: float = 100.0) -> Tables:
    """The tables of a problem in version 2.

    `wide`: a parameter whose positive bounds are this factor or more apart is searched in its logarithm, because
    version 2 has no parameterScale; two decades are where a linear search begins to neglect the lower one.
    """
    parameters = listed.table("parameter", "parameter_files", ("parameterId", "estimate"))
    columns = ("observableId", "observableFormula", "noiseFormula")
    observables = listed.table("observable", "observable_files", columns)
    measurements = listed.table("measurement", "measurement_files", ("observableId", "measurement", "time"))
    if len(models := _model_files(listed)) > 1:
        names = list(listed.content["model_files"])
        raise listed.at(InputError("importers.several_models", names=names), "model_files")
    for row in measurements.rows:
        row.choice("modelId", ("", *map(str, listed.content.get("model_files") or ())), "")
    document, model_file = one_model(models, listed)
    conditions, experiments = _runs(listed)
    observed = {name: _observable(name, row) for name, row in observables.by("observableId").items()}
    records = _measurements(measurements.rows, observed, experiments)
    measured, frame, without = all_measurements(measurements, records)
    return Tables(
        name=listed.path.stem,
        document=document,
        model_file=model_file,
        parameters={name: _parameter(name, row, wide) for name, row in parameters.by("parameterId").items()},
        conditions=conditions,
        observables=observed,
        measurements=measured,
        frames={"parameters": parameters.frame, "measurements": frame},
        lasting=True,
        aliases=_aliases(listed),
        without_number=without,
        ignored=listed.ignored(),
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
    if numbers and not prior:
        raise row.at(InputError("importers.prior_without_kind", name))
    found = parameter_row(row, name, "lin", log, estimated, PRIORS.get(prior, ""), numbers)
    return replace(found, one_prior=True)


def _observable(name: str, row: Row) -> ObservableRow:
    kinds = DISTRIBUTIONS[row.choice("noiseDistribution", DISTRIBUTIONS, "normal")]
    holders = [
        tuple(piece.strip() for piece in row.text(column).split(";") if piece.strip())
        for column in ("observablePlaceholders", "noisePlaceholders")
    ]
    return observable_row(row, name, *kinds, holders)


def _runs(listed: Listing) -> tuple[dict[str, Condition], dict[str, Run]]:
    """The conditions of all periods, and the run of each experiment."""
    conditions = _conditions(listed)
    merged: dict[str, Condition] = {AS_IS: Condition(None, {})}
    experiments: dict[str, Run] = {AS_IS: Run(None, AS_IS)}
    periods: dict[str, dict[float, tuple[Row, list[str]]]] = {}  # experiment -> begin -> its conditions
    columns = ("experimentId", "time", "conditionId")
    for row in listed.optional_rows("experiment", "experiment_files", columns):
        experiment, time = row.required("experimentId"), row.number("time")
        if time is None or time == inf:
            raise row.at(InputError("importers.period", experiment, time=row.text("time", "nothing")))
        _, ids = periods.setdefault(experiment, {}).setdefault(time, (row, []))
        if row.text("conditionId"):
            ids.append(listed_name(row, "conditionId", conditions, "condition"))
    for experiment, found in periods.items():
        times = sorted(found)
        each = {time: _merged(*found[time], conditions, experiment) for time in times}
        before = None
        if times[0] == -inf:
            before = " and ".join(found[-inf][1]) or AS_IS
            merged[before] = each[-inf]
            times = times[1:]
        first = times[0] if times else 0.0  # after a pre-equilibration alone nothing is set
        source = found[-inf][0] if before else None
        name = _new_name(experiment, merged)
        merged[name] = each[first] if times else Condition(source, {})
        later = []
        for time in times[1:]:
            if each[time].values:
                later.append((time, _new_name(f"{experiment} from {time:g}", merged)))
                merged[later[-1][1]] = each[time]
        experiments[experiment] = Run(before, name, begin=first, later=tuple(later))
    return merged, experiments


def _new_name(name: str, taken: dict[str, Condition]) -> str:
    while name in taken:
        name += "_"
    return name


def _measurements(
    rows: Sequence[Row], observed: dict[str, ObservableRow], experiments: dict[str, Run]
) -> list[MeasurementRow | None]:
    """The measurements; periods that begin after the last one of their experiment are left out."""
    names = []
    last: dict[str, float] = {}
    for row in rows:
        name = AS_IS
        if row.text("experimentId"):
            name = listed_name(row, "experimentId", experiments, "experiment")
        names.append(name)
        last[name] = max(last.get(name, -inf), row.number("time") or 0.0)
    runs = {
        name: experiments[name]._replace(later=tuple(one for one in experiments[name].later if one[0] <= end))
        for name, end in last.items()
    }
    return [measurement_row(row, observed, runs[name]) for row, name in zip(rows, names, strict=True)]


def _aliases(listed: Listing) -> dict[str, tuple[Row, str]]:
    """petabEntityId -> its row and the entity of the model that it stands for; rows without one only give names."""
    columns = ("petabEntityId", "modelEntityId")
    found: dict[str, tuple[Row, str]] = {}
    for row in listed.optional_rows("mapping", "mapping_files", columns):
        name = row.required("petabEntityId")
        if row.text("modelEntityId"):
            if name in found:
                raise row.at(InputError("importers.row_twice", name, kind="mapping"))
            found[name] = row, row.text("modelEntityId")
    return found


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
        values = found.setdefault(condition, Condition(row, {})).values
        if target in values:
            raise row.at(InputError("importers.set_twice", condition, names=[target]))
        values[target] = as_value(value)
    return found
