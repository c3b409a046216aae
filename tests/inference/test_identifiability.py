"""Verdicts and combinations of fits whose determined combinations are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.display.verdicts import percent
from picardfit.inference.combinations import power_text, reduced, simplified, sum_text

TIMES = np.linspace(0, 10, 41)
LOTKA = pf.Model("prey' = r*prey - b*prey*pred; pred' = d*prey*pred - c*pred")


def measured(model, truth, initial, times, sd, observables, seed=0) -> pf.Experiment:
    run, rng = pf.simulate(model, truth, initial, times), np.random.default_rng(seed)
    return pf.Experiment(
        times, {n: run.observables[n] + sd * rng.standard_normal(len(times)) for n in observables}
    )


@pytest.fixture(scope="module")
def prey_only() -> pf.Identifiability:
    truth = {"r": 1.0, "b": 0.4, "d": 0.3, "c": 0.9}
    data = measured(LOTKA, truth, {"prey": 2.0, "pred": 1.0}, TIMES, 0.05, ["prey"])
    return pf.fit(pf.Problem(LOTKA, data)).identifiability()


def test_prey_only_leaves_the_scale_of_predators_free(prey_only):
    assert {n for n, v in prey_only.verdicts.items() if v.kind == "not determined"} == {"b", "pred(0)"}
    assert np.isinf(prey_only.verdicts["b"].error)
    assert [c.text for c in prey_only.undetermined] == ["pred(0)/b"]
    assert not prey_only.identifiable


def test_prey_only_determines_the_product(prey_only):
    product = next(c for c in prey_only.determined if set(c.names) == {"b", "pred(0)"})
    assert product.text == "pred(0)*b"
    assert product.power
    assert 0.001 < product.error < 0.2


def test_the_error_of_the_product_is_that_of_the_model_with_the_product_as_parameter(prey_only):
    """With p = b*pred the equation p' = d*prey*p - c*p has p(0) in the place of the product, and one unknown less."""
    model = pf.Model("prey' = r*prey - prey*p; p' = d*prey*p - c*p")
    data = measured(
        LOTKA, {"r": 1.0, "b": 0.4, "d": 0.3, "c": 0.9}, {"prey": 2.0, "pred": 1.0}, TIMES, 0.05, ["prey"]
    )
    fit = pf.fit(pf.Problem(model, data))
    expected = fit.standard_errors["p(0)"] / fit.initial_states["experiment 1"]["p"] * np.sqrt(36 / 35)
    product = next(c for c in prey_only.determined if set(c.names) == {"b", "pred(0)"})
    assert product.error == pytest.approx(expected, rel=1e-5)


def test_relative_errors_are_the_standard_errors(prey_only):
    truth = {"r": 1.0, "b": 0.4, "d": 0.3, "c": 0.9}
    data = measured(LOTKA, truth, {"prey": 2.0, "pred": 1.0}, TIMES, 0.05, ["prey", "pred"])
    fit = pf.fit(pf.Problem(LOTKA, data, {"b": pf.Parameter(0.01, 5, log=True)}))
    found = fit.identifiability()
    for name in truth:
        assert found.verdicts[name].error == pytest.approx(
            fit.standard_errors[name] / fit.parameters[name], rel=1e-6
        )
        assert found.verdicts[name].kind == "determined"
    assert found.identifiable


def test_parameters_of_any_sign_have_sums():
    model = pf.Model("x' = -(a + b)*x")
    data = measured(model, {"a": 0.3, "b": 0.4}, {"x": 1.0}, np.linspace(0, 3, 20), 0.02, ["x"])
    found = pf.fit(pf.Problem(model, data, {"a": (-2, 2), "b": (-2, 2)})).identifiability()
    assert [c.text for c in found.undetermined] == ["a - b"]
    assert [c.text for c in found.determined] == ["a + b"]


def test_both_optima_of_a_squared_parameter_are_told():
    """The paper's theta1 = (rho - 1)^2: rho = 0 and rho = 2."""
    model = pf.Model("x' = y; y' = (rho - 1)^2*(1 - x^2)*y - k*x")
    data = measured(model, {"rho": 2.0, "k": 1.0}, {"x": 1.0, "y": 1.0}, TIMES, 0.1, ["x", "y"])
    fit = pf.fit(pf.Problem(model, data, {"rho": (-1, 3.2), "k": (0.1, 5)}), starts=8)
    found = fit.identifiability()
    assert found.verdicts["rho"].kind == "determined"
    assert len(found.alternatives) == 1
    assert fit.parameters["rho"] + found.alternatives[0]["rho"] == pytest.approx(2, abs=1e-6)
    assert "fits as well" in found.verdicts["rho"].sentence
    assert "fits as well" not in found.verdicts["k"].sentence


