"""From states to the rows that a likelihood needs: observables and noise levels, as one map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from picardfit.formulas.kernels import Array, BatchedMap
from picardfit.formulas.tracing import NumericMap


class Rows(Protocol):
    """A map from (t, states, parameters, inputs) to rows, with its derivatives."""

    def value(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike, /) -> Array: ...

    def linearise(
        self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike, /
    ) -> tuple[Array, Array, Array]: ...


@dataclass(frozen=True)
class Measurement:
    """Rows [g | levels] with the interface of BatchedMap.

    The levels are formulas of [g | states]; the parameters are the model's and then those of the noise.
    """

    output: Rows
    levels: BatchedMap
    own: int  # how many of the parameters are the model's

    def value(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> Array:
        """(*batch, rows)."""
        p = np.asarray(p, float)
        g = self.output.value(t, x, p[..., : self.own], u)
        return np.concatenate([g, self.levels.value(t, self._both(g, x), p, u)], axis=-1)

    def linearise(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> tuple[Array, Array, Array]:
        """Value and derivatives: (*batch, rows), (*batch, rows, states), (*batch, rows, parameters)."""
        p = np.asarray(p, float)
        g, g_x, g_p = self.output.linearise(t, x, p[..., : self.own], u)
        s, s_both, s_p = self.levels.linearise(t, self._both(g, x), p, u)
        by_g, by_x = s_both[..., : g.shape[-1]], s_both[..., g.shape[-1] :]
        with np.errstate(all="ignore"):
            s_x = by_x + by_g @ g_x
            s_p = s_p.copy()
            s_p[..., : self.own] += by_g @ g_p
        wide = np.zeros((*g_p.shape[:-1], p.shape[-1]))
        wide[..., : self.own] = g_p
        rows = np.concatenate([g, s], axis=-1)
        return rows, np.concatenate([g_x, s_x], axis=-2), np.concatenate([wide, s_p], axis=-2)

    def levels_at(
        self, t: ArrayLike, g: Array, x: ArrayLike, p: ArrayLike, u: ArrayLike
    ) -> tuple[Array, Array]:
        """Levels and their derivatives with respect to the parameters, at given observables and states."""
        value, _, wrt_p = self.levels.linearise(t, self._both(g, x), p, u)
        return value, wrt_p

    @staticmethod
    def _both(g: Array, x: ArrayLike) -> Array:
        x = np.broadcast_to(np.asarray(x, float), (*g.shape[:-1], np.shape(x)[-1]))
        return np.concatenate([g, x], axis=-1)


@dataclass(frozen=True)
class Padded:
    """A numeric map that ignores all parameters beyond its own."""

    inner: NumericMap
    own: int  # how many parameters it has

    def value(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> Array:
        return self.inner.value(t, x, self._own(p), u)

    def linearise(self, t: ArrayLike, x: ArrayLike, p: ArrayLike, u: ArrayLike) -> tuple[Array, Array, Array]:
        value, wrt_x, wrt_p = self.inner.linearise(t, x, self._own(p), u)
        wide = np.zeros((*wrt_p.shape[:-1], np.shape(p)[-1]))
        wide[..., : self.own] = wrt_p
        return value, wrt_x, wide

    def _own(self, p: ArrayLike) -> Array:
        return np.asarray(p, float)[..., : self.own]


def padded(rhs: BatchedMap | NumericMap, names: tuple[str, ...]) -> BatchedMap | NumericMap | Padded:
    """A right-hand side as a function of all parameters in `names`; those beyond its own have no effect."""
    if names == tuple(rhs.parameters):
        return rhs
    if isinstance(rhs, BatchedMap):
        return BatchedMap(rhs.expressions, rhs.states, names, rhs.inputs)
    return Padded(rhs, len(rhs.parameters))
