"""A problem bound to a mesh: outputs at the sampling times and their derivatives.

Samples need not be nodes: the value at a sample is that of the polynomial through the start state and the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product

import numpy as np

from picardfit.collocation.elimination import plan_of
from picardfit.collocation.event_links import EventLinks, of_knots
from picardfit.collocation.mesh import Flags, Indices, Mesh, QuickIndex
from picardfit.collocation.picard import Field, end_states
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.model.events import EventMaps
from picardfit.model.inputs import Table
from picardfit.model.kinks import smooth_at_nodes
from picardfit.problem.likelihood import Objective
from picardfit.problem.problem import Problem
from picardfit.problem.unknowns import compact


@dataclass(frozen=True)
class Chunk:
    """Neighbouring segments whose derivatives are computed together, the blocks of their samples and their links."""

    segments: slice
    blocks: slice
    linked: Indices  # segments with a successor, counted from the first of the chunk
    links: slice  # the knots after them, among those of all linked segments


@dataclass(frozen=True)
class KnotJumps:
    """Doses and resets at some of the knots between segments: the next segment starts at keep x + add."""

    links: Indices  # (jumps,): among the linked segments, ascending
    keep: Array  # (jumps, states): 1, or 0 for a reset
    add: Array  # (jumps, states)

    @classmethod
    def together(cls, links: Indices, keep: Array, add: Array) -> KnotJumps:
        """Jumps in order of time; those at one knot become one."""
        distinct, place = np.unique(links, return_inverse=True)
        kept, added = np.ones((len(distinct), keep.shape[1])), np.zeros((len(distinct), keep.shape[1]))
        for k, one in enumerate(place):
            kept[one], added[one] = keep[k] * kept[one], keep[k] * added[one] + add[k]
        return cls(distinct, kept, added)

    def apply(self, ends: Array) -> Array:
        """(linked, states): ends of segments, where a dose follows after it."""
        after: Array = ends.copy()
        after[self.links] = self.keep * ends[self.links] + self.add
        return after

    def before(self, after: Array) -> Array:
        """(linked, states): what `apply` turns into this; a state that a reset forgets stays as it is."""
        before: Array = after.copy()
        before[self.links] = after[self.links] - self.add * self.keep
        return before

    def masked(self, per_link: Array) -> Array:
        """(linked, states, ...): rows of states that a reset forgets set to zero, for derivatives and adjoints."""
        if self.keep.all():
            return per_link
        result: Array = per_link.copy()
        result[self.links] *= self.keep.reshape(*self.keep.shape, *[1] * (per_link.ndim - 2))
        return result


def _knots_near(mesh: Mesh, experiment: int, times: Array) -> Indices:
    """(times,): the knots between segments at these times, among those of all linked segments.

    A break within rounding of another has no knot of its own: the nearest is meant.
    """
    if not len(times):  # a single segment has no knot to be near to
        return np.zeros(0, int)
    nearest: Indices = np.abs(times[:, None] - mesh.knots[experiment][1:-1]).argmin(axis=1)
    return mesh.inner_ranges[experiment][0] + nearest


@dataclass(frozen=True)
class Discretisation:
    """Everything about (problem, mesh) that does not change with the unknowns."""

    problem: Problem = field(repr=False)
    mesh: Mesh
    surrogate: Objective | None = field(default=None, repr=False)  # minimised instead of the problem's own
    chunk_size: int = 200_000  # numbers in the Newton matrices of a chunk, so that they stay in the cache
    eliminated_chunk_size: int = 1_500_000  # numbers in its multipliers if matrices are eliminated; measured

    @property
    def objective(self) -> Objective:
        return self.problem.objective if self.surrogate is None else self.surrogate

    def value(self, unknowns: Array, rows: Array) -> float:
        """What is minimised: the cost of the data at these rows, and of the unknowns by their priors."""
        value, priors = self.objective.value(rows), self.problem.priors
        return value if priors is None else value + priors.value(unknowns)

    @cached_property
    def field(self) -> Field:
        """The right-hand side along the mesh. Tables of lines have smooth values where segments hold their rows."""
        mesh, problem = self.mesh, self.problem
        inputs = problem.inputs_at(mesh.experiment, mesh.node_times)
        for (e, knots), (column, name) in product(enumerate(mesh.knots), enumerate(problem.model.inputs)):
            source = problem.experiments[e].signals[name]
            if isinstance(source, Table) and source.kind == "linear":
                chosen, values = smooth_at_nodes(source.times, source.values, knots, mesh.rule.nodes)
                inputs[mesh.first[e] + chosen, :, column] = values
        plan = plan_of(problem.rhs) if isinstance(problem.rhs, BatchedMap) else None
        return Field(problem.rhs, mesh, inputs, plan)

    @cached_property
    def parameter_entries(self) -> tuple[Indices, Indices]:
        """Entries of f_p, as a BatchedMap has them, whose parameters are free; the state and free parameter of each.

        The latter are (entries, 2), in the order of the states.
        """
        rhs, free = self.problem.rhs, self.problem.layout.free_parameters
        assert isinstance(rhs, BatchedMap)  # others have dense derivatives
        state, parameter = np.nonzero(rhs.jacobian_pattern[1])
        column = np.full(len(rhs.parameters), -1)
        column[free] = np.arange(len(free))
        chosen = np.flatnonzero(column[parameter] >= 0)
        return chosen, np.column_stack([state, column[parameter]])[chosen]

    @cached_property
    def sample_inputs(self) -> Array:
        samples = self.problem.samples
        return self.problem.inputs_at(samples.experiment, samples.times)

    @cached_property
    def located(self) -> tuple[Indices, Array]:
        samples = self.problem.samples
        found = self.mesh.locate(samples.times, samples.experiment, self.problem.before_knots)
        return found if self.events is None else (self._within_pieces(found[0]), found[1])

    def _within_pieces(self, segment: Indices) -> Indices:
        """(samples,): the segments of samples, moved to the same side of every event as scheduled.

        A sample that a knot has passed stays on its side, so that the objective is smooth while knots move.
        """
        events, samples, mesh = self.events, self.problem.samples, self.mesh
        assert events is not None
        low, high = mesh.first[samples.experiment], (mesh.first + mesh.counts - 1)[samples.experiment]
        first = np.searchsorted(samples.experiment, np.arange(len(mesh.knots)))
        number = np.arange(len(segment)) - first[samples.experiment]
        for e, last, one in zip(events.owner, events.segments, events.scheduled, strict=True):
            mine, early = samples.experiment == e, number < one.before
            high = np.where(mine & early, np.minimum(high, last), high)
            low = np.where(mine & ~early, np.maximum(low, last + 1), low)
        return np.clip(segment, low, high)

    @property
    def segment(self) -> Indices:
        """(samples,): segment of each sample."""
        return self.located[0]

    @cached_property
    def blocks(self) -> SampleBlocks:
        return sample_blocks(self.segment, len(self.mesh))

    @cached_property
    def along(self) -> tuple[Array, Array]:
        """Weights of start state (blocks, slots, 1) and nodes (blocks, slots, nodes) in the values at samples."""
        weights = self.blocks.padded(self.mesh.rule.along(self.located[1]))
        return weights[..., :1].copy(), weights[..., 1:].copy()

    @cached_property
    def events(self) -> EventLinks | None:
        """The knots that move, of a problem with events; None without any."""
        problem, mesh = self.problem, self.mesh
        if problem.timed is None:
            return None
        if not mesh.schedule:
            raise InputError("collocation.events")
        model = problem.solved_model
        links, owner, entries = of_knots(mesh.schedule, mesh.inner_ranges, mesh.knots)
        segments = mesh.linked[links] if links else np.zeros(0, int)
        times = mesh.node_times[segments, -1]
        keep, add = np.ones((len(links), len(model.states))), np.zeros((len(links), len(model.states)))
        for row, (e, one) in enumerate(zip(owner, entries, strict=True)):
            jumps = problem.jumps[e]
            if jumps is None or one.at is None:
                continue
            for k in np.flatnonzero(jumps.times == one.at):
                keep[row], add[row] = jumps.keep[k] * keep[row], jumps.keep[k] * add[row] + jumps.add[k]
        return EventLinks(
            np.array(links, int),
            segments,
            np.array(owner, int),
            tuple(entries),
            EventMaps.of(model.events, (model.states, problem.measured_names, model.inputs)),
            problem.inputs_at(np.array(owner, int), times),
            keep,
            add,
            np.array([problem.span(e)[1] for e in range(len(mesh.knots))]),
        )

    def at(self, lengths: Array | None) -> Discretisation:
        """The system whose segments have these lengths; the system itself where they are its own."""
        if lengths is None or lengths is self.mesh.lengths:
            return self
        return replace(self, mesh=replace(self.mesh, lengths=lengths))

    def following(self, lengths: Array, clock: Array) -> Discretisation:
        """The system whose segments have these lengths and begin at these times, in which samples are located."""
        return replace(self, mesh=replace(self.mesh, lengths=lengths, clock=clock))

    @cached_property
    def at_breaks(self) -> Flags:
        """(linked,) bool: knots between segments where the right-hand side may jump or kink, or a state is reset."""
        mesh, found = self.mesh, np.zeros(len(self.mesh.linked), bool)
        for e, (a, b) in enumerate(mesh.inner_ranges):
            if b > a:
                found[a:b] = np.isin(mesh.start[mesh.linked[a:b] + 1], self.problem.knots(e))
        if self.events is not None:
            found[self.events.links] = True
        return found

    @cached_property
    def kept(self) -> Array | None:
        """(linked, states): 0 for running states that are set back to zero at a knot, else 1; None without increments.

        The end state of a segment times this is where the next one begins.
        """
        problem, mesh = self.problem, self.mesh
        if problem.increments is None:
            return None
        kept, n = np.ones((len(mesh.linked), len(problem.solved_model.states))), len(problem.model.states)
        for e, times_of in enumerate(problem.increments.resets):
            for k, times in enumerate(times_of):
                kept[_knots_near(mesh, e, times), n + k] = 0.0
        return kept

    @cached_property
    def doses(self) -> KnotJumps | None:
        """The jumps of the states at knots that doses and resets cause; None without any."""
        mesh, links, keep, add = self.mesh, [], [], []
        if self.problem.timed is not None:  # doses are among the events
            return None
        for e, jumps in enumerate(self.problem.jumps):
            inside = None if jumps is None else jumps.part(jumps.times < mesh.knots[e][-1])
            if inside is None:
                continue
            links.append(_knots_near(mesh, e, inside.times))
            keep.append(inside.keep)
            add.append(inside.add)
        if not links:
            return None
        return KnotJumps.together(np.concatenate(links), np.concatenate(keep), np.concatenate(add))

    def end_states(self, x: Array, path: Array, params: Array) -> Array:
        """(linked, states): the path at the end of each segment with a successor, after a dose or event there."""
        ends = end_states(self.mesh, x, path)[self.mesh.linked_rows]
        if self.events is not None:
            ends, events = ends.copy(), self.events
            ends[events.links] = events.after(ends[events.links], params[events.owner])
        ends = ends if self.doses is None else self.doses.apply(ends)
        return ends if self.kept is None else self.kept * ends

    def felt(self, per_link: Array) -> Array:
        """(linked, states, ...): derivatives or adjoints of the ends of segments, zero for states that begin anew."""
        felt = per_link if self.doses is None else self.doses.masked(per_link)
        if self.kept is None:
            return felt
        return felt * self.kept.reshape(*self.kept.shape, *[1] * (per_link.ndim - 2))

    @cached_property
    def selected(self) -> QuickIndex | None:
        """The states that the rows of the objective are, if every row is a state itself; otherwise None."""
        rows = self.problem.measurement
        if not isinstance(rows, BatchedMap):
            return None
        names = [one.name if one.is_Symbol else "" for one in rows.expressions]
        if not set(names) <= set(rows.states):
            return None
        return compact(np.array([rows.states.index(name) for name in names]))

    @cached_property
    def chunks(self) -> list[Chunk]:
        """The mesh in chunks whose Newton matrices, or whose multipliers if these are eliminated, stay in the cache."""
        mesh, states = self.mesh, len(self.problem.solved_model.states)
        size = len(self.mesh.rule.nodes) * states
        count, each = len(mesh), self.chunk_size // size**2
        if self.field.plan is not None:
            columns = states + len(self.problem.layout.columns.parameters)
            each = self.eliminated_chunk_size // (size * columns)
        edges = [*range(0, count, max(each, 1)), count]
        blocks = np.searchsorted(self.blocks.segment, edges)
        links = np.searchsorted(mesh.linked, edges)
        return [
            Chunk(slice(a, b), slice(*blocks[k : k + 2]), mesh.linked[mine] - a, mine)
            for k, (a, b) in enumerate(pairwise(edges))
            for mine in [slice(*links[k : k + 2])]
        ]

    def parameters(self, unknowns: Array) -> Array:
        """(experiments, parameters of model and noise) in natural units."""
        return self.problem.layout.measured_values(unknowns)

    def spread(self, per_experiment: Array, segments: slice = slice(None)) -> Array:
        """(experiments, k) -> (segments, 1, k), or (k,) of a single experiment: to broadcast over nodes."""
        one, owner = len(per_experiment) == 1, self.mesh.experiment[segments]
        values: Array = per_experiment[0] if one else per_experiment[owner][:, None, :]
        return values

    def of_samples(self, per_experiment: Array) -> Array:
        """(experiments, k) -> (samples, k), or (k,) of a single experiment."""
        one = len(per_experiment) == 1
        values: Array = per_experiment[0] if one else per_experiment[self.problem.samples.experiment]
        return values

    def sample_fractions(self, x: Array, beyond: float = 0.5) -> Array:
        """(samples,): where a sample is in its segment, from 0 to 1; by the clock among the start states x, if any.

        A sample that a moving knot has passed stays with its segment until the next mesh, at most `beyond` outside it.
        """
        if self.problem.timed is None:
            return self.located[1]
        since = self.problem.samples.times - x[self.segment, -1]
        fraction: Array = np.clip(since / self.mesh.length[self.segment], -beyond, 1 + beyond)
        return fraction

    def weights_at_samples(self, x: Array) -> tuple[Array, Array]:
        """`along`, for segments that begin at x."""
        if self.problem.timed is None:
            return self.along
        weights = self.blocks.padded(self.mesh.rule.along(self.sample_fractions(x)))
        return weights[..., :1].copy(), weights[..., 1:].copy()

    def at_samples(self, x: Array, path: Array) -> Array:
        """States at the samples: (samples, states)."""
        blocks, (of_start, of_nodes) = self.blocks, self.weights_at_samples(x)
        return blocks.unpadded(of_nodes @ blocks.of_blocks(path) + of_start * blocks.of_blocks(x)[:, None, :])

    def derivatives_at_samples(self, multipliers: Array, chunk: Chunk, x: Array, path: Array) -> Array:
        """(blocks, slots, states, columns): derivative of the states at the samples of a chunk.

        `multipliers` (segments, nodes, states, columns) is the derivative of the path on it, which begins at x.
        """
        states, columns = multipliers.shape[2:]
        of_start, of_nodes = self.weights_at_samples(x)
        flat = multipliers.reshape(*multipliers.shape[:2], -1)
        if not self.blocks.one_each:
            flat = flat[self.blocks.segment[chunk.blocks] - chunk.segments.start]
        result = of_nodes[chunk.blocks] @ flat
        result[..., : states * columns : columns + 1] += of_start[chunk.blocks]  # each state by itself
        result = result.reshape(*result.shape[:2], states, columns)
        if self.problem.timed is not None:  # a segment that begins later shows an earlier part of itself
            result[..., states - 1] -= self._slopes_at_samples(x, path)[chunk.blocks]
        return result

    def _slopes_at_samples(self, x: Array, path: Array) -> Array:
        """(blocks, slots, states): dX/dt at the samples."""
        blocks, mesh = self.blocks, self.mesh
        fraction, beyond = self.sample_fractions(x), self.sample_fractions(x, np.inf)
        moving = (fraction == beyond) / mesh.length[self.segment]
        weights = blocks.padded(mesh.rule.slope_along(fraction) * moving[:, None])
        return weights[..., 1:] @ blocks.of_blocks(path) + weights[..., :1] * blocks.of_blocks(x)[:, None, :]

    def outputs(self, states: Array, params: Array) -> Array:
        """Rows of the objective at the samples, observables first.

        From states (samples, states) and parameters (experiments, parameters).
        """
        if self.selected is not None:
            return states[..., self.selected]
        return self.problem.measurement_at_samples.value(
            self.problem.samples.times, states, self.of_samples(params), self.sample_inputs
        )

    def linearised_outputs(self, states: Array, params: Array) -> tuple[Array, Array, Array]:
        return self.problem.measurement_at_samples.linearise(
            self.problem.samples.times, states, self.of_samples(params), self.sample_inputs
        )


@dataclass(frozen=True)
class SampleBlocks:
    """Blocks of `width` slots, each within one segment; a slot holds a sample or is empty.

    Usually every segment is a block. Where most slots would be empty, segments without samples have no block and those
    with many samples have several.
    """

    segments: int
    segment: Indices  # (blocks,): the segment of each block, in order
    width: int  # slots in a block
    slot: Indices  # (samples,): the slot of each sample, counted over all blocks

    @cached_property
    def one_each(self) -> bool:
        """Whether the blocks are the segments."""
        return len(self.segment) == self.segments and bool((np.diff(self.segment) == 1).all())

    @cached_property
    def _full(self) -> bool:
        """Whether there is a sample in every slot."""
        return len(self.slot) == len(self.segment) * self.width

    @cached_property
    def _starts(self) -> tuple[Indices, Indices]:
        """Segments that have blocks, and where each one's blocks begin."""
        begins = np.concatenate([[0], np.flatnonzero(np.diff(self.segment)) + 1])
        return self.segment[begins], begins

    def of_blocks(self, per_segment: Array) -> Array:
        """(segments, ...) -> (blocks, ...)."""
        return per_segment if self.one_each else per_segment[self.segment]

    def by_segment(self, per_block: Array) -> Array:
        """(blocks, ...) -> (segments, ...): sums over the blocks of each segment."""
        if self.one_each:
            return per_block
        segments, begins = self._starts
        total = np.zeros((self.segments, *per_block.shape[1:]))
        total[segments] = np.add.reduceat(per_block, begins)
        return total

    def padded(self, per_sample: Array) -> Array:
        """(samples, ...) -> (blocks, slots, ...), zero where there is no sample."""
        shape = (len(self.segment), self.width, *per_sample.shape[1:])
        if self._full:
            return per_sample.reshape(shape)
        everywhere = np.zeros((shape[0] * shape[1], *shape[2:]))
        everywhere[self.slot] = per_sample
        return everywhere.reshape(shape)

    def unpadded(self, per_slot: Array) -> Array:
        """(blocks, slots, ...) -> (samples, ...)."""
        flat = per_slot.reshape(len(self.segment) * self.width, *per_slot.shape[2:])
        return flat if self._full else flat[self.slot]


def sample_blocks(segment: Indices, segments: int, most_slots: int = 4) -> SampleBlocks:
    """Blocks for samples in these segments (samples,), which are in order.

    `most_slots`: slots for each sample up to which every segment may be one block; padding costs less than indexing.
    """
    counts = np.bincount(segment, minlength=segments)
    width = int(counts.max())
    if width * segments <= most_slots * len(segment):
        blocks = np.ones(segments, int)
    else:
        held = int(np.count_nonzero(counts))
        width = -(-len(segment) // held)  # the mean of segments that hold samples, rounded up
        blocks = -(-counts // width)
    before = np.cumsum(counts) - counts  # samples of earlier segments
    begin = width * (np.cumsum(blocks) - blocks)  # the first slot of each segment
    slot = np.arange(len(segment)) + (begin - before)[segment]
    return SampleBlocks(segments, np.repeat(np.arange(segments), blocks), width, slot)
