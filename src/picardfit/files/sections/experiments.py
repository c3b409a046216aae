"""Data files of a problem file, and what it says about single experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.files.sections.equations import Inputs, read_input
from picardfit.files.sections.parameters import read_initial
from picardfit.files.tables import plain_name, read_table
from picardfit.files.toml_source import Place, Source, kind_of, schema
from picardfit.model.inputs import Input
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter, as_number, is_number
from picardfit.problem.experiment import Experiment, LongGap

FIRST = "first"


@dataclass(frozen=True)
class Condition:
    """What an experiment is made under: for data that exist, and for plans."""

    inputs: dict[str, Input]
    initial: dict[str, object]
    t0: float | str | None  # "first": the first sampling time
    times: tuple[float, ...] = ()
    observables: tuple[str, ...] = ()


def initial_time(t0: float | str | None, times: Sequence[float]) -> float | None:
    """The number meant by t0 where samples are taken at these times."""
    return float(min(times)) if t0 == FIRST else t0


def planned_time(
    name: str, condition: Condition, times: Sequence[float], beside: Sequence[float]
) -> float | None:
    """When the initial state of a plan holds; unsaid and far from 0 (years), at its first time, as for data.

    `beside`: the times of the data. A state that is known must say when it holds.
    """
    if condition.t0 is not None or not LongGap().between(0.0, np.sort([*times, *beside])):
        return initial_time(condition.t0, times)
    first = min(times)
    known = [state for state, value in condition.initial.items() if not isinstance(value, Parameter)]
    if known:
        raise InputError(
            f"Nothing says when `{known[0]}` has its initial value in `{name}`, which begins at {first:g}: "
            f'write t0 = "first" if that is when, or t0 = 0.'
        )
    return first


def read_conditions(
    source: Source, section: str, content: dict, inputs: Inputs, model: Model | None
) -> dict[str, Condition]:
    """The entries of [experiments] or [candidates]."""
    keys = schema()["definitions"]["experiment"]["properties"]
    found = {}
    for name, value in source.table((section,), content.get(section)).items():
        place = (section, name)
        table = source.known(place, source.table(place, value), keys)
        given = source.table((*place, "inputs"), table.get("inputs"))
        for one in given:
            if one not in inputs.names:
                hint = did_you_mean(one, inputs.names)
                source.fault(
                    (*place, "inputs", one),
                    f"`{one}` is not an input ({listing(inputs.names)}): add it to `inputs`.{hint}",
                )
        values = {one: read_input(source, (*place, "inputs", one), spec) for one, spec in given.items()}
        found[name] = Condition(
            inputs={**inputs.values, **{n: v for n, v in values.items() if v is not None}},
            initial=read_initial(source, (*place, "initial"), table.get("initial"), model),
            t0=read_t0(source, (*place, "t0"), table.get("t0", content.get("t0"))),
            times=_times(source, (*place, "times"), table.get("times")),
            observables=_observables(source, (*place, "observables"), table.get("observables"), model),
        )
    return found


def _observables(source: Source, place: Place, given: object, model: Model | None) -> tuple[str, ...]:
    names = tuple(source.texts(place, given) or ())
    for name in names if model is not None else ():
        if name not in model.observables:
            hint = did_you_mean(name, model.observables)
            source.fault(place, f"`{name}` is not an observable ({listing(model.observables)}).{hint}")
    return names


def _times(source: Source, place: Place, given: object) -> tuple[float, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(is_number(one) for one in given):
        source.fault(place, "`times` must be a list of numbers such as [0, 1, 2].")
        return ()
    return tuple(v for one in given if (v := source.attempt(place, as_number, one, "time")) is not None)


def read_t0(source: Source, place: Place, given: object) -> float | str | None:
    """The initial time: a number, "first", or None."""
    if given is None or given == FIRST:
        return given
    if not is_number(given):
        source.fault(place, f't0 is {kind_of(given)}: write a number, or "first" for the first sample.')
        return None
    return source.attempt(place, as_number, given, "initial time t0")


def read_experiments(
    source: Source,
    content: dict,
    inputs: Inputs,
    conditions: dict[str, Condition],
    initial: dict[str, object],
    model: Model | None,
    needs_data: bool,
) -> list[Experiment]:
    """The experiments of the data files, refined by [experiments]; `initial` are the initial states of all."""
    if "data" not in content:
        if needs_data:
            source.fault((), 'There are no data: write data = "counts.csv" with the path of a table.')
        return []
    before = len(source.faults)
    found: list[Experiment] = []
    specs = _data_specs(source, content["data"])
    if not needs_data and not any(_exists(source, spec["file"]) for _, spec in specs):
        return []
    for place, spec in specs:
        found += _read_data(source, place, spec, inputs) or []
    if model is not None:
        found = [_renamed_observables(one, model.observables) for one in found]
    _check_data(source, found, model)
    names = [one.name for one in found]
    complete = len(source.faults) == before
    for name in conditions:
        if complete and name not in names:
            source.fault(
                ("experiments", name),
                f"There is no experiment `{name}` in the data: name one of {listing(names[:12])}."
                + did_you_mean(name, names),
            )
    for name in {name for name in names if names.count(name) > 1}:
        source.fault(
            ("data",), f"Two experiments are called `{name}`: give each file's its own with name = '...'."
        )
    shared = {name: value for name, value in initial.items() if model is None or name in model.states}
    refined = [_refined(source, content, one, inputs, conditions.get(one.name), shared) for one in found]
    _check_inputs(source, [one for one in refined if one is not None], inputs)
    return [one for one in refined if one is not None]


def _data_specs(source: Source, given: object) -> list[tuple[Place, dict[str, object]]]:
    """Every data file with its place and settings."""
    many = given if isinstance(given, list) else [given]
    if not many:
        source.fault(("data",), 'The list of data files is empty: write data = "counts.csv".')
    specs = []
    for k, one in enumerate(many):
        place = ("data", k) if isinstance(given, list) else ("data",)
        if isinstance(one, str):
            specs.append((place, {"file": one}))
        elif isinstance(one, dict):
            spec = source.known(place, one, schema()["definitions"]["data"]["oneOf"][1]["properties"])
            if "file" not in spec:
                source.fault(place, 'There is no data file: write file = "counts.csv".')
            else:
                specs.append((place, spec))
        else:
            source.fault(place, f"The data file is {kind_of(one)}: write its path in quotes.")
    return specs


def _exists(source: Source, file: object) -> bool:
    return isinstance(file, str) and "\0" not in file and (source.path.parent / file).exists()


def _read_data(source: Source, place: Place, spec: dict, inputs: Inputs) -> list[Experiment] | None:
    before = len(source.faults)
    texts = {key: source.text((*place, key), spec[key]) for key in spec if key != "observables"}
    wanted = source.texts((*place, "observables"), spec.get("observables"))
    if len(source.faults) > before:
        return None
    path = source.path.parent / texts["file"]
    if "\0" in texts["file"] or (path.exists() and not path.is_file()):
        source.fault(place, f"`{texts['file']!s:.200}` is not a file: give the path of a table.")
        return None
    options = {"observables": wanted, "time": texts.get("time"), "name": texts.get("name")}
    if "experiment" in texts:
        options["experiment"] = texts["experiment"]
    columns = list(inputs.columns.values())
    found = source.attempt(place, read_table, path, inputs=columns, **options)
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
        source.fault(
            ("data",),
            f"`{name}` is a column of the data but not an observable ({listing(model.observables)}): "
            f"rename the column, add '{name}' = \"...\" to [observables], or list the columns to read in "
            f"observables=[...]." + did_you_mean(name, model.observables),
        )


def _check_inputs(source: Source, experiments: list[Experiment], inputs: Inputs) -> None:
    for name in inputs.names:
        silent = [one.name for one in experiments if name not in one.inputs]
        if silent:
            source.fault(
                ("inputs", name),
                f"Nothing says what the input `{name}` was in {listing(silent[:3])}: write a number, a formula in t "
                f"or a table in [inputs] or in [experiments.'{silent[0]}'.inputs], or add a column of that name.",
            )


def _refined(
    source: Source,
    content: dict,
    one: Experiment,
    inputs: Inputs,
    condition: Condition | None,
    shared: dict[str, object],
) -> Experiment | None:
    """The experiment with the inputs, initial values and t0 that the file gives it."""
    own = source.table(("experiments",), content.get("experiments")).get(one.name) if condition else None
    place, given = ("t0",), content.get("t0")
    if isinstance(own, dict) and "t0" in own:
        place, given = ("experiments", one.name, "t0"), own["t0"]
    known = condition.inputs if condition else inputs.values
    initial = condition.initial if condition else {}
    t0 = initial_time(read_t0(source, place, given), one.times)
    if given is None and LongGap().between(one.t0, one.times):
        t0 = _unsaid_time(source, one, shared, initial)
    return source.attempt(
        place if t0 is not None else ("experiments", one.name),
        Experiment,
        one.times,
        one.observations,
        one.name,
        {**one.inputs, **known},
        initial,
        t0,
        remarks=one.remarks,
    )


def _unsaid_time(source: Source, one: Experiment, shared: dict[str, object], own: dict[str, object]) -> float:
    """The first sample of an experiment whose times are years, say; a state that is known must say when it holds."""
    first = float(one.times[0])
    known = [name for name, value in {**shared, **own}.items() if not isinstance(value, Parameter)]
    if known:
        source.fault(
            ("experiments", one.name, "initial", known[0]) if known[0] in own else ("initial", known[0]),
            f"Nothing says when `{known[0]}` has its initial value, and `{one.name}` begins at {first:g}: "
            f'write t0 = "first" if that is when, or t0 = 0.',
        )
    return first
