"""The unknowns of a problem as one array, and how it becomes parameters and initial states.

Each experiment has a row [free initial states | local parameters | global parameters]; global columns are equal in all
rows. These are the internal coordinates in which the solvers search: a log parameter stands there as its logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.model.parameters import natural_slope, to_internal, to_natural
from picardfit.simulation.steady_states import steady_state


@dataclass(frozen=True)
class UnknownsColumns:
    """Which column each derivative column belongs to."""

    local: int  # the first `local` columns belong to one experiment, the others are shared
    width: int
    parameters: np.ndarray  # (free parameters,): column of each parameter column

    @cached_property
    def index(self) -> slice | np.ndarray:
        """`parameters` as an index, a slice where possible."""
        return compact(self.parameters)


@dataclass(frozen=True, eq=False)
class SteadyStarts:
    """Steady states before the experiments; rows of experiments that have none are not used."""

    rhs: BatchedMap | NumericMap
    times: np.ndarray  # (experiments,)
    inputs: np.ndarray  # (experiments, inputs)
    known: np.ndarray  # (experiments, states): from where the steady state is reached, 0 for a formula
    formula_of: np.ndarray  # (experiments, states): row of the formulas, or -1
    kept: np.ndarray  # (experiments, states) bool: states that keep their steady values


@dataclass(frozen=True)
class UnknownsLayout:
    """Arrays that map rows of unknowns (experiments, width) to parameters and initial states."""

    experiments: tuple[str, ...]
    states: tuple[str, ...]
    names: tuple[str, ...]  # all parameters: the model's, the noise's, then those only in initial formulas
    model_parameters: int  # how many of them are the model's
    measured_parameters: int  # how many are the model's or the noise's
    base: np.ndarray  # (experiments, parameters): fixed values, 0 elsewhere
    known: np.ndarray  # (experiments, states): known initial values, 0 elsewhere
    initial_states: np.ndarray  # (free initial columns,): state of each
    local_parameters: np.ndarray  # (local parameter columns,): parameter of each
    global_parameters: np.ndarray  # (global columns,): parameter of each
    lower: np.ndarray  # (experiments, width), internal; equal to upper where a column does not exist
    upper: np.ndarray
    log: np.ndarray  # (experiments, width) bool
    start: np.ndarray  # (experiments, width) internal, NaN where the user gave none
    formulas: BatchedMap | None  # distinct initial formulas of the parameters
    formula_of: np.ndarray  # (experiments, states): row of `formulas`, or -1
    steady_starts: SteadyStarts | None = (
        None  # initial states that are the steady state before the experiment
    )

    @property
    def width(self) -> int:
        return int(self.lower.shape[1])

    @property
    def local(self) -> int:
        return len(self.initial_states) + len(self.local_parameters)

    @cached_property
    def exists(self) -> np.ndarray:
        """(experiments, width): columns that are unknowns of that experiment."""
        return self.lower < self.upper

    @cached_property
    def column_parameters(self) -> np.ndarray:
        """(local and global columns,): the parameter of each column that is no initial state."""
        return np.concatenate([self.local_parameters, self.global_parameters])

    @cached_property
    def free_parameters(self) -> np.ndarray:
        """Parameters of model and noise that are not fixed, in column order of the derivatives."""
        return self.column_parameters[self.column_parameters < self.measured_parameters]

    @cached_property
    def free_columns(self) -> slice | np.ndarray:
        """`free_parameters` as an index, a slice where possible."""
        return compact(self.free_parameters)

    @cached_property
    def columns(self) -> UnknownsColumns:
        """Column of every free parameter of model and noise."""
        every = self.column_parameters
        columns = len(self.initial_states) + np.flatnonzero(every < self.measured_parameters)
        return UnknownsColumns(self.local, self.width, columns)

    def at_bounds(self, unknowns: np.ndarray, within: float = 0.0) -> np.ndarray:
        """(experiments, width) bool: columns of an array of unknowns that stand at a bound, or cannot move at all.

        `within`: distance from the bound that still counts, relative to the unknown and to the width of its bounds,
        whichever is smaller.
        """
        if within == 0:
            return np.asarray((unknowns <= self.lower) | (unknowns >= self.upper))
        with np.errstate(invalid="ignore"):
            width = self.upper - self.lower
            near = within * np.minimum(
                np.where(np.isfinite(width), width, np.inf),
                np.maximum(np.abs(unknowns), np.finfo(float).tiny),
            )
            return np.asarray((unknowns <= self.lower + near) | (unknowns >= self.upper - near))

    def count(self, columns: np.ndarray | bool = True) -> int:
        """How many numbers are estimated; of some columns only, if these are given as (width,) bool."""
        chosen = self.exists & columns
        return int(chosen[:, : self.local].sum() + chosen[:1, self.local :].sum())

    @cached_property
    def linear(self) -> bool:
        """Whether no unknown lives as its logarithm."""
        return not self.log.any()

    def natural(self, unknowns: np.ndarray) -> np.ndarray:
        return unknowns if self.linear else to_natural(unknowns, self.log)

    def slopes(self, unknowns: np.ndarray) -> np.ndarray:
        """d natural / d internal."""
        return natural_slope(self.natural(unknowns), self.log)

    def internal(self, natural: np.ndarray) -> np.ndarray:
        return to_internal(natural, self.log)

    def size(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, width): by how much an unknown may reasonably move from a start, in internal coordinates."""
        with np.errstate(invalid="ignore"):
            width = self.upper - self.lower
        own = np.where(self.log | (unknowns == 0), 1.0, np.abs(unknowns))
        return np.where(np.isfinite(width) & (width > 0), width, own)

    def parameters(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, parameters): all parameters in natural units."""
        natural, values = self.natural(unknowns), self.base.copy()
        skip = len(self.initial_states)
        own, shared = self._parameter_columns
        values[:, own] = natural[:, skip : self.local]
        values[:, shared] = natural[:, self.local :]
        return values

    @cached_property
    def _parameter_columns(self) -> tuple[slice | np.ndarray, slice | np.ndarray]:
        """Local and global parameters as indices, slices where possible."""
        return compact(self.local_parameters), compact(self.global_parameters)

    def model_values(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, model parameters): those of them that the model has."""
        return self.parameters(unknowns)[:, : self.model_parameters]

    def measured_values(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, measured parameters): those of the model, then those of the noise."""
        return self.parameters(unknowns)[:, : self.measured_parameters]

    @cached_property
    def noise_columns(self) -> np.ndarray:
        """(width,) bool: columns of parameters that only the noise has."""
        every = self.column_parameters
        own = (every >= self.model_parameters) & (every < self.measured_parameters)
        return np.concatenate([np.zeros(len(self.initial_states), bool), own])

    def parameter_slopes(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, free parameters): d natural / d internal of the free parameters of model and noise."""
        return self.slopes(unknowns)[:, self.columns.parameters]

    def initial_derivative(self, unknowns: np.ndarray) -> np.ndarray:
        """(experiments, states, width): derivative of the initial states by the unknowns."""
        return self._unit_derivative if self.plain_initial else self.initial(unknowns)[1]

    @cached_property
    def plain_initial(self) -> bool:
        """Whether no initial state is a log, a formula or a steady state."""
        free, column, _ = self._free_initial
        return self.formulas is None and self.steady_starts is None and not self.log[free, column].any()

    def initial(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Initial states (experiments, states) and their derivative (experiments, states, width) by the unknowns."""
        free, column, state = self._free_initial
        natural = self.natural(unknowns)
        values = self.known.copy()
        values[free, state] = natural[free, column]
        if self.plain_initial:
            return values, self._unit_derivative
        derivative = np.zeros((*values.shape, self.width))
        derivative[free, state, column] = self.slopes(unknowns)[free, column]
        if self.formulas is not None:
            self._add_formulas(self.formulas, unknowns, self.formula_of, values, derivative)
        if self.steady_starts is not None:
            self._add_steady_states(unknowns, self.steady_starts, values, derivative)
        return values, derivative

    @cached_property
    def _free_initial(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Experiment, column and state of every free initial state."""
        experiment, column = np.nonzero(self.exists[:, : len(self.initial_states)])
        return experiment, column, self.initial_states[column]

    @cached_property
    def _unit_derivative(self) -> np.ndarray:
        """The derivative of `initial` when no initial state is a log or a formula."""
        free, column, state = self._free_initial
        derivative = np.zeros((*self.known.shape, self.width))
        derivative[free, state, column] = 1.0
        derivative.setflags(write=False)
        return derivative

    def _add_formulas(
        self,
        formulas: BatchedMap,
        unknowns: np.ndarray,
        formula_of: np.ndarray,
        values: np.ndarray,
        derivative: np.ndarray,
    ) -> None:
        """Fill in the states that formulas give, with their derivatives by the unknowns."""
        count = len(unknowns)
        empty = np.zeros((count, 0))
        value, _, wrt_p = formulas.linearise(np.zeros(count), empty, self.parameters(unknowns), empty)
        slopes = self.slopes(unknowns)
        every = self.column_parameters
        columns = np.arange(len(self.initial_states), self.width)
        for e, state in zip(*np.nonzero(formula_of >= 0), strict=True):
            row = formula_of[e, state]
            values[e, state] = value[e, row]
            derivative[e, state, columns] = wrt_p[e, row, every] * slopes[e, columns]

    def _add_steady_states(
        self, unknowns: np.ndarray, before: SteadyStarts, values: np.ndarray, derivative: np.ndarray
    ) -> None:
        """Fill in states that keep their steady values, NaN where the system reaches no steady state."""
        start, by_unknowns = before.known.copy(), np.zeros_like(derivative)
        if self.formulas is not None:
            self._add_formulas(self.formulas, unknowns, before.formula_of, start, by_unknowns)
        params, slopes = self.model_values(unknowns), self.slopes(unknowns)
        every = self.column_parameters
        own = every < self.model_parameters
        columns = len(self.initial_states) + np.flatnonzero(own)
        for e in np.flatnonzero(before.kept.any(axis=1)):
            kept = before.kept[e]
            steady = steady_state(before.rhs, before.times[e], start[e], params[e], before.inputs[e])
            if steady is None:
                values[e, kept], derivative[e, kept] = np.nan, np.nan
                continue
            slope = steady.by_start @ by_unknowns[e]
            slope[:, columns] += steady.by_params[:, every[own]] * slopes[e, columns]
            values[e, kept], derivative[e, kept] = steady.states[kept], slope[kept]

    def label(self, experiment: int, column: int) -> str:
        """Name of one unknown: `a`, `a[pond 1]` for a local parameter, `prey(0)[pond 1]` for an initial state."""
        where = f"[{self.experiments[experiment]}]" if len(self.experiments) > 1 else ""
        if column < len(self.initial_states):
            return f"{self.states[self.initial_states[column]]}(0){where}"
        if column < self.local:
            index = self.local_parameters[column - len(self.initial_states)]
            return f"{self.names[index]}[{self.experiments[experiment]}]"
        return self.names[int(self.global_parameters[column - self.local])]


def unknowns_index(chosen: np.ndarray, local: int) -> np.ndarray:
    """(unknowns, 2): experiment and column of chosen unknowns; global columns stand once, with experiment 0."""
    own = np.argwhere(chosen[:, :local])
    shared = local + np.flatnonzero(chosen[0, local:])
    return np.concatenate([own, np.stack([np.zeros_like(shared), shared], axis=1)]).astype(int)


def compact(index: np.ndarray) -> slice | np.ndarray:
    """An index as a slice where it counts up without gaps: views instead of copies."""
    if len(index) and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
