"""Measurements that are no plain numbers, in problems: fits against an independent optimiser, files, bad input."""

import io

import numpy as np
import pytest
import scipy.stats as st
from scipy.optimize import minimize

import picardfit as pf
from complaints import complaint, record

DECAY = pf.Model("x' = -k*x")
T = np.linspace(0, 4, 21)
EPIDEMIC = pf.Model(
    """
    S' = -b*S*I/1000
    I' = b*S*I/1000 - g*I
    C' = b*S*I/1000
    """,
    observables={"cases": "increment(C)"},
)
BEGIN = {"S": 995.0, "I": 5.0, "C": 0.0}
WEEKS = np.arange(1, 16.0)


def decay(values, noise, start=(1, 100), **columns):
    run = pf.Experiment(T[: len(values)], {"x": values, **columns}, "run")
    return pf.Problem(DECAY, run, {"k": (0.01, 5)}, {"x": start}, noise=noise)


def epidemic(noise, seed=3):
    drawn = pf.simulate(EPIDEMIC, {"b": 1.2, "g": 0.5}, BEGIN, WEEKS, noise=pf.Poisson(), seed=seed)
    run = pf.Experiment(WEEKS, drawn.observables, "city", initial=BEGIN)
    return pf.Problem(EPIDEMIC, run, {"b": (0.1, 5), "g": (0.05, 3)}, noise=noise)


def censored(y, limit):
    return [f"<{limit}" if one < limit else one for one in y]


def problems():
    rng = np.random.default_rng(1)
    mean = 20 * np.exp(-0.7 * T)
    noisy = mean + 1.5 * rng.standard_normal(len(T))
    trials = rng.integers(5, 40, len(T))
    return {
        "censored normal": decay(censored(noisy, 3.0), pf.Noise(additive=(0.01, 10))),
        "censored log-normal": decay(
            censored(mean * np.exp(0.3 * rng.standard_normal(len(T))), 3.0), pf.LogNormal(sigma=(0.01, 2))
        ),
        "censored student": decay(censored(noisy, 3.0), pf.StudentT(additive=(0.01, 10))),
        "intervals": decay(
            [f"{np.floor(y)}..{np.floor(y) + 1}" for y in noisy], pf.Noise(additive=(0.01, 10))
        ),
        "poisson": decay(rng.poisson(mean), pf.Poisson()),
        "negative binomial": decay(
            rng.poisson(rng.gamma(3, mean / 3)), pf.NegativeBinomial(dispersion=(0.1, 100))
        ),
        "binomial": decay(rng.binomial(20, mean / 25), pf.Binomial(trials=20), (0.01, 1)),
        "binomial column": decay(
            rng.binomial(trials, mean / 25), pf.Binomial(trials="tested"), (0.01, 1), tested=trials
        ),
        "increments": epidemic(pf.Poisson()),
        "increments, normal": epidemic(pf.Noise(additive=(0.1, 30))),
        "increments, least squares": epidemic(None),
    }


PROBLEMS = problems()


@pytest.fixture(scope="module", params=PROBLEMS)
def fitted(request):
    return pf.fit(PROBLEMS[request.param])


def _value(problem, names, states, values):
    initial = dict(zip(states, values[len(names) :], strict=True)) or BEGIN
    parameters = dict(zip(names, values, strict=False))
    return problem.nllh(parameters, initial) if problem.noise else problem.loss(parameters, initial)


def test_no_optimiser_finds_less(fitted):
    problem = fitted.problem
    assert fitted.success
    assert fitted.certificate.mismatch < 1e-7
    names = list(fitted.parameters)
    states = [] if problem.model.increments else ["x"]
    best = [*fitted.parameters.values(), *(fitted.initial_states["run"][s] for s in states)]
    here = _value(problem, names, states, best)
    found = minimize(
        lambda z: _value(problem, names, states, z),
        np.array(best) * 0.99,
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 800},
    )
    assert found.fun == pytest.approx(here, abs=1e-6)
    assert found.x == pytest.approx(best, rel=2e-3)


def test_files_keep_it(fitted, tmp_path):
    fitted.save(tmp_path / "fit.json")
    again = pf.load(tmp_path / "fit.json")
    assert again.standard_errors == fitted.standard_errors
    for one, other in zip(again.problem.experiments, fitted.problem.experiments, strict=True):
        assert np.array_equal(one.values, other.values, equal_nan=True)
        assert (one.limits is None) == (other.limits is None)


