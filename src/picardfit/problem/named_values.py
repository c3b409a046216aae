"""Values by name, as `problem.loss` and `fit(start=...)` take them, to the unknowns of a problem and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from picardfit.checks import as_mapping, as_number
from picardfit.errors import InputError, closest
from picardfit.model.parameters import Parameter
from picardfit.problem.unknowns import UnknownsLayout

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem


def unknowns_from(
    problem: Problem,
    parameters: Mapping[str, object] | None,
    initial: Mapping[str, object] | None = None,
    missing: str = "error",
    optional: tuple[str, ...] = (),
    words: tuple[str, str] = ("parameters", "initial"),
) -> np.ndarray:
    """The unknowns (experiments, width), internal coordinates, of values in natural units.

    `parameters`: {"a": 1.0} for all experiments; local ones also {"a": {"pond 1": 1.0}} or {"a[pond 1]":
    1.0}. `initial`: {"prey": 1.0} for all experiments or {"pond 1": {"prey": 1.0}}. An unknown without a
    value is an InputError, or NaN when `missing` is "nan" or it is `optional`. Fixed parameters, known
    initial states and those given by a formula may be left out; values given for them must agree with the
    problem. `words`: what the caller calls the two mappings.
    """
    layout = problem.layout
    # (experiments, parameters) and (experiments, states), NaN where no value was given
    values = _parameter_values(problem, parameters, words[0])
    states = _state_values(problem, initial, words[1])
    natural = np.concatenate(
        [
            states[:, layout.initial_states],
            values[:, layout.local_parameters],
            values[:, layout.global_parameters],
        ],
        axis=1,
    )
    _check_scales(problem, natural)
    unknowns = np.where(layout.exists, layout.internal(natural), layout.lower)
    lost = layout.exists & np.isnan(unknowns)
    spared = [layout.names[k] in optional for k in layout.column_parameters]
    lost[:, len(layout.initial_states) :] &= ~np.array(spared, bool)
    if missing == "error" and lost.any():
        raise _without_value(layout, *np.argwhere(lost)[0])
    fixed = np.array([one.fixed is not None for one in problem.parameters.values()], bool)
    _check_agreement(problem, "problem.fixed_otherwise", layout.names, values, layout.base, fixed)
    known = layout.before_doses(unknowns)[0]
    settled = np.ones(known.shape, bool)
    settled[:, layout.initial_states] = ~layout.exists[:, : len(layout.initial_states)]
    labels = [f"{s}(0)" for s in layout.states]
    _check_agreement(problem, "problem.settled_otherwise", labels, states, known, settled)
    return unknowns


def _without_value(layout: UnknownsLayout, e: int, column: int) -> InputError:
    label = layout.label(e, column)
    if column >= len(layout.initial_states):
        return InputError("problem.unknown_without_value", label, key=("parameters", label))
    state = layout.states[layout.initial_states[column]]
    return InputError("problem.initial_without_value", label, key=("initial", state), state=state)


def parameters_of(problem: Problem, unknowns: np.ndarray | None) -> dict[str, float]:
    """Parameters by name from unknowns; local ones as `a[experiment]`."""
    if unknowns is None:
        return {}
    layout = problem.layout
    values = _exact_at_bounds(problem, unknowns)
    named: dict[str, float] = {}
    for k, name in enumerate(layout.names):
        if k in layout.local_parameters:
            named |= {f"{name}[{one}]": float(values[e, k]) for e, one in enumerate(layout.experiments)}
        else:
            named[name] = float(values[0, k])
    return named


def _exact_at_bounds(problem: Problem, unknowns: np.ndarray) -> np.ndarray:
    """(experiments, parameters), where the exponential of the logarithm of a bound is the bound itself."""
    layout = problem.layout
    values = layout.parameters(unknowns)
    for c, k in enumerate(layout.column_parameters, len(layout.initial_states)):
        lower, upper = problem.parameters[layout.names[k]].bounds
        values[layout.scales.curved[:, c] & (unknowns[:, c] == layout.lower[:, c]), k] = lower
        values[layout.scales.curved[:, c] & (unknowns[:, c] == layout.upper[:, c]), k] = upper
    return values


def initial_states_of(problem: Problem, unknowns: np.ndarray) -> dict[str, dict[str, float]]:
    """experiment -> state -> value at the experiment's t0, before any dose at that time."""
    values, _ = problem.layout.before_doses(unknowns)
    return {
        name: dict(zip(problem.model.states, row.tolist(), strict=False))  # running states come after them
        for name, row in zip(problem.names, values, strict=True)
    }


