"""Values by name -> the unknowns of a problem, as `problem.loss` and `fit(start=...)` are given them; and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from picardfit.errors import InputError, did_you_mean, listing, type_words
from picardfit.model.parameters import Parameter, as_number

if TYPE_CHECKING:
    from picardfit.problem.problem import Problem

_SAME = 1e-6  # relative difference up to which a value that needs not be given may be repeated


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
    initial states and those given by a formula may be left out; what is said about them must agree with the
    problem. `words`: what the caller calls the two mappings.
    """
    layout = problem.layout
    # (experiments, parameters) and (experiments, states), NaN where nothing was said
    values = _parameter_values(problem, {} if parameters is None else parameters, words[0])
    states = _state_values(problem, {} if initial is None else initial, words[1])
    natural = np.concatenate(
        [
            states[:, layout.initial_states],
            values[:, layout.local_parameters],
            values[:, layout.global_parameters],
        ],
        axis=1,
    )
    _check_positive(problem, natural)
    unknowns = np.where(layout.exists, layout.internal(natural), layout.lower)
    lost = layout.exists & np.isnan(unknowns)
    every = np.concatenate([layout.local_parameters, layout.global_parameters])
    spared = [layout.names[k] in optional for k in every]
    lost[:, len(layout.initial_states) :] &= ~np.array(spared, bool)
    if missing == "error" and lost.any():
        e, column = np.argwhere(lost)[0]
        label = layout.label(e, column)
        if column < len(layout.initial_states):
            state = layout.states[layout.initial_states[column]]
            raise InputError(f'`{label}` is unknown and has no value: add initial={{"{state}": ...}}.')
        raise InputError(f'`{label}` has no value: add "{label}": ... to the parameters.')
    _check_agreement(problem, values, layout.base, _fixed(problem), layout.names, "is fixed at")
    known = layout.initial(unknowns)[0]
    settled = np.ones(known.shape, bool)
    settled[:, layout.initial_states] = ~layout.exists[:, : len(layout.initial_states)]
    _check_agreement(
        problem, states, known, settled, [f"{s}(0)" for s in layout.states], "is settled by the problem as"
    )
    return unknowns


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
    for c, k in enumerate([*layout.local_parameters, *layout.global_parameters], len(layout.initial_states)):
        for edge, bound in zip(
            (layout.lower, layout.upper), problem.parameters[layout.names[k]].bounds, strict=True
        ):
            values[layout.log[:, c] & (unknowns[:, c] == edge[:, c]), k] = bound
    return values


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


def _fixed(problem: Problem) -> np.ndarray:
    """(experiments, parameters) bool."""
    fixed = np.array([p.fixed is not None for p in problem.parameters.values()], bool)
    return np.tile(fixed, (len(problem.experiments), 1))


def _parameter_values(problem: Problem, given: Mapping[str, object], word: str) -> np.ndarray:
    known, experiments = list(problem.parameters), problem.names
    _check_mapping(given, word)
    values = np.full((len(experiments), len(known)), np.nan)
    for key, value in given.items():
        name, where = _split(key, known)
        if name not in known:
            raise InputError(_no_parameter(problem, key, str(name), word))
        if where is not None:
            value = {where: value}
        column = known.index(name)
        parameter = problem.parameters[name]
        if not isinstance(value, Mapping):
            _check_single(problem, name, parameter.local, value)
            values[:, column] = as_number(value, f"value of `{name}`")
            continue
        if not parameter.local and parameter.fixed is None:
            raise InputError(
                f"`{name}` is one parameter for all experiments: give one number, "
                f"or declare it with pf.Parameter(..., local=True)."
            )
        for one, number in value.items():
            values[experiment_index(problem, one), column] = as_number(number, f"value of `{name}[{one}]`")
    return values


def _no_parameter(problem: Problem, key: object, name: str, word: str) -> str:
    """The complaint about a name that is not a parameter."""
    state, known = name.removesuffix("(0)"), list(problem.parameters)
    if state in problem.model.states:
        other = "start_initial" if word == "start" else "initial"
        return f"`{key}` is an initial state: give it in {other}={{'{state}': ...}}."
    if name in ("parameters", "initial") and problem.truth:
        return f"`{key}` is a group of values: pass the parameters alone, problem.truth['parameters']."
    return f"`{key}` is not a parameter of the problem: use {listing(known)}." + did_you_mean(name, known)


def _check_single(problem: Problem, name: str, local: bool, value: object) -> None:
    """InputError for a sequence: values belong to experiments by name, not by order."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
        return
    example = ", ".join(f'"{one}": ...' for one in problem.names[:2]) if local else ""
    remedy = f"name the experiments, {{{example}}}" if local else "it is shared by all, so give one number"
    raise InputError(f"The value of `{name}` is a sequence, {value!r}: {remedy}.")


def _state_values(problem: Problem, given: Mapping[str, object], word: str) -> np.ndarray:
    states = list(problem.model.states)
    _check_mapping(given, word)
    values = np.full((len(problem.experiments), len(states)), np.nan)
    common = {key: value for key, value in given.items() if not isinstance(value, Mapping)}
    for state, value in common.items():
        values[:, _state(problem, state, word)] = as_number(value, f"initial value of `{state}`")
    for one, own in given.items():
        if one in common:
            continue
        row = experiment_index(problem, one)
        for state, value in own.items():
            values[row, _state(problem, state, word)] = as_number(
                value, f"initial value of `{state}` in `{one}`"
            )
    return values


def _split(key: object, known: list[str]) -> tuple[object, str | None]:
    """`a[pond 1]` as (a, pond 1); a plain name as (name, None)."""
    if isinstance(key, str) and key not in known and key.endswith("]") and "[" in key:
        name, where = key[:-1].split("[", 1)
        return name, where
    return key, None


def experiment_index(problem: Problem, name: object) -> int:
    """Which experiment has this name."""
    if name not in problem.names:
        raise InputError(
            f"There is no experiment `{name}`: name one of {listing(problem.names)}."
            + did_you_mean(str(name), problem.names)
        )
    return problem.names.index(name)


def _state(problem: Problem, name: object, word: str) -> int:
    states = problem.model.states
    if name not in states:
        raise InputError(
            f"`{name}` in {word} is not a state of the model ({listing(states)}): rename or remove it."
            + did_you_mean(str(name), states)
        )
    return states.index(name)


def _check_mapping(given: object, what: str) -> None:
    if not isinstance(given, Mapping):
        raise InputError(f"`{what}` is {type_words(given)}: write names and values as {{'name': 1.0}}.")


def _check_positive(problem: Problem, natural: np.ndarray) -> None:
    wrong = problem.layout.exists & problem.layout.log & (natural <= 0)
    if wrong.any():
        e, column = np.argwhere(wrong)[0]
        label = problem.layout.label(e, column)
        raise InputError(
            f"`{label}` is {natural[e, column]:g} but was declared with log=True: give a positive value."
        )


def _check_agreement(problem: Problem, given, expected, where, labels, verb: str) -> None:
    """What was said about settled values must repeat them; NaN (nothing said, or not yet known) passes."""
    wrong = where & (np.abs(given - expected) > _SAME * np.maximum(np.abs(expected), 1e-6))
    if wrong.any():
        e, column = np.argwhere(wrong)[0]
        raise InputError(
            f"`{labels[column]}` {verb} {expected[e, column]:g} in `{problem.names[e]}`, "
            f"but {given[e, column]:g} is given: leave it out, or change the problem."
        )


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
