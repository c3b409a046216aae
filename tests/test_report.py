"""The HTML report: complete, self-contained, and safe to open."""

import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from textwrap import dedent

import numpy as np
import pytest

import picardfit as pf
from picardfit.identifiability import Identifiability, Verdict
from picardfit.problems import fitzhugh_nagumo, tumor
from picardfit.report import determined_words, verdict
from picardfit.tables import parameter_rows, true_values

VOID = {"meta", "br", "hr", "img", "link"}


class Outline(HTMLParser):
    """Tags that were opened, texts that were shown, and whether every tag was closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.nested = [], [], [], [], True
        self.feed(page)
        self.nested = self.nested and not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        self.nested = self.nested and bool(self.open) and self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def fit():
    return pf.fit(fitzhugh_nagumo.generate(seed=1))


@pytest.fixture(scope="module")
def page(fit, tmp_path_factory):
    return fit.report(tmp_path_factory.mktemp("report") / "report.html").read_text()


@pytest.fixture(scope="module")
def outline(page):
    return Outline(page)


def test_the_verdict_comes_before_everything_else(page):
    assert page.index("parameters are determined") < page.index("The fit succeeded.") < page.index("<h2>")


def test_every_tag_is_closed(outline):
    assert outline.nested


def test_nothing_is_fetched_from_elsewhere(outline):
    assert not {"script", "link", "iframe", "object", "embed"} & set(outline.tags)
    targets = [value for name, value in outline.attributes if name.split(":")[-1] in ("href", "src")]
    assert all(value.startswith(("#", "data:")) for value in targets)


def test_style_fetches_nothing(page):
    assert re.search(r"@import|url\((?!#)", page) is None


@pytest.mark.parametrize("count, tag", [(5, "svg"), (1, "h1"), (8, "h2")])
def test_parts_are_there(outline, count, tag):
    assert outline.tags.count(tag) == count


def test_every_estimate_and_interval_is_shown(fit, outline):
    assert {cell for row in parameter_rows(fit) for cell in row if cell} <= set(outline.texts)


def test_true_values_of_simulated_data_are_shown(outline):
    assert "0.064" in outline.texts


def test_true_values_have_the_names_of_the_rows(fit):
    assert true_values(fit) == {"theta1": 0.08, "theta2": 0.064, "x1(0)": 0.0, "x2(0)": 2.0}


def test_equations_are_shown_as_they_were_written(fit, outline):
    assert dedent(fit.problem.model.text).strip() in outline.texts


def test_equations_are_typeset(outline):
    assert outline.tags.count("math") > 4


def test_seed_and_version_are_shown(page):
    assert "seed=0" in page
    assert f"picardfit {pf.__version__}" in page


def test_what_the_user_typed_is_escaped(tmp_path):
    evil = "<script>alert('x')</script>"
    model = pf.Model(f"x' = -a*x # {evil}", observables={evil: "x"})
    run = pf.Experiment([0, 1, 2], {evil: [1, 0.6, 0.4]}, evil)
    problem = pf.Problem(model, run, {"a": pf.Parameter(0.1, 2, unit=evil)}, truth={"parameters": {"a": 0.5}})
    shown = Outline(pf.fit(problem).report(tmp_path / "report.html").read_text())
    assert "script" not in shown.tags
    assert evil in shown.texts


def test_a_fit_at_its_bounds_says_so_first():
    fit = pf.fit(tumor.generate(seed=1))
    kind, _, sentences = verdict(fit)
    assert kind == "mind"
    assert any(one.startswith("On a bound: theta5, rho and v0") for one in sentences)


def test_what_the_data_do_not_determine_is_named():
    run = pf.Experiment([0, 1, 2, 3], {"x": [1, 0.62, 0.35, 0.22]}, initial={"x": 1.0})
    fit = pf.fit(pf.Problem(pf.Model("x' = -a*b*x"), run, {"a": (0.1, 10), "b": (0.1, 10)}))
    kind, headline, sentences = verdict(fit)
    assert kind == "mind"
    assert headline == "No of two parameters are determined; the data do not determine a and b."
    assert any(one.startswith("Determined only together: a*b") for one in sentences)


def test_a_failed_fit_is_reported_without_a_table(fit, tmp_path):
    failed = replace(fit, solution=None, certificate=None, status=pf.Status.NOT_FINITE)
    page = failed.report(tmp_path / "report.html").read_text()
    assert "The fit did not succeed." in page
    assert "no solution was found" in page


def test_a_missing_folder_is_named(fit, tmp_path):
    with pytest.raises(pf.InputError, match="does not exist: create it"):
        fit.report(tmp_path / "nowhere" / "report.html")


def test_tables_scroll_inside_their_own_box(outline):
    assert outline.attributes.count(("class", "wide")) == outline.tags.count("table")


def test_settings_are_folded(outline):
    assert outline.tags.count("details") == 4


def test_units_of_local_parameters_are_shown(tmp_path):
    runs = [pf.Experiment([0, 1, 2], {"x": [1, q, q * q]}, name) for name, q in (("a", 0.6), ("b", 0.4))]
    rate = {"k": pf.Parameter(0.1, 2, local=True, unit="1/h")}
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), runs, rate))
    shown = Outline(fit.report(tmp_path / "report.html").read_text())
    assert shown.texts.count("1/h") == 3  # what was known beforehand, and an estimate for each experiment
