"""Noise models in problems and fits: levels of every kind, likelihoods by hand, estimates, statistics, files."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats as st

import picardfit as pf
from picardfit.collocation.condensing import reduced
from picardfit.collocation.linearisation import linearise
from picardfit.collocation.point import point_at
from picardfit.evidence.fisher import information as information_of
from picardfit.examples import rosenzweig_macarthur, van_der_pol

TIMES = np.linspace(0.0, 4.0, 60)
MODEL = pf.Model("x' = -a*x\ny' = a*x - b*y")
TRUTH = {"a": 0.8, "b": 0.4}
BOUNDS = {"a": (0.01, 5.0), "b": (0.01, 5.0)}


def _exact():
    return pf.simulate(MODEL, TRUTH, {"x": 10.0, "y": 1.0}, TIMES).observables


def _problem(noise, seed=0, data=None, **parameters):
    run = pf.Experiment(TIMES, _exact() if data is None else data)
    problem = pf.Problem(MODEL, run, {**BOUNDS, **parameters}, noise=noise)
    if data is not None:
        return problem
    levels = {n: p.start for n, p in problem.parameters.items() if n not in TRUTH}
    return problem.simulate_data({**TRUTH, **levels}, {"x": 10.0, "y": 1.0}, seed=seed)


def _level(value, low=1e-3, high=10.0):
    return pf.Parameter(low, high, log=True, start=value)


# ---- likelihoods by hand -----------------------------------------------------------------------------------

DATA = {"x": [9.0, 5.0, np.nan], "y": [2.0, 3.0, 4.0]}
SMALL_TIMES = [0.0, 0.5, 1.0]


def _small(noise, model=MODEL, **parameters):
    return pf.Problem(
        model,
        pf.Experiment(SMALL_TIMES, DATA),
        {**BOUNDS, **parameters},
        {"x": 10.0, "y": 1.0},
        noise=noise,
    )


def _outputs():
    found = pf.simulate(MODEL, TRUTH, {"x": 10.0, "y": 1.0}, SMALL_TIMES).observables
    return found["x"], found["y"]


def _sum(*parts):
    return -sum(np.nansum(p) for p in parts)


def _cases():
    x, y = _outputs()
    dx, dy = np.array(DATA["x"]), np.array(DATA["y"])
    normal = st.norm.logpdf
    return {
        "additive": (pf.Noise(additive=0.5), {}, _sum(normal(dx, x, 0.5), normal(dy, y, 0.5))),
        "per observable": (
            pf.Noise(additive={"x": 0.5, "y": 0.2}, proportional=0.1),
            {},
            _sum(normal(dx, x, np.hypot(0.5, 0.1 * x)), normal(dy, y, np.hypot(0.2, 0.1 * y))),
        ),
        "estimated": (
            pf.Noise(additive=(0.01, 10)),
            {"noise.additive": 0.7},
            _sum(normal(dx, x, 0.7), normal(dy, y, 0.7)),
        ),
        "each estimated": (
            pf.Noise(additive={"x": (0.01, 10), "y": 0.3}),
            {"noise.additive.x": 0.7},
            _sum(normal(dx, x, 0.7), normal(dy, y, 0.3)),
        ),
        "formula": (
            pf.Noise(additive="sigma + 0.1*y + 0.01*t*a"),
            {"sigma": 0.3},
            _sum(
                *(
                    normal(d, g, 0.3 + 0.1 * y + 0.01 * np.array(SMALL_TIMES) * 0.8)
                    for d, g in ((dx, x), (dy, y))
                )
            ),
        ),
        "log-normal": (
            pf.LogNormal(sigma=0.2),
            {},
            _sum(st.lognorm.logpdf(dx, 0.2, scale=x), st.lognorm.logpdf(dy, 0.2, scale=y)),
        ),
        "mixed": (
            {"x": pf.StudentT(additive=0.5, degrees=3.0), "y": pf.Laplace(scale=(0.01, 10))},
            {"noise.scale.y": 0.4},
            _sum(st.t.logpdf(dx, 3.0, x, 0.5), st.laplace.logpdf(dy, y, 0.4)),
        ),
    }


@pytest.mark.parametrize("case", _cases())
def test_nllh_at_given_values(case):
    noise, extra, expected = _cases()[case]
    names = {name: (0.001, 100) for name in extra if not name.startswith("noise.")}
    problem = _small(noise, **names)
    assert problem.nllh({**TRUTH, **extra}) == pytest.approx(expected, rel=1e-8)


def test_common_noise_at_given_values():
    x, y = _outputs()
    total = 0.0
    for k in range(2):
        g, data = np.array([x[k], y[k]]), np.array([DATA["x"][k], DATA["y"][k]])
        total -= st.multivariate_normal.logpdf(data, g, 0.25 * np.eye(2) + 0.04 * np.outer(g, g))
    total -= st.norm.logpdf(DATA["y"][2], y[2], np.hypot(0.5, 0.2 * y[2]))
    problem = _small(pf.Noise(additive=0.5, proportional=0.2, common=True))
    assert problem.nllh(TRUTH) == pytest.approx(total, rel=1e-8)


def test_loss_needs_no_levels_and_is_that_of_least_squares():
    plain, noisy = _small(None), _small(pf.Noise(additive=(0.1, 1.0)))
    assert noisy.loss(TRUTH) == pytest.approx(plain.loss(TRUTH), rel=1e-12)


def test_functions_take_noise_models_too():
    def decay(t, x, p):
        return [-p.a * x.x, p.a * x.x - p.b * x.y] if t < 1e9 else [0.0, 0.0]

    model = pf.Model.from_function(decay, ["x", "y"], ["a", "b"])
    noise = pf.Noise(additive=(0.01, 10), proportional=0.1)
    values = {**TRUTH, "noise.additive": 0.3}
    numeric = _small(noise, model)
    assert numeric.nllh(values) == pytest.approx(_small(noise).nllh(values), rel=1e-8)
    a, b = pf.fit(numeric), pf.fit(_small(noise))
    assert a.nllh == pytest.approx(b.nllh, abs=1e-5)


# ---- fits --------------------------------------------------------------------------------------------------

KINDS = {
    "normal": pf.Noise(additive=_level(0.2), proportional=_level(0.1)),
    "each": pf.Noise(additive={"x": _level(0.5), "y": _level(0.1)}),
    "common": pf.Noise(additive=_level(0.2), proportional=_level(0.1), common=True),
    "log": pf.LogNormal(sigma=_level(0.15)),
    "log10": pf.LogNormal(sigma=_level(0.08), base=10),
    "student": pf.StudentT(additive=_level(0.2), degrees=4.0),
    "laplace": pf.Laplace(scale=_level(0.2)),
    "log-laplace": pf.Laplace(scale=_level(0.1), base=np.e),
    "formula": pf.Noise(additive="0.1 + s*sqrt(abs(y))"),
}


def _extra(kind):
    return {"s": _level(0.2)} if kind == "formula" else {}


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_within_their_errors(kind):
    problem = _problem(KINDS[kind], seed=3, **_extra(kind))
    levels = {n: p.start for n, p in problem.parameters.items() if n not in TRUTH}
    forgetful = replace(
        problem, parameters={n: replace(p, start=None) for n, p in problem.parameters.items()}
    )
    fit = pf.fit(forgetful)
    assert fit.success, fit.message
    for name, true in {**TRUTH, **levels}.items():
        assert abs(fit.parameters[name] - true) < 4 * fit.standard_errors[name]
    assert fit.nllh < problem.nllh({**TRUTH, **levels}, {"x": 10.0, "y": 1.0})
    assert fit.reduced_chi_square == pytest.approx(1.0, abs=0.4)


@pytest.mark.parametrize("kind", ["normal", "common", "log", "student", "formula"])
def test_fit_is_a_minimum_of_the_nllh(kind):
    problem = _problem(KINDS[kind], seed=4, **_extra(kind))
    fit = pf.fit(problem)
    initial = fit.initial_states["experiment 1"]
    best = problem.nllh(fit.parameters, initial)
    assert best == pytest.approx(fit.nllh, rel=1e-6, abs=1e-6)
    for name, error in fit.standard_errors.items():
        for sign in (-1, 1):
            values, states = dict(fit.parameters), dict(initial)
            place = values if name in values else states
            place[name.removesuffix("(0)")] += 0.1 * sign * error
            assert problem.nllh(values, states) > best


def test_curvature_is_the_average_second_derivative():
    """Fisher's information of all unknowns, from the path, against differences of nllh averaged over data sets."""
    problem = _problem(KINDS["normal"], seed=5)
    values = {**TRUTH, "noise.additive": 0.2, "noise.proportional": 0.1}
    fit = pf.fit(problem, start=values)
    slopes = []
    for seed in range(300):
        other = problem.simulate_data(fit.solution.unknowns, seed=seed)
        system = replace(fit.solution.system, problem=other)
        s = fit.solution
        point = point_at(system, s.unknowns, s.states, s.path)
        slopes.append(reduced(system, linearise(system, point).quadratic)[1][0])
    average = np.cov(np.array(slopes).T)
    information = information_of(fit.solution)
    order = information.index[:, 1]
    size = np.sqrt(np.diag(information.matrix))
    difference = (average[np.ix_(order, order)] - information.matrix) / size / size[:, None]
    assert np.abs(difference).max() < 0.3
    assert np.abs(np.diag(difference)).mean() < 0.15


