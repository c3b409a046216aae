"""Profiles against fits with the quantity held, closed forms, other parametrisations and bounds."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint, record
from picardfit.inference.profile import profile, profiles
from picardfit.inference.profile_continuation import End, follow_branch
from picardfit.problem.quantity import quantity

LOTKA = pf.Model("x' = a*x - b*x*y; y' = d*x*y - c*y")
DECAY = pf.Model("x' = -k*x")
TIMES = np.linspace(0, 8, 17)
START = {"b": 0.4, "c": 0.9, "d": 0.3}


def data(model, truth, initial, times=TIMES, sd=0.1, seed=0, **options):
    run, rng = pf.simulate(model, truth, initial, times), np.random.default_rng(seed)
    return pf.Experiment(
        times,
        {n: v + sd * rng.standard_normal(len(times)) for n, v in run.observables.items()},
        **options,
    )


LOTKA_DATA = data(LOTKA, {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}, {"x": 2.0, "y": 1.0})


def sum_of_squares(fit) -> float:
    return 2 * fit.loss * len(fit.problem.samples.times)


@pytest.fixture(scope="module")
def lotka_fit():
    return pf.fit(pf.Problem(LOTKA, LOTKA_DATA))


@pytest.fixture(scope="module")
def lotka_profile(lotka_fit):
    return lotka_fit.profile("a")


# the profile itself


def test_every_point_is_the_optimum_with_the_parameter_held(lotka_fit, lotka_profile):
    for value, rise in zip(lotka_profile.values, lotka_profile.rises, strict=True):
        held = pf.fit(pf.Problem(LOTKA, LOTKA_DATA, {"a": float(value)}), start=START)
        expected = (sum_of_squares(held) - sum_of_squares(lotka_fit)) / lotka_fit.residual_variance
        assert rise == pytest.approx(expected, abs=1e-5)


def test_the_other_unknowns_follow(lotka_profile):
    value = float(lotka_profile.values[1])
    held = pf.fit(pf.Problem(LOTKA, LOTKA_DATA, {"a": value}), start=START)
    for name in "bcd":
        assert lotka_profile.unknowns[name][1] == pytest.approx(held.parameters[name], rel=1e-4)


def test_an_initial_state_has_a_profile(lotka_fit):
    found = lotka_fit.profile("y(0)")
    value, rise = float(found.values[0]), found.rises[0]
    known = replace(LOTKA_DATA, initial={"y": value})
    held = pf.fit(pf.Problem(LOTKA, known))
    expected = (sum_of_squares(held) - sum_of_squares(lotka_fit)) / lotka_fit.residual_variance
    assert rise == pytest.approx(expected, abs=1e-4)


def test_end_points_lie_on_the_threshold(lotka_profile):
    assert lotka_profile.ends == (End.FOUND, End.FOUND)
    np.testing.assert_allclose(lotka_profile.rises[[0, -1]], lotka_profile.threshold(), rtol=1e-3)
    assert lotka_profile.interval() == (lotka_profile.values[0], lotka_profile.values[-1])


def test_it_starts_from_the_estimate(lotka_fit, lotka_profile):
    assert lotka_profile.estimate == pytest.approx(lotka_fit.parameters["a"], rel=1e-6)
    assert lotka_profile.rises.min() == pytest.approx(0, abs=1e-6)
    assert np.all(np.diff(lotka_profile.values) > 0)


def test_it_is_cheap(lotka_fit):
    """A warm fit needs three linearisations at least."""
    for name in ("a", "b", "x(0)", "a/b"):
        found = lotka_fit.profile(name)
        assert found.refits <= 15
        assert found.linearisations <= 45


def test_a_linear_model_has_fishers_interval():
    """x = x0 + c t: the sum of squares is a parabola, and Student's t is exact."""
    model = pf.Model("x' = c")
    fit = pf.fit(pf.Problem(model, data(model, {"c": 0.5}, {"x": 1.0}, np.linspace(0, 3, 7))))
    for name in ("c", "x(0)"):
        np.testing.assert_allclose(fit.profile(name).interval(), fit.intervals()[name], rtol=1e-3)


