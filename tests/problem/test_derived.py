"""Derived quantities: values, errors by the delta method, one for each experiment, files, what is refused."""

import json

import numpy as np
import pytest

import picardfit as pf
from picardfit.display.program import program
from picardfit.files.fit_file import derived_record
from picardfit.inference.derived_profiles import TableProfiles, derived_profiles

MODEL = pf.Model("g' = -ka*g; c' = ka*g/v - cl/v*c", observables={"c": "c"})
TIMES = np.array([0.25, 0.5, 1, 2, 4, 6, 8, 12.0])
DERIVED = {
    "half_life": pf.Derived("log(2)/ke", unit="h"),
    "ke": "cl/v",
    "difference": "ka - cl",
    "weight": "noise.sigma*g(0)",
}


def problem_with(derived, local=False, log=True, subjects=2, **fields):
    rng, truth = np.random.default_rng(1), {"ka": 1.5, "cl": 3.0}
    runs = []
    for k in range(subjects):
        values = {**truth, "v": 20.0 + 6 * k * local}
        clean = pf.simulate(MODEL, values, {"g": 100.0, "c": 0.0}, TIMES).observables["c"]
        noisy = clean * np.exp(0.05 * rng.standard_normal(len(TIMES)))
        runs.append(pf.Experiment(TIMES, {"c": noisy}, name=f"s{k}", t0=0))
    bounds = {"ka": (0.1, 10), "cl": (0.1, 20), "v": (1, 200)}
    parameters = {
        name: pf.Parameter(*ends, log=log, local=local and name == "v") for name, ends in bounds.items()
    }
    known = {"g": 100.0, "c": 0.0}
    return pf.Problem(
        MODEL, runs, {**parameters, **fields}, known, noise=pf.LogNormal(sigma=(0.01, 1)), derived=derived
    )


@pytest.fixture(scope="module")
def fit():
    return pf.fit(problem_with(DERIVED))


@pytest.fixture(scope="module")
def local_fit():
    return pf.fit(problem_with(DERIVED, local=True))


def test_values_are_the_formulas_at_the_estimates(fit):
    p = fit.parameters
    assert fit.derived["half_life"].value == pytest.approx(np.log(2) * p["v"] / p["cl"], rel=1e-12)
    assert float(fit.derived["difference"]) == pytest.approx(p["ka"] - p["cl"], rel=1e-12)


def test_standard_error_is_that_of_the_delta_method(fit):
    p, labels = fit.parameters, fit.covariance_labels
    slope = np.zeros(len(labels))
    slope[labels.index("v")], slope[labels.index("cl")] = (
        np.log(2) / p["cl"],
        -np.log(2) * p["v"] / p["cl"] ** 2,
    )
    expected = np.sqrt(slope @ fit.covariance @ slope)
    assert fit.derived["half_life"].standard_error == pytest.approx(expected, rel=1e-8)


def test_interval_of_positive_formulas_of_logarithms_is_symmetric_in_the_logarithm(fit):
    low, high = fit.derived["half_life"].interval()
    assert low * high == pytest.approx(fit.derived["half_life"].value ** 2, rel=1e-10)


def test_interval_of_other_formulas_is_symmetric(fit):
    low, high = fit.derived["difference"].interval()
    assert 0.5 * (low + high) == pytest.approx(fit.derived["difference"].value, rel=1e-10)


def test_a_formula_of_one_logarithm_has_its_interval():
    fit = pf.fit(problem_with({"same": "cl"}))
    assert fit.derived["same"].interval(0.9) == pytest.approx(fit.intervals(0.9)["cl"], rel=1e-8)


def test_profile_of_a_derived_quantity_is_that_of_its_formula(fit):
    by_name, by_formula = fit.profile("half_life"), fit.profile("log(2)*v/cl")
    assert by_name.interval() == pytest.approx(by_formula.interval(), rel=1e-6)
    assert (by_name.name, by_name.unit) == ("half_life", "h")


