"""Fisher information against the curvature of the loss, the scatter of estimates, and closed forms."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import picardfit as pf
from arrows import whole
from picardfit.evidence.fisher import AtBound, Information, at_bound, information, quantile

DECAY = pf.Model("x' = -k*x")
LOTKA = pf.Model("x' = a*x - b*x*y; y' = d*x*y - c*y")
DOSED = pf.Model(
    "x' = -k*x + dose; z' = k*x - q*z/(1 + z)", observables={"y": "s*x", "z": "z"}, inputs=["dose"]
)


def experiment(model, truth, initial, times, sd=1e-3, seed=0, inputs=None, name=""):
    run, rng = pf.simulate(model, truth, initial, times, inputs), np.random.default_rng(seed)
    noisy = {n: v + sd * rng.standard_normal(len(times)) for n, v in run.observables.items()}
    return pf.Experiment(times, noisy, name, inputs)


def lotka(**options) -> pf.Problem:
    truth = {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}
    return pf.Problem(LOTKA, experiment(LOTKA, truth, {"x": 2.0, "y": 1.0}, np.linspace(0, 8, 17), **options))


def dosed() -> pf.Problem:
    """Two experiments, one parameter local to each, a jumping input, known and unknown initial states, a gap."""
    steps, times = ([0.0, 1.3, 2.7], [1.0, 0.0, 2.0]), np.linspace(0, 5, 15)
    runs = [
        experiment(
            DOSED,
            {"k": 0.8, "q": q, "s": 2.0},
            {"x": 0.5 + s, "z": 0.2},
            times,
            1e-3,
            s,
            {"dose": steps},
            f"run {s}",
        )
        for s, q in enumerate((0.5, 0.7))
    ]
    return pf.Problem(DOSED, runs, {"q": pf.Parameter(0.01, 5, local=True)}, {"z": 0.2})


def named_loss(problem, labels, point) -> float:
    """Half the sum of squares at unknowns given by label, by independent integration."""
    parameters: dict = {}
    initial: dict = {name: {} for name in problem.names}
    for label, value in zip(labels, point, strict=True):
        name, _, where = label.partition("[")
        if name.endswith("(0)"):
            initial[where.removesuffix("]") or problem.names[0]][name.removesuffix("(0)")] = value
        elif where:
            parameters.setdefault(name, {})[where.removesuffix("]")] = value
        else:
            parameters[name] = value
    return problem.loss(parameters, initial) * len(problem.samples.times)


def hessian(problem, labels, centre, steps) -> np.ndarray:
    count, matrix = len(labels), np.zeros((len(labels), len(labels)))
    for i in range(count):
        for j in range(i + 1):
            mixed = 0.0
            for a, b in product((1, -1), repeat=2):
                moved = centre + a * steps * np.eye(count)[i] + b * steps * np.eye(count)[j]
                mixed += a * b * named_loss(problem, labels, moved)
            matrix[i, j] = matrix[j, i] = mixed / (4 * steps[i] * steps[j])
    return matrix


def found_at(fit) -> Information:
    return information(fit.solution)


PROBLEMS = {"lotka": lotka, "dosed": dosed}


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_covariance_is_the_inverse_hessian_of_the_loss(make):
    """Residuals are so small that Gauss-Newton and the full Hessian agree."""
    problem = make()
    fit = pf.fit(problem)
    found = found_at(fit)
    centre = fit.solution.unknowns[found.index[:, 0], found.index[:, 1]]
    steps = 3 / np.sqrt(np.diag(found.matrix)) * 1e-3
    expected = np.linalg.inv(hessian(problem, found.labels, centre, steps))
    size = np.sqrt(np.diag(expected))
    correlation = expected / size / size[:, None]
    np.testing.assert_allclose(found.covariance() / size / size[:, None], correlation, atol=5e-3)


@pytest.fixture(scope="module")
def lotka_fit():
    return pf.fit(lotka(sd=0.05))


def test_information_is_symmetric(lotka_fit):
    matrix = found_at(lotka_fit).matrix
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)


def test_slope_vanishes_at_the_optimum(lotka_fit):
    """Measured in standard errors of the unknowns."""
    found = found_at(lotka_fit)
    assert np.abs(found.slope / np.sqrt(np.diag(found.matrix))).max() < 1e-7


def test_slope_is_that_of_differences_of_the_loss():
    """Away from the optimum: an exact path for wrong parameters, as a solution of the free problem."""
    problem = lotka(sd=0.05)
    fit = pf.fit(pf.Problem(LOTKA, problem.experiments, {"a": 1.05, "b": 0.41, "c": 0.95}))
    initial, layout = fit.initial_states["experiment 1"], problem.layout
    values = fit.parameters | {f"{n}(0)": v for n, v in initial.items()}
    unknowns = np.array([[values[layout.label(0, c)] for c in range(layout.width)]])
    system = replace(fit.solution.system, problem=problem)
    found = information(replace(fit.solution, unknowns=unknowns, system=system))
    centre = np.array([values[n] for n in found.labels])
    for k, step in enumerate(1e-5 * np.eye(len(centre))):
        ahead, behind = (named_loss(problem, found.labels, centre + s * step) for s in (1, -1))
        assert found.slope[k] == pytest.approx((ahead - behind) / 2e-5, rel=1e-5, abs=1e-4)


def test_information_does_not_depend_on_the_mesh(lotka_fit):
    other = pf.fit(lotka(sd=0.05), pf.LiftedGaussNewton(nodes=4, family=pf.Nodes.LOBATTO))
    np.testing.assert_allclose(found_at(other).matrix, found_at(lotka_fit).matrix, rtol=1e-5)


def test_a_decay_with_known_start_has_the_closed_form():
    """x = x0 exp(-k t): the information on k is sum (t x)^2."""
    times, size = np.linspace(0, 3, 13), 2.0
    problem = pf.Problem(
        DECAY, experiment(DECAY, {"k": 0.7}, {"x": size}, times, sd=0.05), initial={"x": size}
    )
    fit = pf.fit(problem)
    expected = np.sum((times * size * np.exp(-fit.parameters["k"] * times)) ** 2)
    np.testing.assert_allclose(found_at(fit).matrix, [[expected]], rtol=1e-8)


def test_a_log_parameter_has_the_information_of_its_logarithm():
    times = np.linspace(0, 3, 13)
    data = experiment(DECAY, {"k": 0.7}, {"x": 2.0}, times, sd=0.05)
    plain, log = (pf.fit(pf.Problem(DECAY, data, {"k": pf.Parameter(0.01, 9, log=g)})) for g in (False, True))
    k = plain.parameters["k"]
    chain = np.array([1.0, k])
    np.testing.assert_allclose(
        found_at(log).matrix, found_at(plain).matrix * chain * chain[:, None], rtol=1e-5, atol=1e-8
    )


def test_repeating_an_experiment_doubles_the_information():
    one = experiment(DECAY, {"k": 0.7}, {"x": 2.0}, np.linspace(0, 3, 13), sd=0.05)
    again = pf.Experiment(one.times, one.observations, "again")
    single, double = (pf.fit(pf.Problem(DECAY, runs, initial={"x": 2.0})) for runs in ([one], [one, again]))
    np.testing.assert_allclose(found_at(double).matrix, 2 * found_at(single).matrix, rtol=1e-6)


def test_experiments_without_common_unknowns_are_independent():
    times = np.linspace(0, 3, 13)
    runs = [
        experiment(DECAY, {"k": k}, {"x": 2.0}, times, 0.05, s, name=n)
        for s, (n, k) in enumerate((("a", 0.3), ("b", 0.9)))
    ]
    found = found_at(pf.fit(pf.Problem(DECAY, runs, {"k": pf.Parameter(0, 5, local=True)})))
    mine = np.array([label.endswith("[a]") for label in found.labels])
    assert np.all(found.matrix[mine][:, ~mine] == 0)
    assert set(found.labels) == {"x(0)[a]", "x(0)[b]", "k[a]", "k[b]"}


def test_covariance_scales_with_the_variance(lotka_fit):
    found = found_at(lotka_fit)
    np.testing.assert_allclose(found.covariance(2.5), 2.5 * found.covariance())


# what is not determined, and bounds


@pytest.mark.parametrize(
    "equations, lost",
    [
        ("x' = -a*b*x", {"a", "b"}),
        ("x' = -(a + b)*x", {"a", "b"}),
        ("x' = -a*x; z' = -b*z", {"b", "z(0)"}),
        ("x' = -a*x + 0*b", {"b"}),
    ],
)
def test_an_undetermined_unknown_has_infinite_variance(equations, lost):
    times = np.linspace(0, 3, 13)
    data = pf.Experiment(times, {"x": 2 * np.exp(-0.7 * times) + 0.01 * np.cos(9 * times)})
    found = found_at(pf.fit(pf.Problem(pf.Model(equations), data)))
    variance = dict(zip(found.labels, np.diag(found.covariance()), strict=True))
    assert {n for n, v in variance.items() if np.isinf(v)} == lost


def test_what_is_determined_beside_an_undetermined_pair_is_that_of_the_simple_model():
    data = experiment(DECAY, {"k": 0.7}, {"x": 2.0}, np.linspace(0, 3, 13), sd=0.05)
    pair, simple = (pf.fit(pf.Problem(pf.Model(f"x' = -{r}*x"), data)) for r in ("a*b", "k"))
    assert found_at(pair).labels[0] == "x(0)"
    assert found_at(pair).covariance()[0, 0] == pytest.approx(found_at(simple).covariance()[0, 0], rel=1e-5)


def test_unknowns_at_a_bound_are_left_out():
    data = experiment(
        LOTKA, {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}, {"x": 2.0, "y": 1.0}, np.linspace(0, 8, 17)
    )
    found = found_at(pf.fit(pf.Problem(LOTKA, data, {"a": (1.1, 3), "b": (0, 5)})))
    assert found.at_bound == ("a",)
    assert set(found.labels) == {"x(0)", "y(0)", "b", "c", "d"}


RAMP = pf.Model("x' = a + b*t")  # linear in all unknowns: profiles are parabolas


def ramp(bounds, local=False) -> pf.Fit:
    """The true b is 0."""
    times, rng = np.linspace(0, 2, 12), np.random.default_rng(3)
    runs = [
        pf.Experiment(times, {"x": 1 + 0.5 * times + 0.1 * rng.standard_normal(12)}, name, initial={"x": 1.0})
        for name in ("one", "two")[: 1 + local]
    ]
    return pf.fit(pf.Problem(RAMP, runs, {"a": (-9, 9), "b": pf.Parameter(*bounds, local=local)}))


@pytest.mark.parametrize("bounds", [(0.2, 2.0), (-2.0, -0.2), (0.2, 0.21)])
def test_others_reach_as_far_as_an_unknown_at_its_bound_carries_them(bounds):
    """Held at b's bound, a would look surer than it is: its profile lets b leave the bound, to one side."""
    fit = ramp(bounds)
    assert fit.certificate.at_bound == ("b",)
    found = fit.intervals()
    assert fit.profile("a").interval() == pytest.approx(found["a"], abs=2e-3)
    below, above = fit.parameters["a"] - found["a"][0], found["a"][1] - fit.parameters["a"]
    assert (below > above) == (bounds[0] > 0)  # a larger b asks for a smaller a