def initial_by_label(problem: Problem, unknowns: np.ndarray | None) -> dict[str, float]:
    """The estimated initial states as tables name them: `prey(0)[pond 1]` -> value before any dose at that time."""
    if unknowns is None:
        return {}
    layout, (values, _) = problem.layout, problem.layout.before_doses(unknowns)
    columns = np.argwhere(layout.exists[:, : len(layout.initial_states)]).tolist()
    return {layout.label(e, c): float(values[e, layout.initial_states[c]]) for e, c in columns}


def parameters_in(problem: Problem, unknowns: np.ndarray, e: int) -> dict[str, float]:
    """The parameters in experiment e under their plain names; those that only the noise has are left out."""
    values = problem.layout.parameters(unknowns)[e]
    noise = set(problem.noise_names) - set(problem.initial_names)
    named = zip(problem.layout.names, values.tolist(), strict=True)
    return {name: value for name, value in named if name not in noise}


def labels_of(problem: Problem) -> list[str]:
    """Names of the unknowns: parameters in the order of `parameters_of`, then initial states."""
    layout = problem.layout
    initial = len(layout.initial_states)
    places = np.argwhere(layout.exists)
    estimated = {layout.label(e, c) for e, c in places if c >= initial}
    names = (name for name in parameters_of(problem, layout.lower) if name in estimated)
    return [*names, *(layout.label(e, c) for e, c in places if c < initial)]


def _parameter_values(problem: Problem, given: object, argument: str) -> np.ndarray:
    """(experiments, parameters): the values by name, NaN where none was given."""
    known = list(problem.parameters)
    values = np.full((len(problem.experiments), len(known)), np.nan)
    for key, value in as_mapping(given, argument, "1.0").items():
        name, where = _split(key, known)
        if name not in known:
            raise _not_a_parameter(problem, key, name, argument)
        by_experiment = value if where is None else {where: value}
        _fill_parameter(problem, name, by_experiment, values[:, known.index(name)])
    return values


def _fill_parameter(problem: Problem, name: str, value: object, row: np.ndarray) -> None:
    """Fill in the value of one parameter in each experiment (experiments,), or in those that a mapping names."""
    parameter = problem.parameters[name]
    if not isinstance(value, Mapping):
        _check_single(problem, name, parameter.local, value)
        row[:] = as_number(value, "value", name)
        return
    if not parameter.local and parameter.fixed is None:
        raise InputError("problem.shared_by_experiment", name, key=("parameters", name))
    for one, number in value.items():
        row[experiment_index(problem, one)] = as_number(number, "value", f"{name}[{one}]")


def _not_a_parameter(problem: Problem, key: str, name: str, argument: str) -> InputError:
    """Why a name has no value in `parameters` or `start`."""
    state, known = name.removesuffix("(0)"), list(problem.parameters)
    if state in problem.model.states:
        other = "start_initial" if argument == "start" else "initial"
        return InputError("problem.value_is_initial", key, argument=other, state=state)
    if name in ("parameters", "initial") and problem.truth:
        return InputError("problem.value_is_group", key)
    return InputError("problem.value_of_unknown_name", key, known=known, close=closest(name, known))


