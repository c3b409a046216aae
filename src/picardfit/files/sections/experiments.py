"""Data files of a problem file, and what it says about single experiments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError, Key, closest
from picardfit.files.sections.equations import Inputs, read_input
from picardfit.files.sections.parameters import read_initial
from picardfit.files.tables import plain_name, read_table
from picardfit.files.toml_source import Source, kind_of, schema
from picardfit.model.inputs import Input
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter
from picardfit.problem.experiment import Experiment, LongGap

FIRST = "first"


@dataclass(frozen=True)
class Condition:
    """Under what conditions an experiment is made, one with data or a planned one."""

    inputs: dict[str, Input]
    initial: Mapping[str, object]
    t0: float | str | None  # "first": the first sampling time
    times: tuple[float, ...] = ()
    observables: tuple[str, ...] = ()


def initial_time(t0: float | str | None, times: Iterable[float]) -> float | None:
    """The number meant by t0 where samples are taken at these times."""
    return float(min(times)) if isinstance(t0, str) else t0


def planned_time(
    name: str, condition: Condition, times: Collection[float], beside: Collection[float]
) -> float | None:
    """When the initial state of a plan holds; unsaid and far from 0 (years), at its first time, as for data.

    `beside`: the times of the data. A state that is known must say when it holds.
    """
    if condition.t0 is not None or not LongGap().between(0.0, np.sort([*times, *beside])):
        return initial_time(condition.t0, times)
    first = min(times)
    known = [state for state, value in condition.initial.items() if not isinstance(value, Parameter)]
    if known:
        raise InputError("files.unsaid_time", known[0], key=("t0",), experiment=name, first=first)
    return first


def read_conditions(
    source: Source, section: str, content: Mapping[str, object], inputs: Inputs, model: Model | None
) -> dict[str, Condition]:
    """The entries of [experiments] or [candidates]."""
    keys = schema()["definitions"]["experiment"]["properties"]
    found = {}
    for name, value in source.table((section,), content.get(section)).items():
        key = (section, name)
        table = source.known(key, source.table(key, value), keys)
        given = source.table((*key, "inputs"), table.get("inputs"))
        for one in given:
            if one not in inputs.names:
                close = closest(one, inputs.names)
                source.fault(
                    (*key, "inputs", one), "files.unknown_input", one, known=inputs.names, close=close
                )
        values = {one: read_input(source, (*key, "inputs", one), spec) for one, spec in given.items()}
        found[name] = Condition(
            inputs={**inputs.values, **{n: v for n, v in values.items() if v is not None}},
            initial=read_initial(source, (*key, "initial"), table.get("initial"), model),
            t0=read_t0(source, (*key, "t0"), table.get("t0", content.get("t0"))),
            times=_times(source, (*key, "times"), table.get("times")),
            observables=_observables(source, (*key, "observables"), table.get("observables"), model),
        )
    return found


def _observables(source: Source, key: Key, given: object, model: Model | None) -> tuple[str, ...]:
    names = tuple(source.texts(key, given) or ())
    known = names if model is None else model.observables
    for name in names:
        if name not in known:
            source.fault(key, "files.unknown_observable", name, known=known, close=closest(name, known))
    return names


def _times(source: Source, key: Key, given: object) -> tuple[float, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(is_number(one) for one in given):
        source.fault(key, "files.times")
        return ()
    return tuple(v for one in given if (v := source.attempt(key, as_number, one, "time")) is not None)


def read_t0(source: Source, key: Key, given: object) -> float | str | None:
    """The initial time: a number, "first", or None."""
    if given is None or given == FIRST:
        return None if given is None else FIRST
    if not is_number(given):
        source.fault(key, "files.t0", kind=kind_of(given))
        return None
    return source.attempt(key, as_number, given, "initial time t0")


def read_experiments(
    source: Source,
    content: Mapping[str, object],
    inputs: Inputs,
    conditions: dict[str, Condition],
    initial: dict[str, object],
    model: Model | None,
    needs_data: bool,
) -> list[Experiment]:
    """The experiments of the data files, refined by [experiments]; `initial` are the initial states of all."""
    if "data" not in content:
        if needs_data:
            source.fault((), "files.no_data")
        return []
    before = len(source.faults)
    found: list[Experiment] = []
    specs = _data_specs(source, content["data"])
    if not needs_data and not any(_exists(source, spec["file"]) for _, spec in specs):
        return []
    for key, spec in specs:
        found += _read_data(source, key, spec, inputs) or []
    if model is not None:
        found = [_renamed_observables(one, model.observables) for one in found]
    _check_data(source, found, model)
    names = [one.name for one in found]
    complete = len(source.faults) == before
    for name in conditions:
        if complete and name not in names:
            close = closest(name, names)
            source.fault(
                ("experiments", name), "files.experiment_not_in_data", name, known=names, close=close
            )
    for name in {name for name in names if names.count(name) > 1}:
        source.fault(("data",), "files.two_experiments", name)
    shared = {name: value for name, value in initial.items() if model is None or name in model.states}
    refined = [_refined(source, content, one, inputs, conditions.get(one.name), shared) for one in found]
    _check_inputs(source, [one for one in refined if one is not None], inputs)
    return [one for one in refined if one is not None]


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
    return isinstance(file, str) and "\0" not in file and (source.path.parent / file).exists()


def _read_data(source: Source, key: Key, spec: dict, inputs: Inputs) -> list[Experiment] | None:
    before = len(source.faults)
    texts = {key: source.text((*key, key), spec[key]) for key in spec if key != "observables"}
    wanted = source.texts((*key, "observables"), spec.get("observables"))
    if len(source.faults) > before:
        return None
    file = texts["file"] or ""
    path = source.path.parent / file
    if "\0" in file or (path.exists() and not path.is_file()):
        source.fault(key, "files.data_not_a_file", file)
        return None
    options: dict[str, object] = {
        "observables": wanted,
        "time": texts.get("time"),
        "name": texts.get("name"),
    }
    if "experiment" in texts:
        options["experiment"] = texts["experiment"]
    columns = list(inputs.columns.values())
    found = source.attempt(key, read_table, path, inputs=columns, **options)
    return found and [_renamed_inputs(one, inputs) for one in found]


def _renamed_inputs(one: Experiment, inputs: Inputs) -> Experiment:
    """Input columns under the names of the inputs (a column is found without regard to case)."""
    own = {plain_name(column): signal for column, signal in one.inputs.items()}
    return replace(one, inputs={name: own[plain_name(column)] for name, column in inputs.columns.items()})


def _renamed_observables(one: Experiment, names: Sequence[str]) -> Experiment:
    """Columns under the names of the observables where only case, blanks or a unit differ, and no other comes near."""
    columns, known = ([plain_name(name) for name in several] for several in (one.observables, names))

    def renamed(column: str) -> str:
        plain = plain_name(column)
        alone = column not in names and columns.count(plain) == known.count(plain) == 1
        return names[known.index(plain)] if alone else column

    observations = {renamed(column): values for column, values in one.observations.items()}
    return one if list(observations) == list(one.observables) else replace(one, observations=observations)


def _check_data(source: Source, experiments: list[Experiment], model: Model | None) -> None:
    if model is None:
        return
    strange = dict.fromkeys(n for one in experiments for n in one.observables if n not in model.observables)
    for name in strange:
        close = closest(name, model.observables)
        source.fault(("data",), "files.column_not_observed", name, known=model.observables, close=close)


def _check_inputs(source: Source, experiments: list[Experiment], inputs: Inputs) -> None:
    for name in inputs.names:
        silent = [one.name for one in experiments if name not in one.inputs]
        if silent:
            source.fault(("inputs", name), "files.no_input", name, experiments=silent, first=silent[0])


def _refined(
    source: Source,
    content: Mapping[str, object],
    one: Experiment,
    inputs: Inputs,
    condition: Condition | None,
    shared: dict[str, object],
) -> Experiment | None:
    """The experiment with the inputs, initial values and t0 that the file gives it."""
    own = source.table(("experiments",), content.get("experiments")).get(one.name) if condition else None
    key: Key = ("t0",)
    given = content.get("t0")
    if isinstance(own, dict) and "t0" in own:
        key, given = ("experiments", one.name, "t0"), own["t0"]
    known = condition.inputs if condition else inputs.values
    initial = condition.initial if condition else {}
    t0 = initial_time(read_t0(source, key, given), one.times)
    if given is None and LongGap().between(one.t0, one.times):
        t0 = _unsaid_time(source, one, shared, initial)
    return source.attempt(
        key if t0 is not None else ("experiments", one.name),
        Experiment,
        one.times,
        one.observations,
        one.name,
        {**one.inputs, **known},
        initial,
        t0,
        remarks=one.remarks,
    )


def _unsaid_time(
    source: Source, one: Experiment, shared: Mapping[str, object], own: Mapping[str, object]
) -> float:
    """The first sampling time, for times such as years; a known initial state without its time is a fault."""
    first = float(one.times[0])
    known = [name for name, value in {**shared, **own}.items() if not isinstance(value, Parameter)]
    if known:
        key: Key = (
            ("experiments", one.name, "initial", known[0]) if known[0] in own else ("initial", known[0])
        )
        source.fault(key, "files.unsaid_time", known[0], experiment=one.name, first=first)
    return first
