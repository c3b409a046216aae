"""The constants of the paper's theorems, against models for which they are known."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.inference.theorem_constants import (
    AnalysisSettings,
    Constants,
    curvature,
    on_segments,
    start_path,
)

ROTATION = pf.Model("x' = -w*y; y' = w*x")
TIMES = np.linspace(0, 2, 21)
GOLDEN = (3 - np.sqrt(5)) / 4, (3 + np.sqrt(5)) / 4  # eigenvalues of [[1, 1/2], [1/2, 1/2]]


def rotation(**options):
    data = {"x": np.cos(3 * TIMES), "y": np.sin(3 * TIMES)}
    return pf.Problem(ROTATION, pf.Experiment(TIMES, data), **{"parameters": {"w": (1, 4)}, **options})


def line(**options):
    """x' = a through (0, 3) and (1, 4): the loss is 1/4 (x0 - 3)^2 + 1/4 (x0 + a - 4)^2."""
    return pf.Problem(pf.Model("x' = a"), pf.Experiment([0, 1], {"x": [3, 4]}), **options)


@pytest.fixture(scope="module")
def van_der_pol():
    problem = pf.examples.van_der_pol.generate(seed=1, eps=0.01)
    return pf.analyse(problem, start={"theta1": 1.0, "theta2": 1.0})


def test_norm_of_a_linear_field_on_the_ball_is_found_exactly():
    assert pf.analyse(rotation()).on_ball.state_slope == 4.0


def test_norm_of_a_linear_field_along_the_data_is_that_at_the_start():
    assert pf.analyse(rotation(), start={"w": 3.0}).along_data.state_slope == pytest.approx(3.0, rel=1e-12)


def test_supremum_on_the_surface_of_the_ball_is_found():
    found = pf.analyse(rotation()).on_ball  # |f| = w |x|
    assert found.speed == pytest.approx(4 * found.radius, rel=1e-9)


def test_slope_by_the_parameter_is_that_of_the_field():
    found = pf.analyse(rotation()).on_ball  # |df/dw| = |x|
    assert found.parameter_slope == pytest.approx(found.radius, rel=1e-9)


def test_fixed_parameters_do_not_vary():
    problem = rotation(parameters={"w": 2.0})
    found = pf.analyse(problem)
    assert (found.on_ball.state_slope, found.on_ball.parameter_slope) == (2.0, 0.0)


def test_log_parameters_reach_their_bounds():
    problem = rotation(parameters={"w": pf.Parameter(1e-3, 1e3, log=True)})
    assert pf.analyse(problem).on_ball.state_slope == pytest.approx(1e3)


def test_state_box_holds_the_bounds_of_the_initial_states():
    problem = rotation(initial={"x": (-30, 40), "y": 0.0})
    assert pf.analyse(problem).on_ball.radius == pytest.approx(2 * np.hypot(40, 1.4), rel=0.02)


def test_supremum_over_time_includes_the_inputs():
    model = pf.Model("x' = -u*x", inputs=["u"])
    one = pf.Experiment(TIMES, {"x": np.exp(-TIMES)}, inputs={"u": "where(t < 1, 1, 5)"})
    assert pf.analyse(pf.Problem(model, one)).on_ball.state_slope == 5.0


def test_every_experiment_counts():
    model = pf.Model("x' = -u*x", inputs=["u"])
    runs = [pf.Experiment(TIMES, {"x": np.exp(-TIMES)}, inputs={"u": u}) for u in (1.0, 7.0, 2.0)]
    found = pf.analyse(pf.Problem(model, runs))
    assert (found.on_ball.state_slope, found.along_data.state_slope) == (7.0, 7.0)


@pytest.mark.parametrize(
    "constants, length",
    [
        (Constants(2.0, 4.0, 1.0, 1.0), 0.25),  # 1/K_x is the smaller
        (Constants(2.0, 4.0, 1.0, 10.0), 0.1),  # a/2M is the smaller
        (Constants(2.0, 0.0, 1.0, 0.0), np.inf),  # nothing moves
        (Constants(2.0, np.inf, 1.0, np.inf), 0.0),  # a pole
    ],
)
def test_segment_length_is_the_theorems(constants, length):
    assert constants.segment_length == length


def test_segments_are_counted_over_all_experiments():
    model = pf.Model("x' = -u*x", inputs=["u"])
    runs = [pf.Experiment([0, stop], {"x": [1, 0.1]}, inputs={"u": 1.0}) for stop in (1.0, 2.5)]
    assert pf.analyse(pf.Problem(model, runs)).segments(0.5) == 7


def test_van_der_pol_along_the_data_has_the_norm_of_the_limit_cycle(van_der_pol):
    run = pf.simulate(
        pf.examples.van_der_pol.model(),
        {"theta1": 1.0, "theta2": 1.0},
        {"x1": 2.0, "x2": 0.0},
        np.linspace(0, 14, 2801),
    )
    x1, x2 = run.states["x1"], run.states["x2"]
    jacobian = np.array([[0 * x1, 0 * x1 + 1], [-1 - 2 * x1 * x2, 1 - x1**2]])
    largest = np.linalg.norm(jacobian.transpose(2, 0, 1), 2, axis=(1, 2)).max()  # 7.4; the paper says about 4
    assert van_der_pol.along_data.state_slope == pytest.approx(largest, rel=0.1)


def test_theorem_on_the_ball_asks_for_more_segments_than_the_data(van_der_pol):
    assert van_der_pol.on_ball.segment_length < 0.1 * van_der_pol.along_data.segment_length


@pytest.mark.parametrize("name", ["van_der_pol", "fitzhugh_nagumo", "rosenzweig_macarthur", "lorenz"])
def test_picard_contracts_at_least_as_the_theorem_says(name):
    found = pf.analyse(getattr(pf.examples, name).generate(seed=2), samples=64)
    assert 0 < found.contraction <= found.segment_length * found.along_data.state_slope * (1 + 1e-4)


