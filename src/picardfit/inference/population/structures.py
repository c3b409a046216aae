"""Comparing structures of a population: the likelihood-ratio test of a covariate, a parameter or a random effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

from picardfit.display.hook import shown
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.inference.population.answer import PopulationFit


@shown
@dataclass(frozen=True)
class LikelihoodRatio:
    """Twice the difference of log-likelihoods, and how probable a larger one is if the smaller model is right."""

    statistic: float
    freedom: int  # how many numbers the larger model estimates more
    boundary: bool  # a variance is zero in the smaller model: the distribution is an equal mixture
    p_value: float


def likelihood_ratio(larger: PopulationFit, smaller: PopulationFit) -> LikelihoodRatio:
    """The test of the smaller of two nested models.

    Where the larger one has one random effect more, zero is on the boundary of its variance, and the statistic is
    distributed as an equal mixture of chi-squared with one degree less and with all (Self and Liang 1987).
    """
    for one in (larger, smaller):
        if type(one).__name__ != "PopulationFit":
            raise InputError("inference.ratio_of", value=one)
        if not one.success:
            raise InputError("inference.ratio_of_failed", ended=one.conclusion)
        if one.population.optimum.at.study.penalty is not None:
            raise InputError("inference.ratio_priors")
    same = larger.problem.samples.data.shape == smaller.problem.samples.data.shape and np.array_equal(
        larger.problem.samples.data, smaller.problem.samples.data, equal_nan=True
    )
    if not same:
        raise InputError("inference.ratio_data")
    if larger.marginal != smaller.marginal:
        names = larger.marginal.name, smaller.marginal.name
        raise InputError("inference.ratio_marginal", larger=names[0], smaller=names[1])
    freedom = larger.estimated - smaller.estimated
    if freedom < 1:
        raise InputError("inference.ratio_order", larger=larger.estimated, smaller=smaller.estimated)
    statistic = 2 * (smaller.nllh - larger.nllh)
    boundary = _varying(larger) - _varying(smaller) == 1
    return LikelihoodRatio(statistic, freedom, boundary, _p_value(statistic, freedom, boundary))


def _varying(fit: PopulationFit) -> int:
    """How many effects have a variance that is estimated."""
    return sum(one.state != "fixed" for one in fit.population.spreads.values())


def _p_value(statistic: float, freedom: int, boundary: bool) -> float:
    above = float(chdtrc(freedom, max(statistic, 0.0)))
    if not boundary:
        return above
    fewer = float(chdtrc(freedom - 1, max(statistic, 0.0))) if freedom > 1 else float(statistic <= 0)
    return 0.5 * (above + fewer)
