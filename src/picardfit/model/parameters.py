"""Parameters: bounds, scale, start and fixed value of each, and the maps to search coordinates.

The solvers search in internal coordinates: log(value) for a parameter with `log=True`, else the value itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from picardfit.checks import as_number, is_number, name_at_call
from picardfit.errors import InputError
from picardfit.model.priors import KINDS, Prior


@dataclass(frozen=True)
class Parameter:
    """What is known about one parameter before the fit.

    `lower`, `upper`: bounds in natural units (None or an infinity: no bound).
    `log`: search in log(value); the value is then positive, and a missing lower bound means the open bound 0.
    `start`: the value to start from; `fixed`: the value, not estimated (it wins over `start`).
    `local`: each experiment has a value of its own.  `unit`: printed, never computed with.
    `prior`: what is known besides the bounds, for example pf.Normal(1.0, 0.2); it needs a noise model.
    """

    lower: float = -inf
    upper: float = inf
    log: bool = False
    start: float | None = None
    fixed: float | None = None
    local: bool = False
    unit: str = ""
    prior: Prior | None = None

    def __post_init__(self) -> None:
        try:
            checked = _checked_fields(self, "")
        except InputError:
            if not (name := name_at_call(2)):
                raise
            checked = _checked_fields(self, f" of `{name}`")
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper) in natural units where the prior allows; an open lower bound of a log parameter is 0."""
        return _allowed(self.lower, self.upper, self.log, self.prior)


def as_parameter(name: str, spec: object) -> Parameter:
    """The Parameter meant by `spec`: a Parameter, a pair (lower, upper), a number (fixed) or None (free)."""
    if isinstance(spec, Parameter):
        return spec
    if spec is None:
        return Parameter()
    if is_number(spec):
        return Parameter(fixed=as_number(spec, f"fixed value of `{name}`"))
    if isinstance(spec, np.ndarray):
        spec = spec.tolist()
    if not isinstance(spec, Sequence) or isinstance(spec, (str, bytes)) or len(spec) != 2:
        raise InputError(
            f"Parameter `{name}` is given as {spec!r}: write a pair (lower, upper), a number to fix it, "
            f"or pf.Parameter(lower, upper, ...)."
        )
    fix = f'to fix it write "{name.removesuffix("(0)")}": {spec[0]} or use fixed={spec[0]}'
    checked = _checked(spec[0], spec[1], False, None, None, f" of `{name}`", fix)
    return Parameter(checked["lower"], checked["upper"])


def to_internal(values: np.ndarray, log_mask: np.ndarray) -> np.ndarray:
    """log(value) where `log_mask`, else the value; the bounds 0 and -inf of a log parameter become -inf."""
    values = np.asarray(values, dtype=float)
    positive = np.where(log_mask, values, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(log_mask, np.log(np.where(positive == -inf, 0.0, positive)), values)


def to_natural(internal: np.ndarray, log_mask: np.ndarray) -> np.ndarray:
    """exp(internal) where `log_mask`, else the coordinate itself: the inverse of `to_internal`."""
    internal = np.asarray(internal, dtype=float)
    with np.errstate(over="ignore"):
        return np.where(log_mask, np.exp(np.where(log_mask, internal, 0.0)), internal)


def natural_slope(values: np.ndarray, log_mask: np.ndarray) -> np.ndarray:
    """d natural / d internal at the natural `values`: the value itself where `log_mask`, else 1."""
    return np.where(log_mask, np.asarray(values, dtype=float), 1.0)


def _checked_fields(one: Parameter, of: str) -> dict[str, object]:
    """The numbers of a parameter as floats, or an InputError; `of` is ' of `name`' when the name is known."""
    for field in ("log", "local"):
        value = getattr(one, field)
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{field}={value!r}{of} is not True or False: write {field}=True.")
    if not isinstance(one.unit, str):
        raise InputError(f"The unit {one.unit!r}{of} is not text: write for example unit='1/h'.")
    given = (one.lower, one.upper, one.log, one.start, one.fixed)
    checked = _checked(*given, of, f"to fix the value write fixed={one.lower}")
    if one.prior is not None:
        _check_prior(one.prior, checked["lower"], checked["upper"], one.log, of)
    return checked


def _check_prior(prior: object, lower: float, upper: float, log: bool, of: str) -> None:
    if not isinstance(prior, KINDS):
        noise = f"{type(prior).__name__}Prior"  # pf.LogNormal and pf.Laplace say how measurements scatter
        if noise in {kind.__name__ for kind in KINDS}:
            raise InputError(
                f"pf.{type(prior).__name__} is a noise model: the prior{of} is called pf.{noise}."
            )
        raise InputError(f"The prior {prior!r}{of} is not understood: write for example pf.Normal(1.0, 0.2).")
    low, high = _allowed(lower, upper, log, prior)
    if not low < high:
        raise InputError(
            f"The prior {prior}{of} leaves nothing of the bounds [{lower:g}, {upper:g}]: correct one of them."
        )


def _allowed(lower: float, upper: float, log: bool, prior: Prior | None) -> tuple[float, float]:
    """The bounds where log and prior allow."""
    lower = 0.0 if log and lower == -inf else lower
    low, high = (-inf, inf) if prior is None else prior.support
    return max(lower, low), min(upper, high)


def _checked(
    lower: object, upper: object, log: bool, start: object, fixed: object, of: str, fix: str
) -> dict[str, object]:
    """The numbers as floats, or an InputError; `of` is ' of `name`' when the name is known.

    `fix`: how to write a fixed value, shown when the bounds are equal.
    """
    lower = -inf if lower is None else as_number(lower, f"lower bound{of}", infinite=True)
    upper = inf if upper is None else as_number(upper, f"upper bound{of}", infinite=True)
    if not lower < upper:
        remedy = "swap them" if lower > upper else fix
        raise InputError(f"The lower bound {lower:g}{of} is not below the upper bound {upper:g}: {remedy}.")
    which = of or f" of a parameter with bounds [{lower:g}, {upper:g}]"
    if log and -inf < lower <= 0:
        raise InputError(
            f"The lower bound {lower:g}{which} is not positive, but log=True needs a positive one: write for example "
            f"{1e-6 * upper if 0 < upper < inf else 1e-6:g}, or leave log=True out."
        )
    if log and upper <= 0:
        raise InputError(
            f"The upper bound {upper:g}{which} is not positive, but log=True needs a positive one: "
            f"raise it or leave log=True out."
        )
    numbers: dict[str, object] = {"lower": lower, "upper": upper}
    for field, value, words in (("start", start, f"start{of}"), ("fixed", fixed, f"fixed value{of}")):
        if value is None:
            continue
        number = as_number(value, words)
        if not lower <= number <= upper:
            raise InputError(
                f"The {words} is {number:g}, outside the bounds [{lower:g}, {upper:g}]: "
                f"move it inside or widen the bounds."
            )
        if log and number <= 0:
            raise InputError(
                f"The {words} is {number:g}, but log=True needs a positive value: leave log=True out."
            )
        numbers[field] = number
    return numbers
