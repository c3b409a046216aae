"""Small problems with censored values, counts and increments, and their Cramer-Rao bounds in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

import picardfit as pf

DECAY = pf.Model("x' = -k*x")
GROWTH = pf.Model("c' = a*exp(-k*t)", observables={"cases": "increment(c)"})
T = np.linspace(0, 3, 31)
WEEKS = np.arange(1, 16.0) / 5
RATE, SD, LIMIT, DISPERSION, TRIALS = 0.7, 0.15, 0.45, 6.0, 30


@dataclass(frozen=True)
class Measured:
    """Data of one kind: a problem from a random generator, the true values and their smallest standard deviations."""

    problem: str
    draw: Callable[[np.random.Generator], pf.Problem]
    truth: dict[str, float]
    bound: dict[str, float]

    def estimate(self, seed: int) -> dict[str, tuple[float, bool]] | None:
        """Error of each estimate, and whether its 95 % interval holds the truth; None after a failure."""
        fit = pf.fit(self.draw(np.random.default_rng([seed, 11])))
        if not fit.success:
            return None
        values = {**fit.parameters, "x(0)": fit.initial_states["run"].get("x")}
        ends = fit.intervals(0.95)
        return {n: (values[n] - x, bool(ends[n][0] <= x <= ends[n][1])) for n, x in self.truth.items()}


def cases() -> list[Measured]:
    """All kinds, by name."""
    return [
        _decay("left-censored normal", 2.0, _censored_problem, _censored_information),
        _decay("poisson", 20.0, _poisson_problem, lambda g: 1 / g),
        _decay("negative binomial", 40.0, _negative_binomial_problem, lambda g: 1 / (g + g**2 / DISPERSION)),
        _decay("binomial", 0.8, _binomial_problem, lambda g: TRIALS / (g * (1 - g))),
        _increments(),
    ]


def _decay(name: str, start: float, draw, information) -> Measured:
    """x = start exp(-k t), with `information` (samples,) on each output; with unknown noise its own block too."""
    g = start * np.exp(-RATE * T)
    slopes = np.stack([-T * g, g / start], axis=1)
    found = information(g)
    if isinstance(found, tuple):
        (by_g, cross, by_s), count = found, slopes.shape[1]
        matrix = np.zeros((count + 1, count + 1))
        matrix[:count, :count] = slopes.T @ (by_g[:, None] * slopes)
        matrix[count, :count] = matrix[:count, count] = cross @ slopes
        matrix[count, count] = by_s.sum()
    else:
        matrix = slopes.T @ (found[:, None] * slopes)
    errors = np.sqrt(np.diag(np.linalg.inv(matrix)))
    truth = {"k": RATE, "x(0)": start}
    return Measured(name, draw, truth, dict(zip(truth, errors, strict=False)))


def _censored_information(g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of normal noise that is censored below a limit, on output and standard deviation."""
    z = (LIMIT - g) / SD
    f, below = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi), ndtr(z)
    by_g = 1 - below + z * f + f**2 / below
    cross = f + z**2 * f + z * f**2 / below
    by_s = 2 * (1 - below) + (z + z**3) * f + z**2 * f**2 / below
    return by_g / SD**2, cross / SD**2, by_s / SD**2


def _problem(values, noise, least: float, most: float) -> pf.Problem:
    run = pf.Experiment(T, {"x": values}, "run", t0=0.0)
    return pf.Problem(DECAY, run, {"k": (0.05, 4)}, {"x": (least, most)}, noise=noise)


def _censored_problem(rng: np.random.Generator) -> pf.Problem:
    y = 2 * np.exp(-RATE * T) + SD * rng.standard_normal(len(T))
    values = [f"<{LIMIT}" if one < LIMIT else one for one in y]
    return _problem(values, pf.Noise(additive=(0.01, 2)), 0.1, 10)


def _poisson_problem(rng: np.random.Generator) -> pf.Problem:
    return _problem(rng.poisson(20 * np.exp(-RATE * T)), pf.Poisson(), 1, 100)


def _negative_binomial_problem(rng: np.random.Generator) -> pf.Problem:
    mean = 40 * np.exp(-RATE * T)
    values = rng.poisson(rng.gamma(DISPERSION, mean / DISPERSION))
    return _problem(values, pf.NegativeBinomial(dispersion=(0.3, 300)), 2, 200)


def _binomial_problem(rng: np.random.Generator) -> pf.Problem:
    return _problem(rng.binomial(TRIALS, 0.8 * np.exp(-RATE * T)), pf.Binomial(trials=TRIALS), 0.05, 1)


def _increments() -> Measured:
    """Poisson counts of a exp(-k t) between samples."""

    def grown(a: float, k: float) -> np.ndarray:
        return np.diff(a / k * (1 - np.exp(-k * WEEKS)), prepend=0.0)

    def draw(rng: np.random.Generator) -> pf.Problem:
        run = pf.Experiment(WEEKS, {"cases": rng.poisson(grown(60.0, RATE))}, "run", initial={"c": 0.0})
        return pf.Problem(GROWTH, run, {"a": (5, 500), "k": (0.05, 4)}, noise=pf.Poisson())

    step = 1e-6
    by_k = (grown(60.0, RATE + step) - grown(60.0, RATE - step)) / (2 * step)
    slopes = np.stack([grown(1.0, RATE), by_k], axis=1)
    matrix = slopes.T @ (slopes / grown(60.0, RATE)[:, None])
    a, k = np.sqrt(np.diag(np.linalg.inv(matrix)))
    return Measured("increments, poisson", draw, {"a": 60.0, "k": RATE}, {"a": float(a), "k": float(k)})
