"""Samples in lines of equally many places: few products of large matrices instead of a small one for each sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

MOST_PLACES = 4  # for each sample, where every segment is one line


@dataclass(frozen=True)
class Places:
    """Lines of places, each within one segment; places without a sample are empty.

    Usually a segment is a line. Where most places would be empty, segments without samples have no line and those with
    many have several.
    """

    segments: int
    segment: np.ndarray  # (lines,): the segment of each line, in order
    width: int  # places in a line
    place: np.ndarray  # (samples,): where each sample stands among all places

    @cached_property
    def direct(self) -> bool:
        """Whether the lines are the segments."""
        return len(self.segment) == self.segments and bool((np.diff(self.segment) == 1).all())

    @cached_property
    def _full(self) -> bool:
        """Whether there is a sample in every place."""
        return len(self.place) == len(self.segment) * self.width

    @cached_property
    def _starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Segments that have lines, and where each one's lines begin."""
        begins = np.concatenate([[0], np.flatnonzero(np.diff(self.segment)) + 1])
        return self.segment[begins], begins

    def of_lines(self, per_segment: np.ndarray) -> np.ndarray:
        """(segments, ...) -> (lines, ...)."""
        return per_segment if self.direct else per_segment[self.segment]

    def by_segment(self, per_line: np.ndarray) -> np.ndarray:
        """(lines, ...) -> (segments, ...): sums over the lines of each segment."""
        if self.direct:
            return per_line
        segments, begins = self._starts
        total = np.zeros((self.segments, *per_line.shape[1:]))
        total[segments] = np.add.reduceat(per_line, begins)
        return total

    def filled(self, per_sample: np.ndarray) -> np.ndarray:
        """(samples, ...) -> (lines, places, ...), zero where there is no sample."""
        shape = (len(self.segment), self.width, *per_sample.shape[1:])
        if self._full:
            return per_sample.reshape(shape)
        everywhere = np.zeros((shape[0] * shape[1], *shape[2:]))
        everywhere[self.place] = per_sample
        return everywhere.reshape(shape)

    def taken(self, everywhere: np.ndarray) -> np.ndarray:
        """(lines, places, ...) -> (samples, ...)."""
        flat = everywhere.reshape(len(self.segment) * self.width, *everywhere.shape[2:])
        return flat if self._full else flat[self.place]


def places(segment: np.ndarray, segments: int) -> Places:
    """Places for samples in these segments (samples,), which are in order."""
    counts = np.bincount(segment, minlength=segments)
    width = int(counts.max())
    if width * segments <= MOST_PLACES * len(segment):
        lines = np.ones(segments, int)
    else:
        held = np.count_nonzero(counts)
        width = -(-len(segment) // held)  # the mean of segments that hold samples, rounded up
        lines = -(-counts // width)
    before = np.cumsum(counts) - counts  # samples of earlier segments
    begin = width * (np.cumsum(lines) - lines)  # the first place of each segment
    place = np.arange(len(segment)) + (begin - before)[segment]
    return Places(segments, np.repeat(np.arange(segments), lines), width, place)
