"""SBML files: every construct that is read, against solutions known in closed form; the rest by its message."""

from pathlib import Path

import numpy as np
import pytest

import picardfit as pf

pytest.importorskip("libsbml", reason="SBML needs python-libsbml: pip install 'picardfit[petab]'")

from picardfit.importers import sbml

TIMES = np.array([0.0, 0.5, 1.0, 2.0])


def mathml(text: str) -> str:
    """A formula in infix as the `math` element."""
    import libsbml

    node = libsbml.parseL3Formula(text)
    assert node is not None, libsbml.getLastParseL3Error()
    return libsbml.writeMathMLToString(node).split("?>", 1)[1]


def write(tmp_path: Path, body: str, level: int = 3, version: int = 1) -> Path:
    namespace = {(3, 1): "level3/version1/core", (3, 2): "level3/version2/core", (2, 4): "level2/version4"}
    path = tmp_path / "model.xml"
    path.write_text(
        f'<?xml version="1.0" encoding="UTF-8"?><sbml xmlns="http://www.sbml.org/sbml/{namespace[level, version]}" '
        f'level="{level}" version="{version}"><model id="m">{body}</model></sbml>'
    )
    return path


def compartments(*sizes: tuple[str, float], constant: str = "true") -> str:
    rows = [
        f'<compartment id="{n}" spatialDimensions="3" size="{v}" constant="{constant}"/>' for n, v in sizes
    ]
    return f"<listOfCompartments>{''.join(rows)}</listOfCompartments>"


def species(name: str, where: str = "c", initial: str = 'initialConcentration="1"', **flags: str) -> str:
    given = {"hasOnlySubstanceUnits": "false", "boundaryCondition": "false", "constant": "false"} | flags
    attributes = " ".join(f'{k}="{v}"' for k, v in given.items())
    return f'<species id="{name}" compartment="{where}" {initial} {attributes}/>'


def parameters(constant: str = "true", **values: float) -> str:
    rows = [f'<parameter id="{n}" value="{v}" constant="{constant}"/>' for n, v in values.items()]
    return "".join(rows)


def reaction(name: str, left: dict, right: dict, law: str, local: dict | None = None) -> str:
    def side(kind: str, what: dict) -> str:
        rows = [
            f'<speciesReference species="{s}" stoichiometry="{n}" constant="true"/>' for s, n in what.items()
        ]
        return f"<listOf{kind}>{''.join(rows)}</listOf{kind}>" if rows else ""

    own = "".join(f'<localParameter id="{n}" value="{v}"/>' for n, v in (local or {}).items())
    own = f"<listOfLocalParameters>{own}</listOfLocalParameters>" if own else ""
    return (
        f'<reaction id="{name}" reversible="false" fast="false">{side("Reactants", left)}{side("Products", right)}'
        f"<kineticLaw>{mathml(law)}{own}</kineticLaw></reaction>"
    )


def rule(kind: str, name: str, formula: str) -> str:
    return f'<{kind}Rule variable="{name}">{mathml(formula)}</{kind}Rule>'


def listed(**groups: list[str]) -> str:
    order = ("functionDefinitions", "compartments", "species", "parameters", "initialAssignments", "rules")
    parts = []
    for group in (*order, "reactions"):
        if group in groups:
            kind = group[0].upper() + group[1:]
            parts.append(f"<listOf{kind}>{''.join(groups[group])}</listOf{kind}>")
    return "".join(parts)


def simulated(path: Path, observables=None, **changed: float) -> dict[str, np.ndarray]:
    """Every observable at TIMES with the file's values."""
    system = sbml.load(path)
    values = system.values | changed
    model = system.model(observables)
    start = {}
    for state, formula in system.initial_formulas.items():
        start[state] = (
            formula
            if isinstance(formula, float)
            else pf.simulate(
                pf.Model("z' = 0*z", {"y": f"{formula} + 0*z"}),
                {n: v for n, v in values.items() if n in formula},
                {"z": 0.0},
                [0.0],
            ).observables["y"][0]
        )
    return pf.simulate(model, values, start, TIMES).observables


ONE = '<compartment id="c" spatialDimensions="3" size="1" constant="true"/>'


