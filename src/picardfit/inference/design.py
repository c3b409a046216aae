"""design() and design_times(): which experiment, or which sampling times, to add next.

Every experiment adds a matrix of information on the global parameters, with its own unknown initial states and local
parameters eliminated. Candidates are compared by what they do to the covariance C of the parameters of interest, in
relative coordinates (a standard error of 0.1 is 10 % of the value):
D  det(C)^(1/2q): the geometric mean error along the axes of the confidence ellipsoid of q parameters,
A  sqrt(trace(C)/q): the root mean square of their errors,
E  the error of the worst direction, among those whose variance all candidates together would at least halve (the
   others stay as open as bounds and priors leave them; their errors are in the columns of the parameters),
c:formula  the error of a formula of the parameters.
Bounds and priors count as knowledge: an estimate that the data do not determine ends at a bound, so its error is half
their width, in logarithms for a log parameter (bounds a factor of 100 apart: 230 %), and a prior adds the inverse of
its variance. A parameter with neither has a prior error of 1000 %.
Directions that no data determine then weigh the same before and after, and the comparison is about what is determined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from picardfit.checks import as_number, as_whole
from picardfit.display.hook import shown
from picardfit.errors import InputError, closest
from picardfit.fit import Fit
from picardfit.inference.design_choice import choose, covariance, scores
from picardfit.inference.design_information import DesignSettings, many_unknowns, of_interest, stage_at
from picardfit.problem.experiment import Experiment, plan
from picardfit.problem.likelihood import LeastSquares
from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class Ranked:
    """A candidate alone: the criterion and the relative standard errors once it is added."""

    name: str
    value: float
    errors: dict[str, float]


@shown
@dataclass(frozen=True)
class Design:
    """What to add, and what it is expected to bring. Errors are relative standard errors."""

    criterion: str
    ranking: tuple[Ranked, ...]  # best first
    chosen: tuple[str, ...]  # in the order in which they were found
    value_before: float
    value_after: float
    before: dict[str, float]
    after: dict[str, float]
    plan: Experiment | None = None  # the chosen sampling times, from design_times

    @property
    def values(self) -> dict[str, float]:
        """candidate -> the criterion once it is added alone, best first."""
        return {one.name: one.value for one in self.ranking}

    @property
    def times(self) -> tuple[float, ...]:
        """The chosen sampling times, in order and as often as they were chosen; empty for a choice of experiments."""
        return () if self.plan is None else tuple(np.sort(self.plan.times).tolist())

    @property
    def worthwhile(self) -> bool:
        """Whether what was chosen improves the criterion by at least 1 %."""
        return self.value_after < (1 - DesignSettings.worthwhile) * self.value_before


def design(
    base: Fit | Problem,
    candidates: Iterable[Experiment] | Experiment | None = None,
    criterion: str = "D",
    budget: int = 1,
    *,
    at: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
    initial: Mapping[str, object] | None = None,
    interest: Sequence[str] | None = None,
    repeat: bool = False,
    sd: float | None = None,
    scenarios: int = 1,
    seed: int = 0,
) -> Design:
    """Rank candidate experiments (`pf.plan`) by the information they add, and choose `budget` of them.

    `criterion`: "D", "A" or "E" (the error of the worst direction, among those that all candidates together would
    determine), or "c:formula". Smaller is better; all are relative errors.
    `base`: a Fit (its data and estimates), or a Problem; without `candidates`, those experiments of the Problem that
    are only planned. `at`: parameter values, or several sets over which the criterion is averaged; by default the
    estimates, or the starts, means of priors or middles of bounds. `scenarios`: that many more sets, drawn around the
    estimates, or from priors and bounds. `initial`: unknown initial states of candidates. `interest`: parameters that
    count, by default all global ones of the model and of initial formulas. `repeat`: whether a candidate may be chosen
    again. `sd`: standard deviation of one measurement, by default that of the fit's residuals; a noise model knows it.
    """
    check_criterion(criterion)
    problem, done, offered = _sorted_out(base, candidates)
    budget = _count(budget, "budget", None if repeat else len(offered))
    both = problem.with_experiments([*done, *offered])
    stages = [
        stage_at(both, len(done), unknowns, criterion, interest, _variance(base, sd))
        for unknowns in _many_unknowns(base, both, at, initial, scenarios, seed)
    ]
    chosen = choose(stages, criterion, budget, repeat)
    return _report(stages, criterion, [one.name for one in offered], chosen, of_interest(both, interest))


def design_times(
    base: Fit | Problem,
    candidate: Experiment | str,
    count: int,
    criterion: str = "D",
    *,
    at: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
    initial: Mapping[str, object] | None = None,
    interest: Sequence[str] | None = None,
    repeat: bool = False,
    sd: float | None = None,
    scenarios: int = 1,
    seed: int = 0,
) -> Design:
    """Choose `count` sampling times of a planned experiment among its times, the grid.

    `candidate`: a `pf.plan`, or the name of a planned experiment of a Problem. The rest is as in `pf.design`.
    """
    check_criterion(criterion)
    if isinstance(candidate, str):
        candidate = _named_plan(base, candidate)
    if not isinstance(candidate, Experiment):
        raise InputError("inference.design_times_of", given=candidate)
    problem, done, (grid,) = _sorted_out(base, [candidate])
    rows = np.unique(grid.times)
    count = _count(count, "count", None if repeat else len(rows))
    instants = [_instant(grid, time) for time in rows]
    both = problem.with_experiments([*done, *instants])
    stages = [
        stage_at(both, len(done), unknowns, criterion, interest, _variance(base, sd), one_experiment=True)
        for unknowns in _many_unknowns(base, both, at, initial, scenarios, seed)
    ]
    chosen = choose(stages, criterion, count, repeat)
    found = _report(stages, criterion, [f"{t:g}" for t in rows], chosen, of_interest(both, interest))
    return replace(found, plan=_sampled(grid, rows[chosen]))


# ---- who is who --------------------------------------------------------------------------------------------


def _sorted_out(base: Fit | Problem, candidates) -> tuple[Problem, list[Experiment], list[Experiment]]:
    """The problem, its experiments that count as done, and the candidates with a name each."""
    problem = _problem_of(base)
    done = list(problem.experiments)
    if candidates is None:
        offered = [one for one in done if one.planned is not None]
        done = [one for one in done if one.planned is None]
    else:
        offered = _offered(candidates)
    if not offered:
        raise InputError("inference.no_candidate")
    offered = [one if one.name else replace(one, name=f"candidate {k}") for k, one in enumerate(offered, 1)]
    named = {one.name for one in offered}
    for one in done:
        if one.name in named and one.planned is None:
            raise InputError("inference.candidate_name_taken", one.name, key=("candidates", one.name))
    return problem, [one for one in done if one.name not in named], offered


def _problem_of(base: object) -> Problem:
    """The problem that a design is for."""
    if isinstance(base, Problem):
        return base
    if not isinstance(base, Fit):
        raise InputError("inference.design_for", given=base)
    if base.solution is None:
        raise InputError("inference.no_solution", message=base.status.sentence().rstrip("."))
    return base.problem


def _offered(candidates) -> list[Experiment]:
    """The candidates as a list, each of them an experiment."""
    if isinstance(candidates, Mapping):
        raise InputError("inference.candidates_are_a_dict")
    offered = [candidates] if isinstance(candidates, Experiment) else list(candidates)
    for one in offered:
        if not isinstance(one, Experiment):
            raise InputError("inference.candidate_not_an_experiment", value=one)
    return offered


def check_criterion(criterion: object) -> None:
    """InputError for a criterion that there is not."""
    if not isinstance(criterion, str) or not (criterion in ("D", "A", "E") or criterion.startswith("c:")):
        raise InputError("inference.criterion", value=criterion)


def _named_plan(base: Fit | Problem, name: str) -> Experiment:
    experiments = base.experiments if isinstance(base, Problem) else ()
    known = {one.name: one for one in experiments if one.planned is not None}
    if name not in known:
        raise InputError("inference.no_such_plan", name, known=list(known), close=closest(name, known))
    return known[name]


def _instant(grid: Experiment, time: float) -> Experiment:
    """The part of a plan at one time, as an experiment of its own."""
    return replace(_sampled(grid, np.array([time])), name=f"{grid.name} at {time!r}")


def _sampled(grid: Experiment, times: np.ndarray) -> Experiment:
    """A plan at some of its times, which may repeat."""
    own = {
        name: [t for t in np.sort(times) if grid.sampled[grid.times == t, k].any()]
        for k, name in enumerate(grid.observables)
    }
    return replace(plan(None, own, grid.name, grid.inputs, grid.initial, grid.t0), rest=grid.rest)


def _count(value: object, name: str, most: int | None) -> int:
    found = as_whole(value, name, 1)
    if most is not None and found > most:
        raise InputError("inference.more_than_candidates", name, value=found, most=most)
    return found


def _many_unknowns(
    base: Fit | Problem, both: Problem, at, initial, scenarios: int, seed: int
) -> list[np.ndarray]:
    sets = as_whole(scenarios, "scenarios", 1)
    return many_unknowns(base, both, at, initial, sets, as_whole(seed, "seed", 0))


def _variance(base: Fit | Problem, sd: float | None) -> float:
    """Variance of one measurement, in units of what the objective assumes."""
    problem = base.problem if isinstance(base, Fit) else base
    likelihood = not isinstance(problem.objective, LeastSquares)
    if sd is not None:
        sd = as_number(sd, "standard deviation sd")
        if not sd > 0:
            raise InputError("inference.sd_not_positive", value=sd)
        if likelihood:
            raise InputError("inference.sd_with_noise_model")
        return sd**2
    if likelihood:
        return 1.0
    if isinstance(base, Problem):
        raise InputError("inference.sd_missing")
    if not base.residual_variance > 0:
        raise InputError("inference.sd_without_residuals")
    return base.residual_variance


def _report(stages, criterion: str, labels: list[str], chosen: list[int], interest: list[str]) -> Design:
    def told(added: list[np.ndarray]) -> tuple[list[float], list[dict[str, float]]]:
        found = scores(criterion, stages, added)
        values = np.exp(0.5 * found) if criterion == "D" else np.sqrt(found)
        variances = np.mean(
            [
                np.einsum("...ii->...i", covariance(s, m, s.interest))
                for s, m in zip(stages, added, strict=True)
            ],
            axis=0,
        )
        errors = [dict(zip(interest, row.tolist(), strict=True)) for row in np.sqrt(variances)]
        return values.tolist(), errors

    values, errors = told([stage.items for stage in stages])
    (now,), (before,) = told([np.zeros_like(stage.items[:1]) for stage in stages])
    (then,), (after,) = told([stage.items[chosen].sum(axis=0)[None] for stage in stages])
    ranking = sorted(map(Ranked, labels, values, errors), key=lambda one: one.value)
    return Design(criterion, tuple(ranking), tuple(labels[k] for k in chosen), now, then, before, after)
