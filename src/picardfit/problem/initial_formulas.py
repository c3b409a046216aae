"""Initial states that formulas give, of parameters and of other initial states: `S = "5000 - I"`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import sympy

from picardfit.errors import InputError, concerning
from picardfit.formulas.algebra import names, symbol
from picardfit.formulas.grammar import parse
from picardfit.model.model import Model
from picardfit.problem.experiment import Experiment
from picardfit.problem.rest import Rest

Spec = TypeVar("Spec")


def plain_initial(states: Iterable[str], text: str) -> str:
    """An initial formula in which initial states are written `x`, where tables and derived quantities say `x(0)`."""
    for state in states:
        text = re.sub(rf"(?<![\w.]){re.escape(state)}\s*\(\s*0\s*\)", state, text)
    return text


def initial_formula(model: Model, one: Experiment, state: str, text: str) -> sympy.Expr:
    """The initial formula of a state, checked."""
    with concerning("model.in_initial", state, key=("initial", state)):
        expression = parse(plain_initial(model.states, text))
    for name in sorted(names(expression) - {*model.states}):
        if (kind := no_parameter(model, name)) is not None:
            values = {"state": state, "experiment": one.name, "text": text, "kind": kind}
            raise InputError("problem.initial_formula_uses", name, key=("initial", state)).with_values(
                **values
            )
    return expression


def no_parameter(model: Model, name: str) -> str | None:
    """What a name is that may not be a parameter of an initial formula; None for parameters."""
    if name == "t":
        return "the time"
    if name in model.states:
        return "a state"
    return "an input" if name in model.inputs and name not in model.covariates else None


def spelled_out(one: Experiment, specs: Mapping[str, Spec | sympy.Expr]) -> dict[str, Spec | sympy.Expr]:
    """The initial states of an experiment, where formulas name only states that no formula gives.

    `A = "total - B"`, `B = "2*C"` becomes `A = total - 2*C`, so that all formulas can be evaluated at once.
    """
    formulas = {state: spec for state, spec in specs.items() if isinstance(spec, sympy.Expr)}

    def written(state: str, inside: tuple[str, ...]) -> sympy.Expr:
        if state in inside:
            circle = [*inside[inside.index(state) :], state]
            raise InputError("problem.initial_circle", state, key=("initial", inside[0])).with_values(
                experiment=one.name, names=circle
            )
        used = names(formulas[state]) & formulas.keys()
        put = {symbol(name): written(name, (*inside, state)) for name in sorted(used)}
        return sympy.sympify(formulas[state].xreplace(put)) if put else formulas[state]

    return {**specs, **{state: written(state, ()) for state in formulas}}


def formula_names(model: Model, initial: Iterable[Mapping[str, object]]) -> list[str]:
    """Names that initial formulas use, in order of appearance, without the states that an experiment begins with.

    A state that the formula of a steady state uses is among them: nothing gives it a value there.
    """
    found: dict[str, None] = {}
    for one in initial:
        rests = {id(spec): spec for spec in one.values() if isinstance(spec, Rest)}
        before = [parse(s) for rest in rests.values() for s in rest.initial.values() if isinstance(s, str)]
        own = [spec for spec in one.values() if isinstance(spec, sympy.Expr)]
        for used in (*(names(spec) - {*model.states} for spec in own), *map(names, before)):
            found.update(dict.fromkeys(sorted(used)))
    return list(found)


def states_in(states: Sequence[str], formulas: Iterable[sympy.Expr]) -> list[int]:
    """Which states formulas use."""
    used = set().union(*map(names, formulas))
    return [k for k, state in enumerate(states) if state in used]
