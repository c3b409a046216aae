"""How to fit, and the true values of simulated data."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.files.toml_source import Place, Source, kind_of, schema
from picardfit.model.model import Model
from picardfit.model.parameters import as_number, is_number
from picardfit.solvers.gauss_newton.method import LiftedGaussNewton
from picardfit.solvers.loop import Method
from picardfit.solvers.picard_gradient.algorithms import (
    ExtendedGradientContractMultiplier,
    GradientContractive,
    GradientContractMultiplier,
    GradientDescent,
)

METHODS = {
    "lifted-gauss-newton": LiftedGaussNewton,
    "gradient-descent": GradientDescent,
    "gradient-contractive": GradientContractive,
    "gradient-contract-multiplier": GradientContractMultiplier,
    "extended-gradient-contract-multiplier": ExtendedGradientContractMultiplier,
}
MOST = {"nodes": 100, "polish_nodes": 100, "segments": 100_000, "order": 1000}  # more would never end


@dataclass(frozen=True)
class FitSettings:
    """The section [fit] of a problem file."""

    method: Method = field(default_factory=LiftedGaussNewton)
    starts: int = 1
    seed: int = 0
    workers: int = 1
    level: float = 0.95
    start: dict[str, float] = field(default_factory=dict)
    start_initial: dict[str, float] = field(default_factory=dict)


def read_truth(
    source: Source, content: dict, model: Model | None, parameters: dict, experiments: list[str]
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
    shared = {name: value for name, value in initial.items() if name not in own}
    shared = _numbers(source, ("truth", "initial"), shared, states, "state")
    by_experiment = {name: dict(shared) for name in experiments or own}
    for name, value in own.items():
        if experiments and name not in experiments:
            source.fault(
                ("truth", "initial", name), f"`{name}` is not an experiment ({listing(experiments[:12])})."
            )
            continue
        by_experiment[name] |= _numbers(source, ("truth", "initial", name), value, states, "state")
    return {"parameters": values, "initial": by_experiment}


def _numbers(source: Source, place: Place, given: object, known, kind: str) -> dict[str, float]:
    """A table of numbers under known names."""
    found = {}
    for name, value in source.table(place, given).items():
        if known is not None and name.split("[")[0] not in known:
            hint = did_you_mean(name, known)
            source.fault((*place, name), f"`{name}` is not a {kind} ({listing(known)}).{hint}")
        else:
            if isinstance(value, list | dict) and kind == "parameter":
                source.fault(
                    (*place, name),
                    f"The value of `{name}` is {kind_of(value)}: write one number, or for a local parameter one for "
                    f'each experiment, "{name}[experiment]" = 0.5.',
                )
                continue
            number = source.attempt((*place, name), as_number, value, f"value of `{name}`")
            found |= {} if number is None else {name: number}
    return found


def read_settings(source: Source, content: dict, model: Model | None, parameters: dict) -> FitSettings:
    place = ("fit",)
    table = source.known(
        place, source.table(place, content.get("fit")), schema()["properties"]["fit"]["properties"]
    )
    before = len(source.faults)
    whole = {key: table[key] for key in ("starts", "seed", "workers", "max_iterations") if key in table}
    for key, value in whole.items():
        least = 0 if key == "seed" else 1
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
            source.fault(
                (*place, key),
                f"{key} = {value!r:.40} must be a whole number from {least} on: write for example "
                f"{key} = {max(least, 1)}.",
            )
    level = table.get("level", 0.95)
    if not is_number(level) or not 0 < level < 1:
        source.fault(
            (*place, "level"), f"level = {level!r:.40} must be a number between 0 and 1, such as 0.95."
        )
    names = None if model is None else parameters
    start = _numbers(source, (*place, "start"), table.get("start"), names, "parameter")
    states = None if model is None else model.states
    start_initial = _numbers(source, (*place, "start_initial"), table.get("start_initial"), states, "state")
    limit = whole.pop("max_iterations", None)
    method = None if len(source.faults) > before else _method(source, table, limit)
    if len(source.faults) > before or method is None:
        return FitSettings()
    return FitSettings(method, **whole, level=float(level), start=start, start_initial=start_initial)


def _method(source: Source, table: dict, max_iterations: object) -> Method | None:
    name = table.get("method", "lifted-gauss-newton")
    if not isinstance(name, str) or name not in METHODS:
        hint = did_you_mean(str(name), METHODS)
        source.fault(
            ("fit", "method"), f"The method {name!r:.40} is unknown: write one of {listing(METHODS)}.{hint}"
        )
        return None
    kind, place = METHODS[name], ("fit", "settings")
    simple = [
        one.name for one in fields(kind) if one.type in ("int", "float", "bool", "float | None", "int | None")
    ]
    settings = source.known(place, source.table(place, table.get("settings")), simple)
    for key in MOST.keys() & settings.keys():
        if is_number(settings[key]) and settings[key] > MOST[key]:
            source.fault((*place, key), f"{key} = {settings[key]!r:.40} is too many: {MOST[key]} at most.")
            return None
    if max_iterations is not None:
        settings["max_iterations"] = max_iterations
    try:
        return kind(**settings)
    except (InputError, TypeError) as error:
        source.fault(place if settings.keys() - {"max_iterations"} else ("fit", "max_iterations"), str(error))
        return None