def test_an_estimated_level_has_the_intervals_of_least_squares():
    """The likelihood takes the level for smaller than it is; with eight samples that would be felt."""
    run = data(DECAY, {"k": 0.7}, {"x": 2.0}, np.linspace(0, 3, 8), sd=0.1)
    simple, likely = (pf.fit(pf.Problem(DECAY, run, noise=n)) for n in (None, pf.Noise(additive=(1e-3, 9.0))))
    for name in ("k", "x(0)"):
        np.testing.assert_allclose(likely.intervals()[name], simple.intervals()[name], rtol=1e-5)
        np.testing.assert_allclose(
            likely.profile(name).interval(), simple.profile(name).interval(), rtol=1e-3
        )
        assert likely.profile(name).interval(0.5) == pytest.approx(
            simple.profile(name).interval(0.5), rel=1e-3
        )
    bands = [fit.bands(fit.problem.names[0], [0.5]) for fit in (simple, likely)]
    np.testing.assert_allclose(bands[1]["x"].low, bands[0]["x"].low, rtol=1e-5)


def test_it_does_not_depend_on_the_scale_of_the_parameter():
    run = data(DECAY, {"k": 0.7}, {"x": 2.0}, np.linspace(0, 3, 13))
    plain, log = (
        pf.fit(pf.Problem(DECAY, run, {"k": pf.Parameter(1e-3, 50, log=g)})).profile("k").interval()
        for g in (False, True)
    )
    np.testing.assert_allclose(plain, log, rtol=2e-3)


def test_a_smaller_level_is_read_off_the_same_profile(lotka_fit, lotka_profile):
    np.testing.assert_allclose(
        lotka_profile.interval(0.7), lotka_fit.profile("a", level=0.7).interval(), rtol=1e-3
    )


def test_the_curve_passes_through_the_points(lotka_profile):
    values, rises = lotka_profile.curve(4001)
    np.testing.assert_allclose(
        np.interp(lotka_profile.values, values, rises),
        lotka_profile.rises,
        atol=1e-4 * lotka_profile.threshold(),
    )


def test_experiments_of_their_own():
    """Initial states and local parameters of one of several experiments."""
    runs = [
        data(DECAY, {"k": k}, {"x": 2.0}, np.linspace(0, 3, 9), seed=s, name=n)
        for s, (n, k) in enumerate((("slow", 0.3), ("fast", 0.9)))
    ]
    fit = pf.fit(pf.Problem(DECAY, runs, {"k": pf.Parameter(0, 5, local=True)}))
    both = fit.profiles(["k[slow]", "x(0)[fast]"])
    for name, value in (
        ("k[slow]", fit.parameters["k[slow]"]),
        ("x(0)[fast]", fit.initial_states["fast"]["x"]),
    ):
        low, high = both[name].interval()
        assert low < value < high
    # the experiments share nothing, but for the variance
    np.testing.assert_allclose(both["x(0)[fast]"].unknowns["k[slow]"], fit.parameters["k[slow]"], rtol=1e-5)


# likelihoods


def test_a_known_noise_has_the_threshold_of_chi_squared(lotka_fit):
    """The same data with the variance that least squares found: the profile is the same, the quantile is not."""
    sd = float(np.sqrt(lotka_fit.residual_variance))
    fit = pf.fit(pf.Problem(LOTKA, LOTKA_DATA, noise=pf.Noise(additive=sd)))
    found = fit.profile("a")
    assert found.threshold() == pytest.approx(1.959964**2, rel=1e-6)
    expected = lotka_fit.profile("a")
    np.testing.assert_allclose(np.interp(found.values, *expected.curve()), found.rises, atol=0.02)


