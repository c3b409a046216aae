"""A problem with two optima, on which two searches may disagree."""

from __future__ import annotations

import numpy as np

import picardfit as pf


def two_wells() -> pf.Problem:
    """The slope has two minima in k, one lower than the other, and the data lie below both."""
    times, model = np.linspace(0, 1, 8), pf.Model("x' = k^4/4 - k^2 + 0.2*k")
    data = -2 * times + 0.01 * np.random.default_rng(0).standard_normal(8)
    return pf.Problem(model, pf.Experiment(times, {"x": data}, initial={"x": 0.0}), {"k": (-3, 3)})


def rescued(**options: object) -> pf.Fit:
    """A fit of the two wells whose first two searches disagree, so that it simulates a few candidates."""
    policy = pf.SearchPolicy(most=2, rescue=pf.Rescue(candidates=16, lanes=4))
    return pf.fit(two_wells(), policy=policy, **options)
