"""How draws are made: pf.NUTS and pf.LaplaceDraws, and the runs of both."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np

from picardfit.checks import as_number, as_whole
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.density import Position, Target
from picardfit.inference.posterior.lanes import Track
from picardfit.inference.posterior.nuts import Rules, Trace, Warmup, chain, root_of
from picardfit.inference.posterior.pareto import smoothed
from picardfit.inference.posterior.setup import Mode, inverse_of, starting_points

Chain = Generator[tuple[Array, Track | None], Position, None]
Show = Callable[[int, int, int], None]  # iterations done, all iterations, divergences


@dataclass(frozen=True)
class NUTS:
    """Hamiltonian Monte Carlo with the No-U-Turn rule: `draws` of each of `chains` after `warmup` iterations.

    `accept`: the mean acceptance probability that the step size is adapted to; closer to 1 takes shorter steps, which
    removes divergences. `depth`: doublings of a path at most. `spread`: how far from a mode chains begin, in standard
    deviations that the Fisher information promises there.
    """

    draws: int = 1000
    chains: int = 4
    warmup: int = 400
    accept: float = 0.8
    depth: int = 10
    spread: float = 2.0
    adaptation: Warmup = field(default_factory=Warmup, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("chains", 1), ("warmup", 0), ("depth", 1)):
            object.__setattr__(self, name, as_whole(getattr(self, name), name, least))
        if not 0 < as_number(self.accept, "accept") < 1:
            raise InputError("inference.accept", value=self.accept)
        if not as_number(self.spread, "spread") >= 0:
            raise InputError("inference.spread", value=self.spread)

    @property
    def rules(self) -> Rules:
        return Rules(self.draws, self.warmup, self.accept, self.depth, adaptation=self.adaptation)


@dataclass(frozen=True)
class LaplaceDraws:
    """`draws` from the Gaussian at the mode, weighted by Pareto-smoothed importance sampling: an answer at once.

    The Gaussian is that of unconstrained coordinates, with the curvature of the log-density at its maximum; its tails
    are made heavier, those of Student's t with `tails` degrees of freedom, so that weights see the tails of the
    posterior. The shape k-hat of the largest weights says whether the draws can be trusted (below 0.7).
    """

    draws: int = 4000
    tails: float = field(default=5.0, repr=False)  # degrees of freedom; a choice
    lanes: int = field(default=32, repr=False)  # points that are solved side by side
    exact: int = field(
        default=60, repr=False
    )  # unknowns up to which the curvature is differenced; else Fisher's
    steps: int = field(default=20, repr=False)  # of Newton's method to the mode at most
    width: float = field(default=1e-3, repr=False)  # of the differences, in standard deviations
    enough: float = field(default=1e-4, repr=False)  # gain of the log-density below which the mode is found

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", as_whole(self.draws, "draws", 1))


@dataclass(frozen=True)
class Drawn:
    """Draws in unconstrained coordinates, with what the sampler says of them."""

    z: Array  # (chains, draws, d)
    log_density: Array  # (chains, draws)
    energy: Array | None = None  # (chains, draws)
    divergent: Array | None = None  # (chains, draws) bool
    depth: Array | None = None  # (chains, draws): doublings
    accept: Array | None = None  # (chains, draws)
    steps: tuple[float, ...] = ()  # step size of each chain
    leaps: int = 0
    exploded: int = 0
    effective: float | None = None  # draws that the importance weights are worth
    khat: float | None = None
    missing: int = 0  # draws of each chain that an interruption prevented


# ---- chains --------------------------------------------------------------------------------------------------------


def run_nuts(method: NUTS, target: Target, modes: list[Mode], seed: int, show: Show) -> Drawn:
    """All chains side by side; chain k begins near mode k, counted round. Ctrl-C returns what is drawn."""
    seeds = np.random.SeedSequence([seed, 1]).spawn(method.chains)
    rngs = [np.random.default_rng(one) for one in seeds]
    traces = [Trace() for _ in range(method.chains)]
    chains: list[Chain] = []
    for k, (rng, trace) in enumerate(zip(rngs, traces, strict=True)):
        mode = modes[k % len(modes)]
        (start,) = starting_points(target, mode, 1, rng, method.spread)
        if not start.possible:
            raise InputError("inference.posterior_no_start")
        chains.append(chain(method.rules, start, mode.covariance, rng, trace))
    try:
        _together(target, chains, traces, method, show)
    except KeyboardInterrupt:
        if min(len(trace.z) for trace in traces) == 0:
            raise
    return _drawn(traces, method.draws)


def _together(target: Target, chains: list[Chain], traces: list[Trace], method: NUTS, show: Show) -> None:
    """Send every chain the density where it asks for it, round after round, until all have ended."""
    asked = {k: next(one) for k, one in enumerate(chains)}
    total = method.chains * (method.warmup + method.draws)
    while asked:
        keys = list(asked)
        for k, position in zip(keys, target.positions([asked[k] for k in keys]), strict=True):
            try:
                asked[k] = chains[k].send(position)
            except StopIteration:
                del asked[k]
        show(sum(t.iterations for t in traces), total, sum(map(sum, (t.divergent for t in traces))))


def _drawn(traces: list[Trace], wanted: int) -> Drawn:
    """The draws that all chains have."""
    count = min(len(trace.z) for trace in traces)

    def table(name: str) -> Array:
        return np.array([getattr(trace, name)[:count] for trace in traces])

    return Drawn(
        z=table("z"),
        log_density=table("log_density"),
        energy=table("energy"),
        divergent=table("divergent"),
        depth=table("depth"),
        accept=table("accept"),
        steps=tuple(trace.step for trace in traces),
        leaps=sum(trace.leaps for trace in traces),
        exploded=sum(trace.exploded for trace in traces),
        missing=wanted - count,
    )


# ---- the Gaussian at the mode --------------------------------------------------------------------------------------


def run_laplace(method: LaplaceDraws, target: Target, mode: Mode, seed: int, show: Show) -> Drawn:
    """Equally weighted draws: points of the Gaussian, resampled by their smoothed weights."""
    rng = np.random.default_rng([seed, 2])
    top, covariance = maximum(method, target, mode)
    root = root_of(covariance)
    degrees, size = method.tails, len(root)
    scattered = rng.standard_normal((method.draws, size))
    scattered /= np.sqrt(rng.chisquare(degrees, method.draws) / degrees)[:, None]
    z = top.z + scattered @ root.T
    log_density, done = np.empty(method.draws), 0
    try:
        for first in range(0, method.draws, target.lanes.count):
            some = z[first : first + target.lanes.count]
            found = target.positions([(one, top.track) for one in some], gradient=False)
            log_density[first : first + len(some)] = [one.log_density for one in found]
            done = first + len(some)
            show(done, method.draws, 0)
    except KeyboardInterrupt:
        if not done:
            raise
    drawn_from = -0.5 * (degrees + size) * np.log1p(np.sum(scattered[:done] ** 2, axis=1) / degrees)
    ratios = log_density[:done] - drawn_from
    exploded = int(np.sum(~np.isfinite(ratios)))
    if exploded == done:
        raise InputError("inference.posterior_no_start")
    log_weights, khat = smoothed(ratios)
    weights = np.exp(log_weights)
    chosen = rng.permutation(_resampled(weights, done, rng))
    effective = float(1 / np.sum(weights**2))
    return Drawn(
        z[chosen][None],
        log_density[chosen][None],
        exploded=exploded,
        effective=effective,
        khat=khat,
        missing=method.draws - done,
    )


def _resampled(weights: Array, count: int, rng: np.random.Generator) -> Array:
    """(count,): indices by systematic resampling: each as often as its weight says, up to one."""
    places = (np.arange(count) + rng.uniform()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)


def maximum(method: LaplaceDraws, target: Target, mode: Mode) -> tuple[Position, Array]:
    """The largest log-density in z near a mode, and minus the inverse of its second derivative there."""
    (here,) = target.positions([(mode.z, None)])
    if not here.possible:
        raise InputError("inference.posterior_no_start")
    covariance = mode.covariance
    for _ in range(method.steps):
        covariance = curvature(method, target, here, covariance)
        step = covariance @ here.slope
        gain = 0.5 * float(here.slope @ step)
        if not gain > method.enough:
            break
        lengths = 0.5 ** np.arange(8)
        trials = target.positions([(here.z + length * step, here.track) for length in lengths])
        best = max(trials, key=lambda one: one.log_density)
        if not best.log_density > here.log_density:
            break
        here = best
    return here, covariance


def curvature(method: LaplaceDraws, target: Target, here: Position, covariance: Array) -> Array:
    """The covariance of the Gaussian at a position: from differences of the gradient along whitened directions."""
    root = root_of(covariance)
    if len(root) > method.exact:
        return covariance
    moves = [sign * method.width * root[:, k] for k in range(len(root)) for sign in (1, -1)]
    found = target.positions([(here.z + move, here.track) for move in moves])
    if not all(one.possible for one in found):
        return covariance
    slopes = np.array([one.slope for one in found]) @ root
    hessian = -(slopes[0::2] - slopes[1::2]) / (2 * method.width)
    return np.asarray(root @ inverse_of(0.5 * (hessian + hessian.T)) @ root.T)
