"""The equations as written judge the compiled ones, and rounding is not mistaken for a fault."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.evidence.formula_check import FormulaCheck, difference_at, formula_error

TANK = (("h", "x/1000", False), ("x", "1 - k*h**120", True))


def test_a_kernel_that_lost_a_term_is_found():
    values = {"x": 990.0, "k": 1.0, "t": 0.0}
    right = 1 - 0.99**120
    assert difference_at(TANK, values, np.array([right])) == 0
    assert difference_at(TANK, values, np.array([1.0])) == pytest.approx(1 - right)
    assert difference_at(TANK, values, np.array([np.nan])) > 1e-6


def test_cancellation_is_rounding():
    """1e12*(x - y) loses all digits where x and y agree to all of theirs, however it is computed."""
    x, y = 1.0 + 3e-15, 1.0
    written = (("x", "1e12*(x - y)", True),)
    assert difference_at(written, {"x": x, "y": y, "t": 0.0}, np.array([1e12 * x - 1e12 * y])) == 0


@pytest.fixture(scope="module")
def tank():
    """x' = 1 - k (x/1000)**120 fills up and then overflows quickly."""
    model = pf.Model("x' = 200 - 300*k*(x/1000)**120")
    truth = pf.simulate(model, {"k": 1.0}, {"x": 900.0}, np.linspace(0, 1, 12)).observables["x"]
    data = pf.Experiment(np.linspace(0, 1, 12), {"x": truth}, initial={"x": 900.0})
    return pf.fit(pf.Problem(model, data, {"k": (0.1, 10)}))


def test_a_steep_power_is_fitted(tank):
    assert tank.success
    assert tank.parameters["k"] == pytest.approx(1.0, rel=1e-5)
    assert tank.certificate.formula_error == 0
    assert "as written" in str(tank.certificate)


def test_a_model_beyond_the_limit_is_not_checked(tank):
    assert formula_error(tank.solution, FormulaCheck(most_tokens=3)) is None


def test_a_function_is_not_checked():
    model = pf.Model.from_function(lambda t, x, p: [-p[0] if x[0] > -1 else 0.0], ["x"], ["k"])
    data = pf.Experiment([0, 1, 2], {"x": [3.0, 2.0, 1.0]})
    assert pf.fit(pf.Problem(model, data, {"k": (0, 5)})).certificate.formula_error is None


def test_a_saved_fit_keeps_the_verdict(tank, tmp_path):
    assert pf.load(tank.save(tmp_path / "fit.json")).certificate == tank.certificate
