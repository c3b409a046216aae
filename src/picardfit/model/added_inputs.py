"""Python functions of a model that gets more inputs than they know: covariates, and the rates of infusions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from picardfit.formulas.tracing import NumericMap

INFUSION = "infusion_into_"  # an infused state has an input of this name, followed by its own
SLOPE = "slope of "  # an input that varies has an input of this name besides in models with a clock
INPUT_TIME = (
    "time of the inputs"  # when inputs and slopes have these values; no user can write names with blanks
)


@dataclass(frozen=True)
class FewerInputs:
    """A function f(t, x, p, u) that hands on only the inputs that its map knows."""

    inner: NumericMap

    def __call__(self, t: Any, x: Any, p: Any, u: Any) -> np.ndarray:
        own = np.asarray(u)[: len(self.inner.inputs)]
        return self.inner.at_once(t, np.asarray(x), np.asarray(p), own)


@dataclass(frozen=True)
class Infused:
    """A right-hand side whose `rows` get the last inputs added to them, one each."""

    inner: NumericMap
    rows: tuple[int, ...]

    def __call__(self, t: Any, x: Any, p: Any, u: Any) -> np.ndarray:
        values, inputs = FewerInputs(self.inner)(t, x, p, u), np.asarray(u)
        values[list(self.rows)] += inputs[len(self.inner.inputs) :]
        return values
