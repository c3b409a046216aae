"""What is known beforehand in a problem file: parameters and initial states."""

from __future__ import annotations

import re

from picardfit.errors import InputError, did_you_mean, inside, listing
from picardfit.files.sections.noise import PRIORS, described
from picardfit.files.toml_source import Place, Source, kind_of, schema
from picardfit.formulas.grammar import names_in_order, parse
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter, is_number


def read_parameters(
    source: Source, content: dict, model: Model | None, initials: list[dict]
) -> dict[str, Parameter]:
    table = source.table(("parameters",), content.get("parameters"))
    read = {name: _belief(source, ("parameters", name), value) for name, value in table.items()}
    if model is not None:
        formulas = [text for one in initials for text in one.values() if isinstance(text, str)]
        _check_names(source, table, model, formulas)
    return {name: one for name, one in read.items() if one is not None}


def _check_names(source: Source, table: dict, model: Model, formulas: list[str]) -> None:
    """Every parameter has an entry, and every entry is a parameter."""
    needed = dict.fromkeys(model.parameters)
    for text in formulas:
        needed |= dict.fromkeys(n for n in names_in_order(text) if n not in model.states)
    noise = _words(source.content.get("noise"))
    explained = set()
    for name in table:
        if name in needed or name in noise:
            continue
        hint = did_you_mean(name, [n for n in needed if n not in table] or needed)
        explained.add(hint)
        what = "a state: its bounds belong in [initial]" if name in model.states else "not in the equations"
        if name in model.dropped:
            what = f"used only in `{model.dropped[name]} = ...`, which no equation uses: use that, or remove both"
        source.fault(
            ("parameters", name), f"`{name}` is {what} (their parameters are {listing(needed)}).{hint}"
        )
    known = [*model.states, *model.inputs, *table]
    for name in needed:
        if name in table or did_you_mean(name, [name]) in explained:
            continue
        line = _line_of_name(source, model.text, name)
        hint = did_you_mean(name, [n for n in known if n != name and abs(len(n) - len(name)) <= 2])
        if name.lower() == "time":
            hint = " If it is the time, write t."
        source.fault_at(
            line,
            f"The parameter `{name}` has no bounds: add `{name} = [lower, upper]` to [parameters].{hint}",
        )


def _words(value: object) -> set[str]:
    """The names that formulas inside a value use."""
    if isinstance(value, str):
        return set(re.findall(r"[^\W\d]\w*", value))
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(_words, inside))


def _line_of_name(source: Source, text: str, name: str) -> int | None:
    for number, line in enumerate(text.split("\n"), 1):
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line.split("#")[0]):
            return source.lines.inside(("equations",), number)
    return source.lines.of(("parameters",))


def _belief(source: Source, place: Place, value: object) -> Parameter | None:
    """A number (fixed), a pair of bounds or a table, as a Parameter."""
    name = place[-1]
    if is_number(value):
        return source.attempt(place, Parameter, fixed=value)
    if isinstance(value, list):
        if len(value) != 2:
            source.fault(place, f"`{name}` has {len(value)} numbers: write its bounds as [lower, upper].")
            return None
        return _parameter(source, place, {"lower": value[0], "upper": value[1]})
    if not isinstance(value, dict):
        source.fault(
            place,
            f"`{name}` is {kind_of(value)}: write [lower, upper], a number that fixes it, "
            f"or {{ lower = ..., upper = ..., log = true }}.",
        )
        return None
    before = len(source.faults)
    table = source.known(place, value, schema()["definitions"]["belief"]["properties"])
    if "bounds" in table:
        bounds = table.pop("bounds")
        if "lower" in table or "upper" in table:
            source.fault(
                (*place, "bounds"), f"`{name}` has bounds twice: leave bounds or lower and upper out."
            )
        elif not isinstance(bounds, list) or len(bounds) != 2:
            source.fault((*place, "bounds"), f"The bounds of `{name}` are not a pair: write [lower, upper].")
        else:
            table |= {"lower": bounds[0], "upper": bounds[1]}
    if "prior" in table:
        table["prior"] = described(source, (*place, "prior"), table["prior"], PRIORS, "prior")
    return None if len(source.faults) > before else _parameter(source, place, table)


def _parameter(source: Source, place: Place, table: dict[str, object]) -> Parameter | None:
    try:
        return Parameter(**table)
    except InputError as error:
        source.fault(place, str(inside(f"`{place[-1]}`", error)))
    return None


def read_initial(source: Source, place: Place, given: object, model: Model | None) -> dict[str, object]:
    """state -> number, formula text or Parameter."""
    found: dict[str, object] = {}
    for name, value in source.table(place, given).items():
        here = (*place, name)
        if model is not None and name not in model.states:
            source.fault(
                here,
                f"`{name}` is not a state ({listing(model.states)}): rename or remove it."
                + did_you_mean(name, model.states),
            )
        if isinstance(value, str):
            if source.attempt(here, parse, value) is not None:
                found[name] = value
            continue
        belief = _belief(source, here, value)
        if belief is not None:
            found[name] = belief if belief.fixed is None else belief.fixed
    return found
