"""Checks of the random effects of a problem, and initial states that vary between individuals."""

from __future__ import annotations

from collections.abc import Mapping

from picardfit.errors import InputError, closest
from picardfit.model.parameters import Parameter
from picardfit.model.random_effects import RandomEffects


def typical_name(state: str) -> str:
    """The parameter that is the typical initial value of a state which varies between individuals."""
    return f"{state}(0)"


def random_initial(initial: Mapping[str, object]) -> dict[str, Parameter]:
    """Parameters for initial states that vary: their initial state is the formula `x(0)` of that parameter."""
    return {
        typical_name(state): spec
        for state, spec in initial.items()
        if isinstance(spec, Parameter) and spec.random
    }


def checked_random(random: object, parameters: Mapping[str, Parameter]) -> RandomEffects | None:
    """What is known of the random effects; None for a problem without any."""
    varying = [name for name, one in parameters.items() if one.random]
    if random is None:
        return RandomEffects() if varying else None
    if not isinstance(random, RandomEffects):
        raise InputError("problem.not_random_effects", key=("random",), value=random)
    for name in random.names:
        if name not in parameters:
            close = closest(name, parameters)
            raise InputError("problem.random_unknown", name, key=("random",), known=varying, close=close)
        if name not in varying:
            raise InputError("problem.random_not_declared", name, key=("random",))
    if not varying:
        raise InputError("problem.no_random_parameter", key=("random",))
    return random
