"""Experiments: what was measured when, and under which inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import nan

import numpy as np

from picardfit.display.hook import shown
from picardfit.errors import InputError, counted, inside, type_words
from picardfit.formulas.grammar import parse
from picardfit.model.inputs import Constant, Input, as_input, check_finite, number_array, read_only, values_at
from picardfit.model.parameters import Parameter, as_number, as_parameter, is_number

LONG_BEFORE = 5  # spans of the samples between t0 and the first of them that make a void


@dataclass(frozen=True, eq=False)
class Rest:
    """The system came to rest before an experiment, under inputs of its own.

    `inputs`: input -> number; `initial`: state -> number or formula of parameters, where it started from. States
    that the experiment's own `initial` names are set anew when the experiment begins, the others go on from there.
    """

    inputs: dict[str, Input] | None = None
    initial: dict[str, float | str] | None = None

    def __post_init__(self) -> None:
        inputs = {n: as_input(n, spec) for n, spec in _mapping(self.inputs, "inputs").items()}
        for name, source in inputs.items():
            if not isinstance(source, Constant):
                raise InputError(
                    f"Input `{name}` before the experiment is not a number: give the one it had at rest."
                )
        initial = {n: _initial(n, spec) for n, spec in _mapping(self.initial, "initial").items()}
        for name, spec in initial.items():
            if isinstance(spec, Parameter):
                raise InputError(
                    f"`{name}` before the experiment is unknown: give a number, or a formula of a parameter."
                )
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "initial", initial)


@shown
@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """One run of the system: n sampling rows of k observables, its inputs, its initial state.

    `times`: n numbers, or None when each observable brings its own pair (times, values).
    `observations`: observable -> n values; NaN, None or "" is "not measured".
    `inputs`: input -> number, formula text in t, (times, values) table or function.
    `initial`: state -> number (known), text (formula of parameters), Parameter or (lower, upper) (unknown).
    `t0`: when the initial state holds; None is 0, or the first sample if that is earlier.
    `planned`: (n, k) True where something will be measured, for an experiment that is still to be done; its
    observations are all NaN. `pf.plan` makes such experiments.
    `rest`: the system came to rest before it; `initial` then names only what was set anew.
    `remarks`: what was left out when it was read; a fit repeats them among its warnings.

    After construction `times` (n,) ascends, repeated measurements keep rows of their own, rows without a
    number are gone, `values` (n, k) has NaN where nothing was measured, and all arrays are read-only.
    """

    times: np.ndarray
    observations: dict[str, np.ndarray]
    name: str = ""
    inputs: dict[str, Input] | None = None
    initial: dict[str, float | str | Parameter] | None = None
    t0: float | None = None
    planned: np.ndarray | None = None
    rest: Rest | None = None
    remarks: tuple[str, ...] = ()
    observables: tuple[str, ...] = field(init=False)
    values: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        name = _experiment_name(self.name)
        label = _label(name)
        try:
            if self.planned is None:
                times, values = _rows(self.times, _mapping(self.observations, "observations"))
                planned = None
            else:
                times, values, planned = _planned_rows(self.times, self.observations, self.planned)
            inputs = {n: as_input(n, spec) for n, spec in _mapping(self.inputs, "inputs").items()}
            initial = {n: _initial(n, spec) for n, spec in _mapping(self.initial, "initial").items()}
            t0 = _initial_time(self.t0, times[0])
            if not isinstance(self.rest, Rest | None):
                raise InputError(f"rest={self.rest!r} is not understood: pass pf.Rest(...).")
        except InputError as error:
            raise inside(label, error) from None
        observables = tuple(self.observations)
        columns = {observable: values[:, k] for k, observable in enumerate(observables)}
        checked = {"times": times, "observations": columns, "observables": observables, "values": values}
        checked |= {"name": name, "inputs": inputs, "initial": initial, "t0": t0, "planned": planned}
        checked["remarks"] = (self.remarks,) if isinstance(self.remarks, str) else tuple(self.remarks)
        for attribute, value in checked.items():
            object.__setattr__(self, attribute, value)

    def inputs_at(self, names: Sequence[str], times: np.ndarray) -> np.ndarray:
        """The inputs of these names at any times: (*times.shape, names)."""
        try:
            return values_at(self.inputs, names, times)
        except InputError as error:
            raise inside(_label(self.name), error) from error

    def check_inputs(self, names: Sequence[str]) -> None:
        """InputError when an input of these names is not finite somewhere in the experiment."""
        try:
            check_finite(self.inputs, names, self.t0, self.times)
        except InputError as error:
            raise inside(_label(self.name), error) from error

    def __reduce__(self):
        observed = (self.times, self.observations, self.name, self.inputs, self.initial, self.t0)
        return Experiment, (*observed, self.planned, self.rest, self.remarks)

    @property
    def sampled(self) -> np.ndarray:
        """(n, k): where something was measured, or will be."""
        return np.isfinite(self.values) if self.planned is None else self.planned

    def __repr__(self) -> str:
        distinct, counts = len(np.unique(self.times)), self.sampled.sum(axis=0)
        span = f"{distinct} times from {self.times[0]:g} to {self.times[-1]:g}"
        if distinct == 1:
            span = f"1 time, {self.times[0]:g}"
        measured = [
            f"{observable} ({count})" for observable, count in zip(self.observables, counts, strict=True)
        ]
        planned = [] if self.planned is None else ["planned"]
        said = f"{self.name or 'experiment'}: {', '.join([*planned, span, *measured])}"
        return "; ".join([said, *self.remarks])


def plan(
    times: object,
    observables: Sequence[str] | Mapping[str, object],
    name: str = "",
    inputs: Mapping[str, object] | None = None,
    initial: Mapping[str, object] | None = None,
    t0: float | None = None,
) -> Experiment:
    """An experiment still to be done, for `pf.structural` and `pf.design`: when and what will be measured.

    `times`: n numbers, with `observables` the names of what is measured at each of them; or None, with
    `observables` a mapping name -> its own times. The rest is as in `pf.Experiment`.
    """
    if isinstance(observables, str):
        raise InputError(f"observables={observables!r} is one text: write a list, [{observables!r}].")
    if times is None:
        own = {
            n: number_array(t, f"the times of `{n}`") for n, t in _mapping(observables, "observables").items()
        }
        if not any(len(t) for t in own.values()):
            raise InputError("The plan has no times: write for example pf.plan(None, {'prey': [0, 1, 2]}).")
        rows, marks = _merged({n: (t, np.ones(len(t))) for n, t in own.items()})
        sampled = np.isfinite(marks)
    else:
        own = dict.fromkeys(_mapping(dict.fromkeys(observables), "observables"))
        rows = number_array(times, "the times")
        sampled = np.ones((len(rows), len(own)), bool)
    nothing = {n: np.full(len(rows), nan) for n in own}
    return Experiment(rows, nothing, name, inputs, initial, t0, sampled)


def _rows(times: object, observations: dict[str, object]) -> tuple[np.ndarray, np.ndarray]:
    """Checked and sorted times (n,) and values (n, observables), without rows where nothing was measured."""
    if not observations:
        raise InputError("There are no observations: write for example {'prey': [30, 47, 70]}.")
    if times is None:
        times, values = _merged({name: _own_samples(name, pair) for name, pair in observations.items()})
    else:
        times = number_array(times, "the times")
        columns = [number_array(column, f"`{name}`", missing=True) for name, column in observations.items()]
        for name, column in zip(observations, columns, strict=True):
            if len(column) != len(times):
                raise InputError(
                    f"There are {counted(len(times), 'time')} but {counted(len(column), 'value')} of `{name}`: "
                    f"give one value per time, NaN where it was not measured."
                )
        values = np.stack(columns, axis=-1)
    measured = np.isfinite(values).any(axis=1)
    if not measured.any():
        raise InputError(
            "There is no number in it: give at least one measured value, or leave the experiment out."
        )
    if not measured.all():
        times, values = times[measured], values[measured]
    if (times[1:] < times[:-1]).any():
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    return read_only(times), read_only(values)


def _planned_rows(
    times: object, observations: object, planned: object
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sorted times (n,), values (n, k) that are all NaN, and where something will be measured (n, k)."""
    names = _mapping(observations, "observations")
    times, planned = number_array(times, "the times"), np.array(planned, bool)
    if planned.shape != (len(times), len(names)) or not planned.any():
        raise InputError(
            "The plan measures nothing, or its table does not fit the times: make it with pf.plan(times, ['prey'])."
        )
    for name, column in names.items():
        if np.isfinite(number_array(column, f"`{name}`", missing=True)).any():
            raise InputError(f"`{name}` has values, but the experiment is planned: leave `planned` out.")
    order = np.argsort(times, kind="stable")
    order = order[planned[order].any(axis=1)]
    values = np.full((len(order), len(names)), nan)
    return read_only(times[order]), read_only(values), read_only(planned[order])


