"""Exports as SBML, by libSBML, and as Antimony, which the antimony package makes from the SBML.

States, and inputs that are tables of lines, are parameters with rate rules; observables, helpers and inputs that are
formulas follow assignment rules; doses, resets and steps of tables are events. Integrators stop at events only, so
every time at which the equations jump or bend has one. A file begins at time 0, as SBML wants it: an experiment that
begins elsewhere has a variable for its own time. Level 3 version 1 is what most programs read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import sympy

from picardfit.errors import InputError
from picardfit.exporters.content import (
    Content,
    Course,
    check_pieces,
    refuse_increments,
    table_pieces,
)
from picardfit.exporters.names import Names, Spelling, plain_text, renamed
from picardfit.formulas.algebra import RELATIONS, TIME, symbol
from picardfit.formulas.functions import FUNCTIONS
from picardfit.formulas.grammar import parse
from picardfit.formulas.translation import Words, translate
from picardfit.model.events import Event
from picardfit.model.inputs import Constant, Formula, Table

if TYPE_CHECKING:
    import libsbml


KEYWORDS = """
    abs acos acosh acot acoth acsc acsch after and arccos arccosh arccot arccoth arccsc arccsch arcsec arcsech
    arcsin arcsinh arctan arctanh asec asech asin asinh at atan atanh avogadro begin ceil ceiling compartment
    confidenceinterval const cos cosh cot coth csc csch delay delete delta distribution dna end event exp
    exponentiale extentconv factorial false floor formula frac function gene geq gt has identity implies import
    in inf infinity is leq ln log log10 lt max maxdelay maximize min minimize model module nan neq not
    notanumber operator or persistent piecewise plus pi power priority quotient rateof reaction rem root sec
    sech sin sinh species sqr sqrt subject substanceonly t0 tan tanh time timeconv times to true unit units
    unless var xor
