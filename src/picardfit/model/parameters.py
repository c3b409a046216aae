"""Parameters: bounds, scale, start and fixed value of each.

The solvers search in internal coordinates: log(value) for a parameter with `log=True`, its logit between the bounds for
one with `logit=True`, else the value itself (scales.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from picardfit.checks import as_number, check_flag, is_number, name_at_call
from picardfit.errors import InputError, concerning
from picardfit.model.prior_terms import support
from picardfit.model.priors import KINDS, Prior

IN_SECTION = {"parameters": "model.in_parameter", "initial": "model.in_initial"}  # how sentences begin


@dataclass(frozen=True)
class Parameter:
    """What is known about a parameter before the fit.

    `lower`, `upper`: bounds in natural units (None or an infinity: no bound).
    `log`: search in log(value); the value is then positive, and a missing lower bound means the open bound 0.
    `logit`: search in log((value - lower) / (upper - value)), for fractions and probabilities; needs both bounds.
    `start`: the value to start from; `fixed`: the value, not estimated (it wins over `start`).
    `local`: each experiment has its own value.  `unit`: printed, never computed with.
    `prior`: what is known besides the bounds, for example pf.priors.Normal(1.0, 0.2); it needs a noise model.
    `random`: each experiment draws its own value from a normal distribution around a typical one, in the scale of the
    search (natural or log). The bounds are those of the typical value; pf.RandomEffects says more of the distribution.
    `drawn`: random starting points are drawn from this distribution, a prior cut off at the bounds, instead of evenly
    from between the bounds. It changes nothing else.
    """

    lower: float = -inf
    upper: float = inf
    log: bool = False
    start: float | None = None
    fixed: float | None = None
    local: bool = False
    unit: str = ""
    prior: Prior | None = None
    logit: bool = False
    random: bool = False
    drawn: Prior | None = None

    def __post_init__(self) -> None:
        try:
            checked = _checked_fields(self)
        except InputError as error:
            argument, name = name_at_call(2)
            if not name:
                raise
            section = "initial" if argument == "initial" else "parameters"
            raise error.within(IN_SECTION[section], name).at(key=(section, name)) from None
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper) in natural units, within the support of the prior; a log parameter is at least 0."""
        return _allowed(self.lower, self.upper, self.log, self.prior)

    @property
    def range(self) -> tuple[float, float]:
        """Between which values it lies: its bounds, or twice its fixed value."""
        return self.bounds if self.fixed is None else (self.fixed, self.fixed)


def as_parameter(name: str, spec: object, section: str = "parameters") -> Parameter:
    """The Parameter meant by `spec`: a Parameter, a pair (lower, upper), a number (fixed) or None (free).

    `section`: where it was declared, "parameters" or "initial".
    """
    if isinstance(spec, Parameter):
        return spec
    if spec is None:
        return Parameter()
    if is_number(spec):
        return Parameter(fixed=as_number(spec, "fixed value", name))
    if isinstance(spec, np.ndarray):
        spec = spec.tolist()
    if not isinstance(spec, Sequence) or isinstance(spec, (str, bytes)) or len(spec) != 2:
        raise InputError("model.not_a_parameter", name, key=(section, name), value=spec)
    with concerning(IN_SECTION[section], name, key=(section, name)):
        return Parameter(*_checked_bounds(spec[0], spec[1], log=False))


def _checked_fields(one: Parameter) -> dict[str, float]:
    """The numbers of a parameter as floats, or an InputError."""
    check_flag(one.log, "log")
    check_flag(one.logit, "logit")
    check_flag(one.local, "local")
    if one.log and one.logit:
        raise InputError("model.two_scales")
    check_flag(one.random, "random")
    if one.random and one.local:
        raise InputError("model.random_and_local")
    if one.random and one.fixed is not None:
        raise InputError("model.random_and_fixed", value=one.fixed)
    if not isinstance(one.unit, str):
        raise InputError("model.parameter_unit", value=one.unit)
    lower, upper = _checked_bounds(one.lower, one.upper, one.log)
    if one.logit and one.fixed is None and not (isfinite(lower) and isfinite(upper)):
        raise InputError("model.logit_bounds", lower=lower, upper=upper)
    checked = {"lower": lower, "upper": upper}
    for field, what in (("start", "start"), ("fixed", "fixed value")):
        value = getattr(one, field)
        if value is not None:
            checked[field] = _checked_value(value, what, lower, upper, one.log)
    if one.prior is not None:
        _check_prior(one.prior, lower, upper, one.log)
    if one.drawn is not None:
        _check_prior(one.drawn, lower, upper, one.log)
    return checked


def _checked_bounds(lower: object, upper: object, log: bool) -> tuple[float, float]:
    lower = -inf if lower is None else as_number(lower, "lower bound", infinite=True)
    upper = inf if upper is None else as_number(upper, "upper bound", infinite=True)
    if not lower < upper:
        code = "model.bounds_swapped" if lower > upper else "model.bounds_equal"
        raise InputError(code, lower=lower, upper=upper)
    if log and -inf < lower <= 0:
        example = 1e-6 * (upper if 0 < upper < inf else 1)  # hardly restricts
        raise InputError("model.log_lower_bound", lower=lower, upper=upper, example=example)
    if log and upper <= 0:
        raise InputError("model.log_upper_bound", lower=lower, upper=upper)
    return lower, upper


def _checked_value(value: object, what: str, lower: float, upper: float, log: bool) -> float:
    number = as_number(value, what)
    if not lower <= number <= upper:
        raise InputError("model.outside_bounds", what=what, value=number, lower=lower, upper=upper)
    if log and number <= 0:
        raise InputError("model.log_value", what=what, value=number)
    return number


def _check_prior(prior: object, lower: float, upper: float, log: bool) -> None:
    if not isinstance(prior, KINDS):
        meant = type(prior).__name__  # pf.LogNormal, pf.StudentT and pf.Laplace say how measurements scatter
        if meant in {kind.__name__ for kind in KINDS}:
            raise InputError("model.noise_as_prior", meant)
        raise InputError("model.not_a_prior", value=prior)
    low, high = _allowed(lower, upper, log, prior)
    if not low < high:
        (least, most), (low, high) = support(prior), _allowed(lower, upper, log, None)
        raise InputError("model.prior_outside_bounds", least=least, most=most, lower=low, upper=high)


def _allowed(lower: float, upper: float, log: bool, prior: Prior | None) -> tuple[float, float]:
    """The bounds that remain after log and prior."""
    lower = 0.0 if log and lower == -inf else lower
    low, high = (-inf, inf) if prior is None else support(prior)
    return max(lower, low), min(upper, high)
