"""What a problem is given, checked: experiments that fit the model, initial states, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import sympy

from picardfit.errors import InputError, did_you_mean, listing, type_words
from picardfit.formulas.grammar import names, parse
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter, as_parameter
from picardfit.model.scatter import Scatter
from picardfit.problem.experiment import Experiment, Rest

LARGEST = 1e100  # size of a measurement, and the inverse of the smallest


def named(experiments: object) -> tuple[Experiment, ...]:
    """The experiments with a name each: unnamed ones are called `experiment 1` and so on."""
    many = (experiments,) if isinstance(experiments, Experiment) else experiments
    plain = isinstance(many, Iterable) and not isinstance(many, str | Mapping)
    many = tuple(many) if plain else ()
    strange = [one for one in many if not isinstance(one, Experiment)]
    if not plain or (strange and not isinstance(experiments, list | tuple)):
        raise InputError(
            f"The experiments are given as {type_words(experiments)}: pass pf.Experiment(...) objects, or the "
            f"list from pf.read_table for a file or a DataFrame."
        )
    if not many:
        raise InputError("There is no experiment: pass at least one pf.Experiment with data.")
    if strange and isinstance(strange[0], list) and any(isinstance(one, Experiment) for one in strange[0]):
        raise InputError(
            "There is a list in the list of experiments: join lists with +, as in ponds + lakes."
        )
    if strange:
        raise InputError(
            f"{strange[0]!r} in {type_words(experiments)} is not an experiment: pass pf.Experiment(...) objects or the "
            f"list from pf.read_table(...)."
        )
    named = tuple(one if one.name else replace(one, name=f"experiment {k}") for k, one in enumerate(many, 1))
    seen: set[str] = set()
    for one in named:
        if one.name in seen:
            raise InputError(f"Two experiments are called `{one.name}`: give each its own name.")
        seen.add(one.name)
    return named


def mapping(given: object, what: str) -> dict[str, object]:
    """`given` as a dictionary; None is empty."""
    if not isinstance(given, Mapping | None):
        raise InputError(f"`{what}` is {type_words(given)}: write names and bounds as {{'name': (0, 1)}}.")
    return dict(given or {})


def check_experiments(model: Model, experiments: Sequence[Experiment]) -> None:
    for one in experiments:
        for name in one.observables:
            if name not in model.observables:
                raise InputError(
                    f"`{name}` is measured in `{one.name}` but is not an observable of the model "
                    f"({listing(model.observables)}): rename it, add it to the model's observables, or leave it out "
                    f"of a table by pf.read_table(..., observables=[...])."
                    + did_you_mean(name, model.observables)
                )
        for name in one.inputs:
            if name not in model.inputs:
                raise InputError(
                    f"`{one.name}` gives an input `{name}` which the model does not have: "
                    f"add it to inputs=[...] of the model or remove it." + did_you_mean(name, model.inputs)
                )
        for name in model.inputs:
            if name not in one.inputs:
                raise InputError(
                    f"`{one.name}` does not say what the input `{name}` was: "
                    f'add inputs={{"{name}": ...}} (a number, a formula in t or a table).'
                )
        for name in one.initial:
            _check_state(model, name, f"initial of `{one.name}`")
        if one.rest is not None:
            _check_rest(model, one)
    for name in model.observables:
        _check_size(name, experiments)


def _check_rest(model: Model, one: Experiment) -> None:
    for name in one.rest.initial:
        _check_state(model, name, f"initial of the rest before `{one.name}`")
    for name in model.states:
        if name not in one.rest.initial:
            raise InputError(
                f"The rest before `{one.name}` does not say where `{name}` started: add it to initial of pf.Rest."
            )
    for name in model.inputs:
        if name not in one.rest.inputs:
            raise InputError(
                f"The rest before `{one.name}` does not say what the input `{name}` was: add it to inputs of pf.Rest."
            )


def _check_size(name: str, experiments: Sequence[Experiment]) -> None:
    """Numbers whose squares leave the range of floating point cannot be fitted."""
    sizes = [
        np.nanmax(np.abs(one.observations[name]), initial=0.0)
        for one in experiments
        if name in one.observables
    ]
    largest = max(sizes, default=0.0)
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise InputError(
            f"The values of `{name}` reach {largest:.3g}, too {'large' if largest > 1 else 'small'} to be squared: "
            f"measure it in another unit."
        )


def _check_state(model: Model, name: str, where: str) -> None:
    if name not in model.states:
        raise InputError(
            f"`{name}` in {where} is not a state of the model ({listing(model.states)}): rename or remove it."
            + did_you_mean(name, model.states)
        )


def initial_of(model: Model, one: Experiment, common: dict) -> dict[str, object]:
    """state -> float (known) | sympy expression | Parameter (free) | Rest (from it), for one experiment."""
    for name in common:
        _check_state(model, name, "initial")
    resolved: dict[str, object] = {}
    for state in model.states:
        if one.rest is not None and state not in one.initial:
            resolved[state] = one.rest
            continue
        spec = one.initial.get(state, common.get(state))
        if isinstance(spec, str):
            resolved[state] = _initial_formula(model, one, state, spec)
            continue
        spec = as_parameter(f"{state}(0)", spec)
        resolved[state] = spec if spec.fixed is None else float(spec.fixed)
    return resolved


def _initial_formula(model: Model, one: Experiment, state: str, text: str) -> sympy.Expr:
    where = f"The initial formula of `{state}` in `{one.name}`"
    expression = parse(text, where)
    for name in sorted(names(expression)):
        if name in model.states or name in model.inputs or name == "t":
            kind = "the time" if name == "t" else "a state" if name in model.states else "an input"
            raise InputError(
                f"{where}, `{text}`, uses {kind} `{name}`: only parameters may stand there, write one for it."
            )
    return expression


def formula_names(initial: Iterable[dict]) -> list[str]:
    """Names used by initial formulas, in order of appearance."""
    found: dict[str, None] = {}
    for one in initial:
        rests = {id(spec): spec for spec in one.values() if isinstance(spec, Rest)}
        before = [parse(s) for rest in rests.values() for s in rest.initial.values() if isinstance(s, str)]
        for spec in (*one.values(), *before):
            if not isinstance(spec, float | Parameter | Rest):
                found.update(dict.fromkeys(sorted(names(spec))))
    return list(found)


def all_parameters(
    model: Model, given: dict, initial: Mapping[str, dict], scatter: Scatter | None
) -> dict[str, Parameter]:
    """The model's parameters, those of the noise, and those that only initial formulas have."""
    used = formula_names(initial.values())
    levels = {} if scatter is None else scatter.parameters
    in_formulas = () if scatter is None else scatter.names
    known = list(dict.fromkeys([*model.parameters, *in_formulas, *levels, *used]))
    for name in given:
        if name not in known:
            raise InputError(_unknown_parameter(model, str(name), known))
    for name in used:
        if name in model.states or name in model.inputs or name == "t":
            raise InputError(
                f"The formula of a rest uses `{name}`: only parameters may stand there, write one for it."
            )
        if name not in model.parameters and name not in given:
            raise InputError(
                f"{_user(name, initial)} uses `{name}`, which is not a parameter: "
                f"add it to parameters={{...}} with its bounds."
                + did_you_mean(name, {*model.parameters, *given})
            )
    for name in in_formulas:
        if name not in given:
            raise InputError(
                f"A noise level uses `{name}`, which is not a name of the model: correct it, or add it to "
                f"parameters={{...}} with its bounds."
                + did_you_mean(name, {*model.parameters, *model.observables, *model.states, *given})
            )
    return {name: as_parameter(name, given.get(name, levels.get(name))) for name in known}