def test_a_level_of_the_noise_has_a_profile():
    """Normal noise around a known curve: -log L = n log s + q / (2 s^2)."""
    rng = np.random.default_rng(0)
    values = 2 * np.exp(-0.7 * TIMES) + 0.1 * rng.standard_normal(len(TIMES))
    problem = pf.Problem(
        DECAY,
        pf.Experiment(TIMES, {"x": values}),
        {"k": 0.7},
        {"x": pf.Parameter(1.9, 2.1)},
        noise=pf.Noise(additive=(0.01, 1.0)),
    )
    fit = pf.fit(problem)
    name = next(n for n in fit.parameters if n != "k")
    found = fit.profile(name)
    x0 = fit.initial_states["experiment 1"]["x"]
    q, n = np.sum((values - x0 * np.exp(-0.7 * TIMES)) ** 2), len(TIMES)
    cost = 2 * (n * np.log(found.values) + q / (2 * found.values**2))
    np.testing.assert_allclose(found.rises, cost - cost.min(), atol=0.02)


def test_a_prior_takes_part(lotka_fit):
    value = lotka_fit.parameters["a"]
    sd = float(np.sqrt(lotka_fit.residual_variance))
    tight = pf.Parameter(0, 5, prior=pf.priors.Normal(value, 1e-3))
    fit = pf.fit(pf.Problem(LOTKA, LOTKA_DATA, {"a": tight}, noise=pf.Noise(additive=sd)))
    low, high = fit.profile("a").interval()
    assert high - low == pytest.approx(2 * 1.96e-3, rel=0.02)


# formulas


def test_a_formula_has_the_interval_of_the_parameter_it_becomes(lotka_fit):
    """With a = ratio*b the ratio is a parameter."""
    again = pf.Model("x' = ratio*b*x - b*x*y; y' = d*x*y - c*y")
    expected = pf.fit(pf.Problem(again, LOTKA_DATA)).profile("ratio").interval()
    np.testing.assert_allclose(lotka_fit.profile("a/b").interval(), expected, rtol=1e-4)


def test_a_formula_stops_at_the_bounds_of_its_parameters():
    run = data(LOTKA, {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}, {"x": 2.0, "y": 1.0})
    estimate = pf.fit(pf.Problem(LOTKA, run)).parameters
    top = {n: estimate[n] * 1.004 for n in "ab"}
    fit = pf.fit(pf.Problem(LOTKA, run, {n: (0.0, high) for n, high in top.items()}))
    found = fit.profile("a + b")
    assert found.ends[1] is End.BOUND
    assert found.interval()[1] == pytest.approx(sum(top.values()), rel=1e-3)


def test_a_formula_that_falls_with_its_only_parameter(lotka_fit, lotka_profile):
    """The half-life of a rate; 2/a is monotone, so that its ends are those of a."""
    low, high = lotka_profile.interval()
    np.testing.assert_allclose(lotka_fit.profile("2/a").interval(), (2 / high, 2 / low), rtol=1e-4)


def test_a_formula_of_one_parameter_stops_at_its_bound(lotka_fit):
    value, error = lotka_fit.parameters["a"], lotka_fit.standard_errors["a"]
    found = pf.fit(pf.Problem(LOTKA, LOTKA_DATA, {"a": (0.1, value + error)})).profile("1/a")
    assert found.ends == (End.BOUND, End.FOUND)
    assert found.interval()[0] == pytest.approx(1 / (value + error), rel=1e-3)


def test_a_formula_may_use_initial_states(lotka_fit):
    """With y(0) = ratio*x0 and x(0) = x0 the ratio is a parameter."""
    held = {"x": "x0", "y": "ratio*x0"}
    bounds = {"x0": pf.Parameter(0.1, 10, start=2.0), "ratio": pf.Parameter(0.01, 10, start=0.5)}
    expected = pf.fit(pf.Problem(LOTKA, LOTKA_DATA, bounds, held)).profile("ratio").interval()
    np.testing.assert_allclose(lotka_fit.profile("y(0)/x(0)").interval(), expected, rtol=1e-4)


