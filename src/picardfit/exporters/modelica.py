"""Export as a Modelica model: doses and resets are `when` clauses, inputs are equations with events of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sympy

from picardfit.exporters.content import (
    Content,
    Course,
    check_pieces,
    refuse_events,
    refuse_increments,
    table_pieces,
)
from picardfit.exporters.languages import MODELICA
from picardfit.exporters.names import Names, Spelling, plain_text, renamed
from picardfit.formulas.grammar import parse
from picardfit.model.inputs import Constant, Formula, Input, Table

KEYWORDS = """
    abs acos algorithm and annotation asin assert atan atan2 block Boolean break cardinality ceil change class
    Clock connect connector constant constrainedby cos cosh cross delay der diagonal discrete div each edge else
    elseif elsewhen encapsulated end enumeration equation exp expandable extends external false fill final flow
    floor for function getInstanceName homotopy identity if import impure in initial inner inStream input
    Integer integer linspace log log10 loop matrix max min mod model Modelica noEvent nondifferentiable not ones
    operator or outer output package parameter partial pre product protected public pure Real record redeclare
    reinit rem replaceable return sample scalar semiLinear sign sin sinh size skew smooth spatialDistribution
    sqrt stream String sum symmetric tan tanh terminal terminate then time transpose true type vector when while
    within zeros
"""
SPELLING = Spelling(frozenset(KEYWORDS.split()))


def modelica_model(said: Content, path: Path, version: str) -> str:
    """The first of the experiments as a model."""
    refuse_increments(said, "Modelica")
    refuse_events(said, "Modelica")
    return "\n".join(_Writer(said, said.courses[0], path).lines(version)) + "\n"


class _Writer:
    """Writes one experiment. Tools expect a model in the file of its name."""

    def __init__(self, said: Content, one: Course, path: Path) -> None:
        self.said, self.one = said, one
        stem = path.stem if SPELLING.accepts(path.stem) else path.stem[:1].upper() + path.stem[1:]
        self.title = Names(SPELLING).add(stem)  # `Model` in model.mo, because `model` is a keyword
        self.names = Names(SPELLING, taken={self.title})
        self.names.add_all((*said.states, *one.parameters, *one.inputs, *said.helpers))
        self.outputs = {name: self.names.add(name, also="observed") for name in said.observables}

    def lines(self, version: str) -> Iterator[str]:
        said, one = self.said, self.one
        title = plain_text(f"Experiment {one.name}, fitted and written by picardfit {version}")
        yield f"model {self.title} {_string(title)}"
        if said.warning:
            yield f"  // {said.warning}"
        if one.clock:
            yield f"  // time is in {plain_text(one.clock)}"
        for here, there in renamed(self.names.given).items():
            yield f"  // {plain_text(here)} is called {there} here"
        for there in self.declarations():
            yield f"  {there};"
        yield "equation"
        for name, rate in said.rates.items():
            yield f"  der({self.names.given[name]}) = {self.text(rate)};"
        for name, source in one.inputs.items():
            if not isinstance(source, Constant):
                yield f"  {self.names.given[name]} = {self.input(source)};"
        for name, formula in said.helpers.items():
            yield f"  {self.names.given[name]} = {self.text(formula)};"
        for name, formula in said.observables.items():
            yield f"  {self.outputs[name]} = {self.text(formula)};"
        yield from self.jumps()
        yield f"  annotation(experiment(StartTime = {one.t0!r}, StopTime = {one.last!r}, Tolerance = 1e-9));"
        yield f"end {self.title};"

    def declarations(self) -> Iterator[str]:
        said, one, names = self.said, self.one, self.names.given
        for name, value in one.parameters.items():
            yield f"parameter Real {names[name]} = {_number(value)}{self.unit(name)}"
        for name, source in one.inputs.items():
            if isinstance(source, Constant):
                yield f"parameter Real {names[name]} = {_number(source.value)}{self.unit(name)}"
            else:
                yield f"Real {names[name]}{self.unit(name)}"
        for name, value in one.initial.items():
            yield f"Real {names[name]}(start = {_number(value)}, fixed = true){self.unit(name)}"
        for there in (*(names[name] for name in said.helpers), *self.outputs.values()):
            yield f"Real {there}"

    def unit(self, name: str) -> str:
        unit = self.said.unit(name)
        return f" {_string(plain_text(unit).strip())}" if unit else ""

    def text(self, formula: sympy.Expr) -> str:
        return MODELICA.write(formula, self.names.given)

    def input(self, source: Input) -> str:
        """The formula of an input that changes."""
        if isinstance(source, Formula):
            return self.text(parse(source.text))
        assert isinstance(source, Table)
        pieces = table_pieces(source, self.one.t0)
        check_pieces(len(pieces))
        texts = [_line(*piece) for piece in pieces]
        if len(pieces) == 1:
            return texts[0]
        ends = [begin for begin, _, _ in pieces[1:]]
        cases = [f"if time < {_number(t)} then {text}" for t, text in zip(ends, texts, strict=False)]
        return f"{' else'.join(cases)} else {texts[-1]}"

    def jumps(self) -> Iterator[str]:
        """Jumps of states, as the branches of one clause: a state must not be set anew by several `when` clauses."""
        jumps = self.one.jumps
        if jumps is None or not len(jumps):
            return
        check_pieces(len(jumps))
        for k, time in enumerate(jumps.times.tolist()):
            yield f"  {'elsewhen' if k else 'when'} time >= {_number(time)} then"
            for state, stays, more in zip(self.said.states, jumps.keep[k], jumps.add[k], strict=True):
                there = self.names.given[state]
                before = [f"pre({there})"] if stays else []
                if not stays or more:
                    value = " + ".join([*before, *([_number(float(more))] if more or not stays else [])])
                    yield f"    reinit({there}, {value});"
        yield "  end when;"


def _line(begin: float, value: float, slope: float) -> str:
    if slope == 0:
        return _number(value)
    return f"{_number(value)} + {_number(slope)}*(time - {_number(begin)})"


def _number(value: float) -> str:
    """A number that may stand anywhere in an expression."""
    text = MODELICA.number(float(np.float64(value)))
    return f"({text})" if value < 0 else text


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
