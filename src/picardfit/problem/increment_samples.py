"""Increments of a problem at its samples: when running states are set back to zero, and what they are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from picardfit.model.model import Model
from picardfit.problem.experiment import Experiment


@dataclass(frozen=True)
class IncrementSamples:
    """The samples of the increments of a model (model/increments.py)."""

    states: int  # of the model; the running states come after them
    resets: tuple[
        tuple[np.ndarray, ...], ...
    ]  # per experiment and increment: times at which it is set back to zero
    before: (
        np.ndarray
    )  # (samples, increments): the last earlier sample of an increment in the experiment, or -1

    def since_last_sample(self, states: np.ndarray, axis: int = 0) -> np.ndarray:
        """States (..., samples, states, ...) whose running states have run since t0, with these since the last sample.

        `axis` is that of the samples. Derivatives of states have the same rule.
        """
        first = np.moveaxis(np.array(states, float), axis, 0)
        own = np.moveaxis(first, axis + 1, 1)  # (samples, states, ...), a view
        for k, before in enumerate(self.before.T):
            there = (before >= 0).reshape(-1, *(1,) * (own.ndim - 2))
            own[:, self.states + k] = own[:, self.states + k] - np.where(
                there, own[before, self.states + k], 0.0
            )
        return np.moveaxis(first, 0, axis)

    def restarted(
        self, experiment: int, times: np.ndarray, curve: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """(times, states): a `curve` whose running states have run since t0, with these since their resets."""
        states = np.array(curve(times), float)
        for k, at in enumerate(self.resets[experiment]):
            if len(at):
                last = np.searchsorted(at, times, side="right") - 1
                states[:, self.states + k] -= np.where(last >= 0, curve(at)[last, self.states + k], 0.0)
        return states


def increment_samples(model: Model, experiments: Sequence[Experiment]) -> IncrementSamples | None:
    """The samples of the increments in experiments; None if the model has no increments."""
    if not model.increments:
        return None
    resets, before, first = [], [], 0
    for one in experiments:
        measured = [
            np.flatnonzero(one.counted[:, one.observables.index(name)])
            if name in one.observables
            else np.zeros(0, int)
            for name in model.increments
        ]
        own = [np.unique(one.times[rows]) for rows in measured]
        resets.append(tuple(times[(times > one.t0) & (times < one.times[-1])] for times in own))
        block = np.full((len(one.times), len(measured)), -1)
        for k, rows in enumerate(measured):
            last = np.searchsorted(one.times[rows], one.times, side="left") - 1
            block[:, k] = np.where(last >= 0, first + rows[last], -1) if len(rows) else -1
        before.append(block)
        first += len(one.times)
    return IncrementSamples(len(model.states), tuple(resets), np.concatenate(before))
