"""design() and design_times(): which experiment, or which sampling times, to add next.

Every experiment adds a matrix of information on the global parameters, with its own unknown initial states and local
parameters eliminated. Candidates are compared by what they do to the covariance C of the parameters of interest, in
relative coordinates (a standard error of 0.1 is 10 % of the value):
D  det(C)^(1/2q): the geometric mean error along the axes of the confidence ellipsoid of q parameters,
A  sqrt(trace(C)/q): the root mean square of their errors,
E  the error of the worst direction, among those whose variance all candidates together would at least halve (the
   others keep the uncertainty that bounds and priors leave; their errors are in the columns of the parameters),
c:formula  the error of a formula of the parameters.
Bounds and priors count as knowledge: an estimate that the data do not determine ends at a bound, so its error is half
their width, in logarithms for a log parameter (bounds a factor of 100 apart: 230 %), and a prior adds the inverse of
its variance. A parameter with neither has a prior error of 1000 %.
Directions that no data determine then weigh the same before and after, so that only the others affect the comparison.
Candidates are added greedily, then exchanged for others as long as that improves the criterion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from picardfit.checks import as_number, as_whole
from picardfit.display.hook import shown
from picardfit.errors import InputError, closest
from picardfit.fit import Fit
from picardfit.inference.design_information import (
    DEFAULT,
    DesignSettings,
    Stage,
    many_unknowns,
    of_interest,
    stage_at,
)
from picardfit.inference.population.answer import PopulationFit
from picardfit.inference.population.design import population_stage
from picardfit.inference.refits import solution_of
from picardfit.problem.experiment import Experiment, replanned
from picardfit.problem.least_squares import LeastSquares
from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class Ranked:
    """The criterion and the relative standard errors once this candidate alone is added."""

    name: str
    value: float
    errors: dict[str, float]


@shown
@dataclass(frozen=True)
class Design:
    """What to add, and what it is expected to bring. Errors are relative standard errors."""

    criterion: str
    ranking: tuple[Ranked, ...]  # best first
    chosen: tuple[str, ...]  # in the order of choice
    value_before: float
    value_after: float
    before: dict[str, float]
    after: dict[str, float]
    plan: Experiment | None = None  # the chosen sampling times, from design_times
    settings: DesignSettings = field(default=DEFAULT, repr=False)

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
        """Whether the choice improves the criterion by at least 1 % (`DesignSettings.worthwhile`)."""
        return self.value_after < (1 - self.settings.worthwhile) * self.value_before


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
    settings: DesignSettings = DEFAULT,
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
    For the fit of a population, a candidate is the design of one more individual, and the information is that on
    typical values, noise levels and spreads `sd(ka)`; it takes neither `at`, `initial`, `sd`, `scenarios` nor
    "c:formula".
    """
    check_criterion(criterion)
    if _varies(base):
        given = {"at": at, "initial": initial, "sd": sd, "scenarios": None if scenarios == 1 else scenarios}
        _check_population(base, criterion, given)
        return _population_design(base, candidates, criterion, budget, interest, repeat, settings)
    problem, done, offered = _sorted_out(base, candidates)
    budget = _count(budget, "budget", None if repeat else len(offered))
    both = problem.with_experiments([*done, *offered])
    names, variance = of_interest(both, interest), _variance(base, sd)
    stages = [
        stage_at(both, len(done), unknowns, criterion, names, variance, False, settings)
        for unknowns in many_unknowns(base, both, at, initial, scenarios, seed, settings)
    ]
    chosen = choose(stages, criterion, budget, repeat, settings)
    return _report(stages, criterion, [one.name for one in offered], chosen, names, settings)


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
    settings: DesignSettings = DEFAULT,
) -> Design:
    """Choose `count` sampling times of a planned experiment among its times, the grid.

    `candidate`: a `pf.plan`, or the name of a planned experiment of a Problem. The rest is as in `pf.design`.
    """
    check_criterion(criterion)
    if _varies(base):
        raise InputError("inference.population_times")
    if isinstance(candidate, str):
        candidate = _named_plan(base, candidate)
    if not isinstance(candidate, Experiment):
        raise InputError("inference.design_times_of", given=candidate)
    problem, done, (grid,) = _sorted_out(base, [candidate])
    rows = np.unique(grid.times)
    count = _count(count, "count", None if repeat else len(rows))
    instants = [replace(_sampled(grid, rows[[k]]), name=f"{grid.name} at {t!r}") for k, t in enumerate(rows)]
    both = problem.with_experiments([*done, *instants])
    names, variance = of_interest(both, interest), _variance(base, sd)
    stages = [
        stage_at(both, len(done), unknowns, criterion, names, variance, True, settings)
        for unknowns in many_unknowns(base, both, at, initial, scenarios, seed, settings)
    ]
    chosen = choose(stages, criterion, count, repeat, settings)
    found = _report(stages, criterion, [f"{t:g}" for t in rows], chosen, names, settings)
    return replace(found, plan=_sampled(grid, rows[chosen]))


# ---- populations --------------------------------------------------------------------------------------------------


def _varies(base: object) -> bool:
    """Whether a design is for a population."""
    problem = base if isinstance(base, Problem) else getattr(base, "problem", None)
    return isinstance(problem, Problem) and problem.random is not None


def _check_population(base: object, criterion: str, given: Mapping[str, object]) -> None:
    """InputError for what the design of a population does not take."""
    if isinstance(base, Problem):
        raise InputError("inference.population_design_of_problem")
    for name, value in given.items():
        if value is not None:
            raise InputError("inference.population_design_takes", name)
    if criterion.startswith("c:"):
        raise InputError("inference.population_criterion", criterion)


