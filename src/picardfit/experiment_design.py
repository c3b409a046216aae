"""design() and design_times(): which experiment, or which sampling times, to add next.

Every experiment adds a matrix of information on the global parameters, with its own unknown initial states and local
parameters eliminated. Candidates are compared by what they do to the covariance C of the parameters of interest, in
relative coordinates (a standard error of 0.1 is 10 % of the value):
D  det(C)^(1/2q): the geometric mean error along the axes of the confidence ellipsoid of q parameters,
A  sqrt(trace(C)/q): the root mean square of their errors,
E  the error of the worst direction, among those that all candidates together would determine,
c:formula  the error of a formula of the parameters.
Bounds count as knowledge: an estimate that the data do not determine ends at a bound, so its error is half their
width. A parameter without bounds has a prior error of 1000 %. Directions that no data determine then weigh the same
before and after, and the comparison is about what is determined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from picardfit.combinations import percent
from picardfit.data import Experiment, plan
from picardfit.errors import InputError, did_you_mean, listing, type_words
from picardfit.expressions import BatchedMap, names, parse
from picardfit.noise import LeastSquares
from picardfit.parameters import as_number
from picardfit.problem import Problem
from picardfit.result import Fit
from picardfit.starts import draw, open_values
from picardfit.uncertainty.sensitivities import expected, solvable
from picardfit.unknowns import Unknowns
from picardfit.values import border_from

UNKNOWN = 10.0  # relative prior error of a parameter without bounds
SWEEPS = 20  # of exchanges
HALVED = 0.5  # part of its prior variance below which a direction counts as determinable
GAIN = 1e-9  # relative improvement that counts
MOST_SHOWN, MOST_ROWS = 12, 30  # parameters in the columns of a table, candidates in its rows


@dataclass(frozen=True)
class Ranked:
    """A candidate alone: the criterion and the relative standard errors once it is added."""

    name: str
    value: float
    errors: dict[str, float]


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
        """The chosen sampling times, in order; empty for a choice of experiments."""
        return () if self.plan is None else tuple(np.unique(self.plan.times).tolist())

    def _repr_html_(self) -> str:
        from picardfit.notebook import design_html

        return design_html(self)

    def __str__(self) -> str:
        shown = list(self.before)[:MOST_SHOWN]
        rows = [("", self.criterion, *shown), ("now", *_row(self.value_before, self.before, shown))]
        if self.plan is None:
            rows += [
                (f"+ {one.name}", *_row(one.value, one.errors, shown)) for one in self.ranking[:MOST_ROWS]
            ]
        rows.append(("with all chosen", *_row(self.value_after, self.after, shown)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([r[0].ljust(widths[0]), *map(str.rjust, r[1:], widths[1:])]).rstrip() for r in rows
        ]
        what = ", ".join(f"{t:g}" for t in self.times) if self.plan is not None else ", ".join(self.chosen)
        title = "Expected relative standard errors (bounds count as knowledge):"
        return "\n".join([title, *lines, f"{'sample at' if self.plan is not None else 'chosen'}: {what}"])


@dataclass(frozen=True)
class _Stage:
    """The information at one set of values, relative coordinates: globals first, then what a candidate adds."""

    base: np.ndarray  # (unknowns, unknowns): prior knowledge and what is measured already
    items: np.ndarray  # (candidates, unknowns, unknowns)
    targets: np.ndarray  # (q, unknowns): what the criterion is about
    interest: np.ndarray  # (parameters, unknowns): what the errors are told of


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

    `base`: a Fit (its data and estimates), or a Problem; without `candidates`, those experiments of the Problem that
    are only planned. `at`: parameter values, or several sets over which the criterion is averaged; by default the
    estimates, or the starts or middle of the bounds. `scenarios`: that many more sets, drawn around the estimates or
    from the bounds. `initial`: unknown initial states of candidates. `interest`: parameters that count, by default all
    global ones of the model. `repeat`: whether a candidate may be chosen again. `sd`: standard deviation of one
    measurement, by default that of the fit's residuals.
    """
    _check_criterion(criterion)
    problem, done, offered = _sorted_out(base, candidates)
    budget = _count(budget, "budget", None if repeat else len(offered))
    both = problem.with_experiments([*done, *offered])
    stages = [
        _stage(both, len(done), border, criterion, interest, _variance(base, sd))
        for border in _borders(base, both, at, initial, scenarios, seed)
    ]
    chosen = _choose(stages, criterion, budget, repeat)
    return _report(stages, criterion, [one.name for one in offered], chosen, _interest(both, interest))


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
    _check_criterion(criterion)
    if isinstance(candidate, str):
        candidate = _named_plan(base, candidate)
    problem, done, (grid,) = _sorted_out(base, [candidate])
    rows = np.unique(grid.times)
    count = _count(count, "count", None if repeat else len(rows))
    instants = [_instant(grid, time) for time in rows]
    both = problem.with_experiments([*done, *instants])
    stages = [
        _stage(both, len(done), border, criterion, interest, _variance(base, sd), one_experiment=True)
        for border in _borders(base, both, at, initial, scenarios, seed)
    ]
    chosen = _choose(stages, criterion, count, repeat)
    found = _report(stages, criterion, [f"{t:g}" for t in rows], chosen, _interest(both, interest))
    return replace(found, plan=_sampled(grid, rows[chosen]))


