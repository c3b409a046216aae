"""run(): every tool on one problem, judged by one loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from compare.isolation import DEFAULT, Limits, isolated
from compare.registry import REMEDY, Tool, chosen
from compare.table import Comparison, Row, reaches
from compare.task import Task
from compare.usage import UsageError
from picardfit.errors import type_words
from picardfit.fit import parameters_of
from picardfit.model.parameters import Parameter, as_number
from picardfit.problem.named_values import unknowns_from
from picardfit.problem.problem import Problem, Start
from picardfit.search.starts import draw, make_start, open_values

ROUNDING = 1e-20  # part of the mean square of the data below which losses differ by rounding alone


def run(
    problem: Problem,
    tools: Iterable[str] | None = None,
    start: Mapping[str, object] | None = None,
    seed: int = 0,
    budget: float = 30.0,
    *,
    start_initial: Mapping[str, object] | None = None,
    limits: Limits = DEFAULT,
) -> Comparison:
    """The tools of these names (None: all of TOOLS) on a problem, from one start, least squares for all.

    `start`, `start_initial`: values to begin with; parameters left out are drawn from the bounds with `seed`, initial
    states left out are read off the data. `seed` also drives the tools that search at random.
    A noise model and priors are left out: least squares is what all of the tools can do.
    `budget`: processor seconds for each tool; one that does not stop by itself is stopped from outside, at `limits`.
    """
    if not isinstance(problem, Problem):
        raise UsageError(f"The problem is {type_words(problem)}: pass a pf.Problem(...).")
    if as_number(budget, "budget") <= 0:
        raise UsageError(f"The budget is {budget:g} s: give a positive number of seconds.")
    wanted = chosen(tools)
    problem = least_squares_only(problem)
    task = Task(problem, common_start(problem, start, start_initial, seed), seed, float(budget))
    rows = [_row(tool, task, limits) for tool in wanted]
    best = min((row.loss for row in rows if np.isfinite(row.loss)), default=np.inf)
    floor = ROUNDING * float(np.nanmean(problem.samples.data**2))
    judged = tuple(replace(row, success=reaches(row.loss, best, floor)) for row in rows)
    return Comparison(judged, parameters_of(problem, task.start.unknowns))


def least_squares_only(problem: Problem) -> Problem:
    """The problem without its noise model, the levels of the noise and the priors."""
    if problem.scatter is None:
        return problem
    kept = {n: p for n, p in problem.parameters.items() if n not in problem.noise_names}
    experiments = [replace(one, initial=_without_priors(one.initial)) for one in problem.experiments]
    return Problem(
        problem.model, experiments, _without_priors(kept), _without_priors(problem.initial), problem.truth
    )


def _without_priors(given: Mapping[str, object]) -> dict[str, object]:
    return {n: replace(p, prior=None) if isinstance(p, Parameter) else p for n, p in given.items()}


def common_start(
    problem: Problem,
    start: Mapping[str, object] | None,
    start_initial: Mapping[str, object] | None,
    seed: int,
) -> Start:
    """The start of all tools, with guessed states along the data for those that need a path."""
    layout = problem.layout
    given = unknowns_from(problem, start, start_initial, missing="nan")
    given = np.where(np.isfinite(given), given, layout.start)
    drawn = open_values(problem, given, draw(layout, np.random.default_rng(seed)))
    parameters = np.arange(layout.width) >= len(layout.initial_states)
    outside = layout.exists & ((given < layout.lower) | (given > layout.upper))
    if outside.any():
        e, column = np.argwhere(outside)[0]
        raise UsageError(
            f"The start of `{layout.label(e, column)}` lies outside its bounds: move it inside or widen the bounds."
        )
    return make_start(problem, np.where(np.isfinite(given) | ~parameters, given, drawn))


def _row(tool: Tool, task: Task, limits: Limits) -> Row:
    versions = tool.versions()
    if versions is None:
        return Row(tool.name, "", REMEDY)
    report = isolated(tool, task, limits)
    if report.answer is None:
        return Row(tool.name, versions, report.sentence, elapsed=report.elapsed)
    problem = task.problem
    unknowns = task.at(np.clip(report.answer.vector, task.lower, task.upper))
    initial = problem.layout.initial(unknowns)[0]
    return Row(
        tool.name,
        versions,
        report.sentence,
        loss_at(problem, unknowns),
        parameters_of(problem, unknowns),
        {
            name: dict(zip(problem.model.states, row.tolist(), strict=True))
            for name, row in zip(problem.names, initial, strict=True)
        },
        report.seconds,
        report.elapsed,
    )


def loss_at(problem: Problem, unknowns: np.ndarray) -> float:
    """`problem.loss` at an array of unknowns: the paper's L_ls."""
    layout = problem.layout
    outputs = problem.predicted_rows(layout.model_values(unknowns), layout.initial(unknowns)[0])
    if outputs is None:
        return np.inf
    gap = (outputs - problem.samples.data)[np.isfinite(problem.samples.data)]
    return 0.5 * float(gap @ gap) / len(problem.samples.times)
