"""Simulated measurements of a population: effects drawn from their distribution, then noise.

Checks of a fit simulate the study many times with its own doses, times and covariates. A new population draws these
from the data, or from designs that a user gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from picardfit.checks import as_whole
from picardfit.display.hook import shown
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.inference.population.at_values import root_of
from picardfit.inference.population.modes import Setting
from picardfit.inference.population.objective import Study
from picardfit.inference.population.paths import Paths, new_paths, sampled_states
from picardfit.model.scatter import draw_independent
from picardfit.problem.experiment import Experiment
from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class SimulationSettings:
    """How simulations are computed; the values are chosen."""

    together: int = 400  # individuals in one batch, which bounds memory
    resolved: float = 1e-3  # of PathSettings: errors at samples are a thousandth of it, far below the noise
    usable: float = 0.5  # least part of the simulations that must have a solution


@dataclass(frozen=True, eq=False)
class Distribution:
    """Typical values and the covariance of the effects, which may be singular."""

    study: Study
    theta: Array  # (width,)
    covariance: Array  # (effects, effects)
    covariance_slopes: Array  # (coordinates, effects, effects): its derivatives by the estimated coordinates

    def unknowns(self, count: int, rng: np.random.Generator) -> Array:
        """(count, width): the unknowns of new individuals."""
        root = root_of(self.covariance, self.study.covariance.names)
        eta = rng.standard_normal((count, self.study.setting.effects)) @ root.T
        return self.study.setting.unknowns(self.theta, eta)


@shown
@dataclass(frozen=True, eq=False)
class SimulatedPopulation:
    """New individuals with simulated measurements."""

    experiments: tuple[Experiment, ...] = field(repr=False)
    individuals: pd.DataFrame  # the values of the random parameters of each, in natural units
    designs: tuple[str, ...] = field(repr=False)  # whose doses, times and covariates each of them has

    def to_frame(self) -> pd.DataFrame:
        """A long table: individual, time, observable, value; censored values as text."""
        rows = [
            (one.name, float(time), name, value)
            for one in self.experiments
            for name, values in one.observations.items()
            for time, value, there in zip(
                one.times, values, one.sampled[:, one.observables.index(name)], strict=True
            )
            if there
        ]
        return pd.DataFrame(rows, columns=["individual", "time", "observable", "value"])


def simulated_studies(
    source: Distribution,
    count: int,
    rng: np.random.Generator,
    settings: SimulationSettings = SimulationSettings(),
) -> Array:
    """(count, measurements): the study simulated again, in natural units; NaN where there is no solution."""
    own = source.study.setting
    individuals, measurements = len(own.problem.experiments), own.measurements
    copies = int(np.clip(settings.together // individuals, 1, count))
    problem = _copied(own.problem, copies)
    chosen = [measurements.sample + k * len(own.problem.samples.times) for k in range(copies)]
    sample, output = np.concatenate(chosen), np.tile(measurements.output, copies)
    found: list[Array] = []
    paths: Paths | None = None
    for _ in range(-(-count // copies)):
        unknowns = source.unknowns(copies * individuals, rng)
        paths = _paths(problem, unknowns, own, settings, paths)
        drawn = _measured(paths, rng)
        found.append(drawn[sample, output].reshape(copies, -1))
    every = np.concatenate(found)[:count]
    if np.isfinite(every).all(axis=1).sum() < settings.usable * count:
        raise InputError("inference.simulations_failed", count=count)
    return every


def simulate_population(
    source: Distribution,
    n: object,
    seed: int = 0,
    designs: Iterable[Experiment] | Experiment | None = None,
    settings: SimulationSettings = SimulationSettings(),
) -> SimulatedPopulation:
    """`n` new individuals, each with the design of one that is drawn from `designs`, by default from the data."""
    count, own = as_whole(n, "n", 1), source.study.setting
    given = list(own.problem.experiments)
    if designs is not None:
        given = list(designs) if isinstance(designs, Iterable) else [designs]
    if not given or not all(isinstance(one, Experiment) for one in given):
        raise InputError("inference.simulate_designs")
    rng = np.random.default_rng(seed)
    picked = rng.integers(len(given), size=count)
    experiments = [replace(given[k], name=str(i), lines=None) for i, k in enumerate(picked, 1)]
    problem, unknowns = own.problem.with_experiments(experiments), source.unknowns(count, rng)
    drawn = _measured(_paths(problem, unknowns, own, settings, None), rng)
    planned = np.concatenate([_planned(problem, one) for one in experiments])
    if not np.isfinite(drawn[planned]).all():
        raise InputError("inference.simulations_failed", count=count)
    renewed = problem.with_data(np.where(planned, drawn, np.nan)).experiments
    values = problem.layout.natural(unknowns)[:, : own.effects]
    table = pd.DataFrame(
        values, index=[one.name for one in renewed], columns=list(source.study.covariance.names)
    )
    return SimulatedPopulation(tuple(renewed), table, tuple(given[k].name for k in picked))


def _copied(problem: Problem, copies: int) -> Problem:
    """The problem with every individual `copies` times: all of them, then all again."""
    if copies == 1:
        return problem
    every = [
        replace(one, name=f"{one.name} {k}", lines=None) for k in range(copies) for one in problem.experiments
    ]
    return problem.with_experiments(every)


def _planned(problem: Problem, one: Experiment) -> np.ndarray:
    """(samples, observables) bool: what of the model's observables is measured in an experiment."""
    found = np.zeros((len(one.times), len(problem.model.observables)), bool)
    for k, name in enumerate(problem.model.observables):
        if name in one.observables:
            found[:, k] = one.sampled[:, one.observables.index(name)]
    return found


def _paths(
    problem: Problem, unknowns: Array, own: Setting, settings: SimulationSettings, near: Paths | None
) -> Paths:
    """Paths at these unknowns; meshes of earlier ones are kept, and refined where that is needed."""
    mesh = None if near is None else near.system.mesh
    return new_paths(problem, unknowns, replace(own.paths, resolved=settings.resolved), mesh)


def _measured(paths: Paths, rng: np.random.Generator) -> Array:
    """(samples, observables): measurements drawn around the paths; NaN without a path."""
    problem = paths.system.problem
    assert problem.scatter is not None
    owner = problem.samples.experiment
    params = problem.layout.measured_values(paths.unknowns)[owner]
    with np.errstate(all="ignore"):
        rows = problem.measurement_at_samples.value(
            problem.samples.times, sampled_states(paths), params, paths.system.sample_inputs
        )
        drawn = draw_independent(problem.scatter.columns, rows, rng)
    return np.where(paths.failed[owner][:, None], np.nan, drawn)
