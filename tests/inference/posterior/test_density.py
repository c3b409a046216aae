"""The log-density of the posterior: against independent integrations and SciPy, and its gradient by differences."""

import numpy as np
import pytest
import scipy.stats as st

import picardfit as pf
from picardfit.inference.posterior.coordinates import Coordinates
from picardfit.inference.posterior.setup import check_fit, log_likelihood, mode_of, target_of

TIMES = np.linspace(0.5, 4.0, 8)


def decay(**options):
    given = {"noise": pf.Noise(additive=0.1)} | options
    model = pf.Model("x' = -k*x")
    return pf.Problem(
        model, pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES)}, t0=0.0), {"k": (0.1, 3)}, **given
    )


def test_coordinates_without_bounds_hold_values_of_any_size():
    problem = pf.Problem(
        pf.Model("x' = p"),
        pf.Experiment(TIMES, {"x": 5000 + TIMES}, t0=0.0),
        {"p": (None, None)},
        initial={"x": (None, None)},
        noise=pf.Noise(additive=20),
    )
    y = np.array([-1e5, 5000.0])
    coordinates = Coordinates(problem.layout)
    np.testing.assert_array_equal(coordinates.internal(coordinates.external(y))[0], y)


def two_ponds():
    model = pf.Model(
        "prey' = r*prey*(1 - prey/5) - prey*pred\npred' = prey*pred - d*pred", observables=["prey"]
    )
    noise = pf.LogNormal(sigma=pf.Parameter(0.01, 1, log=True, prior=pf.priors.HalfNormal(0.3)))
    runs = []
    for k, start in enumerate((1.0, 2.0)):
        found = pf.simulate(model, {"r": 1.0, "d": 0.8}, {"prey": start, "pred": 0.5}, TIMES)
        noisy = found.observables["prey"] * np.exp(0.1 * np.sin(7 * TIMES + k))
        runs.append(pf.Experiment(TIMES[: 8 - 2 * k], {"prey": noisy[: 8 - 2 * k]}, t0=0.0))
    parameters = {
        "r": pf.Parameter(0.1, 5, log=True, prior=pf.priors.Gamma(2.0, 2.0)),
        "d": pf.Parameter(0.1, 3, local=True, prior=pf.priors.StudentT(4, 1.0, 0.5)),
    }
    return pf.Problem(model, runs, parameters, {"prey": (0, 10), "pred": pf.Parameter(0)}, noise=noise)


def epidemic():
    model = pf.Model("s' = -b*s*i\ni' = b*s*i - g*i\nc' = b*s*i", observables={"cases": "increment(c)"})
    times = np.arange(1.0, 8)
    counts = [3, 5, 9, 14, 22, 27, 30]
    one = pf.Experiment(times, {"cases": counts}, t0=0.0, initial={"s": 200.0, "i": 2.0, "c": 0.0})
    parameters = {
        "b": pf.Parameter(1e-4, 0.1, log=True),
        "g": pf.Parameter(0, prior=pf.priors.HalfCauchy(1.0)),
    }
    return pf.Problem(model, one, parameters, noise=pf.Poisson())


def dosed():
    model = pf.Model("gut' = -a*gut\nc' = a*gut/v - e*c", observables=["c"])
    values = ["<0.05", 0.9, 1.0, 0.8, 1.5, 1.7, 1.2, 0.9]
    one = pf.Experiment(
        TIMES - 0.5,
        {"c": values},
        t0=0.0,
        doses=pf.Doses([0.0, 1.75], [2.0, 2.0], into="gut"),
        initial={"c": 0.0},
    )
    return pf.Problem(
        model,
        one,
        {"a": (0.1, 9), "v": (0.2, 5), "e": (0.01, 3)},
        {"gut": 0.0},
        noise=pf.Noise(additive=(0.02, 1)),
    )


def formula_start():
    model = pf.Model("x' = -k*x + u", inputs=["u"])
    one = pf.Experiment(TIMES, {"x": 1 + np.exp(-TIMES)}, t0=0.0, inputs={"u": "1 + 0.2*sin(t)"})
    noise = pf.Noise(additive=0.05, proportional=0.1, common=True)
    return pf.Problem(
        model, one, {"k": (0.1, 3), "b": pf.Parameter(0.1, 5, log=True)}, {"x": "2*b"}, noise=noise
    )


PROBLEMS = {
    "two ponds, one hidden state": two_ponds,
    "increments": epidemic,
    "doses and a censored value": dosed,
    "formula, input and common noise": formula_start,
}


def prepared(problem, lanes=3):
    fit = pf.fit(problem)
    mode = mode_of(fit)
    return target_of(fit, mode, lanes, np.random.default_rng(1)), mode


@pytest.fixture(scope="module", params=PROBLEMS)
def density(request):
    target, mode = prepared(PROBLEMS[request.param]())
    rng = np.random.default_rng(3)
    points = mode.z + 0.3 * rng.standard_normal((4, len(mode.z))) * np.sqrt(np.diag(mode.covariance))
    (centre,) = target.positions([(mode.z, None)])
    return target, [(z, centre.track) for z in points]


