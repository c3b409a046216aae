"""What the five problems of the paper share: settings, bounds and noisy data from independent integration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from picardfit.checks import as_number
from picardfit.errors import InputError, closest
from picardfit.model.model import Model
from picardfit.problem.experiment import Experiment
from picardfit.simulation.simulate import noisy, simulate

Bounds = Mapping[str, tuple[float | None, float | None]] | tuple[float, float] | None


@dataclass(frozen=True)
class Settings:
    """The paper's settings of Algorithm 4: segment length T, order n of the iterate, continuity weight lambda."""

    segment_length: float
    order: int
    continuity: float


class Spread(Enum):
    """What the paper's eps is: it says variance, but Table 1 is only possible with the standard deviation."""

    STD = "std"
    VARIANCE = "variance"


def standard_deviation(eps: float, eps_is: Spread | str) -> float:
    """The standard deviation of n_i and m_i."""
    eps = as_number(eps, "noise level eps")
    if eps < 0:
        raise InputError("examples.negative_noise", value=eps)
    if eps_is not in {*Spread, *(s.value for s in Spread)}:
        raise InputError("examples.unknown_spread", value=eps_is)
    return eps if Spread(eps_is) is Spread.STD else eps**0.5


def around(truth: Mapping[str, float], factors: tuple[float, float]) -> dict[str, tuple[float, float]]:
    """Bounds from the true values times two factors."""
    low, high = factors
    ends = {name: (low * value, high * value) for name, value in truth.items()}
    return {name: (min(pair), max(pair)) for name, pair in ends.items()}


def parameter_bounds(
    default: Mapping[str, tuple], truth: Mapping[str, float], bounds: Bounds
) -> dict[str, tuple]:
    """The default bounds, or those of a pair of factors of the truth, or with some entries replaced."""
    if bounds is None:
        return dict(default)
    if isinstance(bounds, Mapping):
        for name in bounds:
            if name not in default:
                close = closest(str(name), default)
                raise InputError("examples.unknown_parameter", str(name), known=default, close=close)
        return {**default, **bounds}
    if not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise InputError("examples.bad_bounds", value=bounds)
    return around(truth, (as_number(bounds[0], "lower factor"), as_number(bounds[1], "upper factor")))


def noisy_experiment(
    model: Model,
    truth: Mapping[str, float],
    initial: Mapping[str, float],
    times: np.ndarray,
    rng: np.random.Generator,
    sd: float,
    *,
    name: str,
    inputs: Mapping[str, object] | None = None,
    initial_bounds: Mapping[str, object] | None = None,
) -> Experiment:
    """Data y_i = (1 + n_i) g_i + m_i of one run whose initial state is unknown within `initial_bounds`."""
    solution = simulate(model, {n: truth[n] for n in model.parameters}, initial, times, inputs)
    exact = np.stack([solution.observables[n] for n in model.observables], axis=-1)
    data = noisy(rng, exact, sd, sd)
    return Experiment(
        times,
        dict(zip(model.observables, data.T, strict=True)),
        name=name,
        inputs=dict(inputs or {}),
        initial=dict(initial_bounds or {}),
    )
