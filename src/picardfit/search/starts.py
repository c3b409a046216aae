"""Starting points: parameters from their bounds, measured states from the data, hidden states along them.

Measured states are interpolated between their samples. Hidden ones follow from their own equations, driven by the
interpolated measured ones (hidden_states.py). Parameters without a given start are then improved by integral matching
(integral_matching.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from picardfit.formulas.algebra import symbol
from picardfit.model.prior_terms import quantile_of_value
from picardfit.problem.problem import Problem, Start
from picardfit.problem.unknowns import UnknownsLayout, unknowns_index
from picardfit.search.events.starts import event_start
from picardfit.search.hidden_states import follow_hidden
from picardfit.search.integral_matching import match_parameters
from picardfit.search.start_grids import interpolated, largest_given, start_grids
from picardfit.solvers.noise_levels import fit_noise_parameters, smoothed

MeasuredStates = dict[int, tuple[np.ndarray, np.ndarray]]  # state -> (times, values)


@dataclass(frozen=True)
class StartSettings:
    """How starting points are made."""

    near_middle: float = 0.45  # of the bounds: the middle is often a point of symmetry, as of (rho - 1)^2
    wide: float = 30.0  # ratio of positive bounds from which on values between them are chosen by ratios
    missing_bound: float = 0.9  # distance of a missing bound, in sizes of the value around which it is made
    steps: int = 120  # of the Euler method over an experiment; even
    rounds: int = 2  # of following hidden states and matching parameters in turn
    reach: float = 3.0  # limit of hidden states, in typical sizes: wrong parameters would let them explode
    largest_change: float = 1e8  # of a state over an experiment, relative to the largest state
    halvings: int = 40  # of parameters that cause larger changes: twelve decades
    least_log: float = 1e-6  # smallest initial state on a logarithmic scale, in typical sizes
    least_positive: float = 1e-2  # smallest value of a state that stays positive, relative to its mean
    sign_points: int = 64  # random points at which signs of the right-hand side are tested
    sign_decades: float = 1.5  # how far they spread around the typical size, in each direction
    newton_steps: int = 50  # of inverting an observable; quadratic convergence needs fewer than ten
    newton_tolerance: float = 1e-9  # of inverting an observable, relative to the largest value


def make_start(
    problem: Problem,
    given: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
    part: np.ndarray | None = None,
    matched: bool = True,
    settings: StartSettings = StartSettings(),
) -> Start:
    """A start: `given` (internal, NaN where open) wins, then the parameters' own starts, then (nearly) the middle.

    With `rng` all values are drawn from the bounds; where bounds are missing, from around these starts. Instead of
    `rng`, `part` (experiments, width) says how far between the bounds each value lies, from 0 to 1. A start that is
    not `matched` to the data keeps these values.
    """
    layout = problem.layout
    part = draw(layout, rng) if part is None and rng is not None else part
    wanted = layout.start if given is None else np.where(np.isfinite(given), given, layout.start)
    pinned = np.isfinite(wanted) & (part is None)
    unknowns = np.where(pinned, wanted, open_values(problem, wanted, part, settings))
    unknowns[:, layout.local :] = unknowns[:1, layout.local :]
    return _with_states(problem, unknowns, pinned, matched, settings)


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


def open_values(
    problem: Problem,
    around: np.ndarray,
    part: np.ndarray | None,
    settings: StartSettings = StartSettings(),
) -> np.ndarray:
    """Middle of the bounds, or `part` of the way between them; `around` (internal, or NaN) replaces missing bounds."""
    layout, drawn = problem.layout, part
    low, high = search_box(layout, around, settings)
    part = np.full(low.shape, settings.near_middle) if part is None else part
    wide = ~layout.scales.curved & (low > 0) & (high > settings.wide * low)
    with np.errstate(invalid="ignore", divide="ignore"):
        geometric = low * (high / low) ** part
    values: np.ndarray = np.where(wide, geometric, layout.scales.between(low, high, part))
    return values if drawn is None else _from_distributions(problem, values, drawn)


def _from_distributions(problem: Problem, values: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The values (internal), those with a distribution of their own drawn from it: `part` of it lies below them."""
    layout = problem.layout
    for c in range(layout.local, layout.width):
        prior = problem.parameters[
            layout.names[layout.column_parameters[c - len(layout.initial_states)]]
        ].drawn
        if prior is not None:
            scale, low, high = layout.scales[0, c], layout.lower[0, c], layout.upper[0, c]
            ends = float(scale.natural(low)), float(scale.natural(high))
            one = quantile_of_value(prior, ends[0], ends[1], part[0, c])
            values[:, c] = np.clip(scale.internal(one), low, high)
    return values


