"""PEtab version 2: experiments of one period, or of a pre-equilibration and a period, as the records of version 1."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.importers.petab.files import Listing, Row, Value, as_value
from picardfit.importers.petab.tables import (
    ObservableRow,
    ParameterRow,
    Tables,
    all_measurements,
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
}
WIDE = 100.0  # a parameter whose bounds are so many times apart is searched in its logarithm
AS_IS = "the model as it is"
Changes = dict[str, Value]


def second_version(listed: Listing) -> Tables:
    if listed.files("mapping_files"):
        raise InputError("it has a mapping table, which is not supported: use the names of the SBML model.")
    parameters = listed.sheet("parameter", listed.files("parameter_files"), ("parameterId", "estimate"))
    observables = listed.sheet(
        "observable", listed.files("observable_files"), ("observableId", "observableFormula", "noiseFormula")
    )
    measurements = listed.sheet(
        "measurement", listed.files("measurement_files"), ("observableId", "measurement", "time")
    )
    document, model_file = one_model(_model_files(listed))
    runs = _runs(listed, document)
    observed = {name: _observable(name, row) for name, row in observables.by("observableId").items()}
    records = []
    for row in measurements.rows:
        name = row.text("experimentId", AS_IS)
        if name not in runs.experiments:
            raise InputError(
                f"{row.where} names the experiment `{name}`, which is not in the experiment table: add it there."
                + did_you_mean(name, runs.experiments)
            )
        records.append(measurement_row(row, observed, *runs.experiments[name]))
    measured, frame = all_measurements(measurements, records)
    return Tables(
        name=listed.path.stem,
        document=document,
        model_file=model_file,
        parameters={name: _parameter(name, row) for name, row in parameters.by("parameterId").items()},
        conditions=runs.conditions,
        observables=observed,
        measurements=measured,
        frames={"parameters": parameters.frame, "measurements": frame},
    )


def _model_files(listed: Listing) -> list:
    models = listed.content.get("model_files") or {}
    if not isinstance(models, dict) or not all(isinstance(one, dict) for one in models.values()):
        raise InputError("model_files does not say language and location of a model: write both.")
    for name, one in models.items():
        if one.get("language") != "sbml":
            raise InputError(
                f"the model `{name}` is in {one.get('language') or 'no language'}: only SBML is read."
            )
    return [path for one in models.values() for path in listed.files("location", one)]


def _parameter(name: str, row: Row) -> ParameterRow:
    estimated = row.choice("estimate", ("true", "false", "True", "False"), "true").lower() == "true"
    prior = row.text("priorDistribution")
    if prior and prior not in PRIORS:
        raise InputError(
            f"{row.where}: the priorDistribution `{prior}` of `{name}` is not supported: use {listing(PRIORS)}."
        )
    lower, upper = row.number("lowerBound"), row.number("upperBound")
    wide = lower is not None and upper is not None and 0 < lower * WIDE <= upper < inf
    numbers = row.values("priorParameters")
    return parameter_row(row, name, "lin", wide, estimated, PRIORS.get(prior, ""), numbers)


def _observable(name: str, row: Row) -> ObservableRow:
    kinds = DISTRIBUTIONS[row.choice("noiseDistribution", tuple(DISTRIBUTIONS), "normal")]
    first, second = (
        tuple(piece.strip() for piece in row.text(column).split(";") if piece.strip())
        for column in ("observablePlaceholders", "noisePlaceholders")
    )
    return observable_row(row, name, *kinds, first, second)


class _Runs:
    """Experiments as pairs of conditions: `experiments`: id -> (pre-equilibration or None, simulation)."""

    def __init__(self) -> None:
        self.conditions: dict[str, Changes] = {AS_IS: {}}
        self.experiments: dict[str, tuple[str | None, str]] = {AS_IS: (None, AS_IS)}


def _runs(listed: Listing, document: libsbml.SBMLDocument) -> _Runs:
    changes = _changes(listed)
    runs = _Runs()
    periods: dict[str, dict[float, tuple[str, list[str]]]] = {}
    paths = listed.files("experiment_files")
    rows = listed.sheet("experiment", paths, ("experimentId", "time", "conditionId")).rows if paths else ()
    for row in rows:
        time, condition = row.number("time"), row.text("conditionId")
        if time is None or time not in (-inf, 0.0):
            raise InputError(
                f"{row.where}: the experiment `{row.text('experimentId')}` has a period from time "
                f"{row.text('time') or 'nothing'} on, which is not supported: only periods from -inf and 0 on are read."
            )
        if condition and condition not in changes:
            raise InputError(
                f"{row.where} names the condition `{condition}`, which is not in the condition table: add it there."
                + did_you_mean(condition, changes)
            )
        _, ids = periods.setdefault(row.text("experimentId"), {}).setdefault(time, (row.where, []))
        ids += [condition] if condition else []
    for experiment, found in periods.items():
        _add(runs, experiment, {time: ids for time, (_, ids) in found.items()}, changes, document)
    return runs


def _add(
    runs: _Runs,
    experiment: str,
    periods: dict[float, list[str]],
    changes: dict[str, Changes],
    document: libsbml.SBMLDocument,
) -> None:
    """An experiment; what a pre-equilibration set stays set, but for what moves by itself."""
    merged = {time: _merged(ids, changes, experiment) for time, ids in periods.items()}
    before = None
    if -inf in merged:
        before = " and ".join(periods[-inf]) or AS_IS
        runs.conditions[before] = merged[-inf]
        kept = {n: v for n, v in merged[-inf].items() if not _moves(n, document)}
        merged[0.0] = kept | merged.get(0.0, {})
    name = experiment
    while name in runs.conditions:
        name += "_"
    runs.conditions[name] = merged[0.0]
    runs.experiments[experiment] = (before, name)


def _merged(ids: list[str], changes: dict[str, Changes], experiment: str) -> Changes:
    found: Changes = {}
    for condition in ids:
        twice = found.keys() & changes[condition].keys()
        if twice:
            raise InputError(
                f"the experiment `{experiment}` sets {listing(sorted(twice))} by two conditions: keep one of them."
            )
        found |= changes[condition]
    return found


def _changes(listed: Listing) -> dict[str, Changes]:
    """condition -> target -> value."""
    found: dict[str, Changes] = {}
    paths = listed.files("condition_files")
    columns = ("conditionId", "targetId", "targetValue")
    for row in listed.sheet("condition", paths, columns).rows if paths else ():
        condition, target, value = (row.text(column) for column in columns)
        if not (condition and target and value):
            raise InputError(f"{row.where}: a cell is empty: fill in {listing(columns)}.")
        found.setdefault(condition, {})[target] = as_value(value)
    return found


def _moves(name: str, document: libsbml.SBMLDocument) -> bool:
    """Whether something of the model changes by itself, so that a pre-equilibration moves it."""
    model = document.getModel()
    rule = model.getRuleByVariable(name)
    return model.getSpecies(name) is not None or (rule is not None and rule.isRate())
