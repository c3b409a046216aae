"""Two optima that fit equally well stand beside each other in every table."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.cli.fit import write_fit
from picardfit.cli.show import remarked
from picardfit.display.text import estimates, probability
from picardfit.display.verdicts import summary


@pytest.fixture(scope="module")
def fit():
    """Flip-flop kinetics: absorption a and elimination b exchange, and a*x(0) stays the same."""
    times, a, b = np.linspace(0, 4, 9), 2.0, 0.5
    exact = a / (a - b) * (np.exp(-b * times) - np.exp(-a * times))
    data = pf.Experiment(times, {"y": exact + 0.01 * np.random.default_rng(0).standard_normal(9)})
    model = pf.Model("x' = -a*x\ny' = a*x - b*y", observables=["y"])
    bounds = {"a": (0.01, 10), "b": (0.01, 10)}
    return pf.fit(pf.Problem(model, data, bounds, {"x": (0.1, 10), "y": 0.0}), starts=8)


def test_the_other_optimum_has_a_value_for_every_unknown(fit):
    found = {one.name: (one.value, one.rival) for one in estimates(fit)}
    (a, other_a), (b, other_b), (x, other_x) = found["a"], found["b"], found["x(0)"]
    assert (other_a, other_b) == pytest.approx((b, a), rel=1e-3)
    assert other_a * other_x == pytest.approx(a * x, rel=1e-3)


def test_text_notebook_and_report_show_it(fit, tmp_path):
    other = {f"{one.rival:.5g}" for one in estimates(fit)}
    for shown in (str(fit), fit._repr_html_(), fit.report(tmp_path / "report.html").read_text()):
        assert "also fits" in shown
        assert all(value in shown for value in other)


def test_a_saved_fit_keeps_it(fit, tmp_path):
    again = pf.load(fit.save(tmp_path / "fit.json"))
    assert [one.rival for one in estimates(again)] == [one.rival for one in estimates(fit)]


def test_no_verdict_calls_such_a_value_determined(fit):
    assert {one.remark for one in estimates(fit)} == {"another value fits as well"}
    assert {remark for _, remark in remarked(fit, 0.95)} == {"another value fits as well"}
    assert "other values of a and b fit the data as well" in summary(fit).headline
    assert all(str(fit.identifiability().verdicts[n]).startswith(f"{n}: locally ") for n in ("a", "b"))


def test_the_table_of_parameters_has_a_column_for_it(fit, tmp_path):
    *_, path = (one for one in write_fit(fit, tmp_path, report=False) if one.name == "parameters.csv")
    rows = {row["name"]: row for row in csv.DictReader(path.open())}
    assert float(rows["a"]["also_fits"]) == pytest.approx(float(rows["b"]["estimate"]), rel=1e-3)


def test_a_derived_quantity_that_is_no_number_says_so(fit):
    found = pf.fit(replace(fit.problem, derived={"lost": "log(-a)"}), progress=False)
    (line,) = [line for line in str(found).splitlines() if line.startswith("lost")]
    assert line.split()[:2] == ["lost", "-"]
    assert "= log(-a), which is no finite number at the estimates" in line
    assert not any(character.isdigit() for character in line)


@pytest.mark.parametrize("value, text", [(0.0, "< 0.001"), (0.0123, "0.012"), (0.5, "0.5"), (1.0, "> 0.999")])
def test_probabilities_never_are_0_or_1(value, text):
    assert probability(value) == text


def test_derived_quantities_have_their_other_value_too(fit):
    problem = replace(fit.problem, derived={"half_life": "log(2)/b", "product": "a*b", "amount": "a*x(0)"})
    shown = {one.name: one for one in estimates(pf.fit(problem, starts=8))}
    half_life = shown["half_life"]
    assert half_life.rival == pytest.approx(np.log(2) / shown["b"].rival, rel=1e-9)
    assert half_life.remark == "= log(2)/b, another value fits as well"
    assert (shown["product"].rival, shown["amount"].rival) == (None, None)
