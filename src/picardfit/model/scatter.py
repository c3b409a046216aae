"""A noise model bound to a model: the distribution of each observable and the formulas of its noise levels.

A model with observables g has at every sampling instant the rows [g | s] with the standard deviations (or scales) s,
[g | s | degrees] if the degrees of freedom of Student's t are estimated, and [g | a | v] for noise with one factor
per instant, whose covariance is diag(a^2) + v v'. Counts have rows [g | s] too: s is the dispersion of a negative
binomial number, and 1 for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from picardfit.checks import is_number
from picardfit.errors import InputError, Key, closest, concerning
from picardfit.formulas.algebra import names, symbol
from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.model.counts import draw_counts, possible_means
from picardfit.model.densities import COUNTS, Shape, draw
from picardfit.model.measurement import Measurement
from picardfit.model.model import Model
from picardfit.model.noise_models import (
    KINDS,
    Binomial,
    Laplace,
    LogNormal,
    NegativeBinomial,
    Noise,
    NoiseModel,
    Poisson,
    StudentT,
)
from picardfit.model.parameters import Parameter


@dataclass(frozen=True)
class Column:
    """How one observable is distributed around its prediction."""

    shape: Shape = Shape.NORMAL
    base: float | None = None  # residuals are differences of logarithms to this base
    degrees: float | None = None  # of Student's t; None: estimated, in a row of their own
    trials: int | str | None = (
        None  # of a binomial count: a number, or the column of the data that holds them
    )


@dataclass(frozen=True)
class Scatter:
    """A noise model bound to a model: distributions, formulas of the levels, and the parameters these need."""

    observables: tuple[str, ...]
    columns: tuple[Column, ...]  # one for each observable
    common: bool
    levels: tuple[sympy.Expr, ...]  # rows s (or a), then degrees or v
    parameters: dict[str, Parameter]  # estimated levels
    names: dict[
        str, Key
    ]  # other names that the formulas use and the model does not have, and the level of each

    def measurement(self, model: Model, parameters: Sequence[str]) -> Measurement:
        """The map to rows [g | levels], as a function of these parameters (the model's come first)."""
        levels = BatchedMap(self.levels, (*_output_names(model), *model.states), parameters, model.inputs)
        return Measurement(model.output, levels, len(model.parameters))

    @property
    def trials_columns(self) -> tuple[str, ...]:
        """Columns of the data that hold numbers of trials."""
        return tuple(dict.fromkeys(c.trials for c in self.columns if isinstance(c.trials, str)))

    def check_means(self, rows: Array, sampled: np.ndarray | None = None) -> None:
        """InputError where rows [g | levels] have a g that no measurement can scatter around.

        A count has no negative mean, a probability lies between 0 and 1, and a logarithm needs a positive number.
        `sampled` (samples, observables): where something is measured, by default everywhere.
        """
        for k, (name, column) in enumerate(zip(self.observables, self.columns, strict=True)):
            if column.shape in COUNTS:
                wrong = ~possible_means(column.shape, rows[:, k])
            else:
                wrong = (rows[:, k] < 0) & (column.base is not None)
            wrong = wrong if sampled is None else wrong & sampled[:, k]
            if wrong.any():
                code = "model.impossible_share" if column.shape is Shape.BINOMIAL else "model.impossible_mean"
                raise InputError(code, name, key=("noise",), value=float(rows[wrong, k][0]))

    def draw(self, rows: Array, rng: np.random.Generator) -> Array:
        """(samples, observables): measurements drawn at rows [g | levels]; exactly g where a level is 0."""
        count = len(self.columns)
        for name in self.trials_columns:
            raise InputError("model.trials_not_given", name, key=("noise",))
        self.check_means(rows)
        exact, levels = rows[:, :count], rows[:, count : 2 * count]
        with np.errstate(all="ignore"):
            drawn = draw_common(rows, rng) if self.common else draw_independent(self.columns, rows, rng)
        return np.where(levels == 0, exact, drawn)


def bind(noise: NoiseModel | Mapping[str, NoiseModel], model: Model) -> Scatter:
    """What a noise model, or one for each observable, means for a model."""
    if isinstance(noise, Mapping):
        _check_observables(noise, model, ("noise",))
        for name in model.observables:
            if name not in noise:
                raise InputError("model.no_noise_for", name, key=("noise",))
        models = [noise[name] for name in model.observables]
        if any(isinstance(one, Noise) and one.common for one in models):
            raise InputError("model.common_in_mapping", key=("noise",))
    else:
        models = [noise] * len(model.observables)
    for one in models:
        if not isinstance(one, KINDS):
            raise InputError("model.not_a_noise_model", key=("noise",), value=one)
    reader = _LevelReader(model, isinstance(noise, Mapping))
    rows = [reader.rows(one, k) for k, one in enumerate(models)]
    columns, levels = tuple(column for column, _, _ in rows), tuple(level for _, level, _ in rows)
    if any(extra is not None for _, _, extra in rows):
        levels += tuple(sympy.S.Zero if extra is None else extra for _, _, extra in rows)
    common = isinstance(noise, Noise) and noise.common
    return Scatter(model.observables, columns, common, levels, reader.parameters, reader.names)


class _LevelReader:
    """Turns noise levels into expressions, and collects the parameters and other names that these use.

    `one_each`: every observable has its own noise model, so levels are named after observables.
    """

    def __init__(self, model: Model, one_each: bool) -> None:
        self.model, self.one_each = model, one_each
        self.parameters: dict[str, Parameter] = {}
        self.names: dict[str, Key] = {}
        taken = {*model.parameters, *model.inputs, "t"}
        outputs = zip(model.observables, _output_names(model), strict=True)
        self.definitions = {name: symbol(output) for name, output in outputs if name not in taken}

    def rows(self, noise: NoiseModel, k: int) -> tuple[Column, sympy.Expr, sympy.Expr | None]:
        """Of observable k: distribution, row s (or a), and the row of degrees or v where there is one."""
        match noise:
            case LogNormal():
                alone = Column(base=noise.base), self.level(noise, "sigma", k)
            case Laplace():
                alone = Column(Shape.LAPLACE, noise.base), self.level(noise, "scale", k)
            case Poisson():
                alone = Column(Shape.POISSON), sympy.S.One
            case Binomial():
                alone = Column(Shape.BINOMIAL, trials=noise.trials), sympy.S.One
            case NegativeBinomial():
                alone = Column(Shape.NEGATIVE_BINOMIAL), self.level(noise, "dispersion", k)
            case _:
                return self.additive_rows(noise, k)
        return *alone, None

    def additive_rows(self, noise: Noise | StudentT, k: int) -> tuple[Column, sympy.Expr, sympy.Expr | None]:
        """Of observable k with additive and proportional noise."""
        additive, proportional = (self.level(noise, field, k) for field in ("additive", "proportional"))
        relative = proportional * symbol(_output_names(self.model)[k])
        if additive == 0 and proportional == 0:
            raise InputError("model.no_noise", self.model.observables[k], key=("noise",))
        if isinstance(noise, Noise) and noise.common:
            if additive == 0:
                raise InputError("model.common_without_additive", key=("noise",))
            return Column(), additive, relative
        spread = additive if proportional == 0 else sympy.sqrt(additive**2 + relative**2)
        if isinstance(noise, Noise):
            return Column(), spread, None
        degrees = self.level(noise, "degrees", k)
        if degrees.is_number:
            return Column(Shape.STUDENT, degrees=float(degrees)), spread, None
        return Column(Shape.STUDENT), spread, degrees

    def level(self, noise: NoiseModel, field: str, k: int) -> sympy.Expr:
        spec, name, observable = getattr(noise, field), f"noise.{field}", self.model.observables[k]
        key: Key = ("noise", observable, field) if self.one_each else ("noise", field)
        if isinstance(spec, Mapping):
            _check_observables(spec, self.model, key)
            if observable not in spec:
                raise InputError("model.no_level_for", observable, key=key, field=field)
            spec, name, key = spec[observable], f"{name}.{observable}", (*key, observable)
        elif self.one_each:
            name = f"{name}.{observable}"
        if isinstance(spec, str):
            return self.formula(spec, name, key)
        if isinstance(spec, Parameter) and spec.fixed is not None:
            spec = spec.fixed
        if is_number(spec):
            return sympy.Float(float(spec)) if spec else sympy.S.Zero
        pair = not isinstance(spec, Parameter)
        self.parameters[name] = Parameter(float(spec[0]), float(spec[1]), log=True) if pair else spec
        return symbol(name)

    def formula(self, text: str, name: str, key: Key) -> sympy.Expr:
        """The expression of a formula; its names that the model does not have are collected."""
        model = self.model
        with concerning("model.in_level", name, key=key):
            expression = parse(text, self.definitions)
        known = {*_output_names(model), *model.states, *model.inputs, *model.parameters, "t"}
        for other in sorted(names(expression) - known):
            self.names.setdefault(other, key)
        return expression


def _output_names(model: Model) -> tuple[str, ...]:
    """Names of the observables' values in level formulas; they contain a blank, so no user can write them."""
    return tuple(f"observable {k}" for k in range(len(model.observables)))


def _check_observables(given: Mapping[str, object], model: Model, key: Key) -> None:
    known = model.observables
    for name in given:
        if name not in known:
            close = closest(str(name), known)
            raise InputError("model.not_an_observable", name, key=key, what=key[-1], known=known, close=close)


# ---- drawing measurements --------------------------------------------------------------------------------------


def draw_common(rows: Array, rng: np.random.Generator) -> Array:
    """y = g + n v + a m at rows [g | a | v], one standard normal n per instant: (samples, observables)."""
    g, a, v = np.split(rows, 3, axis=1)
    common = rng.standard_normal((len(rows), 1))
    return g + common * v + a * rng.standard_normal(v.shape)


def draw_independent(
    columns: Sequence[Column], rows: Array, rng: np.random.Generator, trials: Array | None = None
) -> Array:
    """y such that (h(y) - h(g)) / s has each column's density, or counts: (samples, observables).

    `rows`: [g | s] or [g | s | degrees]; h is the identity or the logarithm to the column's base. `trials` (samples,
    observables): by default those of the columns.
    """
    count = len(columns)
    if trials is None:
        each = [c.trials if is_number(c.trials) else 0 for c in columns]
        trials = np.broadcast_to(np.array(each, float), (len(rows), count))
    gaps = np.empty((len(rows), count))
    degrees = np.array([np.nan if c.degrees is None else c.degrees for c in columns])
    if rows.shape[1] > 2 * count:
        degrees = np.where(np.isnan(degrees), rows[:, 2 * count :], degrees)
    degrees = np.broadcast_to(degrees, gaps.shape)
    for shape in dict.fromkeys(c.shape for c in columns):
        k = [i for i, c in enumerate(columns) if c.shape is shape]
        if shape in COUNTS:
            level = rows[:, count : 2 * count][:, k]
            gaps[:, k] = draw_counts(shape, rows[:, k], level, trials[:, k], rng)
        else:
            gaps[:, k] = draw(shape, (len(rows), len(k)), degrees[:, k], rng)
    counted = np.array([c.shape in COUNTS for c in columns], bool)
    return np.where(counted, gaps, moved_by(columns, rows, gaps))


def moved_by(columns: Sequence[Column], rows: Array, gaps: Array) -> Array:
    """The data y whose standardised residuals (h(y) - h(g)) / s are these gaps: (samples, observables)."""
    count = len(columns)
    g, s = rows[:, :count], rows[:, count : 2 * count]
    log = np.array([c.base is not None for c in columns], bool)
    unit = np.array([np.log(c.base) if c.base else 1.0 for c in columns])
    with np.errstate(all="ignore"):
        return np.where(log, g * np.exp(unit * s * gaps), g + s * gaps)
