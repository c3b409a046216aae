"""Rows of the parameter table -> Parameter with its prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import e as EULER
from math import hypot, inf, isclose, log

import numpy as np

from picardfit.errors import InputError, closest
from picardfit.importers.petab.tables import ParameterRow
from picardfit.model import priors
from picardfit.model.parameters import Parameter
from picardfit.model.prior_terms import density_of_value, support
from picardfit.model.priors import Prior

BASES = {"lin": None, "log": EULER, "log10": 10.0}
PRIORS: Mapping[str, tuple[int, Callable[..., Prior]]] = {  # how many numbers, and what they make
    "uniform": (2, priors.Uniform),
    "normal": (2, priors.Normal),
    "laplace": (2, priors.Laplace),
    "logNormal": (2, priors.LogNormal),
    "logLaplace": (2, priors.LogLaplace),
    "parameterScaleUniform": (2, priors.Uniform),
    "parameterScaleNormal": (2, priors.Normal),
    "parameterScaleLaplace": (2, priors.Laplace),
    # those below are of version 2, which gives scales and not rates
    "logUniform": (2, priors.LogUniform),
    "cauchy": (2, priors.Cauchy),
    "gamma": (2, lambda shape, scale: priors.Gamma(shape, _rate(scale))),
    "exponential": (1, lambda scale: priors.Exponential(_rate(scale))),
    "chiSquared": (1, lambda degrees: priors.Gamma(degrees / 2, 0.5)),
    "rayleigh": (1, priors.Rayleigh),
}


def as_parameter(row: ParameterRow, idle: bool) -> Parameter:
    """A parameter of the table; one that acts on nothing is kept at its nominal value."""
    try:
        if not row.estimated or idle or row.stuck_at_zero:
            return Parameter(fixed=row.lower if row.nominal is None else row.nominal)
        prior = prior_of(row, row.prior, row.prior_parameters, "objective")
        drawn = prior
        if row.start_prior:
            drawn = prior_of(row, row.start_prior, row.start_parameters, "initialization")
        elif not row.one_prior:
            drawn = None
        log_search = row.log and not (row.nominal is not None and row.nominal <= 0)
        return Parameter(row.lower, row.upper, log=log_search, prior=prior, drawn=drawn)
    except InputError as error:
        raise row.source.at(error.within("importers.in_parameter", row.name)) from None


def log_prior(row: ParameterRow, value: float) -> float:
    """The logarithm of the density of an estimated parameter by its value, between its bounds."""
    if not row.lower <= value <= row.upper:
        return -inf
    prior = prior_of(row, row.prior, row.prior_parameters, "objective")
    if prior is None:
        wide = row.upper - row.lower
        if row.scale == "lin":
            return -log(wide) if wide < inf else 0.0
        return -log(log(row.upper / row.lower) * value)
    least, most = support(prior)
    inside = float(np.clip(value, least, most))  # rounding may put an end of the support beside it
    if not isclose(inside, value, rel_tol=1e-12):
        return -inf
    with np.errstate(divide="ignore"):
        found = float(np.log(density_of_value(prior, row.lower, row.upper, np.array([inside]))[0]))
    if isinstance(prior, priors.Laplace | priors.LogLaplace):  # without the rounding of its kink
        x = value if prior.base is None else log(value) / log(prior.base)
        gap, rounding = abs(x - prior.mean) / prior.scale, priors.Laplace.rounding
        found += hypot(gap, rounding) - rounding - gap
    return found


def _rate(scale: float) -> float:
    if not scale > 0:
        raise InputError("model.prior_not_positive", field="scale", value=scale)
    return 1 / scale


def prior_of(row: ParameterRow, kind: str, numbers: tuple[float, ...], column: str) -> Prior | None:
    """A prior of the table; `parameterScaleUniform` over the bounds is none."""
    if not kind:
        return None
    if kind not in PRIORS:
        close = closest(kind, PRIORS)
        raise InputError("importers.unknown_word", f"{column}PriorType", word=kind, known=PRIORS, close=close)
    if kind == "parameterScaleUniform" and not numbers:
        return None
    count, make = PRIORS[kind]
    if len(numbers) != count:
        where = "priorParameters" if row.one_prior else f"{column}PriorParameters"
        example = ";".join(["1", "2"][:count])
        raise InputError("importers.prior_numbers_missing", where, count=count, example=example)
    based = {"base": BASES[row.scale]} if kind.startswith("parameterScale") else {}
    return make(*numbers, **based)