def test_outliers_hardly_move_student_noise():
    clean = _problem(pf.Noise(additive=0.1), seed=6)
    data = {n: np.array(v) for n, v in clean.experiments[0].observations.items()}
    data["x"][[5, 30]] += 8.0
    data["y"][[20, 50]] -= 6.0
    robust = pf.fit(_problem(pf.StudentT(additive=(1e-3, 10.0), degrees=(1.0, 50.0)), data=data))
    plain = pf.fit(_problem(None, data=data))
    off = {n: (abs(robust.parameters[n] - v), abs(plain.parameters[n] - v)) for n, v in TRUTH.items()}
    assert robust.success
    assert all(a < 0.03 for a, _ in off.values())
    assert max(b for _, b in off.values()) > 3 * max(a for a, _ in off.values())
    assert robust.parameters["noise.degrees"] < 3


@pytest.mark.parametrize("common", [False, True])
def test_all_starts_reach_the_same_optimum(common):
    for problem in (van_der_pol.generate(seed=3, eps=0.1), rosenzweig_macarthur.generate(seed=3, eps=0.1)):
        fit = pf.fit(
            replace(problem, noise=pf.Noise(additive=0.1, proportional=0.1, common=common)), starts=5
        )
        assert fit.success
        assert fit.hits == 5


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_wrong_levels_still_converge(factor):
    problem = van_der_pol.generate(seed=3, eps=0.1)
    fit = pf.fit(replace(problem, noise=pf.Noise(additive=0.1 * factor)))
    plain = pf.fit(problem)
    assert fit.success
    for name, value in plain.parameters.items():
        assert fit.parameters[name] == pytest.approx(value, abs=1e-4)
    words = "larger" if factor < 1 else "smaller"
    assert words in str(fit.diagnostics)


