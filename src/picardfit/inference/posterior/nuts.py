"""Hamiltonian Monte Carlo whose paths end where they turn back: multinomial NUTS, as in Stan.

Betancourt, A Conceptual Introduction to Hamiltonian Monte Carlo (2017); Hoffman and Gelman (2014) for the step size.
In whitened coordinates z = C w, with C C' the metric (an estimate of the posterior covariance), momenta r are standard
normal and a step of length e is

    r <- r + e/2 C' grad,   z <- z + e C r,   r <- r + e/2 C' grad.

A chain is a generator: it yields the point where it needs the density and is sent the `Position` there. So chains are
written one after the other and run side by side: each round asks for the points of all chains at once.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.attempt import Track
from picardfit.inference.posterior.chart import Chart
from picardfit.inference.posterior.density import Position

Ask = tuple[Array, Track | None]


@dataclass(frozen=True)
class Warmup:
    """How step size and metric are found before the draws that count; values without an origin are Stan's."""

    first: float = (
        0.15  # part of the warm-up before the metric is adapted (Stan: 75 of 1000, from a worse metric)
    )
    last: float = 0.15  # part after the metric is adapted for the last time
    window: int = 25  # iterations of the first window; each later one is twice as long
    accept: float = (
        0.1  # regularisation of the step size, gamma (Stan: 0.05, which overshoots from a good metric)
    )
    delay: float = 10.0  # weight of early iterations: t0
    decay: float = 0.75  # of the weight of an iteration in the mean step size: kappa
    ahead: float = (
        2.0  # steps are drawn towards this many times the first one (Stan: 10, from an unknown metric)
    )
    faith: float = 5.0  # draws that the metric at hand is worth, beside one for each unknown

    def windows(self, iterations: int) -> list[int]:
        """The iterations after which the metric is made anew."""
        begin, end = int(self.first * iterations), iterations - int(self.last * iterations)
        ends, width = [], self.window
        while begin < end:
            stop = begin + width
            if stop + 2 * width > end:
                stop = end
            ends.append(stop)
            begin, width = stop, 2 * width
        return ends


@dataclass(frozen=True)
class Rules:
    """What one chain does."""

    draws: int
    warmup: int
    accept: float = 0.8  # wanted mean acceptance probability
    depth: int = 10  # doublings of a path at most
    divergent: float = 1000.0  # error of the energy beyond which a path has left the solution (Stan's)
    adaptation: Warmup = field(default_factory=Warmup)


class Iteration(NamedTuple):
    """Where an iteration ended, and how."""

    z: Array
    log_density: float
    energy: float
    accept: float
    depth: int
    divergent: bool
    leaps: int  # steps of the path
    exploded: int  # of them, those to points without a solution


@dataclass(frozen=True)
class _End:
    position: Position
    momentum: Array


@dataclass(frozen=True)
class _Tree:
    """A part of a path: its ends, the sum of its momenta, and a point drawn from it by its weight."""

    left: _End
    right: _End
    total: Array
    chosen: Position
    weight: float  # log of the sum of e^-energy error
    energy: float  # of the chosen point
    broken: bool = False  # diverged or turned: no point of it may be chosen


class _Path:
    """One transition: what its leaps have in common."""

    def __init__(
        self, rules: Rules, root: Array, step: float, begin: float, rng: np.random.Generator
    ) -> None:
        self.rules, self.root, self.step, self.begin, self.rng = rules, root, step, begin, rng
        self.accept, self.leaps, self.exploded, self.diverged = 0.0, 0, 0, False

    def leap(self, end: _End, direction: int) -> Generator[Ask, Position, _Tree]:
        length, root = direction * self.step, self.root
        half = end.momentum + 0.5 * length * (root.T @ end.position.slope)
        found = yield end.position.z + length * (root @ half), end.position.track
        with np.errstate(over="ignore", invalid="ignore"):  # such a path has left the solution
            momentum = half + 0.5 * length * (root.T @ found.slope)
            energy = 0.5 * float(momentum @ momentum) - found.log_density
        error = energy - self.begin if found.possible else np.inf
        self.leaps += 1
        self.exploded += not found.possible
        self.accept += float(np.exp(min(0.0, -error)))
        broken = not error <= self.rules.divergent
        self.diverged |= broken
        here = _End(found, momentum)
        return _Tree(here, here, momentum, found, -error, energy, broken)

    def build(self, depth: int, end: _End, direction: int) -> Generator[Ask, Position, _Tree]:
        """2^depth leaps from an end of the path; fewer if one diverges or a part turns."""
        if depth == 0:
            return (yield from self.leap(end, direction))
        first = yield from self.build(depth - 1, end, direction)
        if first.broken:
            return first
        second = yield from self.build(depth - 1, first.right if direction > 0 else first.left, direction)
        if second.broken:
            return second
        return self.joined(first, second, direction, biased=False)

    def joined(self, old: _Tree, new: _Tree, direction: int, biased: bool) -> _Tree:
        """Two neighbouring parts as one. A `biased` choice prefers the new part, which moves further (Betancourt)."""
        left, right = (old, new) if direction > 0 else (new, old)
        weight = float(np.logaddexp(old.weight, new.weight))
        chance = new.weight - (old.weight if biased else weight)
        taken = new if np.log(self.rng.uniform()) < chance else old
        turned = _turned(left.left, right.right, left.total + right.total)
        turned |= _turned(left.left, right.left, left.total + right.left.momentum)
        turned |= _turned(left.right, right.right, left.right.momentum + right.total)
        return _Tree(
            left.left, right.right, left.total + right.total, taken.chosen, weight, taken.energy, turned
        )


