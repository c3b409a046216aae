import numpy as np
import pytest

import picardfit as pf
from picardfit.problem.side_by_side import measured_only
from picardfit.search.rescue.relay import rank
from picardfit.search.rescue.settings import Rescue


def test_scales_and_offsets_of_candidates_are_fitted_without_integrating():
    times = np.linspace(0, 4, 30)
    data = 0.2 + 3.0 * np.exp(-times) + 0.01 * np.random.default_rng(1).standard_normal(30)
    wide = pf.Parameter(1e-4, 1e4, log=True)
    problem = pf.Problem(
        pf.Model("x' = -k*x", observables={"y": "offset + scale*x"}),
        [pf.Experiment(times, {"y": data}, initial={"x": 1.0})],
        {"k": wide, "offset": wide, "scale": wide, "s": pf.Parameter(1e-4, 10, log=True)},
        noise=pf.Noise(additive="s"),
    )
    layout = problem.layout
    names = [layout.label(0, c) for c in range(layout.width)]
    assert {n for n, only in zip(names, measured_only(problem), strict=True) if only} == {
        "offset",
        "scale",
        "s",
    }
    rng = np.random.default_rng(0)
    many_unknowns = rng.uniform(layout.lower, layout.upper, (12, *layout.lower.shape))
    many_unknowns[..., names.index("k")] = 0.0
    found = rank(problem, many_unknowns, Rescue()).best(8)
    values = dict(zip(names, np.exp(found.many_unknowns[0, 0]), strict=True))
    assert values["k"] == 1.0
    assert values["offset"] == pytest.approx(0.2, rel=0.1)
    assert values["scale"] == pytest.approx(3.0, rel=0.02)
    assert values["s"] == pytest.approx(0.01, rel=0.3)


def test_a_parameter_of_an_initial_state_is_not_only_measured():
    model = pf.Model("x' = -k*x", observables={"y": "a*x"})
    one = pf.Experiment([0.0, 1.0], {"y": [1.0, 0.5]}, initial={"x": "a"})
    problem = pf.Problem(model, [one], {"k": (0.1, 10), "a": (0.1, 10)})
    assert not measured_only(problem).any()
