"""Formulas as MathML: what is drawn, where parentheses stand, where long sums break."""

import re
from html import unescape
from xml.etree import ElementTree

import pytest

import picardfit as pf
from picardfit.display.markup import equations
from picardfit.display.typeset import WIDEST, Reader, equations_html, name_mathml


def linear(formula):
    """The MathML of a formula in one line: fractions as {a}/{b}, powers as a^{b}, subscripts as a_b."""

    def flat(node):
        parts = [flat(child) for child in node]
        kind, text = node.tag, (node.text or "").replace("\u2061", "")
        if kind == "mspace":
            return " "
        if kind == "mfrac":
            return f"{{{parts[0]}}}/{{{parts[1]}}}"
        if kind in ("msup", "msub"):
            return f"{parts[0]}{'^' if kind == 'msup' else '_'}{{{parts[1]}}}"
        if kind == "msqrt":
            return f"√{{{''.join(parts)}}}"
        if kind == "mtr":
            return " ".join(parts) + "; "
        return text + "".join(parts)

    markup = Reader(formula).expression(0).markup
    return flat(ElementTree.fromstring(f"<math>{markup}</math>"))


@pytest.mark.parametrize(
    "formula, drawn",
    [
        ("r*x*(1 - x/K)", "r x (1−{x}/{K})"),
        ("a*x/(b + x)", "{a x}/{b+x}"),
        ("a/b/c", "{{a}/{b}}/{c}"),
        ("a - (b - c)", "a−(b−c)"),
        ("a - (b*c)", "a−b c"),
        ("(a + b) + c", "a+b+c"),
        ("a*(b + c)", "a (b+c)"),
        ("a*(-b)", "a (−b)"),
        ("-a*x", "−a x"),
        ("-a*x/b", "−{a x}/{b}"),
        ("-(a + b)", "−(a+b)"),
        ("(-a)**2", "(−a)^{2}"),
        ("-a**2", "−a^{2}"),
        ("(a/b)**2", "({a}/{b})^{2}"),
        ("a**b**c", "a^{b^{c}}"),
        ("(a**b)**c", "(a^{b})^{c}"),
        ("a^(n + 1)", "a^{n+1}"),
        ("exp(-k*t)", "e^{−k t}"),
        ("sqrt(x + 1)", "√{x+1}"),
        ("abs(x)", "|x|"),
        ("log(x)", "log(x)"),
        ("log10(x)", "log_{10}(x)"),
        ("min(a, b)", "min(a,b)"),
        ("pow(x, 2)", "x^{2}"),
        ("2*3", "2⋅3"),
        ("1e-3*x", "10^{−3} x"),
        ("2.5e6*x", "2.5⋅10^{6} x"),
        ("theta1*k_on", "θ_{1} k_{on}"),
        ("pi*x", "π x"),
        ("not (a > b)", "¬(a>b)"),
        ("where(t < 2, a, 0)", "{a if\u00a0t<2; 0 otherwise; "),
        ("a if t <= 2 else 0", "{a if\u00a0t≤2; 0 otherwise; "),
        ("piecewise(1, t < 3, 2, t < 5, 0)", "{1 if\u00a0t<3; 2 if\u00a0t<5; 0 otherwise; "),
        ("piecewise((1, t < 3), (0, True))", "{1 if\u00a0t<3; 0 otherwise; "),
        ("heaviside(t - 1)*x", "heaviside(t−1) x"),
    ],
)
def test_formulas_are_drawn_with_the_parentheses_they_need(formula, drawn):
    assert linear(formula) == drawn


def test_a_prime_stands_behind_the_subscript():
    drawn = '<msub><mi>x</mi><mn>1</mn></msub><mo lspace="0" rspace="0">′</mo>'
    assert drawn in name_mathml("x1", prime=True)


def test_long_sums_are_broken_between_terms():
    formula = " - ".join(f"coefficient_{k}*variable_{k}" for k in range(12))
    page = equations_html([("x", formula, True)])
    assert page.count("<tr>") > 2
    assert page.count("<mo") - page.count("<mo>=") - page.count("′</mo>") == 11


def test_a_term_that_cannot_be_broken_is_shown_as_text():
    product = "*".join(f"factor_number_{k}" for k in range(12))
    assert equations_html([("x", product, False)]) is None
    assert f"<pre>x' = {product}</pre>" in unescape(equations(pf.Model(f"x' = {product}")))
    assert Reader(product).expression(0).width > WIDEST


def test_helpers_are_kept_as_they_were_written():
    model = pf.Model("flow = k*x\nx' = -flow\ny' = flow")
    assert [name for name, _, _ in model.written] == ["flow", "x", "y"]
    lines = re.sub("<.*?>", "", equations(model)).split("\n")
    assert [line for line in lines if line] == ["flow=kx", "x′=−flow", "y′=flow", "Observed: x, y."]


def test_functions_that_calculate_are_typeset_too():
    model = pf.Model.from_function(lambda t, x, p: [-p.a * x[0] / p.b], states=["x"], parameters=["a", "b"])
    assert "<mfrac>" in equations(model)


def test_functions_that_decide_are_named():
    def jumps(t, x, p):
        return [-p.a * x[0] if x[0] > 1 else 0.0]

    assert "jumps" in equations(pf.Model.from_function(jumps, states=["x"], parameters=["a"]))
