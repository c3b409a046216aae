"""What the five problems of the paper share: settings, bounds and noisy data from independent integration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.model.model import Model
from picardfit.model.parameters import as_number
from picardfit.problem.experiment import Experiment
from picardfit.simulation.simulate import noisy, simulate

Bounds = Mapping[str, tuple[float | None, float | None]] | tuple[float, float] | None


@dataclass(frozen=True)
class Settings:
    """What the paper runs Algorithm 4 with: segment length T, order n of the iterate, continuity lambda."""

    segment_length: float
    order: int
    continuity: float


class Spread(Enum):
    """What the paper's eps measures: it writes variance, but Table 1 is only possible with the other."""

    STD = "std"
    VARIANCE = "variance"


def standard_deviation(eps: float, eps_is: Spread | str) -> float:
    """The standard deviation of n_i and m_i."""
    eps = as_number(eps, "noise level eps")
    if eps < 0:
        raise InputError(f"The noise level eps is {eps:g}: give 0 or a positive number.")
    if eps_is not in {*Spread, *(s.value for s in Spread)}:
        raise InputError(f"eps_is={eps_is!r} is unknown: write eps_is='std' or eps_is='variance'.")
    return eps if Spread(eps_is) is Spread.STD else eps**0.5


def around(truth: Mapping[str, float], factors: tuple[float, float]) -> dict[str, tuple[float, float]]:
    """Bounds from the true values times two factors."""
    low, high = factors
    return {name: tuple(sorted((low * value, high * value))) for name, value in truth.items()}


def parameter_bounds(
    default: Mapping[str, tuple], truth: Mapping[str, float], bounds: Bounds
) -> dict[str, tuple]:
    """The default bounds, or those of a pair of factors of the truth, or with some entries replaced."""
    if bounds is None:
        return dict(default)
    if isinstance(bounds, Mapping):
        for name in bounds:
            if name not in default:
                raise InputError(
                    f"`{name}` in bounds is not a parameter of this problem ({listing(default)})."
                    + did_you_mean(str(name), default)
                )
        return {**default, **bounds}
    if not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise InputError(
            f"bounds={bounds!r} is not understood: give a pair of factors or {{'name': (lower, upper)}}."
        )
    return around(truth, (as_number(bounds[0], "lower factor"), as_number(bounds[1], "upper factor")))


def positive_count(value: object, words: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise InputError(f"{words}={value!r} is not a positive whole number: write for example {words}=1.")
    return int(value)


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
    """Data y_i = (1 + n_i) g_i + m_i of one run; of its initial state only `initial_bounds` are known."""
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
