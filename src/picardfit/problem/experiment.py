"""Experiments: what was measured when, and under which inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from picardfit.model.number_arrays import as_given, measurements, number_array, read_only
from picardfit.model.parameters import Parameter, as_parameter
from picardfit.problem.calendar import (
    Calendar,
    GivenSamples,
    dated,
    number_of,
    table_of_dates,
    time_texts,
    times_of,
    without_dates,
)

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

    `times`: n numbers or dates, or None when each observable brings its own pair (times, values).
    `observations`: observable -> n values; NaN, None or "" is "not measured", and texts are censored values: "<0.25",
    ">1000", "0.1..0.25" (between the two).
    `inputs`: input -> number, formula text in t, (times, values) table or function.
    `initial`: state -> number (known), text (formula of parameters), Parameter or (lower, upper) (unknown).
    `t0`: when the initial state holds; None is 0, or the first sample if that is earlier or if times are dates.
    `planned`: (n, k) True where something will be measured, for an experiment that is still to be done; its
    observations are all NaN. `pf.plan` makes such experiments.
    `rest`: the steady state before the experiment; `initial` then names only the states that were reset.
    `remarks`: what was left out when the data were read; a fit repeats them among its warnings.
    `calendar`: which date time 0 is, and the unit of time. Dates become times of this calendar; without one they
    count in days from the first of them. With numbers as times it says which dates they are.
    `table`: the name of the table whose columns the observables are, or "" without a name; a problem ignores columns
    that its model does not have. None where the user named the observables.
    `doses`: one pf.Doses or several: amounts added to states; those at exactly t0 are added to the initial state.
    `covariates`: name -> number: constants of this experiment, such as a weight, that formulas may use.
    `resets`: times at which all states return to their initial values, before any dose at that time.

    After construction, `times` (n,) is sorted, repeated measurements have rows of their own, rows without a number are
    dropped, `values` (n, k) is NaN where nothing was measured, and all arrays are read-only. Where values are censored,
    `limits` (n, k, 2) has their lower and upper limit (else it is None), `values` half an upper limit, a lower limit or
    the middle of both, and `observations` the texts.
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
    calendar: Calendar | None
    table: str | None
    doses: tuple[Doses, ...]
    covariates: dict[str, float]
    resets: tuple[float, ...]
    observables: tuple[str, ...] = field(init=False)
    values: np.ndarray = field(init=False)
    limits: np.ndarray | None = field(init=False)

    def __init__(
        self,
        times: Iterable[object] | None,
        observations: Mapping[str, object],
        name: str | int = "",
        inputs: Mapping[str, object] | None = None,
        initial: Mapping[str, object] | None = None,
        t0: object = None,
        planned: object = None,
        rest: Rest | None = None,
        remarks: str | Iterable[str | Notice] = (),
        calendar: Calendar | None = None,
        table: str | None = None,
        doses: Doses | Iterable[Doses] | None = None,
        covariates: Mapping[str, object] | None = None,
        resets: Iterable[float] = (),
    ) -> None:
        if not isinstance(name, (str, int)) or isinstance(name, bool):
            raise InputError("problem.experiment_name", value=name)
        title = str(name)
        with _in_experiment(title):
            if not isinstance(calendar, Calendar | None):
                raise InputError("problem.not_a_calendar", value=calendar)
            given = without_dates(times, observations, calendar)
            rows, values, limits, sampled = (
                _rows(given.times, given.observations)
                if planned is None
                else _planned_rows(given.times, given.observations, planned)
            )
            checked: dict[str, object] = {
                "inputs": {
                    n: as_input(n, table_of_dates(spec, given.calendar))
                    for n, spec in as_mapping(inputs, "inputs").items()
                },
                "initial": {n: _initial(n, spec) for n, spec in as_mapping(initial, "initial").items()},
                "covariates": _covariates(covariates),
                **_events(doses, resets, t0, float(rows[0]), given),
            }
            if not isinstance(rest, Rest | None):
                raise InputError("problem.not_a_rest", value=rest)
        checked |= {
            "times": rows,
            "observations": {
                observable: as_given(values[:, k], None if limits is None else limits[:, k])
                for k, observable in enumerate(observations)
            },
            "observables": tuple(observations),
            "values": values,
            "limits": limits,
            "name": title,
            "planned": sampled,
            "rest": rest,
            "remarks": _notices(remarks),
            "calendar": given.calendar,
            "table": table,
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
        more = (self.planned, self.rest, self.remarks, self.calendar, self.table)
        return Experiment, (*observed, *more, self.doses, self.covariates, self.resets)

    @property
    def sampled(self) -> np.ndarray:
        """(n, k) bool: where something was measured, or will be."""
        return np.isfinite(self.values) if self.planned is None else self.planned

    def time_texts(self, times: np.ndarray, digits: int = 6) -> list[str]:
        """Times for people: as dates where the experiment has a calendar, else with this number of digits."""
        return time_texts(times, self.calendar, digits)

    def times_at(self, times: object) -> object:
        """Dates as times of this experiment; anything else as it is."""
        with _in_experiment(self.name):
            if not isinstance(times, Iterable) or isinstance(times, str):
                return number_of(times, self.calendar)
            return times_of(times, self.calendar)

    def __repr__(self) -> str:
        distinct, counts = len(np.unique(self.times)), self.sampled.sum(axis=0)
        first, last = self.time_texts(self.times[[0, -1]])
        span = f"{distinct} times from {first} to {last}" if distinct > 1 else f"1 time, {first}"
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
    t0: object = None,
    calendar: Calendar | None = None,
    doses: Doses | Iterable[Doses] | None = None,
    covariates: Mapping[str, object] | None = None,
) -> Experiment:
    """An experiment still to be done, for `pf.structural` and `pf.design`: when and what will be measured.

    `times`: n numbers or dates, with `observables` the names of what is measured at each of them; or None, with
    `observables` a mapping name -> its own times. The other arguments are those of `pf.Experiment`.
    """
    if isinstance(observables, str):
        raise InputError("problem.plan_text", value=observables)
    if times is None:
        own = {n: number_array(t, "times", n) for n, t in as_mapping(observables, "observables").items()}
        if not any(len(t) for t in own.values()):
            raise InputError("problem.plan_no_times")
        rows, marks = _merged({n: (t, np.ones((len(t), 1))) for n, t in own.items()})
        names, sampled = list(own), np.isfinite(marks[..., 0])
    else:
        names = list(as_mapping(dict.fromkeys(observables), "observables"))
        times = list(times) if isinstance(times, Iterator) else times
        numbers, calendar = dated(times, calendar)
        rows = number_array(numbers, "times")
        if numbers is not times and t0 is None:
            t0 = min([float(rows.min()), *(float(one.times[0]) for one in as_doses(doses))])
        sampled = np.ones((len(rows), len(names)), bool)
    nothing = {n: np.full(len(rows), nan) for n in names}
    return Experiment(
        rows,
        nothing,
        name,
        inputs,
        initial,
        t0,
        sampled,
        calendar=calendar,
        doses=doses,
        covariates=covariates,
    )


def replanned(one: Experiment, times: Mapping[str, object]) -> Experiment:
    """An experiment as a plan, in which each observable has its own times."""
    made = plan(None, times, t0=one.t0)
    return replace(one, times=made.times, observations=made.observations, planned=made.planned, remarks=())


# times (n,), values (n, k), limits (n, k, 2) or None, planned (n, k) or None
_Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


def _rows(given: object, observations: object) -> _Rows:
    """The samples of an experiment that was done, sorted by time, without rows where nothing was measured."""
    columns = _observations(observations)
    if not columns:
        raise InputError("problem.no_observations", key=("data",))
    if given is None:
        times, cells = _merged({name: _own_samples(name, pair) for name, pair in columns.items()})
    else:
        times = number_array(given, "times")
        cells = np.stack([_column(name, column, len(times)) for name, column in columns.items()], axis=1)
    values = np.ascontiguousarray(cells[..., 0])
    limits = None if np.isnan(cells[..., 1]).all() else np.ascontiguousarray(cells[..., 1:])
    measured = np.isfinite(values).any(axis=1)
    if not measured.any():
        raise InputError("problem.nothing_measured", key=("data",))
    order = np.flatnonzero(measured)
    if (times[1:] < times[:-1]).any():
        order = order[np.argsort(times[order], kind="stable")]
    return (
        read_only(times[order]),
        read_only(values[order]),
        None if limits is None else read_only(limits[order]),
        None,
    )


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


def _merged(samples: dict[str, tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
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


def _events(
    doses: object, resets: Iterable[object], given_t0: object, first: float, samples: GivenSamples
) -> dict[str, object]:
    """Doses, resets and t0: by default 0, or the first sample, dose or reset if that is earlier.

    Dates have no natural zero: there t0 is the first of these by default.
    """
    given, calendar = as_doses(doses), samples.calendar
    again = tuple(np.unique(number_array(times_of(list(resets), calendar), "resets")).tolist())
    begin = min([first, *(float(one.times[0]) for one in given), *again])
    begin = begin if samples.had_dates else min(0.0, begin)
    if given_t0 is not None:
        begin = as_number(number_of(given_t0, calendar, ("t0",)), "initial time t0")
    if begin > first:
        late, sample = time_texts(np.array([begin, first]), calendar)
        raise InputError("problem.late_start", key=("t0",), t0=late, first=sample)
    for one in given:
        if one.times[0] < begin:
            t0, time = time_texts(np.array([begin, one.times[0]]), calendar)
            raise InputError("problem.dose_before_start", one.into, key=("doses",), t0=t0, time=time)
    if again and again[0] < begin:
        t0, time = time_texts(np.array([begin, again[0]]), calendar)
        raise InputError("problem.reset_before_start", key=("resets",), t0=t0, time=time)
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
