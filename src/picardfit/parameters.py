"""Parameters: bounds, scale, start and fixed value of each, and the maps to search coordinates.

The solvers search in internal coordinates: log(value) for a parameter with `log=True`, else the value itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from picardfit.errors import InputError
from picardfit.numbers import as_number, is_number
from picardfit.priors import KINDS, Prior


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
        for field in ("log", "local"):
            if not isinstance(getattr(self, field), (bool, np.bool_)):
                raise InputError(
                    f"{field}={getattr(self, field)!r} is not True or False: write {field}=True."
                )
        given = (self.lower, self.upper, self.log, self.start, self.fixed)
        for field, value in _checked(*given, "", "to fix a value write fixed=...").items():
            object.__setattr__(self, field, value)
        if not isinstance(self.unit, str):
            raise InputError(f"The unit {self.unit!r} is not text: write for example unit='1/h'.")
        if self.prior is not None:
            self._check_prior()

    def _check_prior(self) -> None:
        if not isinstance(self.prior, KINDS):
            raise InputError(
                f"The prior {self.prior!r} is not understood: write for example pf.Normal(1.0, 0.2)."
            )
        lower, upper = self.bounds
        if not lower < upper:
            raise InputError(
                f"The prior {self.prior} leaves nothing of the bounds [{self.lower:g}, {self.upper:g}]: "
                f"correct one of them."
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper) in natural units where the prior allows; an open lower bound of a log parameter is 0."""
        lower, upper = (0.0 if self.log and self.lower == -inf else self.lower), self.upper
        if self.prior is not None:
            low, high = self.prior.support
            lower, upper = max(lower, low), min(upper, high)
        return lower, upper


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