def _own_samples(name: str, pair: object) -> tuple[np.ndarray, np.ndarray]:
    """The times and values of an observable that brings its own sampling times."""
    if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
        raise InputError(
            f"Without common times `{name}` needs a pair (times, values): pass one, or pass times."
        )
    times = number_array(pair[0], f"the times of `{name}`")
    values = number_array(pair[1], f"`{name}`", missing=True)
    if len(times) != len(values):
        raise InputError(
            f"`{name}` has {counted(len(times), 'time')} but {counted(len(values), 'value')}: give one value per time."
        )
    return times, values


def _merged(samples: dict[str, tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows from samples per observable: the i-th values of all observables at one time share a row."""
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
    values = np.full((int(new.sum()), len(samples)), nan)
    values[np.cumsum(new) - 1, columns[order]] = np.concatenate([v for _, v in sorted_samples])[order]
    return times[order][new], values


def _label(name: str) -> str:
    return f"Experiment `{name}`" if name else "The experiment"


def _experiment_name(name: object) -> str:
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        raise InputError(f"The experiment name {name!r} is not text: write for example name='pond 1'.")
    return str(name)


def _mapping(given: object, what: str) -> dict[str, object]:
    """`given` as a dictionary with names as keys; None is empty."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(
            f"`{what}` must map names to values, not be {type_words(given)}: write {{'name': ...}}"
            f"{', or use pf.read_table for a table' if what == 'observations' else ''}."
        )
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"The name {name!r} in `{what}` is not text: use the name from the model.")
    return dict(given)