def _turned(left: _End, right: _End, total: Array) -> bool:
    return not (left.momentum @ total > 0 and right.momentum @ total > 0)


def _transition(
    rules: Rules, here: Position, root: Array, step: float, rng: np.random.Generator
) -> Generator[Ask, Position, tuple[Position, float, int, _Path]]:
    """The next position, its energy, the doublings, and the path."""
    momentum = rng.standard_normal(len(here.z))
    begin = 0.5 * float(momentum @ momentum) - here.log_density
    path, end = _Path(rules, root, step, begin, rng), _End(here, momentum)
    tree = _Tree(end, end, momentum, here, 0.0, begin)
    depth = 0
    while depth < rules.depth:
        direction = 1 if rng.uniform() < 0.5 else -1
        new = yield from path.build(depth, tree.right if direction > 0 else tree.left, direction)
        depth += 1
        if new.broken:
            break
        tree = path.joined(tree, new, direction, biased=True)
        if tree.broken:
            break
    return tree.chosen, tree.energy, depth, path


class StepSize:
    """Dual averaging of log(step) until the mean acceptance is as wanted (Hoffman and Gelman, section 3.2)."""

    def __init__(self, step: float, accept: float, rules: Warmup) -> None:
        self.centre, self.accept, self.rules = np.log(rules.ahead * step), accept, rules
        self.count, self.gap, self.mean, self.step = 0, 0.0, float(np.log(step)), step

    def learn(self, accept: float) -> None:
        rules = self.rules
        self.count += 1
        eta = 1 / (self.count + rules.delay)
        self.gap = (1 - eta) * self.gap + eta * (self.accept - accept)
        log_step = self.centre - np.sqrt(self.count) / rules.accept * self.gap
        weight = self.count**-rules.decay
        self.mean = weight * log_step + (1 - weight) * self.mean
        self.step = float(np.exp(log_step))


def root_of(covariance: Array) -> Array:
    """C with C C' the covariance, raised a little where rounding makes it singular."""
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    scaled, ridge = covariance / size[:, None] / size, 0.0
    for _ in range(20):
        try:
            return np.asarray(size[:, None] * np.linalg.cholesky(scaled + ridge * np.eye(len(size))))
        except np.linalg.LinAlgError:
            ridge = max(10 * ridge, 1e-12)
    return np.diag(size)


@dataclass
class Chain:
    """A chain between two iterations: all that the next one depends on, and those that were done."""

    here: Position
    chart: Chart  # positions and iterations hold its v
    covariance: Array  # of v; the metric is its inverse
    rng: np.random.Generator
    sizes: StepSize
    done: list[Iteration] = field(default_factory=list)  # with the warm-up
    seen: list[Array] = field(default_factory=list)  # draws of this window of the warm-up

    @cached_property
    def root(self) -> Array:
        return root_of(self.covariance)

    def step(self, rules: Rules) -> float:
        """The step size: as it is tried in the warm-up, afterwards the mean of those tried."""
        warming = len(self.done) < rules.warmup or not rules.warmup
        return self.sizes.step if warming else float(np.exp(self.sizes.mean))

    def append(self, rules: Rules, one: Iteration) -> None:
        """Note an iteration, and learn from it in the warm-up."""
        warm, ends = rules.adaptation, rules.adaptation.windows(rules.warmup)
        self.done.append(one)
        count = len(self.done)
        if count > rules.warmup:
            return
        self.sizes.learn(one.accept)
        if int(warm.first * rules.warmup) < count <= (ends[-1] if ends else 0):
            self.seen.append(one.z)
        if count in ends and len(self.seen) > 1:
            together = self.chart.together
            faith = warm.faith + int(together.sum(axis=1).max())
            spread = together * np.atleast_2d(np.cov(np.array(self.seen).T, bias=True))
            self.covariance = (len(self.seen) * spread + faith * self.covariance) / (len(self.seen) + faith)
            self.__dict__.pop("root", None)
            self.seen = []
            self.sizes = StepSize(float(np.exp(self.sizes.mean)), rules.accept, warm)


def begun(rules: Rules, start: Position, chart: Chart, rng: np.random.Generator) -> Chain:
    """A chain before its first iteration."""
    first = StepSize(len(start.z) ** -0.25, rules.accept, rules.adaptation)
    return Chain(start, chart, np.eye(len(start.z)), rng, first)


def advance(rules: Rules, chain: Chain, until: int) -> Generator[Ask, Position, None]:
    """The iterations of a chain up to this number."""
    while len(chain.done) < until:
        step = chain.step(rules)
        here, energy, depth, path = yield from _transition(rules, chain.here, chain.root, step, chain.rng)
        chain.here, accept = here, path.accept / max(path.leaps, 1)
        chain.append(
            rules,
            Iteration(
                here.z, here.log_density, energy, accept, depth, path.diverged, path.leaps, path.exploded
            ),
        )
