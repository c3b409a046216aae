"""The model of a problem file: equations, observables, inputs and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from picardfit.errors import InputError, Key, concerning
from picardfit.files.toml_source import Source, kind_of
from picardfit.formulas.equations import equation_faults
from picardfit.formulas.grammar import parse
from picardfit.model.inputs import Input, Table, as_input
from picardfit.model.model import Model, inside_increment
from picardfit.problem.calendar import Calendar, times_of

EQUATIONS: Key = ("equations",)


@dataclass(frozen=True)
class Inputs:
    """The names of all inputs, values that hold in every experiment, and inputs that are columns of the data."""

    names: tuple[str, ...]
    values: dict[str, Input]
    columns: dict[str, str]  # input -> column

    @classmethod
    def of(cls, source: Source, content: Mapping[str, object], calendar: Calendar | None = None) -> Inputs:
        given = content.get("inputs")
        if isinstance(given, list):
            names = source.texts(("inputs",), given) or ()
            own = _names_in_experiments(content.get("experiments"))
            return cls(tuple(names), {}, {name: name for name in names if name not in own})
        table = source.table(("inputs",), given)
        columns = {}
        for name, value in table.items():
            if isinstance(value, dict) and "column" in value:
                source.known(("inputs", name), value, ["column"])
                columns[name] = source.text(("inputs", name, "column"), value["column"])
        values = {
            n: read_input(source, ("inputs", n), v, calendar) for n, v in table.items() if n not in columns
        }
        return cls(
            tuple(table),
            {name: value for name, value in values.items() if value is not None},
            {name: column for name, column in columns.items() if column is not None},
        )


def _names_in_experiments(experiments: object) -> set[str]:
    """The inputs that single experiments give a value."""
    tables = experiments.values() if isinstance(experiments, dict) else ()
    given = [one.get("inputs") for one in tables if isinstance(one, dict)]
    return {name for one in given if isinstance(one, dict) for name in one}


def read_input(source: Source, key: Key, value: object, calendar: Calendar | None = None) -> Input | None:
    """A number, a formula in t, or a table of times and values; dates are times of the calendar."""
    name = str(key[-1])
    if not isinstance(value, dict):
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            source.fault(key, "files.input_kind", name, kind=kind_of(value))
            return None
        return source.attempt(key, as_input, name, value)
    table = source.known(key, value, ("times", "values", "kind"))
    if "times" not in table or "values" not in table:
        source.fault(key, "files.input_incomplete", name)
        return None
    kind = table.get("kind", "hold")
    return source.attempt(key, _table, name, table["times"], table["values"], kind, calendar)


def _table(name: str, times: object, values: object, kind: object, calendar: Calendar | None) -> Table:
    with concerning("model.in_input", name):
        return Table(times_of(times, calendar), values, kind)  # type: ignore[arg-type]  # it checks them itself


def read_model(
    source: Source,
    content: Mapping[str, object],
    inputs: Inputs,
    time_unit: str | None = None,
    covariates: Sequence[str] = (),
) -> Model | None:
    """The model; `time_unit`: the unit of t where [units] does not name it."""
    if "equations" not in content:
        source.fault((), "files.no_equations")
        return None
    text = source.text(EQUATIONS, content["equations"])
    observables = _observables(source, content.get("observables"))
    units = _texts(source, ("units",), content.get("units"))
    if time_unit is not None:
        units.setdefault("t", time_unit)
    if text is None or source.faulty_itself(("inputs",)):  # then nobody knows which names are inputs
        return None
    before = len(source.faults)
    for error in equation_faults(text):
        source.complain(error, EQUATIONS)
    for name, formula in (observables or {}).items():
        source.attempt(("observables", name), parse, inside_increment(formula) or formula)
    if len(source.faults) > before:
        return None
    return _model(source, text, observables, inputs, units, covariates)


def _model(
    source: Source,
    text: str,
    observables: dict[str, str] | None,
    inputs: Inputs,
    units: dict[str, str],
    covariates: Sequence[str],
) -> Model | None:
    """The model. A bad unit is noted and left out, so that the remaining file can be checked against the model."""
    while True:
        try:
            return Model(text, observables, inputs.names, units, covariates)
        except InputError as error:
            source.complain(error)
            key = source.faults[-1].place.key
            if key[:1] != ("units",) or key[-1] not in units:
                return None
            del units[str(key[-1])]


def _observables(source: Source, given: object) -> dict[str, str] | None:
    """Formulas by name; None when every state is observed."""
    if given is None:
        return None
    if isinstance(given, list):
        names = source.texts(("observables",), given)
        return None if names is None else {name: name for name in names}
    return _texts(source, ("observables",), given)


def _texts(source: Source, key: Key, given: object) -> dict[str, str]:
    """The entries of a table that are texts; others are faults."""
    texts = {name: source.text((*key, name), value) for name, value in source.table(key, given).items()}
    return {name: text for name, text in texts.items() if text is not None}