# ---- who is who --------------------------------------------------------------------------------------------


def _sorted_out(base: Fit | Problem, candidates) -> tuple[Problem, list[Experiment], list[Experiment]]:
    """The problem, its experiments that count as done, and the candidates with a name each."""
    if isinstance(base, Fit):
        if base.solution is None:
            raise InputError(f"The fit has no solution to plan from: {base.status.value}")
        problem = base.problem
    elif isinstance(base, Problem):
        problem = base
    else:
        raise InputError(
            f"design needs a fit or a pf.Problem first, not {type_words(base)}: pass what pf.fit returned."
        )
    done = list(problem.experiments)
    if candidates is None:
        offered = [one for one in done if one.planned is not None]
        done = [one for one in done if one.planned is None]
    else:
        offered = [candidates] if isinstance(candidates, Experiment) else list(candidates)
    if not offered:
        raise InputError("There is no candidate: pass pf.plan(times, ['observable'], name='...') objects.")
    for one in offered:
        if not isinstance(one, Experiment):
            raise InputError(
                f"{one!r} is not an experiment: make candidates with pf.plan(times, ['observable'])."
            )
    offered = [one if one.name else replace(one, name=f"candidate {k}") for k, one in enumerate(offered, 1)]
    named = {one.name for one in offered}
    for one in done:
        if one.name in named and one.planned is None:
            raise InputError(
                f"`{one.name}` is the name of an experiment with data: give the candidate another."
            )
    return problem, [one for one in done if one.name not in named], offered


def _check_criterion(criterion: object) -> None:
    if not isinstance(criterion, str) or not (criterion in ("D", "A", "E") or criterion.startswith("c:")):
        raise InputError(f"criterion={criterion!r} is unknown: write 'D', 'A', 'E' or 'c:formula'.")


def _named_plan(base: Fit | Problem, name: str) -> Experiment:
    experiments = base.experiments if isinstance(base, Problem) else ()
    known = {one.name: one for one in experiments if one.planned is not None}
    if name not in known:
        raise InputError(
            f"There is no planned experiment `{name}` ({listing(known)}): pass a pf.plan(...) whose times are the grid."
            + did_you_mean(name, known)
        )
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
    return plan(None, own, grid.name, grid.inputs, grid.initial, grid.t0)


def _count(value: object, name: str, most: int | None) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} = {value!r} is not a positive whole number: write for example {name}=1.")
    if most is not None and value > most:
        raise InputError(
            f"{name} = {value} is more than the {most} candidates: lower it, or pass repeat=True."
        )
    return int(value)


