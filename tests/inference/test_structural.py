"""The structural test against models whose identifiable combinations are known."""

from __future__ import annotations

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint, record
from picardfit.evidence.expected_information import expected
from picardfit.problem.named_values import unknowns_from

TIMES = np.linspace(0, 10, 21)
LOTKA = pf.Model("prey' = r*prey - b*prey*pred; pred' = d*prey*pred - c*pred")
COMPARTMENTS = pf.Model("x' = -(k10 + k12)*x + k21*z; z' = k12*x - (k21 + k20)*z", observables={"y": "x/V"})


def combinations(found: pf.Structure) -> set[str]:
    return {c.text for group in found.groups for c in group.determined}


def test_prey_alone_shows_the_product_of_predators_and_their_appetite():
    found = pf.structural(LOTKA, pf.plan(TIMES, ["prey"]))
    assert found.rank == 5
    assert {n for n, v in found.verdicts.items() if v == "not identifiable"} == {"pred(0)", "b"}
    assert combinations(found) == {"pred(0)*b"}
    assert found.gap > 1e6
    assert found.agreeing == 5


def test_prey_and_predators_show_everything():
    found = pf.structural(LOTKA, pf.plan(TIMES, ["prey", "pred"]))
    assert found.identifiable
    assert found.groups == ()
    assert "locally identifiable" in str(found)


def test_a_known_predator_resolves_the_product():
    assert pf.structural(LOTKA, pf.plan(TIMES, ["prey"], initial={"pred": 1.0})).identifiable


def test_a_squared_parameter_is_locally_identifiable():
    """The paper's theta1 = (rho - 1)^2."""
    model = pf.Model("x' = y; y' = (rho - 1)^2*(1 - x^2)*y - k*x")
    assert pf.structural(model, pf.plan(TIMES, ["x", "y"]), parameters={"rho": (-1, 3)}).identifiable


@pytest.mark.parametrize(
    "equations, observables, known",
    [
        ("x' = -a*b*x", None, {"a*b"}),
        ("x' = -(a + b)*x", None, {"a + b"}),
        ("x' = -(a - 2*b)*x", None, {"a - 2*b"}),
        ("x' = -a*b^2*x", None, {"a*b^2"}),
        ("x' = -k*x - a*x^2", {"y": "s*x"}, {"x(0)*s", "a/s"}),
    ],
)
def test_determined_combinations_are_named(equations, observables, known):
    model = pf.Model(equations, observables)
    assert combinations(pf.structural(model, pf.plan(TIMES, model.observables))) == known


def test_two_leaking_compartments_show_two_sums_and_a_product():
    """A textbook case: a bolus into the first, which is measured up to its volume."""
    found = pf.structural(COMPARTMENTS, pf.plan(TIMES, ["y"], initial={"x": 1.0, "z": 0.0}))
    assert found.verdicts["V"] == "locally identifiable"
    assert combinations(found) == {"k12*k21", "k10 + k12", "k21 + k20"}


def test_one_combination_is_singular():
    found = pf.structural(pf.Model("x' = -a*b*x"), pf.plan(TIMES, ["x"], initial={"x": 1.0}))
    assert "Of 2 unknowns only 1 combination can be determined." in str(found)


def test_memory_grows_in_proportion_to_the_rows():
    """A square U of this many rows would take 700 GB."""
    found = pf.structural(
        pf.Model("x' = -a*b*x"), pf.plan(np.linspace(0, 10, 300_000), ["x"]), points=1, seed=0
    )
    assert found.rank == found.sampled_rank == 2


def test_what_does_not_act_is_said():
    found = pf.structural(pf.Model("x' = -a*x; z' = -b*z"), pf.plan(TIMES, ["x"]))
    assert [str(g) for g in found.groups] == [f"{n}: does not affect what is measured" for n in ("z(0)", "b")]


def test_a_second_input_resolves_a_pair():
    """With one level of u only a + b*u is seen."""
    model = pf.Model("x' = -(a + b*u)*x", inputs=["u"])
    plans = [pf.plan(TIMES, ["x"], f"level {u}", inputs={"u": u}) for u in (1.0, 2.0)]
    assert combinations(pf.structural(model, plans[:1])) == {"a + b"}
    assert pf.structural(model, plans).identifiable