def test_stages_do_not_end_while_only_short_steps_are_possible():
    """Continuity must not get its full weight, and the noise its levels, while the path is far from continuous."""
    neuron = pf.examples.fitzhugh_nagumo.generate(seed=1)
    noise = pf.Noise(additive=(1e-3, 2.0), proportional=(1e-3, 2.0))
    problem = pf.Problem(neuron.model, neuron.experiments, neuron.parameters, noise=noise)
    starts = (None, {"theta1": 0.0138, "theta2": 0.867})
    easy, hard = (pf.fit(problem, start=one, policy=pf.SearchPolicy(most=1)) for one in starts)
    assert hard.objective == pytest.approx(easy.objective, abs=1e-4)


def test_known_equal_noise_gives_the_least_squares_estimate():
    problem = van_der_pol.generate(seed=2, eps=0.1)
    plain, known = pf.fit(problem), pf.fit(replace(problem, noise=pf.Noise(additive=(0.01, 1.0))))
    for name, value in plain.parameters.items():
        assert known.parameters[name] == pytest.approx(value, abs=2e-6)
    assert known.nllh == pytest.approx(plain.nllh, rel=1e-7)  # its variance is the best one, too
    assert known.loss == pytest.approx(plain.loss, rel=1e-6)
    ratio = known.standard_errors["theta1"] / plain.standard_errors["theta1"]
    count, layout = problem.measurements, problem.layout.count()
    assert ratio == pytest.approx(np.sqrt((count - layout) / count), rel=1e-3)