def test_unknowns_at_bounds_are_let_loose_one_at_a_time():
    fit = ramp((0.2, 2.0), local=True)
    assert fit.certificate.at_bound == ("b[one]", "b[two]")
    (low, high), (lowest, highest) = fit.intervals()["a"], fit.profile("a").interval()
    spread = high - fit.parameters["a"]
    assert lowest < low < fit.parameters["a"] - 1.05 * spread
    assert highest == pytest.approx(high, abs=2e-3)


@pytest.mark.parametrize(
    "slope, curvature, room", [(0.0, 2.0, 9.0), (0.4, 2.0, 9.0), (0.4, 0.0, 9.0), (0.1, 0.5, 0.2)]
)
def test_how_far_an_unknown_is_carried(slope, curvature, room):
    one, follow, variances = (
        AtBound("b", (0, 0), -1, slope, curvature),
        np.array([0.0, 0.3, 2.0]),
        np.array([0.2, 0.5, 1.1]),
    )
    steps = np.linspace(0, min(one.reach(1.9), room), 20_001)[:, None]
    left = np.maximum(1.9 - slope * steps - 0.5 * curvature * steps**2, 0)
    expected = (follow * steps + np.sqrt(2 * variances * left)).max(axis=0)
    np.testing.assert_allclose(one.carried(follow, variances, 1.9, room), expected, rtol=1e-6)


