"""Hidden states follow their equations along the measured ones: the solution of the implicit Euler method."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.hidden_states import Following, follow_hidden

GRID = np.linspace(0, 4, 121)


def followed(model, measured, initial, params=(), limit=10.0, settings=None, grid=GRID):
    """(points, states): the hidden states of one experiment, from `initial`, along the measured {state: values}."""
    model = pf.Model(model)
    data = {name: np.interp([0, 4], grid, values) for name, values in measured.items()}
    problem = pf.Problem(model, pf.Experiment([0, 4], data))
    path = np.tile(np.array(initial, float), (1, len(grid), 1))
    for name, values in measured.items():
        path[0, :, model.states.index(name)] = values
    hidden = np.array([[name not in measured for name in model.states]])
    limits = np.full(hidden.shape, limit)
    return follow_hidden(
        problem, grid[None], path, hidden, np.array([params], float), limits, settings or Following()
    )[0]


def error_of_steps(path, slopes, column, grid=GRID):
    """Largest |z+ - z - h f+|."""
    return np.abs(np.diff(path[:, column]) - np.diff(grid) * slopes[1:]).max()


def test_linear_hidden_states_solve_the_implicit_euler_method():
    shown = np.exp(-GRID)
    path = followed("x' = -x; y' = x - 2*y + z; z' = y - 3*z", {"x": shown}, [1, 0, 0.5])
    x, y, z = path.T
    assert error_of_steps(path, x - 2 * y + z, 1) < 1e-13
    assert error_of_steps(path, y - 3 * z, 2) < 1e-13
    np.testing.assert_array_equal(x, shown)


@pytest.mark.parametrize("rate", [1.0, 1e4])
def test_nonlinear_hidden_state_settles(rate):
    """Quadratic decay from zero towards a small quasi-steady value, as of Robertson's b."""
    path = followed("x' = -x; z' = x - k*z^2", {"x": 1 + 0 * GRID}, [1, 0], [rate])
    z = path[:, 1]
    assert error_of_steps(path, 1 - rate * z**2, 1) < 4 / 120 * 0.02
    assert z[-1] == pytest.approx(rate**-0.5, rel=1e-2)


def test_order_of_convergence_is_one():
    errors = []
    for points in (61, 121, 241):
        grid = np.linspace(0, 4, points)
        path = followed("x' = -x; z' = z*(x - z)", {"x": 1 + 0 * grid}, [1, 0.1], grid=grid)
        errors.append(abs(path[points // 2, 1] - 1 / (1 + 9 * np.exp(-2))))
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.1)


def test_exploding_state_stays_at_its_limit_until_it_returns():
    """Growth for two units of time, then decay from the limit and not from what the growth would have made."""
    shown = np.where(GRID < 2, 5.0, -5.0)
    path = followed("x' = 0*x; z' = x*z", {"x": shown}, [5, 1], limit=10.0)
    assert path[:, 1].max() == 10.0
    back = np.searchsorted(GRID, 2.0)
    np.testing.assert_allclose(path[back:, 1], 10 / (1 + 5 * 4 / 120) ** np.arange(1, 122 - back), rtol=1e-10)


def test_experiments_may_hide_different_states():
    model = pf.Model("x' = -y; y' = -x")
    runs = [pf.Experiment([0, 4], {"x": [1, 1]}), pf.Experiment([0, 4], {"y": [1, 1]})]
    path = np.ones((2, len(GRID), 2))
    hidden = np.array([[False, True], [True, False]])
    found = follow_hidden(
        pf.Problem(model, runs), np.stack([GRID, GRID]), path, hidden, np.zeros((2, 0)), np.full((2, 2), 99.0)
    )
    np.testing.assert_allclose(found[0], np.stack([np.ones_like(GRID), 1 - GRID], axis=1), atol=1e-12)
    np.testing.assert_allclose(found[1], np.stack([1 - GRID, np.ones_like(GRID)], axis=1), atol=1e-12)


def test_path_through_a_pole_stays_finite_and_inside_its_limit():
    path = followed("x' = -x; z' = 1/(x - z)", {"x": np.cos(3 * GRID)}, [1, 0.9], limit=2.0)
    assert np.isfinite(path).all()
    assert np.abs(path[:, 1]).max() <= 2.0


def test_short_stretches_find_what_the_whole_grid_finds():
    model, shown = "x' = -x; z' = sin(3*z) + x", {"x": np.cos(2 * GRID)}
    whole = followed(model, shown, [1, 0.2], settings=Following(passes=50, settled=1e-12))
    short = followed(model, shown, [1, 0.2], settings=Following(passes=2, settled=1e-6, shortest=1))
    np.testing.assert_allclose(short, whole, atol=1e-3)
