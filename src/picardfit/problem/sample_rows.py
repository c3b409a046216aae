"""The rows of an experiment: what users give as times and values, checked and sorted by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import nan

import numpy as np

from picardfit.checks import as_mapping
from picardfit.errors import InputError
from picardfit.model.number_arrays import measurements, number_array, read_only


@dataclass(frozen=True, eq=False)
class SampleLines:
    """Where the measurements of an experiment stand in a table, whatever order an experiment brings them into."""

    columns: Mapping[
        str, tuple[np.ndarray, np.ndarray]
    ]  # observable, or `dose_name` -> times (n,), lines (n,)
    place: Callable[[int, InputError], InputError]  # an error with the place of a line of the table
    unread: Mapping[str, InputError] = field(
        default_factory=dict
    )  # columns of the table without numbers -> why

    def at(self, error: InputError, observable: str, time: float, rank: int = 0) -> InputError:
        """The error about a measurement, the `rank`-th of its observable at this time, with its place in the table."""
        times, lines = self.columns.get(observable, (np.zeros(0), np.zeros(0, int)))
        same = np.flatnonzero(times == time)
        return self.place(int(lines[same[rank]]), error) if rank < len(same) else error

    def shifted(self, shift: float) -> SampleLines:
        """The lines of an experiment whose times have moved."""
        moved = {name: (times + shift, lines) for name, (times, lines) in self.columns.items()}
        return replace(self, columns=moved)

    def renamed(self, names: Mapping[str, str]) -> SampleLines:
        """The lines of the observables that these columns become."""
        found = {names[column]: lines for column, lines in self.columns.items() if column in names}
        return replace(self, columns=found)


def dose_name(state: str) -> str:
    """What stands for the doses into a state among the columns of `SampleLines`."""
    return f"dose into {state}"


# times (n,), values (n, k), limits (n, k, 2) or None, -inf and inf for lost values, planned (n, k) or None
Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


def measured_rows(given: object, observations: object) -> Rows:
    """The samples of an experiment that was done, sorted by time, without rows where nothing was measured."""
    columns = _observations(observations)
    if not columns:
        raise InputError("problem.no_observations", key=("data",))
    if given is None:
        times, cells = merged({name: _own_samples(name, pair) for name, pair in columns.items()})
    else:
        times = number_array(given, "times")
        cells = np.stack([_column(name, column, len(times)) for name, column in columns.items()], axis=1)
    values = np.ascontiguousarray(cells[..., 0])
    limits = None if np.isnan(cells[..., 1]).all() else np.ascontiguousarray(cells[..., 1:])
    if not np.isfinite(values).any():
        raise InputError("problem.nothing_measured", key=("data",))
    order = np.flatnonzero((np.isfinite(values) | (cells[..., 2] == np.inf)).any(axis=1))
    if (times[1:] < times[:-1]).any():
        order = order[np.argsort(times[order], kind="stable")]
    return (
        read_only(times[order]),
        read_only(values[order]),
        None if limits is None else read_only(limits[order]),
        None,
    )


def without_lost(limits: np.ndarray | None) -> np.ndarray | None:
    """Limits (n, k, 2) without those of lost values; None if no others are left."""
    if limits is None:
        return None
    known = np.where(np.isinf(limits).all(axis=-1, keepdims=True), nan, limits)
    return None if np.isnan(known).all() else read_only(known)


def _observations(given: object) -> dict[str, object]:
    if given is not None and not isinstance(given, Mapping):
        raise InputError("problem.observations_not_mapping", key=("data",), value=given)
    return as_mapping(given, "observations")


def _column(name: str, values: object, count: int) -> np.ndarray:
    """(count, 3): the values of an observable at the common times, with lower and upper limits of censored ones."""
    column = _cells(name, values)
    if len(column) != count:
        raise InputError("problem.column_length", name, key=("data",), times=count, values=len(column))
    return column


def _cells(name: str, values: object) -> np.ndarray:
    """(n, 3): measured values, with their limits where they are censored and NaN elsewhere."""
    found = measurements(values, name)
    limits = np.full((len(found.values), 2), nan) if found.limits is None else found.limits
    return np.column_stack([found.values, limits])


def planned_rows(given: object, observations: object, planned: object) -> Rows:
    """The samples of an experiment still to be done, sorted by time; all values are NaN."""
    names = _observations(observations)
    times, table = number_array(given, "times"), np.array(planned, bool)
    if table.shape != (len(times), len(names)) or not table.any():
        raise InputError("problem.plan_empty")
    for name, column in names.items():
        if np.isfinite(number_array(column, "values", name, missing=True)).any():
            raise InputError("problem.plan_has_values", name)
    order = np.argsort(times, kind="stable")
    order = order[table[order].any(axis=1)]
    values = np.full((len(order), len(names)), nan)
    return read_only(times[order]), read_only(values), None, read_only(table[order])


def _own_samples(name: str, pair: object) -> tuple[np.ndarray, np.ndarray]:
    """The times (n,) and values with limits (n, 3) of an observable with its own sampling times."""
    if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
        raise InputError("problem.no_pair", name, key=("data",))
    times = number_array(pair[0], "times", name)
    values = _cells(name, pair[1])
    if len(times) != len(values):
        raise InputError("problem.pair_length", name, key=("data",), times=len(times), values=len(values))
    return times, values


def merged(samples: dict[str, tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows from samples per observable: the i-th values of all observables at one time share a row.

    Values (n, cells) of an observable become values (rows, observables, cells).
    """
    sorted_samples = []
    for times, values in samples.values():
        order = np.argsort(times, kind="stable")
        sorted_samples.append((times[order], values[order]))
    repeats = np.concatenate(
        [np.arange(len(t)) - np.searchsorted(t, t, side="left") for t, _ in sorted_samples]
    )
    times = np.concatenate([t for t, _ in sorted_samples])
    columns = np.repeat(np.arange(len(samples)), [len(t) for t, _ in sorted_samples])
    order = np.lexsort((repeats, times))
    new = np.ones(len(times), dtype=bool)
    new[1:] = (np.diff(times[order]) != 0) | (np.diff(repeats[order]) != 0)
    every = np.concatenate([v for _, v in sorted_samples])
    values = np.full((int(new.sum()), len(samples), every.shape[1]), nan)
    values[np.cumsum(new) - 1, columns[order]] = every[order]
    return times[order][new], values