def _variance(base: Fit | Problem, sd: float | None) -> float:
    """Variance of one measurement, in units of what the objective assumes."""
    if sd is not None:
        sd = as_number(sd, "standard deviation sd")
        if not sd > 0:
            raise InputError(f"The standard deviation sd is {sd:g}: give a positive number.")
        return sd**2
    problem = base.problem if isinstance(base, Fit) else base
    if not isinstance(problem.objective, LeastSquares):  # a likelihood knows its own noise
        return 1.0
    if isinstance(base, Problem):
        raise InputError(
            "Without a fit the noise is not known: pass sd=..., the standard deviation of a measurement."
        )
    if not base.residual_variance > 0:
        raise InputError("The fit leaves no residuals to tell the noise from: pass sd=...")
    return base.residual_variance


# ---- values at which to look -------------------------------------------------------------------------------


def _borders(base: Fit | Problem, both: Problem, at, initial, scenarios: int, seed: int) -> list[np.ndarray]:
    """Unknowns of all experiments, internal coordinates, at every set of values."""
    scenarios = _count(scenarios, "scenarios", None)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed = {seed!r} is not a whole number from 0 on: write for example seed=0.")
    sets = [at] if at is None or isinstance(at, Mapping) else list(at)
    if not sets:
        raise InputError("`at` is empty: pass parameter values, or leave it out.")
    borders = [_border(base, both, one, initial) for one in sets]
    rng = np.random.default_rng(seed)
    for _ in range(scenarios - 1):
        borders.append(_drawn(base, both, borders[0], rng))
    return borders


def _border(base: Fit | Problem, both: Problem, at, initial) -> np.ndarray:
    unknowns = both.unknowns
    given = border_from(both, at or {}, initial or {}, missing="nan")
    if isinstance(base, Fit):
        known = _estimates(base, both)
        given = np.where(np.isnan(given), known, given)
        with np.errstate(invalid="ignore"):
            count = np.isfinite(known).sum(axis=0)
            mean = np.nansum(known, axis=0) / np.where(count, count, np.nan)
        given = np.where(np.isnan(given) & np.isnan(unknowns.start), mean, given)
    given = np.where(np.isnan(given), unknowns.start, given)
    border = np.where(np.isnan(given), open_values(both, given, None), given)
    border[:, unknowns.local :] = border[:1, unknowns.local :]
    return np.where(unknowns.exists, border, unknowns.lower)


def _estimates(fit: Fit, both: Problem) -> np.ndarray:
    """The estimates as a border of the larger problem; NaN for what only candidates have."""
    old = fit.problem.unknowns
    initial = {
        name: {
            both.model.states[s]: fit.initial_states[name][both.model.states[s]] for s in old.initial_states
        }
        for name in fit.problem.names
        if name in both.names
    }
    free = {n: v for n, v in fit.parameters.items() if "[" not in n or n[:-1].split("[", 1)[1] in both.names}
    return border_from(both, free, initial, missing="nan")