def test_nothing_holds_what_a_flat_direction_carries():
    reach = AtBound("b", (0, 0), -1, 0.0, 0.0).carried(np.array([0.0, 0.3]), np.ones(2), 2.0, np.inf)
    assert reach.tolist() == [2.0, np.inf]


def test_an_unknown_without_bounds_is_never_at_one():
    fit = pf.fit(pf.Problem(DECAY, pf.Experiment([0, 1, 2], {"x": [1, 1, 1]})))
    assert fit.parameters["k"] == pytest.approx(0, abs=1e-8)
    assert not at_bound(fit.solution).any()


def test_a_matrix_that_is_not_finite_determines_nothing():
    found = Information(("a",), np.zeros((1, 2), int), whole(np.array([[np.nan]])), np.zeros(1), ())
    assert np.all(np.isinf(found.covariance()))


def test_no_unknowns_have_an_empty_covariance():
    found = Information((), np.zeros((0, 2), int), whole(np.zeros((0, 0))), np.zeros(0), ())
    assert found.covariance().shape == (0, 0)


def test_covariance_is_that_of_wildly_different_units():
    rng = np.random.default_rng(0)
    rows, units = rng.standard_normal((9, 4)), np.array([1e-8, 1.0, 1e5, 1e9])
    matrix = (rows * units).T @ (rows * units)
    found = Information(("a", "b", "c", "d"), np.zeros((4, 2), int), whole(matrix), np.zeros(4), ())
    expected = np.linalg.inv(rows.T @ rows) / units / units[:, None]
    np.testing.assert_allclose(found.covariance(), expected, rtol=1e-9)


