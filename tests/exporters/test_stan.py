"""Stan: the data of the program, its unknowns and its noise; and the compiler's word where it is installed."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import picardfit as pf
from exported import ONCE, clinic_fit, every_fit, increments_fit, loaded, starter_fit
from picardfit.exporters.stan import prior_density

TIMES = [0.0, 0.5, 1.0, 2.0, 4.0]
VALUES = [2.0, 1.6, 1.2, 0.8, 0.3]


def exported(fit, tmp_path):
    """The lines of the program, its data and its starting values."""
    path = fit.export(tmp_path / "model.stan")
    texts = [one.strip() for one in path.read_text(encoding="utf-8").splitlines()]
    return texts, *(json.loads(path.with_suffix(end).read_text()) for end in (".data.json", ".init.json"))


def decay(noise=None, parameters=None, values=VALUES, **options):
    model = pf.Model("x' = -k*x", observables={"y": "x"})
    one = pf.Experiment(TIMES, {"y": values}, "one", **options)
    problem = pf.Problem(model, one, parameters or {"k": pf.Parameter(0.01, 5, log=True)}, noise=noise)
    return pf.fit(problem, policy=ONCE)


def compiled(path):
    """What Stan's compiler says about a program; nothing if it is content."""
    httpstan = pytest.importorskip("httpstan", reason="pip install httpstan, which brings stanc")
    stanc = Path(httpstan.__file__).parent / "stanc"
    run = subprocess.run([stanc, path, f"--o={path}.hpp"], capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


@pytest.mark.parametrize("name", every_fit())
def test_programs_of_starters_and_of_the_paper_compile(name, tmp_path):
    assert compiled(every_fit()[name]().export(tmp_path / "model.stan")) == ""


@pytest.mark.parametrize("make", [clinic_fit, increments_fit])
def test_programs_with_doses_and_increments_compile(make, tmp_path):
    assert compiled(make().export(tmp_path / "model.stan")) == ""


NOISES = {
    "normal": (
        pf.Noise(0.1, 0.1),
        "normal_lpdf(measured[number] | expected[at_sample, 1], level[at_sample, 1])",
    ),
    "common": (pf.Noise(0.1, 0.1, common=True), "factor_square[at_sample] += square(factor);"),
    "log": (
        pf.LogNormal((0.01, 1), base=10),
        "normal_lpdf(log(measured[number]) / 2.302585092994046 | log(expected[at_sample, 1]) / 2.302585092994046, "
        "level[at_sample, 1]) - log(measured[number])",
    ),
    "student": (
        pf.StudentT(0.1),
        "student_t_lpdf(measured[number] | 4.0, expected[at_sample, 1], level[at_sample, 1])",
    ),
    "laplace": (
        pf.Laplace((0.01, 1)),
        "double_exponential_lpdf(measured[number] | expected[at_sample, 1], level[at_sample, 1])",
    ),
    "degrees": (
        pf.StudentT(0.1, degrees=(1, 30)),
        "student_t_lpdf(measured[number] | level[at_sample, 2], expected[at_sample, 1], level[at_sample, 1])",
    ),
}
COUNTS = {
    "poisson": (pf.Poisson(), "poisson_lpmf(measured_count[number] | fmax(expected[at_sample, 1], 1e-12))"),
    "negative": (
        pf.NegativeBinomial((0.1, 100)),
        "neg_binomial_2_lpmf(measured_count[number] | fmax(expected[at_sample, 1], 1e-12), level[at_sample, 1])",
    ),
    "binomial": (
        pf.Binomial(9),
        "binomial_lpmf(measured_count[number] | measured_trials[number], "
        "fmin(fmax(expected[at_sample, 1], 1e-12), 1.0))",
    ),
}


@pytest.mark.parametrize("kind", NOISES)
def test_noise_is_the_likelihood(kind, tmp_path):
    noise, line = NOISES[kind]
    lines, _, _ = exported(decay(noise), tmp_path)
    assert any(line in one for one in lines)


@pytest.mark.parametrize("kind", NOISES)
def test_every_noise_compiles(kind, tmp_path):
    assert compiled(decay(NOISES[kind][0]).export(tmp_path / "model.stan")) == ""


@pytest.mark.parametrize("kind", COUNTS)
def test_counts_are_whole_numbers(kind, tmp_path):
    noise, line = COUNTS[kind]
    initial = {"x": (0.01, 0.99) if kind == "binomial" else (0.1, 99)}
    lines, data, _ = exported(decay(noise, values=[7, 5, 3, 1, 0], initial=initial), tmp_path)
    assert any(line in one for one in lines)
    assert data["measured_count"] == [7, 5, 3, 1, 0]
    assert data["measured_trials"] == [9 if kind == "binomial" else 1] * 5
    assert compiled(tmp_path / "model.stan") == ""


def test_censored_values_are_probabilities(tmp_path):
    values = [">1.9", 1.6, "1.1..1.3", 0.8, "<0.5"]
    lines, data, _ = exported(decay(pf.Noise((0.01, 1)), values=values), tmp_path)
    assert data["censored"] == [2, 0, 3, 0, 1]
    assert (data["measured_lower"][0], data["measured_upper"][4]) == (1.9, 0.5)
    assert (data["measured_lower"][2], data["measured_upper"][2]) == (1.1, 1.3)
    assert any("normal_lccdf(measured_lower[number]" in one for one in lines)
    assert compiled(tmp_path / "model.stan") == ""


def test_without_noise_one_standard_deviation_is_estimated(tmp_path):
    fit = decay()
    lines, _, init = exported(fit, tmp_path)
    assert "real<lower=0> sigma;  // standard deviation of the measurements" in lines
    assert init["sigma"] == pytest.approx(np.sqrt(fit.residual_variance))


def test_bounds_are_priors_on_the_scale_of_the_search(tmp_path):
    lines, _, init = exported(decay(initial={"x": (0, None)}), tmp_path)
    assert "real<lower=0.01, upper=5.0> k;" in lines
    assert "target += -log(k);" in lines
    assert "vector<lower=0.0>[1] x_initial;" in lines
    assert init["k"] == pytest.approx(decay().parameters["k"], rel=1e-6)


def test_local_parameters_and_known_initial_states(tmp_path):
    lines, _, init = exported(starter_fit("pharmacokinetics"), tmp_path)
    assert "vector<lower=1.0, upper=100.0>[3] volume;  // l" in lines
    assert "target += -sum(log(volume));" in lines
    assert "pars[2] = [eliminate, out, back, volume[2]]';  // patient 2" in lines
    assert "start_state[2] = [0.0, 0.0]';" in lines
    assert len(init["volume"]) == 3


def test_initial_formulas(tmp_path):
    lines, _, _ = exported(starter_fit("influenza"), tmp_path)
    assert "start_state[1] = [763.0 - infected, infected]';" in lines


def test_initial_formulas_of_other_initial_states(tmp_path):
    model = pf.Model("x' = -k*x\ny' = k*x", observables=["x"])
    data = pf.Experiment(TIMES, {"x": VALUES}, initial={"y": "5 - x", "x": (0, 9)})
    lines, _, _ = exported(pf.fit(pf.Problem(model, data, {"k": 0.5}), policy=ONCE), tmp_path)
    assert "start_state[1] = [x_initial[1], 5.0 - x_initial[1]]';" in lines


def test_bounds_that_differ_between_experiments(tmp_path):
    model = pf.Model("x' = -k*x")
    runs = [
        pf.Experiment(TIMES, {"x": VALUES}, name, initial={"x": bounds})
        for name, bounds in (("a", (0, 9)), ("b", (1, 9)), ("c", 2.0))
    ]
    fit = pf.fit(pf.Problem(model, runs, {"k": 0.5}), policy=ONCE)
    lines, _, init = exported(fit, tmp_path)
    assert "vector<lower=[0.0, 1.0]', upper=9.0>[2] x_initial;" in lines
    assert "start_state[3] = [2.0]';" in lines
    assert "pars[1] = [0.5]';  // a" in lines
    assert len(init["x_initial"]) == 2


@pytest.mark.parametrize(
    "prior, text",
    [
        (pf.priors.Normal(1.0, 0.5), "normal_lpdf(k | 1.0, 0.5)"),
        (pf.priors.Normal(0.0, 1.0, base=10), "normal_lpdf(log(k) / 2.302585092994046 | 0.0, 1.0)"),
        (pf.priors.LogNormal(0.0, 1.0), "lognormal_lpdf(k | 0.0, 1.0)"),
        (pf.priors.Laplace(1.0, 0.5), "double_exponential_lpdf(k | 1.0, 0.5)"),
        (pf.priors.LogLaplace(0.0, 1.0), "double_exponential_lpdf(log(k) | 0.0, 1.0)"),
        (pf.priors.Uniform(0.1, 2.0), ""),
        (pf.priors.HalfNormal(0.5), "normal_lpdf(k | 0, 0.5)"),
        (pf.priors.StudentT(4.0, 1.0, 0.5), "student_t_lpdf(k | 4.0, 1.0, 0.5)"),
        (pf.priors.Cauchy(1.0, 0.5), "cauchy_lpdf(k | 1.0, 0.5)"),
        (pf.priors.HalfCauchy(2.5), "cauchy_lpdf(k | 0, 2.5)"),
        (pf.priors.Exponential(2.0), "exponential_lpdf(k | 2.0)"),
        (pf.priors.Gamma(2.0, 1.5), "gamma_lpdf(k | 2.0, 1.5)"),
        (pf.priors.InverseGamma(2.0, 1.5), "inv_gamma_lpdf(k | 2.0, 1.5)"),
        (pf.priors.Beta(2.0, 3.0), "beta_lpdf(k | 2.0, 3.0)"),
        (pf.priors.Rayleigh(1.5), "rayleigh_lpdf(k | 1.5)"),
        (pf.priors.LogUniform(0.1, 2.0), ""),
    ],
)
def test_priors(prior, text):
    assert prior_density("k", prior)[0] == text


def test_pieces_of_the_clinic(tmp_path):
    _, data, _ = exported(clinic_fit(), tmp_path)
    first = data["is_first"].index(1, 1)  # of the second experiment
    assert data["begins_at"][1:first] == data["ends_at"][: first - 1]
    assert data["jump_add"][0] == [10.0, 0.0, 0.0]  # the dose at t0
    dose = [data["stop"][k - 1] for k in data["begins_at"]].index(3.25)
    assert data["jump_add"][dose] == [10.0, 0.0, 0.0]
    reset = [data["stop"][k - 1] for k in data["begins_at"]].index(4.1)
    assert (data["jump_keep"][reset], data["jump_add"][reset]) == ([0.0] * 3, [1.0, 0.0, 0.0])


def test_inputs_are_lines_in_each_piece(tmp_path):
    _, data, _ = exported(clinic_fit(), tmp_path)
    begins = [data["stop"][k - 1] for k in data["begins_at"]]
    at = begins.index(1.0)
    feed, u, weight, infusion = zip(data["input_begin"][at], data["input_slope"][at], strict=True)
    assert (feed, u, weight, infusion) == ((0.0, 0.0), (1.0, 0.5), (80.0, 0.0), (0.0, 0.0))
    assert data["input_begin"][begins.index(4.2)][3] == pytest.approx(5 / 1.3)


def test_increments_count_from_the_sample_before(tmp_path):
    _, data, _ = exported(increments_fit(), tmp_path)
    since = [row[1] for row in data["since"]]
    assert since[:3] == [1, data["sampled_at"][0], data["sampled_at"][1]]
    assert {row[0] for row in data["since"]} == {0}


def test_a_sample_at_the_time_of_a_dose_follows_it(tmp_path):
    """The last piece has no length."""
    doses = pf.Doses([4.0], 1.0, into="x")
    _, data, _ = exported(decay(doses=doses), tmp_path)
    assert (data["begins_at"][-1], data["ends_at"][-1]) == (data["n_stops"], data["n_stops"])


def test_a_steady_state_is_refused(tmp_path):
    model = pf.Model("x' = u - k*x", inputs=["u"])
    rest = pf.Rest({"u": 2.0}, {"x": 0.0})
    one = pf.Experiment(TIMES, {"x": VALUES}, "one", {"u": 0.0}, rest=rest)
    fit = pf.fit(pf.Problem(model, one, {"k": (0.1, 5)}), policy=ONCE)
    with pytest.raises(pf.InputError) as caught:
        fit.export(tmp_path / "model.stan")
    assert (caught.value.code, caught.value.subject) == ("exporters.stan_rest", "one")
    found = loaded(fit.export(tmp_path / "model.py")).simulate("one", [0.0])["x"]
    assert found == pytest.approx(2.0 / fit.parameters["k"])  # other formats have its value


@pytest.mark.slow
def test_the_density_of_the_program_is_the_likelihood_of_the_problem(tmp_path):
    """Differences between two points, because constants do not matter; the program's own priors are added."""
    stan = pytest.importorskip("stan", reason="pip install pystan")
    noise = {
        "y": pf.Noise((0.01, 1), (0.01, 1)),
        "z": pf.LogNormal((0.01, 1), base=10),
        "w": pf.StudentT((0.01, 1), degrees=(2, 9)),
        "n": pf.NegativeBinomial((0.1, 100)),
        "d": pf.Laplace((0.01, 1)),
    }
    observables = {"y": "x", "z": "x", "w": "x", "n": "10*x", "d": "increment(2*x)"}
    model = pf.Model("x' = -k*x", observables)
    data = {"y": ["<2.5", 1.6, "1.1..1.3", 0.8, ">0.2"], "z": VALUES, "w": VALUES, "n": [20, 15, 13, 9, 2]}
    one = pf.Experiment([0.1, 0.5, 1.0, 2.0, 4.0], {**data, "d": [-0.2, -0.8, -0.8, -0.9, -0.9]}, "one")
    prior = pf.Parameter(0.01, 5, prior=pf.priors.Normal(1.0, 0.5))
    problem = pf.Problem(model, one, {"k": prior}, noise=noise)
    fit = pf.fit(problem, policy=ONCE)
    _, given, init = exported(fit, tmp_path)
    built = stan.build((tmp_path / "model.stan").read_text(), data=given, random_seed=1)
    inside = {name: one.bounds for name, one in problem.parameters.items()}
    points = [
        {name.replace(".", "_"): low + share * (high - low) for name, (low, high) in inside.items()}
        | {"x_initial": [2.0 + share]}
        for share in (0.1, 0.15)
    ]
    assert points[0].keys() == init.keys()
    found, expected = [], []
    for point in points:
        found.append(built.log_prob(built.unconstrain_pars(point), adjust_transform=False))
        values = {name: point[name.replace(".", "_")] for name in problem.parameters}
        gap = (point["k"] - 1.0) / 0.5
        priors = -0.5 * gap**2 - sum(np.log(v) for n, v in values.items() if problem.parameters[n].log)
        expected.append(priors - problem.nllh(values, {"x": point["x_initial"][0]}))
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], abs=1e-4)
