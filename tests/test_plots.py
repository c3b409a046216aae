"""Pictures: what is drawn, where, and what is left out."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.plots import plot_convergence, plot_fit, plot_residuals
from picardfit.problems import fitzhugh_nagumo, rosenzweig_macarthur


@pytest.fixture(scope="module")
def neuron():
    return pf.fit(fitzhugh_nagumo.generate(seed=1))


@pytest.fixture(scope="module")
def ponds():
    return pf.fit(rosenzweig_macarthur.generate(seed=1, ponds=2))


def line(panel, label):
    return next(one for one in panel.lines if one.get_label() == label)


def test_dots_are_the_data(neuron):
    one = neuron.problem.experiments[0]
    dots = line(plot_fit(neuron).axes[0], "data")
    np.testing.assert_array_equal(dots.get_xydata(), np.stack([one.times, one.observations["y"]], axis=-1))


def test_line_is_the_prediction(neuron):
    times, values = line(plot_fit(neuron).axes[0], "fit").get_xydata().T
    np.testing.assert_allclose(values, neuron.predict("neuron", times)["y"])


def test_hidden_state_has_a_panel_with_its_path(neuron):
    panel = plot_fit(neuron).axes[1]
    times, values = line(panel, "fit of what was not measured").get_xydata().T
    assert panel.get_ylabel() == "x2"
    np.testing.assert_allclose(values, neuron.states("neuron", times)["x2"])


def test_a_state_that_an_observable_shows_alone_has_no_panel_of_its_own(neuron):
    assert [panel.get_ylabel() for panel in plot_fit(neuron).axes] == ["y", "x2"]


def test_panels_of_an_experiment_stand_below_its_name(ponds):
    titles = [panel.get_title() for panel in plot_fit(ponds).axes]
    assert titles == ["pond 1", "pond 2", "", ""]


def test_curve_is_dense_and_covers_the_data(neuron):
    times = line(plot_fit(neuron).axes[0], "fit").get_xdata()
    assert (times[0], times[-1]) == (0.0, 4.8)
    assert np.diff(times).max() < 0.02


def test_experiments_beyond_the_twelfth_are_counted_not_drawn():
    model = pf.Model("x' = -a*x")
    runs = [pf.Experiment([0, 1, 2], {"x": [1, 0.6, 0.4]}, f"run {k}") for k in range(15)]
    figure = plot_fit(pf.fit(pf.Problem(model, runs, {"a": (0.1, 2)})))
    assert sum(bool(panel.get_title()) for panel in figure.axes) == 12
    assert figure.legends[0].get_title().get_text() == "3 more experiments not drawn"


def test_log_spaced_samples_get_a_logarithmic_time_axis():
    times = np.geomspace(1e-4, 1e3, 15)
    run = pf.Experiment(times, {"x": np.exp(-times)})
    figure = plot_fit(pf.fit(pf.Problem(pf.Model("x' = -a*x"), run, {"a": (0.1, 10)})))
    assert figure.axes[0].get_xscale() == "log"


def test_names_are_drawn_literally(tmp_path):
    run = pf.Experiment([0, 1, 2], {"$x_{$": [1, 0.6, 0.4]}, r"$\frac{ <b>")
    model = pf.Model("x' = -a*x", observables={"$x_{$": "x"})
    fit = pf.fit(pf.Problem(model, run, {"a": (0.1, 2)}))
    plot_residuals(fit, tmp_path / "residuals.png")
    assert plot_fit(fit, tmp_path / "fit.png").axes[0].get_title() == r"$\frac{ <b>"


def test_without_a_solution_only_the_data_are_drawn(neuron):
    figure = plot_fit(replace(neuron, solution=None, certificate=None))
    assert [one.get_label() for one in figure.axes[0].lines] == ["data"]


def test_residuals_are_data_minus_prediction(ponds):
    one = ponds.problem.experiments[0]
    dots = next(x for x in plot_residuals(ponds).axes[0].lines if len(x.get_xdata()) == len(one.times))
    expected = one.observations["prey"] - ponds.predict("pond 1", one.times)["prey"]
    np.testing.assert_allclose(dots.get_ydata(), expected)


def test_convergence_shows_every_iteration_in_logarithms(neuron):
    panels = plot_convergence(neuron).axes
    np.testing.assert_array_equal(panels[0].lines[0].get_ydata(), neuron.trace[:, 0])
    assert [panel.get_yscale() for panel in panels] == ["log", "log"]


@pytest.mark.parametrize("ending, magic", [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_ending_names_the_format(neuron, tmp_path, ending, magic):
    path = tmp_path / f"fit.{ending}"
    neuron.plot(path)
    assert path.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    "name, words", [("fit.doc", "picture format"), ("fit", "picture format"), ("a/b.png", "folder")]
)
def test_a_bad_file_name_is_explained(neuron, tmp_path, name, words):
    with pytest.raises(pf.InputError, match=words):
        neuron.plot(tmp_path / name)


def test_no_global_figures_are_made():
    code = "import sys, picardfit.report; print('matplotlib.pyplot' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "False\n"
