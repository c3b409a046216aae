"""Charts: volumes and slopes of the map, ridges that are found, and posteriors that become more nearly normal."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import picardfit as pf
from benchmarks.posterior import michaelis
from picardfit.inference.posterior.chart import Bend, Bending, Chart, chart_of, positions, straight
from picardfit.inference.posterior.coordinates import Coordinates, coordinates_of
from picardfit.inference.posterior.density import Position
from picardfit.inference.posterior.setup import mode_of, target_of

NO_BEND = Bending(worth=0.0)


def linear(experiments: int) -> Coordinates:
    """Coordinates of two shared unknowns and, with several experiments, of two more in each."""
    model = pf.Model("x' = a*y\ny' = b*x")
    times = np.array([1.0, 2.0])
    known = {} if experiments > 1 else {"x": 1.0, "y": 1.0}
    runs = [pf.Experiment(times, {"x": times}, t0=0.0, initial=known) for _ in range(experiments)]
    return coordinates_of(pf.Problem(model, runs, {"a": pf.Parameter(), "b": pf.Parameter()}))


def arrow(coordinates: Coordinates, rng: np.random.Generator) -> np.ndarray:
    """A covariance whose precision couples the experiments through shared unknowns only."""
    owner = np.where(coordinates.index[:, 1] < coordinates.layout.local, coordinates.index[:, 0], -1)
    half = rng.standard_normal((len(owner), 200))
    apart = (owner[:, None] != owner) & (owner[:, None] >= 0) & (owner >= 0)
    precision = np.where(apart, 0.0, half @ half.T / 50)
    return np.linalg.inv(precision + 4 * np.eye(len(owner)))


def curved(experiments: int) -> Chart:
    rng, coordinates = np.random.default_rng(3), linear(experiments)
    line = straight(np.zeros(coordinates.count), arrow(coordinates, rng), coordinates, np.ones(2))
    q, (count, n) = len(line.shared), line.own.shape
    first, own = rng.standard_normal((q, q, q)), rng.standard_normal((count, n, q + n, q + n))
    for k in range(q):
        first[k, k:] = first[k, :, k:] = 0.0
    for k in range(n):
        own[:, k, q + k :], own[:, k, :, q + k :] = 0.0, 0.0
    first, own = first + first.transpose(0, 2, 1), own + own.transpose(0, 1, 3, 2)
    return replace(line, bend=Bend(first.reshape(q, -1), own.reshape(count, n, (q + n) ** 2), 4.0))


@dataclass(frozen=True)
class Banana:
    """log p = -1/2 (u^2 + ((v - bend u^2) / width)^2): a narrow valley that is bent, in two unknowns."""

    coordinates: Coordinates
    bend: float = 0.3
    width: float = 0.05
    top: float = (
        10.0  # u and v are displacements from here, which makes u wide and v narrow relative to their values
    )
    lanes = SimpleNamespace(scale=np.ones(2))

    def positions(self, points, gradient=True):
        found = []
        for z, track in points:
            u, v = z - self.top
            gap = (v - self.bend * u**2) / self.width**2
            slope = np.array([-u + 2 * self.bend * u * gap, -gap])
            density = -0.5 * (u**2 + gap**2 * self.width**2)
            found.append(Position(z, density, slope, track))
        return found


@pytest.mark.parametrize("experiments", [1, 3])
def test_a_linear_chart_whitens_the_covariance(experiments):
    coordinates = linear(experiments)
    covariance = arrow(coordinates, np.random.default_rng(0))
    chart = straight(np.ones(coordinates.count), covariance, coordinates, np.ones(2))
    root = chart.points(np.eye(coordinates.count)) - 1
    np.testing.assert_allclose(root.T @ root, covariance, atol=1e-10)


@pytest.mark.parametrize("experiments", [1, 3])
def test_slopes_are_those_of_the_map(experiments):
    chart, rng = curved(experiments), np.random.default_rng(1)
    size = len(chart.centre)
    v, by_z, step = rng.standard_normal((5, size)), rng.standard_normal((5, size)), 1e-5
    numeric = np.empty((5, size))
    for k in range(size):
        move = np.zeros(size)
        move[k] = step
        gap = chart.points(v + move) - chart.points(v - move)
        numeric[:, k] = np.sum(gap * by_z, axis=1) / (2 * step)
    np.testing.assert_allclose(chart.slopes(v, by_z), numeric, atol=1e-7)


@pytest.mark.parametrize("experiments", [1, 3])
def test_a_bend_keeps_volumes(experiments):
    chart = curved(experiments)
    v = np.random.default_rng(2).standard_normal(len(chart.centre))

    def volume(one: Chart) -> float:
        by_v = np.array([one.slopes(v[None], unit[None])[0] for unit in np.eye(len(v))])
        return float(np.linalg.slogdet(by_v)[1])

    np.testing.assert_allclose(volume(chart), volume(replace(chart, bend=None)), atol=1e-10)


def test_far_from_the_mode_tails_are_moved_and_not_bent():
    chart, far = curved(1), np.array([[400.0, 0.0]])
    straight_move = chart.points(2 * far) - chart.points(far)
    np.testing.assert_allclose(straight_move, replace(chart, bend=None).points(far) - chart.centre, rtol=1e-6)


def test_a_bent_valley_becomes_standard_normal():
    target = Banana(linear(1))
    centre = target.positions([(np.full(2, 10.0), None)])[0]
    chart = chart_of(target, centre, np.diag([1.0, target.width**2]), seed=0)
    v = np.random.default_rng(4).uniform(-1.2, 1.2, (50, 2))
    found = [one.log_density for one in positions(target, [chart] * 50, [(one, None) for one in v])]
    np.testing.assert_allclose(found, -0.5 * np.sum(v**2, axis=1), atol=0.15)  # g(1.2) is 1.198


def test_a_gaussian_is_not_bent():
    target = Banana(linear(1), bend=0.0)
    centre = target.positions([(np.full(2, 10.0), None)])[0]
    assert chart_of(target, centre, np.diag([1.0, target.width**2]), seed=0).bend is None


@pytest.mark.parametrize("seed", range(6))
def test_a_thin_tail_does_not_bend_the_bulk(seed):
    """An initial state whose best value is its bound at zero: log x(0) falls like a Gumbel density on one side."""
    times = np.array([0.3, 0.8, 1.5, 2.5, 4.0, 6.0])
    values = 4 * (1 - np.exp(-0.5 * times)) + np.random.default_rng(4).normal(0, 0.3, 6)
    problem = pf.Problem(
        pf.Model("x' = a - b*x"),
        pf.Experiment(times, {"x": values}),
        {"a": (0, 10), "b": (0, 3)},
        initial={"x": pf.Parameter(0, None, prior=pf.priors.HalfNormal(1))},
        noise=pf.Noise(additive=0.3),
    )
    fit = pf.fit(problem, progress=False)
    mode = mode_of(fit)
    target = target_of(fit, mode, 4, np.random.default_rng(seed))
    (centre,) = target.positions([(mode.z, None)])
    line = straight(centre.z, mode.covariance, target.coordinates, target.lanes.scale)
    chosen = chart_of(target, centre, mode.covariance, seed)
    trials = np.random.default_rng(99).standard_normal((200, 3))

    def middle(chart: Chart) -> float:
        """Range of the middle half of the log weights."""
        found = positions(target, [chart] * len(trials), [(one, centre.track) for one in trials])
        weights = [one.log_density for one in found] + 0.5 * np.sum(trials**2, axis=1)
        return float(np.diff(np.quantile(weights, [0.25, 0.75]))[0])

    assert middle(chosen) < 1.2 * middle(line)


def test_a_bend_makes_weights_of_a_real_posterior_more_even():
    fit = pf.fit(michaelis(), progress=False)
    bent = fit.posterior(pf.LaplaceDraws(), progress=False)
    plain = fit.posterior(pf.LaplaceDraws(bending=NO_BEND), progress=False)
    gained = bent.summary()["ess_tail"].min() / plain.summary()["ess_tail"].min()
    assert gained > 1.5


def test_chains_at_a_separatrix_take_longer_steps_in_bent_coordinates():
    """Lorenz' equations from close to the stable manifold of the origin, where the posterior is a narrow banana."""
    model, truth, rng = pf.examples.lorenz.model(), pf.examples.lorenz.TRUTH, np.random.default_rng(1)
    times, runs = np.linspace(0.0, 1.2, 13), []
    for x in (0.5, 0.02):
        found = pf.simulate(model, truth, {"x1": x, "x2": -0.3 * x, "x3": 1.0}, times).observables
        runs.append(pf.Experiment(times, {k: v + 0.1 * rng.standard_normal(13) for k, v in found.items()}))
    bounds = {name: (0.2 * value, 3 * value) for name, value in truth.items()}
    initial = dict.fromkeys(model.states, (-10.0, 10.0))
    fit = pf.fit(pf.Problem(model, runs, bounds, initial, noise=pf.Noise(additive=0.1)), start=truth)
    mode = mode_of(fit)
    target = target_of(fit, mode, 4, np.random.default_rng(0))
    (centre,) = target.positions([(mode.z, None)])
    v, spread = np.random.default_rng(5).standard_normal((40, len(mode.z))), []
    for settings in (NO_BEND, Bending()):
        chart = chart_of(target, centre, mode.covariance, 0, settings)
        found = positions(target, [chart] * 40, [(one, centre.track) for one in v])
        spread.append(np.std([one.log_density for one in found] + 0.5 * np.sum(v**2, axis=1)))
    assert spread[1] < 0.1 * spread[0]
