"""Starting values: parameters from bounds, states from the data, hidden states along the measured ones.

Parameters that nobody pinned are then improved by integral matching (matching.py).

Measured states are interpolated between their samples; hidden ones follow from their own equations driven by the
interpolated measured ones, by a linearly implicit Euler march of all experiments at once (it cannot be unstable).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from picardfit.formulas.algebra import symbol
from picardfit.problem.problem import Problem
from picardfit.problem.start import Start
from picardfit.problem.unknowns import UnknownsLayout, unknowns_index
from picardfit.search.integral_matching import match_parameters
from picardfit.solvers.noise_levels import fit_noise_parameters, smoothed

NEAR_MIDDLE = (
    0.45  # of the bounds; the middle itself is a point of symmetry too often, as in theta = (rho - 1)^2
)
MARCH = 120  # steps of the march over an experiment
WIDE = 30  # positive bounds further apart than this factor are searched by ratios
ABSURD = 1e8  # changes over an experiment, relative to the largest state, that no start should have
HALVINGS = 40
ROUNDS = 2  # of marching hidden states and matching parameters in turn


def make_start(
    problem: Problem,
    given: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
    part: np.ndarray | None = None,
    matched: bool = True,
) -> Start:
    """A start: `given` (internal, NaN where open) wins, then the parameters' own starts, then (nearly) the middle.

    With `rng` all values are drawn from the bounds; where bounds are missing, from around these starts. Instead of
    `rng`, `part` (experiments, width) says how far between the bounds each value lies, from 0 to 1. What is not
    `matched` to the data keeps the values it was dealt.
    """
    part = draw(problem.layout, rng) if part is None and rng is not None else part
    wanted = problem.layout.start
    if given is not None:
        wanted = np.where(np.isfinite(given), given, wanted)
    unknowns = open_values(problem, wanted, part)
    pinned = np.isfinite(wanted) & (part is None)
    unknowns = np.where(pinned, wanted, unknowns)
    unknowns[:, problem.layout.local :] = unknowns[:1, problem.layout.local :]
    return _with_states(problem, unknowns, pinned, matched)


def draw(layout: UnknownsLayout, rng: np.random.Generator) -> np.ndarray:
    """(experiments, width): uniform random numbers, the same in all rows of a global column."""
    part = rng.uniform(size=layout.lower.shape)
    part[:, layout.local :] = part[:1, layout.local :]
    return part


def spread_evenly(layout: UnknownsLayout, count: int, seed: int) -> np.ndarray:
    """(count, experiments, width): the first points of a scrambled Sobol sequence, in parts of the bounds.

    The k-th point depends on `seed` and k only. Shared parameters take the first and best dimensions; unknowns beyond
    the dimensions that the sequence has are drawn at random.
    """
    from scipy.stats.qmc import Sobol

    index = unknowns_index(layout.exists, layout.local)
    index = index[np.argsort(index[:, 1] < layout.local, kind="stable")][: Sobol.MAXDIM]
    points = Sobol(len(index), seed=np.random.default_rng(seed)).random_base2((count - 1).bit_length())
    parts = np.stack([draw(layout, np.random.default_rng([seed, k])) for k in range(1, count + 1)])
    own = index[:, 1] < layout.local
    parts[:, index[own, 0], index[own, 1]] = points[:count, own]
    parts[:, :, index[~own, 1]] = points[:count, None, ~own]
    return parts


def open_values(problem: Problem, around: np.ndarray, part: np.ndarray | None) -> np.ndarray:
    """Middle of the bounds, or `part` of the way between them; `around` (internal, or NaN) replaces missing bounds."""
    layout = problem.layout
    low, high = search_box(layout, around)
    part = np.full(low.shape, NEAR_MIDDLE) if part is None else part
    wide = ~layout.log & (low > 0) & (high > WIDE * low)
    with np.errstate(invalid="ignore", divide="ignore"):
        geometric = low * (high / low) ** part
    return np.where(wide, geometric, low + part * (high - low))


def candidates(problem: Problem, given: np.ndarray, count: int, seed: int) -> np.ndarray:
    """(count, experiments, width): unknowns spread evenly over the bounds, initial states read off the data.

    `given` (internal, NaN where open) replaces missing bounds.
    """
    layout = problem.layout
    wanted = np.where(np.isfinite(given), given, layout.start)
    nothing = np.zeros(layout.lower.shape, bool)
    _, by_parameters = problem.model.output.jacobian_pattern
    found, measured = [], None
    for part in spread_evenly(layout, count, seed):
        unknowns = open_values(problem, wanted, part)
        if len(layout.initial_states):
            if measured is None or by_parameters.any():
                params = layout.model_values(unknowns)
                measured = [_measured_states(problem, e, params[e]) for e in range(len(params))]
            unknowns = _initial_from_data(problem, unknowns, nothing, measured, _typical_size(measured))
        found.append(unknowns)
    return np.array(found)


def search_box(layout: UnknownsLayout, around: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(experiments, width) each: the bounds, made finite where they are not.

    A missing bound is replaced by one about as far from `around` (internal; 1 in natural units where NaN) as 0 is, or
    a decade away for a log parameter.
    """
    lower, upper, log = layout.lower, layout.upper, layout.log
    no_low, no_high = ~np.isfinite(lower), ~np.isfinite(upper)
    centre = np.where(np.isfinite(around), around, np.where(log, 0.0, 1.0))
    base = np.where(no_low & no_high, centre, np.where(no_low, upper, lower))
    least = np.where(no_low & no_high & (base != 0), 0.0, 1.0)
    size = np.where(log, np.log(10.0), 0.9 * np.maximum(np.abs(base), least))
    low = np.where(no_low, base - size, lower)
    high = np.where(no_high, base + np.where(no_low, size, 2 * size), upper)
    low = np.where(no_low & ~no_high, np.fmin(low, 2 * around - upper), low)
    high = np.where(no_high & ~no_low, np.fmax(high, 2 * around - lower), high)
    return low, high


