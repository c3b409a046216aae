"""Exports in Python: functions for SciPy, and for CasADi."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from textwrap import fill

import sympy
from jinja2 import Environment, PackageLoader, StrictUndefined

from picardfit.exporters.content import Content, Course, refuse_events
from picardfit.exporters.languages import CASADI, NUMPY, Language
from picardfit.exporters.names import Names, Spelling, plain_text, renamed
from picardfit.formulas.algebra import names
from picardfit.formulas.grammar import parse
from picardfit.model.events import Event
from picardfit.model.inputs import Constant, Formula, Input, Table

OWN = "np ca t state params signals"  # names inside the functions that hold formulas
SPELLING = Spelling(frozenset((*keyword.kwlist, *OWN.split())), ascii=False)
TABLES = {"hold": "held", "linear": "lines", "marks": "nearest"}


@cache
def environment() -> Environment:
    """The templates beside this file, for text that is no markup."""
    return Environment(
        loader=PackageLoader("picardfit.exporters"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def scipy_program(said: Content, path: Path, version: str) -> str:
    """A Python file that needs NumPy and SciPy."""
    return _program("scipy.jinja", NUMPY, said, path, version)


def casadi_program(said: Content, path: Path, version: str) -> str:
    """A Python file that needs NumPy and CasADi."""
    refuse_events(said, "CasADi")
    return _program("casadi.jinja", CASADI, said, path, version)


def _program(template: str, language: Language, said: Content, path: Path, version: str) -> str:
    given = Names(SPELLING)
    spelled = given.add_all(
        dict.fromkeys((*said.states, *said.helpers, *said.parameters, *_local(said), *said.inputs))
    )
    return (
        environment()
        .get_template(template)
        .render(
            module=path.stem if path.stem.isidentifier() else "model",
            file=path.name if re.fullmatch(r"[\w.-]+", path.name) else "model.py",
            example_times=said.courses[0].times[:3].tolist(),
            example=_example(said.courses[0].name),
            version=version,
            warning=said.warning,
            states=_tuple(map(repr, said.states)),
            scale=_tuple(f"{size:.3g}" for size in said.scale.values()),
            parameters=_mapping(said.parameters, indent=4),
            names=_tuple(map(repr, (*said.parameters, *_local(said)))),
            input_names=_tuple(map(repr, said.inputs)),
            tables=any(isinstance(u, Table) for one in said.courses for u in one.inputs.values()),
            courses=[_course(said, one, language) for one in said.courses],
            unpacked=_unpacked(language, said, said.rates.values(), spelled, said.helpers),
            rates=[(name, language.write(rate, spelled)) for name, rate in said.rates.items()],
            unpacked_outputs=_unpacked(language, said, said.outputs.values(), spelled, {}),
            outputs=[(repr(name), language.write(e, spelled)) for name, e in said.labelled.items()],
            time_column=repr("t" if "time" in (*said.states, *said.labelled) else "time"),
            unpacked_events=_unpacked(language, said, _event_formulas(said), spelled, {}),
            events=[_event(said, one, language, spelled) for one in said.events],
            increments=_tuple(repr(said.label(name)) for name in said.increments) if said.increments else "",
        )
    )


def _event_formulas(said: Content) -> list[sympy.Expr]:
    return [formula for one in said.events for formula in (one.trigger, *(e for _, e in one.assignments))]


def _event(said: Content, one: Event, language: Language, spelled: Mapping[str, str]) -> dict[str, object]:
    """The trigger of an event, all states after it, and its text."""
    given = dict(one.assignments)
    after = [language.write(given[s], spelled) if s in given else spelled[s] for s in said.states]
    return {"trigger": language.write(one.trigger, spelled), "after": after, "text": plain_text(one.text)}


def _local(said: Content) -> list[str]:
    return [name for name in said.courses[0].parameters if name not in said.parameters]


def _unpacked(
    language: Language,
    said: Content,
    expressions: Iterable[sympy.Expr],
    spelled: Mapping[str, str],
    helpers: Mapping[str, sympy.Expr],
) -> str:
    """Lines that name the states, parameters and inputs which the expressions use, and define the helpers."""
    used = set().union(*map(names, (*expressions, *helpers.values())))
    lines = [f"# `{here}` is called {there} here" for here, there in renamed(spelled).items() if here in used]
    if used & set(said.states):
        lines.append(f"{', '.join(spelled[s] for s in said.states)}{',' * (len(said.states) == 1)} = state")
    for group, letter in (((*said.parameters, *_local(said)), "params"), (said.inputs, "signals")):
        lines += [f"{spelled[n]} = {letter}[{n!r}]{_comment(said.unit(n))}" for n in group if n in used]
    lines += [f"{spelled[n]} = {language.write(e, spelled)}" for n, e in helpers.items()]
    return "\n".join(f"    {line}" for line in lines)


def _example(name: str) -> str:
    """The name of an experiment as it may stand in a docstring."""
    return repr(name) if re.fullmatch(r"[\w .,:()+-]+", name) else "name"


def _comment(text: str) -> str:
    return f"  #{plain_text(text)}" if text else ""


def _course(said: Content, one: Course, language: Language) -> dict[str, str]:
    jumps = one.jumps
    rows = [] if jumps is None else zip(jumps.times, jumps.keep, jumps.add, strict=True)
    own = {name: value for name, value in one.parameters.items() if name not in said.parameters}
    return {
        "title": repr(one.name),
        "t0": repr(one.t0),
        "clock": _comment(f" {one.clock}" if one.clock else ""),
        "initial": _mapping(one.initial),
        "parameters": _mapping(own),
        "inputs": _inputs(one.inputs, language),
        "formulas": _inputs({n: u for n, u in one.inputs.items() if not isinstance(u, Table)}, language),
        "tables": _inputs({n: u for n, u in one.inputs.items() if isinstance(u, Table)}, language),
        "jumps": _list([f"({float(t)!r}, {keep.tolist()}, {add.tolist()})" for t, keep, add in rows], ",\n"),
        "breaks": _numbers(one.breaks),
        "edges": _numbers(one.edges),
        "times": _numbers(one.times.tolist()),
    }


def _inputs(given: Mapping[str, Input], language: Language) -> str:
    return _list([f"{name!r}: {_input(source, language)}" for name, source in given.items()], ",\n", "{}")


def _input(source: Input, language: Language) -> str:
    match source:
        case Constant():
            return repr(source.value)
        case Formula():
            return f"lambda t: {language.write(parse(source.text), {})}"
        case Table():
            rows = f"{_numbers(source.times.tolist(), 16)}, {_numbers(source.values.tolist(), 16)}"
            return f"{TABLES[source.kind]}({rows})"
    raise TypeError(source)  # `content` refuses functions


def _mapping(values: Mapping[str, float], indent: int = 12) -> str:
    body = ", ".join(f"{name!r}: {value!r}" for name, value in values.items())
    if len(body) < 80:
        return f"{{{body}}}"
    lines = "".join(f"{' ' * indent}{name!r}: {value!r},\n" for name, value in values.items())
    return f"{{\n{lines}{' ' * (indent - 4)}}}"


def _list(items: list[str], separator: str, brackets: str = "[]") -> str:
    """A list or dictionary, one item in a line if there are several."""
    if len(items) < 2:
        return f"{brackets[0]}{''.join(items)}{brackets[1]}"
    inner = separator.replace("\n", "\n" + " " * 12).join(items)
    return f"{brackets[0]}\n            {inner},\n        {brackets[1]}"


def _numbers(values: Iterable[float], indent: int = 12) -> str:
    body = ", ".join(map(repr, values))
    if len(body) < 80:
        return f"[{body}]"
    margin = " " * indent
    return f"[\n{fill(body, 110, initial_indent=margin, subsequent_indent=margin)},\n{margin[:-4]}]"


def _tuple(items: Iterable[str]) -> str:
    inner = list(items)
    return f"({', '.join(inner)}{',' * (len(inner) == 1)})"