def test_bands_profiles_bootstraps_and_pictures(fitted, tmp_path):
    name = fitted.problem.names[0]
    observable = fitted.problem.model.observables[0]
    times = fitted.problem.experiments[0].times
    plain, wide = (fitted.bands(name, times, noise=noise)[observable] for noise in (False, True))
    assert plain.value == pytest.approx(fitted.predict(name, times)[observable], rel=1e-6, abs=1e-8)
    inside = (wide.low <= plain.low + 1e-9) & (wide.high >= plain.high - 1e-9)
    clipped = (wide.low == 0) | (wide.high == 1)  # counts are not below 0, fractions not above 1
    assert (inside | clipped).all()
    drawn = fitted.bootstrap(6, seed=1)
    assert drawn.failures == 0
    assert fitted.bands(name, times, noise=True, bootstrap=drawn)[observable].high.shape == times.shape
    parameter = next(iter(fitted.parameters))
    low, high = fitted.profile(parameter).interval(0.95)
    assert low < fitted.parameters[parameter] < high
    fitted.plot(tmp_path / "fit.png")
    fitted.plot_residuals(tmp_path / "residuals.png")
    fitted.report(tmp_path / "report.html")


def test_nllh_of_counts_is_that_of_scipy():
    rng = np.random.default_rng(0)
    y = rng.poisson(20 * np.exp(-0.7 * T))
    mean = 20 * np.exp(-0.6 * T)
    at = ({"k": 0.6}, {"x": 20.0})
    assert decay(y, pf.Poisson()).nllh(*at) == pytest.approx(-st.poisson.logpmf(y, mean).sum(), rel=1e-8)
    law = st.nbinom(2.5, 2.5 / (2.5 + mean))
    found = decay(y, pf.NegativeBinomial(dispersion=2.5)).nllh(*at)
    assert found == pytest.approx(-law.logpmf(y).sum(), rel=1e-8)
    y = rng.binomial(20, mean / 25)
    found = decay(y, pf.Binomial(trials=20), (0.01, 1)).nllh({"k": 0.6}, {"x": 0.8})
    assert found == pytest.approx(-st.binom.logpmf(y, 20, mean / 25).sum(), rel=1e-8)


def test_binomial_counts_are_compared_as_fractions():
    problem = decay([18, 12, 9], pf.Binomial(trials=20), (0.01, 1))
    assert problem.samples.data[:, 0].tolist() == [0.9, 0.6, 0.45]


def test_observables_may_have_different_noise_models():
    model = pf.Model("x' = -k*x", observables={"level": "x", "count": "20*x"})
    run = pf.Experiment([0, 1, 2], {"level": [1.0, "<0.6", 0.2], "count": [18, 11, 4]}, "run")
    problem = pf.Problem(
        model,
        run,
        {"k": (0.1, 5)},
        {"x": 1.0},
        noise={"level": pf.Noise(additive=0.1), "count": pf.Poisson()},
    )
    x = np.exp(-0.7 * np.arange(3))
    expected = -st.norm.logpdf([1.0, 0.2], x[[0, 2]], 0.1).sum() - st.norm.logcdf(0.6, x[1], 0.1)
    expected -= st.poisson.logpmf([18, 11, 4], 20 * x).sum()
    assert problem.nllh({"k": 0.7}) == pytest.approx(expected, rel=1e-8)


def test_residuals_of_counts_are_normal():
    mean = np.linspace(0.5, 8, 3000)
    line = pf.Model("x' = a")
    run = pf.Experiment(np.arange(3000.0), {"x": np.random.default_rng(2).poisson(mean)}, "run")
    problem = pf.Problem(line, run, {"a": 7.5 / 2999}, {"x": 0.5}, noise=pf.Poisson())
    rows = np.column_stack([mean, np.ones(3000)])
    assert st.kstest(problem.objective.residuals(rows)[:, 0], "norm").pvalue > 0.05


# ---- tables ----


def test_tables_hold_censored_values():
    (one,) = pf.read_table(io.StringIO("time,x\n0,1\n1,<0.5\n2,0.1..0.25\n3,> 4\n4,\n"))
    assert one.observations["x"].tolist() == [1.0, "<0.5", "0.1..0.25", ">4.0"]
    assert one.limits[1:, 0].tolist() == [[-np.inf, 0.5], [0.1, 0.25], [4.0, np.inf]]
    assert one.values[:, 0].tolist() == [1.0, 0.25, 0.175, 4.0]


def test_decimal_commas_in_censored_values():
    (one,) = pf.read_table(io.StringIO("time;x\n0;1,5\n1;<0,5\n"))
    assert one.observations["x"].tolist() == [1.5, "<0.5"]


def test_long_tables_say_it_in_columns():
    text = "time,observable,value,cens,limit\n0,x,1,0,\n1,x,0.5,1,\n2,x,0.25,1,0.1\n3,x,4,-1,\n"
    (one,) = pf.read_table(io.StringIO(text))
    assert one.observations["x"].tolist() == [1.0, "<0.5", "0.1..0.25", ">4.0"]


