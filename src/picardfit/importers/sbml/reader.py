"""A libSBML model -> System."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import sympy

from picardfit.errors import InputError, closest
from picardfit.formulas.algebra import TIME, add, compare, divide, first_of, multiply, names, symbol
from picardfit.formulas.derivatives import Slopes
from picardfit.formulas.grammar import RESERVED
from picardfit.importers.sbml.events import Event, Reset, continuous, trigger_time
from picardfit.importers.sbml.mathml import Owner, exact, expression, identifiers
from picardfit.importers.sbml.state_events import are_located, model_events, of_reset
from picardfit.importers.sbml.system import System

if TYPE_CHECKING:
    import libsbml


class Reader:
    """The elements of a libSBML model by identifier; what an identifier stands for is computed on first use.

    `set_later`: what something outside the file sets while the model runs (see `system`); a constant among them is a
    state that does not move by itself. `at_rest`: whether a model without anything that moves is accepted.
    """

    def __init__(self, model: libsbml.Model, set_later: Iterable[str] = (), at_rest: bool = False) -> None:
        self.model, self.set_later, self.at_rest = model, set(set_later), at_rest
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
        self.parameters = [p.getId() for p in model.getListOfParameters()]
        # what can have a value: a state, a constant, or the target of a rule
        self.quantities = [*self.compartments, *self.species, *self.parameters, *self.references]
        self.spelling = self._spellings()
        self.events = [Event(e, k) for k, e in enumerate(model.getListOfEvents(), 1)]
        self.locals: dict[str, float | None] = {}  # local parameters by their new name
        self.known: dict[str, sympy.Expr] = {}
        self.waiting: list[str] = []
        self.changes = self._changes()
        self.variables = self._classify()

    def system(self, also: Sequence[Reset] = (), taken: Iterable[str] = ()) -> System:
        """The whole content; variables that events reset are written in continuous pieces (see events.py).

        `also`: further resets, which come before those of the file at the same time. `taken`: names that no piece gets.
        """
        rates = {self.name(i): self._rate(i) for i in self.states}
        defined = {self.name(i): self.meaning(i) for i in (*self.rules, *self.reactions, *self.stepped)}
        resets = [] if self.by_state else [*also, *self._resets()]
        pieces = continuous(rates, resets, (*self.spelling.values(), *self.locals, *taken))
        moving = {i for i in self.states if i not in self.reset_only or self.name(i) not in pieces.meaning}
        unchanged = [i for i in self.quantities if i not in {*moving, *self.rules}]
        constants = {self.name(i): self._number(i) for i in unchanged} | self.locals
        initial = {self.name(i): self._initial(i, i in moving) for i in self.quantities}
        parameters = [*map(self.name, self.parameters), *self.locals]
        inside = {symbol(n): e for n, e in pieces.meaning.items()}
        return System(
            name=self.model.getName() or self.model.getId(),
            rates=pieces.rates,
            definitions={n: e.xreplace(inside) for n, e in defined.items()} | pieces.meaning,
            constants=constants,
            initial={n: e for n, e in initial.items() if e is not None and n in {*rates, *constants}}
            | {n: sympy.S.Zero for n in pieces.rates if n not in rates}
            | {piece: symbol(state) for piece, state in pieces.origins.items()},
            parameters=tuple(n for n in parameters if n in constants),
            species=frozenset(map(self.name, self.species)),
            spelling={i: n for i, n in self.spelling.items() if i != n},
            origins=pieces.origins,
            variables=tuple(map(self.name, self.variables)),
            events=(
                (*map(of_reset, also), *model_events(self.events, self.formula, self._values_after))
                if self.by_state
                else ()
            ),
        )

    def _classify(self) -> list[str]:
        """The variables that reactions or rate rules change.

        Sets `states` (these, and `reset_only`), `reset_only` (what only events change, to values that depend on states)
        and `stepped` (what only events change, to constants: a formula of time).
        """
        moving = [
            i for i in self.quantities if i in self.rate_rules or (self._moves(i) and i not in self.rules)
        ]
        if not moving and not self.at_rest:
            raise InputError("importers.nothing_changes")
        self._check_events()
        everything = {*moving, *self.rules, *self.reactions, *self._targets()}
        self.by_state = are_located(self.events, everything) or self._order_is_unknown(moving)
        self.reset_only = {
            i for i in self._targets() - set(moving) if self.by_state or not self._is_stepped(i)
        }
        self.states = [*moving, *(i for i in self.quantities if i in self.reset_only)]
        self.stepped = self._targets() - set(self.states)
        return moving

    def name(self, identifier: str) -> str:
        return self.spelling[identifier]

    def _spellings(self) -> dict[str, str]:
        """Names that mean something in formulas (`t`, `log`, `pi`, `if`, ...) get a `_` at the end."""
        ids = [*self.quantities, *self.reactions]
        taken = set(ids)
        spelling = {}
        for identifier in ids:
            name = identifier
            while name == "t" or name in RESERVED or (name != identifier and name in taken):
                name += "_"
            taken.add(name)
            spelling[identifier] = name
        return spelling

    def meaning(self, identifier: str) -> sympy.Expr:
        """What an identifier stands for in states, constants and time."""
        if identifier not in self.spelling:
            close = closest(identifier, self.spelling)
            raise InputError("importers.undefined_identifier", identifier, close=close)
        if identifier not in (*self.rules, *self.reactions, *self.stepped):
            return symbol(self.name(identifier))
        if identifier not in self.known:
            if identifier in self.waiting:
                raise InputError("importers.circular_rules", identifier)
            self.waiting.append(identifier)
            if identifier in self.rules:
                rule = self.rules[identifier]
                found = self.formula(rule.getMath(), Owner("importers.in_rule", identifier, rule.getLine()))
            elif identifier in self.reactions:
                found = self._law(self.reactions[identifier])
            else:
                found = self._steps(identifier)
            self.known[identifier] = found
            self.waiting.pop()
        return self.known[identifier]

    def formula(
        self, math: libsbml.ASTNode | None, owner: Owner, local: Mapping[str, str] | None = None
    ) -> sympy.Expr:
        """A formula of the file; `local`: names that hold in it alone."""
        own = local or {}
        try:
            return expression(math, lambda i: symbol(own[i]) if i in own else self.meaning(i), self.functions)
        except InputError as error:
            raise owner.at(error) from None

    def varying(self) -> set[str]:
        """Identifiers whose values may differ from one time to another."""
        return {*self.variables, *self.rules, *self.reactions, *self._targets()}

    def _targets(self) -> set[str]:
        """What events set, or others while the model runs."""
        return self.set_later.union(*({*event.values, *event.diluted} for event in self.events))

    def _check_events(self) -> None:
        for event in self.events:
            for target in event.values:
                if target not in self.spelling or target in self.reactions:
                    raise event.owner.at(InputError("importers.event_target", target))
                if target in self.rules:
                    raise event.owner.at(InputError("importers.event_sets_rule", target))
                event.diluted |= {
                    i: target
                    for i, one in self.species.items()
                    if one.getCompartment() == target and i not in self.rules and not self._is_amount(one)
                }
            if both := sorted(event.diluted.keys() & event.values.keys()):
                volume = event.diluted[both[0]]
                raise event.owner.at(InputError("importers.event_volume", volume, names=both))

    def _order_is_unknown(self, moving: Sequence[str]) -> bool:
        """Whether several events set the same, or states, at times that are formulas: any may come first."""
        if any(event.delay is not None for event in self.events):
            return False
        stepped = {i for i in self._targets() - set(moving) if self._is_stepped(i)}
        together = [[event for event in self.events if i in event.values] for i in stepped]
        together.append([event for event in self.events if {*event.values, *event.diluted} - stepped])
        return any(
            len(group) > 1 and any(identifiers(event.trigger) - {""} for event in group) for group in together
        )

    def _is_stepped(self, identifier: str) -> bool:
        """Whether events set it to formulas of constants only, and no event uses it: it is then a formula of time."""
        diluting = ({*event.diluted, *event.diluted.values()} for event in self.events)
        if identifier in self.set_later.union(*diluting):
            return False
        seen = set().union(*(identifiers(math) for event in self.events for math in event.values.values()))
        if identifier in seen or seen & {*self.rules, *self.reactions}:
            return False
        fixed = set(self.spelling) - {*self.rules, *self.reactions, *self.rate_rules, *self._targets()}
        fixed = {i for i in fixed if not self._moves(i)}
        return all(
            identifiers(event.values[identifier]) <= fixed
            for event in self.events
            if identifier in event.values
        )

    def _time(self, event: Event) -> sympy.Expr | None:
        """When an event happens; None if never."""
        time = trigger_time(self.formula(event.trigger, event.owner), event.owner)
        if event.delay is not None:
            time = add(time, self.formula(event.delay, event.owner))
        moving = names(time) & {"t", *map(self.name, self.states)}
        if moving:
            raise event.owner.at(InputError("importers.event_time_moves", names=sorted(moving)))
        if time.is_number and float(time) <= 0:
            return None if event.begins_true else sympy.S.Zero
        return time

    def _steps(self, identifier: str) -> sympy.Expr:
        """A constant that events set to other constants, as a piecewise formula of time."""
        steps = []
        for event in (e for e in self.events if identifier in e.values):
            time = self._time(event)
            if time is not None:
                steps.append((time, self.formula(event.values[identifier], event.owner)))
        if len(steps) > 1:
            if not all(time.is_number for time, _ in steps):
                raise InputError("importers.steps_order", identifier)
            steps.sort(key=lambda step: float(step[0]))
        latest_first = [(value, compare(">=", TIME, time)) for time, value in reversed(steps)]
        return first_of(latest_first, symbol(self.name(identifier)))

    def _resets(self) -> list[Reset]:
        """The resets of states by events."""
        resets = []
        for event in self.events:
            values, time = self._values_after(event), self._time(event)
            if not values or time is None:
                continue
            moving = set().union(*map(names, values.values())) & {"t", *map(self.name, self.states)}
            if event.delay is not None and event.early and moving:
                raise event.owner.at(InputError("importers.before_delay", names=sorted(moving)))
            resets.append((event.priority, Reset(event.name, time, values)))
        resets.sort(key=lambda one: -one[0])  # at one time, the highest priority comes first
        return [reset for _, reset in resets]

    def _values_after(self, event: Event) -> dict[str, sympy.Expr]:
        """The states that an event changes; where it sets a volume, the amounts of species in it stay as they are."""
        values = {
            self.name(i): self.formula(math, event.owner)
            for i, math in event.values.items()
            if i in self.states
        }
        for species, compartment in event.diluted.items():
            volume, new = self.meaning(compartment), values[self.name(compartment)]
            values[self.name(species)] = divide(multiply(self.meaning(species), volume), new)
        return values

    def _law(self, reaction: libsbml.Reaction) -> sympy.Expr:
        """The kinetic law; local parameters become parameters called reaction_parameter."""
        law = reaction.getKineticLaw()
        if law is None or law.getMath() is None:
            raise InputError("importers.no_kinetic_law", reaction.getId()).at(line=reaction.getLine() or None)
        own = list(law.getListOfParameters()) or list(law.getListOfLocalParameters())
        local = {}
        for parameter in own:
            name = f"{reaction.getId()}_{parameter.getId()}"
            while name in self.spelling.values():
                name += "_"
            local[parameter.getId()] = name
            self.locals[name] = parameter.getValue() if parameter.isSetValue() else None
        return self.formula(law.getMath(), Owner("importers.in_law", reaction.getId(), law.getLine()), local)

    def _changes(self) -> dict[str, list[tuple[str, libsbml.SpeciesReference, int]]]:
        """species -> (reaction, reference, sign) of all reactions that change it."""
        changes: dict[str, list] = {}
        for identifier, reaction in self.reactions.items():
            for sign, references in ((-1, reaction.getListOfReactants()), (1, reaction.getListOfProducts())):
                for reference in references:
                    species = self.species.get(reference.getSpecies())
                    if species is None:
                        error = InputError("importers.unknown_species", reference.getSpecies())
                        raise Owner("importers.in_reaction", identifier, reference.getLine()).at(error)
                    if not (species.getBoundaryCondition() or species.getConstant()):
                        changes.setdefault(species.getId(), []).append((identifier, reference, sign))
        return changes

    def _moves(self, identifier: str) -> bool:
        """Whether reactions change it, or a growing compartment dilutes it."""
        species = self.species.get(identifier)
        if species is None or identifier in self.changes:
            return species is not None
        grows = species.getCompartment() in (*self.rules, *self.rate_rules)
        return grows and not (species.getConstant() or self._is_amount(species))

    def _rate(self, identifier: str) -> sympy.Expr:
        """d/dt of what the identifier stands for, between events."""
        if identifier in self.reset_only:
            return sympy.S.Zero
        if identifier in self.rate_rules:
            rule = self.rate_rules[identifier]
            return self.formula(rule.getMath(), Owner("importers.in_rate_rule", identifier, rule.getLine()))
        terms = [
            multiply(sympy.Integer(sign), self._stoichiometry(reference), self.meaning(reaction))
            for reaction, reference, sign in self.changes.get(identifier, ())
        ]
        species = self.species[identifier]
        factor = species.getConversionFactor() or self.model.getConversionFactor()
        amount = multiply(self.meaning(factor) if factor else sympy.S.One, add(*terms))
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
        owner = Owner("importers.in_stoichiometry", reference.getSpecies(), reference.getLine())
        if reference.isSetStoichiometryMath():
            return self.formula(reference.getStoichiometryMath().getMath(), owner)
        identifier = reference.getId()
        moves = identifier in {*self.rules, *self.rate_rules, *self._targets()}
        if moves or self._assignment(identifier):
            return self.meaning(identifier)
        value = reference.getStoichiometry()
        if value != value:
            raise owner.at(InputError("importers.no_stoichiometry"))
        return exact(value)

    def _is_amount(self, species: libsbml.Species) -> bool:
        compartment = self.compartments.get(species.getCompartment())
        if compartment is None:
            error = InputError("importers.unknown_compartment", species.getId())
            raise error.at(line=species.getLine() or None)
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
        """The initial value as a formula: of an initial assignment, a species or a variable; None for others."""
        if identifier in self.rules:
            return None
        assignment = self._assignment(identifier)
        if assignment is not None:
            owner = Owner("importers.in_initial_assignment", identifier, assignment.getLine())
            return self.formula(assignment.getMath(), owner)
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


def _refuse(model: libsbml.Model) -> None:
    """InputError for elements that a system of ordinary differential equations cannot express."""
    for rule in model.getListOfRules():
        if rule.isAlgebraic():
            raise InputError("importers.algebraic_rule").at(line=rule.getLine() or None)
    for reaction in model.getListOfReactions():
        if reaction.isSetFast() and reaction.getFast():
            error = InputError("importers.fast_reaction", reaction.getId())
            raise error.at(line=reaction.getLine() or None)
    hierarchy = model.getPlugin("comp")
    if hierarchy is not None and hierarchy.getNumSubmodels():
        raise InputError("importers.submodels")
