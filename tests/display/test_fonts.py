"""Letters that the usual font does not have: a font for them, and one sentence where there is none."""

import logging
import warnings

import numpy as np
import pytest

import picardfit as pf
from picardfit.display.plots.fonts import fallbacks

SERIF = (
    "\U0001d465"  # a mathematical italic x, which fonts that come with Matplotlib have, but not its usual one
)
NOWHERE = "\ue8fe"  # of the private area of Unicode


def fit_of(name: str) -> pf.Fit:
    times = np.linspace(0, 3, 9)
    data = pf.Experiment(times, {"x": 2 * np.exp(-0.5 * times) + 0.02 * np.cos(7 * times)}, name=name)
    return pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0.01, 5)}, {"x": (0.1, 9)}))


def test_usual_letters_need_no_other_font():
    assert fallbacks(frozenset("aβж°−")) == ((), frozenset())


def test_an_installed_font_has_other_letters():
    families, lost = fallbacks(frozenset(SERIF + "a"))
    assert len(families) == 1
    assert lost == frozenset()


def test_letters_without_a_font_are_named():
    assert fallbacks(frozenset(NOWHERE + SERIF))[1] == {NOWHERE}


@pytest.mark.parametrize("name, ending, lines", [(SERIF, "png", 0), (NOWHERE, "png", 1), (NOWHERE, "svg", 0)])
def test_one_sentence_says_which_letters_are_boxes(tmp_path, caplog, name, ending, lines):
    with caplog.at_level(logging.WARNING), warnings.catch_warnings():
        warnings.simplefilter("error")  # none of Matplotlib's
        fit_of(name).plot(tmp_path / f"fit.{ending}")
    assert len(caplog.messages) == lines
    assert all(NOWHERE in one and "install" in one for one in caplog.messages)


def test_reports_leave_letters_to_the_browser(tmp_path, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = fit_of(NOWHERE).report(tmp_path / "report.html")
    assert caplog.messages == []
    assert NOWHERE in page.read_text(encoding="utf-8")