# two values that fall together: y'' + (a + b) y' + a b y = 0 at a = b


CHAIN = pf.Model("x' = -a*x; y' = g*x - b*y", observables=["y"])
MERGED = pf.Model("x' = -a*x; y' = g*x - a*y", observables=["y"])
CHAIN_TIMES = np.linspace(0.1, 6, 30)
STARTS = [{"a": 0.5, "b": 3.0}, {"a": 4.0, "b": 1.0}, {"a": 0.9, "b": 1.2}]


def chain(model, runs=1, seed=1, doses_known=True) -> pf.Problem:
    """The true a and b are 1; unknown doses are initial states of single experiments, and then g is known."""
    rng = np.random.default_rng(seed)
    made = [
        pf.Experiment(
            CHAIN_TIMES,
            {"y": dose * CHAIN_TIMES * np.exp(-CHAIN_TIMES) + 0.02 * rng.standard_normal(30)},
            initial={"x": dose / 2, "y": 0.0} if doses_known else {"y": 0.0},
            name=f"dose {dose}",
        )
        for dose in (2.0, 3.0)[:runs]
    ]
    free = dict.fromkeys(model.parameters, (0.05, 20.0))
    return pf.Problem(model, made, free if doses_known else {**free, "g": 2.0}, initial={"x": (0, 10)})


