"""Small SBML models, one for each construct or pair of constructs, in the style of the SBML semantic test suite.

They are written in Antimony, or as the body of an SBML model where Antimony has no words for something; the names to
compare follow. What is refused has the code of its error (of `importers`).
"""

from __future__ import annotations

ANTIMONY: dict[str, tuple[str, str]] = {
    # ---- reactions, compartments, species
    "decay": ("S1 -> S2; k*S1; S1 = 3; S2 = 0; k = 0.7", "S1 S2"),
    "reversible": ("S1 -> S2; k*S1 - r*S2; S1 = 3; S2 = 0.1; k = 0.7; r = 0.2", "S1 S2"),
    "second order": ("2 S1 + S2 -> 3 S3; k*S1^2*S2; S1 = 3; S2 = 1; S3 = 0; k = 0.2", "S1 S2 S3"),
    "an open chain": (
        "-> S1; v; S1 -> S2; k*S1; S2 -> ; m*S2/(n + S2); S1 = 0; S2 = 0; v = 1; k = 2; m = 1.5; n = 0.5",
        "S1 S2",
    ),
    "compartment size": (
        "compartment c = 2.5; species S1 in c, S2 in c; S1 -> S2; k*S1*c; S1 = 3; S2 = 0; k = 0.7",
        "S1 S2",
    ),
    "two compartments": (
        "compartment c = 2.5, d = 0.4; species S1 in c, S2 in d; S1 -> S2; k*S1*c; S1 = 3; S2 = 1; k = 0.7",
        "S1 S2",
    ),
    "amounts": (
        "compartment c = 2.5; substanceOnly species S1 in c, S2 in c; S1 -> S2; k*S1; S1 = 3; S2 = 1; k = 0.7",
        "S1 S2",
    ),
    "an amount becomes a concentration": (
        "compartment c = 2.5; substanceOnly species S1 in c; species S2 in c; S1 -> S2; k*S1; S1 = 3; S2 = 1; k = 0.7",
        "S1 S2",
    ),
    "initial amounts": (
        "compartment c = 2.5; species S1 in c, S2 in c; S1 -> S2; k*S1*c; S1 = 3/c; S2 = 0.5/c; k = 0.7",
        "S1 S2",
    ),
    "a boundary species": ("species $S1; S1 -> S2; k*S1; S1 = 3; S2 = 0; k = 0.7", "S1 S2"),
    "a constant species": ("const species S1; S1 -> S2; k*S1; S1 = 3; S2 = 0; k = 0.7", "S1 S2"),
    "a boundary species with a rate rule": (
        "species $S1; S1 -> S2; k*S1; S1 = 3; S1' = -0.5*S1 + 0.1; S2 = 0; k = 0.7",
        "S1 S2",
    ),
    "a boundary species with an assignment": (
        "species $S1; S1 -> S2; k*S1; S1 := 1 + sin(time); S2 = 0; k = 0.7",
        "S1 S2",
    ),
    "a modifier": ("J: S1 -> S2; k*S1*E; E' = -0.3*E; E = 2; S1 = 3; S2 = 0; k = 0.7", "S1 S2 E J"),
    "a stoichiometry that is not whole": ("1.5 S1 -> 0.25 S2; k*S1; S1 = 3; S2 = 0; k = 0.7", "S1 S2"),
    "one species on both sides": ("S1 + E -> S2 + 2 E; k*S1*E; S1 = 3; S2 = 0; E = 0.2; k = 0.7", "S1 S2 E"),
    "reactions that use reactions": (
        "J1: S1 -> S2; k*S1; J2: S2 -> ; J1/2; S1 = 3; S2 = 0; k = 0.7",
        "S1 S2",
    ),
    "a compartment of no dimensions": (
        "compartment c = 1; species S1 in c; S1 -> ; k*S1*c; S1 = 3; k = 0.7",
        "S1",
    ),
    # ---- rules
    "a rate rule": ("x' = -k*x + 1; x = 3; k = 0.7", "x"),
    "two rate rules": ("x' = y; y' = -w^2*x; x = 1; y = 0; w = 1.5", "x y"),
    "an assignment rule": ("x' = -k*x; y := x^2 + 1; x = 3; k = 0.7", "x y"),
    "a chain of assignment rules": ("x' = -k*b; a := x/2; b := a + a^2; c := b*a; x = 3; k = 0.2", "x a b c"),
    "a rule of time": ("x' = cos(time) - k*x; y := time*x; x = 0.3; k = 0.7", "x y"),
    "a compartment that grows": (
        "compartment c = 1; species S1 in c; c' = 0.3*c; S1 -> ; k*S1*c; S1 = 3; k = 0.2",
        "S1 c",
    ),
    "a compartment that shrinks with amounts in it": (
        "compartment c = 2; substanceOnly species S1 in c; c' = -0.2*c; S1 -> ; k*S1/c; S1 = 3; k = 0.2",
        "S1 c",
    ),
    "a compartment with an assignment rule": (
        "compartment c; species S1 in c; c := 1 + 0.5*time; S1 -> ; k*S1*c; S1 = 3; k = 0.2",
        "S1 c",
    ),
    "a compartment that a species makes grow": (
        "compartment c, d = 1; species S1 in c, S2 in d; c := 1 + S2; -> S2; 0.4; S1 -> ; k*S1*c; S1 = 3; S2 = 0.1; k = 0.2",
        "S1 S2 c",
    ),
    "a species nobody changes in a compartment that grows": (
        "compartment c = 1; species S1 in c; S1 = 2; c' = 0.3; x' = S1; x = 0",
        "S1 c x",
    ),
    "a rate rule of a concentration in a compartment that grows": (
        "compartment c = 1; species $S1 in c; S1' = 0.2; c' = 0.3; S1 = 2; x' = S1*c; x = 0",
        "S1 c x",
    ),
    "a condition in a rate": ("x' = piecewise(1, x < 2, 0.25); x = 0", "x"),
    "a condition on time in a rate": ("x' = piecewise(2, time < 1.37, -0.5*x, time >= 3, -x); x = 0.5", "x"),
    "a condition in a rule": ("x' = 1; x = 0; y := piecewise(x, x < 1.3, 1.3, x < 2.7, 4 - x)", "x y"),
    "and, or, not": ("x' = piecewise(1, (time > 1 && time < 2.2) || !(x > -3 || time > 4), -x); x = 0", "x"),
    "a condition in a law": ("S1 -> S2; piecewise(k*S1, S1 > 1, k/2); S1 = 3; S2 = 0; k = 0.7", "S1 S2"),
    "functions": (
        "function f(a, b) a*b/(1 + b) end; function g(a) f(a, a) + 1 end; x' = g(x) - f(x, y); y' = -y; x = 0.3; y = 2",
        "x y",
    ),
    "a function with a condition": ("function f(a) piecewise(a, a > 1, a/2) end; x' = -f(x); x = 3", "x"),
    "local parameters": (
        "model *m() \n J1: S1 -> S2; k1*S1; J2: S2 -> ; k2*S2; S1 = 3; S2 = 0; k1 = 0.3; k2 = 0.9\nend",
        "S1 S2",
    ),
    "elementary functions": (
        "x' = exp(-time) + ln(1 + x) - sqrt(x) + abs(sin(time)) + x^0.3 - tanh(x); x = 0.5",
        "x",
    ),
    "floor and ceiling": ("x' = floor(time) - 0.3*x; x = 0.5", "x"),
    "more functions": ("x' = arctan(time) + cosh(time/5) - sec(time/9) - log10(2 + x); x = 0.5", "x"),
    "maximum and minimum": ("x' = piecewise(x, x < 1, 1) - 0.2*x*time; x = 0.5", "x"),
    # ---- initial assignments
    "an initial assignment": ("x' = -k*x; x = 2*k + 1; k = 0.7", "x"),
    "initial assignments that need each other": (
        "x' = -k*x; x = y + 1; y = k^2; k = 0.7; z' = y; z = x*y",
        "x z",
    ),
    "an initial assignment of a species": (
        "compartment c = 2; species S1 in c; S1 = 1 + k; S1 -> ; k*S1*c; k = 0.7",
        "S1",
    ),
    "an initial assignment that uses a rule": ("x' = -r; r := k*x; x = 2*k; y' = 1; y = r; k = 0.7", "x y"),
    "an initial assignment of a compartment": (
        "compartment c = 2*k; species S1 in c; S1 = 3; S1 -> ; k*S1; k = 0.7",
        "S1",
    ),
    # ---- events on time
    "an event on time": ("x' = -k*x; x = 3; k = 0.7; at (time > 1.25): x = x + 2", "x"),
    "an event that sets a parameter": ("x' = -k*x; x = 3; k = 0.7; at (time > 1.25): k = 0.1", "x"),
    "two events on time": (
        "x' = -k*x; x = 3; k = 0.7; at (time > 1.25): x = x/2; at (time > 2.6): x = x + y; y = 4",
        "x",
    ),
    "an event with a delay": ("x' = -k*x; x = 3; k = 0.7; at 0.8 after (time > 1.25): x = x + 2", "x"),
    "a delay and values of the trigger": (
        "x' = -k*x; x = 3; y = 0; y' = 1; k = 0.7; at 0.8 after (time > 1.25), fromTrigger=true: x = y",
        "x y",
    ),
    "a delay and values of the end": (
        "x' = -k*x; x = 3; y = 0; y' = 1; k = 0.7; at 0.8 after (time > 1.25), fromTrigger=false: x = y",
        "x y",
    ),
    "an event with several assignments": (
        "x' = y; y' = -x; x = 1; y = 0; at (time > 1.25): x = y, y = x",
        "x y",
    ),
    "an event that sets a compartment": (
        "compartment c = 1; species S1 in c; S1 -> ; k*S1*c; S1 = 3; k = 0.2; at (time > 1.25): c = 2",
        "S1 c",
    ),
    "an event that sets a species in amounts": (
        "compartment c = 2; substanceOnly species S1 in c; S1 -> ; k*S1; S1 = 3; k = 0.2; at (time > 1.25): S1 = S1 + 5",
        "S1",
    ),
    "an event at a time that is a parameter": (
        "x' = -k*x; x = 3; k = 0.7; s = 1.25; at (time > s): x = x + 2",
        "x",
    ),
    "a dose by a condition that ends": (
        "x' = -k*x + u; x = 0; u = 0; k = 0.7; at (time > 1): u = 2; at (time > 2.5): u = 0",
        "x",
    ),
    "events at times that are parameters": (
        "x' = -0.3*x; x = 2; y' = 0; y = 0; a = 3.1; b = 1.2; at (time >= a): x = x + 1, y = x; at (time >= b): x = 2*x",
        "x y",
    ),
    "an event at a time that is a parameter and 0": (
        "x' = -0.3*x; x = 2; a = 0; b = 1.2; at (time >= a): x = x + 1; at (time >= b): x = 2*x",
        "x",
    ),
    "a constant that is set at times that are parameters": (
        "x' = u - 0.3*x; x = 2; u = 0; a = 3.1; b = 1.2; at (time >= a): u = 2; at (time >= b): u = 1",
        "x",
    ),
    # ---- events on states
    "an event on a state": ("x' = -k*x; x = 3; k = 0.7; at (x < 1): x = x + 2", "x"),
    "a neuron": ("v' = I - v; v = 0; w' = -w; w = 0; I = 2; at (v > 1): v = 0, w = w + 1", "v w"),
    "two events on states": ("x' = p - 0.3*x; p = 1; x = 0.5; at (x > 2): p = 0; at (x < 1): p = 1", "x"),
    "an event on a rule": ("x' = 1; x = 0; y := x^2; z' = -z; z = 1; at (y > 2.5): z = z + 2", "x z"),
    "an event on a species": ("S1 -> S2; k*S1; S1 = 3; S2 = 0; k = 0.7; at (S2 > 1.5): S1 = S1 + 2", "S1 S2"),
    "an event on a state and one on time": (
        "x' = -k*x; x = 3; k = 0.7; at (x < 1): x = x + 2; at (time > 2): k = 2",
        "x",
    ),
    "an event on a state that sets a compartment": (
        "compartment c = 1; species S1 in c; S1 -> ; k*S1*c; S1 = 3; k = 0.6; at (S1 < 1): c = 0.3",
        "S1 c",
    ),
    "an event on a threshold that moves": ("x' = 1; x = 0; y' = 0.5; y = 1; at (x > y): x = x - 1.5", "x y"),
    "an event that begins false": ("x' = -k*x; x = 3; k = 0.7; at (x > 2), t0=false: x = x/2", "x"),
    "an event that begins true": ("x' = -k*x; x = 3; k = 0.7; at (x > 2), t0=true: x = x/2", "x"),
    "an event whose condition holds after it": ("x' = 1; x = 0; at (x > 1): x = x + 2", "x"),
    "priorities": (
        "x' = 1; x = 0; y' = 0; y = 1; at (x > 1), priority=1, fromTrigger=false: y = y + 3; at (x > 1), priority=5, fromTrigger=false: y = 2*y",
        "x y",
    ),
    "events of one time that use values of the trigger": (
        "x' = 1; x = 0; y' = 0; y = 1; z' = 0; z = 0; at (x > 1), priority=5, fromTrigger=true: y = 7; at (x > 1), priority=1, fromTrigger=true: z = y",
        "x y z",
    ),
    "an event that another one causes": (
        "x' = 1; x = 0; y' = 0; y = 0; at (x > 1), fromTrigger=false: y = 5; at (y > 2), fromTrigger=false: x = x - 3",
        "x y",
    ),
    "an event that another one prevents": (
        "x' = 1; x = 0; y' = 0; y = 0; at (x > 1), priority=9, persistent=false, fromTrigger=false: x = 0; at (x > 1), priority=1, persistent=false, fromTrigger=false: y = y + 1",
        "x y",
    ),
    "a rate that switches where an event waits": (
        "x' = piecewise(1, x < 2, 0.1); x = 0; at (x > 2): x = 1.5",
        "x",
    ),
    "events on time that use values of the trigger": (
        "y = 1; z = 0; x' = y; x = 0; y' = 0; z' = 0; at (time > 1), priority=5: y = 7; at (time > 1), priority=1: z = y + 1",
        "x y z",
    ),
    "events on time in order of priority": (
        "y = 1; z = 0; x' = y; x = 0; y' = 0; z' = 0; at (time > 1), priority=1, fromTrigger=false: y = 7 + z; at (time > 1), priority=4, fromTrigger=false: z = y + 1",
        "x y z",
    ),
    "an event that begins false on time": ("x' = 1; x = 0; at (time >= 0), t0=false: x = 3", "x"),
    "an event that falls": ("x' = -1; x = 3; at (time < 2): x = 7", "x"),
    "an event that counts": ("x' = 2*cos(3*time); x = 0; n' = 0; n = 0; at (x > 0.3): n = n + 1", "x n"),
    "two conditions on time": ("x' = -k*x; x = 3; k = 0.7; at (time > 1.25 && time < 3): x = x + 2", "x"),
    "a window of states": (
        "x' = sin(2*time); x = 0; n' = 0; n = 0; at (x > 0.3 && x < 0.8): n = n + 1",
        "x n",
    ),
    "one of two states": (
        "x' = 1; x = 0; y' = -0.5; y = 1; n' = 0; n = 0; at (x > 1.4 || y < 0.6): n = n + 1",
        "x y n",
    ),
    "an event on a state with a delay": ("x' = -k*x; x = 3; k = 0.7; at 0.5 after (x < 1): x = x + 2", "x"),
}

