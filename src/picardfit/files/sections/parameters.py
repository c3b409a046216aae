"""Bounds, fixed values and priors of parameters and initial states in a problem file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from picardfit.errors import InputError, Key, closest
from picardfit.files.sections.beliefs import read_parameter
from picardfit.files.sections.doses import covariate_names
from picardfit.files.sections.equations import EQUATIONS
from picardfit.files.toml_source import Source
from picardfit.formulas.grammar import names_in_order, parse
from picardfit.model.derived import Derived
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter
from picardfit.problem.initial_formulas import plain_initial


def read_parameters(
    source: Source,
    content: Mapping[str, object],
    model: Model | None,
    initials: Mapping[Key, Mapping[str, object]],
) -> dict[str, Parameter]:
    """The parameters by name.

    `initials`: all initial values of the file, by the key of their table; their formulas may use more parameters.
    """
    table = source.table(("parameters",), content.get("parameters"))
    read = {name: read_parameter(source, ("parameters", name), value) for name, value in table.items()}
    if model is not None:
        formulas = {
            (*key, state): text
            for key, one in initials.items()
            for state, text in one.items()
            if isinstance(text, str)
        }
        _check_names(source, table, model, formulas)
    return {name: one for name, one in read.items() if one is not None}


def _check_names(
    source: Source, table: Mapping[str, object], model: Model, formulas: Mapping[Key, str]
) -> None:
    """Every parameter has an entry, and every entry is a parameter. `formulas`: initial ones, by their keys."""
    needed: dict[str, Key] = dict.fromkeys(model.parameters, EQUATIONS)
    known = {*model.states, *covariate_names(source, source.content)}
    for key, text in formulas.items():
        for name in names_in_order(text):
            if name not in known:
                needed.setdefault(name, key)
    in_noise = _words(source.content.get("noise"))
    missing = [name for name in needed if name not in table]
    misspelt = set()  # parameters that an unknown entry was probably meant for
    for name in table:
        if name in needed or name in in_noise:
            continue
        close, code = closest(name, missing or needed), "files.unknown_parameter"
        misspelt.add(close)
        if name in model.dropped:
            code = "files.parameter_of_unused_helper"
        elif name in model.states:
            code = "files.parameter_is_a_state"
        helper = model.dropped.get(name)
        source.fault(("parameters", name), code, name, known=list(needed), close=close, helper=helper)
    for name in missing:
        if name not in misspelt:
            row = _row_of_name(model.text, name) if needed[name] == EQUATIONS else None
            _missing_parameter(source, needed[name], row, name, [*model.states, *model.inputs, *table])


def _missing_parameter(
    source: Source, key: Key, row: int | None, name: str, known: list[str], slack: int = 2
) -> None:
    """Note that a parameter has no entry, at the formula that first uses it.

    The known name to propose differs from it by at most `slack` letters in length.
    """
    if name.lower() == "time":
        source.fault(key, "files.no_bounds_of_time", name, row=row)
        return
    alike = [one for one in known if one != name and abs(len(one) - len(name)) <= slack]
    source.fault(key, "files.no_bounds", name, row=row, close=closest(name, alike))


def _words(value: object) -> set[str]:
    """The names that formulas inside a value use."""
    if isinstance(value, str):
        return set(re.findall(r"[^\W\d]\w*", value))
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(_words, inside))


def _row_of_name(text: str, name: str) -> int | None:
    """The first row (from 1) of the equations that uses a name."""
    for number, row in enumerate(text.split("\n"), 1):
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", row.split("#")[0]):
            return number
    return None


def read_derived(source: Source, given: object) -> dict[str, Derived]:
    """name -> derived quantity, from a formula or a table with `formula` and `unit`."""
    found = {}
    for name, value in source.table(("derived",), given).items():
        key = ("derived", name)
        table: dict[str, Any] = {"formula": value}
        if isinstance(value, dict):
            table = source.known(key, value, ("formula", "unit"))
        if "formula" not in table:
            source.fault(key, "files.derived_without_formula", name)
            continue
        try:
            found[name] = Derived(**table)
        except InputError as error:
            source.complain(error.within("files.in_entry", name), key)
    return found


def read_initial(source: Source, key: Key, given: object, model: Model | None) -> dict[str, object]:
    """state -> number, formula text or Parameter."""
    found: dict[str, object] = {}
    for name, value in source.table(key, given).items():
        here = (*key, name)
        if model is not None and name not in model.states:
            source.unknown(here, "files.unknown_state", name, model.states)
        if isinstance(value, str):
            formula = value if model is None else plain_initial(model.states, value)
            if source.attempt(here, parse, formula) is not None:
                found[name] = formula
            continue
        belief = read_parameter(source, here, value)
        if belief is not None:
            found[name] = belief if belief.fixed is None else belief.fixed
    return found
