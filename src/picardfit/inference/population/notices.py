"""What a user should know about a population fit: warnings as records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.errors import Notice
from picardfit.inference.population.distribution import Population
from picardfit.inference.population.estimation import Optimum
from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class NoticeSettings:
    """When something is worth a warning."""

    open: float = 1.0  # standard error of the logarithm of a spread from which on data do not determine it
    rival: float = 10.0  # difference of -2 log L up to which another optimum is a rival
    apart: float = 0.1  # difference of a typical value, in its unit, that makes another optimum
    shrunk: float = 0.5  # shrinkage above which individual values say little; usual in the field (Savic 2009)


def notices_of(
    problem: Problem, optimum: Optimum, settings: NoticeSettings = NoticeSettings()
) -> tuple[Notice, ...]:
    """Warnings about spreads, data and modes."""
    population, found = Population(optimum), []
    measurements, names = optimum.at.study.setting.measurements, problem.names
    counts = np.bincount(measurements.owner, minlength=len(names))
    effects = int(sum(one.state != "fixed" or one.sd > 0 for one in population.spreads.values()))
    few = [name for name, count in zip(names, counts, strict=True) if count < effects]
    if few:
        found.append(Notice("inference.fewer_data_than_effects", few[0], {"names": few, "effects": effects}))
    lost = [name for name, done in zip(names, optimum.at.converged, strict=True) if not done]
    if lost:
        found.append(Notice("inference.mode_not_found", lost[0], {"names": lost}))
    found += _rivals(optimum, settings)
    if optimum.hessian is None:
        return tuple(found)
    for name, one in population.spreads.items():
        if one.state == "zero":
            found.append(Notice("inference.no_spread", name))
        elif one.state == "estimated" and not one.log_error < settings.open:
            found.append(Notice("inference.spread_not_determined", name))
    found += [Notice("inference.correlation_of_one", name) for name in population.degenerate]
    if not population.errors.definite:
        found.append(Notice("inference.population_open"))
    return tuple(found)


def _rivals(optimum: Optimum, settings: NoticeSettings) -> list[Notice]:
    """Other optima with about the same or a lower objective."""
    layout, own = optimum.at.study.setting.problem.layout, 2 * optimum.at.value
    names = [layout.names[k] for k in layout.column_parameters]
    found = []
    for one in optimum.rivals:
        objective = 2 * one.value
        apart = np.abs((one.point - optimum.at.point) / optimum.box.unit)[: layout.width].max(initial=0.0)
        if objective < own + settings.rival and apart > settings.apart:
            theta = np.tile(one.point[: layout.width], (len(layout.experiments), 1))
            values = dict(zip(names, layout.natural(theta)[0].tolist(), strict=True))
            said = ", ".join(f"{name} = {value:.3g}" for name, value in values.items() if "." not in name)
            found.append(Notice("inference.population_rival", said, {"objective": objective, "own": own}))
    return found