# Bodies of models, in which {{formula}} stands for its MathML; the level and version come first.
COMPARTMENT = '<listOfCompartments><compartment id="c" spatialDimensions="3" size="2" constant="true"/></listOfCompartments>'
S1 = '<species id="S1" compartment="c" initialConcentration="3" hasOnlySubstanceUnits="false" boundaryCondition="false" constant="false"'
S2 = S1.replace("S1", "S2").replace('"3"', '"0.5"')
K = '<parameter id="k" value="0.7" constant="true"/>'
REFERENCE = '<speciesReference species="S1" stoichiometry="1" constant="true"'
CHANGES = REFERENCE.replace(' stoichiometry="1" constant="true"', ' id="n" constant="false"').replace(
    "S1", "S2"
)


def _reaction(
    law: str, left: str = f"{REFERENCE}/>", right: str = "", local: str = "", flags: str = ""
) -> str:
    return (
        f'<listOfReactions><reaction id="J" reversible="false"{flags}>'
        f"<listOfReactants>{left}</listOfReactants>"
        + (f"<listOfProducts>{right}</listOfProducts>" if right else "")
        + f"<kineticLaw>{{{{{law}}}}}{local}</kineticLaw></reaction></listOfReactions>"
    )


def _model(species: str, parameters: str, rest: str) -> str:
    return f"{COMPARTMENT}<listOfSpecies>{species}</listOfSpecies><listOfParameters>{parameters}</listOfParameters>{rest}"