def test_a_worse_optimum_is_no_alternative():
    model = pf.Model("x' = -k*x")
    data = measured(model, {"k": 0.7}, {"x": 2.0}, np.linspace(0, 3, 20), 0.02, ["x"])
    fit = pf.fit(pf.Problem(model, data))
    other = replace(fit.searches[0], start=1, cluster=1, parameters={"k": 3.0}, loss=2 * fit.loss)
    assert replace(fit, searches=(*fit.searches, other)).identifiability().alternatives == ()
    equal = replace(other, loss=fit.loss)
    assert len(replace(fit, searches=(*fit.searches, equal)).identifiability().alternatives) == 1


@pytest.fixture(scope="module")
def tumor() -> pf.Identifiability:
    return pf.fit(pf.examples.tumor.generate(inputs=(1, 2, 3))).identifiability()


def test_the_tumor_model_does_not_show_theta5_and_rho(tumor):
    assert {n for n, v in tumor.verdicts.items() if v.kind == "not determined"} >= {"theta5", "rho"}
    assert tumor.verdicts["theta1"].kind == "determined"
    assert {n for c in tumor.undetermined for n in c.names} >= {"theta5", "rho"}


def test_an_estimate_at_a_bound_is_judged_by_the_data(tumor):
    sentence = tumor.verdicts["theta5"].sentence
    assert "lies at a bound" in sentence
    assert sentence.startswith("theta5: not determined by these data")


def test_a_and_b_of_two_ponds_are_tied_together():
    """The paper: a = 3.65, b = 0.83 fit as well as the truth, a = 2.8, b = 0.7."""
    fit = pf.fit(pf.examples.rosenzweig_macarthur.generate(ponds=2, bounds=(0.1, 5)))
    found = fit.identifiability()
    assert {found.verdicts[n].kind for n in "ab"} == {"weakly"}
    pair = next(c for c in found.determined if set(c.names) == {"a", "b"})
    assert pair.weights["a"] * pair.weights["b"] < 0
    assert pair.error < 0.5 * found.verdicts["a"].error


@pytest.mark.parametrize("seed", [0, 1])
def test_a_and_b_of_the_paper_s_four_ponds_are_tied_together(seed):
    found = pf.fit(pf.examples.rosenzweig_macarthur.generate(seed=seed)).identifiability()
    pair = next(c for c in found.determined if set(c.names) == {"a", "b"})
    assert pair.error <= 0.5 * min(found.verdicts[n].error for n in "ab")


def test_directions_name_what_they_move_and_nothing_else():
    """A faint part of a direction is told if it moves its unknown by 100 %, else it is left out."""
    tumor = pf.fit(pf.examples.tumor.generate(seed=1)).identifiability()
    lost = {name for name, one in tumor.verdicts.items() if one.kind == "not determined"}
    assert lost == {"theta5", "rho", "theta6"} == {n for c in tumor.undetermined for n in c.names}
    ponds = pf.examples.rosenzweig_macarthur
    pond = pf.fit(ponds.generate(seed=1, ponds=1, bounds=ponds.IMPLIED_BOUNDS)).identifiability()
    assert [set(c.names) for c in pond.undetermined] == [{"K", "a", "b"}]


def test_the_table_says_the_same():
    ponds = pf.examples.rosenzweig_macarthur
    fit = pf.fit(ponds.generate(seed=1, ponds=1, bounds=ponds.IMPLIED_BOUNDS))
    verdicts = fit.identifiability().verdicts
    lost = {name for name, one in verdicts.items() if one.kind == "not determined"}
    told = {
        line.split()[0] for line in str(fit).splitlines() if line.endswith("not determined by these data")
    }
    assert told == lost == {"K", "a", "b"}


def test_narrow_bounds_say_more_than_the_data():
    model = pf.Model("x' = -k*x")
    data = measured(model, {"k": 0.7}, {"x": 2.0}, np.linspace(0, 3, 20), 0.2, ["x"])
    found = pf.fit(pf.Problem(model, data, {"k": (0.69, 0.71)})).identifiability()
    assert found.verdicts["k"].kind == "not determined"
    assert "within its bounds" in found.verdicts["k"].sentence


def test_a_value_near_zero_is_judged_by_the_width_of_its_bounds():
    model = pf.Model("x' = -k*x + a")
    data = measured(model, {"k": 0.7, "a": 0.0}, {"x": 2.0}, np.linspace(0, 9, 40), 0.01, ["x"])
    found = pf.fit(pf.Problem(model, data, {"a": (-1, 1)})).identifiability()
    assert found.verdicts["a"].kind == "determined"
    assert "%" not in found.verdicts["a"].sentence


def test_as_many_unknowns_as_measurements_leave_no_noise_to_judge_by():
    data = pf.Experiment([0, 1], {"x": [2.0, 1.0]})
    found = pf.fit(pf.Problem(pf.Model("x' = -k*x"), data)).identifiability()
    assert np.isnan(found.verdicts["k"].error)
    assert "no measurement is left" in str(found)


def test_a_fit_without_solution_is_not_judged():
    data = pf.Experiment([0, 1, 2], {"x": [2.0, 1.0, 0.5]})
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), data))
    assert complaint(lambda: replace(fit, solution=None).identifiability()).code == "inference.no_solution"


