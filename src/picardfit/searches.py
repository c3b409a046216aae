"""Many searches for one optimum: where they begin, how they travel to workers, what a ledger keeps of them.

A fit that was not told how many starts to make begins with one search, and looks again where that leaves a doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from picardfit.certificate import misfit, path_value
from picardfit.culprits import blame_time
from picardfit.digests import digest, problem_digest
from picardfit.errors import Status
from picardfit.ledger import Ledger
from picardfit.meshing import state_scale
from picardfit.parallel import Failure, Interrupted, Work, Written, run_tasks, single_threaded
from picardfit.problem import Problem
from picardfit.progress import Bar
from picardfit.records import array, get, number, plain
from picardfit.screening import along, implausible, rank, screen
from picardfit.solvers.gauss_newton import LiftedGaussNewton
from picardfit.solvers.iterate import Method, Outcome, Progress, Solution, run
from picardfit.starts import make_start, spread_evenly
from picardfit.storage import solution_of, solution_record, trace_of

IMPLAUSIBLE = 3  # residuals that many times larger than the noise model, or the scatter of the samples, says
CLEAR = 0.02  # part of the variation of the data that is left by curves beyond doubt
NOISY = 0.04  # the same, from which on noise may have led a search astray
LITTLE = 0.5  # part of the variation of the data that the curves may leave
PRECISE = 1e-4  # squared residuals over squared data, of curves that are right whatever is at a bound
QUICK, LABOURED = 10, 20  # iterations up to which a search had an easy way, and above which it had none
PATIENT = 50  # iterations from which on a search that fails is worth a screening
CLOSED = 1e-3  # largest jump, relative to the states, of a path whose value counts although the search failed
LOOKS = 3  # further starts of a second look
SHIFTS = 8  # initial states that are tried around an optimum
SHIFT = 0.25  # how far away each of them lies, in ranges of its state, or in its logarithm
LONGER, AT_LEAST = 2, 80  # iterations of a look: so many times those of the first search, or so many
GAIN = 1e-3  # of the loss, or per measurement of a likelihood: what makes an optimum a better one


@dataclass(frozen=True)
class Request:
    """Everything a start's result depends on, besides its index."""

    problem: Problem
    method: Method
    given: np.ndarray  # (experiments, width): values to begin with, internal, NaN where open
    starts: int | None  # None: one, and others if that leaves a doubt
    seed: int


@dataclass(frozen=True)
class Ending:
    """How one search ended. Only the best so far keeps its path and trace; thousands of them would fill the memory."""

    status: Status
    value: float  # the objective, infinite where there is none
    iterations: int
    seconds: float
    jump: float
    border: np.ndarray | None  # (experiments, width)
    solution: Solution | dict | None = None  # a dictionary when it came from a worker or a ledger
    trace: np.ndarray | None = None  # (iterations, 3)


@dataclass(frozen=True)
class Searches:
    """The searches that were done, by index of their start."""

    endings: dict[int, Ending]
    failures: dict[int, str]
    interrupted: bool

    @property
    def best(self) -> int:
        """The successful one with the smallest objective; of equals the first."""
        return min(self.endings, key=lambda k: _rank(k, self.endings[k]))

    def remarks(self, starts: int | None, ledger: str | Path | None) -> list[str]:
        """What a user should know about the searches, in words; `starts` as asked for."""
        said = []
        if self.interrupted and starts is None and len(self.endings) > 1:
            said.append("The second look from other starts was interrupted: there may be a better optimum.")
        if self.interrupted and starts is not None and starts > 1:
            done = sum(one.status is not Status.INTERRUPTED for one in self.endings.values())
            onward = "call fit again with the same ledger" if ledger else "pass ledger='run.jsonl' next time"
            said.append(
                f"Only {done} of {starts} starts were done before the interruption: {onward} to go on."
            )
        if self.failures:
            first, reason = next(iter(self.failures.items()))
            said.append(
                f"{len(self.failures)} of {starts or len(self.endings)} starts broke down, start {first} with: {reason}"
            )
        return said


