"""Equations that jump as a state changes are fitted with narrow smooth switches."""

import numpy as np
import pytest
import sympy

import picardfit as pf
from picardfit.formulas.grammar import parse
from picardfit.model.state_jumps import smooth, smoothable
from picardfit.search.smooth_switches import with_smooth_switches
from picardfit.search.starts import make_start

TIMES = np.linspace(0, 25, 120)
TRUTH = {"k": 1.5, "c": 0.08, "F": 0.9, "b": 0.4}


def belt(law: str = "sign(v - b)") -> pf.Problem:
    """A mass on a running belt: it sticks to the belt, slips, and sticks again."""
    equations = "x' = v\nv' = -k*x - c*v - F*{}"
    exact = pf.Model(equations.format("tanh((v - b)/0.0001)"), observables={"x": "x"})
    run = pf.simulate(exact, TRUTH, {"x": 0.1, "v": 0.2}, TIMES)
    data = run.observables["x"] + 0.01 * np.random.default_rng(2).standard_normal(len(TIMES))
    model = pf.Model(equations.format(law), observables={"x": "x"})
    return pf.Problem(
        model, pf.Experiment(TIMES, {"x": data}, "belt"), {n: (v / 8, v * 8) for n, v in TRUTH.items()}
    )


@pytest.fixture(scope="module")
def fitted() -> pf.Fit:
    return pf.fit(belt())


def value(expression: sympy.Expr, **values: float) -> float:
    return float(expression.subs({sympy.Symbol(n, real=True): v for n, v in values.items()}))


@pytest.mark.parametrize(
    ("formula", "above", "below", "between"),
    [
        ("sign(x)", 1, -1, 0),
        ("where(x > 0, 3, 5)", 3, 5, 4),
        ("where(x <= 0, 3, 5)", 5, 3, 4),
        ("where(x > 0 and x < 9, 3, 5)", 3, 5, 4),
        ("where(x > 0 or x > 9, 3, 5)", 3, 5, 4),
        ("where(not x > 0, 3, 5)", 5, 3, 4),
        ("2*sign(x)*where(y > 7, 1, 2)", 4, -4, 0),
    ],
)
def test_a_smooth_switch_is_the_jump_away_from_it_and_half_way_on_it(formula, above, below, between):
    jumps = dict.fromkeys(("(x > 0)", "(x <= 0)", "(x < 9)", "(x > 9)", "sign(x)"), 1e-2)
    soft = smooth(parse(formula), jumps)
    assert value(soft, x=1.0, y=0.0) == pytest.approx(above, abs=1e-9)
    assert value(soft, x=-1.0, y=0.0) == pytest.approx(below, abs=1e-9)
    assert value(soft, x=0.0, y=0.0) == pytest.approx(between, abs=1e-9)


def test_a_size_that_divides_is_rounded_off():
    soft = smooth(parse("w/abs(w)"), {"abs(w)": 1e-3})
    assert value(soft, w=0.0) == 0.0
    assert value(soft, w=0.3) == pytest.approx(1.0, abs=1e-4)


def test_formulas_that_do_not_jump_stay_as_they_are():
    expression = parse("where(t > 2, 1, 0)*max(x, 0)*abs(x)")
    assert smooth(expression, {"sign(x)": 0.1}) == expression


def test_jumps_without_a_smooth_form_are_left_alone():
    model = pf.Model("w' = -b*w - c*sign(w)")
    (jump,) = model.state_jumps
    assert smoothable(model.rhs, (jump,)).keys() == {"sign(w)"}
    assert smoothable(model.rhs, (jump, jump._replace(formula="max(w, 0)"))) == {}


def test_widths_are_parts_of_what_changes_sign_along_the_first_path():
    problem = belt()
    start = make_start(problem, np.full((1, problem.layout.width), np.nan))
    stages = with_smooth_switches(problem, start)
    widths = [stage.model.smoothing["sign(-b + v)"] for stage in stages]
    speed = start.tables[0][1][:, 1]
    assert widths[0] == pytest.approx(0.1 * np.ptp(speed))
    assert np.all(np.diff(widths) < 0)


def test_a_body_that_sticks_is_fitted(fitted):
    assert fitted.success
    assert fitted.hits > 1
    for name, exact in TRUTH.items():
        assert abs(fitted.parameters[name] - exact) < 4 * fitted.standard_errors[name] + 0.01 * exact


def test_the_fit_says_what_stands_for_the_jump(fitted):
    (notice,) = [one for one in fitted.warnings if one.code.startswith("search.smoothed")]
    (width,) = fitted.problem.model.smoothing.values()
    assert notice.subject == "sign(-b + v)"
    assert f"tanh((-b + v)/{width:.3g})" in fitted.message
    assert "tanh(" in fitted.problem.model.equations["v"]


def test_it_is_saved_and_read_with_its_switches(fitted, tmp_path):
    fitted.save(tmp_path / "fit.json")
    again = pf.load(tmp_path / "fit.json")
    assert again.problem.model.smoothing == fitted.problem.model.smoothing
    assert again.problem.model.as_written == belt().model
    assert again.loss == fitted.loss


def test_profiles_and_bootstraps_keep_the_switches(fitted):
    low, high = fitted.profile("F").interval(0.95)
    assert low < TRUTH["F"] < high


def test_several_starts_reach_the_same_width(fitted):
    several = pf.fit(belt(), starts=3)
    assert several.hits >= 2
    assert several.problem.model.smoothing == fitted.problem.model.smoothing
    assert several.loss == pytest.approx(fitted.loss, rel=1e-6)


def test_a_threshold_has_a_slope():
    model = pf.Model("x' = r*x*(1 - x/K) - q*x*(x > T)")
    truth = {"r": 0.9, "K": 12.0, "q": 0.35, "T": 5.0}
    run = pf.simulate(model, truth, {"x": 0.2}, TIMES)
    data = run.observables["x"] + 0.05 * np.random.default_rng(3).standard_normal(len(TIMES))
    problem = pf.Problem(
        model, pf.Experiment(TIMES, {"x": data}), {n: (v / 5, v * 5) for n, v in truth.items()}
    )
    fit = pf.fit(problem)
    assert fit.success
    assert fit.parameters["T"] == pytest.approx(5.0, abs=4 * fit.standard_errors["T"])


def test_the_four_algorithms_of_the_paper_keep_the_jumps():
    fit = pf.fit(belt(), pf.GradientContractive(max_iterations=2), progress=False)
    assert not fit.problem.model.smoothing