def test_kinetic_laws_are_amounts_per_time(tmp_path):
    body = listed(
        compartments=[
            '<compartment id="c" spatialDimensions="3" size="1.4" constant="true"/>',
            '<compartment id="n" spatialDimensions="3" size="0.45" constant="true"/>',
        ],
        species=[species("A"), species("B", "n", 'initialConcentration="0"')],
        parameters=[parameters(k=0.7)],
        reactions=[reaction("r", {"A": 2}, {"B": 1}, "k * A * c")],
    )
    found = simulated(write(tmp_path, body))
    expected = np.exp(-2 * 0.7 * TIMES)
    assert found["A"] == pytest.approx(expected, rel=1e-8)
    assert found["B"] == pytest.approx((1 - expected) / 2 * 1.4 / 0.45, rel=1e-7, abs=1e-9)


def test_amounts_and_concentrations(tmp_path):
    body = listed(
        compartments=['<compartment id="c" spatialDimensions="3" size="4" constant="true"/>'],
        species=[
            species("A", initial='initialAmount="8"'),
            species("M", initial='initialConcentration="3"', hasOnlySubstanceUnits="true"),
        ],
        parameters=[parameters(k=0.5)],
        reactions=[reaction("r", {"A": 1}, {"M": 1}, "k * c * A")],
    )
    found = simulated(write(tmp_path, body))
    assert found["A"] == pytest.approx(2 * np.exp(-0.5 * TIMES), rel=1e-8)
    assert found["M"] == pytest.approx(12 + 8 * (1 - np.exp(-0.5 * TIMES)), rel=1e-8)


def test_boundary_and_constant_species_stay(tmp_path):
    body = listed(
        compartments=[ONE],
        species=[
            species("A", initial='initialConcentration="0"'),
            species("S", initial='initialConcentration="3"', boundaryCondition="true"),
            species("E", initial='initialConcentration="2"', constant="true", boundaryCondition="true"),
        ],
        parameters=[parameters(k=0.5)],
        reactions=[reaction("r", {"S": 1}, {"A": 1}, "k * E * S")],
    )
    path = write(tmp_path, body)
    assert sbml.read(path).states == ("A",)
    assert simulated(path)["A"] == pytest.approx(3 * TIMES, rel=1e-8)


def test_rules_in_any_order_and_time(tmp_path):
    body = listed(
        compartments=[ONE],
        species=[species("A", initial='initialConcentration="0"')],
        parameters=[parameters("false", u=0.0, w=0.0, B=2.0), parameters(k=0.5)],
        rules=[
            rule("assignment", "u", "w + 1"),
            rule("assignment", "w", "k * time"),
            rule("rate", "B", "-k * B"),
        ],
        reactions=[reaction("r", {}, {"A": 1}, "u")],
    )
    path = write(tmp_path, body)
    assert sbml.read(path).states == ("A", "B")
    found = simulated(path, {"A": "A", "twice": "2*u", "B": "B", "flux": "r"})
    assert found["A"] == pytest.approx(TIMES + 0.25 * TIMES**2, abs=1e-9)
    assert found["twice"] == pytest.approx(2 + TIMES)
    assert found["flux"] == pytest.approx(1 + 0.5 * TIMES)
    assert found["B"] == pytest.approx(2 * np.exp(-0.5 * TIMES), rel=1e-8)


def test_initial_assignments_follow_the_parameters(tmp_path):
    body = listed(
        compartments=[ONE],
        species=[species("A"), species("B")],
        parameters=[parameters(a0=2.0, k=0.5, twice=0.0)],
        initialAssignments=[
            f'<initialAssignment symbol="A">{mathml("twice + 1")}</initialAssignment>',
            f'<initialAssignment symbol="B">{mathml("A / 5")}</initialAssignment>',
            f'<initialAssignment symbol="twice">{mathml("2 * a0")}</initialAssignment>',
        ],
        reactions=[reaction("r", {"A": 1}, {"B": 1}, "k * twice * A")],
    )
    path = write(tmp_path, body)
    assert sbml.read(path).parameters == ("a0", "k")
    assert simulated(path, a0=1.0)["A"] == pytest.approx(3 * np.exp(-TIMES), rel=1e-8)
    assert simulated(path, a0=1.0)["B"][0] == pytest.approx(0.6)


