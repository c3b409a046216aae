"""structural(): what measurements without noise would determine, before any data exist.

The derivatives of all planned outputs by all unknowns are computed at random values; their rank is the number of
combinations that can be determined, locally. The rank is read off the gap in the singular values between those well
above the error of the derivatives and those of its size. The error is measured by a second mesh.
Among unknowns that cannot be determined one by one, determined combinations are sought as products of powers and as
sums: those whose gradients are orthogonal to the lost directions at all random values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from picardfit.checks import as_whole, is_number
from picardfit.display.hook import shown
from picardfit.errors import InputError
from picardfit.evidence.expected_information import expected
from picardfit.formulas.algebra import names
from picardfit.formulas.tracing import NumericMap
from picardfit.inference.combinations import (
    Combination,
    connected_groups,
    named,
    positive_first,
    reduced,
    simplified,
)
from picardfit.inference.thinning import thinned
from picardfit.model.model import Model
from picardfit.model.noise_models import Noise
from picardfit.problem.experiment import Experiment, replanned
from picardfit.problem.problem import Problem
from picardfit.problem.unknowns import UnknownsLayout, unknowns_index
from picardfit.search.starts import draw, make_start, open_values


@dataclass(frozen=True)
class StructuralSettings:
    """How the rank of the derivatives is found. Errors and ratios are relative."""

    dense: int = 41  # times added to each experiment: structure is about what could be seen, not few samples
    nodes: tuple[int, int] = (9, 11)  # of the two meshes whose difference is the error of the derivatives
    attempts: int = 6  # draws for each point that is wanted
    rows: int = 100  # of an input table, and samples of an observable: those of longer ones are thinned
    failures: int = 2  # draws from the bounds that fail in a row, after which those around a start are tried
    near: float = 0.1  # how far draws lie around a start at most, relative to its values
    rounding: float = 1e-13  # error of singular values from rounding alone
    differences: float = 1e-6  # error of derivatives by finite differences
    clear: float = 100.0  # ratio of neighbouring singular values that is a gap
    acting: float = 10.0  # size of a column, in units of its error, beyond which an unknown acts
    least_column: float = 1e-14  # size of a column, relative to the largest, below which it is rounding
    error_factor: float = 3.0  # safety factor on the measured error of the derivatives
    linked: float = 1e-6  # least entry of the projector on lost directions that links two unknowns
    linked_factor: float = 30.0  # least entry that links, in units of the accuracy of the lost directions
    same: float = 1e-5  # difference up to which directions at different points are the same
    simpler: float = 1e-3  # change of exponents that simple numbers may cost
    independent: float = 1e-6  # smallest singular value of gradients that are independent


DEFAULT = StructuralSettings()
TINY = np.finfo(float).tiny


class LocalIdentifiability(StrEnum):
    """Whether the outputs determine an unknown among nearby values. Each compares equal to its text."""

    YES = "locally identifiable"
    NO = "not identifiable"


@shown
@dataclass(frozen=True)
class Group:
    """Unknowns that cannot all be determined: `lost` of their combinations leave every output unchanged."""

    names: tuple[str, ...]
    lost: int
    determined: tuple[Combination, ...]
    """Combinations that are determined, as far as they are products of powers or sums."""


@shown
@dataclass(frozen=True)
class Structure:
    """What perfect measurements would determine, locally. `print` it for the verdict in words."""

    unknowns: tuple[str, ...]
    rank: int
    groups: tuple[Group, ...]
    points: int  # random values at which the model could be integrated
    agreeing: int  # of them with this rank
    gap: float  # smallest ratio between the last singular value that counts and the first that does not
    sampled_rank: int  # rank with the planned sampling times alone
    settings: StructuralSettings = field(default=DEFAULT, repr=False)

    @property
    def identifiable(self) -> bool:
        """Whether every unknown is locally identifiable."""
        return self.rank == len(self.unknowns)

    @property
    def verdicts(self) -> dict[str, LocalIdentifiability]:
        """What is known of each unknown."""
        lost = {name for group in self.groups for name in group.names}
        return {n: LocalIdentifiability.NO if n in lost else LocalIdentifiability.YES for n in self.unknowns}

    @property
    def clear(self) -> bool:
        """Whether the gap in the singular values is wide enough to be sure of the rank."""
        return self.gap >= self.settings.clear


@dataclass(frozen=True)
class _Slopes:
    """Derivatives of the outputs by relative changes of the unknowns, at one random point."""

    slopes: np.ndarray  # (rows, unknowns)
    error: np.ndarray  # of the slopes
    values: np.ndarray  # (unknowns,), natural units; 1 for an unknown that is zero
    sampled: np.ndarray  # (rows,) bool: planned samples


@dataclass(frozen=True)
class _Rank:
    rank: int
    gap: float
    lost: np.ndarray  # (unknowns - rank, unknowns): the lost directions in columns of unit size
    size: np.ndarray  # (unknowns,): sizes of the columns
    accuracy: float  # of the lost directions


def structural(
    problem: Problem | Model,
    plans: Iterable[Experiment] | Experiment | None = None,
    *,
    parameters: Mapping[str, object] | None = None,
    initial: Mapping[str, object] | None = None,
    points: int = 5,
    seed: int = 0,
    settings: StructuralSettings = DEFAULT,
) -> Structure:
    """Which unknowns measurements without noise would determine, locally; no data are needed.

    `problem`: a Problem, whose experiments may be planned (`pf.plan`) or measured; or a Model, with `plans`,
    `parameters` and `initial` as a Problem takes them. Values are drawn from the bounds (around the starts, or
    around 1, where there are none), `points` times; where the model cannot be integrated there, around the values at
    which a fit would begin. Each experiment is also sampled on a dense grid; long input tables are thinned.
    """
    problem = _as_problem(problem, plans, parameters, initial)
    points, seed = as_whole(points, "points", 1, 5), as_whole(seed, "seed", 0)
    measured, thin = problem, [thinned(one, settings.rows) for one in problem.experiments]
    problem = problem.with_experiments(thin)
    begins = _observed_at_begin(problem, np.random.default_rng(seed))
    dense = _with_even_noise(
        problem,
        [
            _densified(one, problem.span(e), settings.dense, begins[e])
            for e, one in enumerate(problem.experiments)
        ],
    )
    index = unknowns_index(dense.layout.exists & _acting(dense.layout), dense.layout.local)
    labels = tuple(dense.layout.label(e, c) for e, c in index)
    draws = _draws(measured, dense, np.random.default_rng(seed), settings)
    found = _random_slopes(problem, dense, index, points, draws, settings)
    if not len(index):
        return Structure((), 0, (), len(found), len(found), np.inf, 0, settings)
    ranks = [_decide(one.slopes, one.error, settings) for one in found]
    rank = max(Counter(r.rank for r in ranks).items(), key=lambda item: (item[1], item[0]))[0]
    agreeing = [(one, r) for one, r in zip(found, ranks, strict=True) if r.rank == rank]
    sampled = [_decide(one.slopes[one.sampled], one.error[one.sampled], settings).rank for one, _ in agreeing]
    return Structure(
        unknowns=labels,
        rank=rank,
        groups=_groups(agreeing, labels, settings),
        points=len(found),
        agreeing=len(agreeing),
        gap=min(r.gap for _, r in agreeing),
        sampled_rank=max(sampled),
        settings=settings,
    )


def _as_problem(given, plans, parameters, initial) -> Problem:
    if isinstance(given, Problem):
        if any(one is not None for one in (plans, parameters, initial)):
            raise InputError("inference.plans_with_problem")
        return given
    if not isinstance(given, Model):
        raise InputError("inference.structural_of", given=given)
    if plans is None:
        raise InputError("inference.plans_missing")
    if isinstance(plans, list | tuple | np.ndarray) and any(is_number(one) for one in plans):
        raise InputError("inference.plans_are_numbers")
    if isinstance(plans, list | tuple) and not plans:
        raise InputError("inference.plans_empty")
    return Problem(given, plans, parameters, initial)


def _observed_at_begin(problem: Problem, rng: np.random.Generator) -> list[dict[str, bool]]:
    """For every experiment, the observables and whether they are finite where it begins: x/t is not at 0."""
    layout, model = problem.layout, problem.solved_model
    unknowns = open_values(problem, layout.start, draw(layout, rng))
    params = layout.model_values(unknowns)
    with np.errstate(all="ignore"):
        initial, _ = layout.initial(unknowns)
        begins = [
            model.output.value(
                one.t0, initial[e], params[e], one.inputs_at(model.inputs, np.array([one.t0]))[0]
            )
            for e, one in enumerate(problem.experiments)
        ]
    return [dict(zip(model.observables, np.isfinite(values).tolist(), strict=True)) for values in begins]


def _densified(
    one: Experiment, span: tuple[float, float], count: int, observables: Mapping[str, bool]
) -> Experiment:
    """The experiment as a plan of its observables that is also sampled on a dense grid of `count` times.

    The grid leaves out times of doses, at which increments and other observables cannot be measured together, and the
    first time for observables that are not finite there (False).
    """
    given = np.concatenate([np.zeros(0), *(dose.times for dose in one.doses)])
    grid = np.setdiff1d(np.linspace(*span, count), given[given > one.t0])
    own: dict[str, np.ndarray] = {}
    for k, name in enumerate(one.observables):
        if name in observables:
            times, also = one.times[one.sampled[:, k]], grid if observables[name] else grid[grid > one.t0]
            own[name] = np.union1d(times, also) if len(times) else np.zeros(0)
    return replanned(one, own)


def _with_even_noise(problem: Problem, experiments: list[Experiment]) -> Problem:
    """The problem with these experiments, and with known additive noise in place of a noise model of its own.

    Structure is about the outputs. A noise model would refuse some of them: the logarithm of an output that begins at
    zero, a count that is no whole number.
    """
    if problem.scatter is None:
        return problem.with_experiments(experiments)
    dropped = {*problem.noise_names} - {*problem.initial_names}
    parameters = {name: one for name, one in problem.parameters.items() if name not in dropped}
    noise, initial = Noise(additive=1.0), problem.initial
    return Problem(problem.model, experiments, parameters, initial, noise=noise, random=problem.random)


def _common_columns(layout: UnknownsLayout, other: UnknownsLayout) -> list[int]:
    """The columns of `other` that hold the unknowns of `layout`, whose initial states are the same."""
    count, theirs = len(layout.initial_states), [other.names[k] for k in other.column_parameters]
    own = (theirs.index(layout.names[k]) for k in layout.column_parameters)
    return [*range(count), *(count + k for k in own)]


def _acting(layout: UnknownsLayout) -> np.ndarray:
    """(width,) bool: unknowns that act on the states or observables, not on the noise alone."""
    every = np.concatenate([layout.local_parameters, layout.global_parameters])
    formulas = () if layout.formulas is None else layout.formulas.expressions
    used = set().union(*map(names, formulas))
    own = [k < layout.model_parameters or layout.names[k] in used for k in every]
    return np.concatenate([np.ones(len(layout.initial_states), bool), np.array(own, bool)])


def _draws(
    measured: Problem, dense: Problem, rng: np.random.Generator, settings: StructuralSettings
) -> Generator[np.ndarray, bool, None]:
    """Random unknowns (experiments, width), one after the other; `send` tells whether those before were of use.

    They are drawn from the bounds. Wide bounds may hold hardly any values at which the model can be integrated; then
    they are drawn around the start that a fit makes from the data, where there are data.
    """
    failures = 0
    while failures < settings.failures:
        useful = yield open_values(dense, dense.layout.start, draw(dense.layout, rng))
        failures = 0 if useful else failures + 1
    layout = dense.layout
    while any(one.planned is not None for one in measured.experiments):
        yield open_values(dense, layout.start, draw(layout, rng))
    with np.errstate(all="ignore"):
        start = make_start(measured).unknowns[:, _common_columns(layout, measured.layout)]
    while True:
        moved = start + settings.near * (2 * draw(layout, rng) - 1) * layout.unit(start)
        yield np.clip(moved, layout.lower, layout.upper)


def _random_slopes(
    problem: Problem,
    dense: Problem,
    index: np.ndarray,
    points: int,
    draws: Generator[np.ndarray, bool, None],
    settings: StructuralSettings,
) -> list[_Slopes]:
    """Slopes at `points` random values, or at fewer where the model often cannot be integrated."""
    found: list[_Slopes] = []
    unknowns = next(draws)
    for _ in range(settings.attempts * points):
        slopes = _slopes(problem, dense, index, unknowns, settings)
        if slopes is not None:
            found.append(slopes)
        if len(found) == points:
            break
        unknowns = draws.send(slopes is not None)
    if not found:
        raise InputError("inference.no_random_solution")
    return found


def _slopes(
    problem: Problem, dense: Problem, index: np.ndarray, unknowns: np.ndarray, settings: StructuralSettings
) -> _Slopes | None:
    """The slopes at these values, on the finer of two meshes; None if the model cannot be integrated."""
    coarse, fine = (expected(dense, unknowns, nodes) for nodes in settings.nodes)
    if coarse is None or fine is None:
        return None
    layout, samples, at = dense.layout, coarse.system.problem.samples, tuple(index.T)
    values, inner = layout.natural(unknowns)[at], layout.slopes(unknowns)[at]
    measured = np.isfinite(samples.data)  # (samples, observables)
    mine = (index[:, 1] >= layout.local) | (samples.experiment[:, None] == index[:, 0])  # (samples, unknowns)
    observables = measured.shape[1]
    weight = measured / _sizes(samples, coarse.outputs[:, :observables], measured)
    rough, slopes = (
        (one.jacobian[:, :observables, index[:, 1]] * mine[:, None, :] * weight[..., None])[measured] / inner
        for one in (coarse, fine)
    )
    error = rough - slopes
    if isinstance(dense.model.rhs, NumericMap) or isinstance(dense.model.output, NumericMap):
        error = np.maximum(np.abs(error), settings.differences * np.abs(slopes).max(axis=0))
    values = np.where(values == 0, 1.0, values)
    return _Slopes(slopes * values, error * values, values, _planned(problem, samples)[measured])


def _sizes(samples, outputs: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """(samples, observables): the largest size of that output in that experiment."""
    size = np.ones_like(outputs)
    for e in np.unique(samples.experiment):
        mine = samples.experiment == e
        top = np.where(measured[mine], np.abs(outputs[mine]), 0.0).max(axis=0)
        size[mine] = np.where(top > 0, top, 1.0)
    return size


def _planned(problem: Problem, samples) -> np.ndarray:
    """(samples, observables) bool: what the problem itself samples, among the samples of the dense problem."""
    planned = np.zeros(samples.data.shape, bool)
    for e, one in enumerate(problem.experiments):
        mine = samples.experiment == e
        for k, name in enumerate(one.observables):
            if name not in problem.model.observables:
                continue
            column = problem.model.observables.index(name)
            planned[mine, column] = np.isin(samples.times[mine], one.times[one.sampled[:, k]])
    return planned


def _decide(slopes: np.ndarray, error: np.ndarray, settings: StructuralSettings) -> _Rank:
    """Rank by the largest gap among singular values that end near the size of the error."""
    size = np.linalg.norm(slopes, axis=0)
    noise = np.linalg.norm(error, axis=0)
    acting = size > np.maximum(settings.acting * noise, settings.least_column * size.max(initial=TINY))
    unit = np.where(acting, slopes, 0.0) / np.where(acting, size, 1.0)
    wrong = np.where(acting, error, 0.0) / np.where(acting, size, 1.0)
    values, turned = _right_singular(unit)
    floor = max(settings.error_factor * np.linalg.norm(wrong, 2), settings.rounding * values[0], TINY)
    steps = np.append(np.maximum(values, floor), floor)
    ratios = np.concatenate([[1.0], steps[:-1] / steps[1:]])  # ratios[r]: rank r
    allowed = np.concatenate([[False], steps[1:] <= settings.clear * floor])
    rank = int(np.argmax(np.where(allowed, ratios, 0.0))) if acting.any() else 0
    gap = float(ratios[rank]) if rank else np.inf
    accuracy = floor / steps[rank - 1] if rank else 0.0
    return _Rank(rank, gap, turned[rank:], np.where(acting, size, 1.0), accuracy)


def _right_singular(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values (columns,) and right singular vectors (columns, columns) of a matrix of any number of rows.

    Only V must be square: where rows are fewer than columns, the missing values are zero. A square U would take
    rows^2 numbers, 7 TiB for the million rows of a large table.
    """
    rows, columns = matrix.shape
    _, values, turned = np.linalg.svd(matrix, full_matrices=rows < columns)
    return np.concatenate([values, np.zeros(columns - len(values))]), turned