def candidates(
    problem: Problem, given: np.ndarray, count: int, seed: int, settings: StartSettings = StartSettings()
) -> np.ndarray:
    """(count, experiments, width): unknowns spread evenly over the bounds, initial states read off the data.

    `given` (internal, NaN where open) replaces missing bounds.
    """
    layout = problem.layout
    wanted = np.where(np.isfinite(given), given, layout.start)
    nothing = np.zeros(layout.lower.shape, bool)
    _, by_parameters = problem.solved_model.output.jacobian_pattern
    found: list[np.ndarray] = []
    measured: list[MeasuredStates] | None = None
    for part in spread_evenly(layout, count, seed):
        unknowns = open_values(problem, wanted, part, settings)
        if len(layout.initial_states):
            if measured is None or by_parameters.any():
                measured = _measured_states(problem, unknowns, settings)
            typical = _typical_size(measured)
            unknowns = _initial_from_data(problem, unknowns, nothing, measured, typical, settings)
        found.append(unknowns)
    return np.array(found)


def search_box(
    layout: UnknownsLayout, around: np.ndarray, settings: StartSettings = StartSettings()
) -> tuple[np.ndarray, np.ndarray]:
    """(experiments, width) each: the bounds, made finite where they are not.

    A missing bound is replaced by one about as far from `around` (internal; 1 in natural units where NaN) as 0 is, or
    a decade away for a log parameter.
    """
    lower, upper, log = layout.lower, layout.upper, layout.log
    no_low, no_high = ~np.isfinite(lower), ~np.isfinite(upper)
    centre = np.where(np.isfinite(around), around, np.where(log, 0.0, 1.0))
    base = np.where(no_low & no_high, centre, np.where(no_low, upper, lower))
    least = np.where(no_low & no_high & (base != 0), 0.0, 1.0)
    size = np.where(log, np.log(10.0), settings.missing_bound * np.maximum(np.abs(base), least))
    low = np.where(no_low, base - size, lower)
    high = np.where(no_high, base + np.where(no_low, size, 2 * size), upper)
    low = np.where(no_low & ~no_high, np.fmin(low, 2 * around - upper), low)
    high = np.where(no_high & ~no_low, np.fmax(high, 2 * around - lower), high)
    return low, high


def _with_states(
    problem: Problem, unknowns: np.ndarray, pinned: np.ndarray, matched: bool, settings: StartSettings
) -> Start:
    """Add tables of states and read initial states off them; match the parameters that nothing pinned to them."""
    layout = problem.layout
    measured = _measured_states(problem, unknowns, settings)
    typical = _typical_size(measured)
    unknowns = _initial_from_data(problem, unknowns, pinned, measured, typical, settings, not matched)
    if problem.timed is not None:
        return event_start(problem, unknowns, measured, ~pinned & matched)
    grids = start_grids(problem, settings.steps)
    known = np.zeros((len(grids), len(problem.solved_model.states)), bool)
    for e, tables in enumerate(measured):
        known[e, list(tables)] = True
    for _ in range(settings.rounds if matched and not known.all() else 1):
        path = _path(problem, unknowns, grids, measured, known, typical, settings)
        unknowns = _tame(problem, unknowns, ~pinned, grids, path, settings)
        if matched:
            unknowns = match_parameters(problem, unknowns, grids, path, known, ~pinned)
    positive = path.min(axis=(0, 1)) > 0
    if positive.any():
        positive &= signs(problem, layout.model_values(unknowns), typical, settings)[1]
    start = Start(unknowns, tuple(zip(grids, path, strict=True)), positive)
    if not layout.noise_columns.any():
        return start
    unknowns = fit_noise_parameters(problem, unknowns, smoothed(problem), start.at_samples(problem), ~pinned)
    return replace(start, unknowns=unknowns)


