"""How measurements scatter around the observables: what a user writes, and what it means for a model.

A level is a number, a pair (lower, upper) or pf.Parameter (then it is estimated), a formula text in parameters,
states, inputs, observables and t, or a mapping from observables to any of these. An estimated level is a parameter of
the problem and is called `noise.` and its field, and the observable where it belongs to one: `noise.additive`,
`noise.additive.prey`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import e as EULER

import numpy as np
import sympy

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.formulas.algebra import symbol
from picardfit.formulas.grammar import BatchedMap, names, parse
from picardfit.model.densities import Shape
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter, as_number, is_number
from picardfit.problem.common_noise import CommonNoise
from picardfit.problem.likelihood import Column, Likelihood
from picardfit.problem.measurement import Measurement

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


@dataclass(frozen=True)
class Scatter:
    """A noise model bound to a model: distributions, formulas of the levels, and the parameters these need."""

    columns: tuple[Column, ...]  # one for each observable
    common: bool
    levels: tuple[sympy.Expr, ...]  # rows s (or a), then degrees or v
    parameters: dict[str, Parameter]  # estimated levels
    names: tuple[str, ...]  # other names that the formulas use and the model does not have

    def measurement(self, model: Model, parameters: Sequence[str]) -> Measurement:
        """The map to rows [g | levels], as a function of these parameters (the model's come first)."""
        places = (*_places(model), *model.states)
        levels = BatchedMap(self.levels, states=places, parameters=tuple(parameters), inputs=model.inputs)
        return Measurement(model.output, levels, len(model.parameters))

    def objective(self, data: np.ndarray) -> Likelihood | CommonNoise:
        """The likelihood of data (samples, observables), NaN where not measured."""
        return CommonNoise(data) if self.common else Likelihood(data, self.columns)


def bind(noise: NoiseModel | Mapping[str, NoiseModel], model: Model) -> Scatter:
    """What a noise model, or one for each observable, means for a model."""
    if isinstance(noise, Mapping):
        _check_observables(noise, model, "noise")
        lost = [name for name in model.observables if name not in noise]
        if lost:
            raise InputError(f"`noise` says nothing about `{lost[0]}`: add an entry for every observable.")
        models = [noise[name] for name in model.observables]
        if any(isinstance(one, Noise) and one.common for one in models):
            raise InputError(
                "common=True is one factor for all observables: pass one pf.Noise(..., common=True), no mapping."
            )
    else:
        models = [noise] * len(model.observables)
    for one in models:
        if not isinstance(one, KINDS):
            raise InputError(
                f"noise = {one!r} is not a noise model: write for example pf.Noise(additive=0.1)."
            )
    book = _Book(model, isinstance(noise, Mapping))
    rows = [book.rows(one, k) for k, one in enumerate(models)]
    common = isinstance(noise, Noise) and noise.common
    third = [extra for _, _, extra in rows]
    levels = [level for _, level, _ in rows]
    if any(extra is not None for extra in third):
        levels += [sympy.S.Zero if extra is None else extra for extra in third]
    return Scatter(
        tuple(column for column, _, _ in rows), common, tuple(levels), book.parameters, tuple(book.names)
    )


class _Book:
    """Collects the parameters of the levels while the rows are written."""

    def __init__(self, model: Model, one_each: bool) -> None:
        self.model, self.one_each = model, one_each
        self.parameters: dict[str, Parameter] = {}
        self.names: dict[str, None] = {}
        taken = {*model.parameters, *model.inputs, "t"}
        places = zip(model.observables, _places(model), strict=True)
        self.definitions = {name: symbol(place) for name, place in places if name not in taken}

    def rows(self, noise: NoiseModel, k: int) -> tuple[Column, sympy.Expr, sympy.Expr | None]:
        """Distribution, scale, and a third row where there is one, of observable k."""
        if isinstance(noise, LogNormal):
            return Column(base=noise.base), self.level(noise, "sigma", k), None
        if isinstance(noise, Laplace):
            return Column(Shape.LAPLACE, noise.base), self.level(noise, "scale", k), None
        additive, proportional = (self.level(noise, field, k) for field in ("additive", "proportional"))
        relative = proportional * symbol(_places(self.model)[k])
        if additive == 0 and proportional == 0:
            name = self.model.observables[k]
            raise InputError(
                f"The noise of `{name}` is zero: give a positive additive or proportional level."
            )
        if isinstance(noise, Noise) and noise.common:
            if additive == 0:
                raise InputError("common=True needs an additive level as well: give a positive one.")
            return Column(), additive, relative
        spread = additive if proportional == 0 else sympy.sqrt(additive**2 + relative**2)
        if isinstance(noise, Noise):
            return Column(), spread, None
        degrees = self.level(noise, "degrees", k)
        if degrees.is_number:
            return Column(Shape.STUDENT, degrees=float(degrees)), spread, None
        return Column(Shape.STUDENT), spread, degrees

    def level(self, noise: NoiseModel, field: str, k: int) -> sympy.Expr:
        spec, name = getattr(noise, field), f"noise.{field}"
        observable = self.model.observables[k]
        if isinstance(spec, Mapping):
            _check_observables(spec, self.model, field)
            if observable not in spec:
                raise InputError(f"`{field}` has no level for `{observable}`: add one.")
            spec, name = spec[observable], f"{name}.{observable}"
        elif self.one_each:
            name = f"{name}.{observable}"
        if isinstance(spec, str):
            return self.formula(spec, name)
        if is_number(spec):
            return sympy.Float(float(spec)) if spec else sympy.S.Zero
        parameter = spec if isinstance(spec, Parameter) else Parameter(*map(float, spec), log=True)
        if parameter.fixed is not None:
            return sympy.Float(parameter.fixed) if parameter.fixed else sympy.S.Zero
        self.parameters[name] = parameter
        return symbol(name)

    def formula(self, text: str, name: str) -> sympy.Expr:
        expression = parse(text, f"Level `{name}`", self.definitions)
        model = self.model
        known = {*_places(model), *model.states, *model.inputs, *model.parameters, "t"}
        self.names |= dict.fromkeys(sorted(names(expression) - known))
        return expression


def _places(model: Model) -> tuple[str, ...]:
    """Names under which level formulas hold the values of the observables; no user can write them."""
    return tuple(f"observable {k}" for k in range(len(model.observables)))


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


def _check_observables(given: Mapping, model: Model, what: str) -> None:
    for name in given:
        if name not in model.observables:
            raise InputError(
                f"`{name}` in {what} is not an observable of the model ({listing(model.observables)}): "
                f"rename or remove it." + did_you_mean(str(name), model.observables)
            )


def _check_flag(value: object, name: str) -> None:
    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r} is not True or False: write {name}=True.")


def _check_base(base: object) -> None:
    if not is_number(base) or base not in BASES:
        raise InputError(f"base = {base!r} is not e, 10 or 2: write base=10, or leave it out.")
