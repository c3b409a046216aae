"""The right-hand side of one or several runs between two breaks, as integrators call it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.model.inputs import Input, constant_between_breaks
from picardfit.model.model import Model


@dataclass(frozen=True, eq=False)
class Piece:
    """One piece of several runs on a common time tau; flat arrays are (runs * states,).

    Several runs share tau from 0 to 1; for a single one tau is the time since the start of the piece.
    """

    rhs: BatchedMap | NumericMap
    end: float  # tau, which begins at 0
    start: np.ndarray  # (runs,): time where tau is 0
    length: np.ndarray  # (runs, 1): time in a unit of tau
    first: np.ndarray  # (runs,): times are clipped to [first, last], where the inputs do not jump
    last: np.ndarray
    params: np.ndarray  # (runs, parameters)
    inputs: np.ndarray  # (runs, inputs): those that are constant in the piece
    varying: tuple[tuple[Input, int, np.ndarray], ...]  # input, its column, the runs that have it

    def function(self) -> Callable[[float, np.ndarray], np.ndarray | list[float]]:
        """d flat / d tau as a function of tau and flat."""
        if len(self.start) > 1:
            return self._together
        point, params, constant = self.rhs.at_point, self.params[0].tolist(), self.inputs[0].tolist()
        first, last, varying = float(self.first[0]), float(self.last[0]), bool(self.varying)
        origin = float(self.start[0])

        def alone(tau: float, flat: np.ndarray) -> list[float]:  # plain floats: many times faster than arrays
            t = origin + tau
            t = first if t < first else last if t > last else t
            inputs = self._inputs(np.array([t]))[0].tolist() if varying else constant
            return point(t, flat.tolist(), params, inputs)

        return alone

    def _together(self, tau: float, flat: np.ndarray) -> np.ndarray:
        t = np.minimum(np.maximum(self.start + tau * self.length[:, 0], self.first), self.last)
        x = flat.reshape(len(self.start), -1)
        return (self.length * self.rhs.value(t, x, self.params, self._inputs(t))).ravel()

    def jacobian(self, tau: float, flat: np.ndarray) -> np.ndarray:
        """(states, states) of a piece of a single run."""
        t = np.clip(self.start + tau, self.first, self.last)
        inputs = self._inputs(t)[0].tolist()
        return self.rhs.jacobian_at_point(t.item(), flat.tolist(), self.params[0].tolist(), inputs)

    def band(self, tau: float, flat: np.ndarray) -> np.ndarray:
        """(2 states - 1, runs * states): the Jacobian of all runs, which do not act on each other, by diagonals."""
        rhs = self.rhs
        assert isinstance(rhs, BatchedMap)
        runs, states = len(self.start), len(rhs.states)
        t = np.minimum(np.maximum(self.start + tau * self.length[:, 0], self.first), self.last)
        slopes, _ = rhs.derivatives(t, flat.reshape(runs, states), self.params, self._inputs(t))
        rows, columns = rhs.state_entries
        diagonals = np.zeros((2 * states - 1, runs, states))
        diagonals[rows - columns + states - 1, :, columns] = slopes * self.length[:, 0]
        return diagonals.reshape(2 * states - 1, runs * states)

    def _inputs(self, t: np.ndarray) -> np.ndarray:
        if not self.varying:
            return self.inputs
        values = self.inputs.copy()
        for source, column, rows in self.varying:
            values[rows, column] = source.at(t[rows])
        return values


def piece_of(
    model: Model,
    params: Sequence[np.ndarray],
    signals: Sequence[Mapping[str, Input]],
    start: np.ndarray,
    stop: np.ndarray,
) -> Piece:
    """The piece from `start` to `stop` (runs,) of runs with these parameters and inputs."""
    # a few units in the last place inside, because break times are themselves rounded
    inset = np.minimum(4 * np.spacing(np.maximum(np.abs(start), np.abs(stop))), (stop - start) / 4)
    middle = (start + stop) / 2
    inputs = np.zeros((len(params), len(model.inputs)))
    varying: dict[tuple[Input, int], list[int]] = defaultdict(list)
    for column, name in enumerate(model.inputs):
        for row, mine in enumerate(signals):
            source = mine[name]
            if constant_between_breaks(source):
                inputs[row, column] = source.at(middle[row])
            else:
                varying[source, column].append(row)
    alone = len(params) == 1
    return Piece(
        rhs=model.rhs,
        end=float(stop[0] - start[0]) if alone else 1.0,
        start=start,
        length=np.ones((1, 1)) if alone else (stop - start)[:, None],
        first=start + inset,
        last=stop - inset,
        params=np.array(params, float).reshape(len(params), -1),
        inputs=inputs,
        varying=tuple((source, column, np.array(rows)) for (source, column), rows in varying.items()),
    )