def test_contraction_of_a_linear_field_is_length_times_norm():
    found = pf.analyse(rotation(), start={"w": 3.0})
    assert found.contraction == pytest.approx(found.segment_length * 3.0, rel=1e-6)


def test_remark_one_on_a_quadratic_loss():
    found = pf.analyse(line(), start={"a": 1.0})
    assert (found.convexity, found.gradient_slope) == pytest.approx(GOLDEN, rel=1e-9)


def test_step_sizes_are_those_of_remark_one():
    low, high = GOLDEN
    found = pf.analyse(line(), start={"a": 1.0})
    assert (found.rate, found.sigma) == pytest.approx((2 / (low + high), low / (high - low)), rel=1e-9)


def test_sigma_is_at_most_one():
    found = pf.analyse(line(parameters={"a": 1.0}))  # one unknown: mu = K_L
    assert (found.sigma, found.convexity) == (1.0, found.gradient_slope)


def test_continuity_enters_the_curvature():
    """x' = a in two segments with samples at both ends and the middle: the Hessian by hand."""
    problem = pf.Problem(pf.Model("x' = a"), pf.Experiment([0, 1, 2], {"x": [0.1, 1.1, 2.1]}))
    begin = start_path(problem, {"a": 1.0})
    count, extremes = curvature(*on_segments(problem, begin, 1.0))
    first, second, last = np.array([0, 1, 0]), np.array([1, 0, 0]), np.array([1, 0, 1])  # of (x1, x0, a)
    jump = np.array([-1, 1, 1])
    hessian = sum(np.outer(v, v) for v in (first, second, last)) / 3
    values = np.linalg.eigvalsh(hessian + 2 * AnalysisSettings.continuity * np.outer(jump, jump))
    assert (count, *extremes) == pytest.approx((3, values[0], values[-1]), rel=1e-9)


def test_sparse_and_dense_eigenvalues_agree():
    problem = pf.examples.van_der_pol.generate(seed=1)
    sparse = pf.analyse(problem, samples=8)
    dense = pf.analyse(problem, samples=8, settings=AnalysisSettings(dense=10_000))
    assert (sparse.convexity, sparse.gradient_slope) == pytest.approx(
        (dense.convexity, dense.gradient_slope), rel=1e-4
    )


def test_a_loss_that_is_not_strongly_convex_is_said_to_be_so():
    problem = pf.Problem(pf.Model("x' = -k*q*x"), pf.Experiment(TIMES, {"x": np.exp(-TIMES)}))
    found = pf.analyse(problem)
    assert found.convexity == 0
    assert "not strongly convex" in str(found)


def test_step_sizes_are_unknown_without_strong_convexity():
    problem = pf.Problem(pf.Model("x' = -k*q*x"), pf.Experiment(TIMES, {"x": np.exp(-TIMES)}))
    found = pf.analyse(problem)
    assert np.isnan([found.rate, found.sigma]).all()


def test_a_fit_can_take_the_place_of_the_start():
    problem = rotation()
    found = pf.analyse(problem, start=pf.fit(problem))
    assert found.along_data.state_slope == pytest.approx(3.0, rel=1e-6)


def test_a_fit_of_another_problem_is_refused():
    assert (
        complaint(lambda: pf.analyse(rotation(), start=pf.fit(rotation()))).code
        == "inference.start_of_other_problem"
    )


def test_same_seed_same_answer():
    problem = pf.examples.lorenz.generate(seed=1)
    assert pf.analyse(problem, samples=100, seed=3) == pf.analyse(problem, samples=100, seed=3)


def test_more_samples_do_not_lose_the_supremum():
    problem = pf.examples.lorenz.generate(seed=1)
    few, many = (pf.analyse(problem, samples=n).on_ball.state_slope for n in (16, 4096))
    assert few == pytest.approx(many, rel=0.02)


def test_a_field_that_is_not_finite_on_the_ball_is_reported():
    problem = pf.Problem(pf.Model("x' = -k*sqrt(x)"), pf.Experiment(TIMES, {"x": (3 - TIMES) ** 2}))
    found = pf.analyse(problem)
    assert found.on_ball.segment_length == 0
    assert "not finite everywhere on the ball" in str(found)


def test_text_says_that_estimates_are_lower_bounds(van_der_pol):
    assert "lower bounds of the suprema" in str(van_der_pol)


def test_text_names_parameters_without_bounds():
    assert "were varied around the start: `a`" in str(pf.analyse(line()))


def test_single_sample_at_the_start_is_no_obstacle():
    found = pf.analyse(pf.Problem(pf.Model("x' = -k*x"), pf.Experiment([0.0], {"x": [1.0]})))
    assert found.spans == (0.0,)


@pytest.mark.parametrize(
    "arguments, code, subject",
    [
        ({"samples": 0}, "errors.not_whole", "samples"),
        ({"samples": 2.5}, "errors.not_whole", "samples"),
        ({"seed": -1}, "errors.not_whole", "seed"),
        ({"start": {"v": 1.0}}, "problem.value_of_unknown_name", "v"),
    ],
)
def test_bad_arguments_are_named(arguments, code, subject):
    error = complaint(lambda: pf.analyse(rotation(), **arguments))
    assert (error.code, error.subject) == (code, subject)


def test_something_else_than_a_problem_is_refused():
    assert complaint(lambda: pf.analyse(ROTATION)).code == "inference.analysis_of"


def test_a_fit_may_be_the_second_argument():
    problem = rotation()
    fit = pf.fit(problem)
    assert pf.analyse(problem, fit, samples=64) == pf.analyse(problem, start=fit, samples=64)
