"""Default fits: searches until two agree, the best point wins, and nothing is lost on the way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.display.program import program
from picardfit.search.certifying import certify_outcome
from picardfit.search.searches import QuickIntegration, value_at
from picardfit.search.starts import make_start
from prey import counted_prey
from wells import two_wells

ONE = pf.SearchPolicy(most=1)


def decay(noise: float = 0.02, bounds=(0.05, 5.0), **more) -> pf.Problem:
    times = np.linspace(0, 3, 13)
    data = 2 * np.exp(-0.7 * times) + noise * np.random.default_rng(0).standard_normal(13)
    return pf.Problem(pf.Model("x' = -k*x"), pf.Experiment(times, {"x": data}), {"k": bounds}, **more)


def oral_dose() -> pf.Problem:
    """ka and ke change places without changing the curve if the volume follows: two optima that fit equally well."""
    times = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0])
    ka, ke, v = 1.2, 0.3, 2.0
    curve = 10 / v * ka / (ka - ke) * (np.exp(-ke * times) - np.exp(-ka * times))
    noise = 0.02 * np.random.default_rng(3).standard_normal(len(times))
    experiment = pf.Experiment(times, {"c": curve + noise}, initial={"gut": 10.0, "c": 0.0}, t0=0.0)
    rate = pf.Parameter(0.01, 10, log=True)
    model = pf.Model("gut' = -ka*gut\nc' = ka*gut/v - ke*c", observables=["c"])
    return pf.Problem(model, experiment, {"ka": rate, "ke": rate, "v": pf.Parameter(0.1, 100, log=True)})


def answer(fit: pf.Fit) -> tuple:
    searches = [replace(one, seconds=0.0) for one in fit.searches]
    return fit.status, fit.loss, fit.parameters, fit.initial_states, searches


@pytest.fixture(scope="module")
def agreed() -> pf.Fit:
    return pf.fit(decay())


@pytest.fixture(scope="module")
def doubtful() -> pf.Fit:
    return pf.fit(oral_dose())


def test_a_fit_ends_when_two_searches_agree(agreed):
    assert agreed.success
    assert (agreed.hits, len(agreed.searches)) == (2, 2)
    assert "2 of 2 searches agree on this optimum" in str(agreed)


def test_the_searches_that_agree_began_elsewhere():
    first, second = pf.fit(decay(), pf.LiftedGaussNewton(max_iterations=1)).searches[:2]
    assert abs(first.parameters["k"] - second.parameters["k"]) > 1e-3


def test_two_optima_that_fit_equally_well_are_both_named():
    fit = pf.fit(oral_dose(), starts=8)
    assert fit.success
    assert len(fit.optima) == 2
    assert len(fit.rivals) == 1
    rates = sorted((one.parameters["ka"], one.parameters["ke"]) for one in fit.optima)
    assert rates[0] == pytest.approx(rates[1][::-1], rel=1e-3)


def test_one_search_on_demand():
    fit = pf.fit(decay(), policy=ONE)
    assert (fit.success, len(fit.searches)) == (True, 1)


def test_one_search_that_fails_is_not_followed_by_others():
    fit = pf.fit(decay(), pf.LiftedGaussNewton(max_iterations=1), policy=ONE)
    assert (fit.status, len(fit.searches)) == (pf.Status.ITERATION_LIMIT, 1)


def test_a_limit_of_iterations_is_kept_to():
    fit = pf.fit(decay(), pf.LiftedGaussNewton(max_iterations=2))
    assert fit.status is pf.Status.ITERATION_LIMIT
    assert [one.iterations for one in fit.searches] == [2, 2, 2]


def test_the_algorithms_of_the_paper_search_once():
    fit = pf.fit(decay(), pf.GradientContractive(max_iterations=5))
    assert len(fit.searches) == 1


def test_a_poor_given_start_is_followed_by_one_without_it():
    given = pf.fit(counted_prey(), start={"a": 4.5, "b": 2.4, "c": 0.1, "d": 0.2})
    own = pf.fit(counted_prey(), policy=ONE)
    second = given.searches[1]
    assert second.iterations <= own.searches[0].iterations  # it may end where the first one did
    assert second.loss == pytest.approx(own.loss, rel=1e-3)
    assert given.loss == pytest.approx(own.loss, rel=1e-6)


def test_searches_that_disagree_are_reported():
    policy = pf.SearchPolicy(most=2, rescue=None)
    fits = [pf.fit(two_wells(), policy=policy, seed=seed) for seed in range(6)]
    single = [fit for fit in fits if fit.hits == 1]
    assert single
    for fit in single:
        assert fit.success
        assert fit.warnings[-1].code == "search.disagree"
        assert "1 of 2 found this optimum" in fit.message


def test_searches_from_simulated_candidates_settle_a_disagreement():
    small = pf.Rescue(candidates=32, lanes=8)
    for seed in range(6):
        fit = pf.fit(two_wells(), policy=pf.SearchPolicy(most=2, rescue=small), seed=seed)
        assert fit.hits >= 2
        assert fit.parameters["k"] == pytest.approx(-1.46, abs=0.02)


def test_optima_that_are_equally_low_count_together():
    """ka and ke may swap, so that two searches in different optima have found the lowest loss twice."""
    fits = [pf.fit(oral_dose(), policy=pf.SearchPolicy(most=2), seed=seed) for seed in range(6)]
    both = [fit for fit in fits if fit.hits == 1]
    assert both
    assert all((len(fit.searches), fit.warnings) == (2, ()) for fit in both)


def test_the_same_seed_gives_the_same_searches(doubtful):
    assert answer(pf.fit(oral_dose())) == answer(doubtful)


def test_an_executor_gives_the_same_searches(doubtful):
    with ThreadPoolExecutor(2) as pool:
        assert answer(pf.fit(oral_dose(), executor=pool)) == answer(doubtful)


def test_searches_that_take_turns_end_as_if_alone(doubtful):
    """Short slices change the order in which searches run, not how each of them ends."""
    several = {"agree": 8, "effort": 1e9, "searching": 1e9, "rescue": None}
    turns = pf.fit(oral_dose(), policy=pf.SearchPolicy(slice=2, **several))
    alone = pf.fit(oral_dose(), starts=8)
    ended = {one.start: (one.loss, one.iterations) for one in alone.searches}
    converged = [one for one in turns.searches if one.status.success]
    assert len(converged) >= 2
    assert all((one.loss, one.iterations) == ended[one.start] for one in converged)


def test_a_search_ends_where_another_one_has_found_the_optimum():
    fit, alone = pf.fit(decay()), pf.fit(decay(), starts=2)
    first, second = fit.searches
    assert (first.status, second.status) == (pf.Status.CONVERGED, pf.Status.ARRIVED)
    assert second.iterations < alone.searches[1].iterations
    assert second.parameters["k"] == pytest.approx(first.parameters["k"], abs=0.2 * fit.standard_errors["k"])
    assert fit.parameters == first.parameters


def test_at_a_bound_four_searches_must_agree():
    fit = pf.fit(decay(bounds=(0.05, 0.6)))
    assert fit.status is pf.Status.CONVERGED_AT_BOUND
    assert (fit.hits, len(fit.searches)) == (4, 4)


def test_a_ledger_resumes_a_default_fit(doubtful, tmp_path):
    path = tmp_path / "run.jsonl"
    first = pf.fit(oral_dose(), ledger=path)
    lines = path.read_bytes().splitlines(keepends=True)
    drawn = [
        one for one in first.searches if one.start < pf.SearchPolicy().most
    ]  # not the one at exchanged rates
    assert len(lines) == 1 + sum(one.status is not pf.Status.ARRIVED for one in drawn)
    path.write_bytes(b"".join(lines[:2]))  # as if killed after the first search
    again = pf.fit(oral_dose(), ledger=path)
    assert answer(first) == answer(again) == answer(doubtful)


def test_a_ledger_remembers_that_a_search_had_to_wait(tmp_path):
    path, policy = tmp_path / "run.jsonl", pf.SearchPolicy(slice=3)
    first, again = (pf.fit(oral_dose(), ledger=path, policy=policy) for _ in range(2))
    assert answer(first) == answer(again) == answer(pf.fit(oral_dose(), policy=policy))


def test_an_interrupt_of_the_second_search_leaves_the_first_answer():
    def stop(news):
        if news.start == 1:
            raise KeyboardInterrupt

    fit = pf.fit(decay(), progress=stop)
    assert fit.success
    assert [one.code for one in fit.warnings] == ["search.unconfirmed"]
    assert fit.loss == pytest.approx(pf.fit(decay(), policy=ONE).loss)


def test_an_interrupt_before_the_first_iteration_is_raised(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    method = pf.LiftedGaussNewton()
    monkeypatch.setattr(type(method), "init", stop)
    with pytest.raises(KeyboardInterrupt):
        pf.fit(decay(), method)


def test_a_later_search_that_raises_leaves_the_others(monkeypatch):
    def fragile(problem, given, part=None, matched=True):
        if part is not None and not matched:
            raise ArithmeticError("too fast")
        return make_start(problem, given, part=part, matched=matched)

    monkeypatch.setattr("picardfit.search.searches.make_start", fragile)
    fit = pf.fit(decay())
    failed = [one.status is pf.Status.FAILED for one in fit.searches]
    assert (failed, fit.hits) == ([False, True, False], 2)
    assert fit.success
    assert [one.code for one in fit.warnings] == ["search.broke_down"]


def test_the_result_is_never_worse_than_the_given_start():
    """Searches that stop at once are above a start at the optimum, so the fit continues from the start itself."""
    problem, best = counted_prey(), pf.fit(counted_prey())
    names, initial = best.parameters, best.initial_states["experiment 1"]
    fit = pf.fit(problem, start=names, start_initial=initial)
    assert fit.loss <= problem.loss(names, initial) * (1 + 1e-7)


def test_several_starts_count_the_best_one_among_the_hits():
    fit = pf.fit(decay(), starts=4)
    assert fit.hits >= 1
    assert fit.searches[0].cluster is not None


def relaxation_oscillator() -> pf.Problem:
    """Every guessed path of it fails; simulated candidates find the way."""
    model = pf.Model("x' = y\ny' = mu*(1 - x^2)*y - w^2*x", observables=["x"])
    times = np.linspace(0, 70, 60)
    exact = pf.simulate(model, {"mu": 20.0, "w": 1.0}, {"x": 2.0, "y": 0.0}, times).observables["x"]
    data = np.asarray(exact) + 0.05 * np.random.default_rng(1).standard_normal(len(times))
    bounds = {"mu": pf.Parameter(4, 100, log=True), "w": pf.Parameter(0.2, 5, log=True)}
    return pf.Problem(model, pf.Experiment(times, {"x": data}), bounds)


def test_a_rescue_follows_searches_that_all_fail():
    small = pf.Rescue(candidates=64, lanes=16, patience=8, vain=0.0)
    fit = pf.fit(relaxation_oscillator(), policy=pf.SearchPolicy(failures=1, rescue=small))
    assert fit.loss < 1.1 * 0.5 * 0.05**2
    without = pf.fit(relaxation_oscillator(), policy=pf.SearchPolicy(failures=1, rescue=None))
    assert not without.success


def test_a_rescue_follows_searches_that_only_wait():
    """Searches that work on and on without an end do not hold up the candidates."""
    small, seen = pf.Rescue(candidates=32, lanes=8), []

    def stop(news):
        if news.candidates:
            seen.append(news.loss)
            raise KeyboardInterrupt

    policy = pf.SearchPolicy(slice=4, failing=8, rescue=small)
    fit = pf.fit(relaxation_oscillator(), policy=policy, progress=stop)
    set_aside = [one for one in fit.searches if one.status is pf.Status.SET_ASIDE]
    assert len(seen) == 1
    assert len(set_aside) == 2


def test_an_interrupt_among_the_candidates_leaves_the_best_of_them():
    losses = []

    def stop(news):
        losses.extend([news.loss] if news.candidates else [])
        if len(losses) == 3:
            raise KeyboardInterrupt

    small = pf.Rescue(candidates=32, lanes=8)
    fit = pf.fit(relaxation_oscillator(), policy=pf.SearchPolicy(failures=1, rescue=small), progress=stop)
    assert fit.loss < 1.1 * losses[-1]


def test_the_program_in_a_report_repeats_the_policy(tmp_path):
    fit = pf.fit(decay(), policy=ONE)
    assert "policy=pf.SearchPolicy(most=1)," in program(fit)
    assert pf.load(fit.save(tmp_path / "fit.json")).policy == ONE
    assert "policy" not in program(pf.fit(decay()))


def test_no_rescue_is_saved_as_such(tmp_path):
    fit = pf.fit(decay(), policy=pf.SearchPolicy(rescue=None))
    assert pf.load(fit.save(tmp_path / "fit.json")).policy.rescue is None


def test_an_optimum_that_fails_its_check_is_none(monkeypatch):
    """A search may converge along a path that no integration reproduces: others follow, and their optimum counts."""
    rejected = []

    def certify_once(method, problem, outcome):
        outcome, certificate = certify_outcome(method, problem, outcome)
        if not rejected:
            certificate = replace(certificate, mismatch=1.0)
            rejected.append(outcome)
        return outcome, certificate

    monkeypatch.setattr("picardfit.search.driver.certify_outcome", certify_once)
    fit = pf.fit(decay())
    assert fit.success
    assert len(fit.searches) == 4  # the second had ended where the first one did
    assert fit.hits >= 2


def test_a_given_start_that_explodes_is_no_better_than_what_is_found():
    model = pf.Model("x' = k*x^2 - x")
    times = np.linspace(0, 2, 15)
    exact = np.asarray(pf.simulate(model, {"k": 0.3}, {"x": 1.0}, times).observables["x"])
    problem = pf.Problem(model, pf.Experiment(times, {"x": exact}), {"k": (0.01, 50)})
    fit = pf.fit(problem, start={"k": 40.0})
    assert fit.parameters["k"] == pytest.approx(0.3, rel=1e-6)
    assert value_at(problem, problem.layout.internal(np.array([[1.0, 40.0]])), QuickIntegration()) == np.inf


def test_curves_that_no_parameter_moves_are_not_trusted():
    """Searches agree on a flat line, where only an initial state is determined; the rhythm is found all the same."""
    model = pf.Model("x' = a/(1 + z^n) - d1*x\ny' = x - d2*y\nz' = y - d3*z", observables=["x"])
    truth, times = {"a": 1.0, "n": 11.0, "d1": 0.2, "d2": 0.2, "d3": 0.2}, np.linspace(0, 60, 40)
    run = pf.simulate(model, truth, {"x": 0.1, "y": 0.2, "z": 2.5}, times)
    data = np.asarray(run.observables["x"]) + 0.02 * np.random.default_rng(1).standard_normal(40)
    rates = dict.fromkeys(("d1", "d2", "d3"), pf.Parameter(1e-4, 1e2, log=True))
    bounds = {"a": pf.Parameter(1e-4, 1e4, log=True), "n": (1, 20), **rates}
    box = {"x": (0, np.inf), "y": (0, 10), "z": (0, 10)}
    fit = pf.fit(pf.Problem(model, pf.Experiment(times, {"x": data}), bounds, initial=box))
    assert fit.loss < 0.5 * 0.02**2
    assert any(not one.status.success or one.loss > 2 * fit.loss for one in fit.searches)