def test_levels_may_differ_between_experiments():
    model, rng = pf.Model("x' = -a*x"), np.random.default_rng(0)
    runs = [
        pf.Experiment(TIMES, {"x": 5 * np.exp(-TIMES) + sd * rng.standard_normal(60)}, name=f"run {k}")
        for k, sd in enumerate((0.05, 0.5))
    ]
    noise = pf.Noise(additive=pf.Parameter(1e-3, 10, log=True, local=True))
    fit = pf.fit(pf.Problem(model, runs, {"a": (0.1, 5)}, noise=noise))
    assert fit.parameters["noise.additive[run 0]"] == pytest.approx(0.05, rel=0.4)
    assert fit.parameters["noise.additive[run 1]"] == pytest.approx(0.5, rel=0.4)


def _errors(noise, seeds):
    """Standardised errors of theta over data sets of the Van der Pol oscillator with proportional noise."""
    base = replace(van_der_pol.generate(seed=1, eps=0.1), noise=noise)
    truth, initial = base.truth["parameters"], base.truth["initial"]["run 1"]
    found = []
    for seed in seeds:
        fit = pf.fit(base.simulate_data(truth, initial, seed=seed))
        found.append([(fit.parameters[n] - v) / fit.standard_errors[n] for n, v in truth.items()])
    return np.array(found)


def test_errors_are_as_large_as_the_bound_says():
    errors = _errors(pf.Noise(additive=0.02, proportional=0.2), range(25))
    assert 0.7 < np.sqrt(np.mean(errors**2)) < 1.35


@pytest.mark.slow
@pytest.mark.parametrize("common", [False, True])
def test_errors_reach_the_cramer_rao_bound(common):
    errors = _errors(pf.Noise(additive=0.02, proportional=0.2, common=common), range(300))
    np.testing.assert_allclose(np.sqrt(np.mean(errors**2, axis=0)), 1.0, atol=0.1)
    assert np.abs(errors.mean(axis=0)).max() < 0.2


# ---- the result --------------------------------------------------------------------------------------------


def test_criteria():
    problem = _problem(pf.Noise(additive=_level(0.2)), seed=1)
    fit = pf.fit(problem)
    count, k = 2 * len(TIMES), 5
    assert fit.log_likelihood == -fit.nllh
    assert fit.aic == pytest.approx(2 * k + 2 * fit.nllh)
    assert fit.aicc == pytest.approx(fit.aic + 2 * k * (k + 1) / (count - k - 1))
    assert fit.bic == pytest.approx(k * np.log(count) + 2 * fit.nllh)
    plain = pf.fit(replace(problem, noise=None, parameters=BOUNDS))
    assert plain.aic == pytest.approx(fit.aic, rel=1e-6)  # the variance counts as an unknown in both


def test_residuals_by_name():
    problem = _small(pf.Noise(additive={"x": 0.5, "y": 0.2}))
    fit = pf.fit(problem)
    residuals = fit.residuals["experiment 1"]
    predicted = fit.predict("experiment 1", SMALL_TIMES)
    np.testing.assert_allclose(residuals["y"], (np.array(DATA["y"]) - predicted["y"]) / 0.2, atol=1e-6)
    assert np.isnan(residuals["x"][2])