def test_tables_show_the_interval_by_profile(fit):
    name = next(name for name, one in fit.derived.items() if not one.fixed)
    low, high = fit.profile(name).interval()
    assert fit.derived_profiles[name].interval() == pytest.approx((low, high), rel=1e-3)
    lines = str(fit).splitlines()
    below = lines[next(k for k, line in enumerate(lines) if line.startswith(name)) + 1]
    assert below.split() == [
        "by",
        "profile",
        *(f"{end:.5g}" for end in fit.derived_profiles[name].interval()),
    ]
    record = derived_record(fit)[name]
    assert record["profile_95"] == fit.derived_profiles[name].interval(0.95)
    assert "profile_99" not in derived_record(fit, 0.99)[name]  # the profiles are followed to 95 %


def test_many_quantities_are_not_profiled(fit):
    assert derived_profiles(fit, TableProfiles(most=0)) == {}
    assert derived_profiles(fit, TableProfiles(numbers=1)) == {}


def test_local_parameters_give_one_value_for_each_experiment(local_fit):
    p = local_fit.parameters
    for name in ("s0", "s1"):
        expected = np.log(2) * p[f"v[{name}]"] / p["cl"]
        assert local_fit.derived[f"half_life[{name}]"].value == pytest.approx(expected, rel=1e-12)
    assert "difference" in local_fit.derived


def test_error_of_a_local_quantity_uses_the_parameters_of_its_experiment(local_fit):
    labels, p = local_fit.covariance_labels, local_fit.parameters
    slope = np.zeros(len(labels))
    slope[labels.index("v[s1]")] = np.log(2) / p["cl"]
    slope[labels.index("cl")] = -np.log(2) * p["v[s1]"] / p["cl"] ** 2
    expected = np.sqrt(slope @ local_fit.covariance @ slope)
    assert local_fit.derived["half_life[s1]"].standard_error == pytest.approx(expected, rel=1e-8)


def test_formula_of_two_experiments_uses_both():
    fit = pf.fit(problem_with({"ratio": "v[s1]/v[s0]"}, local=True))
    block = [fit.covariance_labels.index(f"v[{name}]") for name in ("s1", "s0")]
    below, above = fit.parameters["v[s0]"], fit.parameters["v[s1]"]
    slope = np.array([1 / below, -above / below**2])
    expected = np.sqrt(slope @ fit.covariance[np.ix_(block, block)] @ slope)
    assert fit.derived["ratio"].standard_error == pytest.approx(expected, rel=1e-8)


def test_estimated_initial_states_enter_with_their_errors():
    times = np.linspace(0, 3, 12)
    data = 2 * np.exp(-0.7 * times) + 0.05 * np.random.default_rng(0).standard_normal(12)
    runs = [pf.Experiment(times, {"x": scale * data}, name=f"r{k}") for k, scale in enumerate((1.0, 2.0))]
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), runs, {"k": (0, 5)}, derived={"area": "x(0)/k"}))
    labels = fit.covariance_labels
    x, k = fit.initial_states["r1"]["x"], fit.parameters["k"]
    slope = np.zeros(len(labels))
    slope[labels.index("x(0)[r1]")], slope[labels.index("k")] = 1 / k, -x / k**2
    found = fit.derived["area[r1]"]
    assert found.value == pytest.approx(x / k, rel=1e-10)
    assert found.standard_error == pytest.approx(np.sqrt(slope @ fit.covariance @ slope), rel=1e-8)


def test_covariates_give_one_value_for_each_experiment():
    model = pf.Model("x' = -cl/w*x", covariates=["w"])
    times = np.linspace(0, 2, 8)
    runs = [
        pf.Experiment(times, {"x": np.exp(-0.5 / w * times)}, name=f"s{w:g}", covariates={"w": w})
        for w in (1.0, 2.0)
    ]
    fit = pf.fit(pf.Problem(model, runs, {"cl": (0, 5)}, {"x": 1.0}, derived={"rate": "cl/w"}))
    assert [fit.derived[f"rate[s{w}]"].value for w in (1, 2)] == pytest.approx([0.5, 0.25], rel=1e-6)


def test_product_is_determined_where_its_factors_are_not():
    times = np.linspace(0, 3, 12)
    data = np.exp(-0.7 * times) + 0.01 * np.random.default_rng(0).standard_normal(12)
    problem = pf.Problem(
        pf.Model("x' = -k*a*x"),
        pf.Experiment(times, {"x": data}),
        {"k": (0.01, 5), "a": (0.01, 5)},
        {"x": 1.0},
        derived={"rate": "k*a", "quotient": "k/a"},
    )
    fit = pf.fit(problem)
    assert fit.derived["rate"].standard_error < 0.02
    assert fit.derived["quotient"].standard_error == np.inf
    assert fit.derived["quotient"].interval() == (-np.inf, np.inf)


