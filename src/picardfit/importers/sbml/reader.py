"""The parts of an SBML model, as libSBML holds them -> System."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import sympy

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.formulas.algebra import TIME, Slopes, add, choose, compare, divide, multiply, names, symbol
from picardfit.formulas.grammar import RESERVED
from picardfit.importers.sbml.events import Reset, continuous
from picardfit.importers.sbml.mathml import exact, expression
from picardfit.importers.sbml.system import System

if TYPE_CHECKING:
    import libsbml


class Reader:
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
        self.locals: dict[str, float | None] = {}  # local parameters by their new name
        self.known: dict[str, sympy.Expr] = {}
        self.waiting: list[str] = []
        self.changes = self._changes()

    def system(self) -> System:
        everything = [*self.compartments, *self.species, *self._parameters(), *self.references]
        states = [i for i in everything if i in self.rate_rules or (self._moves(i) and i not in self.rules)]
        if not states:
            raise InputError("nothing in it changes with time: it needs reactions or rate rules.")
        self._check_events()
        self.held = {i for i in self._targets() - set(states) if not self._is_stepped(i)}
        self.states = [*states, *(i for i in everything if i in self.held)]
        self.switched = self._targets() - set(self.states)
        rates = {self.name(i): self._rate(i) for i in self.states}
        definitions = {self.name(i): self.meaning(i) for i in (*self.rules, *self.reactions, *self.switched)}
        pieces = continuous(rates, self._resets(), (*self.spelling.values(), *self.locals))
        moving = {i for i in self.states if i not in self.held or self.name(i) not in pieces.meaning}
        constants = {self.name(i): self._number(i) for i in everything if i not in {*moving, *self.rules}}
        constants |= self.locals
        initial = {self.name(i): e for i in everything if (e := self._initial(i, i in moving)) is not None}
        parameters = [self.name(i) for i in self._parameters()] + list(self.locals)
        inside = {symbol(n): e for n, e in pieces.meaning.items()}
        definitions = {n: e.xreplace(inside) for n, e in definitions.items()} | pieces.meaning
        begun = dict.fromkeys((n for n in pieces.rates if n not in rates), sympy.S.Zero)
        begun |= {piece: symbol(state) for piece, state in pieces.origins.items()}
        return System(
            name=self.model.getName() or self.model.getId(),
            rates=pieces.rates,
            definitions=definitions,
            constants=constants,
            initial={n: e for n, e in initial.items() if n in rates or n in constants} | begun,
            parameters=tuple(n for n in parameters if n in constants),
            species=frozenset(map(self.name, self.species)),
            spelling={i: n for i, n in self.spelling.items() if i != n},
            origins=pieces.origins,
            variables=tuple(map(self.name, states)),
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

    def _targets(self) -> set[str]:
        return {target for event in self.events for target in event.values}

    def _check_events(self) -> None:
        for event in self.events:
            where = f"the event `{event.name}`"
            for target in event.values:
                if target not in self.spelling or target in self.reactions:
                    raise InputError(
                        f"{where} sets `{target}`, which is no variable of the file: correct it."
                    )
                if target in self.rules:
                    raise InputError(f"{where} sets `{target}`, which has an assignment rule: remove one.")
                inside = [
                    i
                    for i, one in self.species.items()
                    if one.getCompartment() == target and not self._is_amount(one)
                ]
                if inside:
                    raise InputError(
                        f"{where} changes the volume `{target}` round the concentration of {listing(inside)}, which "
                        f"is not supported: give the species hasOnlySubstanceUnits."
                    )

    def _is_stepped(self, identifier: str) -> bool:
        """Whether events set it to formulas of constants only, and none looks at it: it is then a formula of time."""
        seen = set().union(*(_identifiers(math) for event in self.events for math in event.values.values()))
        if identifier in seen or seen & {*self.rules, *self.reactions}:
            return False
        fixed = set(self.spelling) - {*self.rules, *self.reactions, *self.rate_rules, *self._targets()}
        fixed = {i for i in fixed if not self._moves(i)}
        return all(
            _identifiers(event.values[identifier]) <= fixed
            for event in self.events
            if identifier in event.values
        )

    def _time(self, event: _Event) -> sympy.Expr | None:
        """When an event happens; None if never."""
        where = f"the event `{event.name}`"
        time = _trigger_time(self.formula(event.trigger, where), event.name)
        if event.delay is not None:
            time = add(time, self.formula(event.delay, where))
        moving = names(time) & {"t", *map(self.name, self.states)}
        if moving:
            raise InputError(
                f"{where} happens at a time that depends on {listing(sorted(moving))}, which is not supported: "
                f"only events at known times are read."
            )
        if time.is_number and float(time) <= 0:
            return None if event.begins_true else sympy.S.Zero
        return time

    def _steps(self, identifier: str) -> sympy.Expr:
        """A constant that events set to other constants, as a piecewise formula of time."""
        steps = []
        for event in (e for e in self.events if identifier in e.values):
            time = self._time(event)
            if time is not None:
                steps.append((time, self.formula(event.values[identifier], f"the event `{event.name}`")))
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

    def _resets(self) -> list[Reset]:
        """What events do to states."""
        resets = []
        for event in self.events:
            where = f"the event `{event.name}`"
            values = {
                self.name(i): self.formula(math, where)
                for i, math in event.values.items()
                if i in self.states
            }
            time = self._time(event)
            if not values or time is None:
                continue
            moving = set().union(*map(names, values.values())) & {"t", *map(self.name, self.states)}
            if event.delay is not None and event.early and moving:
                raise InputError(
                    f"{where} uses {listing(sorted(moving))} as it was before the delay, which is not supported: "
                    f"set useValuesFromTriggerTime to false, or drop the delay."
                )
            resets.append((event.priority, Reset(event.name, time, values)))
        resets.sort(key=lambda one: -one[0])  # at one time, the highest priority comes first
        return [reset for _, reset in resets]

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
        """d/dt of what the identifier stands for, between events."""
        if identifier in self.held:
            return sympy.S.Zero
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

    def _initial(self, identifier: str, moving: bool) -> sympy.Expr | None:
        """The initial value where an assignment or a state needs a formula for it."""
        if identifier in self.rules:
            return None
        assignment = self._assignment(identifier)
        if assignment is not None:
            return self.formula(assignment.getMath(), f"the initial assignment of `{identifier}`")
        if identifier in self.species:
            return self._initial_species(self.species[identifier])
        value = self._number(identifier)
        return exact(value) if moving and value is not None else None

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
        self.early = event.getUseValuesFromTriggerTime()
        self.priority = _priority(event, self.name)
        self.values = {a.getVariable(): a.getMath() for a in event.getListOfEventAssignments()}


def _priority(event: libsbml.Event, name: str) -> float:
    """The priority, 0 where there is none."""
    if not event.isSetPriority():
        return 0.0
    math = event.getPriority().getMath()
    if math is None or math.getNumChildren() or not math.isNumber():
        raise InputError(f"the priority of the event `{name}` is no number: write one.")
    return float(math.getValue())


def _identifiers(node: libsbml.ASTNode | None) -> set[str]:
    """All names in a formula, the empty one for the time."""
    import libsbml

    if node is None:
        return set()
    found = set().union(*(_identifiers(node.getChild(i)) for i in range(node.getNumChildren())))
    if node.isName():
        found.add("" if node.getType() == libsbml.AST_NAME_TIME else node.getName())
    return found


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