def search_all(
    request: Request,
    executor: Executor | None,
    ledger: str | Path | None,
    progress: Callable[[Progress], None] | Literal[False] | None,
) -> Searches:
    """Search from every start that was asked for, or from one and then from as many as its doubts call for."""
    starts, news = request.starts or 1, progress or None
    book = None if ledger is None else Ledger(ledger, identity(request))
    bar = Bar("starts") if progress is None and starts > 1 else None
    try:
        found = _gather(
            _run(request, executor, book, news, bar, dict(enumerate(_parts(request, starts)))), {}
        )
        if request.starts is None and isinstance(request.method, LiftedGaussNewton):
            found = _looked_again(request, executor, news, found)
    finally:
        if bar:
            bar.close()
        if book:
            book.close()
    if not found.endings:
        raise KeyboardInterrupt
    return found


def outcome_of(request: Request, index: int, ending: Ending) -> Outcome:
    """The whole outcome of a search; one whose path was dropped is repeated, with the same result."""
    if ending.solution is None and np.isfinite(ending.value):
        ending = search(request, (index, _parts(request, index + 1)[index]))
    trace = np.zeros((0, 3)) if ending.trace is None else ending.trace
    return Outcome(_solution(request, ending), ending.status, ending.iterations, ending.seconds, trace)


def _solution(request: Request, ending: Ending) -> Solution | None:
    """The path of an ending, wherever it comes from."""
    if isinstance(ending.solution, dict):
        return solution_of(request.problem, plain(ending.solution, "a path"))
    return ending.solution


def search(request: Request, task: tuple, progress: Callable[[Progress], None] | None = None) -> Ending:
    """One search, from (index, parts of the bounds); the first start has None and begins at what is given.

    Of the others every second one keeps the values it was dealt: matched to the data they are often all alike.
    """
    index, part = task
    begin = make_start(request.problem, request.given, part=part, matched=part is None or index % 2 == 0)
    with np.errstate(all="ignore"):  # what is not finite is a rejected step or a status
        first = request.method.init(request.problem, begin)
        outcome = run(request.method, first, _reporter(request, index, progress))
    ending = _ending(outcome)
    if outcome.status is Status.INTERRUPTED:
        raise Interrupted((index, ending))
    return ending


def _reporter(request: Request, index: int, progress: Callable[[Progress], None] | None) -> Callable:
    def news(iteration: int, loss: float, jump: float) -> None:
        if progress is not None:
            progress(Progress(index, request.starts or 1, iteration, loss, jump))

    return news


def identity(request: Request) -> dict[str, object]:
    """What must be the same for a ledger to be continued. More starts may be added: they extend the sequence."""
    from picardfit import __version__

    return {
        "picardfit": __version__,
        "problem": problem_digest(request.problem),
        "method": repr(request.method),
        "start": digest(request.given),
        "seed": request.seed,
    }


def _parts(request: Request, starts: int) -> list[np.ndarray | None]:
    """Where between the bounds each start lies; the first at what is given and the middle."""
    if starts == 1:
        return [None]
    return [None, *spread_evenly(request.problem.unknowns, starts - 1, request.seed)]


def _run(request: Request, executor, book: Ledger | None, news, bar: Bar | None, parts: Mapping) -> Work:
    best = _BestSoFar(parts)
    done = {} if book is None else book.done

    def show(done: int, total: int, index: int, ending: Ending | Failure) -> None:
        if bar:
            bar.show(done, total, f"best loss {request.problem.mean_loss(best.value):.6g}")
        if news and executor is not None and isinstance(ending, Ending):
            loss = request.problem.mean_loss(ending.value)
            news(Progress(index, request.starts or 1, ending.iterations, loss, ending.jump))

    for index in parts.keys() & done.keys():
        best(index, _decoded(done[index]))
    return run_tasks(
        partial(search, request, progress=news) if executor is None else partial(_packed_search, request),
        {index: (index, part) for index, part in parts.items()},
        executor=executor,
        ledger=book,
        keep=best,
        written=Written(_encoded, _decoded),
        progress=show,
    )