def test_a_formula_may_use_unknowns_of_single_experiments():
    """The experiments share nothing: the difference of two independent estimates."""
    runs = [
        data(DECAY, {"k": k}, {"x": 2.0}, np.linspace(0, 3, 9), seed=s, sd=0.01, name=n)
        for s, (n, k) in enumerate((("slow", 0.3), ("fast", 0.9)))
    ]
    fit = pf.fit(
        pf.Problem(DECAY, runs, {"k": pf.Parameter(0, 5, local=True)}, noise=pf.Noise(additive=0.01))
    )
    low, high = fit.profile("k[fast] - k[slow]").interval()
    error = np.hypot(*(fit.standard_errors[f"k[{n}]"] for n in ("slow", "fast")))
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.01)


def test_slopes_of_formulas_are_derivatives():
    runs = [data(DECAY, {"k": 0.3}, {"x": 2.0}, np.linspace(0, 3, 9), name=n) for n in ("p", "q")]
    noise = pf.Noise(additive=(0.01, 1.0))
    problem = pf.Problem(DECAY, runs, {"k": pf.Parameter(0.01, 5, log=True)}, noise=noise)
    fit = pf.fit(problem)
    held, unknowns, layout = (
        quantity(problem, "k*x(0)[q]/noise.additive"),
        fit.solution.unknowns,
        problem.layout,
    )
    index = np.argwhere(layout.exists)
    index = index[(index[:, 1] < layout.local) | (index[:, 0] == 0)]
    found = held.slope(layout, unknowns, index)
    for (e, c), rate in zip(index, found, strict=True):
        step = np.zeros_like(unknowns)
        step[slice(None) if c >= layout.local else e, c] = 1e-6
        values = [held.value(layout, unknowns + sign * step) for sign in (1, -1)]
        assert rate == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6, abs=1e-8)
    assert np.count_nonzero(found) == 3


# bounds and what is not determined


def test_a_bound_that_is_reached_first_ends_the_interval(lotka_fit):
    value, error = lotka_fit.parameters["a"], lotka_fit.standard_errors["a"]
    fit = pf.fit(pf.Problem(LOTKA, LOTKA_DATA, {"a": (0.0, value + error)}))
    found = fit.profile("a")
    assert found.ends == (End.FOUND, End.BOUND)
    assert found.interval()[1] == pytest.approx(value + error)
    assert "the bound is reached first" in str(found)


def test_an_estimate_at_its_bound_has_a_one_sided_interval(lotka_fit):
    value, error = lotka_fit.parameters["a"], lotka_fit.standard_errors["a"]
    fit = pf.fit(pf.Problem(LOTKA, LOTKA_DATA, {"a": (value + 0.5 * error, 5.0)}))
    found = fit.profile("a")
    low, high = found.interval()
    assert found.ends == (End.AT_BOUND, End.FOUND)
    assert low == pytest.approx(value + 0.5 * error)
    assert found.rises[-1] == pytest.approx(found.threshold(), rel=1e-3)
    # Fisher's interval starts at the same bound and ends nearby
    fisher_low, fisher_high = fit.intervals()["a"]
    assert fisher_low == low
    assert fisher_high - low == pytest.approx(high - low, rel=0.1)


def saturating(**options) -> pf.Fit:
    """Far below saturation only V/K is determined, and K only from below."""
    model = pf.Model("x' = -V*x/(K + x)")
    run = data(model, {"V": 10.0, "K": 10.0}, {"x": 1.0}, np.linspace(0, 3, 25), 0.02, seed=3)
    both = {n: pf.Parameter(1e-3, log=True, start=10.0, **options) for n in "VK"}
    return pf.fit(pf.Problem(model, run, both))