def test_function_definitions_and_local_parameters(tmp_path):
    hill = f'<functionDefinition id="hill">{mathml("lambda(x, k, x^2 / (k^2 + x^2))")}</functionDefinition>'
    twice = f'<functionDefinition id="twice">{mathml("lambda(k, hill(k, k) * 2 * k)")}</functionDefinition>'
    body = listed(
        functionDefinitions=[hill, twice],
        compartments=[ONE],
        species=[species("A", initial='initialConcentration="0"'), species("B")],
        parameters=[parameters(k=3.0)],
        reactions=[
            reaction("r", {}, {"A": 1}, "twice(k)", {"k": 0.25}),
            reaction("s", {"B": 1}, {}, "k * B"),
        ],
    )
    path = write(tmp_path, body)
    assert sbml.load(path).values == {"k": 3.0, "r_k": 0.25}
    found = simulated(path)
    assert found["A"] == pytest.approx(0.25 * TIMES, abs=1e-9)
    assert found["B"] == pytest.approx(np.exp(-3 * TIMES), rel=1e-7)


def test_piecewise_in_time_gives_breakpoints(tmp_path):
    body = listed(
        compartments=[ONE],
        species=[species("A", initial='initialConcentration="0"')],
        parameters=[parameters(k=2.0)],
        reactions=[reaction("r", {}, {"A": 1}, "piecewise(k, time < 0.75, 0)")],
    )
    path = write(tmp_path, body)
    assert sbml.read(path).breakpoints == (0.75,)
    assert simulated(path)["A"] == pytest.approx(2 * np.minimum(TIMES, 0.75), abs=1e-9)


def test_volume_that_grows_dilutes(tmp_path):
    body = listed(
        compartments=['<compartment id="c" spatialDimensions="3" size="2" constant="false"/>'],
        species=[species("A"), species("B", initial='initialConcentration="0"')],
        parameters=[parameters(k=0.5)],
        rules=[rule("rate", "c", "k * c")],
        reactions=[reaction("r", {}, {"B": 1}, "c")],
    )
    # A takes part in no reaction: its amount stays, so that its concentration must be a state as well
    found = simulated(write(tmp_path, body), ["c", "B"])
    assert found["c"] == pytest.approx(2 * np.exp(0.5 * TIMES), rel=1e-8)
    assert found["B"] == pytest.approx((1 - np.exp(-0.5 * TIMES)) / 0.5, rel=1e-7, abs=1e-9)
    assert simulated(write(tmp_path, body), ["A"])["A"] == pytest.approx(np.exp(-0.5 * TIMES), rel=1e-7)


@pytest.mark.parametrize(
    "name", ["beta", "gamma", "lambda_", "I_", "S", "N", "E", "Q", "t", "log", "pi", "if_"]
)
def test_any_identifier_works(tmp_path, name):
    body = listed(
        compartments=[ONE],
        species=[species("A")],
        parameters=[parameters(**{name: 0.5})],
        reactions=[reaction("r", {"A": 1}, {}, "KK * A").replace(" KK ", f" {name} ")],
    )
    assert simulated(write(tmp_path, body))["A"] == pytest.approx(np.exp(-0.5 * TIMES), rel=1e-8)


def test_level_2(tmp_path):
    body = (
        '<listOfCompartments><compartment id="c" size="2"/></listOfCompartments>'
        '<listOfSpecies><species id="A" compartment="c" initialAmount="4"/></listOfSpecies>'
        '<listOfReactions><reaction id="r"><listOfReactants><speciesReference species="A"/></listOfReactants>'
        f'<kineticLaw>{mathml("k * A * c")}<listOfParameters><parameter id="k" value="0.5"/></listOfParameters>'
        "</kineticLaw></reaction></listOfReactions>"
    )
    path = write(tmp_path, body, 2, 4)
    assert sbml.load(path).values == {"r_k": 0.5}
    assert simulated(path)["A"] == pytest.approx(2 * np.exp(-0.5 * TIMES), rel=1e-8)


FORMULAS = {
    "root(3, x) + sqrt(x) + log10(x) + log(2, x) + ln(x)": lambda x: (
        np.cbrt(x) + x**0.5 + np.log10(x) + np.log2(x) + np.log(x)
    ),
    "piecewise(1, x < 1, 2, x < 3, 5) + (x > 1 && !(x > 5))": lambda x: (
        np.where(x < 1, 1, np.where(x < 3, 2, 5)) + (x > 1)
    ),
    "sec(x) + csc(x) + cot(x) + arcsinh(x) + arctan(x)": lambda x: (
        1 / np.cos(x) + 1 / np.sin(x) + 1 / np.tan(x) + np.arcsinh(x) + np.arctan(x)
    ),
    "abs(-x) + exponentiale ^ x + pi - 3e-1 + min(x, 2) + max(x, 2, 7)": lambda x: (
        x + np.exp(x) + np.pi - 0.3 + np.minimum(x, 2) + 7
    ),
    "-x + --x / 2 + 2^-x": lambda x: -x / 2 + 2.0**-x,
}


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas(tmp_path, text):
    body = listed(
        parameters=[parameters("false", x=0.5, y=0.0)],
        rules=[rule("rate", "x", "1"), rule("assignment", "y", text)],
    )
    found = simulated(write(tmp_path, body, 3, 2), {"x": "x", "y": "y"})
    assert found["y"] == pytest.approx(FORMULAS[text](found["x"]), rel=1e-9)