def _packed_search(request: Request, task: tuple) -> Ending:
    """A search whose path travels without the problem."""
    ending = search(request, task)
    return ending if ending.solution is None else replace(ending, solution=solution_record(ending.solution))


class _BestSoFar:
    """Drops the path and trace of every search that is not the best so far."""

    def __init__(self, parts: Mapping) -> None:
        self._rank = (True, True, np.inf, max(parts) + 1)

    @property
    def value(self) -> float:
        return self._rank[2]

    def __call__(self, index: int, ending: Ending) -> Ending:
        rank = _rank(index, ending)
        if rank < self._rank:
            self._rank = rank
            return ending
        return replace(ending, solution=None, trace=None)


def _rank(index: int, ending: Ending) -> tuple[bool, bool, float, int]:
    """Success first; what a path with jumps costs says little."""
    success = ending.status.success
    return not success, not (success or ending.jump <= CLOSED), ending.value, index


def _gather(work: Work, before: Mapping[int, Ending]) -> Searches:
    endings = {**before, **work.results}
    for index in work.failures:
        endings[index] = Ending(Status.FAILED, np.inf, 0, 0.0, np.nan, None)
    if work.partial is not None:
        index, ending = work.partial
        endings[index] = ending
    return Searches(dict(sorted(endings.items())), work.failures, work.interrupted)


# ---- the second look ---------------------------------------------------------------------------------------


class Doubt(IntEnum):
    """What speaks against the best search so far."""

    NONE = 0
    HIDDEN = 1  # it converged, but not quickly, in noisy data that do not show all initial states
    SUSPECT = 2  # it converged with labour, and noise or bounds may have led it to a local optimum
    LOST = 3  # it failed, or its residuals contradict the noise model or the roughness of the data


def _looked_again(
    request: Request, executor, news: Callable[[Progress], None] | None, found: Searches
) -> Searches:
    """The searches and what a doubt about the first one calls for.

    A lost one is followed by a start of our own, if the user gave one, and then by simulated candidates. One that
    converged by a search from there with other initial states; if it is suspect or that search found a better optimum
    also by one from the least-squares optimum, where there is a noise model, and by a few further starts.
    """
    doubt = _doubt(request, found)
    if doubt is Doubt.NONE:
        return found
    if doubt is Doubt.LOST and blame_time(request.problem):
        return found  # no other start will do
    if doubt is Doubt.LOST and np.isfinite(request.given).any():
        found = _from_own_start(request, found, news)
        doubt = _doubt(request, found)
    if doubt is Doubt.LOST and request.method.max_iterations >= PATIENT:
        tried, found = len(found.endings), _screened(request, found, news)
        if len(found.endings) > tried:
            return found
    if doubt is Doubt.NONE or found.interrupted:
        return found
    request, before = _brief(request, found), found.endings[found.best]
    found = _with_search(request, found, news, partial(_shifted, request, before))
    after = found.endings[found.best]
    size = before.value if request.problem.scatter is None else request.problem.measurements
    if found.interrupted or (doubt is Doubt.HIDDEN and not before.value - after.value > GAIN * size):
        return found
    found = _with_search(request, found, news, partial(_unweighted, request))
    if found.interrupted:
        return found
    parts = dict(enumerate(_parts(request, 1 + LOOKS)))
    del parts[0]
    return _gather(_run(request, executor, None, news, None, parts), found.endings)


