"""One search of a problem: where it begins, how it is run, how it ended, and how that travels and is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.errors import Notice, Status
from picardfit.evidence.certificate import path_value
from picardfit.evidence.expected_information import on_mesh, simulated
from picardfit.parallel.ordered_map import Interrupted
from picardfit.problem.json_values import Record, plain
from picardfit.problem.problem import Problem, Start
from picardfit.search.events.revision import revised, start_along
from picardfit.search.events.simulated_starts import given_start, scanned_start, with_known_parameters
from picardfit.search.policy import SearchPolicy
from picardfit.search.solution_record import as_record, solution_of
from picardfit.search.starts import make_start, spread_evenly
from picardfit.simulation.trajectories import Budget, Integration
from picardfit.solvers.loop import (
    ExactMethod,
    IterationState,
    Method,
    News,
    Outcome,
    Progress,
    Run,
    Solution,
    Stage,
    ignore,
    is_exact,
    iterate,
    never,
    run,
)

Task = tuple[int, np.ndarray | None]  # index of a start, and where it lies between the bounds


@dataclass(frozen=True)
class QuickIntegration:
    """How the start that a user gives is judged: in milliseconds, as it hardly ever is better than what is found."""

    tolerance: float = (
        1e-4  # relative; where that calls the optimum itself better, one more search begins there
    )
    integration: Integration = field(
        default=Integration(
            budget=Budget(attempt=2000), fallback=False
        )  # evaluations: a smooth run takes some hundred
    )


@dataclass(frozen=True)
class Request:
    """Everything that the result of a fit depends on."""

    problem: Problem
    method: Method
    given: np.ndarray  # (experiments, width): values to begin with, internal, NaN where open
    starts: int  # 1: as many searches as the policy asks for
    seed: int
    policy: SearchPolicy
    stages: tuple[Problem, ...] = ()  # with wide smooth switches, then narrower ones; the last is `problem`

    @property
    def first(self) -> Problem:
        """The problem on which searches begin."""
        return self.stages[0] if self.stages else self.problem

    @property
    def has_given(self) -> bool:
        """Whether the user gave values to begin with."""
        return bool(np.isfinite(self.given).any())


@dataclass(frozen=True)
class Ending:
    """How one search ended. Of many, only the best so far keeps path and trace, because all would fill the memory."""

    status: Status
    value: float  # the objective, infinite where there is none
    iterations: int
    seconds: float
    jump: float
    unknowns: np.ndarray | None  # (experiments, width)
    solution: Solution | Record | None = None  # a record when it came from a worker or a ledger
    trace: np.ndarray | None = None  # (iterations, 3)
    work: float = 0.0  # see `picardfit.solvers.loop.StepCost`
    arrived_at: int | None = None  # the search whose optimum it came to, where it ended for that

    def rank(self, index: int) -> tuple[bool, float, int]:
        """A key that sorts searches: success first, then small objectives, then first ones."""
        return not self.status.success, self.value, index


BROKEN = Ending(Status.FAILED, np.inf, 0, 0.0, np.nan, None)  # a search that raised


@dataclass(frozen=True)
class Searches:
    """The searches that were done, by index of their start."""

    endings: dict[int, Ending]
    failures: dict[int, Notice]
    interrupted: bool


def exact_method(request: Request) -> ExactMethod:
    """The method of a request, which must be able to continue from a solution."""
    if not is_exact(request.method):
        raise TypeError(f"{type(request.method).__name__} cannot continue from a solution")
    return request.method


# ---- where searches begin ------------------------------------------------------------------------------------------


def parts_of(request: Request, count: int) -> list[np.ndarray | None]:
    """How far between the bounds each of the first starts lies, (experiments, width); None: not drawn.

    The first begins at the given values, with the others made from data and bounds. If there are given values the next
    one ignores them. All later ones are spread evenly over the bounds. The k-th depends on the seed and on k only.
    """
    made = undrawn(request)
    if count <= made:
        return [None] * count
    return [*[None] * made, *spread_evenly(request.problem.layout, count - made, request.seed)]


def undrawn(request: Request) -> int:
    """How many of the starts are not drawn."""
    return 2 if request.has_given else 1


def start_at(request: Request, task: Task) -> Start:
    """Where a search begins. Every second drawn start is not matched to the data, as matched ones are often alike."""
    index, part = task
    given = request.given if index == 0 or part is not None else np.full_like(request.given, np.nan)
    matched = part is None or (index - undrawn(request)) % 2 == 1
    with np.errstate(all="ignore"):
        start = make_start(request.first, given, part=part, matched=matched)
        if request.first.timed is None:
            return start
        return _on_simulated_events(request, task, start) or start


def _on_simulated_events(request: Request, task: Task, start: Start) -> Start | None:
    """A start with simulated events where all parameters are known, or where given ones simulate better than matched.

    None where the events that the data show are to be preferred.
    """
    problem, (index, _) = request.first, task

    def worth(unknowns: np.ndarray) -> float:
        return value_at(problem, unknowns, QuickIntegration())

    if with_known_parameters(problem):
        wanted = np.where(np.isfinite(request.given), request.given, problem.layout.start)
        pinned = np.isfinite(wanted) & (index == 0)
        return scanned_start(problem, start, pinned, index, worth, request.seed)
    if index or not request.has_given:
        return None
    return given_start(problem, start, make_start(problem), worth)


def begin(request: Request, start: Start) -> Run:
    """A search at its start."""
    with np.errstate(all="ignore"):
        state = request.method.init(request.first, start)
    return Run(state, state.status)


# ---- running them --------------------------------------------------------------------------------------------------


def search(request: Request, task: Task, progress: Callable[[Progress], None] | None = None) -> Ending:
    """One search from start to end."""
    begun = begin(request, start_at(request, task))
    with np.errstate(all="ignore"):  # what is not finite becomes a rejected step or a status
        ended = iterate(request.method, begun, reporter(request, task[0], progress))
        ending = ending_after(request, ended)
    if ending.status is Status.INTERRUPTED:
        raise Interrupted((task[0], ending))
    return ending


def continue_from(method: ExactMethod, problem: Problem, begin: Solution, news: News = ignore) -> Outcome:
    """A search that begins on the path of a solution."""
    with np.errstate(all="ignore"):
        return run(method, method.resume(problem, begin), news)


def search_along(
    request: Request, unknowns: np.ndarray, news: News, has_arrived: Callable[[IterationState], bool] = never
) -> Ending | None:
    """A search that begins on the simulated path of these unknowns, never worse than it; None without a path."""
    method, problem = exact_method(request), request.problem
    if problem.timed is not None:
        return _along_events(request, unknowns, news)
    path = along(problem, unknowns, method.nodes, method.resolution)
    if path is None:
        return None
    with np.errstate(all="ignore"):
        begun = method.resume(problem, path, stiff=True)
        ended = iterate(method, Run(begun, begun.status), news, has_arrived=has_arrived)
        ending, value = ending_of(ended.outcome(method)), path_value(path)
    if ending.status.success or ending.status is Status.ARRIVED:
        return ending
    if ending.unknowns is not None and value_at(problem, ending.unknowns) <= value:
        return ending
    return replace(ending, value=value, unknowns=unknowns, solution=path)


def _along_events(request: Request, unknowns: np.ndarray, news: News) -> Ending | None:
    """A search that begins on the simulated path of these unknowns and its events; None without a path."""
    start = start_along(request.problem, unknowns)
    if start is None:
        return None
    with np.errstate(all="ignore"):
        begun = request.method.init(request.problem, start)
        return ending_after(request, iterate(request.method, Run(begun, begun.status), news))


def interrupted_at(request: Request, unknowns: np.ndarray) -> Ending | None:
    """The ending of a search on the simulated path of these unknowns that was interrupted before its first step."""
    method = exact_method(request)
    path = along(request.problem, unknowns, method.nodes, method.resolution)
    if path is None:
        return None
    return Ending(Status.INTERRUPTED, path_value(path), 0, 0.0, np.nan, unknowns, path)


def along(problem: Problem, unknowns: np.ndarray, nodes: int, tolerance: float) -> Solution | None:
    """The simulated path of these unknowns on a mesh that resolves it to a tolerance; None where there is none."""
    with np.errstate(all="ignore"):
        start = simulated(problem, unknowns)
        found = None if start is None else on_mesh(problem, start, nodes, tolerance)
    if found is None:
        return None
    system, point = found
    return Solution(system, point.unknowns, point.states, point.path, point.jumps)


def value_at(problem: Problem, unknowns: np.ndarray, quick: QuickIntegration | None = None) -> float:
    """The objective of unknowns (experiments, width) by independent integration; infinite where that fails.

    That is what a search is worth that did not converge: along a path with jumps the objective may be any number.
    With `quick` an integration that turns out difficult fails.
    """
    with np.errstate(all="ignore"):
        params, (initial, _) = problem.layout.measured_values(unknowns), problem.layout.initial(unknowns)
        if quick is None:
            outputs = problem.predicted_rows(params, initial)
        else:
            outputs = problem.predicted_rows(params, initial, quick.tolerance, quick.integration)
        value = np.inf if outputs is None else problem.objective.value(outputs)
        value += 0.0 if problem.priors is None else problem.priors.value(unknowns)
    return float(value) if np.isfinite(value) else np.inf


def reporter(
    request: Request,
    index: int,
    progress: Callable[[Progress], None] | None,
    done: int = 0,
    candidates: bool = False,
) -> News:
    """The function by which the loop, or the simulation of candidates, reports its iterations."""

    def news(
        iteration: int,
        loss: float,
        jump: float,
        stage: Stage | None = None,
        solution: Callable[[], Solution | None] | None = None,
        /,
    ) -> None:
        if progress is not None:
            counts = request.starts, iteration, loss, jump, stage, done, candidates
            progress(Progress(index, *counts, solution))

    return news


def ending_after(request: Request, ran: Run) -> Ending:
    """The ending of a run that has ended, or is set aside.

    Where there are smooth switches, of searches with narrower ones after it; where there are events, of searches with
    those of its simulation.
    """
    outcome = narrowed(request, ran.outcome(request.method))
    if request.problem.timed is not None and outcome.status not in (Status.INTERRUPTED, Status.SET_ASIDE):
        outcome = revised(request.method, request.problem, outcome)
    if outcome.solution is not None and outcome.solution.system.problem is not request.problem:
        outcome = replace(outcome, solution=on_problem(outcome.solution, request.problem))
    return ending_of(outcome)


def narrowed(request: Request, outcome: Outcome) -> Outcome:
    """The outcome after searches with narrower and narrower switches, up to the first that fails.

    Where the path of the wider switch does not contract, a search begins on the simulated path of its unknowns.
    """
    for problem in request.stages[1:]:
        method, wide = exact_method(request), outcome.solution
        if wide is None or not outcome.status.success:
            break
        narrow = continue_from(method, problem, wide)
        if narrow.solution is None:
            path = along(problem, wide.unknowns, method.nodes, method.resolution)
            narrow = narrow if path is None else continue_from(method, problem, path)
        outcome = outcome.then(narrow)
    return outcome


def on_problem(solution: Solution, problem: Problem) -> Solution:
    """The same path as one of another problem with the same unknowns and states."""
    return replace(solution, system=Discretisation(problem, solution.system.mesh))


def ending_of(outcome: Outcome) -> Ending:
    """The ending of a search; a path that is not finite is dropped."""
    solution = outcome.solution
    value = np.inf if solution is None else path_value(solution)
    jump = float(outcome.trace[-1, 1]) if len(outcome.trace) else np.nan
    unknowns = None if solution is None else solution.unknowns
    if solution is not None and not (np.isfinite(value) and np.isfinite(solution.path).all()):
        solution, value = None, np.inf
    counts = (outcome.iterations, outcome.seconds, jump)
    return Ending(outcome.status, value, *counts, unknowns, solution, outcome.trace, outcome.work)


def outcome_of(request: Request, index: int, ending: Ending) -> Outcome:
    """The whole outcome of a search; if its path was dropped, the search is repeated and gives the same one."""
    if ending.solution is None and np.isfinite(ending.value):
        ending = search(request, (index, parts_of(request, index + 1)[index]))
    trace = np.zeros((0, 3)) if ending.trace is None else ending.trace
    solution = path_of(request, ending)
    return Outcome(solution, ending.status, ending.iterations, ending.seconds, trace, ending.work)


def path_of(request: Request, ending: Ending) -> Solution | None:
    """The solution of an ending, rebuilt if it came from a worker or a ledger."""
    if ending.solution is None or isinstance(ending.solution, Solution):
        return ending.solution
    return solution_of(request.problem, as_record(plain(ending.solution, "a path")))


def with_arrivals(optima: Mapping[int, int], endings: Mapping[int, Ending]) -> dict[int, int]:
    """The optimum of each search that found one (search -> number), and of those that came to one of these."""
    came = {k: one.arrived_at for k, one in endings.items() if one.arrived_at is not None}
    return {**optima, **{k: optima[at] for k, at in came.items() if at in optima}}
