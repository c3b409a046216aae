"""Expected information on a population's parameters from individuals that are still to be measured.

With predictions that are linear in the effects around the typical values (Mentre, Mallet and Baccar, Biometrika 84:429,
1997), the measurements of an individual are normal with the mean f and the covariance V = G Omega G' + diag(s^2), and

    M = f_a' V^-1 f_b + 1/2 trace(V^-1 V_a V^-1 V_b)

for typical values, noise levels and coordinates of Omega; V changes with these through s and Omega, and G counts as
constant. Coordinates are relative: a standard error of 0.1 is 10 % of a typical value or of a spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from picardfit.errors import InputError, closest
from picardfit.formulas.kernels import Array
from picardfit.inference.design_information import DesignSettings, Stage
from picardfit.inference.population.modes import paths_at
from picardfit.inference.population.predictions import measurements_of, predict
from picardfit.inference.population.simulation import Distribution
from picardfit.problem.experiment import Experiment

if TYPE_CHECKING:
    from picardfit.inference.population.answer import PopulationFit


def population_stage(
    fit: PopulationFit,
    done: Sequence[Experiment],
    offered: Sequence[Experiment],
    interest: Sequence[str] | None,
    settings: DesignSettings,
) -> tuple[list[str], Stage]:
    """The names that count, and the information of the individuals that were measured and of those offered."""
    source = fit.population.distribution
    found = information(source, [*done, *offered])
    unit, rows = _relative(fit)
    found = found * unit[:, None] * unit
    base = found[: len(done)].sum(axis=0) + np.eye(len(unit)) / settings.prior_error**2
    chosen = _of_interest(list(rows), interest)
    wanted = np.array([rows[name] for name in chosen])
    return chosen, Stage(base, found[len(done) :], wanted, wanted)


def information(source: Distribution, experiments: Sequence[Experiment]) -> Array:
    """(experiments, outer, outer): expected information of an individual with each of these designs."""
    own = source.study.setting
    problem = own.problem.with_experiments([_as_measured(one) for one in experiments])
    m = measurements_of(problem)
    setting = replace(own, problem=problem, measurements=m)
    typical = setting.unknowns(source.theta, np.zeros((len(experiments), own.effects)))
    paths = paths_at(setting, typical, None)
    if paths.failed.any():
        bad = [problem.names[k] for k in np.flatnonzero(paths.failed)]
        raise InputError("inference.no_solution_at_values", names=bad)
    found, slopes = predict(m, paths), source.covariance_slopes
    return np.array(
        [
            _information(found.rows[mine], found.first[mine], source.covariance, slopes)
            for mine in (np.flatnonzero(m.owner == k) for k in range(len(experiments)))
        ]
    )


def _information(rows: Array, first: Array, covariance: Array, slopes: Array) -> Array:
    """(outer, outer) from (m, s) of one individual (n, 2), and their derivatives by theta (n, 2, width)."""
    g, width = first[:, 0, : len(covariance)], first.shape[2]
    spread = g @ covariance @ g.T + np.diag(rows[:, 1] ** 2)
    inverse = np.linalg.inv(spread)
    levels = 2 * rows[:, 1, None] * first[:, 1]  # (n, width): derivatives of s^2
    changes = np.concatenate([np.einsum("na,nk->ank", levels, np.eye(len(rows))), g @ slopes @ g.T])
    turned = inverse @ changes
    found = 0.5 * np.einsum("ank,bkn->ab", turned, turned)
    found[:width, :width] += first[:, 0].T @ inverse @ first[:, 0]
    return np.asarray(found)


def _as_measured(one: Experiment) -> Experiment:
    """A planned experiment with a number wherever it will be measured; the information does not depend on it."""
    filled = {
        name: np.where(one.sampled[:, k], 1.0, np.nan).tolist() for k, name in enumerate(one.observables)
    }
    return replace(one, observations=filled, planned=None, lines=None)


def _relative(fit: PopulationFit) -> tuple[Array, dict[str, Array]]:
    """Units (outer,) in which coordinates are relative, and the rows of the names that errors are given of."""
    study, population = fit.population.optimum.at.study, fit.population
    layout, theta = study.setting.problem.layout, fit.population.distribution.theta
    typical = np.tile(theta, (len(layout.experiments), 1))
    natural, slopes = layout.natural(typical)[0], layout.slopes(typical)[0]
    own = np.where(natural != 0, np.abs(natural), 1.0) / slopes
    coordinates = study.split(population.optimum.at.point)[1]
    changes = population.distribution.covariance_slopes
    unit = np.concatenate([np.abs(own), np.ones(len(coordinates))])
    names = [layout.names[k] for k in layout.column_parameters]
    rows = dict(zip(names, np.eye(len(unit)), strict=False))
    for k, (name, one) in enumerate(population.spreads.items()):
        if one.state == "estimated":
            row = np.zeros(len(unit))
            row[len(theta) :] = changes[:, k, k] / (2 * one.sd**2)
            rows[f"sd({name})"] = row
    return unit, rows


def _of_interest(known: list[str], given: Sequence[str] | None) -> list[str]:
    if given is None:
        return known
    if isinstance(given, str) or not list(given):
        raise InputError("inference.interest", value=given)
    for name in given:
        if name not in known:
            close = closest(str(name), known)
            raise InputError("inference.interest_unknown", str(name), known=known, close=close)
    return list(given)