def _doubt(request: Request, found: Searches) -> Doubt:
    if not found.endings or found.interrupted:
        return Doubt.NONE
    best = found.endings[found.best]
    solution = _solution(request, best)
    if not best.status.success or solution is None:
        return Doubt.LOST
    seen = misfit(solution)
    if seen.excess > IMPLAUSIBLE or (seen.unexplained > CLEAR and implausible(request.problem, best.value)):
        return Doubt.LOST
    if seen.unexplained > LITTLE:
        return Doubt.SUSPECT
    noisy = seen.unexplained > NOISY
    if best.iterations > LABOURED and (noisy or _pressed(solution)):
        return Doubt.SUSPECT
    return Doubt.HIDDEN if noisy and best.iterations > QUICK and _hides(request.problem) else Doubt.NONE


def _hides(problem: Problem) -> bool:
    """Whether there is an unknown initial state that no observable shows."""
    by_states, _ = problem.model.output.jacobian_pattern
    return bool((~by_states.any(axis=0))[problem.unknowns.initial_states].any())


def _pressed(solution: Solution) -> bool:
    """Whether an unknown is at a bound and the curves do not meet the data precisely."""
    problem, border = solution.system.problem, solution.border
    unknowns, data = problem.unknowns, problem.samples.data
    if not (unknowns.exists & ((border <= unknowns.lower) | (border >= unknowns.upper))).any():
        return False
    size = np.where(problem.output_scale > 0, problem.output_scale, 1.0)
    left = (data - solution.point.outputs[:, : data.shape[1]]) / size
    return bool(np.nansum(left**2) > PRECISE * np.nansum((data / size) ** 2))


def _brief(request: Request, found: Searches) -> Request:
    """The request of a second look: after a success, searches that take far longer than it did are given up."""
    best, method = found.endings[found.best], request.method
    if not best.status.success:
        return request
    limit = min(method.max_iterations, max(LONGER * best.iterations, AT_LEAST))
    return replace(request, method=replace(method, max_iterations=limit))


def _next(found: Searches) -> int:
    """The index of a search that is none of the sequence of starts."""
    return max(LOOKS, *found.endings) + 1


def _with_search(
    request: Request, found: Searches, news: Callable | None, border_of: Callable[[], np.ndarray | None]
) -> Searches:
    """The searches and one along the simulated path of the unknowns that a function finds, if there are any."""
    index = _next(found)
    try:
        with single_threaded(), np.errstate(all="ignore"):
            border = border_of()
            ending = None if border is None else _onward(request, border, _reporter(request, index, news))
    except KeyboardInterrupt:
        return replace(found, interrupted=True)
    except Exception:  # the equations may be the user's function, which need not bear other values
        return found
    if ending is None:
        return found
    stopped = ending.status is Status.INTERRUPTED
    return replace(found, endings={**found.endings, index: ending}, interrupted=stopped)


def _shifted(request: Request, best: Ending) -> np.ndarray | None:
    """The unknowns of an optimum with its initial states moved: of a few such ones the best.

    Starts that are led by the data all agree about hidden initial states; what is simulated from others need not.
    """
    solution = _solution(request, best)
    if not best.status.success or solution is None or not len(request.problem.unknowns.initial_states):
        return None
    moved = rank(request.problem, _shifts(request, solution)).best(1).borders
    return moved[0] if len(moved) else None


def _unweighted(request: Request) -> np.ndarray | None:
    """The unknowns of the least-squares optimum: noise that grows with the curves may draw a likelihood away from it.

    None for least squares, and where noise levels are unknown.
    """
    problem = request.problem
    if problem.scatter is None or problem.unknowns.noise_columns.any():
        return None
    ending = search(replace(request, problem=replace(problem, noise=None)), (0, None))
    return ending.border if ending.status.success else None