def test_an_end_far_from_the_estimate_is_found():
    """From 740 down to 1.1: the rise is all in the last thousandth of the way. C = A (1 - exp(-k t)), by hand."""
    model, times = pf.Model("C' = k*(A - C)"), np.linspace(0.1, 1, 10)
    measured = np.array([0.058, 0.038, 0.159, 0.406, 0.206, 0.427, 0.51, 0.586, 0.626, 0.879])
    run = pf.Experiment(times, {"C": measured}, initial={"C": 0.0}, t0=0)
    fit = pf.fit(pf.Problem(model, run, {"A": (1e-2, 1e3), "k": (1e-3, 1e2)}))
    assert fit.certificate.at_bound == ("k",)
    profile = fit.profile("A")
    rates = np.geomspace(1e-3, 1e2, 200_001)[:, None]
    for end in profile.interval():
        squares = ((end * (1 - np.exp(-rates * times)) - measured) ** 2).sum(axis=1).min()
        rise = (squares - 20 * fit.loss) / fit.residual_variance
        assert rise == pytest.approx(profile.threshold(), rel=2e-3)


def test_what_is_determined_from_below_only_is_open_above():
    fit = saturating(upper=1e4)
    found = fit.profile("K")
    assert found.ends[0] is End.FOUND
    assert found.ends[1] in (End.BOUND, End.AT_BOUND)
    assert found.interval()[1] == pytest.approx(1e4)


def test_without_a_bound_the_interval_is_infinite():
    found = saturating().profile("V")
    assert found.ends[1] is End.OPEN
    assert found.interval()[1] == np.inf
    assert "not determined" in str(found)


def test_a_pair_that_is_only_determined_together_is_open():
    model = pf.Model("x' = -a*b*x")
    run = data(model, {"a": 0.7, "b": 1.0}, {"x": 2.0}, np.linspace(0, 3, 13))
    fit = pf.fit(pf.Problem(model, run, dict.fromkeys("ab", (0.01, 100))))
    low, high = fit.profile("a").interval()
    assert low == pytest.approx(0.01)
    assert high > 50  # where b meets its bound
    low, high = fit.profile("a*b").interval()
    expected = pf.fit(pf.Problem(DECAY, run)).profile("k").interval()
    # one more unknown leaves one degree of freedom less
    np.testing.assert_allclose((low, high), expected, rtol=0.03)


# bad input


@pytest.mark.parametrize(
    "name, code, subject",
    [
        ("q", "problem.quantity_unknown", "q"),
        ("x(0)[pond]", "problem.quantity_unknown", "x(0)[pond]"),
        ("a + q", "problem.formula_unknown", "q"),
        ("a + x", "problem.formula_unknown", "x"),
        ("2*3", "problem.quantity_constant", "2*3"),
        ("a/z(0)", "formulas.unknown_function", "z"),
        ("sqrt(a - 100)", "inference.profile_of_singular_formula", "sqrt(a - 100)"),
        (3, "problem.quantity_not_text", ""),
    ],
)
def test_a_name_that_means_nothing_is_refused(lotka_fit, name, code, subject):
    error = complaint(lambda: lotka_fit.profile(name))
    assert (error.code, error.subject) == (code, subject)


def test_fixed_and_local_parameters_are_named():
    runs = [data(DECAY, {"k": 0.3}, {"x": 2.0}, np.linspace(0, 3, 9), name=n) for n in ("p", "q")]
    local = pf.Problem(DECAY, runs, {"k": pf.Parameter(0, 5, local=True)})
    assert record(complaint(lambda: quantity(local, "k"))) == ("problem.quantity_local", "k", ())
    assert record(complaint(lambda: quantity(pf.Problem(DECAY, runs, {"k": 0.3}), "k"))) == (
        "problem.quantity_fixed",
        "k",
        (),
    )
    assert record(complaint(lambda: quantity(local, "2*k"))) == ("problem.formula_local", "k", ())
    assert record(complaint(lambda: quantity(local, "2/x(0)"))) == ("problem.quantity_initial_of", "x", ())
    assert record(complaint(lambda: quantity(pf.Problem(DECAY, runs, initial={"x": 2.0}), "k*x(0)"))) == (
        "problem.quantity_initial_known",
        "x",
        (),
    )


@pytest.mark.parametrize("level", [0, 1, 1.5, "0.95", None])
def test_a_level_outside_zero_and_one_is_refused(lotka_fit, level):
    assert complaint(lambda: lotka_fit.profile("a", level=level)).code == "evidence.level"