def _with_states(problem: Problem, unknowns: np.ndarray, pinned: np.ndarray, matched: bool) -> Start:
    """Add tables of states and read initial states off them; match the parameters that nothing pinned to them."""
    layout = problem.layout
    params = layout.model_values(unknowns)
    measured = [_measured_states(problem, e, params[e]) for e in range(len(problem.experiments))]
    typical = _typical_size(measured)
    unknowns = _initial_from_data(problem, unknowns, pinned, measured, typical, dealt=not matched)
    grids = np.stack([_grid(problem, e) for e in range(len(problem.experiments))])  # (experiments, MARCH + 1)
    known = np.zeros((len(grids), len(problem.model.states)), bool)
    for e, tables in enumerate(measured):
        known[e, list(tables)] = True
    for _ in range(ROUNDS if matched and not known.all() else 1):
        path = _path(problem, unknowns, grids, measured, known, typical)
        unknowns = _tame(problem, unknowns, ~pinned, grids, path)
        if matched:
            unknowns = match_parameters(problem, unknowns, grids, path, known, ~pinned)
    positive = path.min(axis=(0, 1)) > 0
    if positive.any():
        positive &= signs(problem, layout.model_values(unknowns), typical)[1]
    start = Start(unknowns, tuple(zip(grids, path, strict=True)), positive)
    if not layout.noise_columns.any():
        return start
    unknowns = fit_noise_parameters(problem, unknowns, smoothed(problem), start.at_samples(problem), ~pinned)
    return replace(start, unknowns=unknowns)


