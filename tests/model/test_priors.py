"""Priors: densities against SciPy's, slopes and curvatures against differences, and their pull on a fit."""

import numpy as np
import pytest
import scipy.stats as st

import picardfit as pf
from picardfit.model.prior_terms import draws, measure, reach, terms
from picardfit.model.scales import LINEAR, LOG, Scales

SCALES = {"linear": LINEAR, "log": LOG, "logit": Scales.of(False, True, 0.5, 4.0)}

DENSITIES = {
    "normal": (pf.priors.Normal(1.5, 0.4), lambda v: st.norm.logpdf(v, 1.5, 0.4)),
    "normal of log10": (pf.priors.Normal(0.2, 0.4, base=10), lambda v: st.norm.logpdf(np.log10(v), 0.2, 0.4)),
    "log-normal": (pf.priors.LogNormal(0.2, 0.4), lambda v: st.lognorm.logpdf(v, 0.4, scale=np.exp(0.2))),
    "laplace": (pf.priors.Laplace(1.5, 0.4), lambda v: st.laplace.logpdf(v, 1.5, 0.4)),
    "laplace of log": (
        pf.priors.Laplace(0.2, 0.4, base=np.e),
        lambda v: st.laplace.logpdf(np.log(v), 0.2, 0.4),
    ),
    "log-laplace": (
        pf.priors.LogLaplace(0.2, 0.4),
        lambda v: st.laplace.logpdf(np.log(v), 0.2, 0.4) - np.log(v),
    ),
    "half-normal": (pf.priors.HalfNormal(1.3), lambda v: st.halfnorm.logpdf(v, scale=1.3)),
    "student-t": (pf.priors.StudentT(3.0, 0.5, 0.4), lambda v: st.t.logpdf(v, 3.0, 0.5, 0.4)),
    "cauchy": (pf.priors.Cauchy(0.5, 0.4), lambda v: st.cauchy.logpdf(v, 0.5, 0.4)),
    "half-cauchy": (pf.priors.HalfCauchy(2.5), lambda v: st.halfcauchy.logpdf(v, scale=2.5)),
    "exponential": (pf.priors.Exponential(1.7), lambda v: st.expon.logpdf(v, scale=1 / 1.7)),
    "gamma": (pf.priors.Gamma(2.5, 1.7), lambda v: st.gamma.logpdf(v, 2.5, scale=1 / 1.7)),
    "inverse gamma": (pf.priors.InverseGamma(2.5, 1.7), lambda v: st.invgamma.logpdf(v, 2.5, scale=1.7)),
    "rayleigh": (pf.priors.Rayleigh(1.7), lambda v: st.rayleigh.logpdf(v, scale=1.7)),
    "log-uniform": (pf.priors.LogUniform(0.1, 9.0), lambda v: st.loguniform.logpdf(v, 0.1, 9.0)),
    "uniform": (pf.priors.Uniform(0.5, 4.0), lambda v: st.uniform.logpdf(v, 0.5, 3.5)),
    "uniform of log10": (
        pf.priors.Uniform(-1.0, 1.0, base=10),
        lambda v: st.uniform.logpdf(np.log10(v), -1, 2),
    ),
}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("kind", DENSITIES)
def test_density_is_that_of_scipy(kind, scale):
    prior, density = DENSITIES[kind]
    for value in (0.7, 2.0):
        cost = terms(prior, float(scale.internal(value)), scale)[0]
        assert cost == pytest.approx(-density(value), abs=1e-3)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("kind", DENSITIES)
def test_slope_is_that_of_differences(kind, scale):
    prior, h = DENSITIES[kind][0], 1e-6
    for at in (0.6, 2.1):
        up, down = (terms(prior, at + d, scale)[0] for d in (h, -h))
        _, slope, curvature = terms(prior, at, scale)
        assert slope == pytest.approx((up - down) / (2 * h), abs=1e-6)
        assert curvature >= 0


def test_beta_density_is_that_of_scipy():
    for value in (0.2, 0.7):
        expected = -st.beta.logpdf(value, 2.5, 1.7)
        assert terms(pf.priors.Beta(2.5, 1.7), value).cost == pytest.approx(expected, rel=1e-12)


CURVED = {  # a value where the density is log-concave
    "normal": 1.0,
    "half-normal": 1.0,
    "student-t": 0.5,
    "cauchy": 0.5,
    "gamma": 1.0,
    "inverse gamma": 0.3,
}


@pytest.mark.parametrize("kind", CURVED)
def test_curvature_is_the_second_derivative_where_it_is_positive(kind):
    (prior, density), at, h = DENSITIES[kind], CURVED[kind], 1e-4
    second = -(density(at + h) - 2 * density(at) + density(at - h)) / h**2
    assert terms(prior, at).curvature == pytest.approx(second, rel=1e-5)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("kind", DENSITIES)
