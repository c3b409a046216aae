from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.search.rescue.relay import Candidates, find_candidates, polished, rank, relay
from picardfit.search.rescue.settings import Descent, Rescue
from picardfit.search.rescue.shooting import begin, terms_of
from picardfit.search.starts import candidates
from picardfit.simulation.batched_rosenbrock import RosenbrockSteps
from prey import counted_prey

SMALL = Rescue(candidates=32, lanes=12, patience=2, vain=0.0)


@pytest.fixture(scope="module")
def prey() -> pf.Problem:
    return counted_prey()


def nothing_given(problem: pf.Problem) -> tuple[np.ndarray, np.ndarray]:
    shape = problem.layout.lower.shape
    return np.full(shape, np.nan), np.zeros((0, *shape))


def test_candidates_end_near_the_truth_and_are_repeatable(prey):
    given, further = nothing_given(prey)
    first, again = (find_candidates(prey, given, 0, further, SMALL) for _ in range(2))
    assert np.array_equal(first.many_unknowns, again.many_unknowns)
    assert prey.mean_loss(first.values[0]) < 1.5 * 0.5 * 0.05**2
    assert (np.diff(first.values) >= 0).all()


def test_news_of_the_leader_come_after_every_step(prey):
    given, further = nothing_given(prey)
    news = []
    find_candidates(prey, given, 0, further, SMALL, lambda *one: news.append(one))
    assert [one[0] for one in news] == list(range(1, len(news) + 1))
    assert (np.diff([one[1] for one in news]) <= 0).all()


def test_an_interrupt_leaves_the_best_candidate_so_far(prey):
    given, further = nothing_given(prey)
    losses = []

    def stop(step, loss, jump):
        losses.append(loss)
        if step == 3:
            raise KeyboardInterrupt

    found = find_candidates(prey, given, 0, further, SMALL, stop)
    assert found.interrupted
    assert prey.mean_loss(found.values[0]) == losses[-1]


