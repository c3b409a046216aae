"""Noise models: how measurements scatter around the observables, as a user declares it.

A level is a number, a pair (lower, upper) or pf.Parameter (then it is estimated), a formula text in parameters,
states, inputs, observables and t, or a mapping from observables to any of these. An estimated level is a parameter of
the problem and is called `noise.` and its field, and the observable where it belongs to one: `noise.additive`,
`noise.additive.prey`. model/scatter.py binds a declaration to a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import e as EULER

from picardfit.errors import InputError
from picardfit.formulas.grammar import parse
from picardfit.model.parameters import Parameter, as_number, is_number

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
        _check_flag(self.common, "common")
        _check_levels(self, zero=("additive", "proportional"))
        if self.common and is_number(self.proportional) and self.proportional == 0:
            raise InputError(
                "common=True is one factor for all observables of an instant, but its level, proportional, is zero: "
                "give it, for example proportional=0.05, or leave common out."
            )


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
    """y - g over sqrt(additive^2 + (proportional g)^2) has Student's t with `degrees`: outliers hardly matter."""

    additive: Levels = 0.0
    proportional: Levels = 0.0
    degrees: Levels = 4.0

    def __post_init__(self) -> None:
        _check_levels(self, zero=("additive", "proportional"))


@dataclass(frozen=True)
class Laplace:
    """y - g is Laplace with scale `scale` (mean absolute deviation); with `base` log(y) - log(g) is.

    The search rounds the kink of |y - g| off, less and less, at its end within a twenty thousandth of the scale: the
    negative log-likelihood found is then about 1e-4 or less above the smallest. `nllh` is that of the density as it
    is. Fits around a fit, of profiles and bootstraps, round within a two hundredth.
    """

    scale: Levels
    base: float | None = None

    def __post_init__(self) -> None:
        if self.base is not None:
            _check_base(self.base)
        _check_levels(self)


NoiseModel = Noise | LogNormal | StudentT | Laplace
KINDS = (Noise, LogNormal, StudentT, Laplace)


# ---- checks ------------------------------------------------------------------------------------------------


def _check_levels(noise: NoiseModel, zero: tuple[str, ...] = ()) -> None:
    """Every level of a noise model; those in `zero` may be 0, but not all of them."""
    fields = {"additive", "proportional", "sigma", "scale", "degrees"} & set(noise.__dataclass_fields__)
    for field in sorted(fields):
        spec = getattr(noise, field)
        many = spec.values() if isinstance(spec, Mapping) else [spec]
        if isinstance(spec, Mapping) and not spec:
            raise InputError(f"`{field}` is an empty mapping: give a level for every observable.")
        for one in many:
            _check_level(one, field, field in zero)
    if zero and all(is_number(getattr(noise, field)) and getattr(noise, field) == 0 for field in zero):
        raise InputError(
            f"{type(noise).__name__} has neither an additive nor a proportional level: give at least one, "
            f"for example additive=0.1."
        )


def _check_level(spec: object, field: str, zero: bool) -> None:
    if isinstance(spec, str):
        parse(spec, f"Level `{field}`")
    elif isinstance(spec, Parameter):
        if spec.bounds[0] < 0 or (spec.fixed is not None and spec.fixed < 0):
            raise InputError(f"The level `{field}` could be negative: give it a lower bound of 0 or more.")
    elif is_number(spec):
        number = as_number(spec, f"level `{field}`")
        if number < 0 or (number == 0 and not zero):
            raise InputError(f"The level {field} = {number:g} is not positive: give a positive number.")
    elif isinstance(spec, Sequence) and len(spec) == 2:
        low, high = (as_number(one, f"bound of the level `{field}`") for one in spec)
        if not 0 < low < high:
            raise InputError(
                f"The bounds ({low:g}, {high:g}) of the level `{field}` must be positive and ascending: "
                f"write for example {field}=(0.001, 1.0)."
            )
    else:
        raise InputError(
            f"{field} = {spec!r} is not a level: write a number, a pair of bounds to estimate it, a pf.Parameter, "
            f"a formula text, or one of these for each observable."
        )


def _check_flag(value: object, name: str) -> None:
    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r} is not True or False: write {name}=True.")


def _check_base(base: object) -> None:
    if not is_number(base) or base not in BASES:
        raise InputError(f"base = {base!r} is not e, 10 or 2: write base=10, or leave it out.")