def _shifts(request: Request, solution: Solution) -> np.ndarray:
    """(SHIFTS, experiments, width): the unknowns of a solution, each initial state moved up or down."""
    unknowns, border = request.problem.unknowns, solution.border
    states = unknowns.initial_states
    ways = np.random.default_rng([request.seed, LOOKS]).choice(
        [-SHIFT, SHIFT], (SHIFTS, len(border), len(states))
    )
    span = np.ptp(solution.path, axis=(0, 1))[states]
    moved = np.repeat(border[None], SHIFTS, axis=0)
    moved[:, :, : len(states)] += ways * np.where(unknowns.log[:, : len(states)], 1.0, span)
    return np.where(unknowns.exists, np.clip(moved, unknowns.lower, unknowns.upper), border)


def _from_own_start(request: Request, found: Searches, news: Callable[[Progress], None] | None) -> Searches:
    """The searches and one from a start made of data and bounds only, where what the user gave leads nowhere."""
    index = _next(found)
    open_ = replace(request, given=np.full_like(request.given, np.nan))
    try:
        return replace(found, endings={**found.endings, index: search(open_, (index, None), news)})
    except Interrupted as stop:
        return replace(found, endings={**found.endings, index: stop.partial[1]}, interrupted=True)


def _screened(request: Request, found: Searches, news: Callable[[Progress], None] | None) -> Searches:
    """The searches and the one that goes on from the best simulated candidate that can be put on a mesh."""
    ends = [one.border for one in found.endings.values() if one.border is not None]
    further = np.array([b for b in ends if np.isfinite(b).all()]).reshape(-1, *request.given.shape)
    index = _next(found)
    try:
        for border in screen(request.problem, request.given, request.seed, further).borders:
            ending = _onward(request, border, _reporter(request, index, news))
            if ending is not None:
                stopped = ending.status is Status.INTERRUPTED
                return replace(found, endings={**found.endings, index: ending}, interrupted=stopped)
    except KeyboardInterrupt:
        return replace(found, interrupted=True)
    return found


def _onward(request: Request, border: np.ndarray, news: Callable) -> Ending | None:
    """A search that begins on the simulated path of these unknowns, never worse than it; None without a path."""
    method = request.method
    path = along(request.problem, border, method.nodes, method.resolution)
    if path is None:
        return None
    with np.errstate(all="ignore"):
        ending = _ending(run(method, method.resume(request.problem, path), news))
        value = path_value(path)
    if ending.status.success or (ending.value <= value and ending.jump <= CLOSED):
        return ending
    jump = float(np.abs(path.jumps / state_scale(request.problem, [path.path])).max(initial=0.0))
    return replace(ending, value=value, jump=jump, border=border, solution=path)


def _ending(outcome: Outcome) -> Ending:
    solution = outcome.solution
    value = np.inf if solution is None else path_value(solution)
    jump = float(outcome.trace[-1, 1]) if len(outcome.trace) else np.nan
    border = None if solution is None else solution.border
    if not np.isfinite(value) or not np.isfinite(solution.path).all():
        solution, value = None, np.inf
    return Ending(
        outcome.status, value, outcome.iterations, outcome.seconds, jump, border, solution, outcome.trace
    )


# ---- on paper ----------------------------------------------------------------------------------------------


def _encoded(ending: Ending) -> dict[str, object]:
    solution = ending.solution
    return {
        "status": ending.status.name,
        "value": ending.value,
        "iterations": ending.iterations,
        "seconds": ending.seconds,
        "jump": ending.jump,
        "border": ending.border,
        "solution": solution_record(solution) if isinstance(solution, Solution) else solution,
        "trace": ending.trace,
    }


def _decoded(record: dict) -> Ending:
    border, trace = get(record, "border", list | None), get(record, "trace", list | None)
    return Ending(
        Status[get(record, "status", str)],
        number(get(record, "value"), "value"),
        get(record, "iterations", int),
        number(get(record, "seconds"), "seconds"),
        number(get(record, "jump"), "jump"),
        None if border is None else array(border, (None, None), "border"),
        get(record, "solution", dict | None),
        None if trace is None else trace_of(trace),
    )
