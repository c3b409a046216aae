"""How to fit, and the true values of simulated data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields

from picardfit.checks import as_number, as_whole, is_number
from picardfit.errors import InputError, Key, closest
from picardfit.files.toml_source import Source, kind_of, schema
from picardfit.model.model import Model
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
    """The largest values that a file may ask for; larger ones are typing errors, and the fit would never end."""

    nodes: int = 100
    polish_nodes: int = 100
    segments: int = 100_000
    order: int = 1000
    whole: int = (
        2**31 - 1
    )  # of starts, seed, workers and max_iterations: what NumPy's seeds and C integers hold


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
    table = source.known(("truth",), source.table(("truth",), content["truth"]), ("parameters", "initial"))
    names = parameters if model is None else [*model.parameters, *parameters]
    values = _numbers(source, ("truth", "parameters"), table.get("parameters"), names, "parameter")
    initial = source.table(("truth", "initial"), table.get("initial"))
    states = None if model is None else model.states
    own = {name: value for name, value in initial.items() if isinstance(value, dict)}
    given = {name: value for name, value in initial.items() if name not in own}
    shared = _numbers(source, ("truth", "initial"), given, states, "state")
    by_experiment = {name: dict(shared) for name in experiments or own}
    for name, value in own.items():
        key = ("truth", "initial", name)
        if experiments and name not in experiments:
            close = closest(name, experiments)
            source.fault(key, "files.unknown_experiment", name, known=experiments, close=close)
            continue
        by_experiment[name] |= _numbers(source, key, value, states, "state")
    return {"parameters": values, "initial": by_experiment}


def _numbers(
    source: Source, key: Key, given: object, known: Collection[str] | None, kind: str
) -> dict[str, float]:
    """A table of numbers under known names; `name[experiment]` is a value in one experiment."""
    found: dict[str, float] = {}
    for name, value in source.table(key, given).items():
        here = (*key, name)
        if known is not None and name.split("[")[0] not in known:
            code = "files.not_a_parameter" if kind == "parameter" else "files.not_a_state"
            source.fault(here, code, name, known=list(known), close=closest(name, known))
        elif isinstance(value, list | dict) and kind == "parameter":
            source.fault(here, "files.not_one_number", name, kind=kind_of(value))
        else:
            number = source.attempt(here, as_number, value, f"value of `{name}`")
            found |= {} if number is None else {name: number}
    return found


def read_settings(
    source: Source, content: Mapping[str, object], model: Model | None, parameters: Collection[str]
) -> FitSettings:
    """The section [fit]; the defaults where it is wrong, with faults."""
    key = ("fit",)
    table = source.known(
        key, source.table(key, content.get("fit")), schema()["properties"]["fit"]["properties"]
    )
    before = len(source.faults)
    whole = {name: table[name] for name in ("starts", "seed", "workers", "max_iterations") if name in table}
    for name, value in whole.items():
        _check_whole(source, (*key, name), value, least=0 if name == "seed" else 1)
    level = table.get("level", FitSettings.level)
    if not is_number(level) or not 0 < level < 1:
        source.fault((*key, "level"), "files.level", value=level)
    names = None if model is None else parameters
    start = _numbers(source, (*key, "start"), table.get("start"), names, "parameter")
    states = None if model is None else model.states
    start_initial = _numbers(source, (*key, "start_initial"), table.get("start_initial"), states, "state")
    limit = whole.pop("max_iterations", None)
    method = None if len(source.faults) > before else _method(source, table, limit)
    if len(source.faults) > before or method is None:
        return FitSettings()
    return FitSettings(
        method,
        level=as_number(level, "level"),
        start=start,
        start_initial=start_initial,
        **{name: as_whole(value, name, 0) for name, value in whole.items()},
    )


def _check_whole(source: Source, key: Key, value: object, least: int) -> None:
    number = source.attempt(key, as_whole, value, str(key[-1]), least, max(least, 1))
    if number is not None and number > LIMITS.whole:
        source.fault(key, "files.too_many", str(key[-1]), value=value, most=LIMITS.whole)


def _method(source: Source, table: Mapping[str, object], max_iterations: object) -> FileMethod | None:
    name = table.get("method", "lifted-gauss-newton")
    if not isinstance(name, str) or name not in METHODS:
        close = closest(str(name), METHODS)
        source.fault(("fit", "method"), "files.unknown_method", str(name), known=list(METHODS), close=close)
        return None
    kind, key = METHODS[name], ("fit", "settings")
    simple = [
        one.name for one in fields(kind) if one.type in ("int", "float", "bool", "float | None", "int | None")
    ]
    settings = source.known(key, source.table(key, table.get("settings")), simple)
    for limited in fields(LIMITS):
        value, most = settings.get(limited.name), getattr(LIMITS, limited.name)
        if is_number(value) and value > most:
            source.fault((*key, limited.name), "files.too_many", limited.name, value=value, most=most)
            return None
    if max_iterations is not None:
        settings["max_iterations"] = max_iterations
    only_limit = not settings.keys() - {"max_iterations"}
    try:
        return kind(**settings)
    except InputError as error:
        source.complain(error, ("fit", "max_iterations") if only_limit else key)
        return None