def _check_single(problem: Problem, name: str, local: bool, value: object) -> None:
    """InputError for a sequence: values belong to experiments by name, not by order."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
        return
    code = "problem.sequence_for_local" if local else "problem.sequence_for_shared"
    example = ", ".join(f'"{one}": ...' for one in problem.names[:2])
    raise InputError(code, name, key=("parameters", name), value=value, example=example)


def _state_values(problem: Problem, given: object, argument: str) -> np.ndarray:
    """(experiments, states): initial values by name, NaN where none was given."""
    values = np.full((len(problem.experiments), len(problem.layout.states)), np.nan)
    by_name = as_mapping(given, argument, "1.0")
    own = {key: value for key, value in by_name.items() if isinstance(value, Mapping)}
    for state, value in by_name.items():
        if state not in own:
            column = _state(problem, state, argument)
            values[:, column] = as_number(value, "initial value", state)
    for one, states in own.items():
        row = experiment_index(problem, one)
        for state, value in states.items():
            number = as_number(value, f"initial value in `{one}`", state)
            values[row, _state(problem, state, argument)] = number
    return values


def _split(key: str, known: Sequence[str]) -> tuple[str, str | None]:
    """`a[pond 1]` as (a, pond 1); a plain name as (name, None)."""
    if key not in known and key.endswith("]") and "[" in key:
        name, where = key[:-1].split("[", 1)
        return name, where
    return key, None


def experiment_index(problem: Problem, name: object) -> int:
    """Which experiment has this name."""
    if name not in problem.names:
        close = closest(str(name), problem.names)
        raise InputError("problem.no_such_experiment", str(name), known=problem.names, close=close)
    return problem.names.index(str(name))


def _state(problem: Problem, name: object, argument: str) -> int:
    states = problem.model.states
    if name not in states:
        close = closest(str(name), states)
        raise InputError("problem.unknown_state", str(name), where=argument, known=states, close=close)
    return states.index(str(name))


def _check_scales(problem: Problem, natural: np.ndarray) -> None:
    """InputError for values that have no logarithm, or no logit."""
    layout, scales = problem.layout, problem.layout.scales
    outside = layout.exists & scales.logit & ((natural < scales.low) | (natural > scales.high))
    wrong = outside | (layout.exists & scales.log & (natural <= 0))
    if not wrong.any():
        return
    e, column = np.argwhere(wrong)[0]
    label, value = layout.label(e, column), float(natural[e, column])
    if scales.log[e, column]:
        raise InputError("problem.log_needs_positive", label, value=value)
    low, high = float(scales.low[e, column]), float(scales.high[e, column])
    raise InputError("problem.logit_needs_inside", label, value=value, low=low, high=high)


def _check_agreement(
    problem: Problem,
    code: str,
    labels: Sequence[str],
    given: np.ndarray,
    expected: np.ndarray,
    settled: np.ndarray,
    digits: float = 1e-6,
) -> None:
    """InputError unless values given where the problem settles them repeat it; NaN (not given, or not known) passes.

    All arrays are (experiments, labels). `digits`: the relative difference that passes, as many digits as people copy
    from a table; of values below it, the square of it, absolute.
    """
    wrong = settled & (np.abs(given - expected) > digits * np.maximum(np.abs(expected), digits))
    if wrong.any():
        e, column = np.argwhere(wrong)[0]
        wanted, found = float(expected[e, column]), float(given[e, column])
        raise InputError(code, labels[column], expected=wanted, given=found, experiment=problem.names[e])


def units_of(problem: Problem) -> dict[str, str]:
    """The units that were given of the unknowns, by label."""
    layout, model = problem.layout, problem.model
    found: dict[str, str] = {}
    for name, one in problem.parameters.items():
        unit = one.unit or model.unit(name)
        found |= {f"{name}[{e}]": unit for e in problem.names} if one.local else {name: unit}
    for e, initial in enumerate(problem.initial_by_experiment):
        for column, state in enumerate(layout.initial_states):
            spec = initial.get(model.states[state])
            own = spec.unit if isinstance(spec, Parameter) else ""
            found[layout.label(e, column)] = own or model.unit(model.states[state])
    return {name: unit for name, unit in found.items() if unit}


def start_values(
    problem: Problem,
    start: Mapping[str, object] | None = None,
    start_initial: Mapping[str, object] | None = None,
) -> np.ndarray:
    """Starting values as unknowns (experiments, width), NaN where none is given; InputError outside the bounds."""
    given = unknowns_from(problem, start, start_initial, missing="nan", words=("start", "start_initial"))
    layout = problem.layout
    outside = layout.exists & ((given < layout.lower) | (given > layout.upper))
    if outside.any():
        e, column = np.argwhere(outside)[0]
        value, low, high = (
            float(layout.natural(one)[e, column]) for one in (given, layout.lower, layout.upper)
        )
        label, key = layout.label(e, column), ("fit", "start", layout.label(e, column))
        if column < len(layout.initial_states):
            key = ("fit", "start_initial", layout.states[layout.initial_states[column]])
        raise InputError("fit.start_outside", label, key=key, value=value, low=low, high=high)
    return given