def test_density_by_the_coordinate_integrates_to_the_probability(kind, scale):
    from scipy.integrate import quad

    prior, ends = DENSITIES[kind][0], (0.8, 2.0)
    unit = 1.0 if prior.base is None else np.log(prior.base)
    low, high = (prior.below(v if prior.base is None else np.log(v) / unit) for v in ends)

    def density(z):
        return float(np.exp(measure(prior, z, scale)[0] - terms(prior, z, scale).cost))

    total = quad(density, *scale.internal(np.array(ends)).tolist(), limit=200)[0]
    assert total == pytest.approx(float(high - low), rel=2e-3)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("kind", ["normal", "normal of log10", "gamma"])
def test_slope_of_the_measure_is_that_of_differences(kind, scale):
    prior, at, h = DENSITIES[kind][0], float(scale.internal(1.3)), 1e-6
    up, down = (float(measure(prior, at + d, scale)[0]) for d in (h, -h))
    assert float(measure(prior, at, scale)[1]) == pytest.approx((up - down) / (2 * h), abs=1e-6)


@pytest.mark.parametrize("kind", DENSITIES)
def test_quantile_inverts_the_probability_below(kind):
    prior, parts = DENSITIES[kind][0], np.array([0.01, 0.3, 0.5, 0.95])
    np.testing.assert_allclose(prior.below(prior.quantile(parts)), parts, rtol=1e-9)


@pytest.mark.parametrize("kind", DENSITIES)
def test_draws_follow_the_prior_cut_off_at_bounds(kind):
    prior = DENSITIES[kind][0]
    values = draws(prior, 0.8, 2.0, np.random.default_rng(1), 2000)
    unit = 1.0 if prior.base is None else np.log(prior.base)
    place = [prior.below(v if prior.base is None else np.log(v) / unit) for v in (values, 0.8, 2.0)]
    assert st.kstest((place[0] - place[1]) / (place[2] - place[1]), "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    "prior, code",
    [
        (lambda: pf.priors.HalfCauchy(-1.0), "model.prior_not_positive"),
        (lambda: pf.priors.StudentT(0.0, 0.0, 1.0), "model.prior_not_positive"),
        (lambda: pf.priors.LogUniform(0.0, 1.0), "model.prior_not_positive"),
        (lambda: pf.priors.LogUniform(2.0, 1.0), "model.uniform_ends"),
        (lambda: pf.Parameter(-2.0, -1.0, prior=pf.priors.HalfNormal(1.0)), "model.prior_outside_bounds"),
        (lambda: pf.Parameter(0.1, 1.0, prior=pf.StudentT(4.0, 0.1)), "model.noise_as_prior"),
    ],
)
def test_impossible_priors_are_refused(prior, code):
    with pytest.raises(pf.InputError) as caught:
        prior()
    assert caught.value.code == code


def test_a_noise_level_may_have_a_prior():
    noise = pf.Noise(additive=pf.Parameter(0.01, 1.0, log=True, prior=pf.priors.LogNormal(-2.0, 0.1)))
    problem = _decay(noise, {"a": (0.1, 2.0)})
    assert [type(prior) for *_, prior in problem.priors.entries] == [pf.priors.LogNormal]


def _decay(noise, parameters, initial=None, data=2.0):
    model = pf.Model("x' = -a*x")
    times = np.linspace(0.5, 2.0, 4)
    run = pf.Experiment(times, {"x": data * np.exp(-0.7 * times)}, t0=0.0)
    return pf.Problem(model, run, parameters, initial or {"x": 2.0}, noise=noise)


def test_fit_is_the_maximum_of_likelihood_times_prior():
    from scipy.optimize import minimize_scalar

    problem = _decay(
        pf.Noise(additive=0.3), {"a": pf.Parameter(0.01, 10, log=True, prior=pf.priors.Normal(1.5, 0.2))}
    )
    fit = pf.fit(problem)

    def cost(a):
        return problem.nllh({"a": a}) - st.norm.logpdf(a, 1.5, 0.2)

    best = minimize_scalar(cost, bounds=(0.1, 3), method="bounded", options={"xatol": 1e-10})
    assert fit.success
    assert fit.parameters["a"] == pytest.approx(best.x, rel=1e-5)
    assert fit.objective == pytest.approx(best.fun, rel=1e-8)
    assert fit.nllh == pytest.approx(problem.nllh(fit.parameters), rel=1e-8)
    assert fit.objective > fit.nllh - 1
    assert fit.objective != fit.nllh


def test_prior_of_an_initial_state_replaces_missing_data():
    problem = _decay(
        pf.Noise(additive=0.01),
        {"a": (0.1, 2.0)},
        {"x": pf.Parameter(0.1, 10, prior=pf.priors.Normal(2.0, 1e-4))},
        data=2.1,
    )
    fit = pf.fit(problem)
    assert fit.initial_states["experiment 1"]["x"] == pytest.approx(2.0, abs=1e-3)
    assert fit.standard_errors["x(0)"] == pytest.approx(1e-4, rel=0.01)


