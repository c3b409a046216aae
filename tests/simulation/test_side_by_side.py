"""Runs integrated side by side against closed forms, SciPy, and themselves."""

from dataclasses import replace

import numpy as np
import pytest

from picardfit.model.doses import Jumps
from picardfit.model.inputs import Table, as_input
from picardfit.model.model import Model
from picardfit.simulation.pieces import piece_of
from picardfit.simulation.radau import radau
from picardfit.simulation.side_by_side import SideBySide, march
from picardfit.simulation.trajectories import Integration, Run, trajectories

SETTINGS = SideBySide(alone=1)
BESIDE = Integration(side_by_side=SETTINGS)
SCIPY = Integration(side_by_side=None)
LOGISTIC = Model("x' = r*x*(1 - x/K)")
RICCATI = Model("x' = a*x^2")
VAN_DER_POL = Model("x' = y\ny' = mu*(1 - x^2)*y - x")
DRIVEN = Model("x' = -a*x + u", inputs=["u"])
ROBERTSON = Model("a' = -k1*a + k3*b*c\nb' = k1*a - k3*b*c - k2*b^2\nc' = k2*b^2")


def run(initial, params, times, inputs=None, t0=0.0, **more):
    sources = {name: as_input(name, spec) for name, spec in (inputs or {}).items()}
    breaks = tuple(b for source in sources.values() for b in source.breakpoints)
    times = np.asarray(times, float)
    return Run(t0, np.array(initial, float), np.array(params, float), sources, times, breaks, **more)


def marched(model, initial, params, times, rtol=1e-10, settings=SETTINGS, largest=1e9, inputs=None):
    """One piece from 0 to the last time, without any other method behind it."""
    initial, params = np.array(initial, float), np.array(params, float)
    runs, end = len(initial), float(times[-1])
    signals = [{name: as_input(name, spec) for name, spec in (inputs or {}).items()}] * runs
    piece = piece_of(model, params, signals, np.zeros(runs), np.full(runs, end))
    atol = 1e-4 * rtol * np.maximum(np.abs(initial), 1e-3)
    return march(piece, initial, [times / piece.length[0, 0]] * runs, rtol, atol, largest, settings)


def logistic(t, x0, r, K):
    return K / (1 + (K / x0 - 1) * np.exp(-r * t))


@pytest.mark.parametrize("stages", [3, 5, 9])
def test_radau_integrates_polynomials_below_twice_its_stages_exactly(stages):
    table = radau(stages, 0.1)
    for power in range(2 * stages - 1):
        assert table.matrix[-1] @ table.nodes**power == pytest.approx(1 / (power + 1), rel=1e-12)
    np.testing.assert_allclose(table.matrix @ table.nodes, table.nodes**2 / 2, atol=1e-14)


def test_radau_of_three_stages_has_the_published_nodes():
    np.testing.assert_allclose(radau(3, 0.1).nodes, [(4 - 6**0.5) / 10, (4 + 6**0.5) / 10, 1.0], rtol=1e-14)


@pytest.mark.parametrize("place", [0.0, 0.3, 1.0, 2.5])
def test_weights_reproduce_a_polynomial_also_beyond_the_step(place):
    table = radau(5, 0.1)
    values = np.append(0.0, table.nodes) ** 4 - 2.0
    assert table.weights(np.array(place)) @ values == pytest.approx(place**4 - 2.0, abs=1e-10)


def test_the_approximate_inverse_agrees_to_second_order_and_at_infinity():
    pole, table, identity = 0.085, radau(9, 0.085), np.eye(9)

    def remainder(q):
        powers = [(1 - pole * q) ** -(k + 1) for k in range(3)]
        return identity - np.tensordot(powers, table.powers, 1) @ (identity - q * table.matrix)

    assert np.abs(remainder(1e-4)).max() / np.abs(remainder(1e-3)).max() == pytest.approx(1e-2, rel=0.02)
    assert np.abs(np.linalg.eigvals(remainder(-1e9))).max() < 1e-5
    axis = [np.abs(np.linalg.eigvals(remainder(1j * q))).max() for q in np.logspace(-2, 4, 200)]
    assert max(axis) < 0.57


def test_runs_of_different_parameters_have_their_closed_forms():
    times, rates = np.linspace(0, 10, 41), np.array([0.1, 1.0, 3.0, 20.0])
    result = marched(LOGISTIC, np.full((4, 1), 0.01), [[r, 2.0] for r in rates], times)
    for rate, states in zip(rates, result.found, strict=True):
        np.testing.assert_allclose(states[:, 0], logistic(times, 0.01, rate, 2.0), rtol=1e-9)


@pytest.mark.parametrize("rtol", [1e-6, 1e-8, 1e-10, 1e-12])
def test_errors_stay_below_the_tolerance_asked_for(rtol):
    times = np.linspace(0, 10, 41)
    states = marched(LOGISTIC, [[0.01]], [[1.0, 2.0]], times, rtol).found[0]
    assert np.abs(states[:, 0] / logistic(times, 0.01, 1.0, 2.0) - 1).max() < rtol


def test_a_stiff_run_needs_few_steps():
    times = np.linspace(0, 2, 11)
    model = Model("x' = -k*(x - cos(t)) - sin(t)")  # x = cos(t) for every k (Prothero and Robinson)
    result = marched(model, [[1.0], [1.0]], [[1e2], [1e7]], times, settings=replace(SETTINGS, steps=60))
    for states in result.found:
        np.testing.assert_allclose(states[:, 0], np.cos(times), atol=1e-9)


