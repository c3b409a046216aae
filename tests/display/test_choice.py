"""Which experiments are drawn, under which labels, and with which looks."""

from itertools import pairwise

import numpy as np
import pytest

import picardfit as pf
from picardfit.display.plots import plot_fit, plot_overlay, plot_residuals
from picardfit.display.plots.choice import chosen, misfits
from picardfit.display.plots.labels import distinct
from picardfit.display.plots.residuals import experiment_looks
from picardfit.display.plots.style import MARKERS, PRINT, STYLE, arrangement, figure_of, legend_letters

TIMES = np.linspace(0, 3, 9)


@pytest.fixture(scope="module")
def crowd():
    """Thirty runs with the same curve, of which run k misses it by a wave of size k."""
    wave = 0.002 * np.cos(np.pi * np.arange(9))
    runs = [pf.Experiment(TIMES, {"x": np.exp(-TIMES) + k * wave}, f"run {k}") for k in range(1, 31)]
    return pf.fit(pf.Problem(pf.Model("x' = -a*x"), runs, {"a": (0.1, 5)}, {"x": 1.0}))


def test_the_misfit_is_the_root_mean_square_of_the_residuals(crowd):
    values = crowd.residuals["run 7"]["x"]
    assert misfits(crowd)["run 7"] == pytest.approx(np.sqrt(np.mean(values**2)))


def test_of_thirty_experiments_the_worst_and_typical_ones_are_drawn(crowd):
    found = chosen(crowd)
    assert found.names[:6] == tuple(f"run {k}" for k in (30, 29, 28, 27, 26, 25))
    assert set(found.names[6:]) == {f"run {k}" for k in (13, 14, 15, 16, 17, 18)}
    assert (found.total, found.worst) == (30, 6)


def test_the_choice_is_told_above_the_picture(crowd):
    figure = plot_fit(crowd)
    assert (
        figure.legends[0].get_title().get_text().replace("\n", " ").startswith("12 of 30 experiments: the 6")
    )
    assert figure.axes[0].get_title().startswith("run 30\nmisfit ")


def test_few_experiments_are_all_drawn_in_their_order(crowd):
    found = chosen(crowd, ["run 2", "run 1"])
    assert (found.names, found.words) == (("run 2", "run 1"), "")


def test_a_page_of_a_journal_holds_six_experiments(crowd):
    assert sum(bool(panel.get_title()) for panel in plot_fit(crowd, look=PRINT).axes) == 6


def test_up_to_twelve_experiments_differ_in_colour_and_shape(crowd):
    looks = experiment_looks(crowd, [f"run {k}" for k in range(1, 13)], figure_of(6.5, 4))
    assert len({one["marker"] for one in looks.values()}) == len(MARKERS)
    neighbours = list(looks.values())
    assert all(a["color"] != b["color"] for a, b in pairwise(neighbours))


@pytest.mark.parametrize(
    "width, count, letters",
    [
        (6.5, 12, 35),  # two columns of 3.25 inches
        (4.4, 12, 40),  # one column: the longest that is drawn
        (2.0, 12, 22),  # too narrow: the shortest
        (9.0, 3, 32),  # three columns
    ],
)
def test_names_in_legends_have_the_room_that_there_is(width, count, letters):
    names = [f"subject {k:02d} of the northern clinic in winter" for k in range(count)]
    figure = figure_of(width, 3)
    figure.set_figwidth(width)
    assert legend_letters(names, figure) == letters


def test_of_many_experiments_the_worst_are_named_and_the_others_counted(crowd):
    for figure in (plot_residuals(crowd), plot_overlay(crowd)):
        texts = [text.get_text() for text in figure.legends[0].get_texts()]
        assert "the 24 others" in texts
        assert sum(text.startswith("run ") for text in texts) == STYLE.worst


@pytest.mark.parametrize(
    "names, longest",
    [
        (["a long name of pond 1", "a long name of pond 2"], 12),
        (["pond 1 of a long name", "pond 2 of a long name"], 12),
        (["begin 1 middle end", "begin 2 middle end", "begin 3 middle end"], 9),
        ([f"{'x' * 30}{k}{'y' * 30}" for k in range(12)], 10),
    ],
)
def test_shortened_names_fit_and_differ(names, longest):
    labels = distinct(names, longest)
    assert len(set(labels.values())) == len(names)
    assert all(len(label) <= longest for label in labels.values())


def test_short_names_stay_as_they_are():
    assert distinct(["a", "bb"], 2) == {"a": "a", "bb": "bb"}


@pytest.mark.parametrize(
    "count, most, places", [(1, 4, (1, 1)), (4, 3, (2, 2)), (12, 4, (3, 4)), (5, 4, (2, 3))]
)
def test_experiments_fill_their_rows(count, most, places):
    assert arrangement(count, most) == places
