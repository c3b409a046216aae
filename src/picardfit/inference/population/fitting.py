"""pf.fit of a problem with random effects: searches from one or several starts, and the answer of the best."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from picardfit import __version__
from picardfit.collocation.mesh import Flags
from picardfit.errors import InputError, Notice, Status
from picardfit.formulas.kernels import Array
from picardfit.inference.population.answer import PopulationFit, PopulationSearch
from picardfit.inference.population.at_values import study_of
from picardfit.inference.population.confirmation import confirmed
from picardfit.inference.population.estimation import (
    Box,
    EstimationSettings,
    Optimum,
    Report,
    Rival,
    box_of,
    explore,
    first_covariance,
    optimise,
    two_stage,
)
from picardfit.inference.population.first_stage import typical_start
from picardfit.inference.population.individual_problem import pooled_problem
from picardfit.inference.population.marginals import FOCEI, Marginal, as_marginal
from picardfit.inference.population.modes import paths_at
from picardfit.inference.population.notices import notices_of
from picardfit.inference.population.objective import Evaluation, Study, evaluate
from picardfit.inference.population.predictions import predict
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.ordered_map import Written, run_tasks
from picardfit.parallel.progress import Bar
from picardfit.problem.json_values import array, get, number
from picardfit.problem.named_values import start_values
from picardfit.problem.problem import Problem
from picardfit.problem.serialisation import problem_digest
from picardfit.search.policy import SearchPolicy
from picardfit.search.searches import Request
from picardfit.solvers.loop import Method, Progress


@dataclass(frozen=True)
class Asked:
    """What the result of a population fit depends on."""

    problem: Problem
    request: Request  # without random effects
    marginal: Marginal
    settings: EstimationSettings = field(default=EstimationSettings())


@dataclass(frozen=True)
class Found:
    """How one search ended; the optimum itself only where it was found in this process."""

    point: Array | None  # (outer,)
    value: float  # -log L without constants
    steps: int
    status: Status
    seconds: float
    optimum: Optimum | None = None


def fit_population(
    problem: Problem,
    method: Method,
    marginal: object,
    start: Any,
    starts: int,
    policy: SearchPolicy,
    seed: int,
    executor: Executor | None,
    ledger: str | Path | None,
    progress: Callable[[Progress], None] | Literal[False] | None,
) -> PopulationFit:
    """Estimate typical values, noise and the covariance of the random effects."""
    began = time.perf_counter()
    problem.check_inputs()
    pooled, chosen = pooled_problem(problem), as_marginal(marginal)
    study_of(problem, chosen)  # raises what is wrong before anything is searched
    given = start_values(pooled, start, None)
    asked = Asked(problem, Request(pooled, method, given, 1, seed, policy), chosen)
    found = _search_all(asked, starts, executor, ledger, progress)
    order = sorted(found, key=lambda k: (not np.isfinite(found[k].value), round(found[k].value, 6), k))
    best = found[order[0]]
    optimum = best.optimum or _again(asked, best)
    searches = tuple(
        PopulationSearch(k, 2 * one.value, one.status, one.steps, one.seconds) for k, one in found.items()
    )
    return PopulationFit(
        problem=problem,
        method=method,
        marginal=chosen,
        optimum=optimum,
        status=_status(best, optimum),
        searches=searches,
        iterations=best.steps,
        seconds=time.perf_counter() - began,
        seed=seed,
        warnings=_warnings(problem, optimum),
    )


def _search_all(
    asked: Asked,
    starts: int,
    executor: Executor | None,
    ledger: str | Path | None,
    progress: Callable[[Progress], None] | Literal[False] | None,
) -> dict[int, Found]:
    """How the searches from all starts ended."""
    identity = {
        "picardfit": __version__,
        "work": "population",
        "problem": problem_digest(asked.problem),
        "marginal": repr(asked.marginal),
        "start": asked.request.given.tolist(),
        "seed": asked.request.seed,
    }
    book = None if ledger is None else Ledger(ledger, identity)
    bar = Bar("searches") if progress is None else None
    tell = progress or (bar.show_search if bar else None)
    try:
        work = run_tasks(
            _Search(asked, starts, None if executor else tell),
            dict(enumerate(range(starts))),
            executor=executor,
            ledger=book,
            written=Written(_encoded, _decoded),
        )
    finally:
        for one in (bar, book):
            if one:
                one.close()
    if not work.results:
        raise KeyboardInterrupt
    return work.results


class _Search:
    """One search, as a function of its index."""

    def __init__(self, asked: Asked, starts: int, tell: Callable[[Progress], None] | None) -> None:
        self.asked, self.starts, self.tell = asked, starts, tell

    def __call__(self, index: int) -> Found:
        began = time.perf_counter()
        optimum = _searched(self.asked, index, self._report(index))
        spent = time.perf_counter() - began
        if optimum is None:
            return Found(None, np.inf, 0, Status.NOT_FINITE, spent)
        kept = optimum if self.tell is not None or self.starts == 1 else None
        at = optimum.at
        return Found(at.point, at.value, optimum.steps, optimum.status, spent, kept)

    def _report(self, index: int) -> Report:
        def report(count: int, objective: float) -> None:
            if self.tell is not None:
                self.tell(Progress(index, self.starts, count, objective, 0.0))

        return report


def _searched(asked: Asked, index: int, report: Report) -> Optimum | None:
    """One search: typical values, first effects, optimum; None where no path can be computed."""
    settings, problem = asked.settings, asked.problem
    plain = study_of(problem, asked.marginal)
    # the cheapest approximation that knows modes leads to the region of the optimum of all others
    first = replace(plain, marginal=FOCEI())

    def begin(theta: Array) -> Evaluation:
        point = np.concatenate([theta, first_covariance(plain, theta, problem, settings)])
        return evaluate(first, point)

    def judge(theta: Array) -> float:
        return begin(theta).value

    beginning = typical_start(asked.request, plain.setting.problem, index, judge)
    start = None if beginning is None else begin(beginning.theta)
    if beginning is None or start is None or not np.isfinite(start.value):
        check_levels(plain, _middle(plain) if beginning is None else beginning.theta)
        return None
    prepared = partial(_prepared, asked, plain, first)
    found = optimise(plain, *prepared(start), settings, report)
    if found.status is Status.INTERRUPTED:
        return found
    begun = [prepared(begin(one)) for one in beginning.rivals]
    ends = [explore(plain, *one, settings) if type(asked.marginal) is FOCEI else one[0] for one in begun]
    ends = sorted((one for one in ends if np.isfinite(one.value)), key=lambda one: one.value)
    if ends and 2 * ends[0].value < 2 * found.at.value - settings.decisive:
        better, box = ends[0], box_of(plain, plain.split(ends[0].point)[0], settings)
        ends, found = [found.at, *ends[1:]], optimise(plain, better, box, settings, report)
    return replace(found, rivals=tuple(Rival(one.point, one.value) for one in ends))


def _prepared(asked: Asked, study: Study, first: Study, start: Evaluation) -> tuple[Evaluation, Box]:
    """The start of quasi-Newton steps, after two-stage estimation, and their box.

    Other approximations than FOCEI begin near its optimum: their evaluations cost more, or they know no modes.
    """
    settings = asked.settings
    start = two_stage(first, start, _held(asked.problem, first), settings)
    box = box_of(first, first.split(start.point)[0], settings)
    if type(asked.marginal) is FOCEI:
        return start, box
    near = explore(first, start, box, settings)
    return evaluate(study, near.point, near), box


def _middle(study: Study) -> Array:
    """Typical values in the middle of their bounds, zero without any."""
    layout = study.setting.problem.layout
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (layout.lower[0] + layout.upper[0])
    return np.where(np.isfinite(middle), middle, 0.0)


def check_levels(study: Study, theta: Array) -> None:
    """InputError where the noise of a measurement has no size at the typical values: proportional to zero."""
    setting = study.setting
    typical = setting.unknowns(theta, np.zeros((study.individuals, setting.effects)))
    paths = paths_at(setting, typical, None)
    if paths.failed.any():
        return
    found, measured = predict(setting.measurements, paths), setting.measurements
    empty = np.flatnonzero(found.rows[:, 1] == 0)
    if len(empty):
        first = int(empty[0])
        name = setting.problem.names[measured.owner[first]]
        time_ = float(setting.problem.samples.times[measured.sample[first]])
        raise InputError("inference.population_zero_level", name, key=("noise",), time=time_)


def _held(problem: Problem, study: Study) -> Flags:
    """(outer,) bool: coordinates of the covariance that the user gave a start."""
    given = set() if problem.random is None else set(problem.random.start)
    names = study.covariance.names
    own = [one.row == one.column and names[one.row] in given for one in study.covariance.entries]
    width = study.setting.problem.layout.width
    return np.concatenate([np.zeros(width, bool), np.array(own, bool)])


def _again(asked: Asked, best: Found) -> Optimum | None:
    """The optimum of a search that another process or an earlier run made: a search from its end."""
    if best.point is None:
        return None
    study = study_of(asked.problem, asked.marginal)
    at = evaluate(study, best.point)
    box = box_of(study, study.split(best.point)[0], asked.settings)
    return optimise(study, at, box, asked.settings, lambda *_: None)


def _status(best: Found, optimum: Optimum | None) -> Status:
    if optimum is None:
        return best.status
    status = optimum.status if best.optimum is not None else best.status
    if status is not Status.CONVERGED:
        return status
    if not confirmed(optimum.at):
        return Status.INACCURATE
    width = optimum.at.study.setting.problem.layout.width
    theta, box = optimum.at.point[:width], optimum.box
    near = 1e-6 * box.unit[:width]
    stuck = (theta <= box.lower[:width] + near) | (theta >= box.upper[:width] - near)
    return Status.CONVERGED_AT_BOUND if stuck.any() else status


def _warnings(problem: Problem, optimum: Optimum | None) -> tuple[Notice, ...]:
    return (*problem.remarks, *(() if optimum is None else notices_of(problem, optimum)))


def _encoded(found: Found) -> dict[str, object]:
    return {
        "point": None if found.point is None else found.point.tolist(),
        "value": found.value,
        "steps": found.steps,
        "status": found.status.name,
        "seconds": found.seconds,
    }


def _decoded(record: Any) -> Found:
    point = get(record, "point")
    return Found(
        None if point is None else array(point, (None,), "point"),
        number(get(record, "value"), "value"),
        get(record, "steps", int),
        Status[get(record, "status", str)],
        number(get(record, "seconds"), "seconds"),
    )