def _tame(
    problem: Problem, unknowns: np.ndarray, open_: np.ndarray, grids: np.ndarray, path: np.ndarray
) -> np.ndarray:
    """Halve the open parameters until f is finite and not absurdly large along the guessed path."""
    layout = problem.layout
    inputs = problem.inputs_at(np.arange(len(grids)), grids)
    span = (grids[:, -1] - grids[:, 0])[:, None, None]
    limit = ABSURD * max(float(np.abs(path).max()), 1e-300)
    movable = open_ & (np.arange(layout.width) >= len(layout.initial_states))
    for _ in range(HALVINGS):
        slopes = problem.model.rhs.value(grids, path, layout.model_values(unknowns)[:, None, :], inputs)
        with np.errstate(all="ignore"):
            if np.all(np.abs(slopes * span) < limit):
                break
        smaller = np.clip(layout.internal(0.5 * layout.natural(unknowns)), layout.lower, layout.upper)
        unknowns = np.where(movable, smaller, unknowns)
    return unknowns


def _initial_from_data(
    problem: Problem, unknowns, pinned, measured, typical: float, dealt: bool = False
) -> np.ndarray:
    """The unknowns with open initial states read off the data, or of typical size where hidden and unbounded.

    Where the unknowns was `dealt`, that many times the typical size.
    """
    layout, unknowns = problem.layout, unknowns.copy()
    for column, state in enumerate(layout.initial_states):
        for e, tables in enumerate(measured):
            low, high = layout.lower[e, column], layout.upper[e, column]
            if pinned[e, column] or not layout.exists[e, column]:
                continue
            if state in tables:
                guess = np.interp(problem.experiments[e].t0, *tables[state])
            elif np.isfinite(low) and np.isfinite(high):
                continue
            else:
                guess = typical * (layout.natural(unknowns)[e, column] if dealt else 1.0)
            guess = np.log(max(guess, 1e-6 * typical)) if layout.log[e, column] else guess
            unknowns[e, column] = np.clip(guess, low, high)
    return unknowns


def _path(problem: Problem, unknowns, grids, measured, known, typical: float) -> np.ndarray:
    """(experiments, points, states): measured states interpolated, hidden ones marched, populations kept positive."""
    layout = problem.layout
    params = layout.model_values(unknowns)
    initial, _ = layout.initial(unknowns)
    path = np.repeat(initial[:, None, :], grids.shape[1], axis=1)
    for e, tables in enumerate(measured):
        for state, (times, values) in tables.items():
            path[e, :, state] = np.interp(grids[e], times, values)
    if not known.all():
        limit = 3 * np.maximum(np.abs(initial), typical)  # wrong parameters would let hidden states explode
        path = _march(problem, grids, path, known, params, limit)
    # where noise has made some of the values negative, small ones mean little
    doubtful = (path <= 0).any(axis=(0, 1)) & (initial.min(axis=0) >= 0)
    if not doubtful.any():
        return path
    stays, _ = signs(problem, params, typical)
    least = np.minimum(1e-2 * np.abs(path).mean(axis=(0, 1)), initial[:, None, :])
    return np.where(stays & doubtful, np.maximum(path, least), path)


def signs(problem: Problem, params: np.ndarray, typical: float) -> tuple[np.ndarray, np.ndarray]:
    """(states,) each: f_a >= 0, and f_a = 0, wherever x_a = 0 and the other states and the inputs are not negative.

    Such states stay positive, or even never reach zero: concentrations and populations. Noise makes their data
    negative, where rate laws have poles. Tested at points spread over three decades around the typical size.
    """
    model = problem.model
    count, states = 64, len(model.states)
    rng = np.random.default_rng(0)
    points = typical * 10 ** rng.uniform(-1.5, 1.5, (states, count, states))
    points[np.arange(states), :, np.arange(states)] = 0.0
    inputs = 10 ** rng.uniform(-1.5, 1.5, (count, len(model.inputs)))
    times = np.linspace(*problem.span(0), count)
    slopes = model.rhs.value(times, points, params[0], inputs)  # (states, count, states)
    own = slopes[np.arange(states), :, np.arange(states)]
    return np.all(own >= 0, axis=1), np.all(own == 0, axis=1)


