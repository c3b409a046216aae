"""What experiments would tell about the global parameters: an information matrix for each, in relative coordinates.

Unknown initial states and local parameters of an experiment are eliminated. Bounds and priors count as knowledge that
exists before any experiment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from picardfit.checks import as_whole
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
    """What is known before an experiment, what counts as determined by it, and when the choice of candidates ends."""

    prior_error: float = 10.0  # relative error of a parameter that has neither bounds nor a prior: 1000 %
    determinable: float = (
        0.5  # fraction of its prior variance below which the candidates determine a direction
    )
    worthwhile: float = 0.01  # relative improvement of the criterion below which a choice helps little
    sweeps: int = 20  # exchanges of every chosen candidate for others, at most; a few are enough
    gain: float = 1e-9  # relative improvement by an exchange that is more than rounding


DEFAULT = DesignSettings()


@dataclass(frozen=True)
class Stage:
    """The information at one set of values, in relative coordinates; the first unknowns are the global parameters."""

    base: np.ndarray  # (unknowns, unknowns): prior knowledge and what is measured already
    items: np.ndarray  # (candidates, unknowns, unknowns)
    targets: np.ndarray  # (q, unknowns): what the criterion is about
    interest: np.ndarray  # (parameters, unknowns): the parameters whose errors are reported


# ---- values of the unknowns ----------------------------------------------------------------------------------


def many_unknowns(
    base: Fit | Problem, both: Problem, at, initial, scenarios: int, seed: int, settings: DesignSettings
) -> list[np.ndarray]:
    """Unknowns of all experiments, internal coordinates, at every set of values."""
    scenarios, rng = as_whole(scenarios, "scenarios", 1), np.random.default_rng(as_whole(seed, "seed", 0))
    sets = [at] if at is None or isinstance(at, Mapping) else list(at)
    if not sets:
        raise InputError("inference.at_is_empty")
    found = [_unknowns(base, both, one, initial) for one in sets]
    return found + [_drawn(base, both, found[0], rng, settings) for _ in range(scenarios - 1)]


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
    states = [both.model.states[s] for s in fit.problem.layout.initial_states]
    initial = {
        name: {state: fit.initial_states[name][state] for state in states}
        for name in fit.problem.names
        if name in both.names
    }
    free = {n: v for n, v in fit.parameters.items() if "[" not in n or n[:-1].split("[", 1)[1] in both.names}
    return unknowns_from(both, free, initial, missing="nan")


def _drawn(
    base: Fit | Problem,
    both: Problem,
    centre: np.ndarray,
    rng: np.random.Generator,
    settings: DesignSettings,
) -> np.ndarray:
    """Other global parameters: drawn by the fit's errors and cut at the bounds, or from the priors and bounds."""
    layout, unknowns = both.layout, centre.copy()
    shared = slice(layout.local, None)
    if isinstance(base, Fit):
        unit, knowledge = _units(both, centre, settings)
        spread = np.array([base.standard_errors.get(layout.label(0, c), np.inf) for c in range(layout.width)])
        spread = spread / layout.slopes(centre)[0]
        spread = np.minimum(np.nan_to_num(spread, nan=np.inf), unit[0] / np.sqrt(knowledge[0]))
        unknowns[:, shared] += (spread * rng.standard_normal(layout.width))[shared]
    else:
        unknowns[:, shared] = open_values(both, centre, draw(layout, rng))[:1, shared]
        if both.priors is not None:
            mean, sd = (one[0] for one in both.priors.moments(centre))
            believed = mean + sd * rng.standard_normal(layout.width)
            unknowns[:, shared] = np.where(np.isfinite(believed), believed, unknowns)[:, shared]
    return np.clip(unknowns, layout.lower, layout.upper)


def _units(both: Problem, unknowns: np.ndarray, settings: DesignSettings) -> tuple[np.ndarray, np.ndarray]:
    """(experiments, width) each: internal size of one relative unit, and prior information in relative units.

    Bounds count by half their width, in logarithms for log parameters, by the slope in the middle for logits. A prior
    counts by its variance, not by the curvature at its top, which a Laplace density has without limit.
    """
    layout = both.layout
    natural, slopes = layout.natural(unknowns), layout.slopes(unknowns)
    with np.errstate(invalid="ignore"):
        half = 0.5 * np.where(layout.scales.logit, layout.size(unknowns), layout.upper - layout.lower)
    half = np.where(np.isfinite(half) & (half > 0), half, np.nan)
    size = np.where(natural != 0, np.abs(natural), np.where(np.isnan(half), 1.0, half))
    unit = size / slopes
    knowledge = np.where(np.isnan(half), 1 / settings.prior_error**2, (unit / half) ** 2)
    if both.priors is not None:
        knowledge = knowledge + (unit / both.priors.moments(unknowns)[1]) ** 2
    return unit, knowledge