def _tame(
    problem: Problem,
    unknowns: np.ndarray,
    open_: np.ndarray,
    grids: np.ndarray,
    path: np.ndarray,
    settings: StartSettings,
) -> np.ndarray:
    """Halve the open parameters until f is finite and not absurdly large along the guessed path."""
    layout = problem.layout
    inputs = problem.inputs_at(np.arange(len(grids)), grids)
    span = (grids[:, -1] - grids[:, 0])[:, None, None]
    limit = settings.largest_change * max(float(np.abs(path).max()), np.finfo(float).tiny)
    movable = open_ & (np.arange(layout.width) >= len(layout.initial_states))
    for _ in range(settings.halvings):
        slopes = problem.solved_model.rhs.value(
            grids, path, layout.model_values(unknowns)[:, None, :], inputs
        )
        with np.errstate(all="ignore"):
            if np.all(np.abs(slopes * span) < limit):
                break
        smaller = np.clip(layout.internal(0.5 * layout.natural(unknowns)), layout.lower, layout.upper)
        unknowns = np.where(movable, smaller, unknowns)
    return unknowns


def _initial_from_data(
    problem: Problem,
    unknowns: np.ndarray,
    pinned: np.ndarray,
    measured: Sequence[MeasuredStates],
    typical: float,
    settings: StartSettings,
    scattered: bool = False,
) -> np.ndarray:
    """The unknowns with open initial states read off the data, or of typical size where hidden and unbounded.

    A `scattered` start keeps its values of these, in units of the typical size.
    """
    layout, unknowns = problem.layout, unknowns.copy()
    states = len(layout.initial_states)
    for e, column in np.argwhere(layout.exists[:, :states] & ~pinned[:, :states]):
        state, low, high = layout.initial_states[column], layout.lower[e, column], layout.upper[e, column]
        if state in measured[e]:
            guess = float(np.interp(problem.experiments[e].t0, *measured[e][state]))
            if layout.dosed is not None and layout.dosed[e, state] > 0:
                guess = max(guess - layout.dosed[e, state], min(guess, 0.0))
        elif np.isfinite(low) and np.isfinite(high):
            continue
        else:
            guess = typical * (float(layout.natural(unknowns)[e, column]) if scattered else 1.0)
        if layout.log[e, column]:
            guess = max(guess, settings.least_log * typical)
        unknowns[e, column] = np.clip(layout.scales[e, column].internal(guess), low, high)
    return unknowns


def _path(
    problem: Problem,
    unknowns: np.ndarray,
    grids: np.ndarray,
    measured: Sequence[MeasuredStates],
    known: np.ndarray,
    typical: float,
    settings: StartSettings,
) -> np.ndarray:
    """(experiments, points, states): measured states interpolated, hidden ones followed, populations kept positive."""
    layout = problem.layout
    params = layout.model_values(unknowns)
    initial, _ = layout.initial(unknowns)
    path = np.repeat(initial[:, None, :], grids.shape[1], axis=1)
    for e, tables in enumerate(measured):
        for state, table in tables.items():
            begin = grids[e, 0], initial[e, state]
            path[e, :, state] = interpolated(problem.jumps[e], state, begin, table, grids[e])
    if not known.all():
        limit = settings.reach * np.maximum(np.maximum(np.abs(initial), typical), largest_given(problem))
        path = follow_hidden(problem, grids, path, ~known, params, limit)
    # where noise has made some of the values negative, small ones mean little
    doubtful = (path <= 0).any(axis=(0, 1)) & (initial.min(axis=0) >= 0)
    if not doubtful.any():
        return path
    stays, _ = signs(problem, params, typical, settings)
    least = np.minimum(settings.least_positive * np.abs(path).mean(axis=(0, 1)), initial[:, None, :])
    kept: np.ndarray = np.where(stays & doubtful, np.maximum(path, least), path)
    return kept


def signs(
    problem: Problem, params: np.ndarray, typical: float, settings: StartSettings = StartSettings()
) -> tuple[np.ndarray, np.ndarray]:
    """(states,) each: f_a >= 0, and f_a = 0, wherever x_a = 0 and the other states and the inputs are not negative.

    Such states stay positive, or even never reach zero: concentrations and populations. Noise makes their data
    negative, where rate laws have poles. Tested at random points around the typical size.
    """
    model = problem.solved_model
    count, states = settings.sign_points, len(model.states)
    rng, spread = np.random.default_rng(0), settings.sign_decades
    points = typical * 10 ** rng.uniform(-spread, spread, (states, count, states))
    points[np.arange(states), :, np.arange(states)] = 0.0
    inputs = 10 ** rng.uniform(-spread, spread, (count, len(model.inputs)))
    times = np.linspace(*problem.span(0), count)
    slopes = model.rhs.value(times, points, params[0], inputs)  # (states, count, states)
    own = slopes[np.arange(states), :, np.arange(states)]
    return np.all(own >= 0, axis=1), np.all(own == 0, axis=1)