def test_diagnostics_see_a_missing_term():
    data = {"x": 10 * np.exp(-0.8 * TIMES) + np.sin(2 * TIMES), "y": _exact()["y"]}
    fit = pf.fit(_problem(pf.Noise(additive=0.3), data=data))
    assert fit.diagnostics.runs["x"] < 0.01
    assert "pattern in time" in str(fit)


def test_diagnostics_of_a_good_fit_are_quiet():
    fit = pf.fit(_problem(pf.Noise(additive=0.2), seed=2))
    assert "nothing remarkable" in str(fit.diagnostics)
    assert min(fit.diagnostics.runs.values()) > 0.01


def test_print_says_likelihood_and_priors():
    prior = pf.Parameter(0.01, 5.0, prior=pf.priors.Normal(0.8, 0.5))
    fit = pf.fit(_problem(pf.Noise(additive=0.2), seed=2, a=prior))
    assert "with priors" in str(fit)
    assert "reduced chi-square" in str(fit)
    assert "one variance, estimated" in str(pf.fit(_small(None)))


@pytest.mark.parametrize("kind", [*KINDS, "mapping", "prior"])
def test_files_keep_noise_and_priors(kind, tmp_path):
    if kind == "mapping":
        problem = _problem(
            {"x": pf.StudentT(additive=(0.01, 5.0)), "y": pf.Noise(additive=0.1)}, data=_noisy()
        )
    elif kind == "prior":
        prior = pf.Parameter(0.01, 5.0, prior=pf.priors.LogNormal(0.0, 1.0))
        problem = _problem(pf.Noise(additive=0.2), seed=1, a=prior)
    else:
        problem = _problem(KINDS[kind], seed=1, **_extra(kind))
    fit = pf.fit(problem)
    again = pf.load(fit.save(tmp_path / "fit.json"))
    assert again.nllh == fit.nllh
    assert again.objective == fit.objective
    assert again.problem.noise == fit.problem.noise
    assert again.problem.parameters == fit.problem.parameters
    assert again.standard_errors == fit.standard_errors


def _noisy():
    rng = np.random.default_rng(0)
    return {n: v + 0.1 * rng.standard_normal(len(v)) for n, v in _exact().items()}


# ---- new data ----------------------------------------------------------------------------------------------


def test_new_data_follow_the_noise_model():
    problem = _small(pf.Noise(additive=0.5, proportional=0.1))
    x, _ = _outputs()
    drawn = [problem.simulate_data(TRUTH, seed=k).samples.data[0, 0] for k in range(800)]
    assert np.mean(drawn) == pytest.approx(x[0], abs=0.2)
    assert np.std(drawn) == pytest.approx(np.hypot(0.5, 0.1 * x[0]), rel=0.1)


def test_new_data_are_reproducible_and_keep_gaps():
    problem = _small(pf.LogNormal(sigma=0.2))
    one, two = (problem.simulate_data(TRUTH, seed=3).samples.data for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert np.isnan(one[2, 0])
    assert np.isfinite(one).sum() == 5


def test_new_data_without_noise_model_need_a_size():
    with pytest.raises(pf.InputError, match="sd"):
        _small(None).simulate_data(TRUTH)
    with pytest.raises(pf.InputError, match="leave sd out"):
        _small(pf.Noise(additive=0.1)).simulate_data(TRUTH, sd=0.1)
    drawn = _small(None).simulate_data(TRUTH, sd=1e-6).samples.data
    np.testing.assert_allclose(drawn[:2, 0], _outputs()[0][:2], atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_laplace_noise_ends_at_its_kinks(seed):
    """x0 exp(-k t): for every k the best x0 is a weighted median, so the optimum can be had without derivatives."""
    times = np.linspace(0, 3, 15)
    values = 2 * np.exp(-0.5 * times) + np.random.default_rng(seed).laplace(0, 0.1, 15)

    def cost(k):
        weight = np.exp(-k * times)
        order = np.argsort(values / weight)
        half = np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)
        return np.abs(values - (values / weight)[order[half]] * weight).sum() / 0.1 + 15 * np.log(0.2)

    from scipy.optimize import minimize_scalar

    grid = np.linspace(0.05, 1.5, 400)
    best = grid[np.argmin([cost(k) for k in grid])]
    found = minimize_scalar(
        cost, bounds=(best - 0.004, best + 0.004), method="bounded", options={"xatol": 1e-12}
    )
    one = pf.Experiment(times, {"x": values})
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), one, {"k": (0.01, 5)}, noise=pf.Laplace(scale=0.1)))
    assert fit.success
    assert fit.nllh == pytest.approx(found.fun, abs=1e-4)
    assert np.isfinite(fit.profile("k").interval()).all()


