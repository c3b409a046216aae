"""Parameters from a guessed path with events: integrals between events, thresholds and resets match the data.

Three kinds of residuals, each in units of its own size: the change of a measured state over a window between two events
minus the integral of its right-hand side; the trigger of an event when it happens; the reset of a measured state minus
what the data show after it. No differential equation is solved, so nothing can explode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from picardfit.formulas.algebra import names
from picardfit.problem.problem import Problem, Start
from picardfit.problem.unknowns import unknowns_index


@dataclass(frozen=True)
class EventMatching:
    """How parameters are matched; all are choices."""

    windows: int = 6  # at most, between two events
    fewest: int = 3  # points of a window
    evaluations: int = 30  # of the residuals' Jacobian
    threshold: float = 1.0  # weight of a trigger, in units of its range along the path
    loss: float = 0.1  # size of a residual beyond which it counts less: guesses may be far off
    largest: float = 1e3  # residual, also where the equations have no value
    inset: float = 1e-9  # relative distance from a bound, on which the optimiser may not begin


@dataclass(frozen=True)
class _Piece:
    """A piece of an experiment's table between two events."""

    e: int
    times: np.ndarray
    states: np.ndarray
    entry: tuple[int, ...] = ()  # events at its end


def match_events(
    problem: Problem,
    start: Start,
    measured: Sequence[Sequence[int]],
    open_: np.ndarray,
    settings: EventMatching = EventMatching(),
) -> np.ndarray:
    """The unknowns (experiments, width) with their open parameters matched to the tables of a start."""
    from scipy.optimize import least_squares

    layout = problem.layout
    columns = np.zeros(layout.width, bool)
    columns[layout.columns.parameters] = True
    index = unknowns_index(open_ & columns & layout.exists, layout.local)
    pieces = [piece for e in range(len(problem.experiments)) for piece in _pieces(start, e)]
    if not len(index) or not pieces:
        return start.unknowns
    sizes = _sizes(problem, start)

    def residuals(values: np.ndarray) -> np.ndarray:
        unknowns = _with(start.unknowns, index, values, layout.local)
        params = layout.measured_values(unknowns)
        found = [_residuals(problem, piece, params, measured[piece.e], sizes, settings) for piece in pieces]
        found += [_resets(problem, a, b, params, measured[a.e], sizes) for a, b in pairwise(pieces)]
        most = settings.largest
        return np.asarray(np.clip(np.nan_to_num(np.concatenate(found), nan=most), -most, most))

    first = start.unknowns[index[:, 0], index[:, 1]]
    lower, upper = (bound[index[:, 0], index[:, 1]] for bound in (layout.lower, layout.upper))
    least, most = (
        np.where(np.isfinite(bound), bound + sign * settings.inset * (1 + np.abs(bound)), bound)
        for bound, sign in ((lower, 1), (upper, -1))
    )
    inside = np.clip(first, least, most)
    if not len(residuals(inside)):
        return start.unknowns
    with np.errstate(all="ignore"):
        found = least_squares(
            residuals,
            inside,
            bounds=(lower, upper),
            x_scale=layout.size(start.unknowns)[index[:, 0], index[:, 1]],
            loss="soft_l1",
            f_scale=settings.loss,
            max_nfev=settings.evaluations,
        )
    return _with(start.unknowns, index, found.x, layout.local)


def _with(unknowns: np.ndarray, index: np.ndarray, values: np.ndarray, local: int) -> np.ndarray:
    result = unknowns.copy()
    for (e, column), value in zip(index, values, strict=True):
        if column < local:
            result[e, column] = value
        else:
            result[:, column] = value
    return result


def _pieces(start: Start, e: int) -> list[_Piece]:
    times, states = start.tables[e]
    knots = [one.knot for one in start.schedule[e]]
    ends = [*np.searchsorted(times, knots), len(times)]
    begins = [0, *ends[:-1]]
    events = [*(one.events for one in start.schedule[e]), ()]
    return [
        _Piece(e, times[a:b], states[a:b], own)
        for a, b, own in zip(begins, ends, events, strict=True)
        if b - a > 1
    ]


def _sizes(problem: Problem, start: Start) -> np.ndarray:
    """(states,): the range of each state along all tables."""
    every = np.concatenate([states for _, states in start.tables])
    spread = np.ptp(every, axis=0)
    return np.asarray(np.where(spread > 0, spread, np.maximum(np.abs(every).max(axis=0), 1.0)))


def _residuals(
    problem: Problem,
    piece: _Piece,
    params: np.ndarray,
    measured: Sequence[int],
    sizes: np.ndarray,
    settings: EventMatching,
) -> np.ndarray:
    """Changes of measured states minus integrals over the windows of a piece, and the trigger at its end."""
    model, own = problem.solved_model, params[piece.e, : len(problem.model.parameters)]
    inputs = problem.experiments[piece.e].inputs_at(model.inputs, piece.times)
    slopes = np.asarray(model.rhs.value(piece.times, piece.states, own, inputs))
    steps = np.diff(piece.times)[:, None]
    integral = np.concatenate(
        [np.zeros((1, slopes.shape[1])), np.cumsum(0.5 * steps * (slopes[1:] + slopes[:-1]), axis=0)]
    )
    count = max(1, min(settings.windows, len(piece.times) // settings.fewest))
    edges = np.unique(np.linspace(0, len(piece.times) - 1, count + 1).round().astype(int))
    gap = np.diff(piece.states[edges] - integral[edges], axis=0) / sizes
    found = [gap[:, list(measured)].ravel()]
    for event in piece.entry[:1]:
        used = names(model.events[event].trigger) & set(model.states[:-1])
        if used and used <= {model.states[k] for k in measured}:
            g = model.event_maps.triggers.value(piece.times, piece.states, own, inputs)[:, event]
            found.append(settings.threshold * g[-1:] / max(float(np.ptp(g)), 1e-12))
    return np.concatenate(found)


def _resets(
    problem: Problem,
    before: _Piece,
    after: _Piece,
    params: np.ndarray,
    measured: Sequence[int],
    sizes: np.ndarray,
) -> np.ndarray:
    """What events assign to measured states minus what the data show after them."""
    if before.e != after.e or not before.entry:
        return np.zeros(0)
    model, own = problem.solved_model, params[before.e, : len(problem.model.parameters)]
    inputs = problem.experiments[before.e].inputs_at(model.inputs, before.times[-1:])[0]
    x = before.states[-1]
    for event in before.entry:
        x = model.event_maps.resets[event].value(0.0, x, own, inputs)
    changed = {name for event in before.entry for name, _ in model.events[event].assignments}
    rows = [k for k in measured if model.states[k] in changed]
    return np.asarray((x[rows] - after.states[0, rows]) / sizes[rows])
