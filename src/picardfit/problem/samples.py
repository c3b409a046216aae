"""All sampling instants of a problem: times, data in the units of the observables, limits and numbers of trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.model.densities import COUNTS, Shape
from picardfit.model.model import Model
from picardfit.model.scatter import Column, Scatter
from picardfit.problem.censoring import Censoring, censoring
from picardfit.problem.experiment import Experiment, neighbour_noise, runs


@dataclass(frozen=True)
class SeriesStatistics:
    """How variation and noise of a series of samples, one observable of one experiment, are estimated."""

    fewest: int = 8  # samples; the noise of a shorter series is not estimated
    floor: float = 1e-12  # of the variance of the series: less is rounding
    least: float = (
        1e-2  # of the largest value: less variation is not resolved, so that constant data have a scale
    )


@dataclass(frozen=True)
class Samples:
    """All sampling instants of all experiments, in order of experiment and time."""

    times: np.ndarray  # (samples,)
    experiment: np.ndarray  # (samples,)
    data: (
        np.ndarray
    )  # (samples, observables), NaN where not measured; of binomial counts the fraction of successes
    limits: np.ndarray | None = None  # (samples, observables, 2): of censored values, NaN elsewhere
    trials: np.ndarray | None = None  # (samples, observables): of binomial counts
    statistics: SeriesStatistics = SeriesStatistics()

    @cached_property
    def censoring(self) -> Censoring | None:
        """The censored values, if there are any."""
        return None if self.limits is None else censoring(self.limits, self.data, self.experiment)

    @cached_property
    def roughness(self) -> tuple[np.ndarray, np.ndarray, float]:
        """How much the series of samples vary and scatter, without those that have few samples.

        Returns (samples, observables) bool: the samples that count; (samples, observables): 1 / variance of their
        series, else 0; and the expected sum of squares of the noise, from how samples differ from their neighbours.
        """
        weight, noise = np.zeros(self.data.shape), 0.0
        counted = np.zeros(self.data.shape, bool)
        for _, mine in runs(self.experiment):
            for k, column in enumerate(self.data[mine].T):
                measured = np.isfinite(column)
                times, values = self.times[mine][measured], column[measured]
                if len(times) < self.statistics.fewest:
                    continue
                variance = float(np.var(values))
                scatter = float(np.mean(neighbour_noise(times, values) ** 2))
                noise += len(times) * max(scatter, self.statistics.floor * variance)
                counted[mine, k] = measured
                weight[mine, k] = measured / variance if variance > 0 else 0.0
        return counted, weight, noise


def samples_of(model: Model, experiments: Sequence[Experiment], scatter: Scatter | None) -> Samples:
    """The samples of experiments; binomial counts become fractions of successes."""
    times, data = np.concatenate([one.times for one in experiments]), _stacked(model, experiments, "values")
    owner = np.repeat(np.arange(len(experiments)), [len(one.times) for one in experiments])
    censored = any(one.limits is not None for one in experiments)
    limits = _stacked(model, experiments, "limits") if censored else None
    trials = _trials(experiments, () if scatter is None else scatter.columns)
    if trials is not None:
        data = np.where(np.isfinite(trials), data / trials, data)
    return Samples(times, owner, data, limits, trials)


def _stacked(model: Model, experiments: Sequence[Experiment], attribute: str) -> np.ndarray:
    """(samples, observables, ...): values or limits of all experiments, NaN where there are none."""
    blocks = []
    for one in experiments:
        given = getattr(one, attribute)
        given = np.full((*one.values.shape, 2), np.nan) if given is None else given
        block = np.full((len(one.times), len(model.observables), *given.shape[2:]), np.nan)
        for k, name in enumerate(one.observables):
            if name in model.observables:  # else it holds numbers of trials
                block[:, model.observables.index(name)] = given[:, k]
        blocks.append(block)
    return np.concatenate(blocks)


def _trials(experiments: Sequence[Experiment], columns: Sequence[Column]) -> np.ndarray | None:
    """(samples, observables): trials of binomial counts, NaN for other observables; None if there are none.

    An experiment still to be done has the typical number of trials, where a column of the data would hold them.
    """
    if all(column.trials is None for column in columns):
        return None
    blocks = []
    for one in experiments:
        block = np.full((len(one.times), len(columns)), np.nan)
        for k, column in enumerate(columns):
            if isinstance(column.trials, str):
                known = column.trials in one.observables
                block[:, k] = (
                    one.values[:, one.observables.index(column.trials)]
                    if known
                    else typical_trials(experiments, column.trials)
                )
            elif isinstance(column.trials, int):
                block[:, k] = column.trials
        blocks.append(block)
    return np.concatenate(blocks)


def typical_trials(experiments: Sequence[Experiment], name: str) -> float:
    """The median number of trials in a column of the data, 1 where there are none."""
    known = [one.values[:, one.observables.index(name)] for one in experiments if name in one.observables]
    every = np.concatenate([np.zeros(0), *known])
    every = every[np.isfinite(every)]
    return float(np.median(every).round()) if len(every) else 1.0


def sampled_cells(model: Model, experiments: Sequence[Experiment]) -> np.ndarray:
    """(samples, observables) bool: where something was measured, or will be."""
    blocks = []
    for one in experiments:
        block = np.zeros((len(one.times), len(model.observables)), bool)
        for k, name in enumerate(one.observables):
            if name in model.observables:
                block[:, model.observables.index(name)] = one.sampled[:, k]
        blocks.append(block)
    return np.concatenate(blocks)


def nearest_measurements(samples: Samples, columns: Sequence[Column], outputs: np.ndarray) -> np.ndarray:
    """The measurements (samples, observables) that are nearest to outputs: counts are whole numbers."""
    nearest = np.array(outputs, float)
    for k, column in enumerate(columns):
        if column.shape not in COUNTS:
            continue
        trials = np.ones(len(outputs)) if samples.trials is None else samples.trials[:, k]
        if column.shape is Shape.BINOMIAL:
            nearest[:, k] = np.clip(np.round(outputs[:, k] * trials), 0, trials)
        else:
            nearest[:, k] = np.maximum(np.round(outputs[:, k]), 0)
    return nearest
