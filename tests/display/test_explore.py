"""fit.explore(): values of sliders, the curves that they give, and the widgets."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import picardfit as pf
from picardfit.display.explore import Explorer
from picardfit.display.sliders import panel
from picardfit.display.sliding import ExploreSettings

TIMES = np.linspace(0, 4, 9)


def experiment(name, begin, **options):
    return pf.Experiment(TIMES, {"y": 2 * begin * np.exp(-0.7 * TIMES)}, name, **options)


@pytest.fixture(scope="module")
def fit():
    """x' = -k*x, y = s*x, with k on a log scale, an unbounded start in the first experiment and s in each its own."""
    model = pf.Model("x' = -k*x", observables={"y": "s*x"})
    runs = [experiment("first", 1.0), experiment("second", 3.0, initial={"x": 3.0})]
    rate, scale = pf.Parameter(0.01, 10, log=True, unit="1/h"), pf.Parameter(1, 4, local=True)
    return pf.fit(pf.Problem(model, runs, {"k": rate, "s": scale}, {"x": (0, None)}), progress=False)


def pixels(explorer) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(explorer.png())).convert("RGB"), float)


def test_there_is_a_slider_for_each_unknown_of_the_experiment(fit):
    assert list(Explorer(fit, "first").handles) == ["s[first]", "k", "x(0)[first]"]
    assert list(Explorer(fit, "second").handles) == ["s[second]", "k"]


@pytest.mark.parametrize("formula, rows", [("s*x", 2), ("x", 1)])
def test_a_state_that_an_observable_shows_is_drawn_once(formula, rows):
    model = pf.Model("x' = -k*x", observables={"y": formula})
    parameters = {"k": (0, 5)} | ({"s": (1, 4)} if "s" in formula else {})
    found = pf.fit(pf.Problem(model, experiment("first", 1.0), parameters, {"x": 1.0}), progress=False)
    settings = ExploreSettings()
    height = Image.open(io.BytesIO(Explorer(found, settings=settings).png())).height
    least = settings.panel * settings.dots
    assert rows * least < height < (rows + 1) * least


def test_sliders_reach_from_bound_to_bound(fit):
    one = Explorer(fit).handles["k"]
    assert (one.low, one.high, one.log, one.unit) == (pytest.approx(0.01), pytest.approx(10), True, "1/h")


def test_a_slider_without_a_bound_reaches_around_the_estimate(fit):
    one = Explorer(fit, settings=ExploreSettings(widths=2.0)).handles["x(0)[first]"]
    assert (one.low, one.high) == (0.0, pytest.approx(3 * fit.initial_states["first"]["x"]))


def test_the_curve_is_the_solution_at_the_values_of_the_sliders(fit):
    explorer = Explorer(fit)
    explorer.move({"k": 0.3, "s[first]": 2.0, "x(0)[first]": 1.5})
    times, values = explorer.curves()["y"]
    assert values == pytest.approx(2.0 * 1.5 * np.exp(-0.3 * times), rel=1e-4)


def test_the_loss_is_that_of_the_problem(fit):
    explorer = Explorer(fit)
    explorer.move({"k": 0.3})
    initial = {name: {"x": one["x"]} for name, one in fit.initial_states.items()}
    assert explorer.loss() == pytest.approx(fit.problem.loss(explorer.parameters, initial), rel=1e-4)
    assert explorer.words().startswith("loss ")


def test_a_shared_parameter_moves_in_all_experiments(fit):
    explorer = Explorer(fit, "first")
    explorer.move({"k": 0.3})
    explorer.show_experiment("second")
    assert explorer.values["k"] == pytest.approx(0.3)
    assert explorer.parameters["k"] == pytest.approx(0.3)


def test_reset_goes_back_to_the_fit(fit):
    explorer = Explorer(fit)
    explorer.move({"k": 0.3, "s[first]": 3.0})
    explorer.reset()
    assert explorer.parameters == pytest.approx(fit.parameters)


def test_only_the_curve_changes_in_the_picture(fit):
    explorer = Explorer(fit)
    before = pixels(explorer)
    explorer.move({"k": 0.6})
    after = pixels(explorer)
    assert 0 < (before != after).any(axis=2).mean() < 0.05


def test_a_panel_grows_with_a_curve_that_leaves_it_and_shrinks_again(fit):
    explorer = Explorer(fit)
    before = pixels(explorer)
    explorer.move({"x(0)[first]": 3.9})
    assert (pixels(explorer) != before).any(axis=2).mean() > 0.01
    explorer.reset()
    assert (pixels(explorer) == before).all()