def test_too_few_times_are_told_from_structure():
    found = pf.structural(pf.Model("x' = a - b*x"), pf.plan([0, 1], ["x"]))
    assert (found.rank, found.sampled_rank) == (3, 2)
    assert "too few" in str(found)


def test_the_tumor_model_is_structurally_identifiable_with_one_dosing():
    found = pf.structural(pf.examples.tumor.generate(inputs=(1,)), points=3)
    assert found.identifiable
    assert found.gap > 1e3


def test_a_function_with_decisions_has_coarser_derivatives_and_the_same_rank():
    def slopes(t, x, p):
        rate = p[0] * p[1] if x[0] > -1 else 0.0
        return [-rate * x[0]]

    model = pf.Model.from_function(slopes, ["x"], ["a", "b"])
    assert combinations(pf.structural(model, pf.plan(np.linspace(0, 3, 7), ["x"]))) == {"a*b"}


def test_equal_seeds_give_equal_answers():
    first, again = (pf.structural(LOTKA, pf.plan(TIMES, ["prey"]), seed=3) for _ in range(2))
    assert first == again


def test_derivatives_are_exact():
    """x = x0 exp(-k t), at any values and without data."""
    problem = pf.Problem(pf.Model("x' = -k*x"), pf.plan(TIMES, ["x"]))
    found = expected(problem, unknowns_from(problem, {"k": 0.7}, {"x": 2.0})).jacobian[:, 0]
    decay = np.exp(-0.7 * TIMES)
    np.testing.assert_allclose(found, np.stack([decay, -2 * TIMES * decay], axis=1), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    "name", ["van_der_pol", "rosenzweig_macarthur", "tumor", "lorenz", "fitzhugh_nagumo"]
)
def test_derivatives_do_not_depend_on_the_mesh(name):
    problem = getattr(pf.examples, name).generate()
    unknowns = unknowns_from(problem, problem.truth["parameters"], problem.truth["initial"])
    coarse, fine = (expected(problem, unknowns, nodes).jacobian for nodes in (9, 11))
    size = np.abs(fine).max(axis=(0, 1))
    np.testing.assert_allclose(coarse / size, fine / size, atol=1e-8)


def test_no_solution_has_no_derivatives():
    problem = pf.Problem(pf.Model("x' = k*x^2"), pf.plan([0, 1, 5], ["x"]))
    assert expected(problem, unknowns_from(problem, {"k": 1.0}, {"x": 1.0})) is None


@pytest.mark.parametrize(
    "call, code, subject",
    [
        (lambda: pf.structural(LOTKA), "inference.plans_missing", ""),
        (lambda: pf.structural(LOTKA, []), "inference.plans_empty", ""),
        (lambda: pf.structural("x' = 1"), "inference.structural_of", ""),
        (
            lambda: pf.structural(pf.Problem(LOTKA, pf.plan(TIMES, ["prey"])), pf.plan(TIMES, ["prey"])),
            "inference.plans_with_problem",
            "",
        ),
        (lambda: pf.structural(LOTKA, pf.plan(TIMES, ["prey"]), points=0), "errors.not_whole", "points"),
        (lambda: pf.structural(LOTKA, pf.plan(TIMES, ["prey"]), seed=-1), "errors.not_whole", "seed"),
        (lambda: pf.structural(pf.Model("x' = k*x"), [0, 1, 2]), "inference.plans_are_numbers", ""),
        (
            lambda: pf.structural(
                pf.Model("x' = k*x^2"),
                pf.plan([0, 100], ["x"]),
                parameters={"k": (1, 2)},
                initial={"x": (1, 2)},
            ),
            "inference.no_random_solution",
            "",
        ),
    ],
)
def test_bad_input_names_the_culprit(call, code, subject):
    error = complaint(lambda: call())
    assert (error.code, error.subject) == (code, subject)


# plans


def test_a_plan_has_times_and_no_data():
    plan = pf.plan([2, 0, 1], ["prey"], "next")
    np.testing.assert_array_equal(plan.times, [0, 1, 2])
    assert np.isnan(plan.values).all()
    assert plan.sampled.all()
    assert "planned" in repr(plan)


def test_observables_of_a_plan_may_have_their_own_times():
    plan = pf.plan(None, {"prey": [0, 1], "pred": [1, 2]})
    np.testing.assert_array_equal(plan.sampled, [[True, False], [True, True], [False, True]])


