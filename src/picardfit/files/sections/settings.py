"""How to fit, and the true values of simulated data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from picardfit.checks import as_number, as_whole, is_number
from picardfit.errors import Key
from picardfit.files.toml_source import Source, kind_of, schema
from picardfit.inference.population.marginals import Marginal
from picardfit.model.model import Model
from picardfit.search.policy import START_LIMITS
from picardfit.solvers.gauss_newton.method import LiftedGaussNewton
from picardfit.solvers.picard_gradient.algorithms import (
    ExtendedGradientContractMultiplier,
    GradientContractive,
    GradientContractMultiplier,
    GradientDescent,
)

FileMethod = (
    LiftedGaussNewton
    | GradientDescent
    | GradientContractive
    | GradientContractMultiplier
    | ExtendedGradientContractMultiplier
)
METHODS: Mapping[str, type] = {
    "lifted-gauss-newton": LiftedGaussNewton,
    "gradient-descent": GradientDescent,
    "gradient-contractive": GradientContractive,
    "gradient-contract-multiplier": GradientContractMultiplier,
    "extended-gradient-contract-multiplier": ExtendedGradientContractMultiplier,
}


@dataclass(frozen=True)
class Limits:
    """The largest values that a file may ask for (chosen); larger ones are typing errors: the fit would never end."""

    nodes: int = 100
    polish_nodes: int = 100
    segments: int = 100_000
    order: int = 1000
    whole: int = 2**31 - 1  # of seed, workers, max_iterations: NumPy's seeds and C integers hold no more


LIMITS = Limits()


@dataclass(frozen=True)
class FitSettings:
    """How to fit: the section [fit] of a problem file."""

    method: FileMethod = field(default_factory=LiftedGaussNewton)
    starts: int = 1
    seed: int = 0
    workers: int = 1
    level: float = 0.95
    start: dict[str, float] = field(default_factory=dict)
    start_initial: dict[str, float] = field(default_factory=dict)
    marginal: Marginal | None = None  # of the section [random]


def read_truth(
    source: Source,
    content: Mapping[str, object],
    model: Model | None,
    parameters: Collection[str],
    experiments: list[str],
) -> dict[str, dict] | None:
    """{"parameters": {...}, "initial": {experiment: {...}}} as Problem takes it."""
    if "truth" not in content:
        return None
    key: Key = ("truth", "initial")
    table = source.known(("truth",), content["truth"], ("parameters", "initial"))
    names = parameters if model is None else [*model.parameters, *parameters]
    values = _numbers(source, ("truth", "parameters"), table.get("parameters"), names)
    initial = source.table(key, table.get("initial"))
    states = None if model is None else model.states
    own = {name: value for name, value in initial.items() if isinstance(value, dict)}
    others = {name: value for name, value in initial.items() if name not in own}
    shared = _numbers(source, key, others, states, "files.not_a_state")
    by_experiment = {name: dict(shared) for name in experiments or own}
    for name, value in own.items():
        if name not in by_experiment:
            source.unknown((*key, name), "files.unknown_experiment", name, experiments)
        else:
            by_experiment[name] |= _numbers(source, (*key, name), value, states, "files.not_a_state")
    return {"parameters": values, "initial": by_experiment}


def _numbers(
    source: Source,
    key: Key,
    given: object,
    known: Collection[str] | None,
    unknown: str = "files.not_a_parameter",
) -> dict[str, float]:
    """A table of numbers under known names; `name[experiment]` is a value in one experiment.

    `unknown`: the code of the fault that a name is not known; None for `known` allows any name.
    """
    found: dict[str, float] = {}
    for name, value in source.table(key, given).items():
        here = (*key, name)
        if known is not None and name.split("[")[0] not in known:
            source.unknown(here, unknown, name, known)
        elif isinstance(value, list | dict) and unknown == "files.not_a_parameter":
            source.fault(here, "files.not_one_number", name, kind=kind_of(value))
        elif (number := source.attempt(here, as_number, value, "value", name)) is not None:
            found[name] = number
    return found


def read_settings(
    source: Source, content: Mapping[str, object], model: Model | None, parameters: Collection[str]
) -> FitSettings:
    """The section [fit]; the defaults where it is wrong, with faults."""
    before = len(source.faults)
    table = source.known(("fit",), content.get("fit"), schema()["properties"]["fit"]["properties"])
    counts = {
        name: _count(source, ("fit", name), table[name], least=0 if name == "seed" else 1)
        for name in ("starts", "seed", "workers", "max_iterations")
        if name in table
    }
    level = table.get("level", FitSettings.level)
    if not is_number(level) or not 0 < level < 1:
        source.fault(("fit", "level"), "files.level", value=level)
    names, states = (None, None) if model is None else (parameters, model.states)
    start = _numbers(source, ("fit", "start"), table.get("start"), names)
    initial = table.get("start_initial")
    start_initial = _numbers(source, ("fit", "start_initial"), initial, states, "files.not_a_state")
    limit = counts.pop("max_iterations", None)
    method = None if len(source.faults) > before else _method(source, table, limit)
    if method is None:
        return FitSettings()
    whole: dict[str, Any] = {str(name): number for name, number in counts.items() if number is not None}
    return FitSettings(
        method, level=as_number(level, "level"), start=start, start_initial=start_initial, **whole
    )


def _count(source: Source, key: Key, value: object, least: int) -> int | None:
    number = source.attempt(key, as_whole, value, str(key[-1]), least, max(least, 1))
    most = START_LIMITS.most if key[-1] == "starts" else LIMITS.whole
    if number is not None and number > most:
        source.fault(key, "files.too_many", str(key[-1]), value=value, most=most)
    return number


def _method(source: Source, table: Mapping[str, object], max_iterations: int | None) -> FileMethod | None:
    name = table.get("method", "lifted-gauss-newton")
    if not isinstance(name, str) or name not in METHODS:
        source.unknown(("fit", "method"), "files.unknown_method", str(name), METHODS)
        return None
    before, kind, key = len(source.faults), METHODS[name], ("fit", "settings")
    simple = ("int", "float", "bool", "float | None", "int | None")
    settings = source.known(key, table.get("settings"), [o.name for o in fields(kind) if o.type in simple])
    for limited in fields(LIMITS):
        value, most = settings.get(limited.name), getattr(LIMITS, limited.name)
        if is_number(value) and value > most:
            source.fault((*key, limited.name), "files.too_many", limited.name, value=value, most=most)
    if len(source.faults) > before:
        return None
    if max_iterations is not None:
        settings["max_iterations"] = max_iterations
    return source.attempt(key, kind, **settings)