def event(trigger: str, target: str, value: str, initial: str = "true") -> str:
    return (
        f'<event id="dose" useValuesFromTriggerTime="true"><trigger initialValue="{initial}" persistent="true">'
        f'{mathml(trigger)}</trigger><listOfEventAssignments><eventAssignment variable="{target}">{mathml(value)}'
        "</eventAssignment></listOfEventAssignments></event>"
    )


def test_events_at_known_times_set_constants(tmp_path):
    body = listed(
        compartments=[ONE],
        species=[species("A", initial='initialConcentration="0"')],
        parameters=[parameters("false", k=1.0), parameters(top=3.0)],
        reactions=[reaction("r", {}, {"A": 1}, "k")],
    )
    events = [event("time >= 0.75", "k", "top"), event("time > 1.5", "k", "0"), event("time >= 0", "k", "9")]
    named = [one.replace("dose", f"dose{k}") for k, one in enumerate(events)]
    path = write(tmp_path, f"{body}<listOfEvents>{''.join(named)}</listOfEvents>")
    assert sbml.read(path).breakpoints == (0.75, 1.5)
    expected = np.minimum(TIMES, 0.75) + 3 * np.clip(TIMES - 0.75, 0, 0.75)
    assert simulated(path)["A"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("trigger", "initial", "fires"),
    [
        ("x <= 1", "true", False),  # it holds at the beginning, and has held before
        ("x <= 1", "false", True),
        ("x < 1", "true", True),  # it does not hold yet
        ("x >= 1", "true", False),
    ],
)
def test_a_trigger_that_is_zero_at_the_beginning(tmp_path, trigger, initial, fires):
    body = listed(
        parameters=[parameters("false", x=1.0, y=0.0)],
        rules=[rule("rate", "x", "-x"), rule("rate", "y", "0 * x")],
    )
    path = write(tmp_path, f"{body}<listOfEvents>{event(trigger, 'y', '5', initial)}</listOfEvents>", 3, 2)
    assert simulated(path, {"x": "x", "y": "y"})["y"][-1] == (5.0 if fires else 0.0)


@pytest.mark.parametrize(
    "one, code",
    [
        (("y == 2", "k", "1"), "event_trigger"),
        (("time > 1", "nothing", "1"), "event_target"),
        (("time > 1", "w", "1"), "event_sets_rule"),
    ],
)
def test_other_events_are_refused_by_name(tmp_path, one, code):
    rules = [rule("rate", "y", "-k * y"), rule("assignment", "w", "k")]
    body = listed(parameters=[parameters("false", y=1.0, k=1.0, w=0.0)], rules=rules)
    with pytest.raises(pf.InputError) as caught:
        sbml.read(write(tmp_path, f"{body}<listOfEvents>{event(*one)}</listOfEvents>"))
    assert caught.value.code == f"importers.{code}"
    assert [(one.code, one.subject) for one in caught.value.context] == [("importers.in_event", "dose")]
    assert caught.value.place.line > 1


@pytest.mark.parametrize(
    ("trigger", "when"),
    [("y < 0.5", np.log(2.0)), ("time > 2 * y", 0.8526055)],
    ids=["state", "state and time"],
)
def test_events_that_wait_for_a_state(tmp_path, trigger, when):
    body = listed(parameters=[parameters("false", y=1.0, k=1.0)], rules=[rule("rate", "y", "-k * y")])
    path = write(tmp_path, f"{body}<listOfEvents>{event(trigger, 'k', '0')}</listOfEvents>")
    assert [one.assignments[0][0] for one in sbml.read(path).events] == ["k"]
    assert simulated(path, {"y": "y"})["y"] == pytest.approx(np.exp(-np.minimum(TIMES, when)), abs=1e-6)


