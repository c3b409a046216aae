"""Experiments with fewer rows: what data determine in principle hardly depends on the rows of a long recording."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from picardfit.model.inputs import Table
from picardfit.problem.experiment import Experiment, replanned


def thinned(one: Experiment, most: int) -> Experiment:
    """The experiment with at most `most` rows in every input table and `most` samples of every observable."""
    inputs = {
        name: held_extremes(given, most) if isinstance(given, Table) else given
        for name, given in one.inputs.items()
    }
    if any(inputs[name] is not given for name, given in one.inputs.items()):
        one = replace(one, inputs=inputs)
    if one.sampled.sum(axis=0).max(initial=0) <= most:
        return one
    times = {name: _spread(one.times[one.sampled[:, k]], most) for k, name in enumerate(one.observables)}
    return replanned(one, times)


def held_extremes(table: Table, most: int) -> Table:
    """A table of steps in place of one with more than `most` rows: of each block of rows the most unusual value.

    That keeps short pulses and the size of fast oscillations, which means over the blocks would lose.
    """
    if table.kind == "marks" or len(table.times) <= most:
        return table
    first = np.unique(np.linspace(0, len(table.times), most, endpoint=False).astype(int))
    unusual = np.abs(table.values - np.median(table.values))
    blocks = np.split(np.arange(len(table.times)), first[1:])
    chosen = [block[unusual[block].argmax()] for block in blocks]
    times, index = np.unique(table.times[first], return_index=True)
    return Table(times, table.values[chosen][index], "hold")


def _spread(times: np.ndarray, most: int) -> np.ndarray:
    """At most `most` of the times, evenly chosen, the first and the last among them."""
    if len(times) <= most:
        return times
    chosen: np.ndarray = times[np.linspace(0, len(times) - 1, most).round().astype(int)]
    return chosen