def _drawn(base: Fit | Problem, both: Problem, centre: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other global parameters: from the fit's errors, cut at the bounds; or from the bounds."""
    unknowns, border = both.unknowns, centre.copy()
    shared = slice(unknowns.local, None)
    if isinstance(base, Fit):
        unit, prior = _units(unknowns, centre)
        spread = np.array(
            [base.standard_errors.get(unknowns.label(0, c), np.inf) for c in range(unknowns.width)]
        )
        spread = spread / np.where(unknowns.log[0], unknowns.natural(centre)[0], 1.0)
        spread = np.minimum(np.nan_to_num(spread, nan=np.inf), unit[0] / np.sqrt(prior[0]))
        border[:, shared] += (spread * rng.standard_normal(unknowns.width))[shared]
    else:
        border[:, shared] = open_values(both, centre, draw(unknowns, rng))[:1, shared]
    return np.clip(border, unknowns.lower, unknowns.upper)


def _units(unknowns: Unknowns, border: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(experiments, width) each: internal size of one relative unit, and the prior information in relative units."""
    natural, slopes = unknowns.natural(border), unknowns.slopes(border)
    with np.errstate(invalid="ignore"):
        half = 0.5 * (unknowns.natural(unknowns.upper) - unknowns.natural(unknowns.lower))
    half = np.where(np.isfinite(half) & (half > 0), half, np.nan)
    size = np.where(natural != 0, np.abs(natural), np.where(np.isnan(half), 1.0, half))
    prior = np.where(np.isnan(half), 1 / UNKNOWN**2, (size / half) ** 2)
    return size / slopes, prior


# ---- information -------------------------------------------------------------------------------------------


def _stage(
    both: Problem, done: int, border, criterion: str, interest, variance: float, one_experiment: bool = False
) -> _Stage:
    """Information in relative coordinates; with `one_experiment` all candidates share their local unknowns."""
    unknowns = both.unknowns
    found = expected(both, border)
    if found is None:
        bad = [n for n, fine in zip(both.names, solvable(both, border), strict=True) if not fine]
        raise InputError(
            f"The model cannot be integrated in {listing(bad or both.names)} at these values: "
            f"change `at` or `initial`, or shorten the plan."
        )
    unit, prior = _units(unknowns, border)
    hessians = found.hessians * unit[:, :, None] * unit[:, None, :] / variance
    local, shared = slice(0, unknowns.local), slice(unknowns.local, None)
    own = prior[:, local] * unknowns.exists[:, local] + ~unknowns.exists[:, local]
    hessians[:, np.arange(unknowns.local), np.arange(unknowns.local)] += own
    condensed = hessians[:, shared, shared] - hessians[:, shared, local] @ np.linalg.solve(
        hessians[:, local, local], hessians[:, local, shared]
    )
    base = condensed[:done].sum(axis=0) + np.diag(prior[0, shared])
    items = condensed[done:]
    if one_experiment:
        order = np.r_[np.arange(unknowns.local, unknowns.width), np.arange(unknowns.local)]
        items = hessians[done:][:, order][:, :, order]
        knowledge = np.diag(own[done])
        globals_ = len(base)
        items[:, globals_:, globals_:] -= knowledge
        base = np.block(
            [[base, np.zeros((globals_, unknowns.local))], [np.zeros((unknowns.local, globals_)), knowledge]]
        )
    rows = np.zeros((len(unknowns.global_parameters), len(base)))
    rows[:, : len(rows)] = np.eye(len(rows))
    chosen = [unknowns.names[k] for k in unknowns.global_parameters]
    wanted = rows[[chosen.index(name) for name in _interest(both, interest)]]
    targets = wanted
    if criterion.startswith("c:"):
        targets = _gradient(both, border, criterion[2:], unit[0, shared]) @ rows
    elif criterion == "E":
        targets = _determinable(wanted, prior[0, shared], base + items.sum(axis=0))
    return _Stage(base, items, targets, wanted)


def _determinable(rows: np.ndarray, prior: np.ndarray, everything: np.ndarray) -> np.ndarray:
    """Orthonormal combinations of the rows whose prior variance all candidates together halve; all rows if none."""
    before = rows[:, : len(prior)] / prior @ rows[:, : len(prior)].T
    after = rows @ np.linalg.solve(everything, rows.T)
    half = np.linalg.inv(np.linalg.cholesky(before))
    values, vectors = np.linalg.eigh(half @ after @ half.T)
    kept = values < HALVED
    return np.linalg.qr(half.T @ vectors[:, kept])[0].T @ rows if kept.any() else rows


def _interest(both: Problem, given: Sequence[str] | None) -> list[str]:
    """The parameters that count."""
    unknowns = both.unknowns
    known = [unknowns.names[k] for k in unknowns.global_parameters]
    if given is None:
        own = [unknowns.names[k] for k in unknowns.global_parameters if k < unknowns.model_parameters]
        if not (own or known):
            raise InputError("There is no parameter common to all experiments: free one that is not local.")
        return own or known
    if isinstance(given, str) or not list(given):
        raise InputError(f"interest={given!r} is not a list of parameters: write interest=['a', 'b'].")
    for name in given:
        if name not in known:
            raise InputError(
                f"`{name}` in interest is not a free global parameter ({listing(known)})."
                + did_you_mean(str(name), known)
            )
    return list(given)


def _gradient(both: Problem, border: np.ndarray, text: str, unit: np.ndarray) -> np.ndarray:
    """(1, globals): relative change of a formula by a relative change of each global parameter."""
    unknowns = both.unknowns
    expression = parse(text, "The criterion")
    known = [n for k, n in enumerate(unknowns.names) if k not in unknowns.local_parameters]
    for name in sorted(names(expression)):
        if name not in known:
            raise InputError(
                f"The criterion uses `{name}`, which is not a global parameter ({listing(known)})."
                + did_you_mean(name, known)
            )
    formula = BatchedMap([expression], parameters=unknowns.names)
    nothing = np.zeros(0)
    value, _, slope = formula.linearise(0.0, nothing, unknowns.parameters(border)[0], nothing)
    slopes = slope[0, unknowns.global_parameters] * unknowns.slopes(border)[0, unknowns.local :] * unit
    if not np.isfinite(slopes).all() or not slopes.any():
        raise InputError(f"The formula '{text}' does not depend on a free parameter here: choose another.")
    return (slopes / (abs(value[0]) or 1.0))[None]


# ---- choice ------------------------------------------------------------------------------------------------


def _scores(criterion: str, stages: Sequence[_Stage], added: Sequence[np.ndarray]) -> np.ndarray:
    """(trials,): mean over the stages of what is minimised; added[s] is (trials, unknowns, unknowns)."""
    total = 0.0
    for stage, more in zip(stages, added, strict=True):
        covariance = _covariance(stage, more, stage.targets)
        q = covariance.shape[1]
        if criterion == "D":
            value = np.linalg.slogdet(covariance)[1] / q
        elif criterion == "E":
            value = np.linalg.eigvalsh(covariance)[:, -1]
        else:
            value = np.trace(covariance, axis1=1, axis2=2) / q
        total = total + value
    return total / len(stages)


def _covariance(stage: _Stage, more: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(trials, q, q)."""
    matrix = stage.base + more
    scale = 1 / np.sqrt(np.einsum("...ii->...i", matrix))
    scaled = matrix * scale[..., :, None] * scale[..., None, :]
    right = scale[..., :, None] * rows.T
    covariance = right.transpose(0, 2, 1) @ np.linalg.solve(scaled, right)
    return 0.5 * (covariance + covariance.transpose(0, 2, 1))


def _choose(stages: Sequence[_Stage], criterion: str, budget: int, repeat: bool) -> list[int]:
    """Greedy additions, then exchanges as long as they gain."""
    chosen: list[int] = []
    for _ in range(budget):
        chosen.append(_best(stages, criterion, chosen, repeat)[0])
    for _ in range(SWEEPS if budget > 1 else 0):
        before = list(chosen)
        for place in range(budget):
            others = chosen[:place] + chosen[place + 1 :]
            trial, scores = _best(stages, criterion, others, repeat)
            if scores[trial] < scores[chosen[place]] - GAIN * abs(scores[chosen[place]]):
                chosen[place] = trial
        if chosen == before:
            break
    return chosen


def _best(
    stages: Sequence[_Stage], criterion: str, chosen: list[int], repeat: bool
) -> tuple[int, np.ndarray]:
    """The candidate to add to the chosen ones, and the scores of all."""
    added = [stage.items[chosen].sum(axis=0) + stage.items for stage in stages]
    scores = _scores(criterion, stages, added)
    open_ = np.ones(len(scores), bool)
    if not repeat:
        open_[chosen] = False
    return int(np.argmin(np.where(open_, scores, np.inf))), scores


def _report(stages, criterion: str, labels: list[str], chosen: list[int], interest: list[str]) -> Design:
    def told(added: list[np.ndarray]) -> tuple[list[float], list[dict[str, float]]]:
        scores = _scores(criterion, stages, added)
        values = np.exp(0.5 * scores) if criterion == "D" else np.sqrt(scores)
        variances = np.mean(
            [
                np.einsum("...ii->...i", _covariance(s, m, s.interest))
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


def _row(value: float, errors: Mapping[str, float], shown: Sequence[str]) -> tuple[str, ...]:
    return (percent(value), *(percent(errors[name]) for name in shown))
