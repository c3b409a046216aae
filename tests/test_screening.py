import numpy as np
import pytest

import picardfit as pf
from picardfit import screening, searches
from picardfit.errors import Status
from picardfit.screening import Candidates, along, implausible, polish, race, rank, roughness, screen

MODEL = pf.Model("x' = a*x - b*x*y\ny' = c*x*y - d*y", observables=["x"])
TRUTH = {"a": 1.0, "b": 0.5, "c": 0.3, "d": 0.8}
BOUNDS = {name: pf.Parameter(value / 5, value * 5, log=True) for name, value in TRUTH.items()}
TIMES = np.linspace(0, 20, 40)


@pytest.fixture(scope="module")
def prey() -> pf.Problem:
    run = pf.simulate(MODEL, TRUTH, {"x": 2.0, "y": 1.0}, TIMES)
    noise = 0.05 * np.random.default_rng(0).standard_normal(len(TIMES))
    return pf.Problem(MODEL, [pf.Experiment(TIMES, {"x": np.asarray(run.observables["x"]) + noise})], BOUNDS)


def nothing_given(problem: pf.Problem) -> tuple[np.ndarray, np.ndarray]:
    shape = problem.unknowns.lower.shape
    return np.full(shape, np.nan), np.zeros((0, *shape))


def test_screening_ends_near_the_truth_and_is_repeatable(prey, monkeypatch):
    monkeypatch.setattr(screening, "COUNT", 64)
    monkeypatch.setattr(screening, "CHOSEN", 12)
    given, further = nothing_given(prey)
    first, again = (screen(prey, given, 0, further) for _ in range(2))
    assert np.array_equal(first.borders, again.borders)
    assert prey.mean_loss(first.values[0]) < 1.5 * 0.5 * 0.05**2
    assert (np.diff(first.values) > 0).all()


def test_the_values_agree_with_the_independent_integration(prey):
    border = prey.unknowns.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    found = rank(prey, border[None], np.ones_like(border, bool))
    names = dict(zip("abcd", (0.9, 0.4, 0.25, 0.9), strict=True))
    assert prey.mean_loss(found.values[0]) == pytest.approx(prey.loss(names, {"x": 2.0, "y": 1.1}), rel=2e-2)


def test_slopes_agree_with_differences_of_the_value(prey):
    border = prey.unknowns.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    everything = np.ones_like(border, bool)
    terms = screening._terms(prey, border[None], everything, 1e-7)
    for column in range(border.shape[1]):
        step = np.zeros_like(border)
        step[0, column] = 1e-4
        up, down = (
            screening._terms(prey, (border + s)[None], everything, 1e-7).values[0] for s in (step, -step)
        )
        assert terms.slopes[0, 0, column] == pytest.approx((up - down) / 2e-4, rel=1e-3)


def test_steps_downhill_never_go_up_and_stay_in_the_bounds(prey):
    from picardfit.starts import candidates

    given, _ = nothing_given(prey)
    everything = np.ones(given.shape, bool)
    few = rank(prey, candidates(prey, given, 8, 1), everything).best(3)
    raced = polish(prey, few, everything)
    assert raced.values[0] <= few.values[0] * 1.01
    assert (raced.borders >= prey.unknowns.lower).all()
    assert (raced.borders <= prey.unknowns.upper).all()


def test_noise_levels_of_candidates_are_fitted():
    times = np.linspace(0, 4, 30)
    data = np.exp(-times) + 0.1 * np.random.default_rng(1).standard_normal(30)
    problem = pf.Problem(
        pf.Model("x' = -k*x"),
        [pf.Experiment(times, {"x": data}, initial={"x": 1.0})],
        {"k": (0.1, 10), "s": pf.Parameter(1e-3, 10, log=True)},
        noise=pf.Noise(additive="s"),
    )
    names = list(np.array(problem.unknowns.names)[problem.unknowns.global_parameters])
    border = np.array([[{"k": 1.0, "s": np.log(5.0)}[n] for n in names]])
    found = rank(problem, border[None], np.ones_like(border, bool))
    residual = data - np.exp(-times)
    level = np.exp(found.borders[0, 0, names.index("s")])
    assert level == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-2)


def test_a_simulated_path_has_no_jumps(prey):
    border = prey.unknowns.internal(np.array([[2.0, 1.0, 1.0, 0.5, 0.3, 0.8]]))
    path = along(prey, border, 5, 1e-4)
    assert np.abs(path.jumps).max() < 1e-4
    assert np.array_equal(path.border, border)


def test_only_a_bad_optimum_is_implausible(prey):
    truth = len(TIMES) * 0.5 * 0.05**2
    assert not implausible(prey, truth)
    assert implausible(prey, 0.5 * np.sum((prey.samples.data - prey.samples.data.mean()) ** 2))
    assert roughness(prey) < 20 * truth


def test_candidates_that_cannot_be_integrated_come_last_and_are_dropped():
    values = np.array([3.0, np.inf, 1.0])
    found = Candidates(np.arange(3.0).reshape(3, 1, 1), values).best(3)
    assert found.values.tolist() == [1.0, 3.0]
    assert found.borders.ravel().tolist() == [2.0, 0.0]


def test_a_search_that_fails_goes_on_from_simulated_candidates(prey, monkeypatch):
    monkeypatch.setattr(screening, "COUNT", 64)
    monkeypatch.setattr(screening, "CHOSEN", 12)
    lost = searches.Ending(Status.STALLED, np.inf, 0, 0.0, np.nan, None)
    monkeypatch.setattr(searches, "search", lambda *_, **__: lost)
    fit = pf.fit(prey)
    assert fit.success
    assert fit.loss < 1.2 * 0.5 * 0.05**2
    assert len(fit.starts) == 2


def test_racing_leaves_the_better_half(prey, monkeypatch):
    monkeypatch.setattr(screening, "ROUNDS", (1, 1))
    monkeypatch.setattr(screening, "FINE", 0.0)
    border = prey.unknowns.internal(np.array([[2.0, 1.1, 0.9, 0.4, 0.25, 0.9]]))
    far = prey.unknowns.internal(np.array([[2.0, 1.1, 4.0, 2.0, 0.1, 0.2]]))
    both = rank(prey, np.stack([far, border, far, border]), np.ones_like(border, bool))
    assert len(race(prey, both, np.ones_like(border, bool)).values) == 1