def test_increments_are_drawn_at_their_own_samples():
    model = pf.Model("x' = k*x", observables={"new": "increment(x)"})
    run = pf.Experiment([1, 2, 3], {"new": np.exp([1, 2, 3]) - np.exp([0, 1, 2])}, initial={"x": 1})
    explorer = Explorer(pf.fit(pf.Problem(model, run, {"k": (0.1, 3)}), progress=False))
    times, values = explorer.curves()["new"]
    assert times.tolist() == [1, 2, 3]
    assert values == pytest.approx(np.exp([1, 2, 3]) - np.exp([0, 1, 2]), rel=1e-3)


def test_doses_are_part_of_the_curve():
    doses = pf.Doses([0, 2], [1, 1], into="x")
    run = pf.Experiment([1, 3], {"x": [0.5, 0.6]}, doses=doses, initial={"x": 0})
    explorer = Explorer(pf.fit(pf.Problem(pf.Model("x' = -k*x"), run, {"k": (0.1, 3)}), progress=False))
    explorer.move({"k": 1.0})
    times, values = explorer.curves()["x"]
    exact = np.exp(-times) + np.where(times >= 2, np.exp(2 - times), 0)
    assert values == pytest.approx(exact, rel=1e-4)


def test_values_without_a_solution_are_told():
    run = pf.Experiment([0.5, 1], {"x": [1.1, 1.2]}, initial={"x": 1})
    explorer = Explorer(pf.fit(pf.Problem(pf.Model("x' = k*x^2"), run, {"k": (0, 9)}), progress=False))
    explorer.move({"k": 8.0})
    assert explorer.curves() is None
    assert "no solution" in explorer.words()
    assert explorer.png().startswith(b"\x89PNG")


def test_many_experiments_show_no_loss(fit):
    assert Explorer(fit, settings=ExploreSettings(experiments=1)).loss() is None


def test_a_slider_that_is_not_there(fit):
    with pytest.raises(pf.InputError) as caught:
        Explorer(fit).move({"kk": 1})
    assert (caught.value.code, caught.value.subject) == ("display.no_slider", "kk")


# ---- in a notebook -----------------------------------------------------------------------------------------


def test_outside_a_notebook_there_are_no_sliders(fit):
    with pytest.raises(pf.InputError) as caught:
        fit.explore()
    assert caught.value.code == "display.not_a_notebook"


def test_without_ipywidgets_there_are_no_sliders(fit, monkeypatch):
    running = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: running))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=print))
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setattr("picardfit.display.sliders.find_spec", lambda _: None)
    with pytest.raises(pf.InputError) as caught:
        fit.explore()
    assert caught.value.code == "display.no_widgets"


@pytest.fixture
def widgets(fit):
    """The explorer and its widgets: picture, dropdown, column of sliders, button and words."""
    pytest.importorskip("ipywidgets")
    explorer = Explorer(fit)
    image, controls = panel(explorer).children
    chosen, column, last = controls.children
    return SimpleNamespace(
        explorer=explorer,
        image=image,
        chosen=chosen,
        column=column,
        back=last.children[0],
        words=last.children[1],
    )


def test_a_moving_slider_changes_curve_and_loss(widgets):
    before = widgets.image.value, widgets.words.value
    widgets.column.children[1].value = 2.0
    assert widgets.explorer.values["k"] == pytest.approx(2.0)
    assert widgets.image.value != before[0]
    assert widgets.words.value != before[1]


def test_a_logarithmic_unknown_has_a_logarithmic_slider(widgets):
    kinds = [type(one).__name__ for one in widgets.column.children]
    assert kinds == ["FloatSlider", "FloatLogSlider", "FloatSlider"]
    assert widgets.column.children[1].min == pytest.approx(-2)


def test_another_experiment_has_its_own_sliders(widgets):
    widgets.chosen.value = "second"
    assert [one.description for one in widgets.column.children] == ["s[second]", "k (1/h)"]


def test_a_button_leads_back_to_the_fit(widgets, fit):
    widgets.column.children[1].value = 2.0
    widgets.back.click()
    assert widgets.explorer.parameters == pytest.approx(fit.parameters)
    assert widgets.column.children[1].value == pytest.approx(fit.parameters["k"])
