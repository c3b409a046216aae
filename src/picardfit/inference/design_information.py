"""What experiments would tell about the global parameters, in relative coordinates: a matrix for each of them.

Unknown initial states and local parameters of an experiment are eliminated. The knowledge from bounds and priors is
part of what is there before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from picardfit.errors import InputError, closest
from picardfit.evidence.expected_information import expected, solvable
from picardfit.fit import Fit
from picardfit.formulas.algebra import names
from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.problem.named_values import unknowns_from
from picardfit.problem.problem import Problem
from picardfit.search.starts import draw, open_values


@dataclass(frozen=True)
class DesignSettings:
    """What is known before an experiment, and what counts as determined by it."""

    prior_error: float = 10.0  # relative error of a parameter that has neither bounds nor a prior: 1000 %
    determinable: float = (
        0.5  # part of its prior variance below which all candidates together determine a direction
    )
    worthwhile: float = 0.01  # relative improvement of the criterion below which a choice helps little


DEFAULT = DesignSettings()


@dataclass(frozen=True)
class Stage:
    """The information at one set of values, relative coordinates: globals first, then what a candidate adds."""

    base: np.ndarray  # (unknowns, unknowns): prior knowledge and what is measured already
    items: np.ndarray  # (candidates, unknowns, unknowns)
    targets: np.ndarray  # (q, unknowns): what the criterion is about
    interest: np.ndarray  # (parameters, unknowns): the parameters whose errors are reported


# ---- values at which to look --------------------------------------------------------------------------------


def many_unknowns(
    base: Fit | Problem, both: Problem, at, initial, scenarios: int, seed: int
) -> list[np.ndarray]:
    """Unknowns of all experiments, internal coordinates, at every set of values."""
    sets = [at] if at is None or isinstance(at, Mapping) else list(at)
    if not sets:
        raise InputError("inference.at_is_empty")
    many_unknowns = [_unknowns(base, both, one, initial) for one in sets]
    rng = np.random.default_rng(seed)
    for _ in range(scenarios - 1):
        many_unknowns.append(_drawn(base, both, many_unknowns[0], rng))
    return many_unknowns


def _unknowns(base: Fit | Problem, both: Problem, at, initial) -> np.ndarray:
    layout = both.layout
    given = unknowns_from(both, at or {}, initial or {}, missing="nan")
    if isinstance(base, Fit):
        known = _estimates(base, both)
        given = np.where(np.isnan(given), known, given)
        with np.errstate(invalid="ignore"):
            count = np.isfinite(known).sum(axis=0)
            mean = np.nansum(known, axis=0) / np.where(count, count, np.nan)
        given = np.where(np.isnan(given) & np.isnan(layout.start), mean, given)
    given = np.where(np.isnan(given), layout.start, given)
    if both.priors is not None:
        believed = np.clip(both.priors.moments(layout.lower)[0], layout.lower, layout.upper)
        given = np.where(np.isnan(given), believed, given)
    unknowns = np.where(np.isnan(given), open_values(both, given, None), given)
    unknowns[:, layout.local :] = unknowns[:1, layout.local :]
    return np.where(layout.exists, unknowns, layout.lower)


def _estimates(fit: Fit, both: Problem) -> np.ndarray:
    """The estimates as an array of unknowns of the larger problem; NaN for what only candidates have."""
    old = fit.problem.layout
    initial = {
        name: {
            both.model.states[s]: fit.initial_states[name][both.model.states[s]] for s in old.initial_states
        }
        for name in fit.problem.names
        if name in both.names
    }
    free = {n: v for n, v in fit.parameters.items() if "[" not in n or n[:-1].split("[", 1)[1] in both.names}
    return unknowns_from(both, free, initial, missing="nan")


def _drawn(base: Fit | Problem, both: Problem, centre: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other global parameters: from the fit's errors, cut at the bounds; or from the priors and bounds."""
    layout, unknowns = both.layout, centre.copy()
    shared = slice(layout.local, None)
    if isinstance(base, Fit):
        unit, knowledge = _units(both, centre)
        spread = np.array([base.standard_errors.get(layout.label(0, c), np.inf) for c in range(layout.width)])
        spread = spread / np.where(layout.log[0], layout.natural(centre)[0], 1.0)
        spread = np.minimum(np.nan_to_num(spread, nan=np.inf), unit[0] / np.sqrt(knowledge[0]))
        unknowns[:, shared] += (spread * rng.standard_normal(layout.width))[shared]
    else:
        unknowns[:, shared] = open_values(both, centre, draw(layout, rng))[:1, shared]
        if both.priors is not None:
            mean, sd = (one[0] for one in both.priors.moments(centre))
            believed = mean + sd * rng.standard_normal(layout.width)
            unknowns[:, shared] = np.where(np.isfinite(believed), believed, unknowns)[:, shared]
    return np.clip(unknowns, layout.lower, layout.upper)


