"""Algorithms 1-4 of the paper, as declarations of what they differ in; iteration.py has their one step.

All four descend on L(x, theta, u) with u held fixed (extended_loss.py) and then relax u <- (1 - sigma) u + sigma P u.
They differ in the order n of the iterate in L, in sigma (0: Algorithm 1 keeps u), and in whether the segments have
start states of their own (Algorithm 4) or are chained (Algorithms 1-3).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from picardfit.checks import as_number, as_whole, check_positive, is_number
from picardfit.collocation.mesh import Nodes
from picardfit.errors import InputError
from picardfit.solvers.picard_gradient import iteration
from picardfit.solvers.picard_gradient.extended_loss import Scheme
from picardfit.solvers.picard_gradient.sets import ConvexSet, check_set


@dataclass(frozen=True)
class GradientDescent:
    """Algorithm 1: gradient descent on L(x, theta, P^n u_0) with u_0 = x_0 for good.

    `order`: n, large enough for P^n u_0 to be near the solution over the whole span. `rate`: alpha, None for
    a backtracking line search. `tolerance`: epsilon, for the projected gradient norm and |u - P u|.
    `segments`, `nodes`, `family`: the grid that holds the path.
    `parameter_set`: Theta, on the global parameters in natural units; None for their bounds.
    `state_set`: X, on start states in natural units; None for the bounds of the initial states.
    """

    order: int = 10
    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    segments: int = 10
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)

    @property
    def scheme(self) -> Scheme:
        return Scheme(self.order, 0.0, self.rate, self.tolerance, segments=self.segments)

    init = iteration.init
    step = iteration.step
    solution = iteration.solution


@dataclass(frozen=True)
class GradientContractive:
    """Algorithm 2: the gradient sees only the explicit theta in g, u is contracted (n = 0).

    Its fixed point is feasible but not optimal: a parameter that g does not contain never moves, nor does x.
    Settings as in `GradientDescent`; `sigma`: the share of P u in the new path.
    """

    sigma: float = 0.5
    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    segments: int = 10
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)

    @property
    def scheme(self) -> Scheme:
        return Scheme(0, self.sigma, self.rate, self.tolerance, segments=self.segments)

    init = iteration.init
    step = iteration.step
    solution = iteration.solution


@dataclass(frozen=True)
class GradientContractMultiplier:
    """Algorithm 3: gradient of L(x, theta, P^n u_k), then contraction of u_k over the whole span.

    The fixed point is biased for small `order` and approaches the optimum as it grows; the span must be short
    enough for P to contract. Settings as in `GradientDescent` and `GradientContractive`.
    """

    order: int = 2
    sigma: float = 0.5
    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    segments: int = 10
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)

    @property
    def scheme(self) -> Scheme:
        return Scheme(self.order, self.sigma, self.rate, self.tolerance, segments=self.segments)

    init = iteration.init
    step = iteration.step
    solution = iteration.solution


@dataclass(frozen=True)
class ExtendedGradientContractMultiplier:
    """Algorithm 4: every segment has its own start state, `continuity` (lambda) penalises the jumps.

    `segment_length`: T, or `segments`: J for each experiment; with neither, T = 1/K_x, estimated along the start path.
    Jumps of inputs are knots in addition. `state_set`: X, on the start states of all segments; None bounds the
    initial states only. Other settings as in `GradientDescent` and `GradientContractive`.
    With `order` = 1 the iteration may leave the optimum when `continuity` is large: for the paper's Van der
    Pol problem (T = 0.25) it attracts at lambda = 1 and repels at lambda = 5; order 2 attracts at both.
    """

    order: int = 2
    sigma: float = 0.5
    continuity: float = 5.0
    segment_length: float | None = None
    segments: int | None = None
    rate: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 20_000
    nodes: int = 5
    family: Nodes = Nodes.RADAU
    parameter_set: ConvexSet | None = None
    state_set: ConvexSet | None = None
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)
        if not is_number(self.continuity) or self.continuity < 0:
            raise InputError("solvers.negative", "continuity", value=self.continuity, example=1)
        as_number(self.continuity, "continuity")
        if self.segments is not None and self.segment_length is not None:
            raise InputError("solvers.both_segments")

    @property
    def scheme(self) -> Scheme:
        return Scheme(
            self.order,
            self.sigma,
            self.rate,
            self.tolerance,
            lifted=True,
            continuity=self.continuity,
            segments=self.segments,
            segment_length=self.segment_length,
        )

    init = iteration.init
    step = iteration.step
    solution = iteration.solution


Algorithm = (
    GradientDescent | GradientContractive | GradientContractMultiplier | ExtendedGradientContractMultiplier
)
WHOLE = ("order", "max_iterations", "segments")
REAL = ("sigma", "rate", "tolerance", "segment_length")


def _check(method: Algorithm) -> None:
    """InputError for settings out of range; each algorithm has some of them."""
    check_positive(method, whole=_given(method, WHOLE), real=_given(method, REAL))
    as_whole(method.nodes, "nodes", 2, 5)
    for name in _given(method, REAL):
        as_number(getattr(method, name), name)
    if not isinstance(method, GradientDescent) and method.sigma > 1:
        raise InputError("solvers.above_one", "sigma", value=method.sigma, example=type(method).sigma)
    if not isinstance(method.family, Nodes):
        raise InputError("solvers.not_a_family", value=method.family)
    for name in _given(method, ("parameter_set", "state_set")):
        check_set(getattr(method, name), name)


def _given(method: Algorithm, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the settings that the algorithm has, without optional ones that are None."""
    has = {one.name: one.default for one in fields(method)}
    return tuple(
        name for name in names if name in has and (has[name] is not None or getattr(method, name) is not None)
    )
