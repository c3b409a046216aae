"""Experiments: what was measured when, and under which inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import nan

import numpy as np

from picardfit.checks import as_mapping, as_number, is_number
from picardfit.display.hook import shown
from picardfit.errors import InputError, Notice, concerning
from picardfit.formulas.grammar import parse
from picardfit.model.doses import Doses, Signals, as_doses, infusion_rates
from picardfit.model.inputs import Constant, Input, as_input, check_finite, values_at
from picardfit.model.number_arrays import number_array, read_only
from picardfit.model.parameters import Parameter, as_parameter

InitialValue = float | str | Parameter  # a known value, a formula of parameters, or an unknown one


@dataclass(frozen=True, eq=False, init=False)
class Rest:
    """The system was in a steady state before an experiment, under constant inputs.

    `inputs`: input -> number; `initial`: state -> number or formula of parameters, from which the steady state was
    reached. States in the experiment's own `initial` are reset when the experiment begins, the others keep their
    steady values.
    `doses`, `every`: the steady state is that of a regimen, which repeats these doses with this period; their times
    count from the beginning of a period, and the experiment begins with one. States without `initial` came from 0.
    """

    inputs: dict[str, Constant]
    initial: dict[str, float | str]
    doses: tuple[Doses, ...]
    every: float | None

    def __init__(
        self,
        inputs: Mapping[str, object] | None = None,
        initial: Mapping[str, object] | None = None,
        doses: Doses | Iterable[Doses] | None = None,
        every: float | None = None,
    ) -> None:
        constants: dict[str, Constant] = {}
        for name, spec in as_mapping(inputs, "inputs").items():
            source = as_input(name, spec)
            if not isinstance(source, Constant):
                raise InputError("problem.rest_input_varies", name, key=("inputs", name))
            constants[name] = source
        values: dict[str, float | str] = {}
        for name, spec in as_mapping(initial, "initial").items():
            value = _initial(name, spec)
            if isinstance(value, Parameter):
                raise InputError("problem.rest_initial_unknown", name, key=("initial", name))
            values[name] = value
        regimen = as_doses(doses)
        if bool(regimen) != (every is not None):
            raise InputError("problem.rest_period", key=("rest",))
        period = None if every is None else as_number(every, "period `every`")
        if period is not None and not period > 0:
            raise InputError("problem.rest_period_sign", key=("rest",), value=period)
        for one in regimen:
            if period is not None and not (one.times[0] >= 0 and one.times[-1] < period):
                raise InputError("problem.rest_dose_time", one.into, key=("rest",), every=period)
        checked = {"inputs": constants, "initial": values, "doses": regimen, "every": period}
        for attribute, given in checked.items():
            object.__setattr__(self, attribute, given)

    def value_of(self, name: str, covariates: Mapping[str, float]) -> float:
        """The value of an input of the model before an experiment with these covariates."""
        return self.inputs[name].value if name in self.inputs else covariates.get(name, 0.0)


@shown
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Experiment:
    """One run of the system: n sampling rows of k observables, its inputs, its initial state.

    `times`: n numbers, or None when each observable brings its own pair (times, values).
    `observations`: observable -> n values; NaN, None or "" is "not measured".
    `inputs`: input -> number, formula text in t, (times, values) table or function.
    `initial`: state -> number (known), text (formula of parameters), Parameter or (lower, upper) (unknown).
    `t0`: when the initial state holds; None is 0, or the first sample if that is earlier.
    `planned`: (n, k) True where something will be measured, for an experiment that is still to be done; its
    observations are all NaN. `pf.plan` makes such experiments.
    `rest`: the steady state before the experiment; `initial` then names only the states that were reset.
    `remarks`: what was left out when the data were read; a fit repeats them among its warnings.
    `doses`: one pf.Doses or several: amounts added to states; those at exactly t0 are added to the initial state.
    `covariates`: name -> number: constants of this experiment, such as a weight, that formulas may use.
    `resets`: times at which all states return to their initial values, before any dose at that time.

    After construction, `times` (n,) is sorted, repeated measurements have rows of their own, rows without a number are
    dropped, `values` (n, k) is NaN where nothing was measured, and all arrays are read-only.
    """

    times: np.ndarray
    observations: dict[str, np.ndarray]
    name: str
    inputs: dict[str, Input]
    initial: dict[str, InitialValue]
    t0: float
    planned: np.ndarray | None
    rest: Rest | None
    remarks: tuple[Notice, ...]
    doses: tuple[Doses, ...]
    covariates: dict[str, float]
    resets: tuple[float, ...]
    observables: tuple[str, ...] = field(init=False)
    values: np.ndarray = field(init=False)

    def __init__(
        self,
        times: Iterable[object] | None,
        observations: Mapping[str, object],
        name: str | int = "",
        inputs: Mapping[str, object] | None = None,
        initial: Mapping[str, object] | None = None,
        t0: float | None = None,
        planned: object = None,
        rest: Rest | None = None,
        remarks: str | Iterable[str | Notice] = (),
        doses: Doses | Iterable[Doses] | None = None,
        covariates: Mapping[str, object] | None = None,
        resets: Iterable[float] = (),
    ) -> None:
        if not isinstance(name, (str, int)) or isinstance(name, bool):
            raise InputError("problem.experiment_name", value=name)
        title = str(name)
        with _in_experiment(title):
            rows, values, sampled = (
                _rows(times, observations) if planned is None else _planned_rows(times, observations, planned)
            )
            checked: dict[str, object] = {
                "inputs": {n: as_input(n, spec) for n, spec in as_mapping(inputs, "inputs").items()},
                "initial": {n: _initial(n, spec) for n, spec in as_mapping(initial, "initial").items()},
                "covariates": _covariates(covariates),
                **_events(doses, resets, t0, float(rows[0])),
            }
            if not isinstance(rest, Rest | None):
                raise InputError("problem.not_a_rest", value=rest)
        checked |= {
            "times": rows,
            "observations": {observable: values[:, k] for k, observable in enumerate(observations)},
            "observables": tuple(observations),
            "values": values,
            "name": title,
            "planned": sampled,
            "rest": rest,
            "remarks": _notices(remarks),
        }
        for attribute, value in checked.items():
            object.__setattr__(self, attribute, value)

    @cached_property
    def signals(self) -> Signals:
        """All inputs of a model in this experiment: its inputs, its covariates and the rates of its infusions."""
        constants = {name: Constant(value) for name, value in self.covariates.items()}
        return Signals({**self.inputs, **constants, **infusion_rates(self.doses)})

    def inputs_at(self, names: Sequence[str], times: np.ndarray) -> np.ndarray:
        """The inputs of these names at any times: (*times.shape, names)."""
        with _in_experiment(self.name):
            return values_at(self.signals, names, times)

    def check_inputs(self, names: Sequence[str]) -> None:
        """InputError when an input of these names is not finite somewhere in the experiment."""
        with _in_experiment(self.name):
            check_finite(self.signals, names, self.t0, self.times)

    def __reduce__(self) -> tuple[type[Experiment], tuple[object, ...]]:
        observed = (self.times, self.observations, self.name, self.inputs, self.initial, self.t0)
        more = (self.planned, self.rest, self.remarks, self.doses, self.covariates, self.resets)
        return Experiment, (*observed, *more)

    @property
    def sampled(self) -> np.ndarray:
        """(n, k) bool: where something was measured, or will be."""
        return np.isfinite(self.values) if self.planned is None else self.planned

    def __repr__(self) -> str:
        distinct, counts = len(np.unique(self.times)), self.sampled.sum(axis=0)
        span = f"{distinct} times from {self.times[0]:g} to {self.times[-1]:g}"
        if distinct == 1:
            span = f"1 time, {self.times[0]:g}"
        measured = [
            f"{observable} ({count})" for observable, count in zip(self.observables, counts, strict=True)
        ]
        measured += [one.describe() for one in self.doses]
        planned = [] if self.planned is None else ["planned"]
        said = f"{self.name or 'experiment'}: {', '.join([*planned, span, *measured])}"
        return "; ".join([said, *map(str, self.remarks)])


def plan(
    times: Iterable[object] | None,
    observables: Iterable[str] | Mapping[str, object],
    name: str = "",
    inputs: Mapping[str, object] | None = None,
    initial: Mapping[str, object] | None = None,
    t0: float | None = None,
    doses: Doses | Iterable[Doses] | None = None,
    covariates: Mapping[str, object] | None = None,
) -> Experiment:
    """An experiment still to be done, for `pf.structural` and `pf.design`: when and what will be measured.

    `times`: n numbers, with `observables` the names of what is measured at each of them; or None, with
    `observables` a mapping name -> its own times. The other arguments are those of `pf.Experiment`.
    """
    if isinstance(observables, str):
        raise InputError("problem.plan_text", value=observables)
    if times is None:
        own = {n: number_array(t, "times", n) for n, t in as_mapping(observables, "observables").items()}
        if not any(len(t) for t in own.values()):
            raise InputError("problem.plan_no_times")
        rows, marks = _merged({n: (t, np.ones(len(t))) for n, t in own.items()})
        names, sampled = list(own), np.isfinite(marks)
    else:
        names = list(as_mapping(dict.fromkeys(observables), "observables"))
        rows = number_array(times, "times")
        sampled = np.ones((len(rows), len(names)), bool)
    nothing = {n: np.full(len(rows), nan) for n in names}
    return Experiment(rows, nothing, name, inputs, initial, t0, sampled, doses=doses, covariates=covariates)


def replanned(one: Experiment, times: Mapping[str, object]) -> Experiment:
    """An experiment as a plan, in which each observable has its own times."""
    made = plan(None, times, t0=one.t0)
    return replace(one, times=made.times, observations=made.observations, planned=made.planned, remarks=())


_Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # times (n,), values (n, k), planned (n, k) or None


def _rows(given: object, observations: object) -> _Rows:
    """The samples of an experiment that was done, sorted by time, without rows where nothing was measured."""
    columns = _observations(observations)
    if not columns:
        raise InputError("problem.no_observations", key=("data",))
    if given is None:
        times, values = _merged({name: _own_samples(name, pair) for name, pair in columns.items()})
    else:
        times = number_array(given, "times")
        values = np.stack([_column(name, column, len(times)) for name, column in columns.items()], axis=-1)
    measured = np.isfinite(values).any(axis=1)
    if not measured.any():
        raise InputError("problem.nothing_measured", key=("data",))
    if not measured.all():
        times, values = times[measured], values[measured]
    if (times[1:] < times[:-1]).any():
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
    return read_only(times), read_only(values), None


def _observations(given: object) -> dict[str, object]:
    if given is not None and not isinstance(given, Mapping):
        raise InputError("problem.observations_not_mapping", key=("data",), value=given)
    return as_mapping(given, "observations")


def _column(name: str, values: object, count: int) -> np.ndarray:
    """(count,): the values of an observable at the common times."""
    column = number_array(values, "values", name, missing=True)
    if len(column) != count:
        raise InputError("problem.column_length", name, key=("data",), times=count, values=len(column))
    return column


def _planned_rows(given: object, observations: object, planned: object) -> _Rows:
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
    return read_only(times[order]), read_only(values), read_only(table[order])


def _own_samples(name: str, pair: object) -> tuple[np.ndarray, np.ndarray]:
    """The times and values of an observable with its own sampling times."""
    if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
        raise InputError("problem.no_pair", name, key=("data",))
    times = number_array(pair[0], "times", name)
    values = number_array(pair[1], "values", name, missing=True)
    if len(times) != len(values):
        raise InputError("problem.pair_length", name, key=("data",), times=len(times), values=len(values))
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


def _notices(remarks: str | Iterable[str | Notice]) -> tuple[Notice, ...]:
    """Remarks as notices; a user may write them as text."""
    given = [remarks] if isinstance(remarks, str) else remarks
    return tuple(
        one if isinstance(one, Notice) else Notice("problem.remark", one.rstrip(".")) for one in given
    )


def _in_experiment(name: str) -> AbstractContextManager[None]:
    """Name the experiment in every InputError raised inside."""
    return concerning("problem.in_experiment" if name else "problem.in_unnamed_experiment", name)


def _initial(name: str, spec: object) -> InitialValue:
    """A known initial value, the text of a formula, or the Parameter of an unknown one."""
    if is_number(spec):
        return as_number(spec, "initial value", name)
    if isinstance(spec, str):
        with concerning("model.in_initial", name, key=("initial", name)):
            parse(spec)
        return spec
    parameter = as_parameter(name, spec, "initial")
    return parameter if parameter.fixed is None else parameter.fixed


def _covariates(given: object) -> dict[str, float]:
    return {
        name: as_number(value, "covariate", name) for name, value in as_mapping(given, "covariates").items()
    }


def _events(doses: object, resets: Iterable[float], t0: object, first: float) -> dict[str, object]:
    """Doses, resets and t0, which is by default 0, or the first sample or dose if that is earlier."""
    given = as_doses(doses)
    again = tuple(np.unique(number_array(resets, "resets")).tolist())
    begin = min([0.0, first, *(float(one.times[0]) for one in given), *again])
    if t0 is not None:
        begin = as_number(t0, "initial time t0")
    if begin > first:
        raise InputError("problem.late_start", key=("t0",), t0=begin, first=first)
    for one in given:
        if one.times[0] < begin:
            time = float(one.times[0])
            raise InputError("problem.dose_before_start", one.into, key=("doses",), t0=begin, time=time)
    if again and again[0] < begin:
        raise InputError("problem.reset_before_start", key=("resets",), t0=begin, time=again[0])
    return {"doses": given, "resets": again, "t0": begin}


@dataclass(frozen=True)
class LongGap:
    """When the time from t0 to the first sample is suspiciously long, as when t0 is 0 and the samples are years."""

    spans: float = 5  # of the samples; chosen by hand: a delay of a few spans still occurs in practice

    def between(self, t0: float, times: np.ndarray) -> bool:
        return bool(times[0] - t0 > self.spans * (times[-1] - times[0]) > 0)


def runs(owner: np.ndarray) -> list[tuple[int, slice]]:
    """(value, slice) of every run of equal values in an array."""
    if not len(owner):
        return []
    edges = [0, *(np.flatnonzero(owner[1:] != owner[:-1]) + 1).tolist(), len(owner)]
    return [(int(owner[a]), slice(a, b)) for a, b in pairwise(edges)]


def neighbour_noise(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(n - 2,): deviation of each inner sample from the straight line between its neighbours.

    Scaled so that noise of unit variance gives unit variance; the curvature of the signal adds to it.
    """
    span = times[2:] - times[:-2]
    share = np.where(span > 0, (times[1:-1] - times[:-2]) / np.where(span > 0, span, 1.0), 0.5)
    deviation = values[1:-1] - (1 - share) * values[:-2] - share * values[2:]
    return np.asarray(deviation / np.sqrt(1 + share**2 + (1 - share) ** 2))