@pytest.mark.parametrize(
    "text, code",
    [
        ("time,x\n0,1\n1,0.5..0.2\n", "model.interval_reversed"),
        ("time,observable,value,cens\n0,x,1,2\n", "files.censoring_code"),
        ("time,observable,value,cens\n0,x,1,0\n1,x,,1\n", "files.censored_without_value"),
        ("time,observable,value,cens,limit\n0,x,1,1,2\n", "files.limit_on_wrong_side"),
    ],
)
def test_bad_tables_name_the_line(text, code):
    error = complaint(pf.read_table, io.StringIO(text))
    assert error.code == code
    assert error.place.row == text.count("\n")


def test_problem_files(tmp_path):
    (tmp_path / "problem.toml").write_text(
        'equations = "x\' = -k*x"\ndata = "d.csv"\nt0 = 0\n[parameters]\nk = [0.1, 5]\n[initial]\nx = [0.01, 1]\n'
        '[noise]\ntype = "binomial"\ntrials = "tested"\n'
    )
    (tmp_path / "d.csv").write_text("time,x,tested\n0,18,20\n1,7,15\n2,6,30\n")
    from picardfit.files.problem_file import read_problem_file

    problem = read_problem_file(tmp_path / "problem.toml").problem
    assert problem.noise == pf.Binomial(trials="tested")
    assert problem.samples.trials[:, 0].tolist() == [20, 15, 30]


# ---- bad input ----


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda: pf.Experiment([0, 1], {"x": [1, "0.5..0.2"]}), ("model.interval_reversed", "x", ())),
        (lambda: decay([1.0, "<0.25"], None), ("problem.censored_without_noise", "x", ("noise",))),
        (
            lambda: decay([1.0, "<-1"], pf.LogNormal(sigma=0.1)),
            ("problem.limit_not_positive", "x", ("data",)),
        ),
        (lambda: decay([1.0, 2.5], pf.Poisson()), ("problem.not_a_count", "x", ("data",))),
        (lambda: decay([1.0, -2], pf.Poisson()), ("problem.not_a_count", "x", ("data",))),
        (lambda: decay([1, "<2"], pf.Poisson()), ("problem.censored_counts", "x", ("data",))),
        (lambda: decay([21, 2], pf.Binomial(trials=20)), ("problem.more_than_trials", "x", ("data",))),
        (lambda: decay([1, 2], pf.Binomial(trials="n")), ("problem.no_trials", "n", ("noise", "trials"))),
        (
            lambda: decay([1, 2], pf.Binomial(trials="n"), n=[20, None]),
            ("problem.trials_missing", "n", ("data",)),
        ),
        (lambda: pf.Binomial(trials=0), ("errors.not_whole", "trials", ())),
        (
            lambda: pf.NegativeBinomial(dispersion=0.0),
            ("model.level_not_positive", "dispersion", ("noise", "dispersion")),
        ),
        (
            lambda: pf.Model("x' = -x", observables={"y": "2*increment(x)"}),
            ("model.increment_inside", "y", ("observables", "y")),
        ),
    ],
)
def test_bad_input(make, expected):
    error = complaint(make)
    assert record(error)[: len(expected)] == expected


def test_residual_bootstrap_of_counts_is_refused():
    fit = pf.fit(PROBLEMS["poisson"])
    assert complaint(fit.bootstrap, 5, kind="residual").code == "inference.residuals_of_counts"


def test_falling_increments_are_told():
    model = pf.Model("x' = -k*x", observables={"n": "increment(x)"})
    run = pf.Experiment([1, 2, 3.0, 4], {"n": [3, 4, 5, 1]}, "run")
    problem = pf.Problem(model, run, {"k": (0.1, 5)}, {"x": (1, 100)}, noise=pf.Noise(additive=1.0))
    assert "search.falling_increment" in [one.code for one in pf.fit(problem).warnings]


def test_counts_that_cannot_occur_are_told():
    model = pf.Model("x' = -k*x", observables={"n": "increment(x)"})
    run = pf.Experiment([1, 2, 3.0], {"n": [3, 2, 1]}, "run")
    problem = pf.Problem(model, run, {"k": (0.1, 10)}, {"x": (0, 100)}, noise=pf.Poisson())
    fit = pf.fit(problem, policy=pf.SearchPolicy(most=1))
    found = {one.code for one in fit.warnings}
    assert {"search.falling_increment", "search.impossible_data"} <= found
    assert not {"simulation.no_solution_at_estimates"} & found
