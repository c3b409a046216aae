"""How draws are made: the settings of each method, and what a run returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from picardfit.checks import as_number, as_whole
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.chart import Bending
from picardfit.inference.posterior.nuts import Rules, Warmup

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
    counted: ClassVar[str] = "iterations"  # what a progress bar counts
    block: int = field(default=50, repr=False)  # iterations between two entries of a ledger; a choice
    adaptation: Warmup = field(default_factory=Warmup, repr=False)
    bending: Bending = field(default_factory=Bending, repr=False)

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("chains", 1), ("warmup", 0), ("depth", 1), ("block", 1)):
            object.__setattr__(self, name, as_whole(getattr(self, name), name, least))
        if not 0 < as_number(self.accept, "accept") < 1:
            raise InputError("inference.accept", value=self.accept)
        if not as_number(self.spread, "spread") >= 0:
            raise InputError("inference.spread", value=self.spread)

    @property
    def lanes(self) -> int:
        """Points that are solved side by side."""
        return self.chains

    @property
    def independent(self) -> int:
        """Chains of which each must have enough effective draws."""
        return self.chains

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
    counted: ClassVar[str] = "draws"
    independent: ClassVar[int] = 4  # as many effective draws are wanted as of 4 chains
    batch: int = field(default=32, repr=False)  # points that are solved side by side
    group: int = field(default=16, repr=False)  # batches that are sorted by the radius of their points
    hopeless: float = field(
        default=1.0, repr=False
    )  # k-hat of the first groups at which drawing ends: the weights have no finite mean (Vehtari et al.)
    near: int = field(default=64, repr=False)  # points solved last from which others may start; a choice
    bending: Bending = field(default_factory=Bending, repr=False)
    exact: int = field(
        default=60, repr=False
    )  # unknowns up to which the curvature is differenced; else Fisher's
    steps: int = field(default=20, repr=False)  # of Newton's method to the mode at most
    width: float = field(default=1e-3, repr=False)  # of the differences, in standard deviations
    enough: float = field(default=1e-4, repr=False)  # gain of the log-density below which the mode is found

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", as_whole(self.draws, "draws", 1))

    @property
    def lanes(self) -> int:
        return min(self.batch, self.draws)


@dataclass(frozen=True)
class Nutpie:
    """The No-U-Turn sampler of the package nutpie (`picardfit[samplers]`) on the same density: a cross-check.

    It begins around the best optimum. Its chains ask for one point at a time, so that `pf.NUTS` is quicker.
    """

    draws: int = 1000
    chains: int = 4
    warmup: int = 400
    counted: ClassVar[str] = "iterations"
    lanes: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("chains", 1), ("warmup", 1)):
            object.__setattr__(self, name, as_whole(getattr(self, name), name, least))

    @property
    def independent(self) -> int:
        return self.chains


@dataclass(frozen=True)
class Emcee:
    """The ensemble of the package emcee (`picardfit[samplers]`), which needs no gradients: a cross-check.

    `draws` of each of the `walkers` (at least two more than twice the unknowns), which are correlated for tens to
    hundreds of iterations: few of them are independent.
    """

    draws: int = 2000
    walkers: int = 32
    warmup: int = 500
    counted: ClassVar[str] = "iterations"
    independent: ClassVar[int] = (
        4  # the walkers are one ensemble: as many effective draws are wanted as of 4 chains
    )

    def __post_init__(self) -> None:
        for name, least in (("draws", 1), ("walkers", 4), ("warmup", 0)):
            object.__setattr__(self, name, as_whole(getattr(self, name), name, least))

    @property
    def lanes(self) -> int:
        return self.walkers // 2


Method = NUTS | LaplaceDraws | Nutpie | Emcee


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
    weighted: tuple[Array, Array] | None = (
        None  # points (n, d) and their weights (n,), from which z was drawn
    )
    khat: float | None = None
    missing: int = 0  # draws that an interruption prevented
