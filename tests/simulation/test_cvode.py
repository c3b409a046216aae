"""CVODE as an engine: the same answers and failures as SciPy, and a sentence where it is missing."""

import sys

import numpy as np
import pytest

import picardfit as pf
from picardfit.simulation.trajectories import Integration, Run, trajectories

TIMES = np.linspace(0, 4, 9)
DRIVEN = pf.Model("x' = -a*x + u\ny' = x - y", inputs=["u"])


def problem():
    data = pf.Experiment(TIMES, {"x": np.exp(-TIMES)}, inputs={"u": 0.5}, initial={"x": 1.0, "y": 0.0})
    return pf.Problem(DRIVEN, data, {"a": (0.1, 10)}, noise=pf.Noise(additive=0.1))


def with_cvode():
    pytest.importorskip("sksundae", reason="pip install picardfit[cvode]")
    return pf.CVODE()


def test_the_likelihood_is_that_of_scipy():
    engine = with_cvode()
    assert problem().nllh({"a": 1.3}, engine=engine) == pytest.approx(problem().nllh({"a": 1.3}), rel=1e-9)
    assert problem().loss({"a": 1.3}, engine=engine) == pytest.approx(problem().loss({"a": 1.3}), rel=1e-9)


def test_a_stiff_run_has_its_closed_form():
    settings = Integration(engine=with_cvode())
    model = pf.Model("x' = -k*(x - cos(t)) - sin(t)")
    run = Run(0.0, np.array([1.0]), np.array([1e5]), {}, TIMES)
    np.testing.assert_allclose(
        trajectories(model, [run], settings=settings)[0][:, 0], np.cos(TIMES), atol=1e-9
    )


def test_breaks_are_met():
    settings = Integration(engine=with_cvode())
    model = pf.Model("x' = where(t < 1, 1, 0)")
    run = Run(0.0, np.zeros(1), np.zeros(0), {}, TIMES, (1.0,))
    np.testing.assert_allclose(
        trajectories(model, [run], settings=settings)[0][:, 0], np.minimum(TIMES, 1.0), atol=1e-9
    )


def test_an_explosion_is_no_answer():
    settings = Integration(engine=with_cvode())
    run = Run(0.0, np.ones(1), np.ones(1), {}, TIMES)
    assert trajectories(pf.Model("x' = a*x^2"), [run], settings=settings) == [None]


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sksundae", None)
    monkeypatch.setitem(sys.modules, "sksundae.cvode", None)
    with pytest.raises(pf.InputError, match="picardfit\\[cvode\\]"):
        problem().nllh({"a": 1.0}, engine=pf.CVODE())


def test_one_sample_is_the_last_state_and_not_the_first_step():
    engine = with_cvode()
    data = pf.Experiment([2.0], {"x": [0.5]}, initial={"x": 1.0})
    one = pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0.1, 5)}, noise=pf.Noise(additive=0.1))
    assert one.nllh({"k": 0.4}, engine=engine) == pytest.approx(one.nllh({"k": 0.4}), rel=1e-8)
