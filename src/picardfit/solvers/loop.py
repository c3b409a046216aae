"""The loop around every method: limits, interruption and progress.

A method is a frozen dataclass of settings with `init`, `step` and `solution`; a step is pure and never loops, prints
or times itself. Its state carries `status` (None while it runs), `loss`, `jump` and `residual` (|u - P u|).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import Any, ClassVar, Protocol, Self, TypeGuard

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.point import Point, point_at
from picardfit.errors import Status
from picardfit.problem.problem import Problem, Start

Stage = tuple[int, int]  # which stage of a method, and of how many


class News(Protocol):
    """What the loop calls after an iteration."""

    def __call__(
        self,
        iteration: int,
        loss: float,
        jump: float,
        stage: Stage | None = None,
        solution: Callable[[], Solution | None] | None = None,
        /,
    ) -> None: ...


@dataclass(frozen=True)
class Solution:
    """What a method returns: the unknowns, and the path on a mesh."""

    system: Discretisation
    unknowns: np.ndarray = field(repr=False)  # (experiments, width), internal coordinates
    states: np.ndarray = field(repr=False)  # (segments, states): start state of each segment
    path: np.ndarray = field(repr=False)  # (segments, nodes, states)
    jumps: np.ndarray = field(repr=False)  # (linked, states)

    @cached_property
    def point(self) -> Point:
        """Slopes, samples, outputs and the objective along the path, evaluated again."""
        return point_at(self.system, self.unknowns, self.states, self.path)

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "point"}


@dataclass(frozen=True)
class Progress:
    """What a running fit reports after each iteration."""

    start: int  # which start, from 0
    starts: int  # number of starts
    iteration: int
    loss: float
    jump: float
    stage: Stage | None = None  # which stage of continuity, and of how many; None: the method has none
    done: int = 0  # searches that have ended
    candidates: bool = False  # whether the iteration is one of all simulated candidates; they have no jumps
    solution: Callable[[], Solution | None] | None = field(default=None, repr=False, compare=False)
    # ^ gives the path of this iteration to whoever draws it; None where there is none in this process


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `trace` holds (loss, jump, Picard residual) of every iteration."""

    solution: Solution | None
    status: Status
    iterations: int
    seconds: float
    trace: np.ndarray  # (iterations, 3)
    work: float = 0.0  # see `StepCost`

    def then(self, second: Outcome) -> Outcome:
        """How a run that continued this one ended, with the iterations, seconds and work of both."""
        trace = np.concatenate([self.trace, second.trace])
        seconds, work = self.seconds + second.seconds, self.work + second.work
        return replace(second, trace=trace, iterations=len(trace), seconds=seconds, work=work)


@dataclass(frozen=True)
class StepCost:
    """What a step costs, in units of what it does for a segment of a small model: about 7 microseconds.

    The same on every machine, so that decisions that depend on it are.
    """

    fixed: float = 80.0  # benchmarks/iterations.py and scaling.py: 0.6 ms a step, 7 us a segment
    block: float = (
        20.0  # nodes times states up to which a segment is small; larger matrices cost their square
    )

    def of(self, state: IterationState) -> float:
        return self.fixed + state.segments * max(1.0, (state.block / self.block) ** 2)


class IterationState(Protocol):
    """What the loop reads from the state of a method."""

    @property
    def loss(self) -> float: ...

    @property
    def value(self) -> float: ...

    @property
    def jump(self) -> float: ...

    @property
    def residual(self) -> float: ...

    @property
    def status(self) -> Status | None: ...

    @property
    def segments(self) -> int: ...

    @property
    def block(self) -> int: ...


class Method(Protocol):
    """What the loop needs of a method.

    `exact`: whether a fixed point of the iteration is an optimum of the problem. If it is not (Algorithms 1-4 with a
    finite order), the certificate is judged more leniently and the search is not repeated.
    """

    exact: ClassVar[bool]

    @property
    def max_iterations(self) -> int: ...

    def init(self, problem: Problem, start: Start) -> IterationState: ...

    def step(self, state: Any) -> IterationState: ...

    def solution(self, state: Any) -> Solution | None: ...


class ExactMethod(Method, Protocol):
    """A method whose fixed points are optima; it can continue from an earlier solution, and on a finer mesh."""

    @property
    def nodes(self) -> int: ...

    @property
    def resolution(self) -> float: ...

    def resume(self, problem: Problem, solution: Solution, stiff: bool = False) -> IterationState: ...

    def with_resolution(self, resolution: float) -> Self: ...

    def with_limit(self, max_iterations: int) -> Self: ...

    def stage(self, state: Any) -> Stage: ...


def is_exact(method: Method) -> TypeGuard[ExactMethod]:
    """Whether fixed points of the method are optima."""
    return method.exact


@dataclass(frozen=True)
class Run:
    """A run so far, which `iterate` continues."""

    state: IterationState
    status: Status | None = None  # None while the method has not ended
    trace: tuple[tuple[float, float, float], ...] = ()  # loss, jump, Picard residual
    seconds: float = 0.0
    work: float = 0.0  # see `StepCost`

    def outcome(self, method: Method) -> Outcome:
        """How the run ended; one that the method did not end has reached its limit."""
        trace = np.array(self.trace, float).reshape(-1, 3)
        status = Status.ITERATION_LIMIT if self.status is None else self.status
        return Outcome(method.solution(self.state), status, len(trace), self.seconds, trace, self.work)


def ignore(*_: object) -> None:
    """Report nothing."""


def run(method: Method, state: IterationState, news: News = ignore) -> Outcome:
    """Iterate from a state until the method ends, the limit is reached, or the user interrupts."""
    return iterate(method, Run(state, state.status), news).outcome(method)


def never(_: IterationState) -> bool:
    """No state has arrived."""
    return False


def iterate(
    method: Method,
    so_far: Run,
    news: News = ignore,
    work: float = inf,
    has_arrived: Callable[[IterationState], bool] = never,
    cost: StepCost = StepCost(),
) -> Run:
    """Continue a run until the method ends, its limit is reached, it has done this work, or the user interrupts.

    It also ends where it has arrived at an optimum that is known already.
    """
    began, done = time.perf_counter(), so_far.work
    state, status, trace = so_far.state, so_far.status, list(so_far.trace)
    try:
        while status is None and len(trace) < method.max_iterations and done < work:
            done += cost.of(state)
            state = method.step(state)
            trace.append((state.loss, state.jump, state.residual))
            status = state.status
            stage = method.stage(state) if is_exact(method) else None
            news(len(trace), state.loss, state.jump, stage, partial(method.solution, state))
            if status is None and has_arrived(state):
                status = Status.ARRIVED
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return Run(state, status, tuple(trace), so_far.seconds + time.perf_counter() - began, done)