def _grid(problem: Problem, experiment: int) -> np.ndarray:
    """Times of the march: half of them even in time, half following the sampling times, so that log-spaced data are
    met by a log-spaced grid."""
    start, stop = problem.span(experiment)
    if stop <= start:
        return np.full(MARCH + 1, start)
    times = np.unique(np.concatenate([[start], problem.experiments[experiment].times, [stop]]))
    even = np.linspace(start, stop, MARCH // 2 + 1)
    sampled = np.interp(np.linspace(0, len(times) - 1, MARCH // 2 + 2)[1:-1], np.arange(len(times)), times)
    return np.sort(np.concatenate([even, sampled]))


def _measured_states(problem: Problem, experiment: int, params: np.ndarray) -> dict[int, tuple]:
    """state index -> (times, values) for states that one observable shows alone."""
    model, one = problem.model, problem.experiments[experiment]
    wrt_x, _ = model.output.jacobian_pattern
    tables: dict[int, tuple] = {}
    for k, name in enumerate(one.observables):
        row = model.observables.index(name)
        shown = np.flatnonzero(wrt_x[row])
        if len(shown) != 1 or shown[0] in tables:
            continue
        measured = np.isfinite(one.values[:, k])
        if not measured.any():
            continue
        times, values = one.times[measured], one.values[measured, k]
        distinct, means = times, values
        if not (np.diff(times) > 0).all():
            distinct, place = np.unique(times, return_inverse=True)
            means = np.bincount(place, values) / np.bincount(place)
        inverted = _invert(problem, experiment, row, int(shown[0]), distinct, means, params)
        if inverted is not None:
            tables[int(shown[0])] = (distinct, inverted)
    return tables


def _invert(
    problem: Problem, experiment: int, row: int, state: int, times, values, params
) -> np.ndarray | None:
    """Solve g_row(x_state) = value by Newton's method at all times; None where that fails."""
    model, one = problem.model, problem.experiments[experiment]
    shown = getattr(model.output, "expressions", None)  # functions have none
    if shown is not None and shown[row] == symbol(model.states[state]):
        return values
    inputs = one.inputs_at(model.inputs, times)
    x = np.zeros((len(times), len(model.states)))
    x[:, state] = np.where(values == 0, 1.0, values)
    for _ in range(50):
        got, wrt_x, _ = model.output.linearise(times, x, params, inputs)
        gap, slope = got[:, row] - values, wrt_x[:, row, state]
        if not np.all(np.isfinite(gap)) or np.any(slope == 0):
            return None
        if np.abs(gap).max() <= 1e-9 * (np.abs(values).max() + 1e-300):
            return x[:, state]
        x[:, state] -= gap / slope
    return None


def _typical_size(measured: list[dict[int, tuple]]) -> float:
    """A size for hidden states nobody bounded: the median magnitude of the measured ones."""
    sizes = [np.abs(values).mean() for tables in measured for _, values in tables.values()]
    size = float(np.median(sizes)) if sizes else 1.0
    return size if size > 0 else 1.0


def _march(problem: Problem, grids, path, known, params, limit: np.ndarray) -> np.ndarray:
    """Linearly implicit Euler for the hidden states along the measured ones: x+ = x + (I - h J)^-1 h f.

    They stay within +-`limit` (experiments, states).
    """
    model = problem.model
    inputs = problem.inputs_at(np.arange(len(grids)), grids)
    hidden, eye = ~known, np.eye(len(model.states))
    mask = hidden[:, :, None] & hidden[:, None, :]
    with np.errstate(all="ignore"):
        for k in range(grids.shape[1] - 1):
            here, step = path[:, k], (grids[:, k + 1] - grids[:, k])[:, None]
            slope, wrt_x, _ = model.rhs.linearise(grids[:, k], here, params, inputs[:, k])
            slope = np.where(hidden & np.isfinite(slope), slope, 0.0)
            jacobian = np.where(mask & np.isfinite(wrt_x), wrt_x, 0.0)
            try:
                move = np.linalg.solve(eye - step[:, :, None] * jacobian, (step * slope)[..., None])[..., 0]
            except np.linalg.LinAlgError:
                move = step * slope
            ahead = np.clip(here + np.where(np.isfinite(move), move, 0.0), -limit, limit)
            path[:, k + 1] = np.where(hidden, ahead, path[:, k + 1])
    return path
