"""The SBML model of a PEtab problem: states with rate rules, parameters, and inputs that conditions set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from picardfit.errors import InputError
from picardfit.exporters.names import Names, Spelling
from picardfit.exporters.sbml import KEYWORDS, libsbml_module, sbml_words, write_event
from picardfit.formulas.algebra import TIME, add, multiply, symbol
from picardfit.formulas.grammar import parse
from picardfit.formulas.translation import translate
from picardfit.model.events import Event
from picardfit.model.inputs import Formula, Input, Signal, Table

SPELLING = Spelling(frozenset((*KEYWORDS.split(), "inf", "nan", "arccot", "pow", "sign")), ignores_case=True)


@dataclass(frozen=True)
class InputPlan:
    """How an input is written: its name in formulas, and what conditions set.

    `value`: a constant (empty where the input is one formula everywhere); `slope`: its slope in tables of lines;
    `choosers`: formula in t -> the constant, 0 or 1, that chooses it.
    """

    name: str
    value: str
    slope: str = ""
    choosers: dict[str, str] = field(default_factory=dict)
    formula: str = ""  # the one formula that it always is


def plan_of(name: str, sources: Sequence[Input], taken: Names) -> InputPlan:
    """How an input that is one of these sources in each experiment is written."""
    there = taken.given[name]
    for source in sources:
        if isinstance(source, Signal):
            raise InputError("exporters.function_input", name, key=("inputs", name), experiment="")
    formulas = list(dict.fromkeys(one.text for one in sources if isinstance(one, Formula)))
    if len(formulas) == 1 and all(isinstance(one, Formula) for one in sources):
        return InputPlan(there, "", formula=formulas[0])
    linear = any(isinstance(one, Table) and one.kind == "linear" for one in sources)
    value = taken.add(f"{there}_value") if formulas else there
    slope = taken.add(f"{there}_slope") if linear else ""
    choosers = {text: taken.add(f"{there}_is_{k}") for k, text in enumerate(formulas, 1)}
    return InputPlan(there, value, slope, choosers)


def model_text(
    rates: Mapping[str, sympy.Expr],
    parameters: Sequence[str],
    plans: Sequence[InputPlan],
    there: Mapping[str, str],
    events: Sequence[Event] = (),
) -> str:
    """The SBML text of a model whose names become `there`; conditions give states and inputs their values."""
    made = _Model(there)
    for name in parameters:
        made.declare(name, constant=True, value=1.0)
    for plan in plans:
        made.add_input(plan)
    for name, rate in rates.items():
        made.declare(name, constant=False)
        made.rule(made.model.createRateRule(), name, rate)
    for number, event in enumerate(events):
        write_event(made.model, event, f"event_{number + 1}", len(events) - number, made.math)
    return str(made.sb.writeSBMLToString(made.document))


class _Model:
    """A model of libSBML that grows."""

    def __init__(self, there: Mapping[str, str]) -> None:
        self.sb = sb = libsbml_module()
        self.words = sbml_words(sb)
        self.document = sb.SBMLDocument(3, 1)
        self.model = self.document.createModel()
        self.model.setId("model")
        self.known: dict[sympy.Basic, Any] = {symbol(here): _node(sb, name) for here, name in there.items()}
        self.known[TIME] = sb.ASTNode(sb.AST_NAME_TIME)
        self.known[TIME].setName("time")

    def declare(self, name: str, constant: bool, value: float | None = 0.0) -> None:
        made = self.model.createParameter()
        made.setId(name)
        made.setConstant(constant)
        if value is not None:
            made.setValue(value)

    def rule(self, made: Any, name: str, formula: sympy.Expr) -> None:
        made.setVariable(name)
        made.setMath(self.math(formula))

    def math(self, formula: sympy.Basic) -> Any:
        """A formula as a tree of libSBML."""
        return translate(formula, self.known, self.words).deepCopy()

    def add_input(self, plan: InputPlan) -> None:
        for one in (plan.value, plan.slope, *plan.choosers.values()):
            if one:
                self.declare(one, constant=not (one == plan.value and plan.slope))
                self.known.setdefault(symbol(one), _node(self.sb, one))
        if plan.slope:
            self.rule(self.model.createRateRule(), plan.value, symbol(plan.slope))
        if plan.name != plan.value:
            self.declare(plan.name, constant=False, value=None)
            self.rule(self.model.createAssignmentRule(), plan.name, _formula_of(plan))


def _node(sb: Any, name: str) -> Any:
    made = sb.ASTNode(sb.AST_NAME)
    made.setName(name)
    return made


def _formula_of(plan: InputPlan) -> sympy.Expr:
    """An input in what conditions set, and in t."""
    if plan.formula:
        return parse(plan.formula)
    chosen = [multiply(symbol(chooser), parse(text)) for text, chooser in plan.choosers.items()]
    return add(symbol(plan.value), *chosen)
