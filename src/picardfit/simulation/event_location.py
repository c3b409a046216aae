"""Integration of a model with events: each event is located, its states are reset, and the integration restarts.

SciPy's integrators step from one event, break or dose to the next (DOP853, or Radau where that takes too many steps).
After each step the triggers are evaluated along the step's interpolant; where one rises through zero, its root is the
time of the event. An event whose condition holds at t0 waits until it has become false and true again, unless it counts
as false before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.model.inputs import constant_between_breaks, values_at
from picardfit.model.model import Model
from picardfit.model.switches import switched

if TYPE_CHECKING:
    from picardfit.simulation.trajectories import Run


ZENO = "simulation.zeno"  # the trouble of events that accumulate


@dataclass(frozen=True)
class EventLocation:
    """Settings of the integration with events; all are choices."""

    points: int = 8  # of a step at which triggers are evaluated, at least
    cells: int = 5_000  # of the run, in each of which they are: a double crossing within one is missed
    together: float = 1e-12  # of the run: events closer than this are simultaneous
    accumulating: float = 1e-7  # of the run: gaps between events below this are suspicious
    accumulated: int = 25  # that many of them in a row: the events never end (Zeno)
    halved: int = 3  # that many in a row, each at most half as long as the one before: they do not either
    most: int = 50_000  # events of a run
    chain: int = 20  # events at one instant that cause each other, for each event of the model
    explicit_steps: int = 5_000  # between two events or breaks before the implicit method takes over
    steps: int = 100_000  # of that method
    held: float = 1e-9  # of a trigger's largest value so far: less is rounding, and its slope decides
    ahead: float = 1e-7  # of the run: the step that tells this slope
    margin: float = 20.0  # the integrators get rtol / margin: errors of single steps add up
    floor: float = 1e-4  # absolute tolerance, relative to rtol times the largest value of a state so far
    finest: float = 1e-13  # smallest relative tolerance


@dataclass(frozen=True)
class Happening:
    """Events that fired at one time, in the order in which they did."""

    time: float
    events: tuple[int, ...]


@dataclass(frozen=True)
class Trouble:
    """Why a run with events has no solution: the code of a sentence, the event, and when."""

    code: str
    event: int
    time: float


@dataclass(frozen=True, eq=False)
class EventRun:
    """What the integration of a run with events found."""

    states: np.ndarray | None  # (times, states); None where it failed
    happenings: tuple[Happening, ...]
    trouble: Trouble | None = None  # None also where an integrator failed
    reached: float = np.nan
    before: tuple[np.ndarray, ...] = field(default=(), repr=False)  # the states before each happening


class _Stopped(Exception):
    """Ends an integration that has no solution; its argument is the trouble, or None where an integrator failed."""


def integrate(
    model: Model, run: Run, rtol: float = 1e-10, settings: EventLocation = EventLocation()
) -> EventRun:
    """The states of a run at its times, after the events at them, with every event that happened."""
    with np.errstate(all="ignore"):
        sides = switched(model)
        if sides is None:
            return _integrated(model, run, rtol, settings)
        inputs = values_at(run.inputs, model.inputs, np.array([run.t0]))[0]
        modes = sides.begin(run.t0, run.initial, run.params, inputs)
        jumps = None if run.jumps is None else run.jumps.with_more(len(modes))
        more = replace(run, initial=np.append(run.initial, modes), jumps=jumps)
        return _without_modes(_integrated(sides.model, more, rtol, settings), model)


def _integrated(model: Model, run: Run, rtol: float, settings: EventLocation) -> EventRun:
    work = _Work(model, run, max(rtol / settings.margin, settings.finest), settings)
    try:
        work.go()
    except _Stopped as stopped:
        return EventRun(None, tuple(work.happened), stopped.args[0], work.time)
    return EventRun(work.found, tuple(work.happened), None, work.time, tuple(work.before))


def _without_modes(found: EventRun, model: Model) -> EventRun:
    """What was found for a switched model, in the states and events of the model itself."""
    states, events, trouble = len(model.states), len(model.events), found.trouble
    own = [tuple(k for k in one.events if k < events) for one in found.happenings]
    kept = [k for k, fired in enumerate(own) if fired]
    return replace(
        found,
        trouble=None if trouble is None or trouble.event >= events else trouble,
        states=None if found.states is None else found.states[:, :states],
        happenings=tuple(Happening(found.happenings[k].time, own[k]) for k in kept),
        before=tuple(found.before[k][:states] for k in kept if found.before),
    )


class _Work:
    """One run as it goes on."""

    def __init__(self, model: Model, run: Run, rtol: float, settings: EventLocation) -> None:
        self.model, self.run, self.rtol, self.settings = model, run, rtol, settings
        self.time, self.x = run.t0, np.array(run.initial, float)
        self.edges = run.edges
        self.span = max(float(self.edges[-1] - self.edges[0]), np.finfo(float).tiny)
        self.found = np.tile(self.x, (len(run.times), 1))
        self.happened: list[Happening] = []
        self.before: list[np.ndarray] = []
        self.size = np.abs(self.x)
        self.short, self.halved, self.gap = 0, 0, np.inf
        self.maps = model.event_maps
        value = self.triggers(self.time, self.x)
        self.trigger_size = np.abs(value)
        self.holds = value > 0  # (events,) bool
        for k in np.flatnonzero(value == 0):  # SBML's `time >= 0` holds from the beginning
            self.holds[k] = model.events[k].at_zero and not model.events[k].begins_false
        self.at_start = [
            k for k, one in enumerate(model.events) if one.begins_false and value[k] > 0 and not run.begun
        ]

    def go(self) -> None:
        if len(self.run.times) == 0:
            return
        self.found[self.run.times <= self.time] = self.x
        if self.at_start:
            self._fire(self.at_start)
        for stop in self.edges[1:]:
            first = self.time
            while self.time < stop:
                self._advance(first, float(stop))
            if self.run.jumps is not None:
                after = self.run.jumps.at(float(stop), self.x)
                if not np.array_equal(after, self.x):
                    self._dosed(after)

    def _dosed(self, after: np.ndarray) -> None:
        """The states after a dose, and after the events that it causes."""
        before, self.x = self.x, after
        now = self._conditions()
        rising, self.holds = np.flatnonzero(now & ~self.holds), now
        if len(rising):
            self.happened.append(Happening(self.time, tuple(self._cascade(rising.tolist()))))
            self.before.append(before)
        self.found[self.run.times == self.time] = self.x

    # ---- triggers --------------------------------------------------------------------------------------------------

    def _inputs(self, t: float) -> np.ndarray:
        if not self.model.inputs:
            return np.zeros(0)
        return values_at(self.run.inputs, self.model.inputs, np.array([t]))[0]

    def triggers(self, t: float, x: np.ndarray) -> np.ndarray:
        """(events,): positive where a condition holds."""
        return self.maps.triggers.value(t, x, self.run.params, self._inputs(t))

    def _conditions(self) -> np.ndarray:
        """(events,) bool: which conditions hold just after now; where a trigger is nearly zero its slope decides."""
        value, inputs, step = (
            self.triggers(self.time, self.x),
            self._inputs(self.time),
            self.settings.ahead * self.span,
        )
        rate = np.asarray(self.model.rhs.value(self.time, self.x, self.run.params, inputs))
        ahead = self.maps.triggers.value(self.time + step, self.x + step * rate, self.run.params, inputs)
        near = np.abs(value) <= self.settings.held * self.trigger_size
        return np.where(near, ahead > value, value > 0)

    def _cascade(self, fired: Sequence[int]) -> list[int]:
        """Reset the states for the events that fired and for those that become true by that; all of them."""
        done: list[int] = []
        waiting = [(event, self.x) for event in fired]  # with the states at which it fired
        while waiting:
            event, seen = waiting.pop(0)
            if done and self.model.events[event].fleeting and not self._conditions()[event]:
                self.holds[event] = False
                continue
            if len(done) >= self.settings.chain * len(self.model.events):
                raise _Stopped(Trouble("simulation.event_chain", event, self.time))
            done.append(event)
            self.holds[event] = True
            self.x = self._after(event, seen)
            if not np.isfinite(self.x).all():
                raise _Stopped(Trouble("simulation.event_not_finite", event, self.time))
            now = self._conditions()
            one = self.model.events[event]
            if now[event] and not (one.may_stay or one.leaves_by_itself()):
                raise _Stopped(Trouble("simulation.event_not_left", event, self.time))
            rising = now & ~self.holds
            self.holds = now
            asked = [k for k, _ in waiting]
            waiting += [(int(k), self.x) for k in np.flatnonzero(rising) if k not in asked]
        self.size = np.maximum(self.size, np.abs(self.x))
        return done

    def _after(self, event: int, seen: np.ndarray) -> np.ndarray:
        """The states after an event that fired when they were `seen`."""
        one, inputs = self.model.events[event], self._inputs(self.time)
        start = seen if one.early else self.x
        reset = self.maps.resets[event].value(self.time, start, self.run.params, inputs)
        if not one.early:
            return reset
        after, changed = self.x.copy(), [self.model.states.index(name) for name, _ in one.assignments]
        after[changed] = reset[changed]
        return after

    def _along(self, curve: Callable[[np.ndarray], np.ndarray], times: np.ndarray) -> np.ndarray:
        """(times, events): the triggers along the interpolant of a step."""
        inputs = values_at(self.run.inputs, self.model.inputs, times)
        return self.maps.triggers.value(times, np.asarray(curve(times)).T, self.run.params, inputs)

    # ---- steps -----------------------------------------------------------------------------------------------------

    def _advance(self, first: float, stop: float) -> None:
        """Integrate to the next event or to `stop`, an edge; inputs do not jump between `first` and `stop`."""
        from scipy.integrate import DOP853, Radau

        rate, jacobian = self._functions(first, stop)
        begin = self.time, self.x.copy()
        if self._steps(
            DOP853(rate, self.time, self.x, stop, **self._tolerances()), self.settings.explicit_steps
        ):
            return
        self.time, self.x = begin
        tolerances = self._tolerances()
        solver = Radau(rate, self.time, self.x, stop, jac=jacobian, **tolerances)
        if not self._steps(solver, self.settings.steps):
            raise _Stopped(None)

    def _tolerances(self) -> dict[str, object]:
        size = np.maximum(self.size, 1e-3 * max(float(self.size.max(initial=0.0)), 1e-12))
        return {"rtol": self.rtol, "atol": self.settings.floor * self.rtol * size}

    def _functions(self, first: float, stop: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
        inset = min(4 * np.spacing(max(abs(first), abs(stop))), (stop - first) / 4)
        low, high = first + inset, stop - inset
        params, point = self.run.params.tolist(), self.model.rhs.at_point
        middle = self._inputs((low + high) / 2).tolist()
        sources = [self.run.inputs[name] for name in self.model.inputs]
        varying = not all(constant_between_breaks(one) for one in sources)

        def rate(t: float, x: np.ndarray) -> list[float]:
            t = min(max(t, low), high)
            return point(t, x.tolist(), params, self._inputs(t).tolist() if varying else middle)

        def jacobian(t: float, x: np.ndarray) -> np.ndarray:
            t = min(max(t, low), high)
            return self.model.rhs.linearise(t, x, self.run.params, self._inputs(t))[1]

        return rate, jacobian

    def _steps(self, solver: Any, most: int) -> bool:
        """Step until an event or the end; whether the solver got there within its steps."""
        for _ in range(most):
            if solver.status != "running":
                break
            try:
                solver.step()
            except (ValueError, FloatingPointError, OverflowError):
                return False
            if solver.status == "failed" or not np.isfinite(solver.y).all():
                return False
            self.size = np.maximum(self.size, np.abs(solver.y))
            if self._taken(solver):
                return True
        return solver.status == "finished"

    def _taken(self, solver: Any) -> bool:
        """Keep a step up to its first event; whether there was one."""
        curve, begin, end = solver.dense_output(), float(solver.t_old), float(solver.t)
        crossing = self._first_crossing(curve, begin, end)
        upto = end if crossing is None else crossing[0]
        self._store(curve, begin, upto)
        self.time = upto
        if crossing is None:
            self.x = np.array(solver.y)
            self.found[self.run.times == upto] = self.x
            return False
        self.x = np.array(curve(upto))
        self._fire(crossing[1])
        return True

    def _store(self, curve: Callable[..., Any], begin: float, end: float) -> None:
        rows = np.arange(*np.searchsorted(self.run.times, [begin, end], side="right"))
        if len(rows):
            self.found[rows] = curve(self.run.times[rows]).T

    def _first_crossing(
        self, curve: Callable[..., Any], begin: float, end: float
    ) -> tuple[float, list[int]] | None:
        """The first time in a step at which triggers rise through zero, and the events; updates which ones hold."""
        from scipy.optimize import brentq

        cells = np.ceil((end - begin) / self.span * self.settings.cells)
        times = np.linspace(begin, end, max(self.settings.points, int(cells)) + 1)[1:]
        values = self._along(curve, times)
        self.trigger_size = np.maximum(self.trigger_size, np.abs(values).max(axis=0))
        roots: dict[int, float] = {}
        holds = self.holds.copy()
        for k in range(values.shape[1]):
            above = values[:, k] > 0
            rising = np.flatnonzero(above & ~np.append(holds[k], above[:-1]))
            holds[k] = above[-1]
            if len(rising):
                first = int(rising[0])
                t, trigger = float(times[first]), _of_one(self, curve, k)
                start = _negative_before(trigger, float(times[first - 1]) if first else begin, t)
                roots[k] = t if start is None else float(brentq(trigger, start, t, xtol=1e-300, rtol=1e-15))
        if not roots:
            self.holds = holds
            return None
        time = min(roots.values())
        near = [k for k, root in sorted(roots.items()) if root - time <= self.settings.together * self.span]
        late = max(roots[k] for k in near)
        others = [
            k for k in range(values.shape[1]) if k not in near
        ]  # conditions that ended before the event
        self.holds[others] = self.triggers(late, np.asarray(curve(late)))[others] > 0
        return late, near

    def _fire(self, events: Sequence[int]) -> None:
        before = self.x.copy()
        gap = self.time - self.happened[-1].time if self.happened else np.inf
        short = gap < self.settings.accumulating * self.span
        self.short = self.short + 1 if short else 0
        self.halved = self.halved + 1 if short and gap <= self.gap / 2 else 0
        self.gap = gap
        ours = self.settings
        endless = self.short >= ours.accumulated or self.halved >= ours.halved
        if endless or len(self.happened) >= ours.most:
            raise _Stopped(Trouble(ZENO, events[0], self.time))
        fired = self._cascade(events)
        self.happened.append(Happening(self.time, tuple(fired)))
        self.before.append(before)
        self.found[self.run.times == self.time] = self.x


def _of_one(work: _Work, curve: Callable[..., Any], event: int) -> Callable[[float], float]:
    return lambda t: float(work.triggers(t, curve(t))[event])


def _negative_before(trigger: Callable[[float], float], low: float, high: float) -> float | None:
    """A time in [low, high) at which the trigger is not positive, as late as 40 halvings towards low find one."""
    for halving in range(1, 41):
        if trigger(low) <= 0:
            return low
        t = low + (high - low) * 0.5**halving
        if trigger(t) <= 0:
            return t
    return None