def test_the_picture_has_a_bar_for_each_unknown(tumor):
    panel = tumor.plot().axes[0]
    assert len(panel.patches) == len(tumor.verdicts)


# words


@pytest.mark.parametrize(
    "exponents, text",
    [
        ({"a": 1, "b": 1}, "a*b"),
        ({"a": 1, "b": -1}, "a/b"),
        ({"a": 2, "b": -1, "c": -1}, "a^2/(b*c)"),
        ({"a": -1}, "1/a"),
        ({"a": 1, "b": -0.5}, "a/b^(1/2)"),
        ({"a": 1, "b": 0.73}, "a*b^0.73"),
    ],
)
def test_powers_are_written_as_products(exponents, text):
    assert power_text(exponents) == text


def test_sums_are_written_with_signs():
    assert sum_text({"a": 1, "b": -2, "c": 0.5}) == "a - 2*b + 1/2*c"


def test_errors_are_written_in_percent():
    assert [percent(e) for e in (0.994, 0.9951, 0.9999, 1.0)] == ["± 99 %", *["± 100 %"] * 3]
    assert [percent(e) for e in (0.0234, 0.5, 2.55, 40, np.inf)] == [
        "± 2.3 %",
        "± 50 %",
        "± 255 %",
        "± over 1000 %",
        "± any amount",
    ]


def test_simple_numbers_are_recognised():
    np.testing.assert_array_equal(simplified(np.array([0.301, -0.599])), [1, -2])
    assert simplified(np.array([1.0, 0.61803]), 1e-3) is None


def test_reduced_rows_span_the_same_space():
    rows = np.random.default_rng(0).standard_normal((2, 5))
    echelon = reduced(rows)
    assert np.linalg.matrix_rank(np.concatenate([rows, echelon])) == 2
    assert (np.isclose(echelon, 1).any(axis=1)).all()


# many experiments


def decays(count: int, observables: dict | None = None) -> pf.Fit:
    """x' = -k*x with a rate and an initial state in every experiment."""
    model = pf.Model("x' = -k*x", observables=observables)
    times, rng, runs = np.linspace(0, 3, 8), np.random.default_rng(0), []
    for e in range(count):
        rate = float(rng.uniform(0.5, 1.5))
        data = 2 * np.exp(-rate * times) + 0.02 * rng.standard_normal(len(times))
        runs.append(pf.Experiment(times, {model.observables[0]: data}, f"run {e}"))
    return pf.fit(pf.Problem(model, runs, {"k": pf.Parameter(0.01, 9, local=True)}, {"x": (0.1, 9)}))


def test_verdicts_of_very_many_unknowns_are_those_of_each():
    fit = decays(160)
    found = fit.identifiability()
    assert len(found.verdicts) == 320
    for name in ("k[run 0]", "k[run 159]"):
        expected = fit.standard_errors[name] / fit.parameters[name]
        assert found.verdicts[name].error == pytest.approx(expected, rel=1e-9)
    assert found.identifiable


def test_a_shared_factor_leaves_very_many_initial_states_open():
    """Of s and x(0) only the products are felt: one direction through all experiments."""
    found = decays(160, {"y": "s*x"}).identifiability()
    kinds = {name: verdict.kind for name, verdict in found.verdicts.items()}
    assert kinds["s"] == kinds["x(0)[run 0]"] == kinds["x(0)[run 159]"] == "not determined"
    assert np.isinf(found.verdicts["x(0)[run 159]"].error)
    assert kinds["k[run 159]"] == "determined"
    assert {c.text for c in found.undetermined} >= {"s", "x(0)[run 0]"}
    assert any(c.text == "x(0)[run 0]*s" for c in found.determined)


@pytest.mark.parametrize("upper", [5.0, 200.0, 1e6])
def test_wide_bounds_do_not_determine_an_initial_state(upper):
    """Its error is measured by what the states are like, not by the bounds."""
    model = pf.Model("a' = -k*a + 0.02*b; b' = -0.5*b", observables=["a"])
    data = measured(model, {"k": 1.0}, {"a": 1.0, "b": 0.8}, np.linspace(0, 5, 20), 0.02, ["a"])
    problem = pf.Problem(model, data, {"k": (0.1, 10)}, initial={"a": (0, 10), "b": (0, upper)})
    assert pf.fit(problem).identifiability().verdicts["b(0)"].kind == "not determined"


@pytest.mark.parametrize("upper", [5.0, 1e6])
def test_an_initial_state_that_is_known_to_be_zero_is_determined(upper):
    model = pf.Model("a' = -k*a + b; b' = -0.5*b", observables=["a"])
    data = measured(model, {"k": 1.0}, {"a": 1.0, "b": 0.0}, np.linspace(0, 5, 20), 1e-3, ["a"])
    problem = pf.Problem(model, data, {"k": (0.1, 10)}, initial={"a": (0, 10), "b": (0, upper)})
    assert pf.fit(problem).identifiability().verdicts["b(0)"].kind == "determined"
