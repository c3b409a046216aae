"""Noise models: how measurements scatter around the observables, as a user declares it.

A level is a number, a pair (lower, upper) or pf.Parameter (then it is estimated), a formula text in parameters,
states, inputs, observables and t, or a mapping from observables to any of these. An estimated level is a parameter of
the problem and is called `noise.` and its field, and the observable where it belongs to one: `noise.additive`,
`noise.additive.prey`. model/scatter.py binds a declaration to a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import e as EULER

from picardfit.checks import as_number, as_whole, check_flag, is_number
from picardfit.errors import InputError, concerning
from picardfit.formulas.grammar import parse
from picardfit.model.parameters import Parameter

BASES = (EULER, 10, 2)  # of logarithms
Level = float | tuple[float, float] | Parameter | str
Levels = Level | Mapping[str, Level]


@dataclass(frozen=True)
class Noise:
    """Normal noise y = (1 + n) g + m: variance additive^2 + (proportional g)^2.

    `common=True`: one n per sampling instant for all observables (the paper's noise), covariance
    additive^2 I + proportional^2 g g'. A formula given as `additive` is the whole standard deviation unless
    `proportional` is given too.
    """

    additive: Levels = 0.0
    proportional: Levels = 0.0
    common: bool = False

    def __post_init__(self) -> None:
        check_flag(self.common, "common")
        _check_levels(self, zero=("additive", "proportional"))
        if self.common and is_number(self.proportional) and self.proportional == 0:
            raise InputError("model.common_without_level", key=("noise",))


@dataclass(frozen=True)
class LogNormal:
    """log(y) is normal around log(g) with standard deviation `sigma`; `base` of the logarithm e, 10 or 2."""

    sigma: Levels
    base: float = EULER

    def __post_init__(self) -> None:
        _check_base(self.base)
        _check_levels(self)


@dataclass(frozen=True)
class StudentT:
    """Student's t noise: y - g over sqrt(additive^2 + (proportional g)^2) has `degrees` of freedom.

    Its tails are heavy, so that outliers hardly matter.
    """

    additive: Levels = 0.0
    proportional: Levels = 0.0
    degrees: Levels = 4.0

    def __post_init__(self) -> None:
        _check_levels(self, zero=("additive", "proportional"))


@dataclass(frozen=True)
class Laplace:
    """y - g is Laplace with scale `scale` (mean absolute deviation); with `base` log(y) - log(g) is.

    The search rounds the kink of |y - g|, in the end within a twenty-thousandth of the scale, so that the negative
    log-likelihood it finds is at most about 1e-4 above the smallest one. `nllh` is that of the exact density. Fits for
    profiles and bootstraps round within a two-hundredth of the scale.
    """

    scale: Levels
    base: float | None = None

    def __post_init__(self) -> None:
        if self.base is not None:
            _check_base(self.base)
        _check_levels(self)


@dataclass(frozen=True)
class Poisson:
    """Counts y with expectation g, which is also their variance."""


@dataclass(frozen=True)
class NegativeBinomial:
    """Counts y with expectation g and variance g + g^2 / dispersion: Poisson counts for a large dispersion."""

    dispersion: Levels

    def __post_init__(self) -> None:
        _check_levels(self)


@dataclass(frozen=True)
class Binomial:
    """y successes in a number of trials, each with probability g.

    `trials`: a whole number, or the name of the column of the data that holds one for every sample.
    """

    trials: int | str

    def __post_init__(self) -> None:
        if isinstance(self.trials, str) and self.trials.strip():
            return
        as_whole(self.trials, "trials", 1)


NoiseModel = Noise | LogNormal | StudentT | Laplace | Poisson | NegativeBinomial | Binomial
KINDS = (Noise, LogNormal, StudentT, Laplace, Poisson, NegativeBinomial, Binomial)


# ---- checks ------------------------------------------------------------------------------------------------


def _check_levels(noise: NoiseModel, zero: tuple[str, ...] = ()) -> None:
    """Check every level of a noise model; those in `zero` may be 0, but not all of them."""
    for one in fields(noise):
        if one.name in ("base", "common"):
            continue
        spec = getattr(noise, one.name)
        if isinstance(spec, Mapping) and not spec:
            raise InputError("model.no_levels", one.name, key=("noise", one.name))
        for level in spec.values() if isinstance(spec, Mapping) else [spec]:
            _check_level(level, one.name, one.name in zero)
    if zero and all(is_number(level := getattr(noise, name)) and level == 0 for name in zero):
        raise InputError("model.neither_level", key=("noise",))


def _check_level(spec: object, field: str, zero: bool) -> None:
    key = ("noise", field)
    if isinstance(spec, str):
        with concerning("model.in_level", field, key=key):
            parse(spec)
    elif isinstance(spec, Parameter):
        if spec.bounds[0] < 0 or (spec.fixed is not None and spec.fixed < 0):
            raise InputError("model.level_may_be_negative", field, key=key)
    elif is_number(spec):
        number = as_number(spec, "level", field)
        if number < 0 or (number == 0 and not zero):
            raise InputError("model.level_not_positive", field, key=key, value=number)
    elif isinstance(spec, Sequence) and len(spec) == 2:
        low, high = (as_number(one, "bound", field) for one in spec)
        if not 0 < low < high:
            raise InputError("model.level_bounds", field, key=key, low=low, high=high)
    else:
        raise InputError("model.not_a_level", field, key=key, value=spec)


def _check_base(base: object) -> None:
    if not is_number(base) or base not in BASES:
        raise InputError("model.not_a_base", key=("noise", "base"), value=base)