def test_a_delay_of_an_event_that_waits_for_a_state_is_refused(tmp_path):
    body = listed(parameters=[parameters("false", y=1.0, k=1.0)], rules=[rule("rate", "y", "-k * y")])
    late = event("y < 0.5", "k", "0").replace("</trigger>", f"</trigger><delay>{mathml('1')}</delay>")
    with pytest.raises(pf.InputError) as caught:
        sbml.read(write(tmp_path, f"{body}<listOfEvents>{late}</listOfEvents>"))
    assert caught.value.code == "importers.event_delay"


def decay(tmp_path, *events: str) -> Path:
    """A' = -k A in a volume of 1, with events."""
    body = listed(
        compartments=[ONE],
        species=[species("A", initial='initialConcentration="2"')],
        parameters=[parameters("false", k=0.5, seen=0.0), parameters(dose=3.0)],
        reactions=[reaction("r", {"A": 1}, {}, "k * A")],
    )
    named = [one.replace("dose", f"dose{i}", 1) for i, one in enumerate(events)]
    return write(tmp_path, f"{body}<listOfEvents>{''.join(named)}</listOfEvents>")


def test_events_reset_states(tmp_path):
    path = decay(tmp_path, event("time >= 1", "A", "A + dose"))
    assert sbml.read(path).observables == ("A",)
    assert sbml.read(path).breakpoints == (1.0,)
    expected = 2 * np.exp(-0.5 * TIMES) + 3 * np.exp(-0.5 * (TIMES - 1)) * (TIMES >= 1)
    assert simulated(path)["A"] == pytest.approx(expected, rel=1e-7)
    flux = simulated(path, {"flux": "r"})["flux"]
    assert flux == pytest.approx(0.5 * expected, rel=1e-7)


def test_events_that_look_at_states_change_what_is_constant_otherwise(tmp_path):
    path = decay(tmp_path, event("time >= 1", "seen", "A"), event("time >= 1.5", "A", "seen"))
    system = sbml.load(path)
    assert system.values == {"k": 0.5, "seen": 0.0, "dose": 3.0}
    found = simulated(path, ["A", "seen"], seen=7.0)
    at_one = 2 * np.exp(-0.5)
    assert found["seen"] == pytest.approx([7, 7, at_one, at_one], rel=1e-7)
    assert found["A"] == pytest.approx([*(2 * np.exp(-0.5 * TIMES[:3])), at_one * np.exp(-0.25)], rel=1e-7)


def test_assignments_of_one_event_see_the_values_before_it(tmp_path):
    both = event("time >= 1", "A", "A * k").replace(
        "</listOfEventAssignments>",
        f'<eventAssignment variable="k">{mathml("2")}</eventAssignment></listOfEventAssignments>',
    )
    found = simulated(decay(tmp_path, both), ["A", "k"])
    assert found["k"] == pytest.approx([0.5, 0.5, 2, 2])
    expected = [2, 2 * np.exp(-0.25), np.exp(-0.5), np.exp(-0.5 - 2)]
    assert found["A"] == pytest.approx(expected, rel=1e-7)


def test_events_at_the_start(tmp_path):
    fires = decay(tmp_path, event("time >= 0", "A", "4", "false"))
    assert simulated(fires)["A"] == pytest.approx(4 * np.exp(-0.5 * TIMES), rel=1e-7)
    never = decay(tmp_path, event("time >= 0", "A", "4"), event("time >= -1", "seen", "A"))
    assert simulated(never)["A"] == pytest.approx(2 * np.exp(-0.5 * TIMES), rel=1e-7)


def test_priorities_and_delays(tmp_path):
    late = '<delay><math xmlns="http://www.w3.org/1998/Math/MathML"><cn> 0.5 </cn></math></delay>'
    first = '<priority><math xmlns="http://www.w3.org/1998/Math/MathML"><cn> 5 </cn></math></priority>'
    add, double = event("time >= 0.5", "A", "A + dose"), event("time >= 0.5", "A", "2 * A")
    both = [add, double.replace("</trigger>", "</trigger>" + first)]
    # the second event in order sees the value before the first one, or after it
    assert simulated(decay(tmp_path, *both))["A"][1] == pytest.approx(2 * np.exp(-0.25) + 3, rel=1e-7)
    later = [one.replace('Time="true"', 'Time="false"') for one in both]
    assert simulated(decay(tmp_path, *later))["A"][1] == pytest.approx(2 * np.exp(-0.25) * 2 + 3, rel=1e-7)
    with pytest.raises(pf.InputError, match="as it was before the delay"):
        sbml.read(decay(tmp_path, add.replace("</trigger>", "</trigger>" + late)))
    path = decay(
        tmp_path, add.replace("</trigger>", "</trigger>" + late).replace('Time="true"', 'Time="false"')
    )
    assert simulated(path)["A"][2] == pytest.approx(2 * np.exp(-0.5) + 3, rel=1e-7)


