"""Scales: how the search sees a number, as itself, as its logarithm or as its logit between two bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LogitSettings:
    """Where the logit scale ends."""

    # part of the distance between the bounds at which it ends (chosen): nearer than data tell apart, and steps to a
    # bound stay finite
    edge: float = 1e-9
    # how far such an unknown may reasonably move: the distance between the bounds by the slope in the middle
    size: float = 4.0

    @property
    def end(self) -> float:
        """The logit of the upper bound; that of the lower one is its negative."""
        return float(np.log1p(-self.edge) - np.log(self.edge))


LOGIT = LogitSettings()


@dataclass(frozen=True)
class Scales:
    """The scales of several numbers, as arrays of one shape.

    The logit u of a value v between the bounds l and h is log(s / (1 - s)), where s grows with v in a straight line,
    from `edge` at l to 1 - `edge` at h: both bounds have a finite logit, and are reached.
    """

    log: np.ndarray  # bool
    low: np.ndarray  # bounds of the logit, NaN where there is none
    high: np.ndarray

    @staticmethod
    def of(log: Any, logit: Any = False, low: Any = np.nan, high: Any = np.nan) -> Scales:
        """Scales from flags and bounds; bounds count where `logit` is set."""
        log, logit = np.asarray(log, bool), np.asarray(logit, bool)
        low, high = (np.where(logit, np.asarray(end, float), np.nan) for end in (low, high))
        return Scales(*np.broadcast_arrays(log, low, high))

    @cached_property
    def logit(self) -> np.ndarray:
        """(...) bool."""
        return np.asarray(~np.isnan(self.low))

    @cached_property
    def curved(self) -> np.ndarray:
        """(...) bool: logarithms and logits, whose unit is 1 wherever they are."""
        return np.asarray(self.log | self.logit)

    @cached_property
    def linear(self) -> bool:
        """Whether every number is searched as itself."""
        return not self.curved.any()

    @cached_property
    def _no_logit(self) -> bool:
        return not self.logit.any()

    def __getitem__(self, at: Any) -> Scales:
        return Scales(self.log[at], self.low[at], self.high[at])

    @property
    def transposed(self) -> Scales:
        return Scales(self.log.T, self.low.T, self.high.T)

    def where(self, mask: np.ndarray) -> Scales:
        """These scales where `mask`, elsewhere the numbers themselves."""
        return replace(self, log=self.log & mask, low=np.where(mask, self.low, np.nan))

    def internal(self, values: Any) -> np.ndarray:
        """log(value) or the logit; the bounds 0 and -inf of a logarithm become -inf. Logits end at the bounds."""
        values = np.asarray(values, dtype=float)
        positive = np.where(self.log, values, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(self.log, np.log(np.where(positive == -inf, 0.0, positive)), values)
            if self._no_logit:
                return found
            below, above = self._parts(np.clip(values, self.low, self.high))
            return np.where(self.logit, np.log(below) - np.log(above), found)

    def natural(self, internal: Any) -> np.ndarray:
        """The inverse of `internal`."""
        internal = np.asarray(internal, dtype=float)
        with np.errstate(over="ignore"):
            found = np.where(self.log, np.exp(np.where(self.log, internal, 0.0)), internal)
            if self._no_logit:
                return found
            below = (1 / (1 + np.exp(-internal)) - LOGIT.edge) / (1 - 2 * LOGIT.edge)
            above = (1 / (1 + np.exp(internal)) - LOGIT.edge) / (1 - 2 * LOGIT.edge)
        width = self.high - self.low
        between = np.where(internal < 0, self.low + below * width, self.high - above * width)
        between = np.where(
            internal <= -LOGIT.end, self.low, np.where(internal >= LOGIT.end, self.high, between)
        )
        return np.where(self.logit, between, found)

    def slopes(self, values: Any) -> np.ndarray:
        """d natural / d internal at the natural `values`: the value itself for a logarithm, else 1 or w s (1 - s)."""
        values = np.asarray(values, dtype=float)
        found = np.where(self.log, values, 1.0)
        if self._no_logit:
            return found
        below, above = self._parts(values)
        return np.where(self.logit, (self.high - self.low) * below * above / (1 - 2 * LOGIT.edge), found)

    def moved(self, values: np.ndarray, length: np.ndarray) -> np.ndarray:
        """The natural values after steps of this length in internal coordinates."""
        with np.errstate(over="ignore"):
            found: np.ndarray = np.where(self.log, values * np.exp(length), values + length)
        if self._no_logit:
            return found
        return np.where(self.logit, self.natural(self.internal(values) + length), found)

    def between(self, low: np.ndarray, high: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Internal coordinates `part` of the way from `low` to `high`; the way of a logit is straight in the values."""
        found: np.ndarray = np.asarray(low + part * (high - low))
        if self._no_logit:
            return found
        first, last = self.natural(low), self.natural(high)
        return np.where(self.logit, self.internal(first + part * (last - first)), found)

    def _parts(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """s and 1 - s, each without cancellation near its bound."""
        width, inner = self.high - self.low, 1 - 2 * LOGIT.edge
        return LOGIT.edge + inner * (values - self.low) / width, LOGIT.edge + inner * (
            self.high - values
        ) / width


LINEAR = Scales.of(False)
LOG = Scales.of(True)