@pytest.mark.parametrize("start", STARTS)
def test_values_that_fall_together_are_determined_to_second_order(start):
    """The expected information has no curvature along a - b, the objective has: profiles show it."""
    fit = pf.fit(chain(CHAIN), start=start)
    assert fit.parameters["a"] == pytest.approx(fit.parameters["b"], rel=1e-4)
    assert fit.certificate.undetermined == ()
    low, high = fit.profile("a", level=0.5).interval()
    expected = 2 * quantile(0.5, 27) * fit.standard_errors["a"]
    assert high - low == pytest.approx(expected, rel=0.1)  # a quartic adds to the parabola


@pytest.mark.parametrize("runs, seed, doses_known", [(1, 1, True), (2, 4, True), (2, 4, False)])
def test_others_are_as_sure_as_with_one_value_for_both(runs, seed, doses_known):
    fit = pf.fit(chain(CHAIN, runs, seed, doses_known), start=STARTS[1])
    merged = pf.fit(chain(MERGED, runs, seed, doses_known))
    assert fit.loss == pytest.approx(merged.loss, rel=1e-6)
    assert fit.certificate.undetermined == ()
    for name in set(merged.standard_errors) - {"a"}:
        expected = merged.standard_errors[name] * np.sqrt(fit.residual_variance / merged.residual_variance)
        assert fit.standard_errors[name] == pytest.approx(expected, rel=1e-4)


def test_what_is_really_free_stays_so_beside_values_that_fall_together():
    model = pf.Model("x' = -a*x; y' = g*h*x - b*y", observables=["y"])
    fit = pf.fit(chain(model), start=STARTS[0])
    assert set(fit.certificate.undetermined) == {"g", "h"}
    both = pf.fit(chain(CHAIN), start=STARTS[0])
    assert fit.standard_errors["a"] == pytest.approx(both.standard_errors["a"], rel=0.03)  # one unknown more


# statistics


def test_standard_errors_match_the_scatter_of_a_few_estimates():
    """A quick look: 25 data sets; a chi distribution of 24 degrees of freedom spreads by 14 %."""
    times = np.linspace(0, 3, 13)
    fits = [
        pf.fit(pf.Problem(DECAY, experiment(DECAY, {"k": 0.7}, {"x": 2.0}, times, sd=0.05, seed=s)))
        for s in range(25)
    ]
    scatter = np.std([f.parameters["k"] for f in fits], ddof=1)
    claimed = np.sqrt(np.mean([f.standard_errors["k"] ** 2 for f in fits]))
    assert 0.6 < scatter / claimed < 1.45


@pytest.mark.slow
def test_standard_errors_match_the_scatter_of_many_estimates():
    """Four parameters, 200 data sets: each ratio spreads by 5 %."""
    fits = [pf.fit(lotka(sd=0.05, seed=s)) for s in range(200)]
    for name in "abcd":
        scatter = np.std([f.parameters[name] for f in fits], ddof=1)
        claimed = np.sqrt(np.mean([f.standard_errors[name] ** 2 for f in fits]))
        assert 0.8 < scatter / claimed < 1.25, name


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say():
    """Binomial of 200 and 0.9: mean 180, standard deviation 4.2."""
    truth = {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}
    intervals = [pf.fit(lotka(sd=0.05, seed=s)).intervals(0.9) for s in range(200)]
    for name, value in truth.items():
        inside = sum(low < value < high for low, high in (i[name] for i in intervals))
        assert 165 <= inside <= 195, name


def test_what_is_free_is_carried_anywhere_without_a_warning():
    held = AtBound("k", (0, 0), -1, slope=0.5, curvature=2.0)
    with np.errstate(all="raise"):
        found = held.carried(np.array([0.0, 0.1]), np.array([np.inf, np.inf]), rise=1.0, room=1.0)
    assert not np.isfinite(found).any()
