"""SBML (Level 2 and 3) -> Model.

`load` gives the whole content as a `System`: rates, constants, initial values. `read` gives the Model alone.
A species stands for its concentration, or for its amount where the file says `hasOnlySubstanceUnits`; a
kinetic law is an amount per time, so that d concentration/dt = sum(stoichiometry * law) / volume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sympy

from picardfit.algebra import TIME, Slopes, add, choose, compare, divide, multiply, names, symbol
from picardfit.errors import InputError, did_you_mean, listing
from picardfit.expressions import RESERVED, parse
from picardfit.importers.mathml import exact, expression
from picardfit.model import Model
from picardfit.printing import to_text

if TYPE_CHECKING:
    import libsbml


@dataclass(frozen=True, eq=False)
class System:
    """The content of an SBML file in expressions; names that mean something in formulas got a `_` at the end.

    Formulas in `rates` and `definitions` hold states, constants and the time; those in `initial` too, where a
    state stands for its initial value.
    """

    name: str
    rates: dict[str, sympy.Expr]  # state -> its derivative
    definitions: dict[str, sympy.Expr]  # targets of assignment rules, rates of reactions
    constants: dict[str, float | None]  # what does not change with time; None: the file gives no number
    initial: dict[str, sympy.Expr]  # of states, and of constants that an initial assignment sets
    parameters: tuple[str, ...]  # the constants that are parameters (not volumes, species, stoichiometries)
    species: frozenset[str]
    spelling: dict[str, str]  # id in the file -> name here, where they differ

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(self.rates)

    @property
    def values(self) -> dict[str, float]:
        """The file's values of the parameters of `model()`."""
        return {n: self.constants[n] for n in self._free if self.constants[n] is not None}

    @property
    def initial_formulas(self) -> dict[str, float | str]:
        """What the file says of the initial states, as `Problem(initial=...)` takes it."""
        start = self.start({name: symbol(name) for name in self._free})
        found = {state: start[state] for state in self.states if start.get(state) is not None}
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
                raise InputError(
                    f"The initial value of `{name}` depends on itself: remove the circle of initial assignments."
                )
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

        `observables`: formulas by name, names of anything in the file, or None for every state.
        """
        free = self._free
        start = self.start({name: symbol(name) for name in free})
        known = {symbol(n): _given(n, start[n]) for n in self.constants if n not in free}
        if observables is None:
            observables = self.states
        formulas = observables if isinstance(observables, Mapping) else {n: n for n in observables}
        outputs = {n: substitute(self.formula(f, f"Observable `{n}`"), known) for n, f in formulas.items()}
        rates = {state: substitute(rate, known) for state, rate in self.rates.items()}
        return Model.from_expressions(rates, outputs, free)

    def formula(self, text: str, where: str, also: Mapping[str, sympy.Expr] | None = None) -> sympy.Expr:
        """Formula text in the names of the file; `also` are further names it may use."""
        own = {name: symbol(self.spelling.get(name, name)) for name in self.spelling}
        if "time" not in (*self.constants, *self.rates, *self.definitions):
            own["time"] = TIME
        expr = parse(text, where, {**self.definitions, **own, **(also or {})})
        known = {"t", *self.constants, *self.rates, *(n for e in (also or {}).values() for n in names(e))}
        for name in sorted(names(expr) - known):
            raise InputError(
                f"{where} uses `{name}`, which is neither in the SBML file nor a parameter: correct it."
                + did_you_mean(name, known)
            )
        return expr


def read(path: str | Path) -> Model:
    """The model of an SBML file: its parameters are parameters, every state is observed."""
    return load(path).model()


def load(path: str | Path) -> System:
    """The content of an SBML file."""
    libsbml = _libsbml()
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file `{path}`: give the path of an SBML file.")
    return from_document(libsbml.readSBMLFromFile(str(path)), f"`{path.name}`")


def from_document(document: libsbml.SBMLDocument, label: str) -> System:
    """The content of a document of libSBML; `label` opens the messages of errors."""
    libsbml = _libsbml()
    for k in range(document.getNumErrors()):
        error = document.getError(k)
        if error.getSeverity() >= libsbml.LIBSBML_SEV_ERROR:
            raise InputError(
                f"{label} is not valid SBML (line {error.getLine()}: {error.getShortMessage()}): correct the file."
            )
    model = document.getModel()
    if model is None:
        raise InputError(f"{label} holds no SBML model: give another file.")
    try:
        return _Reader(model).system()
    except InputError as error:
        raise InputError(f"{label}: {error}") from None


def substitute(expr: sympy.Expr, values: Mapping[sympy.Symbol, sympy.Expr]) -> sympy.Expr:
    """`expr` with symbols replaced, all at once; numbers stay within the range of floats."""
    swapped = expr.xreplace(dict(values))
    if swapped.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo):
        raise InputError(f"`{to_text(expr)}` divides by zero with the values given: correct them.")
    return swapped


def _given(name: str, value: sympy.Expr | None) -> sympy.Expr:
    if value is None:
        raise InputError(f"`{name}` has no value in the file: give it one there.")
    return value


def _libsbml():
    try:
        import libsbml
    except ImportError:
        raise InputError(
            "SBML files need the package python-libsbml: install it with pip install 'picardfit[petab]'."
        ) from None
    return libsbml


# ---- the parts of a file -----------------------------------------------------------------------------------


class _Reader:
    """One pass over a model of libSBML; what an identifier stands for is worked out when it is asked for."""

    def __init__(self, model: libsbml.Model) -> None:
        self.model = model
        _refuse(model)
        self.functions = {f.getId(): f.getMath() for f in model.getListOfFunctionDefinitions()}
        self.rules = {r.getVariable(): r for r in model.getListOfRules() if r.isAssignment()}
        self.rate_rules = {r.getVariable(): r for r in model.getListOfRules() if r.isRate()}
        self.species = {s.getId(): s for s in model.getListOfSpecies()}
        self.compartments = {c.getId(): c for c in model.getListOfCompartments()}
        self.reactions = {r.getId(): r for r in model.getListOfReactions()}
        self.references = {
            r.getId(): r
            for reaction in self.reactions.values()
            for r in (*reaction.getListOfReactants(), *reaction.getListOfProducts())
            if r.isSetId()
        }
        self.spelling = self._spellings()
        self.events = [_Event(e, k) for k, e in enumerate(model.getListOfEvents(), 1)]
        self.switched = {target for event in self.events for target in event.values}
        self.locals: dict[str, float | None] = {}  # local parameters by their new name
        self.known: dict[str, sympy.Expr] = {}
        self.waiting: list[str] = []
        self.changes = self._changes()

    def system(self) -> System:
        everything = [*self.compartments, *self.species, *self._parameters(), *self.references]
        states = [i for i in everything if i in self.rate_rules or (self._moves(i) and i not in self.rules)]
        if not states:
            raise InputError("nothing in it changes with time: it needs reactions or rate rules.")
        self.states = states
        self._check_events()
        rates = {self.name(i): self._rate(i) for i in states}
        definitions = {self.name(i): self.meaning(i) for i in (*self.rules, *self.reactions, *self.switched)}
        constants = {self.name(i): self._number(i) for i in everything if i not in (*states, *self.rules)}
        constants |= self.locals
        initial = {self.name(i): e for i in everything if (e := self._initial(i)) is not None}
        parameters = [self.name(i) for i in self._parameters()] + list(self.locals)
        return System(
            name=self.model.getName() or self.model.getId(),
            rates=rates,
            definitions=definitions,
            constants=constants,
            initial={n: e for n, e in initial.items() if n in rates or n in constants},
            parameters=tuple(n for n in parameters if n in constants),
            species=frozenset(map(self.name, self.species)),
            spelling={i: n for i, n in self.spelling.items() if i != n},
        )

    def name(self, identifier: str) -> str:
        return self.spelling[identifier]

    def _spellings(self) -> dict[str, str]:
        """Names that mean something in formulas (`t`, `log`, `pi`, `if`, ...) get a `_` at the end."""
        ids = [*self.compartments, *self.species, *self._parameters(), *self.references, *self.reactions]
        taken = set(ids)
        spelling = {}
        for identifier in ids:
            name = identifier
            while name == "t" or name in RESERVED or (name != identifier and name in taken):
                name += "_"
            taken.add(name)
            spelling[identifier] = name
        return spelling

    def _parameters(self) -> list[str]:
        return [p.getId() for p in self.model.getListOfParameters()]

    def meaning(self, identifier: str) -> sympy.Expr:
        """What an identifier stands for in states, constants and time."""
        if identifier not in self.spelling:
            raise InputError(
                f"the identifier `{identifier}` is used but not defined: define it."
                + did_you_mean(identifier, self.spelling)
            )
        if identifier not in (*self.rules, *self.reactions, *self.switched):
            return symbol(self.name(identifier))
        if identifier not in self.known:
            if identifier in self.waiting:
                raise InputError(
                    f"`{identifier}` is defined by itself: remove the circle of assignment rules."
                )
            self.waiting.append(identifier)
            if identifier in self.rules:
                found = self.formula(self.rules[identifier].getMath(), f"the rule of `{identifier}`")
            elif identifier in self.reactions:
                found = self._law(self.reactions[identifier])
            else:
                found = self._steps(identifier)
            self.known[identifier] = found
            self.waiting.pop()
        return self.known[identifier]

    def formula(
        self, node: libsbml.ASTNode, where: str, local: Mapping[str, str] | None = None
    ) -> sympy.Expr:
        local = local or {}
        return expression(
            node, where, lambda i: symbol(local[i]) if i in local else self.meaning(i), self.functions
        )

    def _check_events(self) -> None:
        """Events may set what is otherwise constant; a jump of a state has no place here."""
        for event in self.events:
            for target in event.values:
                if target not in self.spelling:
                    raise InputError(
                        f"the event `{event.name}` sets `{target}`, which is not in the file: add it."
                    )
                if target in self.states or target in self.rules:
                    raise InputError(
                        f"the event `{event.name}` makes the state `{target}` jump, which is not supported: "
                        f"write a dose as an inflow during a short time, piecewise in time."
                    )

    def _steps(self, identifier: str) -> sympy.Expr:
        """A constant that events set at known times, as a piecewise formula of time."""
        steps = []
        for event in (e for e in self.events if identifier in e.values):
            where = f"the event `{event.name}`"
            value = self.formula(event.values[identifier], where)
            time = _trigger_time(self.formula(event.trigger, where), event.name)
            if event.delay is not None:
                time = add(time, self.formula(event.delay, where))
            moving = names(value) & {"t", *map(self.name, self.states)}
            if moving:
                raise InputError(
                    f"{where} sets `{identifier}` to a value that depends on {listing(sorted(moving))}: "
                    f"only constants are supported there."
                )
            if not (time.is_number and float(time) <= 0 and event.begins_true):
                steps.append((time, value))
        if len(steps) > 1:
            if not all(time.is_number for time, _ in steps):
                raise InputError(
                    f"several events set `{identifier}` at times that are not numbers: write numbers."
                )
            steps.sort(key=lambda step: float(step[0]))
        expr: sympy.Expr = symbol(self.name(identifier))
        for time, value in steps:
            expr = choose(compare(">=", TIME, time), value, expr)
        return expr

    def _law(self, reaction: libsbml.Reaction) -> sympy.Expr:
        """The kinetic law; local parameters become parameters called reaction_parameter."""
        law = reaction.getKineticLaw()
        if law is None or law.getMath() is None:
            raise InputError(f"the reaction `{reaction.getId()}` has no kinetic law: add one.")
        own = list(law.getListOfParameters()) or list(law.getListOfLocalParameters())
        local = {}
        for parameter in own:
            name = f"{reaction.getId()}_{parameter.getId()}"
            while name in self.spelling.values():
                name += "_"
            local[parameter.getId()] = name
            self.locals[name] = parameter.getValue() if parameter.isSetValue() else None
        return self.formula(law.getMath(), f"the kinetic law of `{reaction.getId()}`", local)

    def _changes(self) -> dict[str, list[tuple[str, libsbml.SpeciesReference, int]]]:
        """species -> (reaction, reference, sign) of all reactions that change it."""
        changes: dict[str, list] = {}
        for identifier, reaction in self.reactions.items():
            for sign, references in ((-1, reaction.getListOfReactants()), (1, reaction.getListOfProducts())):
                for reference in references:
                    species = self.species.get(reference.getSpecies())
                    if species is None:
                        raise InputError(
                            f"the reaction `{identifier}` names the species `{reference.getSpecies()}`, "
                            f"which is not in the file: add it."
                        )
                    if not (species.getBoundaryCondition() or species.getConstant()):
                        changes.setdefault(species.getId(), []).append((identifier, reference, sign))
        return changes

    def _moves(self, identifier: str) -> bool:
        """Whether reactions change it, or its compartment grows round a fixed amount."""
        species = self.species.get(identifier)
        if species is None or identifier in self.changes:
            return species is not None
        grows = species.getCompartment() in (*self.rules, *self.rate_rules)
        return grows and not (species.getConstant() or self._is_amount(species))

    def _rate(self, identifier: str) -> sympy.Expr:
        """d/dt of what the identifier stands for."""
        if identifier in self.rate_rules:
            return self.formula(self.rate_rules[identifier].getMath(), f"the rate rule of `{identifier}`")
        terms = [
            multiply(sympy.Integer(sign), self._stoichiometry(reference), self.meaning(reaction))
            for reaction, reference, sign in self.changes.get(identifier, ())
        ]
        species = self.species[identifier]
        amount = multiply(self._conversion(species), add(*terms))
        if self._is_amount(species):
            return amount
        compartment = species.getCompartment()
        volume = self.meaning(compartment)
        growth = self._volume_rate(compartment)
        dilution = divide(multiply(sympy.S.NegativeOne, symbol(self.name(identifier)), growth), volume)
        return add(divide(amount, volume), dilution)

    def _volume_rate(self, compartment: str) -> sympy.Expr:
        """d volume/dt: 0 unless a rule changes the volume."""
        if compartment in self.rate_rules:
            return self._rate(compartment)
        if compartment not in self.rules:
            return sympy.S.Zero
        volume, slopes = self.meaning(compartment), Slopes()
        moving = {self.name(i): i for i in self.states}
        parts = [slopes.slope(volume, TIME)]
        parts += [
            multiply(slopes.slope(volume, symbol(n)), self._rate(moving[n]))
            for n in sorted(names(volume))
            if n in moving
        ]
        return add(*parts)

    def _stoichiometry(self, reference: libsbml.SpeciesReference) -> sympy.Expr:
        where = f"the stoichiometry of `{reference.getSpecies()}`"
        if reference.isSetStoichiometryMath():
            return self.formula(reference.getStoichiometryMath().getMath(), where)
        identifier = reference.getId()
        if identifier in self.rules or identifier in self.rate_rules or self._assignment(identifier):
            return self.meaning(identifier)
        value = reference.getStoichiometry()
        if value != value:
            raise InputError(f"{where} is not given: write it into the file.")
        return exact(value)

    def _conversion(self, species: libsbml.Species) -> sympy.Expr:
        factor = species.getConversionFactor() or self.model.getConversionFactor()
        return self.meaning(factor) if factor else sympy.S.One

    def _is_amount(self, species: libsbml.Species) -> bool:
        compartment = self.compartments.get(species.getCompartment())
        if compartment is None:
            raise InputError(
                f"the compartment of the species `{species.getId()}` is not in the file: add it."
            )
        return species.getHasOnlySubstanceUnits() or compartment.getSpatialDimensions() == 0

    def _number(self, identifier: str) -> float | None:
        """The number the file gives a constant, None if it gives none or a formula."""
        if identifier in self.compartments:
            size = self.compartments[identifier].getSize()
            return float(size) if size == size else 1.0
        if identifier in self.species:
            return None
        element = self.references.get(identifier) or self.model.getParameter(identifier)
        value = element.getStoichiometry() if identifier in self.references else element.getValue()
        return None if value != value else float(value)

    def _assignment(self, identifier: str) -> libsbml.InitialAssignment | None:
        return self.model.getInitialAssignment(identifier) if identifier else None

    def _initial(self, identifier: str) -> sympy.Expr | None:
        """The initial value where an assignment or a state needs a formula for it."""
        if identifier in self.rules:
            return None
        assignment = self._assignment(identifier)
        if assignment is not None:
            return self.formula(assignment.getMath(), f"the initial assignment of `{identifier}`")
        if identifier in self.species:
            return self._initial_species(self.species[identifier])
        value = self._number(identifier)
        return exact(value) if identifier in self.states and value is not None else None

    def _initial_species(self, species: libsbml.Species) -> sympy.Expr | None:
        amount = self._is_amount(species)
        volume = self.meaning(species.getCompartment())
        if species.isSetInitialAmount():
            value = exact(species.getInitialAmount())
            return value if amount else divide(value, volume)
        if species.isSetInitialConcentration():
            value = exact(species.getInitialConcentration())
            return multiply(value, volume) if amount else value
        return None


class _Event:
    """An event as it stands in the file."""

    def __init__(self, event: libsbml.Event, count: int) -> None:
        self.name = event.getId() or f"number {count}"
        trigger = event.getTrigger()
        self.trigger = None if trigger is None else trigger.getMath()
        self.begins_true = trigger is None or not trigger.isSetInitialValue() or trigger.getInitialValue()
        self.delay = event.getDelay().getMath() if event.isSetDelay() else None
        self.values = {a.getVariable(): a.getMath() for a in event.getListOfEventAssignments()}


def _trigger_time(condition: sympy.Basic, event: str) -> sympy.Expr:
    """When `time >= ...` becomes true."""
    if isinstance(condition, sympy.core.relational.Relational):
        gap = (
            condition.lhs - condition.rhs
            if condition.rel_op in (">", ">=")
            else condition.rhs - condition.lhs
        )
        slope = Slopes().slope(gap, TIME)
        if condition.rel_op in (">", ">=", "<", "<=") and slope.is_number and slope > 0:
            return divide(multiply(sympy.S.NegativeOne, gap.xreplace({TIME: sympy.S.Zero})), slope)
    raise InputError(
        f"the event `{event}` does not wait for a time (time >= ...), which is not supported: "
        f"only events at known times are read."
    )


def _refuse(model: libsbml.Model) -> None:
    """What has no place in a system of ordinary differential equations, by name."""
    if any(rule.isAlgebraic() for rule in model.getListOfRules()):
        raise InputError("it has an algebraic rule: solve it for a variable and write an assignment rule.")
    fast = [r.getId() for r in model.getListOfReactions() if r.isSetFast() and r.getFast()]
    if fast:
        raise InputError(f"the reaction {listing(fast)} is marked as fast: give it an ordinary kinetic law.")
    hierarchy = model.getPlugin("comp")
    if hierarchy is not None and hierarchy.getNumSubmodels():
        raise InputError("it is made of submodels (package comp): flatten it into one model first.")
