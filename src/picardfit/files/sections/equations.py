"""The model of a problem file: equations, observables, inputs."""

from __future__ import annotations

from dataclasses import dataclass

from picardfit.errors import Audience, InputError
from picardfit.files.toml_source import Place, Source, kind_of
from picardfit.formulas.equations import equation_faults
from picardfit.formulas.grammar import parse
from picardfit.model.inputs import Input, Table, as_input
from picardfit.model.model import Model


@dataclass(frozen=True)
class Inputs:
    """The inputs of the model: those with a value for all experiments, those in columns, and the rest."""

    names: tuple[str, ...]
    values: dict[str, Input]
    columns: dict[str, str]  # input -> column

    @classmethod
    def of(cls, source: Source, content: dict) -> Inputs:
        given = content.get("inputs")
        if isinstance(given, list):
            names = source.texts(("inputs",), given) or ()
            own = source.content.get("experiments")
            said = {n for one in own.values() if isinstance(one, dict) for n in _names_of(one)} if own else ()
            return cls(tuple(names), {}, {name: name for name in names if name not in said})
        table = source.table(("inputs",), given)
        columns = {n: v["column"] for n, v in table.items() if isinstance(v, dict) and "column" in v}
        for name, column in list(columns.items()):
            if source.text(("inputs", name, "column"), column) is None:
                del columns[name]
            source.known(("inputs", name), table[name], ["column"])
        values = {n: read_input(source, ("inputs", n), v) for n, v in table.items() if n not in columns}
        return cls(tuple(table), {n: v for n, v in values.items() if v is not None}, columns)


def _names_of(experiment: dict) -> list[str]:
    given = experiment.get("inputs")
    return list(given) if isinstance(given, dict) else []


def read_input(source: Source, place: Place, value: object) -> Input | None:
    if not isinstance(value, dict):
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            source.fault(
                place,
                f"Input `{place[-1]}` is {kind_of(value)}: write a number, a formula in t, "
                f"or {{ times = [...], values = [...] }}.",
            )
            return None
        return source.attempt(place, as_input, str(place[-1]), value)
    table = source.known(place, value, ("times", "values", "kind"))
    if "times" not in table or "values" not in table:
        source.fault(place, f"Input `{place[-1]}` needs both times = [...] and values = [...].")
        return None
    return source.attempt(place, Table, table["times"], table["values"], table.get("kind", "hold"))


def read_model(source: Source, content: dict, inputs: Inputs) -> Model | None:
    if "equations" not in content:
        source.fault(
            (), 'There are no equations: write equations = """ ... """ with lines such as x\' = -a*x.'
        )
        return None
    text = source.text(("equations",), content["equations"])
    observables = _observables(source, content.get("observables"))
    table = source.table(("units",), content.get("units"))
    units = {name: unit for name, unit in table.items() if source.text(("units", name), unit) is not None}
    if text is None:
        return None
    faults = equation_faults(text)
    for error in faults:
        _model_fault(source, error)
    before = len(source.faults)
    for name, formula in (observables or {}).items():
        source.attempt(("observables", name), parse, formula)
    if faults or len(source.faults) > before:
        return None
    while True:
        try:
            return Model(text, observables, inputs.names, units)
        except InputError as error:
            _model_fault(source, error)
            key = error.place.key
            if key[:1] != ("units",) or key[-1] not in units:
                return None
            del units[str(key[-1])]  # so that the rest of the file can be examined


def _model_fault(source: Source, error: InputError) -> None:
    """Put an error of the model where it belongs."""
    if "other_row" in error.values:
        error = error.with_values(other_row=source.lines.inside(("equations",), error.values["other_row"]))
    message = error.sentence(Audience.FILE)
    if error.place.row is not None:
        return source.fault_at(source.lines.inside(("equations",), error.place.row), message)
    return source.fault(error.place.key or ("equations",), message)


def _observables(source: Source, given: object) -> dict[str, str] | None:
    """Formulas by name; None when every state is observed."""
    if given is None:
        return None
    if isinstance(given, list):
        names = source.texts(("observables",), given)
        return None if names is None else {name: name for name in names}
    table = source.table(("observables",), given)
    texts = {name: source.text(("observables", name), formula) for name, formula in table.items()}
    return {name: formula for name, formula in texts.items() if formula is not None}