# ---- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: pf.Noise(), "neither"),
        (lambda: pf.Noise(additive=-1.0), "not positive"),
        (lambda: pf.Noise(additive=(0.0, 1.0)), "positive and ascending"),
        (lambda: pf.Noise(additive=(2.0, 1.0)), "positive and ascending"),
        (lambda: pf.Noise(additive=[1, 2, 3]), "not a level"),
        (lambda: pf.Noise(additive=0.1, common="yes"), "True or False"),
        (lambda: pf.Noise(additive="0.1*"), "is missing at the end"),
        (lambda: pf.Noise(additive=pf.Parameter(-1, 1)), "negative"),
        (lambda: pf.LogNormal(sigma=0.0), "not positive"),
        (lambda: pf.LogNormal(sigma=0.1, base=0.5), "base"),
        (lambda: pf.LogNormal(sigma=0.1, base=3), "base = 3 is not e, 10 or 2"),
        (lambda: pf.Noise(additive=0.1, common=True), "proportional, is zero"),
        (lambda: pf.Noise(additive=(10, 0.1)), r"example additive=\(0.001, 1.0\)\."),
        (lambda: _small(0.1), "not a noise model"),
        (lambda: _small({"x": pf.Noise(additive=0.1)}), "has no entry for `y`"),
        (lambda: _small({"x": pf.Noise(additive=0.1), "z": pf.Noise(additive=1)}), "`z` in noise"),
        (lambda: _small(pf.Noise(additive={"x": 0.1})), "no level for `y`"),
        (lambda: _small(pf.Noise(additive="0.1*sigm")), "`sigm`"),
        (lambda: _small(pf.Noise(proportional=0.1, common=True)), "additive level as well"),
        (
            lambda: _small(dict.fromkeys("xy", pf.Noise(additive=0.1, proportional=0.1, common=True))),
            "one factor for all",
        ),
        (lambda: pf.fit(_small(pf.Noise(additive=0.1)), pf.GradientContractive()), "least squares"),
        (lambda: _small(pf.Noise(additive=(0.1, 1.0))).nllh(TRUTH), "noise.additive"),
    ],
)
def test_bad_noise(make, words):
    with pytest.raises(pf.InputError, match=words):
        make()


def test_logarithms_need_positive_data():
    data = {"x": [1.0, 0.0], "y": [1.0, 2.0]}
    with pytest.raises(pf.InputError, match="`x` is not positive"):
        pf.Problem(MODEL, pf.Experiment([0.0, 1.0], data), BOUNDS, noise=pf.LogNormal(sigma=0.1))


@pytest.mark.parametrize("seed", [18, 98])
def test_narrow_common_noise_finds_its_way(seed):
    """A covariance ten times wider along the outputs than across: frozen at wrong directions it leads astray."""
    noise = pf.Noise(additive=0.02, proportional=0.2, common=True)
    base = replace(van_der_pol.generate(seed=1, eps=0.1), noise=noise)
    truth, initial = base.truth["parameters"], base.truth["initial"]["run 1"]
    problem = base.simulate_data(truth, initial, seed=seed)
    fit = pf.fit(problem)
    assert fit.success
    assert fit.nllh < problem.nllh(truth, initial)
