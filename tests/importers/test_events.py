"""Resets of states: the continuous system against integration that is stopped and restarted at every reset."""

import numpy as np
import pytest
import sympy

import picardfit as pf
from picardfit.formulas.algebra import symbol
from picardfit.formulas.grammar import parse
from picardfit.importers.sbml.events import Reset, continuous
from picardfit.model.model import Model

RATES = {"x": "-a*x + y", "y": "-0.5*y*x + 1", "z": "0.3*x - 0.1*z"}
START = {"x": 2.0, "y": 0.5, "z": 0.0}
A, DOSE = 0.7, 1.5
TIMES = np.array([0.0, 0.4, 1.0, 1.3, 2.0, 2.5, 4.0])  # resets happen at 1 and 2

CASES = {
    "a dose": [(1, {"x": "x + dose"})],
    "doses": [(2, {"x": "x + dose"}), (1, {"x": "x + 2*dose"})],
    "a dilution": [(1, {"x": "x/2", "y": "y/2 + dose"})],
    "dilution, then a dose": [(1, {"x": "0.25*x"}), (2, {"x": "x + dose"})],
    "set to a number": [(1, {"y": "3"})],
    "set to a parameter": [(1, {"x": "dose"}), (2, {"x": "dose"})],
    "an exchange": [(1, {"x": "y", "y": "x"})],
    "a product": [(1, {"z": "x*y + z^2"}), (2, {"z": "0"})],
    "the time": [(1, {"z": "t + a"}), (2, {"x": "x + t"})],
    "two at one time": [(1, {"x": "2*x"}), (1, {"x": "x + y"}), (2, {"y": "y*x"})],
    "everything": [(1, {"x": "x + dose", "y": "x"}), (2, {"x": "x/2", "z": "y + z"})],
    "a condition": [(1, {"x": "x + where(x > 1, 1, 0)"}), (2, {"y": "y + where(y > 100, 1, 0)"})],
    "a factor that is unknown": [(1, {"x": "a*x"})],
}


def resets(case):
    return [
        Reset(f"e{k}", sympy.Integer(time), {n: parse(text) for n, text in values.items()})
        for k, (time, values) in enumerate(CASES[case])
    ]


def pieces_model(case) -> tuple[Model, dict[str, float]]:
    """The continuous model with x, y, z as observables, and its initial state."""
    rates = {n: parse(text) for n, text in RATES.items()}
    pieces = continuous(rates, resets(case), [*RATES, "a", "dose"])
    outputs = {n: pieces.meaning.get(n, symbol(n)) for n in RATES}
    initial = {
        n: START[pieces.origins.get(n, n)] if n in pieces.origins or n in START else 0.0 for n in pieces.rates
    }
    return Model.from_expressions(pieces.rates, outputs, ["a", "dose"]), initial


def restarted(case, a=A, dose=DOSE) -> dict[str, np.ndarray]:
    """The same by integrating from reset to reset; at its time the value after a reset counts."""
    model = pf.Model("\n".join(f"{n}' = {text}" for n, text in RATES.items()))
    now, found, begin = dict(START), {n: np.full(len(TIMES), np.nan) for n in RATES}, 0.0
    for end in (1.0, 2.0, 4.5):
        mine = np.array([begin <= t < end for t in TIMES])
        run = pf.simulate(model, {"a": a}, now, [*TIMES[mine], end], t0=begin)
        for n in RATES:
            found[n][mine] = run.states[n][:-1]
        now = {n: run.states[n][-1] for n in RATES}
        for time, values in sorted(CASES[case], key=lambda one: one[0]):
            if time == end:
                known = {symbol(n): v for n, v in {**now, "t": end, "a": a, "dose": dose}.items()}
                now |= {n: float(parse(text).subs(known)) for n, text in values.items()}
        begin = end
    return found


@pytest.mark.parametrize("case", CASES)
def test_resets_are_exact(case):
    model, initial = pieces_model(case)
    found = pf.simulate(model, {"a": A, "dose": DOSE}, initial, TIMES).observables
    for name, expected in restarted(case).items():
        assert found[name] == pytest.approx(expected, rel=1e-7, abs=1e-9), name


def test_doses_need_no_further_states():
    assert pieces_model("doses")[0].states == ("x_1", "y", "z")
    assert pieces_model("a dilution")[0].states == ("x_1", "y_1", "z")
    assert len(pieces_model("set to a number")[0].states) == 4


@pytest.mark.parametrize("case", ["doses", "set to a parameter", "everything", "a factor that is unknown"])
def test_parameters_of_resets_are_estimated(case):
    model, initial = pieces_model(case)
    data = pf.Experiment(TIMES, restarted(case), initial=initial)
    problem = pf.Problem(model, data, {"a": (0.1, 5), "dose": (0.1, 5)})
    fit = pf.fit(problem)
    assert fit.success
    known = {"a": A} if case == "a factor that is unknown" else {"a": A, "dose": DOSE}
    for name, value in known.items():
        assert fit.parameters[name] == pytest.approx(value, rel=1e-5)


def test_names_of_pieces_are_free_names():
    rates = {"x": parse("x_1")}
    reset = Reset("e", sympy.Integer(1), {"x": sympy.S.Zero})
    assert list(continuous(rates, [reset], ["x", "x_1"]).rates) == ["x_2", "x_3"]


def test_the_order_of_times_must_be_known():
    rates = {"x": parse("1")}
    both = [Reset("early", symbol("s"), {"x": sympy.S.Zero}), Reset("late", sympy.S.One, {"x": sympy.S.One})]
    with pytest.raises(pf.InputError, match="`early` changes states at a time that is not a number"):
        continuous(rates, both, [])
    assert len(continuous(rates, both[:1], []).rates) == 2


def test_formulas_grow_in_proportion_to_the_number_of_doses():
    rates = {"x": parse("-a*x")}
    sizes = []
    for count in (10, 20, 40):
        resets = [Reset(f"e{k}", sympy.Integer(k), {"x": parse("x/2 + dose")}) for k in range(1, count)]
        pieces = continuous(rates, resets, ["x"])
        sizes.append(sum(1 for _ in sympy.preorder_traversal(pieces.meaning["x"])))
    assert sizes[2] < 5 * sizes[0]
