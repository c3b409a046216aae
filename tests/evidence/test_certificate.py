"""The certificate: small numbers for good answers, large ones for wrong or corrupted ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.collocation.point import evaluate
from picardfit.evidence.certificate import certify, misfit, path_value
from picardfit.evidence.fisher import information

LOTKA = pf.Model("x' = a*x - b*x*y; y' = d*x*y - c*y")
TRUTH = {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}
TIMES = np.linspace(0, 10, 21)


def lotka(bounds=None, sd=0.05, seed=0) -> pf.Problem:
    run, rng = pf.simulate(LOTKA, TRUTH, {"x": 2.0, "y": 1.0}, TIMES), np.random.default_rng(seed)
    data = {n: v + sd * rng.standard_normal(len(TIMES)) for n, v in run.observables.items()}
    return pf.Problem(LOTKA, pf.Experiment(TIMES, data), parameters=bounds)


@pytest.fixture(scope="module")
def fit():
    return pf.fit(lotka())


def changed(fit, name, part):
    """The solution with one unknown moved by a part of its value; path and states stay as they were."""
    layout, unknowns = fit.problem.layout, fit.solution.unknowns.copy()
    column = [layout.label(0, c) for c in range(layout.width)].index(name)
    unknowns[:, column] *= 1 + part
    return replace(fit.solution, unknowns=unknowns)


# a good answer


def test_path_is_a_fixed_point(fit):
    assert fit.certificate.picard_residual < 1e-10


def test_path_is_continuous(fit):
    assert fit.certificate.largest_jump <= 1e-9


def test_independent_integration_agrees(fit):
    assert fit.certificate.mismatch < 1e-7
    assert fit.certificate.agrees


def test_losses_are_that_of_the_fit_and_that_of_the_problem(fit):
    again = fit.problem.loss(fit.parameters, fit.initial_states)
    assert (fit.certificate.loss, fit.certificate.reintegrated_loss) == pytest.approx(
        (fit.loss, again), rel=1e-7
    )


def test_no_decrease_is_promised(fit):
    assert fit.certificate.gradient < 1e-12


def test_nothing_is_at_a_bound(fit):
    assert fit.certificate.at_bound == ()


def test_mesh_is_that_of_the_solution(fit):
    mesh = fit.solution.system.mesh
    assert (fit.certificate.segments, fit.certificate.nodes) == (len(mesh.start), len(mesh.rule.nodes))


def test_certifying_again_gives_the_same(fit):
    assert certify(fit.solution) == fit.certificate


def test_data_without_noise_agree_although_the_loss_is_zero():
    certificate = pf.fit(lotka(sd=0.0)).certificate
    assert certificate.loss < 1e-18
    assert certificate.agrees


# corrupted answers


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "x(0)"])
def test_a_parameter_changed_by_one_percent_is_detected(fit, name):
    assert not certify(changed(fit, name, 0.01)).agrees


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_a_changed_parameter_leaves_no_fixed_point(fit, name):
    """The path no longer solves the equations: |u - P u| grows from rounding errors to a part of the change."""
    assert certify(changed(fit, name, 0.01)).picard_residual > 1e-5


def test_a_path_shifted_at_one_knot_is_detected(fit):
    states, path = fit.solution.states.copy(), fit.solution.path.copy()
    states[10:] += 0.01
    path[10:] += 0.01
    shifted = evaluate(fit.solution.system, fit.solution.unknowns, states, path, np.ones(2))
    certificate = certify(replace(fit.solution, states=states, path=shifted.path, jumps=shifted.jumps))
    assert certificate.largest_jump > 1e-3
    assert not certificate.agrees


def held(fit, part):
    """The best exact path with `a` held off its optimum by a part, as a solution of the free problem; and its loss."""
    other = pf.fit(pf.Problem(LOTKA, fit.problem.experiments, {"a": (1 + part) * fit.parameters["a"]}))
    labels = [other.problem.layout.label(0, c) for c in range(other.problem.layout.width)]
    values = dict(zip(labels, other.solution.unknowns[0], strict=True)) | {"a": other.parameters["a"]}
    layout = fit.problem.layout
    unknowns = np.array([[values[layout.label(0, c)] for c in range(layout.width)]])
    system = replace(other.solution.system, problem=fit.problem)
    return replace(other.solution, unknowns=unknowns, system=system), other.loss


def test_an_exact_path_for_wrong_parameters_agrees_with_the_integration(fit):
    assert certify(held(fit, 0.02)[0]).agrees


def test_the_gradient_gives_wrong_parameters_away(fit):
    assert certify(held(fit, 0.02)[0]).gradient > 1e-3


def test_promised_decrease_is_what_the_optimum_delivers(fit):
    """Close to the optimum the loss is quadratic, so half g' H^-1 g is the whole excess."""
    solution, loss = held(fit, 0.002)
    assert certify(solution).gradient == pytest.approx((loss - fit.loss) / loss, rel=0.1)


