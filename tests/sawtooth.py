"""A sawtooth whose path and events are known: x' = a from 0, and x falls by v whenever it reaches c."""

from __future__ import annotations

import numpy as np

import picardfit as pf
from picardfit.problem.named_values import unknowns_from
from picardfit.search.events.revision import start_along

MODEL = pf.Model("x' = a\nwhen x > c: x = x - v")
TRUTH = {"a": 1.0, "c": 1.33, "v": 1.0}
TIMES = np.linspace(0.1, 3.0, 30)
EVENTS = (1.33, 2.33)


def exact(times: np.ndarray, a: float = 1.0, c: float = 1.33, v: float = 1.0) -> np.ndarray:
    passed = np.maximum(np.floor((a * times - c) / v) + 1, 0)
    return a * times - v * passed


def sawtooth(times: np.ndarray = TIMES, **more: object) -> pf.Problem:
    bounds = {"a": (0.3, 3), "c": (1.05, 3), "v": (0.3, 2)}
    return pf.Problem(MODEL, pf.Experiment(times, {"x": exact(times)}, **more), bounds, initial={"x": 0.0})


def unknowns_of(problem: pf.Problem, **changed: float) -> np.ndarray:
    return unknowns_from(problem, TRUTH | changed)


def solved(problem: pf.Problem, **changed: float):
    """The system and point on the simulated path at these values, and the scale of its states."""
    start = start_along(problem, unknowns_of(problem, **changed))
    assert start is not None
    state = pf.LiftedGaussNewton().init(problem, start)
    return state.system, state.point, state.scale