def test_gradient_is_that_of_differences(density):
    target, points = density
    for found in target.positions(points):
        for k in range(len(found.z)):
            step = np.zeros(len(found.z))
            step[k] = 1e-5
            ends = target.positions([(found.z + step, found.track), (found.z - step, found.track)])
            slope = (ends[0].log_density - ends[1].log_density) / 2e-5
            assert found.slope[k] == pytest.approx(slope, rel=2e-3, abs=1e-2)


def test_likelihood_is_that_of_an_independent_integration(density):
    target, points = density
    unknowns = target.coordinates.unknowns(
        target.coordinates.internal(np.array([z for z, _ in points[:3]]))[0]
    )
    costs = target.lanes.solve(unknowns, [points[0][1]] * 3, gradient=False).cost
    for cost, (z, _) in zip(costs, points, strict=False):
        assert -cost == pytest.approx(log_likelihood(target.lanes.problem, target.coordinates, z), abs=5e-3)


def test_costs_do_not_depend_on_where_the_contraction_began(density):
    target, points = density
    near, anew = target.positions(points), target.positions([(z, None) for z, _ in points])
    for one, other in zip(near, anew, strict=True):
        assert one.log_density == pytest.approx(other.log_density, abs=1e-6)


def test_fewer_points_than_lanes_are_the_same_points(density):
    target, points = density
    alone, among = target.positions(points[:1])[0], target.positions(points)[0]
    assert alone.log_density == pytest.approx(among.log_density, abs=1e-5)


def test_density_of_the_value_has_the_factor_of_the_transformation():
    problem = decay(initial={"x": pf.Parameter(0, prior=pf.priors.LogNormal(0.5, 0.4))})
    target, mode = prepared(problem, 1)
    (found,) = target.positions([(mode.z, None)])
    assert target.coordinates.labels == ("x(0)", "k")
    x, part = np.exp(mode.z[0]), 1 / (1 + np.exp(-mode.z[1]))
    k = 0.1 + 2.9 * part
    expected = st.norm.logpdf(2 * np.exp(-0.7 * TIMES), x * np.exp(-k * TIMES), 0.1).sum()
    expected += st.lognorm.logpdf(x, 0.4, scale=np.exp(0.5)) + np.log(x) + np.log(2.9 * part * (1 - part))
    assert found.log_density == pytest.approx(expected, abs=1e-3)


def test_a_log_parameter_without_prior_is_flat_in_its_logarithm():
    problem = pf.Problem(
        pf.Model("x' = -k*x"),
        pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES)}, t0=0.0),
        {"k": pf.Parameter(log=True)},
        {"x": 2.0},
        noise=pf.Noise(additive=0.1),
    )
    target, mode = prepared(problem, 1)
    (found,) = target.positions([(mode.z, None)])
    expected = st.norm.logpdf(2 * np.exp(-0.7 * TIMES), 2 * np.exp(-np.exp(mode.z[0]) * TIMES), 0.1).sum()
    assert found.log_density == pytest.approx(expected, abs=1e-4)


def test_coordinates_lead_back():
    coordinates = Coordinates(two_ponds().layout)
    z = np.random.default_rng(4).standard_normal((5, coordinates.count))
    y, slope, log_slope, _ = coordinates.internal(z)
    np.testing.assert_allclose(coordinates.external(y), z, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(np.log(np.abs(slope)), log_slope)
    np.testing.assert_allclose((coordinates.internal(z + 1e-6)[0] - y) / 1e-6, slope, rtol=1e-4)


def test_an_exploding_point_has_no_density():
    model = pf.Model("x' = k*x^2")
    problem = pf.Problem(
        model,
        pf.Experiment([0.5, 1.0], {"x": [0.55, 0.6]}, t0=0.0),
        {"k": (0, 50)},
        {"x": 0.5},
        noise=pf.Noise(additive=0.05),
    )
    target, _ = prepared(problem, 1)
    (found,) = target.positions([(np.array([3.0]), None)])
    assert not found.possible
    assert target.lanes.work.failures == 1


@pytest.mark.parametrize(
    "problem, code",
    [
        (lambda: decay(noise=None), "inference.posterior_without_noise"),
        (
            lambda: pf.Problem(
                pf.Model("x' = -a*b*x"),
                pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES)}, t0=0.0),
                {"a": pf.Parameter(log=True, start=1.0), "b": pf.Parameter(0.1, 10)},
                {"x": 2.0},
                noise=pf.Noise(additive=0.1),
            ),
            "inference.posterior_improper",
        ),
    ],
)
def test_fits_without_a_posterior_are_refused(problem, code):
    with pytest.raises(pf.InputError) as caught:
        check_fit(pf.fit(problem()))
    assert caught.value.code == code