def _measured_states(problem: Problem, unknowns: np.ndarray, settings: StartSettings) -> list[MeasuredStates]:
    """The measured states of each experiment."""
    params = problem.layout.model_values(unknowns)
    initial, _ = problem.layout.initial(unknowns)
    return [_states_of_one(problem, e, params[e], initial[e], settings) for e in range(len(params))]


def _states_of_one(
    problem: Problem, experiment: int, params: np.ndarray, initial: np.ndarray, settings: StartSettings
) -> MeasuredStates:
    """The states that one observable shows alone, at the times of its samples.

    Increments show their running state and, if they are those of one state, this state: the sum of all up to a sample.
    """
    model, one = problem.solved_model, problem.experiments[experiment]
    wrt_x, _ = model.output.jacobian_pattern
    tables: MeasuredStates = {}
    for k, name in enumerate(one.observables):
        if name not in model.observables:  # it holds numbers of trials
            continue
        row = model.observables.index(name)
        shown = np.flatnonzero(wrt_x[row])
        measured = np.isfinite(one.values[:, k])
        if len(shown) != 1 or shown[0] in tables or not measured.any():
            continue
        times, values = _means(one.times[measured], _in_units_of_output(problem, experiment, row)[measured])
        if name in problem.model.increments:
            times, values = np.append(one.t0, times), np.append(0.0, np.cumsum(values))
            tables[int(shown[0])] = (times, values)
            counted = problem.model.output.expressions[row]  # type: ignore[union-attr]  # increments have formulas
            if counted.is_Symbol and counted.name in problem.model.states:
                state = problem.model.states.index(counted.name)
                tables.setdefault(state, (times, initial[state] + values))
            continue
        inverted = _invert(problem, experiment, row, int(shown[0]), times, values, params, settings)
        if inverted is not None:
            tables[int(shown[0])] = (times, inverted)
    return tables


def _in_units_of_output(problem: Problem, experiment: int, row: int) -> np.ndarray:
    """(samples of the experiment,): what was measured of an observable, fractions of successes for binomial counts."""
    samples = problem.samples
    return np.asarray(samples.data[samples.experiment == experiment, row])


def _means(times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct times, with the mean of the values at each."""
    if (np.diff(times) > 0).all():
        return times, values
    distinct, place = np.unique(times, return_inverse=True)
    return distinct, np.bincount(place, values) / np.bincount(place)


def _invert(
    problem: Problem,
    experiment: int,
    row: int,
    state: int,
    times: np.ndarray,
    values: np.ndarray,
    params: np.ndarray,
    settings: StartSettings,
) -> np.ndarray | None:
    """Solve g_row(x_state) = value by Newton's method at all times; None where that fails."""
    model, one = problem.solved_model, problem.experiments[experiment]
    shown = getattr(model.output, "expressions", None)  # functions have none
    if shown is not None and shown[row] == symbol(model.states[state]):
        return values
    inputs = one.inputs_at(model.inputs, times)
    x = np.zeros((len(times), len(model.states)))
    x[:, state] = np.where(values == 0, 1.0, values)
    enough = settings.newton_tolerance * (np.abs(values).max() + np.finfo(float).tiny)
    for _ in range(settings.newton_steps):
        got, wrt_x, _ = model.output.linearise(times, x, params, inputs)
        gap, slope = got[:, row] - values, wrt_x[:, row, state]
        if not np.all(np.isfinite(gap)) or np.any(slope == 0):
            return None
        if np.abs(gap).max() <= enough:
            return x[:, state]
        x[:, state] -= gap / slope
    return None


def _typical_size(measured: Sequence[MeasuredStates]) -> float:
    """A size for hidden states nobody bounded: the median magnitude of the measured ones."""
    sizes = [np.abs(values).mean() for tables in measured for _, values in tables.values()]
    size = float(np.median(sizes)) if sizes else 1.0
    return size if size > 0 else 1.0