def _groups(
    points: list[tuple[_Slopes, _Rank]], labels: tuple[str, ...], settings: StructuralSettings
) -> tuple[Group, ...]:
    """The unknowns that lost directions link, and what is determined of each group."""
    linked = np.zeros((len(labels), len(labels)), bool)
    for _, one in points:
        linked |= np.abs(one.lost.T @ one.lost) > max(settings.linked, settings.linked_factor * one.accuracy)
    directions, groups = points[0][1].lost, []
    for members in connected_groups(linked):
        projector = directions.T @ directions
        lost = round(float(np.trace(projector[np.ix_(members, members)])))
        own = tuple(labels[k] for k in members)
        determined = _determined(points, members, own, lost, settings) if 0 < lost < len(members) else ()
        groups.append(Group(own, lost, determined))
    return tuple(groups)


def _determined(
    points: list[tuple[_Slopes, _Rank]],
    members: np.ndarray,
    own: tuple[str, ...],
    lost: int,
    settings: StructuralSettings,
) -> tuple[Combination, ...]:
    """Products of powers, then sums, that no lost direction of any point changes; at most as many as are determined."""
    chosen: list[Combination] = []
    gradients = np.zeros((0, len(members)))  # of the chosen ones, in logarithms at the first point
    here = points[0][0].values[members]
    for power in (True, False):
        for weights in _invariants(points, members, lost, power, settings):
            gradient = weights if power else weights * here
            trial = np.concatenate([gradients, [gradient / np.linalg.norm(gradient)]])
            independent = np.linalg.svd(trial, compute_uv=False)[-1] > settings.independent
            if independent and len(trial) <= len(members) - lost:
                gradients = trial
                chosen.append(Combination(named(weights, own), power, 0.0))
    return tuple(chosen)


def _invariants(
    points: list[tuple[_Slopes, _Rank]],
    members: np.ndarray,
    count: int,
    power: bool,
    settings: StructuralSettings,
) -> list[np.ndarray]:
    """Exponents (or factors) orthogonal to the lost directions of all points; none when the points are too few."""
    lost = []
    for point, one in points:
        values, vectors = np.linalg.eigh(one.lost[:, members].T @ one.lost[:, members])
        within = vectors[:, np.argsort(values)[len(values) - count :]].T  # lost directions inside the group
        own = within / one.size[members] * (1.0 if power else point.values[members])
        lost.append(own / np.abs(own).max(axis=1, keepdims=True))
    before, rank = (
        np.linalg.matrix_rank(np.concatenate(some), settings.same) for some in (lost[:-1] or lost, lost)
    )
    if before < rank or (len(lost) == 1 and rank < len(members)):
        return []
    _, turned = _right_singular(np.concatenate(lost))
    rows = reduced(turned[rank:])
    simple = [simplified(row, settings.simpler) for row in rows]
    weights = [row if nice is None else nice for row, nice in zip(rows, simple, strict=True)]
    return [positive_first(np.where(np.abs(w) < settings.same, 0.0, w)) for w in weights]
