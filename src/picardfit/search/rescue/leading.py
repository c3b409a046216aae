"""Candidates are fitted to the first samples of every experiment before they are fitted to all of them.

A simulated path of an oscillator that has the wrong period is as far from the data as one that does not oscillate at
all, and no slope leads from the one to the other. Over a part of the first period there is one, and the next part of
the data is only a little ahead of a path that follows the first one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from picardfit.problem.problem import Problem
from picardfit.search.rescue.settings import Lead, Rescue
from picardfit.search.rescue.shooting import advance, begin


def led(problem: Problem, many_unknowns: np.ndarray, settings: Rescue) -> Iterator[np.ndarray]:
    """Yield candidates (candidates, experiments, width) after every step downhill on more and more of the samples.

    All take their steps side by side. The order of the candidates changes.
    """
    lead = settings.lead or Lead()
    for part in lead.parts:
        begun = first_samples(problem, part, lead.samples)
        runners = begin(begun, many_unknowns, settings.tolerance, settings)
        ended = runners[:0]
        for _ in range(lead.steps):
            ended += runners[runners.ended]
            runners = advance(begun, runners[~runners.ended], settings.tolerance, settings.little, settings)
            many_unknowns = (ended + runners).many_unknowns
            yield many_unknowns


def first_samples(problem: Problem, part: float, least: int) -> Problem:
    """The problem with the first samples of every experiment only: this part of its sampling times."""
    samples = problem.samples
    data = samples.data.copy()
    for e in range(len(problem.experiments)):
        mine = samples.experiment == e
        times = np.unique(samples.times[mine])
        kept = max(int(np.ceil(part * len(times))), least)
        if kept < len(times):
            data[mine & (samples.times > times[kept - 1])] = np.nan
    return problem.with_data(data)
