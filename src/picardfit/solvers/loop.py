"""The one loop around every method: limits, finiteness, interruption and progress.

A method is a frozen dataclass of settings with `init`, `step` and `solution`; a step is pure and never loops, prints
or times itself. Its state carries `status` (None while running), `loss`, `jump` and `residual` (|u - P u|).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Point, point_at
from picardfit.errors import Status
from picardfit.problem.problem import Problem
from picardfit.problem.start import Start

LONG = 60  # iterations after which a search may need help


@dataclass(frozen=True)
class Solution:
    """What a method hands over: unknowns and path on a mesh."""

    system: Discretisation
    unknowns: np.ndarray = field(repr=False)  # (experiments, width), internal coordinates
    states: np.ndarray = field(repr=False)  # (segments, states): start state of each segment
    path: np.ndarray = field(repr=False)  # (segments, nodes, states)
    jumps: np.ndarray = field(repr=False)  # (linked, states)

    @cached_property
    def point(self) -> Point:
        """Slopes, samples, outputs and the objective along the path, evaluated anew."""
        return point_at(self.system, self.unknowns, self.states, self.path)

    def __getstate__(self) -> dict:
        return {key: value for key, value in self.__dict__.items() if key != "point"}


@dataclass(frozen=True)
class Progress:
    """One line of news from a running fit."""

    start: int  # which start, from 0
    starts: int  # how many in all
    iteration: int
    loss: float
    jump: float


@dataclass(frozen=True)
class Outcome:
    """How one run ended. `trace` holds (loss, jump, Picard residual) of every iteration."""

    solution: Solution | None
    status: Status
    iterations: int
    seconds: float
    trace: np.ndarray  # (iterations, 3)


class Method(Protocol):
    """What the loop needs of a method."""

    max_iterations: int

    def init(self, problem: Problem, start: Start): ...

    def step(self, state): ...

    def solution(self, state) -> Solution | None: ...


def run(
    method: Method,
    state,
    news: Callable[[int, float, float], None] = lambda *_: None,
    help_out: Callable[[object], object | None] = lambda _: None,
) -> Outcome:
    """Iterate from a state until the method says how it ended, the limit is reached, or the user interrupts.

    `help_out` may lead a search that takes LONG, or twice or four times as long, to a better state, once.
    """
    began = time.perf_counter()
    trace: list[tuple[float, float, float]] = []
    offers = (LONG, 2 * LONG, 4 * LONG)
    status = state.status
    try:
        while status is None and len(trace) < method.max_iterations:
            state = method.step(state)
            trace.append((state.loss, state.jump, state.residual))
            status = state.status
            news(len(trace), *trace[-1][:2])
            if status is None and len(trace) in offers and (helped := help_out(state)) is not None:
                state, status, offers = helped, helped.status, ()
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if status is None:
        status = Status.ITERATION_LIMIT
    seconds = time.perf_counter() - began
    return Outcome(method.solution(state), status, len(trace), seconds, np.array(trace, float).reshape(-1, 3))
