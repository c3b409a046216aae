"""States of rest that depend on the way to them, against their closed form."""

import numpy as np
import pytest

import picardfit as pf
from picardfit.simulation.steady_states import steady_state

MODEL = pf.Model("a' = -k*a\nb' = 1 - b\nc' = a*b")  # J is singular at rest, and no linear law explains it


@pytest.mark.parametrize("a0, b0, c0", [(2.0, 0.0, 1.0), (2.0, 1.0, 1.0), (0.0, 1.0, 3.0)])
def test_rest_and_derivatives(a0, b0, c0):
    k = 0.5
    found = steady_state(MODEL.rhs, 0.0, np.array([a0, b0, c0]), np.array([k]), np.zeros(0))
    gap = b0 - 1  # c = c0 + a0/k + a0 (b0 - 1)/(1 + k)
    assert found.states == pytest.approx([0, 1, c0 + a0 / k + a0 * gap / (1 + k)], abs=1e-8)
    by_k = -a0 / k**2 - a0 * gap / (1 + k) ** 2
    assert found.by_params[:, 0] == pytest.approx([0, 0, by_k], abs=1e-7)
    by_start = [[0, 0, 0], [0, 0, 0], [1 / k + gap / (1 + k), a0 / (1 + k), 1]]
    assert found.by_start == pytest.approx(np.array(by_start), abs=1e-7)


def test_what_never_rests_has_no_rest():
    model = pf.Model("a' = -a\nc' = k")
    assert steady_state(model.rhs, 0.0, np.array([1.0, 0.0]), np.array([1e-6]), np.zeros(0)) is None
