import numpy as np
import pytest

import picardfit as pf
from picardfit.search.rescue.settings import Rescue, Variation
from picardfit.search.rescue.shooting import begin
from picardfit.search.rescue.variations import Loose, variations
from prey import counted_prey

SETTINGS, VARIATION = Rescue(), Variation()
TRIES = VARIATION.tries


@pytest.fixture(scope="module")
def prey() -> pf.Problem:
    return counted_prey()


def test_variations_stay_in_the_bounds_and_keep_shared_unknowns_shared():
    times = np.linspace(0, 4, 5)
    experiments = [pf.Experiment(times, {"x": np.exp(-times)}, name=name) for name in ("one", "two")]
    problem = pf.Problem(
        pf.Model("x' = -k*x"), experiments, {"k": pf.Parameter(0.1, 10, log=True)}, {"x": (0, 5)}
    )
    layout = problem.layout
    parents = begin(problem, 0.5 * (layout.lower + layout.upper)[None], 1e-3, SETTINGS)
    made = variations(problem, parents, 30, np.random.default_rng(0), VARIATION)
    assert made.shape == (30, *layout.lower.shape)
    assert (made >= layout.lower).all()
    assert (made <= layout.upper).all()
    assert np.array_equal(made[:, 0, layout.local :], made[:, 1, layout.local :])
    assert not np.array_equal(made[:, 0, : layout.local], made[:, 1, : layout.local])


def test_moves_are_far_only_where_the_data_say_little(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.0, 1.0, 0.5, 0.3, 0.8]]))
    runner = begin(prey, unknowns[None], 1e-5, SETTINGS)
    hessian = runner.terms.hessians[0]
    loose = Loose(prey, unknowns, hessian, VARIATION.least_size)
    rng = np.random.default_rng(0)
    moves = np.array([loose.move(rng.standard_normal(unknowns.shape), 1e-4, 100.0)[0] for _ in range(2000)])
    costs = 0.5 * np.einsum("ki,ij,kj->k", moves, hessian[0], moves)
    assert costs.mean() == pytest.approx(5e-4, rel=0.1)  # of six directions one, in b and y(0), costs nothing
    short = [loose.move(rng.standard_normal(unknowns.shape), 1e9, 0.1)[0] for _ in range(2000)]
    assert np.std(short / loose.unit[0], axis=0) == pytest.approx(0.1, rel=0.1)


def test_moves_of_several_experiments_keep_shared_unknowns_shared():
    times = np.linspace(0, 4, 5)
    experiments = [pf.Experiment(times, {"x": np.exp(-times)}, name=name) for name in ("one", "two")]
    problem = pf.Problem(
        pf.Model("x' = -k*x"), experiments, {"k": pf.Parameter(0.1, 10, log=True)}, {"x": (0, 5)}
    )
    unknowns = problem.layout.internal(np.array([[1.0, 1.0], [1.2, 1.0]]))
    hessian = begin(problem, unknowns[None], 1e-5, SETTINGS).terms.hessians[0]
    rng = np.random.default_rng(0)
    loose = Loose(problem, unknowns, hessian, VARIATION.least_size)
    moves = np.array([loose.move(rng.standard_normal(unknowns.shape), 1e-4, 100.0) for _ in range(2000)])
    assert np.array_equal(moves[:, 0, 1], moves[:, 1, 1])
    costs = 0.5 * np.einsum("kei,eij,kej->k", moves, hessian, moves)
    assert costs.mean() == pytest.approx(3e-4, rel=0.1)


def test_unknowns_at_a_bound_are_drawn_anew_and_the_others_kept_near(prey):
    unknowns = prey.layout.internal(np.array([[2.0, 1.0, 1.0, 0.5, 0.3, 0.8]]))
    unknowns[0, 2] = prey.layout.upper[0, 2]
    made = variations(
        prey, begin(prey, unknowns[None], 1e-3, SETTINGS), 400 * TRIES, np.random.default_rng(0), VARIATION
    )
    released = made.reshape(-1, 4, TRIES, unknowns.shape[1])[:, 2].reshape(-1, unknowns.shape[1])
    part = (released - prey.layout.lower)[:, 2] / (prey.layout.upper - prey.layout.lower)[0, 2]
    assert np.mean(part) == pytest.approx(0.5, abs=0.05)
    assert np.std(part) == pytest.approx(np.sqrt(1 / 12), abs=0.03)
    determined = released[:, 3:] - unknowns[0, 3:]
    assert np.abs(np.median(determined, axis=0)).max() < 0.3