def _user(name: str, initial: Mapping[str, dict]) -> str:
    """The first initial formula that uses a name, in words."""
    for experiment, specs in initial.items():
        for state, spec in specs.items():
            if isinstance(spec, sympy.Expr) and name in names(spec):
                return f"The initial formula of `{state}` in `{experiment}`"
    return "The initial formula of a rest"


def _unknown_parameter(model: Model, name: str, known: list[str]) -> str:
    """Why a name has no place in `parameters`."""
    if name in model.dropped:
        helper = model.dropped[name]
        return (
            f"`{name}` in parameters stands only in `{helper} = ...`, which no equation uses: "
            f"use `{helper}`, or remove both."
        )
    kind = "not a parameter of the model"
    if name in model.states:
        kind = "a state: give its bounds in initial="
    elif name in model.inputs:
        kind = "an input: give it in inputs= of the experiments"
    return f"`{name}` in parameters is {kind} (parameters: {listing(known)})." + did_you_mean(name, known)


def check_priors(parameters: dict[str, Parameter], initial: Sequence[dict], scatter: Scatter | None) -> None:
    if scatter is not None:
        return
    every = [*parameters.items(), *(item for one in initial for item in one.items())]
    for name, one in every:
        if isinstance(one, Parameter) and one.prior is not None:
            raise InputError(
                f"`{name}` has a prior, but without a noise model nothing says how much the data weigh against it: "
                f"pass noise=pf.Noise(...) to the problem."
            )


def check_positive(model: Model, experiments: Sequence[Experiment], scatter: Scatter) -> None:
    """Logarithms of measurements need positive ones."""
    log = [name for name, c in zip(model.observables, scatter.columns, strict=True) if c.base is not None]
    for one in experiments:
        for name in (n for n in log if n in one.observables):
            if (one.observations[name] <= 0).any():
                raise InputError(
                    f"`{name}` is not positive at some time of `{one.name}`, but its noise acts on the logarithm: "
                    f"blank these values, or give `{name}` additive noise."
                )