def test_a_level_beyond_the_profile_is_refused(lotka_profile):
    assert record(complaint(lambda: lotka_profile.interval(0.99))) == ("inference.profile_level", "a", ())


def test_no_degrees_of_freedom_are_said():
    fit = pf.fit(pf.Problem(DECAY, pf.Experiment([0, 1], {"x": [2.0, 1.0]})))
    assert complaint(lambda: fit.profile("k")).code == "inference.no_freedom"


# executors, ledgers, pictures


def answer(profiles) -> dict:
    return {
        name: (one.values.tolist(), one.rises.tolist(), one.ends, one.refits, one.curve()[1].tolist())
        for name, one in profiles.items()
    }


@pytest.fixture(scope="module")
def both(lotka_fit):
    return lotka_fit.profiles(["b", "a"])


def test_profiles_are_those_of_single_calls_in_the_order_asked(both, lotka_profile):
    assert list(both) == ["b", "a"]
    np.testing.assert_array_equal(both["a"].values, lotka_profile.values)


@pytest.mark.parametrize("pool, workers", [(ThreadPoolExecutor, 1), (ProcessPoolExecutor, 2)])
def test_profiles_are_the_same_with_an_executor(lotka_fit, both, pool, workers):
    with pool(workers) as executor:
        assert answer(lotka_fit.profiles(["b", "a"], executor=executor)) == answer(both)
        alone = lotka_fit.profile("a", executor=executor)
    np.testing.assert_array_equal(alone.values, both["a"].values)


