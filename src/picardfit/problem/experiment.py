"""Experiments: what was measured when, and under which inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from itertools import pairwise
from math import nan
from unicodedata import category

import numpy as np

from picardfit.checks import as_mapping, as_number
from picardfit.display.hook import shown
from picardfit.errors import InputError, Notice, concerning
from picardfit.model.doses import Doses, Signals, as_doses, infusion_rates
from picardfit.model.inputs import Constant, Input, as_input, check_finite, values_at
from picardfit.model.number_arrays import as_given, lost_values, number_array
from picardfit.problem.calendar import (
    Calendar,
    GivenSamples,
    dated,
    dates_as_times,
    number_of,
    table_of_dates,
    time_texts,
    times_of,
    without_dates,
)
from picardfit.problem.rest import InitialValue, Rest, initial_value
from picardfit.problem.sample_rows import SampleLines, measured_rows, merged, planned_rows, without_lost


@shown
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Experiment:
    """One run of the system: n sampling rows of k observables, its inputs, its initial state.

    `times`: n numbers or dates, or None when each observable brings its own pair (times, values).
    `observations`: observable -> n values; NaN, None or "" is "not measured", and texts are censored values: "<0.25",
    ">1000", "0.1..0.25" (between the two). "?" is a count that was taken and lost: the next one begins there.
    `inputs`: input -> number, formula text in t, (times, values) table or function.
    `initial`: state -> number (known), text (formula of parameters and states), Parameter or (lower, upper) (unknown).
    `t0`: when the initial state holds; None is 0, or the first sample if that is earlier or if times are dates.
    `planned`: (n, k) True where something will be measured, for an experiment that is still to be done; its
    observations are all NaN. `pf.plan` makes such experiments.
    `rest`: the steady state before the experiment; `initial` then names only the states that were reset.
    `remarks`: what was left out when the data were read; a fit repeats them among its warnings.
    `calendar`: which date time 0 is, and the unit of time. Dates become times of this calendar; without one they
    count in days from the first of them. With numbers as times it says which dates they are.
    `table`: the name of the table whose columns the observables are, or "" without a name; a problem ignores columns
    that its model does not have. None where the user named the observables.
    `doses`: one pf.Doses or several: amounts added to states; those at exactly t0 are added to the initial state. Their
    times may be dates where those of the experiment are.
    `covariates`: name -> number: constants of this experiment, such as a weight, that formulas may use.
    `resets`: times at which all states return to their initial values, before any dose at that time.
    `assumed_t0`: nobody said what t0 is; a problem with increments may then move it before the first count.
    `lines`: where the measurements stand in a table, for messages about them.

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
    assumed_t0: bool
    lines: SampleLines | None
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
        resets: Iterable[object] = (),
        assumed_t0: bool = False,
        lines: SampleLines | None = None,
    ) -> None:
        if not isinstance(name, (str, int)) or isinstance(name, bool):
            raise InputError("problem.experiment_name", value=name)
        title = str(name)
        if not (fits := FittingName()).allows(title):
            raise InputError("problem.experiment_name_unfit", value=title, most=fits.most)
        with _in_experiment(title):
            if not isinstance(calendar, Calendar | None):
                raise InputError("problem.not_a_calendar", value=calendar)
            given = without_dates(times, observations, calendar)
            rows, values, limits, sampled = (
                measured_rows(given.times, given.observations)
                if planned is None
                else planned_rows(given.times, given.observations, planned)
            )
            checked: dict[str, object] = {
                "inputs": {
                    n: as_input(n, table_of_dates(spec, given.calendar))
                    for n, spec in as_mapping(inputs, "inputs").items()
                },
                "initial": {n: initial_value(n, spec) for n, spec in as_mapping(initial, "initial").items()},
                "covariates": _covariates(covariates),
                **_events(doses, resets, t0, rows, given),
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
            "limits": without_lost(limits),
            "name": title,
            "planned": sampled,
            "rest": rest,
            "remarks": (*_notices(remarks), *_early_events(title, checked["t0"], t0, float(rows[0]), given)),
            "calendar": given.calendar,
            "table": table,
            "assumed_t0": assumed_t0 or t0 is None,
            "lines": lines,
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
        given = (
            self.doses,
            self.covariates,
            self.resets,
            self.assumed_t0,
        )  # lines help only to build a problem
        return Experiment, (*observed, *more, *given)

    def located(self, error: InputError, observable: str, row: int) -> InputError:
        """An error about the measurement of an observable in a row, with its line in the table where that is known."""
        if self.lines is None or observable not in self.observables:
            return error
        there = np.isfinite(self.values[:, self.observables.index(observable)]) & (
            self.times == self.times[row]
        )
        return self.lines.at(error, observable, float(self.times[row]), int(there[:row].sum()))

    @property
    def sampled(self) -> np.ndarray:
        """(n, k) bool: where something was measured, or will be."""
        return np.isfinite(self.values) if self.planned is None else self.planned

    @property
    def counted(self) -> np.ndarray:
        """(n, k) bool: where something was measured, or will be, or a count was taken and lost (`?`)."""
        lost = np.stack([lost_values(self.observations[name]) for name in self.observables], axis=1)
        return np.asarray(self.sampled | lost)

    def count_times(self, observable: str) -> np.ndarray:
        """The distinct times at which an observable was counted; all times if it was not.

        An increment at one of them is since the one before.
        """
        if observable not in self.observables:
            return np.unique(self.times)
        return np.unique(self.times[self.counted[:, self.observables.index(observable)]])

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
        measured += [one.describe(self.time_texts(one.times[[0, -1]])) for one in self.doses]
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
        rows, marks = merged({n: (t, np.ones((len(t), 1))) for n, t in own.items()})
        names, sampled = list(own), np.isfinite(marks[..., 0])
    else:
        names = list(as_mapping(dict.fromkeys(observables), "observables"))
        times = list(times) if isinstance(times, Iterator) else times
        numbers, calendar = dated(times, calendar)
        rows = number_array(numbers, "times")
        if numbers is not times and t0 is None:
            doses = doses_at_times(doses, calendar)
            t0 = min([float(rows.min()), *(float(one.times[0]) for one in doses)])
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


def _notices(remarks: str | Iterable[str | Notice]) -> tuple[Notice, ...]:
    """Remarks as notices; a user may write them as text."""
    given = [remarks] if isinstance(remarks, str) else remarks
    return tuple(
        one if isinstance(one, Notice) else Notice("problem.remark", one.rstrip(".")) for one in given
    )


def _in_experiment(name: str) -> AbstractContextManager[None]:
    """Name the experiment in every InputError raised inside."""
    return concerning("problem.in_experiment" if name else "problem.in_unnamed_experiment", name)


def _covariates(given: object) -> dict[str, float]:
    return {
        name: as_number(value, "covariate", name) for name, value in as_mapping(given, "covariates").items()
    }


def _events(
    doses: object, resets: Iterable[object], given_t0: object, rows: np.ndarray, samples: GivenSamples
) -> dict[str, object]:
    """Doses, resets and t0: by default 0, or the first sample (of `rows`), dose or reset if that is earlier.

    Dates have no natural zero: there t0 is the first of these by default.
    """
    calendar, first = samples.calendar, float(rows[0])
    given = doses_at_times(doses, calendar)
    again = resets_at_times(resets, calendar)
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
    brief = ShortInfusion().share * (float(rows[-1]) - begin)
    return {"doses": tuple(one.at_once_if_below(brief) for one in given), "resets": again, "t0": begin}


def doses_at_times(doses: object, calendar: Calendar | None) -> tuple[Doses, ...]:
    """The doses with times of a calendar in place of dates."""
    return tuple(
        one
        if one.dates is None
        else one.at_times(dates_as_times(one.dates, calendar, "times of doses", ("doses",)))
        for one in as_doses(doses, dates=True)
    )


def resets_at_times(resets: Iterable[object], calendar: Calendar | None) -> tuple[float, ...]:
    """The times of resets as ascending numbers, with times of a calendar in place of dates."""
    given = [resets] if isinstance(resets, (int, float, str, date)) else list(resets)
    return tuple(np.unique(number_array(times_of(given, calendar), "resets")).tolist())


def _early_events(
    name: str, t0: object, given_t0: object, first: float, samples: GivenSamples
) -> tuple[Notice, ...]:
    """The remark that a dose or reset before 0 and before all samples moved t0, which nobody gave."""
    moved = isinstance(t0, float) and t0 < min(0.0, first)
    if given_t0 is not None or samples.had_dates or not moved:
        return ()
    return (Notice("problem.early_dose", name, {"t0": t0}),)


@dataclass(frozen=True)
class FittingName:
    """Which names of experiments fit into tables, pictures and messages: one line, not too long."""

    most: int = 200  # characters; chosen, four times a long heading

    def allows(self, name: str) -> bool:
        return len(name) <= self.most and not any(category(one) == "Cc" for one in name)


@dataclass(frozen=True)
class ShortInfusion:
    """When an infusion is too short for a mesh of its own: it is then given at once."""

    share: float = (
        1e-10  # of the time from t0 to the last sample; knots closer than about 1e-13 of it are one
    )


@dataclass(frozen=True)
class LongGap:
    """When the time from t0 to the first sample is suspiciously long, as when t0 is 0 and the samples are years."""

    spans: float = 5  # of the samples; chosen by hand: a delay of a few spans still occurs in practice

    def between(self, t0: float, times: np.ndarray) -> bool:
        span = times[-1] - times[0]
        return bool(span > 0 and (times[0] - t0) / self.spans > span)


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