# ---- information --------------------------------------------------------------------------------------------


def stage_at(
    both: Problem,
    done: int,
    unknowns: np.ndarray,
    criterion: str,
    interest: Sequence[str],
    variance: float,
    one_experiment: bool,
    settings: DesignSettings,
) -> Stage:
    """Information of the first `done` experiments and of the candidates after them, in relative coordinates.

    With `one_experiment` all candidates share their local unknowns, which then stay among the unknowns.
    """
    layout = both.layout
    found = expected(both, unknowns)
    if found is None:
        bad = [n for n, fine in zip(both.names, solvable(both, unknowns), strict=True) if not fine]
        raise InputError("inference.no_solution_at_values", names=bad or list(both.names))
    unit, prior = _units(both, unknowns, settings)
    hessians = found.hessians * unit[:, :, None] * unit[:, None, :] / variance
    local, shared = slice(0, layout.local), slice(layout.local, None)
    own = prior[:, local] * layout.exists[:, local] + ~layout.exists[:, local]
    hessians[:, np.arange(layout.local), np.arange(layout.local)] += own
    condensed = hessians[:, shared, shared] - hessians[:, shared, local] @ np.linalg.solve(
        hessians[:, local, local], hessians[:, local, shared]
    )
    base = condensed[:done].sum(axis=0) + np.diag(prior[0, shared])
    items, globals_ = condensed[done:], len(base)
    if one_experiment:
        order = np.roll(np.arange(layout.width), -layout.local)
        items = hessians[done:][:, order][:, :, order]
        items[:, globals_:, globals_:] -= np.diag(own[done])
        base = np.pad(base, (0, layout.local))
        base[globals_:, globals_:] = np.diag(own[done])
    rows = np.eye(globals_, len(base))
    known = [layout.names[k] for k in layout.global_parameters]
    wanted = targets = rows[[known.index(name) for name in interest]]
    if criterion.startswith("c:"):
        targets = _gradient(both, unknowns, criterion[2:], unit[0, shared]) @ rows
    elif criterion == "E":
        everything = base + items.sum(axis=0)
        targets = _determinable(wanted, prior[0, shared], everything, settings.determinable)
    return Stage(base, items, targets, wanted)


def _determinable(rows: np.ndarray, prior: np.ndarray, everything: np.ndarray, fraction: float) -> np.ndarray:
    """Orthonormal combinations of the rows whose variance falls below a fraction of the prior one; all rows if none."""
    before = rows[:, : len(prior)] / prior @ rows[:, : len(prior)].T
    after = rows @ np.linalg.solve(everything, rows.T)
    half = np.linalg.inv(np.linalg.cholesky(before))
    values, vectors = np.linalg.eigh(half @ after @ half.T)
    kept = values < fraction
    return np.linalg.qr(half.T @ vectors[:, kept])[0].T @ rows if kept.any() else rows


def of_interest(both: Problem, given: Sequence[str] | None) -> list[str]:
    """The names of the parameters that count: those given, or all global ones but noise levels."""
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
            close = closest(str(name), known)
            raise InputError("inference.interest_unknown", str(name), known=known, close=close)
    return list(given)


def _gradient(both: Problem, unknowns: np.ndarray, text: str, unit: np.ndarray) -> np.ndarray:
    """(1, globals): relative change of a formula by a relative change of each global parameter."""
    layout = both.layout
    expression = parse(text)
    known = [n for k, n in enumerate(layout.names) if k not in layout.local_parameters and n.isidentifier()]
    for name in sorted(names(expression)):
        if name not in known:
            close = closest(name, known)
            raise InputError("inference.criterion_uses", name, formula=text, known=known, close=close)
    formula = BatchedMap([expression], parameters=layout.names)
    nothing = np.zeros(0)
    value, _, slope = formula.linearise(0.0, nothing, layout.parameters(unknowns)[0], nothing)
    slopes = slope[0, layout.global_parameters] * layout.slopes(unknowns)[0, layout.local :] * unit
    if not np.isfinite(slopes).all() or not slopes.any():
        raise InputError("inference.criterion_constant", text)
    return (slopes / (abs(value[0]) or 1.0))[None]
