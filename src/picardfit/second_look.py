"""The second look: what a fit with a single start does when its search leaves a doubt."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from enum import IntEnum
from functools import partial

import numpy as np

from picardfit.certificate import misfit, path_value
from picardfit.culprits import blame_time
from picardfit.errors import Status
from picardfit.meshing import state_scale
from picardfit.parallel import Interrupted, single_threaded
from picardfit.problem import Problem
from picardfit.screening import along, implausible, rank, screen
from picardfit.searches import (
    CLOSED,
    Ending,
    Request,
    Searches,
    ending_of,
    parts_of,
    path_of,
    reporter,
    search,
    search_some,
)
from picardfit.solvers.gauss_newton import LiftedGaussNewton
from picardfit.solvers.iterate import Progress, Solution, run

IMPLAUSIBLE = 3  # residuals that many times larger than the noise model, or the scatter of the samples, says
CLEAR = 0.02  # part of the variation of the data that is left by curves beyond doubt
NOISY = 0.04  # the same, from which on noise may have led a search astray
LITTLE = 0.5  # part of the variation of the data that the curves may leave
PRECISE = 1e-4  # squared residuals over squared data, of curves that are right whatever is at a bound
QUICK, LABOURED = 10, 20  # iterations up to which a search had an easy way, and above which it had none
PATIENT = 50  # iterations from which on a search that fails is worth a screening
LOOKS = 3  # further starts of a second look
SHIFTS = 8  # initial states that are tried around an optimum
SHIFT = 0.25  # how far away each of them lies, in ranges of its state, or in its logarithm
LONGER, AT_LEAST = 2, 80  # iterations of a look: so many times those of the first search, or so many
GAIN = 1e-3  # of the loss, or per measurement of a likelihood: what makes an optimum a better one


class Doubt(IntEnum):
    """What speaks against the best search so far."""

    NONE = 0
    HIDDEN = 1  # it converged, but not quickly, in noisy data that do not show all initial states
    SUSPECT = 2  # it converged with labour, and noise or bounds may have led it to a local optimum
    LOST = 3  # it failed, or its residuals contradict the noise model or the roughness of the data


def look_again(
    request: Request, executor: Executor | None, news: Callable[[Progress], None] | None, found: Searches
) -> Searches:
    """The searches and what a doubt about the first one calls for.

    A lost one is followed by a start of our own, if the user gave one, and then by simulated candidates. One that
    converged by a search from there with other initial states; if it is suspect or that search found a better optimum
    also by one from the least-squares optimum, where there is a noise model, and by a few further starts.
    """
    if not isinstance(request.method, LiftedGaussNewton):
        return found
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
    parts = dict(enumerate(parts_of(request, 1 + LOOKS)))
    del parts[0]
    return search_some(request, parts, found.endings, executor, news)


def _doubt(request: Request, found: Searches) -> Doubt:
    if not found.endings or found.interrupted:
        return Doubt.NONE
    best = found.endings[found.best]
    solution = path_of(request, best)
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
            ending = None if border is None else _onward(request, border, reporter(request, index, news))
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
    solution = path_of(request, best)
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
            ending = _onward(request, border, reporter(request, index, news))
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
        ending = ending_of(run(method, method.resume(request.problem, path), news))
        value = path_value(path)
    if ending.status.success or (ending.value <= value and ending.jump <= CLOSED):
        return ending
    jump = float(np.abs(path.jumps / state_scale(request.problem, [path.path])).max(initial=0.0))
    return replace(ending, value=value, jump=jump, border=border, solution=path)