"""
SPELLING = Spelling(frozenset(KEYWORDS.split()), ignores_case=True)


def sbml_model(said: Content, path: Path, version: str) -> str:
    """The first of the experiments as SBML."""
    refuse_increments(said, "SBML")
    document = _Writer(libsbml_module(), said, said.courses[0]).document(version)
    return str(libsbml_module().writeSBMLToString(document))


def antimony_model(said: Content, path: Path, version: str) -> str:
    """The first of the experiments as Antimony."""
    refuse_increments(said, "Antimony")
    antimony = _antimony()
    text = sbml_model(said, path, version)
    antimony.clearPreviousLoads()
    if antimony.loadSBMLString(text) < 0:
        raise InputError("exporters.antimony_refused", reason=antimony.getLastError().strip())
    warning = f"// {said.warning}\n" if said.warning else ""  # Antimony keeps no notes
    return warning + str(antimony.getAntimonyString(antimony.getMainModuleName()))


def libsbml_module() -> ModuleType:
    try:
        import libsbml
    except ImportError:
        raise InputError("exporters.needs_libsbml") from None
    return libsbml


def _antimony() -> ModuleType:
    try:
        import antimony
    except ImportError:
        raise InputError("exporters.needs_antimony") from None
    return antimony


class _Writer:
    """Writes one experiment into a document of libSBML."""

    def __init__(self, sb: ModuleType, said: Content, one: Course) -> None:
        self.sb, self.said, self.one = sb, said, one
        self.names = Names(SPELLING)
        every = (*said.states, *one.parameters, *one.inputs, *said.helpers)
        self.known: dict[sympy.Basic, Any] = {
            symbol(here): self._name(there) for here, there in self.names.add_all(every).items()
        }
        self.known[TIME] = sb.ASTNode(sb.AST_NAME_TIME)
        self.known[TIME].setName("time")
        self.words = sbml_words(sb)
        made = sb.SBMLDocument(3, 1)
        self.made, self.model = made, made.createModel()
        self.events: dict[float, dict[str, libsbml.ASTNode]] = {}  # time -> what it assigns, by id

    def document(self, version: str) -> libsbml.SBMLDocument:
        said, one = self.said, self.one
        self.model.setId(Names(SPELLING).add(one.name or "model"))
        self._own_time()
        for name, value in one.parameters.items():
            self._parameter(self.names.given[name], value, constant=True, unit=said.unit(name))
        self._inputs()
        for name, formula in said.helpers.items():
            self._assigned(self.names.given[name], formula)
        for name, rate in said.rates.items():
            there = self.names.given[name]
            self._parameter(there, one.initial[name], constant=False, unit=said.unit(name))
            self._rule(self.model.createRateRule(), there, self._node(rate))
        for name, formula in said.observables.items():
            self._assigned(self.names.add(name, also="observed"), formula)
        self._jumps()
        self._write_events()
        for number, event in enumerate(said.events):
            there = self.names.add(f"happening_{number + 1}")
            write_event(self.model, event, there, len(said.events) - number, self._node)
        self._notes(version)
        return self.made

    def _own_time(self) -> None:
        """The time of the experiment, where it does not begin at 0."""
        if self.one.t0:
            there = self.names.add("t", also="own")
            own = TIME + sympy.Float(self.one.t0)
            self._assigned(there, own)
            self.known[TIME] = self._name(there)

    def _inputs(self) -> None:
        said, one = self.said, self.one
        for name, source in one.inputs.items():
            there = self.names.given[name]
            match source:
                case Constant():
                    self._parameter(there, source.value, constant=True, unit=said.unit(name))
                case Formula():
                    self._assigned(there, parse(source.text))
                case Table(kind="linear"):
                    self._lines(there, source)
                case Table():
                    (_, value, _), *later = table_pieces(source, one.t0)
                    self._parameter(there, value, constant=False, unit=said.unit(name))
                    for time, value, _ in later:
                        self._at(time, there, self._number(value))

    def _lines(self, there: str, source: Table) -> None:
        """A table of lines: its slope is a step, and its value jumps only where the table does."""
        slope = self.names.add(f"{there}_slope")
        (_, value, steep), *later = table_pieces(source, self.one.t0)
        self._parameter(slope, steep, constant=False)
        self._parameter(there, value, constant=False)
        self._rule(self.model.createRateRule(), there, self._name(slope))
        for time, value, steep in later:
            self._at(time, slope, self._number(steep))
            self._at(time, there, self._number(value))

    def _jumps(self) -> None:
        """Doses and resets; and an event without effect wherever else the equations jump or bend."""
        jumps = self.one.jumps
        if jumps is not None:
            for time, keep, add in zip(jumps.times.tolist(), jumps.keep, jumps.add, strict=True):
                for state, stays, more in zip(self.said.states, keep, add, strict=True):
                    if not stays or more:
                        value = symbol(state) * int(stays) + sympy.Float(float(more))
                        self._at(time, self.names.given[state], self._node(value))
        silent = [time for time in self.one.breaks if time not in self.events]
        if silent:
            there = self.names.add("stops")
            self._parameter(there, 0.0, constant=False)
            for time in silent:
                self._at(time, there, self._node(symbol("stops") + 1, {symbol("stops"): self._name(there)}))

    def _at(self, time: float, there: str, value: libsbml.ASTNode) -> None:
        if time > self.one.t0:
            self.events.setdefault(time, {})[there] = value

    def _write_events(self) -> None:
        check_pieces(len(self.events))
        for number, (time, assigned) in enumerate(sorted(self.events.items())):
            event = self.model.createEvent()
            event.setId(self.names.add(f"event_{number}"))
            event.setUseValuesFromTriggerTime(True)
            trigger = event.createTrigger()
            trigger.setInitialValue(False)
            trigger.setPersistent(True)
            clock = self.sb.ASTNode(self.sb.AST_NAME_TIME)
            clock.setName("time")
            trigger.setMath(self._tree(self.sb.AST_RELATIONAL_GEQ, clock, self._number(time - self.one.t0)))
            for there, value in assigned.items():
                assignment = event.createEventAssignment()
                assignment.setVariable(there)
                assignment.setMath(value)

    def _assigned(self, there: str, formula: sympy.Expr) -> None:
        """A variable that a formula defines at every time."""
        self._parameter(there, None, constant=False)
        self._rule(self.model.createAssignmentRule(), there, self._node(formula))

    def _parameter(self, there: str, value: float | None, constant: bool, unit: str = "") -> None:
        made = self.model.createParameter()
        made.setId(there)
        made.setConstant(constant)
        if value is not None:
            made.setValue(value)
        if unit:
            made.setNotes(_paragraphs([f"unit:{unit}"]))

    def _rule(self, rule: libsbml.Rule, there: str, math: libsbml.ASTNode) -> None:
        rule.setVariable(there)
        rule.setMath(math)

    def _notes(self, version: str) -> None:
        one, others = self.one, self.said.others
        lines = [f"Experiment {one.name}, fitted and written by picardfit {version}."]
        if self.said.warning:
            lines.append(self.said.warning)
        if one.t0:
            lines.append(f"Time 0 of this file is the time {one.t0!r} of the experiment.")
        if one.clock:
            lines.append(f"Time of the experiment is in {one.clock}.")
        if others:
            lines.append(f"The fit has {len(others)} more experiments: name another one to export it.")
        lines += [f"{here} is called {there} here." for here, there in renamed(self.names.given).items()]
        self.model.setNotes(_paragraphs(lines))

    def _node(self, expr: sympy.Basic, also: Mapping[sympy.Basic, Any] | None = None) -> libsbml.ASTNode:
        return translate(expr, {**self.known, **(also or {})}, self.words).deepCopy()

    def _name(self, there: str) -> libsbml.ASTNode:
        made = self.sb.ASTNode(self.sb.AST_NAME)
        made.setName(there)
        return made

    def _number(self, value: float) -> libsbml.ASTNode:
        return self.words["number"](value)

    def _tree(self, kind: int, *children: libsbml.ASTNode) -> libsbml.ASTNode:
        return _tree(self.sb, kind, *children)


def write_event(
    model: libsbml.Model, event: Event, there: str, priority: int, math: Callable[[sympy.Basic], Any]
) -> None:
    """An event of the model; those at one time happen in the order of their priorities, as here in that of the model.

    `math`: writes a formula, or the name of a state, as a tree of libSBML.
    """
    made = model.createEvent()
    made.setId(there)
    made.setUseValuesFromTriggerTime(event.early)
    trigger = made.createTrigger()
    trigger.setInitialValue(not event.begins_false)
    trigger.setPersistent(not event.fleeting)
    trigger.setMath(math(sympy.Gt(event.trigger, 0)))
    made.createPriority().setMath(math(sympy.Integer(priority)))
    for state, value in event.assignments:
        assignment = made.createEventAssignment()
        assignment.setVariable(math(symbol(state)).getName())
        assignment.setMath(math(value))


def _paragraphs(lines: Iterable[str]) -> str:
    body = "".join(f"<p>{escape(plain_text(line))}</p>" for line in lines)
    return f'<body xmlns="http://www.w3.org/1999/xhtml">{body}</body>'


def _tree(sb: ModuleType, kind: int, *children: libsbml.ASTNode) -> libsbml.ASTNode:
    made = sb.ASTNode(kind)
    for child in children:
        made.addChild(child.deepCopy())
    return made


def sbml_words(sb: ModuleType) -> Words:
    """Formulas as trees of libSBML; what SBML lacks is made of `piecewise`."""

    def tree(kind: str) -> Callable[..., libsbml.ASTNode]:
        return lambda *parts: _tree(sb, getattr(sb, f"AST_{kind}"), *parts)

    def number(value: float) -> libsbml.ASTNode:
        whole = float(value).is_integer() and abs(value) < 2**31
        made = sb.ASTNode(sb.AST_INTEGER if whole else sb.AST_REAL)
        made.setValue(int(value) if whole else float(value))
        return made

    where, power = tree("FUNCTION_PIECEWISE"), tree("POWER")
    less, more = tree("RELATIONAL_LEQ"), tree("RELATIONAL_GEQ")
    relations = {"<": "LT", "<=": "LEQ", ">": "GT", ">=": "GEQ", "==": "EQ", "!=": "NEQ"}
    words: dict[str, Callable[..., Any]] = {
        name: tree(f"FUNCTION_{one.mathml.upper()}") for name, one in FUNCTIONS.items() if one.mathml
    }
    words |= {operator: tree(f"RELATIONAL_{relations[operator]}") for operator in RELATIONS}
    return words | {
        "number": number,
        "true": tree("CONSTANT_TRUE"),
        "false": tree("CONSTANT_FALSE"),
        "+": tree("PLUS"),
        "-": tree("MINUS"),
        "negative": tree("MINUS"),
        "*": tree("TIMES"),
        "/": tree("DIVIDE"),
        "**": power,
        "power": lambda base, exponent: power(base, number(exponent)),
        "sqrt": lambda a: _tree(sb, sb.AST_FUNCTION_ROOT, number(2), a),
        "where": lambda condition, a, b: where(a, condition, b),
        "min": lambda a, b: where(a, less(a, b), b),
        "max": lambda a, b: where(a, more(a, b), b),
        "sign": lambda a: where(
            number(1), words[">"](a, number(0)), number(-1), words["<"](a, number(0)), number(0)
        ),
        "and": tree("LOGICAL_AND"),
        "or": tree("LOGICAL_OR"),
        "not": tree("LOGICAL_NOT"),
    }