def test_a_plan_cannot_be_fitted():
    assert record(complaint(lambda: pf.fit(pf.Problem(LOTKA, pf.plan(TIMES, ["prey"], "next"))))) == (
        "fit.planned",
        "next",
        ("experiments", "next"),
    )


@pytest.mark.parametrize(
    "arguments, code, subject",
    [
        (([0, 1], "prey"), "problem.plan_text", ""),
        (([], ["prey"]), "problem.plan_empty", ""),
        (([0, 1], []), "problem.plan_empty", ""),
        ((None, {"prey": []}), "problem.plan_no_times", ""),
        (([0, np.nan], ["prey"]), "model.entry_not_finite", "times"),
    ],
)
def test_a_plan_without_sense_is_refused(arguments, code, subject):
    error = complaint(lambda: pf.plan(*arguments))
    assert (error.code, error.subject) == (code, subject)


def test_values_and_a_plan_exclude_each_other():
    assert record(complaint(lambda: pf.Experiment([0, 1], {"x": [1, 2]}, planned=[[True], [True]]))) == (
        "problem.plan_has_values",
        "x",
        (),
    )


def test_what_comes_from_a_rest_is_not_an_unknown():
    """At rest x = a/b: one sample there shows the quotient, the way to another rest shows both."""
    model = pf.Model("x' = a*u - b*x", inputs=["u"])
    rest = pf.Rest(inputs={"u": 1.0}, initial={"x": 0.0})
    still = pf.Experiment([0.0], {"x": [2.0]}, inputs={"u": 1.0}, t0=0.0, rest=rest)
    found = pf.structural(pf.Problem(model, still))
    assert found.unknowns == ("a", "b")
    assert found.rank == 1
    assert combinations(found) == {"a/b"}
    moving = pf.Experiment(TIMES, {"x": np.ones(21)}, inputs={"u": 2.0}, t0=0.0, rest=rest)
    assert pf.structural(pf.Problem(model, moving)).identifiable


@pytest.mark.parametrize("noise", [pf.Binomial(trials="tested"), {"p": pf.Binomial(trials="tested")}])
def test_a_column_of_trials_is_no_matter_of_structure(noise):
    model = pf.Model("x' = -k*x", observables={"p": "s*x"})
    run = pf.Experiment([1, 2, 3, 4], {"p": [20, 14, 8, 5], "tested": [30, 30, 25, 30]})
    bounds = {"k": (0.01, 3), "s": (0.1, 1)}
    found = pf.structural(pf.Problem(model, run, bounds, {"x": (0.1, 1)}, noise=noise))
    assert (found.rank, found.sampled_rank, found.groups[0].names) == (2, 2, ("x(0)", "s"))


BATEMAN = pf.Model("a' = -k1*a; b' = k1*a - k2*b", observables={"y": "b"})


def bateman(**options):
    """A metabolite that begins at zero, where a logarithm has no value."""
    times = np.linspace(0.5, 8, 8)
    data = pf.Experiment(times, {"y": np.exp(-0.3 * times) - np.exp(-2 * times)})
    bounds = {"k1": (0.01, 10), "k2": (0.01, 10)}
    return pf.Problem(BATEMAN, data, bounds, {"a": (0.1, 10), "b": 0.0}, **options)


@pytest.mark.parametrize("noise", [pf.LogNormal(0.1), pf.LogNormal((0.01, 1)), pf.Noise(proportional=0.1)])
def test_the_noise_model_does_not_change_the_structure(noise):
    found = pf.structural(bateman(noise=noise))
    assert found.unknowns == ("a(0)", "k1", "k2")
    assert (found.rank, found.agreeing) == (3, 5)


def test_values_near_the_start_are_tried_with_noise_levels_to_estimate():
    """x' = x^2 leaves every bound within the span at nearly all values that the bounds allow."""
    times = np.linspace(0, 1, 9)
    model = pf.Model("x' = k*x^2")
    data = pf.Experiment(times, {"x": 1 / (2 - times)})
    problem = pf.Problem(model, data, {"k": (1, 1e6)}, {"x": (0.1, 1e6)}, noise=pf.LogNormal((0.01, 1)))
    assert pf.structural(problem).rank == 2
