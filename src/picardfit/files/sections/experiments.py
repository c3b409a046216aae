"""Data files of a problem file, and what it says about single experiments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError, Key
from picardfit.files.measured_columns import Reading
from picardfit.files.nonmem import read_nonmem
from picardfit.files.sections.doses import (
    given_by_experiments,
    names_by_cell,
    read_covariates,
    read_dose,
    read_doses,
)
from picardfit.files.sections.equations import Inputs, read_input
from picardfit.files.sections.parameters import read_initial
from picardfit.files.sections.times import common_origin, date_of
from picardfit.files.tables import read_experiments_in
from picardfit.files.time_column import TimeSettings
from picardfit.files.toml_source import Source, kind_of, schema
from picardfit.model.doses import Doses
from picardfit.model.inputs import Constant, Input
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter
from picardfit.problem.calendar import Calendar, number_of
from picardfit.problem.columns import plain_name
from picardfit.problem.dates import looks_like_date
from picardfit.problem.experiment import Experiment, LongGap, doses_at_times, resets_at_times
from picardfit.whole_files import sound_path

FIRST = "first"
T = TypeVar("T", date, None, date | None)
NONMEM = "nonmem"
TableReader = Callable[[Path, Reading], list[Experiment]]


@dataclass(frozen=True)
class Condition:
    """Inputs, initial states and t0 of an experiment; times and observables of a planned one."""

    inputs: dict[str, Input]
    initial: Mapping[str, object]
    t0: float | str | date | None  # "first": the first sampling time
    times: tuple[float, ...] = ()
    observables: tuple[str, ...] = ()
    doses: tuple[Doses, ...] = ()
    covariates: Mapping[str, float] = field(default_factory=dict)
    resets: tuple[Any, ...] = ()  # numbers, or dates that await the calendar of the data

    @property
    def signals(self) -> dict[str, Input]:
        """Inputs and covariates."""
        return {**self.inputs, **{name: Constant(value) for name, value in self.covariates.items()}}


def initial_time(t0: float | str | T, times: Iterable[float]) -> float | T:
    """The number meant by t0 where samples are taken at these times; a date and None as they are."""
    return float(min(times)) if isinstance(t0, str) else t0


def planned_time(
    name: str, condition: Condition, times: Collection[float], measured: Collection[float]
) -> float | None:
    """When the initial state of a planned experiment holds; by default at 0, or at its first time if 0 is far away.

    `measured`: the times of the data. Years, say, are far from 0; then a known initial state needs an explicit t0.
    """
    if isinstance(condition.t0, date):
        raise InputError("problem.no_calendar", key=("t0",))
    if condition.t0 is not None or not LongGap().between(0.0, np.sort([*times, *measured])):
        return initial_time(condition.t0, times)
    first = min(times)
    for state in _known(condition.initial):
        raise InputError("files.unsaid_time", state, key=("t0",), experiment=name, first=first)
    return first


def _known(initial: Mapping[str, object]) -> list[str]:
    """The states whose initial value is known: a number or a formula."""
    return [state for state, value in initial.items() if not isinstance(value, Parameter)]


def read_conditions(
    source: Source,
    section: str,
    content: Mapping[str, object],
    common: Condition,
    inputs: Inputs,
    model: Model | None,
    calendar: Calendar | None,
) -> dict[str, Condition]:
    """The entries of [experiments] or [candidates]; `common`: the inputs and t0 of all experiments.

    `calendar`: that of a date as the origin, in which dates of the file count.
    """
    found = {}
    for name, value in source.table((section,), content.get(section)).items():
        key = (section, name)
        table = source.known(key, value, schema()["definitions"]["experiment"]["properties"])
        given = source.table((*key, "inputs"), table.get("inputs"))
        for one in given:
            if one not in inputs.names:
                source.unknown((*key, "inputs", one), "files.unknown_input", one, inputs.names)
        values = {
            one: read_input(source, (*key, "inputs", one), spec, calendar) for one, spec in given.items()
        }
        found[name] = Condition(
            inputs={**common.inputs, **{n: v for n, v in values.items() if v is not None}},
            initial=read_initial(source, (*key, "initial"), table.get("initial"), model),
            t0=read_t0(source, (*key, "t0"), table["t0"], calendar) if "t0" in table else common.t0,
            times=_times(source, (*key, "times"), table.get("times"), calendar),
            observables=_observables(source, (*key, "observables"), table.get("observables"), model),
            doses=read_doses(source, (*key, "doses"), table["doses"], calendar)
            if "doses" in table
            else common.doses,
            covariates=read_covariates(source, (*key, "covariates"), table.get("covariates")),
            resets=_times(source, (*key, "resets"), table.get("resets"), calendar, dates=True),
        )
    return found


def _observables(source: Source, key: Key, given: object, model: Model | None) -> tuple[str, ...]:
    names = tuple(source.texts(key, given) or ())
    for name in names:
        if model is not None and name not in model.observables:
            source.unknown(key, "files.unknown_observable", name, model.observables)
    return names


def _times(
    source: Source, key: Key, given: object, calendar: Calendar | None, dates: bool = False
) -> tuple[Any, ...]:
    """Numbers; with `dates`, also dates that await the calendar of the data."""
    if given is None:
        return ()
    if not isinstance(given, list) or not all(is_number(one) or looks_like_date(one) for one in given):
        source.fault(key, "files.times")
        return ()
    if dates and calendar is None and any(map(looks_like_date, given)):
        return tuple(given)
    found = [source.attempt(key, _time, one, calendar) for one in given]
    return tuple(one for one in found if one is not None)


def _time(given: object, calendar: Calendar | None) -> float:
    return as_number(number_of(given, calendar), "time")


def read_t0(source: Source, key: Key, given: object, calendar: Calendar | None) -> float | str | date | None:
    """The initial time: a number, a date that awaits the calendar of the data, "first", or None."""
    if given is None or given == FIRST:
        return None if given is None else FIRST
    if looks_like_date(given):
        return source.attempt(key, date_of, given, calendar)
    if not is_number(given):
        source.fault(key, "files.t0", kind=kind_of(given))
        return None
    return source.attempt(key, as_number, given, "initial time t0")


def read_experiments(
    source: Source,
    content: Mapping[str, object],
    common: Condition,
    inputs: Inputs,
    conditions: Mapping[str, Condition],
    known: tuple[str, ...] | None,
    needs_data: bool,
    times: TimeSettings,
    others: bool = False,
    reader: TableReader = read_experiments_in,
) -> list[Experiment]:
    """The experiments of the data files under the `conditions` of [experiments], or else those `common` to all.

    `known`: the columns that the problem uses, which are observables and numbers of trials; None without a model.
    `others`: the files replace those of the problem file, so that its conditions may be about experiments not there.
    `reader`: what reads a table.
    """
    if "data" not in content:
        if needs_data:
            source.fault((), "files.no_data")
        return []
    before = len(source.faults)
    specs = _data_specs(source, content["data"])
    if not needs_data and not any(_exists(source, spec["file"]) for _, spec in specs):
        return []
    columns = source.texts(("covariates",), content.get("covariates")) or []
    columns = [name for name in columns if name not in given_by_experiments(content)]
    found = [
        one
        for key, spec in specs
        for one in _read_data(source, key, spec, inputs, columns, known, times, reader)
    ]
    found = common_origin(found, times)
    names = [one.name for one in found]
    complete = len(source.faults) == before
    for name in conditions:
        if complete and not others and name not in names:
            source.unknown(("experiments", name), "files.experiment_not_in_data", name, names)
    for name in {name for name in names if names.count(name) > 1}:
        source.fault(("data",), "files.two_experiments", name)
    refined = [_refined(source, one, common, conditions.get(one.name)) for one in found]
    experiments = [one for one in refined if one is not None]
    _check_inputs(source, experiments, inputs)
    return experiments


def with_other_data(content: Mapping[str, object], files: Sequence[Path]) -> dict[str, object]:
    """The content of a problem file with other data files, which are read with the settings of its first one."""
    given = content.get("data")
    first = given[0] if isinstance(given, list) and given else given
    settings = {name: one for name, one in first.items() if name != "name"} if isinstance(first, dict) else {}
    specs = [{**settings, "file": str(file.resolve())} for file in files]
    return {**{name: one for name, one in content.items() if name not in ("truth", "fit")}, "data": specs}


def _data_specs(source: Source, given: object) -> list[tuple[Key, dict[str, object]]]:
    """Every data file with its key and settings."""
    many = given if isinstance(given, list) else [given]
    if not many:
        source.fault(("data",), "files.no_data_files")
    specs: list[tuple[Key, dict[str, object]]] = []
    for k, one in enumerate(many):
        key: Key = ("data", k) if isinstance(given, list) else ("data",)
        if isinstance(one, str):
            specs.append((key, {"file": one}))
        elif isinstance(one, dict):
            spec = source.known(key, one, schema()["definitions"]["data"]["oneOf"][1]["properties"])
            if "file" not in spec:
                source.fault(key, "files.no_data_file")
            else:
                specs.append((key, spec))
        else:
            source.fault(key, "files.data_kind", kind=kind_of(one))
    return specs


def _exists(source: Source, file: object) -> bool:
    try:
        return isinstance(file, str) and sound_path(source.path.parent / file).exists()
    except InputError:
        return False


LISTED = ("observables", "covariates", "doses", "dose")  # settings of a data file that are no texts


def _read_data(
    source: Source,
    key: Key,
    spec: dict,
    inputs: Inputs,
    covariates: Sequence[str],
    known: tuple[str, ...] | None,
    times: TimeSettings,
    reader: TableReader,
) -> list[Experiment]:
    before = len(source.faults)
    texts: dict[str, Any] = {n: source.text((*key, n), spec[n]) for n in spec if n not in LISTED}
    nonmem = "doses" in spec or texts.pop("format", None) == NONMEM
    listed = None if nonmem else source.texts((*key, "observables"), spec.get("observables"))
    numbered = names_by_cell(source, (*key, "observables"), spec.get("observables")) if nonmem else None
    doses = names_by_cell(source, (*key, "doses"), spec.get("doses"))
    constants = [*covariates, *(source.texts((*key, "covariates"), spec.get("covariates")) or ())]
    dose = read_dose(source, (*key, "dose"), spec.get("dose"))
    others = (
        [n for n in spec if n == "dose" or (n in texts and n not in ("file", "format"))] if nonmem else []
    )
    if others:
        source.fault((*key, others[0]), "files.nonmem_setting", others[0])
    if len(source.faults) > before:
        return []
    file = texts.pop("file") or ""
    path = source.path.parent / file
    columns, constants = tuple(inputs.columns.values()), list(dict.fromkeys(constants))
    chosen = None if listed is None else tuple(listed)
    try:
        if sound_path(path).exists() and not path.is_file():
            raise InputError("files.data_not_a_file", file)
        if nonmem:
            found = read_nonmem(
                path,
                doses=doses,
                observables=numbered,
                covariates=constants,
                inputs=columns,
                date_order=times.order,
            )
        else:
            reading = Reading(
                **texts,
                inputs=columns,
                observables=chosen,
                times=times,
                known=known,
                covariates=tuple(constants),
                dose=dose,
            )
            found = reader(path, reading)
    except InputError as error:
        source.complain(_of_input(error, inputs), key)
        return []
    return [_renamed_inputs(one, inputs) for one in found]


def _of_input(error: InputError, inputs: Inputs) -> InputError:
    """An error about the column of an input, with the key of the input that names this column."""
    match error.place.key:
        case ("inputs", column):
            return error.at(key=("inputs", next(n for n, one in inputs.columns.items() if one == column)))
    return error


def _renamed_inputs(one: Experiment, inputs: Inputs) -> Experiment:
    """Input columns under the names of the inputs (a column is found without regard to case)."""
    own = {plain_name(column): signal for column, signal in one.inputs.items()}
    return replace(one, inputs={name: own[plain_name(column)] for name, column in inputs.columns.items()})


def _check_inputs(source: Source, experiments: list[Experiment], inputs: Inputs) -> None:
    for name in inputs.names:
        silent = [
            one.name
            for one in experiments
            if name not in one.inputs and not source.faulty(("experiments", one.name, "inputs", name))
        ]
        if source.faulty(("inputs", name)):
            continue
        if silent:
            source.fault(("inputs", name), "files.no_input", name, experiments=silent, first=silent[0])


def _refined(source: Source, one: Experiment, common: Condition, own: Condition | None) -> Experiment | None:
    """The experiment with the inputs, initial values and t0 that the file gives it.

    Where nothing gives t0 and the times are far from 0 (years), it is the first of them; then a known initial state
    without its time is a fault.
    """
    condition = common if own is None else own
    initial = {} if own is None else own.initial  # Problem adds those of all experiments
    t0 = initial_time(condition.t0, one.times)
    key = ("experiments", one.name)
    assumed = t0 is None and one.assumed_t0
    doses = source.attempt(key, doses_at_times, condition.doses, one.calendar)
    resets = source.attempt((*key, "resets"), resets_at_times, condition.resets, one.calendar)
    if doses is None or resets is None:
        return None
    doses = doses or one.doses
    dosed = [float(dose.times[0]) for dose in doses]
    if t0 is None and one.calendar is not None:
        t0 = min([one.t0, *dosed, *resets])
    if t0 is None and not one.assumed_t0 and (one.doses or one.resets or one.rest is not None):
        t0 = one.t0  # the first row of a table of NONMEM
    if t0 is None and LongGap().between(one.t0, one.times):
        t0 = min([float(one.times[0]), *dosed])
        for state in _known({**common.initial, **initial})[:1]:
            source.fault(("initial", state), "files.unsaid_time", state, experiment=one.name, first=t0)
    inputs = {**one.inputs, **condition.inputs}
    given = {
        "doses": doses,
        "assumed_t0": assumed,
        "covariates": {**one.covariates, **condition.covariates},
        "resets": resets or one.resets,
    }
    return source.attempt(key, replace, one, inputs=inputs, initial=initial, t0=t0, **given)
