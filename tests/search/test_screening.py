import numpy as np
import pytest

import picardfit as pf
import picardfit.search.multistart as searches
import picardfit.search.screening as screening
import picardfit.search.second_look as second_look
import picardfit.search.shooting as shooting
from picardfit.errors import Status
from picardfit.search.screening import (
    Candidates,
    along,
    implausible,
    polish,
    rank,
    relay,
    roughness,
    screen,
)
from picardfit.search.shooting import begin, terms_of
from prey import TIMES, counted_prey


@pytest.fixture(scope="module")
def prey() -> pf.Problem:
    return counted_prey()


def nothing_given(problem: pf.Problem) -> tuple[np.ndarray, np.ndarray]:
    shape = problem.layout.lower.shape
    return np.full(shape, np.nan), np.zeros((0, *shape))


def test_screening_ends_near_the_truth_and_is_repeatable(prey, monkeypatch):
    monkeypatch.setattr(screening, "COUNT", 32)
    monkeypatch.setattr(screening, "LANES", 12)
    monkeypatch.setattr(screening, "PATIENCE_IF_FINE", 2)
    given, further = nothing_given(prey)
    first, again = (screen(prey, given, 0, further) for _ in range(2))
    assert np.array_equal(first.many_unknowns, again.many_unknowns)
    assert prey.mean_loss(first.values[0]) < 1.5 * 0.5 * 0.05**2
    assert (np.diff(first.values) > 0).all()


def test_the_values_agree_with_the_independent_integration(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    found = rank(prey, unknowns[None])
    names = dict(zip("abcd", (0.9, 0.4, 0.25, 0.9), strict=True))
    assert prey.mean_loss(found.values[0]) == pytest.approx(prey.loss(names, {"x": 2.0, "y": 1.1}), rel=2e-2)


def test_slopes_agree_with_differences_of_the_value(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    wanted, nothing = np.full(1, np.inf), np.full(1, -np.inf)
    terms = terms_of(prey, unknowns[None], wanted, 1e-6)
    for column in range(unknowns.shape[1]):
        step = np.zeros_like(unknowns)
        step[0, column] = 1e-4
        up, down = (terms_of(prey, (unknowns + s)[None], nothing, 1e-6).values[0] for s in (step, -step))
        assert terms.slopes[0, 0, column] == pytest.approx((up - down) / 2e-4, rel=1e-3)


def test_candidates_that_are_not_better_get_no_slopes(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    terms = terms_of(prey, np.stack([unknowns, unknowns]), np.array([0.0, np.inf]), 1e-3)
    assert terms.values[0] == terms.values[1]
    assert not terms.slopes[0].any()
    assert terms.slopes[1].all()


def test_candidates_in_several_parts_are_the_same(prey, monkeypatch):
    unknowns = prey.layout.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    three = np.stack([unknowns, unknowns + 0.05, unknowns - 0.05])
    whole = terms_of(prey, three, np.full(3, np.inf), 1e-3)
    monkeypatch.setattr(shooting, "LARGEST", 4)  # two of two states each
    parts = terms_of(prey, three, np.full(3, np.inf), 1e-3)
    assert parts.values == pytest.approx(whole.values, rel=1e-9)
    assert parts.slopes == pytest.approx(whole.slopes, rel=1e-5, abs=1e-6)


def test_steps_downhill_never_go_up_and_stay_in_the_bounds(prey):
    from picardfit.search.starts import candidates

    given, _ = nothing_given(prey)
    few = rank(prey, candidates(prey, given, 8, 1)).best(3)
    raced = polish(prey, few.many_unknowns)
    assert raced.values[0] <= few.values[0] * 1.01
    assert (raced.many_unknowns >= prey.layout.lower).all()
    assert (raced.many_unknowns <= prey.layout.upper).all()


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
    found = rank(problem, unknowns[None])
    residual = data - np.exp(-times)
    level = np.exp(found.many_unknowns[0, 0, names.index("s")])
    assert level == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-2)


def test_a_simulated_path_has_no_jumps(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.0, 1.0, 0.5, 0.3, 0.8]]))
    path = along(prey, unknowns, 5, 1e-4)
    assert np.abs(path.jumps).max() < 1e-4
    assert np.array_equal(path.unknowns, unknowns)


def test_only_a_bad_optimum_is_implausible(prey):
    truth = len(TIMES) * 0.5 * 0.05**2
    assert not implausible(prey, truth)
    assert implausible(prey, 0.5 * np.sum((prey.samples.data - prey.samples.data.mean()) ** 2))
    assert roughness(prey) < 20 * truth


def test_candidates_that_cannot_be_integrated_come_last_and_are_dropped():
    values = np.array([3.0, np.inf, 1.0])
    found = Candidates(np.arange(3.0).reshape(3, 1, 1), values).best(3)
    assert found.values.tolist() == [1.0, 3.0]
    assert found.many_unknowns.ravel().tolist() == [2.0, 0.0]


def test_a_search_that_fails_goes_on_from_simulated_candidates(prey, monkeypatch):
    monkeypatch.setattr(screening, "COUNT", 32)
    monkeypatch.setattr(screening, "LANES", 12)
    monkeypatch.setattr(screening, "PATIENCE_IF_FINE", 2)
    lost = searches.Ending(Status.STALLED, np.inf, 0, 0.0, np.nan, None)
    monkeypatch.setattr(searches, "search", lambda *_, **__: lost)
    fit = pf.fit(prey)
    assert fit.success
    assert fit.loss < 1.2 * 0.5 * 0.05**2
    assert len(fit.starts) == 2


def test_a_relay_goes_on_from_variations_of_the_best(prey, monkeypatch):
    monkeypatch.setattr(screening, "PATIENCE", 3)
    far = prey.layout.internal(np.array([[2.0, 1.1, 4.0, 2.0, 0.1, 0.2]]))
    queue = rank(prey, np.stack([far, far, far, far]))
    alone = begin(prey, queue.many_unknowns, 1e-3).values[0]
    found = relay(prey, queue, 4, np.random.default_rng(0))
    assert found.values[0] < 0.5 * alone
    assert found.varied[0]
    assert (np.diff(found.values) > 0).all()


def test_a_search_that_ends_worse_falls_back_to_its_candidate(prey, monkeypatch):
    unknowns = prey.layout.internal(np.array([[2.0, 1.0, 1.0, 0.5, 0.3, 0.8]]))
    worse = searches.Ending(Status.STALLED, 1e3, 7, 0.1, 0.0, unknowns + 0.1)
    monkeypatch.setattr(second_look, "ending_of", lambda _: worse)
    request = searches.Request(prey, pf.LiftedGaussNewton(max_iterations=1), nothing_given(prey)[0], 1, 0)
    kept = second_look._onward(request, unknowns, lambda *_: None)
    assert kept.status is Status.STALLED
    assert np.array_equal(kept.unknowns, unknowns)
    assert kept.value < 1.2 * len(TIMES) * 0.5 * 0.05**2
    assert kept.jump < 1e-4


def test_the_value_of_a_path_with_jumps_does_not_count():
    def ending(status, value, jump):
        return searches.Ending(status, value, 1, 0.0, jump, None)

    torn, whole = ending(Status.STALLED, 1.0, 5.0), ending(Status.STALLED, 2.0, 1e-6)
    assert searches.Searches({0: torn, 1: whole}, {}, False).best == 1
    success = ending(Status.CONVERGED, 3.0, 1e-12)
    assert searches.Searches({0: torn, 1: whole, 2: success}, {}, False).best == 2
