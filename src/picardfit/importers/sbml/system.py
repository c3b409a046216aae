"""The content of an SBML file in expressions: rates, constants, initial values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from picardfit.errors import InputError, closest
from picardfit.formulas.algebra import TIME, names, symbol
from picardfit.formulas.grammar import OWN, Dialect, names_in_order, parse, to_text
from picardfit.importers.sbml.mathml import exact
from picardfit.model.events import Event
from picardfit.model.model import Model


@dataclass(frozen=True, eq=False)
class System:
    """The content of an SBML file in expressions; names that mean something in formulas got a `_` at the end.

    Formulas in `rates` and `definitions` hold states, constants and the time; those in `initial` too, where a
    state stands for its initial value. A variable that events reset is a definition in continuous states (see
    events.py), and `initial` has an entry for it as well.
    """

    name: str
    rates: dict[str, sympy.Expr]  # state -> its derivative
    definitions: dict[str, sympy.Expr]  # targets of assignment rules, rates of reactions
    constants: dict[str, float | None]  # what does not change with time; None: the file gives no number
    initial: dict[str, sympy.Expr]  # of states, and of constants that an initial assignment sets
    parameters: tuple[str, ...]  # the constants that are parameters (not volumes, species, stoichiometries)
    species: frozenset[str]
    spelling: dict[str, str]  # id in the file -> name here, where they differ
    origins: dict[str, str]  # state that stands for a reset variable -> that variable
    variables: tuple[str, ...]  # what moves, as the file has it
    events: tuple[Event, ...] = ()  # that wait for a state

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(self.rates)

    @property
    def values(self) -> dict[str, float]:
        """The file's values of the parameters of `model()`."""
        return {n: value for n in self._free if (value := self.constants[n]) is not None}

    @property
    def initial_formulas(self) -> dict[str, float | str]:
        """What the file says of the initial states, as `Problem(initial=...)` takes it."""
        start = self.start({name: symbol(name) for name in self._free})
        found = {state: e for state in self.states if (e := start.get(state)) is not None}
        return {state: float(e) if e.is_number else to_text(e) for state, e in found.items()}

    @property
    def _free(self) -> list[str]:
        return [name for name in self.parameters if name not in self.initial]

    def start(self, given: Mapping[str, sympy.Expr]) -> dict[str, sympy.Expr | None]:
        """The value of every constant and state at the start; those in `given` are as given.

        Initial assignments are evaluated with what is given; None stands where the file gives no value.
        """
        found: dict[str, sympy.Expr | None] = dict(given)
        waiting: list[str] = []

        def value(name: str) -> sympy.Expr | None:
            if name in found:
                return found[name]
            if name in waiting:
                raise InputError("importers.circular_initial", name)
            waiting.append(name)
            if name in self.initial:
                formula = self.initial[name].xreplace({TIME: sympy.S.Zero})
                parts = {symbol(n): value(n) for n in sorted(names(formula))}
                lost = [s.name for s, part in parts.items() if part is None]
                found[name] = None if lost else substitute(formula, parts)
            else:
                constant = self.constants.get(name)
                found[name] = None if constant is None else exact(constant)
            waiting.pop()
            return found[name]

        for name in (*self.constants, *self.states):
            value(name)
        return found

    def model(self, observables: Mapping[str, str] | Sequence[str] | None = None) -> Model:
        """The model in which every parameter of the file is a parameter and other constants are numbers.

        `observables`: formulas by name, names of anything in the file, or None for everything that moves.
        """
        free = self._free
        start = self.start({name: symbol(name) for name in free})
        known = {symbol(n): _given(n, start[n]) for n in self.constants if n not in free}
        if observables is None:
            observables = self.variables
        formulas = observables if isinstance(observables, Mapping) else {n: n for n in observables}
        outputs = {n: substitute(self._observable(n, f), known) for n, f in formulas.items()}
        rates = {state: substitute(rate, known) for state, rate in self.rates.items()}
        events = [with_values(one, known) for one in self.events]
        return Model.from_expressions(rates, outputs, free, events=events)

    def _observable(self, name: str, text: str) -> sympy.Expr:
        try:
            return self.formula(text)
        except InputError as error:
            raise error.within("importers.in_observable", name) from None

    def formula(
        self, text: str, also: Mapping[str, sympy.Expr] | None = None, dialect: Dialect = OWN
    ) -> sympy.Expr:
        """Formula text in the names of the file; `also` are further names it may use."""
        own = {one: self.definitions.get(name, symbol(name)) for one, name in self.spelling.items()}
        if "time" not in (*self.constants, *self.rates, *self.definitions):
            own["time"] = TIME
        meaning = {**self.definitions, **own, **(also or {})}
        expr = parse(text, meaning, dialect)
        if expr.is_infinite:
            raise InputError("formulas.not_finite", text)
        known = {*meaning, *self.constants, *self.rates}
        for name in names_in_order(text, dialect):
            if name not in known and (name, dialect) != ("t", OWN):  # other formats call the time `time`
                raise InputError("importers.not_in_sbml", name, close=closest(name, known))
        return expr


def substitute(expr: sympy.Expr, values: Mapping[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
    """`expr` with symbols replaced, all at once; numbers stay within the range of floats."""
    swapped = expr.xreplace(dict(values))
    if swapped.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo):
        raise InputError("importers.divides_by_zero", to_text(expr))
    return swapped


def with_values(event: Event, values: Mapping[sympy.Symbol, sympy.Expr]) -> Event:
    """An event whose formulas have symbols replaced."""
    return replace(
        event,
        trigger=substitute(event.trigger, values),
        assignments=tuple((state, substitute(value, values)) for state, value in event.assignments),
    )


def _given(name: str, value: sympy.Expr | None) -> sympy.Expr:
    if value is None:
        raise InputError("importers.no_value", name)
    return value