def test_information_of_prior_and_data_adds_up():
    tight, loose = (
        pf.fit(_decay(pf.Noise(additive=0.1), {"a": pf.Parameter(0.1, 2.0, prior=prior)}))
        for prior in (pf.priors.Normal(0.7, 0.02), None)
    )
    added = 1 / loose.standard_errors["a"] ** 2 + 1 / 0.02**2
    assert 1 / tight.standard_errors["a"] ** 2 == pytest.approx(added, rel=1e-4)


def test_shared_parameter_counts_once_and_local_ones_each():
    model = pf.Model("x' = -a*x")
    times = np.linspace(0.5, 2.0, 4)
    runs = [pf.Experiment(times, {"x": np.exp(-times)}, t0=0.0, initial={"x": 1.0}) for _ in range(2)]
    for local, count in ((False, 1), (True, 2)):
        spec = pf.Parameter(0.1, 2.0, local=local, prior=pf.priors.Normal(1.0, 0.5))
        problem = pf.Problem(model, runs, {"a": spec}, noise=pf.Noise(additive=0.1))
        assert len(problem.priors.entries) == count


def test_uniform_prior_bounds():
    assert pf.Parameter(0.0, 10.0, prior=pf.priors.Uniform(1.0, 20.0)).bounds == (1.0, 10.0)
    with pytest.raises(pf.InputError, match="does not overlap"):
        pf.Parameter(0.0, 1.0, prior=pf.priors.Uniform(2.0, 3.0))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: pf.priors.Normal(0.0, 0.0), "not positive"),
        (lambda: pf.priors.Normal("a", 1.0), "not a number"),
        (lambda: pf.priors.Uniform(2.0, 1.0), "is an empty interval"),
        (lambda: pf.priors.Laplace(0.0, 1.0, base=0.5), "base"),
        (lambda: pf.Parameter(0, 1, prior=0.5), "not understood"),
        (lambda: pf.Parameter(0.1, 1, prior=pf.LogNormal(sigma=0.2)), "is called pf.priors.LogNormal"),
        (
            lambda: _decay(None, {"a": pf.Parameter(0.1, 2, prior=pf.priors.Normal(1, 1))}),
            "without a noise model",
        ),
    ],
)
def test_bad_priors(make, words):
    with pytest.raises(pf.InputError, match=words):
        make()


@pytest.mark.parametrize(
    "prior, density",
    [
        (pf.priors.Normal(5.0, 0.5), lambda x: st.norm.cdf(x, 5.0, 0.5)),
        (pf.priors.Normal(0.5, 0.2, base=10), lambda x: st.norm.cdf(np.log10(x), 0.5, 0.2)),
        (pf.priors.LogNormal(1.0, 0.3), lambda x: st.lognorm.cdf(x, 0.3, scale=np.e)),
        (pf.priors.Laplace(5.0, 0.5), lambda x: st.laplace.cdf(x, 5.0, 0.5)),
        (pf.priors.LogLaplace(1.0, 0.3), lambda x: st.laplace.cdf(np.log(x), 1.0, 0.3)),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("bounds", [(1.0, 2.0), (7.0, np.inf), (0.5, 90.0)])
def test_how_far_a_prior_reaches(prior, density, bounds):
    expected = min(1 - density(bounds[0]), density(bounds[1]))
    assert reach(prior, *bounds) == pytest.approx(expected, rel=1e-9)


def test_a_prior_that_contradicts_its_bounds_is_remarked_on():
    one = pf.Experiment([0, 1, 2, 3], {"x": [3, 2, 1.2, 0.8]})
    model = pf.Model("x' = -k*x")
    noise = pf.Noise(additive=0.1)

    def problem(prior, log=False):
        return pf.Problem(model, one, {"k": pf.Parameter(0.1, 1, log=log, prior=prior)}, noise=noise)

    said = "The prior of `k` says 5 ± 0.1, but its bounds are 0.1 to 1: correct one of them."
    assert problem(pf.priors.Normal(5.0, 0.1)).remarks[0].sentence() == said
    assert said in pf.fit(problem(pf.priors.Normal(5.0, 0.1))).message
    factor = "says 5 within a factor of 1.22, but its bounds are 0.1 to 1"
    assert factor in problem(pf.priors.LogNormal(np.log(5), 0.2), log=True).remarks[0].sentence()
    assert problem(pf.priors.Normal(0.5, 100.0)).remarks == ()  # wide is no contradiction
    assert problem(pf.priors.Normal(1.1, 0.2)).remarks == ()
    assert problem(pf.priors.Uniform(0.0, 1000.0)).remarks == ()