def test_robertson_agrees_with_scipy():
    times = np.array([0.4, 40.0, 4e3, 4e5])
    runs = [run([1, 0, 0], [0.04, 1e4, scale * 3e7], times) for scale in (0.5, 1.0, 2.0)]
    ours, scipys = (
        trajectories(ROBERTSON, runs, settings=BESIDE),
        trajectories(ROBERTSON, runs, settings=SCIPY),
    )
    np.testing.assert_allclose(np.array(ours), np.array(scipys), rtol=1e-8)


def test_relaxation_oscillations_agree_with_scipy():
    runs = [run([2, 0], [mu], np.linspace(0, 20, 41)) for mu in (1.0, 5.0, 20.0)]
    ours = trajectories(VAN_DER_POL, runs, settings=BESIDE)
    scipys = trajectories(VAN_DER_POL, runs, 1e-12, settings=SCIPY)
    np.testing.assert_allclose(np.array(ours), np.array(scipys), atol=2e-7)


@pytest.mark.parametrize("sparse", [1, 200])
def test_sparse_and_dense_matrices_give_the_same_states(sparse):
    settings = replace(SETTINGS, sparse=sparse)
    result = marched(ROBERTSON, [[1, 0, 0]], [[0.04, 1e4, 3e7]], np.array([0.4, 40.0]), settings=settings)
    # Hairer and Wanner, test set for initial value problems, at t = 40
    np.testing.assert_allclose(
        result.found[0][-1], [0.7158270687193941, 9.185534764557338e-6, 0.2841637457458412], rtol=1e-8
    )


def test_a_run_that_explodes_is_given_up_alone():
    times = np.linspace(0, 2, 11)
    result = marched(RICCATI, [[1.0], [1.0]], [[0.1], [1.0]], times, largest=1e6)
    np.testing.assert_allclose(result.found[0][:, 0], 1 / (1 - 0.1 * times), rtol=1e-9)
    assert np.isfinite(result.ends[0]).all()
    assert np.isnan(result.ends[1]).all()


def test_trajectories_say_none_for_it_as_ever():
    times = np.linspace(0, 2, 11)
    good, bad = trajectories(RICCATI, [run([1], [a], times) for a in (0.1, 1.0)], settings=BESIDE)
    np.testing.assert_allclose(good[:, 0], 1 / (1 - 0.1 * times), rtol=1e-9)
    assert bad is None


def test_a_run_that_needs_too_many_steps_is_left_to_others():
    few = Integration(side_by_side=replace(SETTINGS, steps=3))
    runs = [run([2, 0], [mu], np.linspace(0, 20, 41)) for mu in (1.0, 5.0)]
    for ours, scipys in zip(
        trajectories(VAN_DER_POL, runs, settings=few),
        trajectories(VAN_DER_POL, runs, settings=SCIPY),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, scipys)


def test_breaks_and_doses_are_met_exactly():
    jumps = Jumps(np.array([1.0]), np.ones((1, 1)), np.full((1, 1), 5.0))
    times = np.array([0.5, 1.0, 1.5, 2.5])
    one = run([2.0], [1.0], times, {"u": 0.0}, jumps=jumps)
    free = np.where(times < 1, 2 * np.exp(-times), 2 * np.exp(-times) + 5 * np.exp(1 - times))
    for states in trajectories(DRIVEN, [one, one, one], settings=BESIDE):
        np.testing.assert_allclose(states[:, 0], free, rtol=1e-9)


def test_inputs_that_vary_in_time_are_those_of_each_run():
    times = np.linspace(0, 6, 25)
    runs = [run([0.0], [1.0], times, {"u": u}) for u in ("cos(t)", "sin(t)", 1.0)]
    answers = trajectories(DRIVEN, runs, settings=BESIDE)
    decay = np.exp(-times)
    forms = [
        (np.cos(times) + np.sin(times) - decay) / 2,
        (np.sin(times) - np.cos(times) + decay) / 2,
        1 - decay,
    ]
    for states, form in zip(answers, forms, strict=True):
        np.testing.assert_allclose(states[:, 0], form, atol=1e-9)


def test_a_run_is_the_same_in_any_company_to_its_accuracy():
    times = np.linspace(0, 20, 41)
    runs = [run([2, 0], [mu], times) for mu in (0.5, 1.0, 2.0, 8.0)]
    together = trajectories(VAN_DER_POL, runs, settings=BESIDE)
    alone = trajectories(VAN_DER_POL, runs[:1], settings=BESIDE)
    np.testing.assert_allclose(together[0], alone[0], atol=1e-8)
    again = trajectories(VAN_DER_POL, runs, settings=BESIDE)
    np.testing.assert_array_equal(np.array(together), np.array(again))


def test_kinks_tables_and_low_accuracy_are_left_to_others():
    kinked = Model("x' = -k*max(x, 1)")
    assert SETTINGS.pays(LOGISTIC.rhs, 4, 1e-10, rows=0)
    assert not SETTINGS.pays(kinked.rhs, 4, 1e-10, rows=0)
    assert not SETTINGS.pays(LOGISTIC.rhs, 4, 1e-10, rows=10)
    assert not SETTINGS.pays(LOGISTIC.rhs, 4, 1e-3, rows=0)
    assert not SideBySide().pays(LOGISTIC.rhs, 6, 1e-10, rows=0)
    table = as_input("u", Table(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0])))
    one = run([0.0], [1.0], np.array([1.0]))
    one = replace(one, inputs={"u": table})
    assert one.rows == 3


def test_nothing_finite_is_no_answer():
    assert (
        trajectories(LOGISTIC, [run([np.nan], [1, 1], [1.0]), run([1.0], [np.inf, 1], [1.0])]) == [None] * 2
    )