def test_the_values_agree_with_the_independent_integration(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    found = rank(prey, unknowns[None], SMALL)
    names = dict(zip("abcd", (0.9, 0.4, 0.25, 0.9), strict=True))
    assert prey.mean_loss(found.values[0]) == pytest.approx(prey.loss(names, {"x": 2.0, "y": 1.1}), rel=2e-2)


def test_slopes_agree_with_differences_of_the_value(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    wanted, nothing = np.full(1, np.inf), np.full(1, -np.inf)
    terms = terms_of(prey, unknowns[None], wanted, 1e-6, SMALL)
    for column in range(unknowns.shape[1]):
        step = np.zeros_like(unknowns)
        step[0, column] = 1e-4
        up, down = (
            terms_of(prey, (unknowns + s)[None], nothing, 1e-6, SMALL).values[0] for s in (step, -step)
        )
        assert terms.slopes[0, 0, column] == pytest.approx((up - down) / 2e-4, rel=1e-3)


def test_candidates_that_are_not_better_get_no_slopes(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    terms = terms_of(prey, np.stack([unknowns, unknowns]), np.array([0.0, np.inf]), 1e-3, SMALL)
    assert terms.values[0] == terms.values[1]
    assert not terms.slopes[0].any()
    assert terms.slopes[1].all()


def test_candidates_in_several_parts_are_the_same(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    three = np.stack([unknowns, unknowns + 0.05, unknowns - 0.05])
    whole = terms_of(prey, three, np.full(3, np.inf), 1e-3, SMALL)
    split = replace(SMALL, integration=RosenbrockSteps(together=4))  # two of two states each
    parts = terms_of(prey, three, np.full(3, np.inf), 1e-3, split)
    assert parts.values == pytest.approx(whole.values, rel=1e-9)
    assert parts.slopes == pytest.approx(whole.slopes, rel=1e-5, abs=1e-6)


def test_steps_downhill_never_go_up_and_stay_in_the_bounds(prey):
    given, _ = nothing_given(prey)
    few = rank(prey, candidates(prey, given, 8, 1), SMALL).best(3)
    ended = polished(prey, few.many_unknowns, SMALL)
    assert ended.values[0] <= few.values[0] * 1.01
    assert (ended.many_unknowns >= prey.layout.lower).all()
    assert (ended.many_unknowns <= prey.layout.upper).all()


def test_noise_levels_of_candidates_are_fitted():
    times = np.linspace(0, 4, 30)
    data = np.exp(-times) + 0.1 * np.random.default_rng(1).standard_normal(30)
    problem = pf.Problem(
        pf.Model("x' = -k*x"),
        [pf.Experiment(times, {"x": data}, initial={"x": 1.0})],
        {"k": (0.1, 10), "s": pf.Parameter(1e-3, 10, log=True)},
        noise=pf.Noise(additive="s"),
    )
    names = list(np.array(problem.layout.names)[problem.layout.global_parameters])
    unknowns = np.array([[{"k": 1.0, "s": np.log(5.0)}[n] for n in names]])
    found = rank(problem, unknowns[None], SMALL)
    residual = data - np.exp(-times)
    level = np.exp(found.many_unknowns[0, 0, names.index("s")])
    assert level == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-2)


def test_candidates_that_cannot_be_integrated_come_last_and_are_dropped():
    values = np.array([3.0, np.inf, 1.0])
    found = Candidates(np.arange(3.0).reshape(3, 1, 1), values).best(3)
    assert found.values.tolist() == [1.0, 3.0]
    assert found.many_unknowns.ravel().tolist() == [2.0, 0.0]


def test_a_free_lane_goes_to_the_next_in_the_queue(prey):
    far = prey.layout.internal(np.array([[2.0, 1.1, 4.0, 2.0, 0.1, 0.2]]))
    near = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    queue = Candidates(np.stack([far, far, far, far, near]), np.zeros(5))
    settings = Rescue(
        patience=12, vain=0.0, descent=Descent(idle=1), little=1e9
    )  # every candidate ends after one step
    rng = np.random.default_rng(0)
    settings = replace(settings, queued=1.0)  # and no variation takes its lane
    *_, alone = relay(prey, Candidates(queue.many_unknowns[:4], queue.values[:4]), 4, rng, settings)
    *_, found = relay(prey, queue, 4, rng, settings)
    assert found.values[0] < 0.5 * alone.values[0]
    assert (np.diff(found.values) >= 0).all()


def test_a_budget_of_work_ends_the_relay(prey):
    given, further = nothing_given(prey)
    steps = []
    find_candidates(prey, given, 0, further, replace(SMALL, work=1e5), lambda *one: steps.append(one))
    few = len(steps)
    find_candidates(prey, given, 0, further, replace(SMALL, patience=50), lambda *one: steps.append(one))
    assert 0 < few < len(steps) - few


def test_a_relay_ends_after_as_many_descents_in_vain(prey):
    near = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    queue = rank(prey, np.stack([near, near, near, near]), SMALL)

    def steps(vain: float) -> int:
        settings = replace(SMALL, vain=vain)
        return sum(1 for _ in relay(prey, queue, 4, np.random.default_rng(0), settings))

    assert steps(1.0) < steps(4.0)


def test_a_relay_continues_from_variations_of_the_best(prey):
    settings = Rescue(patience=12, vain=0.0)
    far = prey.layout.internal(np.array([[2.0, 1.1, 4.0, 2.0, 0.1, 0.2]]))
    queue = rank(prey, np.stack([far, far, far, far]), settings)
    alone = begin(prey, queue.many_unknowns, 1e-3, settings).values[0]
    *_, found = relay(prey, queue, 4, np.random.default_rng(0), settings)
    assert found.values[0] < 0.5 * alone
    assert found.varied[0]


def test_finalists_after_the_first_are_no_variations(prey):
    given, further = nothing_given(prey)
    found = find_candidates(prey, given, 0, further, SMALL)
    assert 1 < len(found.values) <= SMALL.finalists
    assert (np.diff(found.values) >= 0).all()


def test_no_candidate_that_can_be_integrated_leaves_none():
    model = pf.Model("x' = k*x^2")
    problem = pf.Problem(
        model, pf.Experiment([1.0, 2.0], {"x": [1.0, 2.0]}, initial={"x": 1e6}), {"k": (10.0, 20.0)}
    )
    given, further = nothing_given(problem)
    assert not len(find_candidates(problem, given, 0, further, SMALL).values)


def test_variations_that_cannot_be_integrated_are_none():
    """x' = k x^2 from x = 1 explodes before t = 1 for k > 1, where all variations of the only candidate lie."""
    times = np.linspace(0, 1, 6)
    run = pf.Experiment(times, {"x": 1 / (1 - 0.5 * times)}, initial={"x": 1.0})
    problem = pf.Problem(pf.Model("x' = k*x^2"), run, {"k": pf.Parameter(0.5, 1e6, log=True)})
    far = replace(Rescue().variation, moved=1.0, far=1e3, mixed=0.0, tries=1, loose_cost=0.0)
    settings = replace(Rescue(), variation=far, patience=30, vain=0.0)
    unknowns = np.full((1, *problem.layout.lower.shape), np.log(0.5))
    for seed in range(8):  # half of the variations go up
        *_, found = relay(
            problem, Candidates(unknowns, np.zeros(1)), 1, np.random.default_rng(seed), settings
        )
        assert found.values[0] < 1e-3
