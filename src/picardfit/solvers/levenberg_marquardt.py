"""A bounded Levenberg-Marquardt search: damp the model until its step lowers the value, then damp less.

The caller's `propose` solves its own damped quadratic model (in a box, on a line) and evaluates the end of the step;
this loop decides whether the step is taken, how the damping changes and when the search ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State")  # a point with the quadratic model there
Point = TypeVar("Point")  # the end of a step


@dataclass(frozen=True)
class Damping:
    """How damping follows success; its unit is that of the caller, mostly the diagonal of the Hessian."""

    first: float = 0.0
    increase: float = 10.0  # factor after a step that was not taken ...
    least_increased: float = 0.0  # ... at least to this
    decrease: float = 0.1  # factor after a step that was taken ...
    least: float = 0.0  # ... at least to this
    negligible: float = 0.0  # damping below this becomes the least at once
    strongest: float = 1e8  # beyond it the search gives up
    sufficient: float = 0.0  # fraction of the promised decrease that a step must bring
    steps: int = 60  # that are taken, at most
    trials: int = 1000  # of steps, taken or not, at most

    def raised(self, damping: float) -> float:
        return max(self.increase * damping, self.least_increased)

    def lowered(self, damping: float) -> float:
        return self.least if damping < self.negligible else max(self.decrease * damping, self.least)


@dataclass(frozen=True)
class Proposal(Generic[Point]):
    """A damped step."""

    point: Point  # its end
    gain: float  # decrease of the value; -inf where the end cannot be evaluated
    promised: float = 0.0  # decrease of the model
    rounding: float = 0.0  # change of the value that may be rounding error
    last: bool = False  # whether the search ends here, at the end of this step if it is taken


@dataclass(frozen=True)
class Ended(Generic[State, Point]):
    """Where a search ended."""

    state: State  # where the model was made last
    proposal: Proposal[Point] | None  # the last step
    taken: bool  # whether the value fell in it
    converged: bool
    steps: int  # models that were made


def minimise(
    state: State,
    propose: Callable[[State, float], Proposal[Point] | None],
    move: Callable[[Proposal[Point]], State | None],
    damping: Damping,
    begin: float | None = None,
) -> Ended[State, Point]:
    """Search from a state. propose(state, damping) is None where the model has no minimum.

    move(proposal) makes the model at the end of a step that was taken; None if it cannot. `begin` is the first damping.
    """
    now, steps = damping.first if begin is None else begin, 0
    proposal = None
    for _ in range(damping.trials):
        if steps == damping.steps or now > damping.strongest:
            break
        proposal = propose(state, now)
        if proposal is None:
            break
        taken = proposal.gain >= damping.sufficient * proposal.promised - proposal.rounding
        if proposal.last:
            return Ended(state, proposal, taken, True, steps)
        if not taken:
            now = damping.raised(now)
            continue
        now, moved = damping.lowered(now), move(proposal)
        if moved is None:
            break
        state, steps = moved, steps + 1
    return Ended(state, proposal, False, False, steps)