FAST = ' fast="false"'
LOCAL = '<listOfLocalParameters><localParameter id="k" value="0.3"/></listOfLocalParameters>'
FACTOR = '<parameter id="f" value="1.7" constant="true"/>'
RAW: dict[str, tuple[tuple[int, int], str, str]] = {
    "a local parameter that hides a global one": (
        (3, 1),
        _model(f"{S1}/>", K, _reaction("k*S1*c", local=LOCAL, flags=FAST)),
        "S1",
    ),
    "a conversion factor of a species": (
        (3, 1),
        _model(
            f'{S1} conversionFactor="f"/>{S2}/>',
            K + FACTOR,
            _reaction("k*S1*c", right=f"{REFERENCE}/>".replace("S1", "S2"), flags=FAST),
        ),
        "S1 S2",
    ),
    "a stoichiometry that is a rule": (
        (3, 1),
        _model(
            f"{S1}/>{S2}/>",
            K,
            '<listOfRules><assignmentRule variable="n">{{1 + 0.5*time}}</assignmentRule></listOfRules>'
            + _reaction("k*S1*c", right=f"{CHANGES}/>", flags=FAST),
        ),
        "S1 S2",
    ),
    "a stoichiometry with a rate rule": (
        (3, 1),
        _model(
            f"{S1}/>{S2}/>",
            K,
            '<listOfRules><rateRule variable="n">{{0.3}}</rateRule></listOfRules>'
            + _reaction("k*S1*c", right=f'{CHANGES} stoichiometry="2"/>', flags=FAST),
        ),
        "S1 S2",
    ),
    "a stoichiometry by an initial assignment": (
        (3, 1),
        _model(
            f"{S1}/>{S2}/>",
            K,
            '<listOfInitialAssignments><initialAssignment symbol="n">{{3*k}}</initialAssignment></listOfInitialAssignments>'
            + _reaction("k*S1*c", right=f"{CHANGES}/>", flags=FAST),
        ),
        "S1 S2",
    ),
    "a stoichiometry in a formula": (
        (3, 1),
        _model(f"{S1}/>{S2}/>", K, _reaction("k*S1*c*n", right=f'{CHANGES} stoichiometry="2"/>', flags=FAST)),
        "S1 S2",
    ),
    "a stoichiometry that an event sets": (
        (3, 1),
        _model(
            f"{S1}/>{S2}/>",
            K,
            _reaction("k*S1*c", right=f'{CHANGES} stoichiometry="2"/>', flags=FAST)
            + '<listOfEvents><event id="e" useValuesFromTriggerTime="true"><trigger initialValue="true" persistent="true">{{time > 1}}</trigger>'
            '<listOfEventAssignments><eventAssignment variable="n">{{0.5}}</eventAssignment></listOfEventAssignments></event></listOfEvents>',
        ),
        "S1 S2",
    ),
    "a name of time in formulas": (
        (3, 2),
        '<listOfParameters><parameter id="t" value="1" constant="false"/></listOfParameters><listOfRules><rateRule variable="t">{{cos(time) - 0.1*t}}</rateRule></listOfRules>',
        "t",
    ),
    "an empty model part of version 2": (
        (3, 2),
        '<listOfParameters><parameter id="x" value="1" constant="false"/></listOfParameters><listOfRules><rateRule variable="x">{{max(1, x) - min(x, time, 2)}}</rateRule></listOfRules><listOfReactions/>',
        "x",
    ),
    "reaction rates in rules": (
        (3, 1),
        _model(
            f"{S1}/>",
            K + '<parameter id="y" value="0" constant="false"/>',
            '<listOfRules><rateRule variable="y">{{J + 1}}</rateRule></listOfRules>'
            + _reaction("k*S1*c", flags=FAST),
        ),
        "S1 y",
    ),
}
REFUSED: dict[str, tuple[tuple[int, int], str, str]] = {
    "a fast reaction": (
        (3, 1),
        _model(f"{S1}/>", K, _reaction("k*S1*c", flags=' fast="true"')),
        "fast_reaction",
    ),
    "an algebraic rule": (
        (3, 1),
        _model(
            f"{S1}/>",
            K + '<parameter id="y" value="0" constant="false"/>',
            "<listOfRules><algebraicRule>{{y + S1 - 3}}</algebraicRule></listOfRules>"
            + _reaction("k*S1*c", flags=FAST),
        ),
        "algebraic_rule",
    ),
    "a rate of change": (
        (3, 2),
        '<listOfParameters><parameter id="x" value="1" constant="false"/><parameter id="y" value="0" constant="false"/></listOfParameters><listOfRules><rateRule variable="x">{{-x}}</rateRule><rateRule variable="y">{{rateOf(x)}}</rateRule></listOfRules>',
        "unsupported_math",
    ),
    "a delay in a formula": (
        (3, 1),
        '<listOfParameters><parameter id="x" value="1" constant="false"/></listOfParameters><listOfRules><rateRule variable="x">{{-delay(x, 1)}}</rateRule></listOfRules>',
        "unsupported_math",
    ),
    "a remainder": (
        (3, 2),
        '<listOfParameters><parameter id="x" value="1" constant="false"/></listOfParameters><listOfRules><rateRule variable="x">{{rem(floor(time), 2)}}</rateRule></listOfRules>',
        "unsupported_math",
    ),
    "no kinetic law": (
        (3, 1),
        _model(
            f"{S1}/>",
            K,
            f'<listOfReactions><reaction id="J" reversible="false"{FAST}><listOfReactants>{REFERENCE}/></listOfReactants></reaction></listOfReactions>',
        ),
        "no_kinetic_law",
    ),
}
REFUSED_ANTIMONY = {
    "floor and ceiling": "unsupported_math",
    "an event with a delay": "before_delay",
    "a delay and values of the trigger": "before_delay",
    "an event that falls": "event_without_time",
    "an event on a state with a delay": "event_delay",
}