def _initial(name: str, spec: object) -> float | str | Parameter:
    """A known initial value, the text of a formula, or the Parameter of an unknown one."""
    if is_number(spec):
        return as_number(spec, f"initial value of `{name}`")
    if isinstance(spec, str):
        parse(spec, f"The initial value of `{name}`")
        return spec
    parameter = as_parameter(name, spec)
    return parameter if parameter.fixed is None else parameter.fixed


def _initial_time(t0: object, first: float) -> float:
    if t0 is None:
        return min(0.0, float(first))
    t0 = as_number(t0, "initial time t0")
    if t0 > first:
        raise InputError(
            f"t0 = {t0:g} is later than the sample at time {first:g}: lower t0 or remove that sample."
        )
    return t0


def after_a_void(t0: float, times: np.ndarray) -> bool:
    """Whether the samples begin many of their own spans after t0, as years do when t0 is the year 0."""
    return bool(times[0] - t0 > LONG_BEFORE * (times[-1] - times[0]) > 0)


def runs(owner: np.ndarray) -> list[tuple[int, slice]]:
    """(value, where) of every stretch of equal values in an array."""
    if not len(owner):
        return []
    edges = [0, *(np.flatnonzero(owner[1:] != owner[:-1]) + 1).tolist(), len(owner)]
    return [(int(owner[a]), slice(a, b)) for a, b in pairwise(edges)]


def neighbour_noise(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(n - 2,): how inner samples differ from the straight line between their neighbours.

    Divided so that noise of unit variance gives unit variance; where the curve bends they come out larger.
    """
    span = times[2:] - times[:-2]
    part = np.where(span > 0, (times[1:-1] - times[:-2]) / np.where(span > 0, span, 1.0), 0.5)
    gap = values[1:-1] - (1 - part) * values[:-2] - part * values[2:]
    return gap / np.sqrt(1 + part**2 + (1 - part) ** 2)