@pytest.fixture(scope="module")
def written(lotka_fit, tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "run.jsonl"
    lotka_fit.profiles(["b", "a"], ledger=path)
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("lines", range(1, 6))
def test_profiles_go_on_after_any_line(lotka_fit, both, written, tmp_path, lines):
    path, done = tmp_path / "run.jsonl", []
    path.write_bytes(b"".join(written[:lines]) + b"".join(written[lines : lines + 1])[:40])
    found = lotka_fit.profiles(["b", "a"], ledger=path, progress=lambda *news: done.append(news))
    assert answer(found) == answer(both)
    assert done == [(k, 4) for k in range(lines, 5)]


def test_a_ledger_of_profiles_may_get_more_names(lotka_fit, both, tmp_path):
    lotka_fit.profile("a", ledger=tmp_path / "run.jsonl")
    news = []
    with ProcessPoolExecutor(2) as executor:
        found = lotka_fit.profiles(
            ["b", "a"], ledger=tmp_path / "run.jsonl", executor=executor, progress=lambda *n: news.append(n)
        )
    assert answer(found) == answer(both)
    assert news == [(3, 4), (4, 4)]


def test_a_ledger_of_other_profiles_is_refused(lotka_fit, tmp_path):
    lotka_fit.profile("a", ledger=tmp_path / "run.jsonl")
    error = complaint(lambda: lotka_fit.profile("a", level=0.9, ledger=tmp_path / "run.jsonl"))
    assert (error.code, error.values["names"]) == ("parallel.ledger_of_another_run", ["level"])


def stop_after(count):
    def stop(done, total):
        if done == count:
            raise KeyboardInterrupt

    return stop


def test_an_interrupt_keeps_the_sides_that_are_done(lotka_fit, both, tmp_path):
    path = tmp_path / "run.jsonl"
    found = lotka_fit.profiles(["b", "a", "c"], ledger=path, progress=stop_after(3))
    assert list(found) == ["b", "a"]
    assert found["a"].ends == (End.FOUND, End.INTERRUPTED)
    assert found["a"].interval()[0] == both["a"].interval()[0]
    assert np.isnan(found["a"].interval()[1])
    assert "above: was interrupted" in str(found["a"])
    assert answer(lotka_fit.profiles(["b", "a"], ledger=path)) == answer(both)


def test_an_interrupt_before_anything_is_done_is_passed_on(lotka_fit):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile(lotka_fit, "a", follow=stop)
    assert profiles(lotka_fit, ["a"], 0.95, follow=stop) == {}


def test_a_side_that_breaks_down_is_said_and_the_others_count(lotka_fit, both):
    def fragile(origin, task):
        if task == ("a", 1):
            raise ArithmeticError("too fast")
        return follow_branch(origin, task)

    found = profiles(lotka_fit, ["b", "a"], 0.95, follow=fragile)
    assert answer({"b": found["b"]}) == answer({"b": both["b"]})
    assert found["a"].ends == (End.FOUND, End.FAILED)
    assert "ArithmeticError: too fast" in str(found["a"])


@pytest.mark.parametrize(
    "options, code, subject",
    [
        ({"executor": 4}, "parallel.not_an_executor", ""),
        ({"executor": ProcessPoolExecutor}, "parallel.executor_is_a_class", "ProcessPoolExecutor"),
        ({"ledger": 4}, "parallel.not_a_ledger_file", ""),
        ({"progress": 4}, "parallel.not_a_progress_function", ""),
    ],
)
def test_bad_tools_are_named(lotka_fit, options, code, subject):
    error = complaint(lambda: lotka_fit.profile("a", **options))
    assert (error.code, error.subject) == (code, subject)


def test_one_text_is_no_list_of_names(lotka_fit):
    assert complaint(lambda: lotka_fit.profiles("ab")).code == "fit.names_is_text"


def test_fit_and_profile_can_be_sent_elsewhere(lotka_fit, lotka_profile):
    again = pickle.loads(pickle.dumps(lotka_fit)).profile("a")
    np.testing.assert_allclose(again.values, lotka_profile.values, rtol=1e-12)
    assert pickle.loads(pickle.dumps(lotka_profile)).interval() == lotka_profile.interval()


def test_derived_quantities_are_among_the_names_that_can_be_profiled(lotka_fit):
    problem = replace(lotka_fit.problem, derived={"half_life": "log(2)/a"})
    error = complaint(lambda: quantity(problem, "half_live"))
    assert (error.code, "half_life" in error.values["known"]) == ("problem.quantity_unknown", True)


def test_all_parameters_by_default(lotka_fit):
    assert list(lotka_fit.profiles(level=0.5)) == list(lotka_fit.parameters)


def test_a_profile_tells_of_other_optima_that_fit_as_well():
    times = np.linspace(0, 5, 20)
    values = 3 * np.exp(-0.49 * times) + 0.05 * np.random.default_rng(0).standard_normal(20)
    model = pf.Model("x' = -(rho - 1)^2*x")
    problem = pf.Problem(
        model, pf.Experiment(times, {"x": values}), {"rho": (-2, 4)}, noise=pf.Noise(additive=0.05)
    )
    fit = pf.fit(problem, starts=6, seed=1)
    other = 2 - fit.parameters["rho"]
    found = fit.profile("rho")
    assert len(found.remarks) == 1
    assert f"Another optimum fits as well, with rho = {other:.4g}" in str(found)
    np.testing.assert_allclose(found.elsewhere, [other], rtol=1e-4)
    rate = fit.profile("(rho - 1)^2")
    assert (rate.elsewhere, rate.remarks) == ((), ())


def test_plot(lotka_profile, tmp_path):
    figure = lotka_profile.plot(tmp_path / "profile.png")
    assert (tmp_path / "profile.png").stat().st_size > 1000
    assert len(figure.axes) == 1


# statistics


@pytest.mark.slow
def test_profile_intervals_cover_where_fishers_do_not():
    """Few samples of the ponds: binomial of 200 and 0.95 has mean 190 and standard deviation 3."""
    ponds = pf.examples.rosenzweig_macarthur
    inside = 0
    for seed in range(200):
        fit = pf.fit(ponds.generate(seed=seed, bounds=(0.05, 20.0)))
        low, high = fit.profile("b").interval()
        inside += low < ponds.TRUTH["b"] < high
    assert 180 <= inside <= 198