def test_events_that_change_a_volume_keep_amounts(tmp_path):
    found = simulated(decay(tmp_path, event("time >= 1", "c", "2 * c")))["A"]
    later = np.exp(-0.5) * np.exp(-0.25 * (TIMES - 1))  # half the concentration, and k/2 in twice the volume
    expected = np.where(TIMES >= 1, later, 2 * np.exp(-0.5 * TIMES))
    assert found == pytest.approx(expected, rel=1e-7)


def test_events_that_wait_for_a_state_and_change_a_volume_keep_amounts(tmp_path):
    (one,) = sbml.read(decay(tmp_path, event("A < 1", "c", "2 * c"))).events
    after = dict(one.assignments)
    assert after.keys() == {"A", "c"}
    values = {"A": 3.0, "c": 5.0}
    found = after["A"]
    assert float(found.subs({s: values[s.name] for s in found.free_symbols})) == pytest.approx(1.5)


def test_events_do_not_set_a_volume_and_a_concentration_in_it(tmp_path):
    both = event("time >= 1", "c", "2").replace(
        "</listOfEventAssignments>",
        '<eventAssignment variable="A"><math xmlns="http://www.w3.org/1998/Math/MathML"><cn>1</cn></math>'
        "</eventAssignment></listOfEventAssignments>",
    )
    with pytest.raises(pf.InputError, match="the volume `c` and the concentration of a species in it"):
        sbml.read(decay(tmp_path, both))


@pytest.mark.parametrize(
    "rules, message",
    [
        (
            [("assignment", "y", "z"), ("assignment", "z", "y"), ("rate", "x", "1")],
            "defined in terms of itself",
        ),
        ([("rate", "y", "delay(y, 1)")], "delay"),
        ([("rate", "y", "nowhere * y")], "`nowhere` is not defined"),
        ([("rate", "y", "f(y)")], "`f`"),
        ([("rate", "y", "floor(y)")], "floor"),
        ([("assignment", "y", "1")], "Nothing in the model changes with time"),
    ],
)
def test_what_is_refused(tmp_path, rules, message):
    body = listed(parameters=[parameters("false", x=1.0, y=1.0, z=0.0)], rules=[rule(*one) for one in rules])
    with pytest.raises(pf.InputError, match=message):
        sbml.read(write(tmp_path, body))


def test_algebraic_rules_are_refused(tmp_path):
    start = listed(parameters=[parameters("false", y=1.0)])
    algebraic = f"<listOfRules><algebraicRule>{mathml('y - 1')}</algebraicRule></listOfRules>"
    with pytest.raises(pf.InputError, match="algebraic rule"):
        sbml.read(write(tmp_path, start + algebraic))


def test_files_that_are_no_sbml(tmp_path):
    with pytest.raises(pf.InputError, match="no file"):
        sbml.read(tmp_path / "nothing.xml")
    (tmp_path / "broken.xml").write_text("<sbml>")
    with pytest.raises(pf.InputError, match="not valid SBML"):
        sbml.read(tmp_path / "broken.xml")


def test_an_imported_model_is_saved_and_fitted(tmp_path):
    body = listed(
        compartments=[ONE],
        species=[species("A", initial='initialConcentration="2"')],
        parameters=[parameters(k=0.0)],
        reactions=[reaction("r", {"A": 1}, {}, "k * A")],
    )
    system = sbml.load(write(tmp_path, body))
    data = pf.Experiment(TIMES, {"A": 2 * np.exp(-0.8 * TIMES)})
    problem = pf.Problem(system.model(), data, {"k": (0.01, 10)}, initial=system.initial_formulas)
    fit = pf.fit(problem)
    assert fit.parameters["k"] == pytest.approx(0.8, rel=1e-6)
    fit.save(tmp_path / "fit.json")
    assert pf.load(tmp_path / "fit.json").problem.model == problem.model
