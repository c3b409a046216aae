"""Simulated doses, infusions, resets and periodic states against closed forms."""

import numpy as np
import pytest

import picardfit as pf
from pharmacokinetics import EMPTY, MODEL, TRUTH, infused, oral
from picardfit.formulas.tracing import NumericMap
from picardfit.simulation.periodic_states import Regimen, periodic_state

TIMES = np.array([0.0, 0.3, 1.0, 4.0, 12.0, 12.5, 24.0, 30.0])


def test_repeated_oral_doses():
    found = pf.simulate(MODEL, TRUTH, EMPTY, TIMES, doses=pf.Doses([0, 12, 24], 100, into="gut"))
    exact = oral(TIMES) + oral(TIMES - 12) + oral(TIMES - 24)
    np.testing.assert_allclose(found.states["central"], exact, rtol=1e-8, atol=1e-10)


def test_the_state_at_a_dose_is_the_one_after_it():
    found = pf.simulate(MODEL, TRUTH, EMPTY, [0, 11.999999, 12], doses=pf.Doses([0, 12], 100, into="central"))
    before = 100 * np.exp(-0.15 * 12)
    np.testing.assert_allclose(found.states["central"], [100, before, before + 100], rtol=1e-6)


def test_infusions():
    doses = [pf.Doses([1, 5], [100, 60], into="central", duration=[2, 4]), pf.Doses([0], 100, into="gut")]
    found = pf.simulate(MODEL, TRUTH, EMPTY, TIMES, doses=doses)
    exact = oral(TIMES) + infused(TIMES - 1) + infused(TIMES - 5, 60.0, 4.0)
    np.testing.assert_allclose(found.states["central"], exact, rtol=1e-8, atol=1e-10)


def test_a_reset_forgets():
    doses = pf.Doses([0, 12], 100, into="gut")
    found = pf.simulate(MODEL, TRUTH, EMPTY, TIMES, doses=doses, resets=[12.0])
    exact = np.where(TIMES < 12, oral(TIMES), oral(TIMES - 12))
    np.testing.assert_allclose(found.states["central"], exact, rtol=1e-8, atol=1e-10)


def test_a_python_function_is_infused():
    def decay(t, x, p):
        return [-p[0] * x[0]] if x[0] > -1 else [0.0]

    model = pf.Model.from_function(decay, ["central"], ["k"])
    assert isinstance(model.rhs, NumericMap)
    doses = pf.Doses([1], 100, into="central", duration=2)
    found = pf.simulate(model, {"k": 0.15}, {"central": 0.0}, TIMES, doses=doses)
    np.testing.assert_allclose(found.states["central"], infused(TIMES - 1), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("duration", [3.0, 12.0, 30.0])
def test_the_periodic_state_of_infusions(duration):
    model = pf.Model("x' = -k*x").with_infusions(["x"])
    regimen = Regimen((pf.Doses([0], 100, into="x", duration=duration),), 12.0)
    found = periodic_state(model.rhs, 0.0, np.zeros(1), np.array([0.15]), np.zeros(1), regimen)
    exact = sum(infused(12.0 * k, 100.0, duration) for k in range(1, 400))
    np.testing.assert_allclose(found.states, exact, rtol=1e-8)


def test_the_periodic_state_of_saturable_elimination_and_its_derivatives():
    model = pf.Model("x' = -vm*x/(km + x)")
    regimen = Regimen((pf.Doses([0], 50, into="x"),), 12.0)

    def state(params):
        return periodic_state(model.rhs, 0.0, np.zeros(1), np.array(params), np.zeros(0), regimen)

    last = pf.simulate(
        model, {"vm": 5, "km": 10}, {"x": 0}, [3600], doses=pf.Doses(np.arange(300) * 12.0, 50, "x")
    )
    here = np.array([5.0, 10.0])
    found = state(here)
    np.testing.assert_allclose(found.states, last.states["x"], rtol=1e-7)
    for k, step in enumerate(np.eye(2) * 1e-4):
        change = state(here + step).states - state(here - step).states
        np.testing.assert_allclose(found.by_params[:, k], change / 2e-4, rtol=1e-5)


def test_what_accumulates_has_no_periodic_state():
    model = pf.Model("x' = 0*k*x")
    regimen = Regimen((pf.Doses([0], 50, into="x"),), 12.0)
    assert periodic_state(model.rhs, 0.0, np.zeros(1), np.ones(1), np.zeros(0), regimen) is None


def test_a_conserved_amount_keeps_its_value():
    model = pf.Model("x' = -k*x + 0*r\nr' = -on*r*x + off*(10 - r)\nb' = on*r*x - off*b")
    regimen = Regimen((pf.Doses([0], 5, into="x"),), 3.0)
    start = np.array([0.0, 10.0, 0.0])
    params = [0.5, 0.3, 0.2]
    found = periodic_state(model.rhs, 0.0, start, np.array(params), np.zeros(0), regimen)
    assert found is not None
    after = periodic_state(model.rhs, 0.0, found.states, np.array(params), np.zeros(0), regimen)
    np.testing.assert_allclose(after.states, found.states, rtol=1e-7)
