"""The second look: further searches of a fit with a single start whose result is doubtful."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from enum import IntEnum
from functools import partial

import numpy as np

from picardfit.collocation.adaptation import state_scale
from picardfit.errors import InputError, Status
from picardfit.evidence.certificate import misfit, path_value
from picardfit.parallel.ordered_map import Failure, Interrupted, attempt, single_threaded
from picardfit.problem.problem import Problem
from picardfit.search.multistart import (
    BROKEN,
    Ending,
    Ranking,
    Request,
    Searches,
    ending_of,
    parts_of,
    path_of,
    reporter,
    search,
    search_some,
)
from picardfit.search.nonfinite_start import never_finite
from picardfit.search.notices import Plausibility
from picardfit.search.rescue import NO_RESCUE, run_search
from picardfit.search.screening import along, fine, implausible, polished, rank, screen
from picardfit.search.starts import open_values
from picardfit.solvers.loop import ExactMethod, News, Progress, Solution, is_exact

PLAUSIBLE = Plausibility()
CLEAR = 0.02  # part of the variation of the data that is left by curves beyond doubt
NOISY = 0.04  # the same, from which on noise may have led a search astray
PRECISE = 1e-4  # squared residuals over squared data, of curves that are right whatever is at a bound
QUICK, SLOW_SEARCH = 10, 15  # iterations up to which a search had an easy way, and above which it had none
PATIENT = 50  # iterations from which on a search that fails is worth a screening
LARGE = 10_000  # segments beyond which searches that converged are not followed by others
LOOKS = 3  # further starts of a second look
MATCHED = 2  # the one of them that is matched to the data
SHIFTS = 8  # initial states, or values of parameters at bounds, that are tried around an optimum
ON_BOUND = 0.01  # part of a bound by which a parameter may be away from it and still be called at it
SHIFT = 0.25  # how far away each of them lies, in ranges of its state, or in its logarithm
LONGER, AT_LEAST = 2, 80  # iterations of a look: so many times those of the first search, or so many
GAIN = 1e-3  # of the loss, or per measurement of a likelihood: what makes an optimum a better one


class Doubt(IntEnum):
    """What speaks against the best search so far."""

    NONE = 0
    PRESSED = 1  # it converged with parameters at a bound
    SLOW = 2  # it needed many iterations, although the data are clear
    HIDDEN = 3  # it converged, but not quickly, in noisy data that do not show all initial states
    SUSPECT = 4  # it needed many iterations, and noise or bounds may have led it to a local optimum
    LOST = 5  # it failed, or its residuals contradict the noise model or the roughness of the data


def look_again(
    request: Request, executor: Executor | None, news: Callable[[Progress], None] | None, found: Searches
) -> Searches:
    """The searches, and further ones as far as there are doubts about the first.

    If it failed or contradicts the data: from a start of our own, where the user gave one, then from simulated
    candidates. If it converged: from its solution with parameters at a bound moved inside, from another start, or with
    other initial states. If it is suspect, or one of these found a better optimum: also from the least-squares
    optimum, where there is a noise model, and from a few further starts.
    """
    if not request.method.exact:
        return found
    doubt = doubt_about(request, found)
    if doubt is Doubt.NONE:
        return found
    if doubt is Doubt.LOST and never_finite(request.problem):
        return found  # no other start will do
    own = not np.isfinite(request.given).any()  # whether a start of our own was tried
    if doubt is Doubt.LOST and not own:
        found, own = _from_own_start(request, found, news), True
        doubt = doubt_about(request, found)
    if doubt is Doubt.LOST and request.method.max_iterations >= PATIENT:
        tried, found = len(found.endings), _screened(request, found, news)
        if len(found.endings) > tried:
            return found
    if doubt is Doubt.NONE or found.interrupted:
        return found
    if doubt < Doubt.LOST and _segments(request, found) > LARGE:
        return replace(found, spared=doubt >= Doubt.SLOW)
    request, before = _brief(request, found), found.endings[found.best]
    found = _with_search(request, found, news, partial(_varied, request, before, _released))
    if doubt in (Doubt.SLOW, Doubt.SUSPECT) and not own and not found.interrupted:
        found = _from_own_start(request, found, news)
    elif doubt is Doubt.SLOW and not found.interrupted:
        found = _further(request, found, None, news, most=1)
    if doubt > Doubt.SLOW and not found.interrupted:
        found = _with_search(request, found, news, partial(_varied, request, before, _shifts))
    gain = before.value - found.endings[found.best].value
    size = before.value if request.problem.scatter is None else request.problem.measurements
    if found.interrupted or (doubt < Doubt.SUSPECT and not gain > GAIN * size):
        return found
    found = _with_search(request, found, news, partial(_unweighted, request))
    if found.interrupted:
        return found
    return _further(request, found, executor, news)


def _segments(request: Request, found: Searches) -> int:
    """How many segments the mesh of the best search has."""
    solution = path_of(request, found.endings[found.best])
    return 0 if solution is None else len(solution.system.mesh)


def _exact_method(request: Request) -> ExactMethod:
    if not is_exact(request.method):
        raise TypeError(f"{type(request.method).__name__} cannot continue from a simulated path")
    return request.method


def _further(
    request: Request,
    found: Searches,
    executor: Executor | None,
    news: Callable[[Progress], None] | None,
    most: int = LOOKS,
) -> Searches:
    """The searches and those from the further starts that were not made yet, at most so many of them."""
    parts = {k: part for k, part in enumerate(parts_of(request, 1 + LOOKS)) if k and k not in found.endings}
    last = search_some(request, dict(list(parts.items())[:most]), found.endings, executor, news)
    return replace(last, failures={**found.failures, **last.failures})


def doubt_about(request: Request, found: Searches) -> Doubt:
    if not found.endings or found.interrupted:
        return Doubt.NONE
    best = found.endings[found.best]
    solution = path_of(request, best)
    if not best.status.success or solution is None:
        return Doubt.LOST
    seen = misfit(solution)
    if seen.excess > PLAUSIBLE.excess or (
        seen.unexplained > CLEAR and implausible(request.problem, best.value)
    ):
        return Doubt.LOST
    if seen.unexplained > PLAUSIBLE.unexplained:
        return Doubt.SUSPECT
    noisy = seen.unexplained > NOISY
    slow = best.iterations > SLOW_SEARCH
    if slow and (noisy or _pressed(solution)):
        return Doubt.SUSPECT
    if noisy and best.iterations > QUICK and _hides(request.problem):
        return Doubt.HIDDEN
    if slow:
        return Doubt.SLOW
    return Doubt.PRESSED if near_bounds(solution).any() else Doubt.NONE


def _hides(problem: Problem) -> bool:
    """Whether there is an unknown initial state that no observable shows."""
    by_states, _ = problem.model.output.jacobian_pattern
    return bool((~np.asarray(by_states.any(axis=0)))[problem.layout.initial_states].any())


def _pressed(solution: Solution) -> bool:
    """Whether an unknown is at a bound and the curves do not meet the data precisely."""
    problem, unknowns = solution.system.problem, solution.unknowns
    layout, data = problem.layout, problem.samples.data
    if not (layout.exists & layout.at_bounds(unknowns)).any():
        return False
    size = np.where(problem.output_scale > 0, problem.output_scale, 1.0)
    left = (data - solution.point.outputs[:, : data.shape[1]]) / size
    return bool(np.nansum(left**2) > PRECISE * np.nansum((data / size) ** 2))


def _brief(request: Request, found: Searches) -> Request:
    """The request of a second look: after a success, searches that take far longer than it did are given up."""
    best, method = found.endings[found.best], _exact_method(request)
    if not best.status.success:
        return request
    limit = min(method.max_iterations, max(LONGER * best.iterations, AT_LEAST))
    return replace(request, method=method.with_limit(limit))


def _next(found: Searches) -> int:
    """The index of a search that is none of the sequence of starts."""
    return max(LOOKS, *found.endings) + 1


def _with_search(
    request: Request,
    found: Searches,
    news: Callable[[Progress], None] | None,
    unknowns_at: Callable[[], np.ndarray | None],
) -> Searches:
    """The searches and one along the simulated path of the unknowns that a function finds, if there are any."""
    index = _next(found)

    def search_there() -> Ending | None:
        unknowns = unknowns_at()
        return None if unknowns is None else _onward(request, unknowns, reporter(request, index, news))

    return _with_ending(found, index, search_there)


def _with_ending(found: Searches, index: int, work: Callable[[], Ending | None]) -> Searches:
    """The searches and the one that a function makes, if it makes one; what it raises is a failure of that one."""
    try:
        with single_threaded(), np.errstate(all="ignore"):
            ending = attempt(lambda _: work(), None)  # a user's function need not bear other values
    except InputError as error:
        ending = Failure(str(error))
    except Interrupted as stop:
        return replace(found, endings={**found.endings, index: stop.partial[1]}, interrupted=True)
    except KeyboardInterrupt:
        return replace(found, interrupted=True)
    if isinstance(ending, Failure):
        failures = {**found.failures, index: ending.sentence}
        return replace(found, endings={**found.endings, index: BROKEN}, failures=failures)
    if ending is None:
        return found
    stopped = ending.status is Status.INTERRUPTED
    return replace(found, endings={**found.endings, index: ending}, interrupted=stopped)


def _varied(
    request: Request, best: Ending, moved: Callable[[Request, Solution], np.ndarray]
) -> np.ndarray | None:
    """Of a few unknowns around an optimum, which a function finds, the best; None if there are none."""
    solution = path_of(request, best)
    if not best.status.success or solution is None or not len(many_unknowns := moved(request, solution)):
        return None
    ranked = rank(request.problem, many_unknowns).best(1).many_unknowns
    return ranked[0] if len(ranked) else None


def near_bounds(solution: Solution) -> np.ndarray:
    """(experiments, width) bool: parameters of the curves that stand at one of two bounds."""
    layout, unknowns = solution.system.problem.layout, solution.unknowns
    bounded = layout.exists & np.isfinite(layout.lower) & np.isfinite(layout.upper)
    bounded[:, : len(layout.initial_states)] = False
    bounded &= ~layout.noise_columns
    bounds = (layout.lower, layout.upper)
    at = [np.abs(unknowns - one) <= ON_BOUND * np.where(layout.log, 1.0, np.abs(one)) for one in bounds]
    return np.asarray(bounded & np.any(at, axis=0))


def _released(request: Request, solution: Solution) -> np.ndarray:
    """(SHIFTS, experiments, width), or none: the unknowns of a solution, parameters at a bound drawn from inside.

    A corner of the box draws a search that comes near it; one that begins inside, on the curves, need not end there.
    """
    layout, unknowns, at = request.problem.layout, solution.unknowns, near_bounds(solution)
    if not at.any():
        return unknowns[None][:0]
    parts = np.random.default_rng([request.seed, SHIFTS]).uniform(size=(SHIFTS, *unknowns.shape))
    parts[..., layout.local :] = parts[:, :1, layout.local :]
    return np.array([np.where(at, open_values(request.problem, unknowns, part), unknowns) for part in parts])


def _unweighted(request: Request) -> np.ndarray | None:
    """The unknowns of the least-squares optimum: noise that grows with the curves may draw a likelihood away from it.

    The better one of two starts; none for least squares, and where noise levels are unknown.
    """
    problem = request.problem
    if problem.scatter is None or problem.layout.noise_columns.any():
        return None
    plain = replace(request, problem=replace(problem, noise=None))
    parts = parts_of(plain, 1 + LOOKS)
    found = [search(plain, (k, parts[k])) for k in (0, MATCHED)]
    ended = [one for one in found if one.status.success]
    return min(ended, key=lambda one: one.value).unknowns if ended else None


def _shifts(request: Request, solution: Solution) -> np.ndarray:
    """(SHIFTS, experiments, width), or none: the unknowns of a solution, each initial state moved up or down.

    Starts that are led by the data all agree about hidden initial states; what is simulated from others need not.
    """
    layout, unknowns = request.problem.layout, solution.unknowns
    states = layout.initial_states
    if not len(states):
        return unknowns[None][:0]
    ways = np.random.default_rng([request.seed, LOOKS]).choice(
        [-SHIFT, SHIFT], (SHIFTS, len(unknowns), len(states))
    )
    span = np.ptp(solution.path, axis=(0, 1))[states]
    moved = np.repeat(unknowns[None], SHIFTS, axis=0)
    moved[:, :, : len(states)] += ways * np.where(layout.log[:, : len(states)], 1.0, span)
    return np.where(layout.exists, np.clip(moved, layout.lower, layout.upper), unknowns)


def _from_own_start(request: Request, found: Searches, news: Callable[[Progress], None] | None) -> Searches:
    """The searches and one from a start made of data and bounds only, where what the user gave leads nowhere."""
    index = _next(found)
    open_ = replace(request, given=np.full_like(request.given, np.nan))
    return _with_ending(found, index, lambda: search(open_, (index, None), news))


def _screened(request: Request, found: Searches, news: Callable[[Progress], None] | None) -> Searches:
    """The searches and the one that goes on from the best simulated candidate that can be put on a mesh."""
    ends = [one.unknowns for one in found.endings.values() if one.unknowns is not None]
    further = np.array([b for b in ends if np.isfinite(b).all()]).reshape(-1, *request.given.shape)
    index, began = _next(found), time.perf_counter()
    try:
        ending = _from_candidates(request, further, reporter(request, index, news))
    except KeyboardInterrupt:
        return replace(found, interrupted=True)
    if ending is None:
        return found
    stopped = ending.status is Status.INTERRUPTED
    ending = replace(ending, seconds=time.perf_counter() - began)
    return replace(found, endings={**found.endings, index: ending}, interrupted=stopped)


def _from_candidates(request: Request, further: np.ndarray, news: News) -> Ending | None:
    """The search from the best candidate: polished a little, if it is fine and the search soon converges, or well."""
    problem, method = request.problem, _exact_method(request)
    tried: list[Ending | None] = []
    best = screen(problem, request.given, request.seed, further)
    if len(best.values) and best.values[0] < fine(problem):
        soon = replace(request, method=method.with_limit(min(method.max_iterations, AT_LEAST)))
        for unknowns in polished(problem, best.many_unknowns[:1], well=False).many_unknowns:
            ending = _onward(soon, unknowns, news)
            if ending is not None and (ending.status.success or ending.status is Status.INTERRUPTED):
                return ending
            tried.append(ending)
    onward = (
        _onward(request, unknowns, news) for unknowns in polished(problem, best.many_unknowns).many_unknowns
    )
    tried.append(next((ending for ending in onward if ending is not None), None))
    ended = _best(tried)
    if ended is None or ended.unknowns is None or ended.status is not Status.ITERATION_LIMIT:
        return ended
    if ended.iterations < method.max_iterations:
        return _best([ended, _onward(request, ended.unknowns, news)])  # it was the brief one
    return ended


def _best(endings: list[Ending | None]) -> Ending | None:
    ended = [one for one in endings if one is not None]
    return min(ended, key=lambda one: (not one.status.success, one.value), default=None)


def _onward(request: Request, unknowns: np.ndarray, news: News) -> Ending | None:
    """A search that begins on the simulated path of these unknowns, never worse than it; None without a path."""
    method = _exact_method(request)
    path = along(request.problem, unknowns, method.nodes, method.resolution)
    if path is None:
        return None
    with np.errstate(all="ignore"):
        ending = ending_of(run_search(method, request.problem, path, news, NO_RESCUE))
        value = path_value(path)
    if ending.status.success or (ending.value <= value and ending.jump <= Ranking().closed):
        return ending
    jump = float(np.abs(path.jumps / state_scale(request.problem, [path.path])).max(initial=0.0))
    return replace(ending, value=value, jump=jump, unknowns=unknowns, solution=path)