def test_parameters_where_the_model_explodes_have_an_infinite_loss():
    model = pf.Model("x' = k*x^2")
    fit = pf.fit(pf.Problem(model, pf.Experiment([0, 0.5, 0.9], {"x": [1, 2, 10]}), initial={"x": 1.0}))
    assert certify(changed(fit, "k", 0.5)).reintegrated_loss == np.inf


# bounds


def test_unknowns_at_a_bound_are_named():
    certificate = pf.fit(lotka({"a": (1.2, 3), "c": (0, 5)})).certificate
    assert certificate.at_bound == ("a",)


def test_local_unknowns_at_a_bound_are_named_with_their_experiment():
    times = np.linspace(0, 3, 13)
    runs = [pf.Experiment(times, {"x": 2 * np.exp(-k * times)}, n) for n, k in (("slow", 0.3), ("fast", 1.5))]
    bounds = {"k": pf.Parameter(0.01, 1, local=True)}
    certificate = pf.fit(pf.Problem(pf.Model("x' = -k*x"), runs, bounds, {"x": (0, 1.9)})).certificate
    assert certificate.at_bound == ("x(0)[slow]", "k[fast]")


def test_optimality_counts_only_unknowns_inside_their_bounds():
    """At an active bound the gradient does not vanish, and must not."""
    assert pf.fit(lotka({"a": (1.2, 3)})).certificate.gradient < 1e-10


# the text


def test_text_says_both_losses(fit):
    said = str(fit.certificate)
    assert f"{fit.certificate.loss:.9g}" in said
    assert f"{fit.certificate.reintegrated_loss:.9g}" in said


def test_text_names_what_is_at_a_bound():
    said = str(pf.fit(lotka({"a": (1.2, 3)})).certificate)
    assert [line.split()[-1] for line in said.splitlines() if line.startswith("at a bound")] == ["a"]


def test_path_value_is_half_the_sum_of_squares(fit):
    predicted = fit.predict("experiment 1", TIMES)
    measured = fit.problem.experiments[0].observations
    expected = 0.5 * sum(np.sum((predicted[n] - measured[n]) ** 2) for n in ("x", "y"))
    assert path_value(fit.solution) == pytest.approx(expected, rel=1e-9)


# residuals against the scatter of the samples


def test_residuals_of_a_good_fit_do_not_exceed_the_scatter(fit):
    assert 0 < misfit(fit.solution).excess < 1.5


def test_residuals_of_a_wrong_answer_exceed_the_scatter():
    """Dense data whose noise can be seen, and an answer that misses them."""
    times = np.linspace(0, 10, 201)
    data = np.cos(times) + 0.02 * np.random.default_rng(0).standard_normal(len(times))
    model = pf.Model("x' = -k*x")
    fit = pf.fit(pf.Problem(model, pf.Experiment(times, {"x": data}), parameters={"k": (0.1, 1.0)}))
    assert misfit(fit.solution).excess > 10
    assert "search.above_scatter" in [one.code for one in fit.warnings]


def test_few_samples_show_no_scatter():
    model = pf.Model("x' = -k*x")
    fit = pf.fit(pf.Problem(model, pf.Experiment([0, 1, 2, 3], {"x": [1.0, 0.2, 0.9, 0.1]})))
    assert misfit(fit.solution).excess == 1.0


def test_what_lies_beyond_the_bounds_is_no_promise():
    """Near its bound q is hardly felt: a free step would go far beyond it and promise what is not there."""
    times = np.linspace(0, 3, 20)
    data = 0.9 * np.exp(-times)
    model = pf.Model("x' = -a*x", observables={"y": "x*(1 + 1/q)"})
    problem = pf.Problem(
        model,
        [pf.Experiment(times, {"y": data}, initial={"x": 1.0})],
        {"a": (0.1, 10), "q": pf.Parameter(1, 1e6, log=True)},
    )
    best = pf.fit(problem).solution
    unknowns = best.unknowns.copy()
    unknowns[0, 1] = np.log(1e6) - 1e-3
    solution = replace(best, unknowns=unknowns)
    assert information(solution).promised_decrease() > 1e-2 * path_value(solution)
    assert certify(solution).gradient < 1e-4


def test_many_names_are_cut_short():
    fit = pf.fit(pf.examples.van_der_pol.generate(seed=0, eps=0.01))
    many = replace(fit.certificate, undetermined=tuple(f"y(0)[e{k}]" for k in range(30)))
    assert "y(0)[e11] and 18 more" in str(many)
    assert "e12" not in str(many)


def test_a_fit_that_no_integration_reproduces_is_not_judged():
    good = pf.fit(pf.examples.van_der_pol.generate(seed=0, eps=0.01))
    certificate = replace(good.certificate, mismatch=1e-2, undetermined=None)
    assert not certificate.agrees
    fit = replace(good, status=pf.Status.INACCURATE, certificate=certificate)
    assert "not judged" in str(fit)
    assert complaint(fit.identifiability).code == "inference.not_judged"
