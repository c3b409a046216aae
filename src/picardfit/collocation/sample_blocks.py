"""Samples in padded blocks of equal width: few products of large matrices instead of a small one for each sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.collocation.mesh import Indices
from picardfit.formulas.kernels import Array


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