def test_formulas_of_fixed_parameters_have_no_error():
    fit = pf.fit(problem_with({"twice": "2*ka"}, ka=1.5))
    assert (fit.derived["twice"].value, fit.derived["twice"].fixed) == (3.0, True)


def test_unknowns_at_a_bound_are_told():
    fit = pf.fit(problem_with({"ratio": "ka/cl"}, ka=pf.Parameter(2.5, 10, log=True)))
    assert fit.derived["ratio"].at_bound == ("ka",)


def test_tables_json_and_saved_fits_hold_derived_quantities(fit, tmp_path):
    path = fit.save(tmp_path / "fit.json")
    again = pf.load(path)
    assert again.derived["half_life"] == fit.derived["half_life"]
    assert json.loads(path.read_text())["derived"]["half_life"]["unit"] == "h"
    assert "half_life" in str(fit)
    assert "half_life" in fit._repr_html_()
    assert "half_life" in fit.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "pf.Derived(formula='log(2)/ke', unit='h')" in program(fit)


@pytest.mark.parametrize(
    ("derived", "code", "subject"),
    [
        ({"ka": "2*v"}, "problem.derived_clash", "ka"),
        ({"c": "2*v"}, "problem.derived_clash", "c"),
        ({"half life": "2*v"}, "problem.derived_name", "half life"),
        ({"sin": "2*v"}, "problem.derived_name", "sin"),
        ({"h": "2*vv"}, "problem.derived_unknown", "vv"),
        ({"h": "2*c"}, "problem.derived_state", "c"),
        ({"h": "2*(v"}, "formulas.missing_at_end", ""),
        ({"h": 3}, "model.not_derived", "h"),
        ({"a1": "b1", "b1": "a1 + 1"}, "problem.derived_circle", "a1"),
        ("log(2)/ka", "errors.not_a_mapping", "derived"),
    ],
)
def test_wrong_quantities_are_refused(derived, code, subject):
    with pytest.raises(pf.InputError) as caught:
        problem_with(derived)
    if code.startswith("formulas"):
        assert caught.value.place.key == ("derived", "h")
    else:
        assert (caught.value.code, caught.value.subject) == (code, subject)


def test_local_quantity_needs_its_experiment_in_a_profile(local_fit):
    with pytest.raises(pf.InputError) as caught:
        local_fit.profile("half_life")
    assert (caught.value.code, caught.value.subject) == ("problem.quantity_local", "half_life")


TOML = """equations = "x' = -k*x"
data = "data.csv"
[parameters]
k = [0.01, 5]
[derived]
"""


def read(tmp_path, derived):
    (tmp_path / "data.csv").write_text("t,x\n0,2\n1,1\n2,0.6\n")
    (tmp_path / "problem.toml").write_text(TOML + derived)
    return pf.read_problem(tmp_path)


def test_problem_files_have_derived_quantities(tmp_path):
    text = 'half_life = { formula = "log(2)/k", unit = "h" }\nrate = "60*k"\n'
    assert read(tmp_path, text).derived == {
        "half_life": pf.Derived("log(2)/k", "h"),
        "rate": pf.Derived("60*k"),
    }


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ('h = "2*kk"\n', "problem.derived_unknown", 6),
        ('h = { unit = "h" }\n', "files.derived_without_formula", 6),
        ("h = 3\n", "model.derived_not_text", 6),
        ('h = { formula = "k", units = "h" }\n', "files.unknown_key", 6),
    ],
)
def test_faults_of_problem_files_have_their_line(tmp_path, text, code, line):
    with pytest.raises(pf.InputError) as caught:
        read(tmp_path, text)
    (fault,) = caught.value.faults
    assert (fault.code, fault.place.line) == (code, line)


def test_all_of_them_are_a_table(fit):
    header, *rows = str(fit.derived).splitlines()
    assert header.split()[0] == "estimate"
    assert [row.split()[0] for row in rows] == list(fit.derived)
    assert "half_life" in fit.derived._repr_html_()
