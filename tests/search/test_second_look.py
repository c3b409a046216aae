"""The second look: what a default fit does when one search may not have found the best optimum."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.display.recipe import recipe
from picardfit.search.second_look import LOOKS, near_bounds
from picardfit.search.starts import make_start, open_values, spread_evenly

PONDS = pf.examples.rosenzweig_macarthur


def neuron(seed=70, eps=0.05, eps_is="variance"):
    """Only x1 is measured; with seed 70 two pairs of initial states fit nearly equally well."""
    return pf.examples.fitzhugh_nagumo.generate(seed, eps, eps_is)


def at_truth(problem):
    return problem.loss(problem.truth["parameters"], problem.truth["initial"])


def answer(fit):
    """All of a fit that does not depend on the clock."""
    starts = [replace(one, seconds=0.0) for one in fit.starts]
    return (
        fit.parameters,
        fit.initial_states,
        fit.certificate,
        fit.message,
        fit.solution.path.tolist(),
        starts,
    )


@pytest.fixture(scope="module")
def looked():
    return pf.fit(neuron())


def test_one_search_ends_above_the_truth_and_the_look_below(looked):
    truth = at_truth(looked.problem)
    assert looked.starts[0].loss > 1.005 * truth
    assert looked.loss < truth


def test_the_look_is_counted_and_said(looked):
    assert len(looked.starts) == 2 + LOOKS
    assert f"{looked.hits} of {2 + LOOKS} starts reached this optimum" in str(looked)


def test_an_optimum_that_only_one_search_found_is_doubted():
    fit = pf.fit(neuron(eps=0.2, eps_is="std"))
    assert fit.hits == 1
    assert f"only one of {len(fit.starts)} searches ended in this optimum" in fit.message


def test_unknowns_at_a_bound_call_for_a_look():
    """Matched to the data all starts of this pond are alike and end far above the truth."""
    problem = PONDS.generate(98, 0.05, ponds=1, bounds=dict(PONDS.IMPLIED_BOUNDS))
    fit, truth = pf.fit(problem), at_truth(problem)
    assert fit.starts[0].loss > 2 * truth
    assert fit.loss < truth


def test_parameters_at_a_bound_are_tried_inside():
    """A corner of the wide box draws the search, even from the true parameters, in data however precise."""
    settings = {
        "eps": 0.0004,
        "eps_is": "std",
        "bounds": (0.02, 50.0),
        "inputs": (1, 2, 3, 4, 5),
        "v_known": True,
    }
    problem = pf.examples.tumor.generate(19, **settings)
    fit, truth = pf.fit(problem), at_truth(problem)
    assert fit.starts[0].parameters["rho"] == pytest.approx(problem.parameters["rho"].lower)
    assert fit.starts[0].loss > 1.05 * truth
    assert fit.loss < truth
    assert fit.certificate.at_bound == ()


def test_one_start_is_exactly_one_search(looked):
    fit = pf.fit(looked.problem, second_look=False)
    assert (len(fit.starts), fit.loss) == (1, looked.starts[0].loss)


def test_one_start_that_fails_is_not_followed_by_others():
    run = pf.Experiment(np.linspace(0, 3, 13), {"x": 2 * np.exp(-0.7 * np.linspace(0, 3, 13))})
    problem = pf.Problem(pf.Model("x' = -k*x/(b - 1)"), run, {"b": pf.Parameter(0, 3, start=1.0), "k": 0.7})
    fit = pf.fit(problem, second_look=False)
    assert (fit.success, len(fit.starts)) == (False, 1)


@pytest.mark.parametrize(
    "problem",
    [
        neuron(0, 0.05, "std"),
        pf.examples.van_der_pol.generate(0, 0.1),
        pf.examples.lorenz.generate(1, 0.1),
    ],
    ids=["neuron", "oscillator", "chaos"],
)
def test_clear_data_call_for_no_look(problem):
    assert len(pf.fit(problem).starts) == 1


@pytest.fixture
def slow(monkeypatch):
    """Clear data, with searches that count as laboured."""
    monkeypatch.setattr("picardfit.search.second_look.SLOW_SEARCH", 3)
    return pf.examples.van_der_pol.generate(seed=3, eps=0.01)


def test_a_laboured_search_in_clear_data_is_followed_by_another_start(slow):
    fit = pf.fit(slow)
    assert len(fit.starts) == 2
    assert fit.hits == 2


def test_a_laboured_search_from_given_values_is_followed_by_one_without_them(slow):
    fit = pf.fit(slow, start={"theta1": 1.4, "theta2": 0.6})
    alone = pf.fit(slow, second_look=False)
    assert len(fit.starts) == 2
    assert fit.starts[1].loss == alone.loss
    assert fit.starts[1].iterations == alone.iterations


def test_a_start_of_our_own_that_breaks_down_leaves_the_first_answer(slow, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("here")

    monkeypatch.setattr("picardfit.search.second_look.search", broken)
    fit = pf.fit(slow, start={"theta1": 1.4, "theta2": 0.6})
    assert fit.success
    assert "1 of 2 starts broke down" in fit.message


def test_precise_data_call_for_one_more_search_when_something_is_at_a_bound():
    times = np.linspace(0, 10, 41)
    model = pf.Model("x' = y; y' = -k*sin(x) - c*y", observables={"x": "x"})
    found = pf.simulate(model, {"k": 2.0, "c": 0.0}, {"x": 2.9, "y": 0.0}, times)
    data = found.observables["x"] + 1e-3 * np.random.default_rng(0).standard_normal(41)
    fit = pf.fit(pf.Problem(model, pf.Experiment(times, {"x": data}), {"k": (0.1, 2.0), "c": (0.0, 3.0)}))
    assert fit.status is pf.Status.CONVERGED_AT_BOUND
    assert (len(fit.starts), fit.hits) == (2, 2)


def test_where_other_initial_states_lead_back_nothing_more_is_tried():
    fit = pf.fit(neuron(3, 0.2, "std"))
    assert [one.start for one in fit.starts] == [0, LOOKS + 1]
    assert fit.hits == 2


def test_the_same_seed_gives_the_same_looks(looked):
    assert answer(pf.fit(looked.problem)) == answer(looked)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_makes_the_same_looks(looked, pool):
    with pool(2) as executor:
        assert answer(pf.fit(looked.problem, executor=executor)) == answer(looked)


def test_a_ledger_keeps_the_looks(looked, tmp_path):
    path = tmp_path / "run.jsonl"
    first = pf.fit(looked.problem, ledger=path)
    size = path.stat().st_size
    assert answer(first) == answer(looked)
    assert answer(pf.fit(looked.problem, ledger=path)) == answer(looked)
    assert path.stat().st_size == size


def test_a_ledger_keeps_the_first_search_and_not_the_looks(looked, tmp_path):
    """Looks are given less time than starts that are asked for."""
    ledger = tmp_path / "run.jsonl"
    assert pf.fit(looked.problem, ledger=ledger).loss == looked.loss
    assert len(ledger.read_text().splitlines()) == 2
    assert pf.fit(looked.problem, starts=3, ledger=ledger).loss == pf.fit(looked.problem, starts=3).loss


def test_an_interrupted_look_leaves_the_first_answer(looked):
    def stop(news):
        if news.start > 0:
            raise KeyboardInterrupt

    fit = pf.fit(looked.problem, progress=stop)
    assert fit.success
    assert fit.loss == looked.starts[0].loss
    assert "The second look from other starts was interrupted" in fit.message


@pytest.mark.parametrize("answer", ["no", 0, None])
def test_second_look_is_true_or_false(answer):
    with pytest.raises(pf.InputError, match="second_look"):
        pf.fit(neuron(), second_look=answer)


def test_other_methods_do_not_look():
    fit = pf.fit(neuron(), pf.GradientDescent(max_iterations=3))
    assert len(fit.starts) == 1


def test_every_second_start_keeps_the_values_it_was_dealt():
    problem = PONDS.generate(98, 0.05, ponds=1, bounds=dict(PONDS.IMPLIED_BOUNDS))
    part = spread_evenly(problem.layout, 1, 0)[0]
    columns = problem.layout.columns.parameters
    dealt = open_values(problem, problem.layout.start, part)[0, columns]
    kept, moved = (make_start(problem, part=part, matched=m).unknowns[0, columns] for m in (False, True))
    np.testing.assert_array_equal(kept, dealt)
    assert np.abs(moved / dealt - 1).max() > 0.1


def test_the_program_in_a_report_asks_as_the_fit_did(looked, tmp_path):
    assert "starts=" not in recipe(looked)
    assert "second_look=False," in recipe(pf.fit(looked.problem, second_look=False))
    assert pf.load(looked.save(tmp_path / "fit.json")).asked is None


def test_equations_that_do_not_bear_other_initial_states_keep_their_answer(looked, monkeypatch):
    def broken(problem, many_unknowns):
        raise ArithmeticError("too low")

    monkeypatch.setattr("picardfit.search.second_look.rank", broken)
    fit = pf.fit(looked.problem)
    assert fit.success
    assert fit.loss <= looked.starts[0].loss
    assert "broke down" in fit.message
    assert "ArithmeticError: too low" in fit.message


def test_an_interrupt_before_the_second_search_is_told(looked, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("picardfit.search.second_look.doubt_about", stop)
    fit = pf.fit(looked.problem)
    assert (fit.success, len(fit.starts)) == (True, 1)
    assert "The second look from other starts was interrupted" in fit.message


def test_large_problems_are_looked_at_once(looked, monkeypatch):
    monkeypatch.setattr("picardfit.search.second_look.LARGE", 5)
    fit = pf.fit(looked.problem)
    assert len(fit.starts) == 1
    assert "no second look was taken at so large a problem" in fit.message


def test_searches_that_did_not_converge_stand_last_in_the_table(looked):
    unfinished = replace(looked.starts[-1], start=9, loss=0.0, status=pf.Status.INTERRUPTED, cluster=None)
    rows = replace(looked, starts=(*looked.starts, unfinished)).starts_table().splitlines()
    assert rows[-1].endswith("interrupted")


@pytest.mark.parametrize(("value", "at"), [(1.001, True), (1.5, False), (99.9, True), (60.0, False)])
def test_what_is_at_a_bound_of_a_log_parameter(value, at):
    """The logarithm of a bound of 1 is zero: it has no size to take a part of."""
    model = pf.Model("x' = -k*x")
    data = pf.Experiment(np.linspace(0, 1, 5), {"x": np.exp(-np.linspace(0, 1, 5))}, initial={"x": 1.0})
    problem = pf.Problem(model, data, {"k": pf.Parameter(1.0, 100.0, log=True)})
    fit = pf.fit(problem)
    moved = replace(fit.solution, unknowns=np.array([[np.log(value)]]))
    assert near_bounds(moved).tolist() == [[at]]