def _population_design(
    base: object, candidates, criterion: str, budget: int, interest, repeat: bool, settings: DesignSettings
) -> Design:
    assert isinstance(base, PopulationFit)
    if base.optimum is None:
        raise InputError("inference.no_solution", ended=base.conclusion)
    _, done, offered = _sorted_out(base.problem, _offered(() if candidates is None else candidates))
    budget = _count(budget, "budget", None if repeat else len(offered))
    names, stage = population_stage(base, done, offered, interest, settings)
    chosen = choose([stage], criterion, budget, repeat, settings)
    return _report([stage], criterion, [one.name for one in offered], chosen, names, settings)


# ---- checks of the arguments ------------------------------------------------------------------------------------


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
    solution_of(base)  # raises InputError where there is none
    return base.problem


def _offered(candidates) -> list[Experiment]:
    """The candidates as a list, each of them an experiment."""
    if isinstance(candidates, Mapping):
        raise InputError("inference.candidates_are_a_dict")
    offered = list(candidates) if isinstance(candidates, Iterable) else [candidates]
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


def _sampled(grid: Experiment, times: np.ndarray) -> Experiment:
    """A plan at some of its times, which may repeat."""
    own = {
        name: [t for t in np.sort(times) if grid.sampled[grid.times == t, k].any()]
        for k, name in enumerate(grid.observables)
    }
    return replanned(grid, own)


def _count(value: object, name: str, most: int | None) -> int:
    found = as_whole(value, name, 1)
    if most is not None and found > most:
        raise InputError("inference.more_than_candidates", name, value=found, most=most)
    return found


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


# ---- the choice --------------------------------------------------------------------------------------------


def choose(
    stages: Sequence[Stage], criterion: str, budget: int, repeat: bool, settings: DesignSettings = DEFAULT
) -> list[int]:
    """Indices of the chosen candidates: greedy additions, then exchanges as long as they gain."""
    chosen: list[int] = []
    for _ in range(budget):
        chosen.append(_best(stages, criterion, chosen, repeat)[0])
    for _ in range(settings.sweeps if budget > 1 else 0):
        before = list(chosen)
        for k, now in enumerate(before):
            best, found = _best(stages, criterion, chosen[:k] + chosen[k + 1 :], repeat)
            if found[best] < found[now] - settings.gain * abs(found[now]):
                chosen[k] = best
        if chosen == before:
            break
    return chosen


def _best(stages: Sequence[Stage], criterion: str, chosen: list[int], repeat: bool) -> tuple[int, np.ndarray]:
    """The candidate to add to the chosen ones, and the scores of all."""
    added = [stage.items[chosen].sum(axis=0) + stage.items for stage in stages]
    found = scores(criterion, stages, added)
    allowed = found.copy()
    if not repeat:
        allowed[chosen] = np.inf
    return int(np.argmin(allowed)), found


def scores(criterion: str, stages: Sequence[Stage], added: Sequence[np.ndarray]) -> np.ndarray:
    """(trials,): mean over the stages of what is minimised; added[s] is (trials, unknowns, unknowns)."""
    total = np.zeros(len(added[0]))
    for stage, more in zip(stages, added, strict=True):
        found = _covariance(stage, more, stage.targets)
        q = found.shape[1]
        if criterion == "D":
            total += np.linalg.slogdet(found)[1] / q
        elif criterion == "E":
            total += np.linalg.eigvalsh(found)[:, -1]
        else:
            total += np.trace(found, axis1=1, axis2=2) / q
    return total / len(stages)


def _covariance(stage: Stage, more: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(trials, q, q): covariance of rows @ unknowns with the information `more` added."""
    matrix = stage.base + more
    scale = 1 / np.sqrt(np.einsum("...ii->...i", matrix))
    scaled = matrix * scale[..., :, None] * scale[..., None, :]
    right = scale[..., :, None] * rows.T
    found = right.transpose(0, 2, 1) @ np.linalg.solve(scaled, right)
    return 0.5 * (found + found.transpose(0, 2, 1))


def _report(
    stages: Sequence[Stage],
    criterion: str,
    labels: list[str],
    chosen: list[int],
    interest: list[str],
    settings: DesignSettings,
) -> Design:
    def expected(added: list[np.ndarray]) -> tuple[list[float], list[dict[str, float]]]:
        """The criterion and the errors for each of the trials; added[s] is (trials, unknowns, unknowns)."""
        found = scores(criterion, stages, added)
        values = np.exp(0.5 * found) if criterion == "D" else np.sqrt(found)
        covariances = [_covariance(s, more, s.interest) for s, more in zip(stages, added, strict=True)]
        variances = np.mean([np.einsum("...ii->...i", one) for one in covariances], axis=0)
        errors = [dict(zip(interest, row.tolist(), strict=True)) for row in np.sqrt(variances)]
        return values.tolist(), errors

    values, errors = expected([stage.items for stage in stages])
    (now,), (before,) = expected([np.zeros_like(stage.items[:1]) for stage in stages])
    (then,), (after,) = expected([stage.items[chosen].sum(axis=0)[None] for stage in stages])
    ranking = tuple(sorted(map(Ranked, labels, values, errors), key=lambda one: one.value))
    names = tuple(labels[k] for k in chosen)
    return Design(criterion, ranking, names, now, then, before, after, settings=settings)