def _units(both: Problem, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(experiments, width) each: internal size of one relative unit, and what is known before, in relative units.

    Bounds count by half their width, in logarithms for log parameters. A prior counts by its variance, not by the
    curvature at its top, which a Laplace density has without limit.
    """
    layout = both.layout
    natural, slopes = layout.natural(unknowns), layout.slopes(unknowns)
    with np.errstate(invalid="ignore"):
        half = 0.5 * (layout.upper - layout.lower)
    half = np.where(np.isfinite(half) & (half > 0), half, np.nan)
    size = np.where(natural != 0, np.abs(natural), np.where(np.isnan(half), 1.0, half))
    unit = size / slopes
    knowledge = np.where(np.isnan(half), 1 / DEFAULT.prior_error**2, (unit / half) ** 2)
    if both.priors is not None:
        knowledge = knowledge + (unit / both.priors.moments(unknowns)[1]) ** 2
    return unit, knowledge


# ---- information --------------------------------------------------------------------------------------------


def stage_at(
    both: Problem,
    done: int,
    unknowns,
    criterion: str,
    interest,
    variance: float,
    one_experiment: bool = False,
) -> Stage:
    """Information in relative coordinates; with `one_experiment` all candidates share their local unknowns."""
    layout = both.layout
    found = expected(both, unknowns)
    if found is None:
        bad = [n for n, fine in zip(both.names, solvable(both, unknowns), strict=True) if not fine]
        raise InputError("inference.no_solution_at_values", names=bad or list(both.names))
    unit, prior = _units(both, unknowns)
    hessians = found.hessians * unit[:, :, None] * unit[:, None, :] / variance
    local, shared = slice(0, layout.local), slice(layout.local, None)
    own = prior[:, local] * layout.exists[:, local] + ~layout.exists[:, local]
    hessians[:, np.arange(layout.local), np.arange(layout.local)] += own
    condensed = hessians[:, shared, shared] - hessians[:, shared, local] @ np.linalg.solve(
        hessians[:, local, local], hessians[:, local, shared]
    )
    base = condensed[:done].sum(axis=0) + np.diag(prior[0, shared])
    items = condensed[done:]
    if one_experiment:
        order = np.r_[np.arange(layout.local, layout.width), np.arange(layout.local)]
        items = hessians[done:][:, order][:, :, order]
        knowledge = np.diag(own[done])
        globals_ = len(base)
        items[:, globals_:, globals_:] -= knowledge
        base = np.block(
            [[base, np.zeros((globals_, layout.local))], [np.zeros((layout.local, globals_)), knowledge]]
        )
    rows = np.zeros((len(layout.global_parameters), len(base)))
    rows[:, : len(rows)] = np.eye(len(rows))
    chosen = [layout.names[k] for k in layout.global_parameters]
    wanted = rows[[chosen.index(name) for name in of_interest(both, interest)]]
    targets = wanted
    if criterion.startswith("c:"):
        targets = _gradient(both, unknowns, criterion[2:], unit[0, shared]) @ rows
    elif criterion == "E":
        targets = _determinable(wanted, prior[0, shared], base + items.sum(axis=0))
    return Stage(base, items, targets, wanted)


def _determinable(rows: np.ndarray, prior: np.ndarray, everything: np.ndarray) -> np.ndarray:
    """Orthonormal combinations of the rows whose prior variance all candidates together halve; all rows if none."""
    before = rows[:, : len(prior)] / prior @ rows[:, : len(prior)].T
    after = rows @ np.linalg.solve(everything, rows.T)
    half = np.linalg.inv(np.linalg.cholesky(before))
    values, vectors = np.linalg.eigh(half @ after @ half.T)
    kept = values < DEFAULT.determinable
    return np.linalg.qr(half.T @ vectors[:, kept])[0].T @ rows if kept.any() else rows


def of_interest(both: Problem, given: Sequence[str] | None) -> list[str]:
    """The parameters that count."""
    layout = both.layout
    known = [layout.names[k] for k in layout.global_parameters]
    if given is None:
        levels = range(layout.model_parameters, layout.measured_parameters)
        own = [layout.names[k] for k in layout.global_parameters if k not in levels]
        if not (own or known):
            raise InputError("inference.no_global_parameter")
        return own or known
    if isinstance(given, str) or not list(given):
        raise InputError("inference.interest", value=given)
    for name in given:
        if name not in known:
            raise InputError(
                "inference.interest_unknown", str(name), known=known, close=closest(str(name), known)
            )
    return list(given)


def _gradient(both: Problem, unknowns: np.ndarray, text: str, unit: np.ndarray) -> np.ndarray:
    """(1, globals): relative change of a formula by a relative change of each global parameter."""
    layout = both.layout
    expression = parse(text)
    known = [n for k, n in enumerate(layout.names) if k not in layout.local_parameters and n.isidentifier()]
    for name in sorted(names(expression)):
        if name not in known:
            raise InputError(
                "inference.criterion_uses", name, formula=text, known=known, close=closest(name, known)
            )
    formula = BatchedMap([expression], parameters=layout.names)
    nothing = np.zeros(0)
    value, _, slope = formula.linearise(0.0, nothing, layout.parameters(unknowns)[0], nothing)
    slopes = slope[0, layout.global_parameters] * layout.slopes(unknowns)[0, layout.local :] * unit
    if not np.isfinite(slopes).all() or not slopes.any():
        raise InputError("inference.criterion_constant", text)
    return (slopes / (abs(value[0]) or 1.0))[None]
