"""What stands in the panels: residuals by noise model, many dots, inputs, doses, shared axes."""

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.display.plots import plot_fit, plot_overlay, plot_predictions, plot_residuals
from picardfit.display.plots.marks import dots_of
from picardfit.display.plots.style import SCREEN, STYLE, Look

TIMES = np.linspace(0, 4, 21)
DECAY = pf.Model("x' = -k*x")
RNG = np.random.default_rng(1)
EXACT = 50 * np.exp(-1.5 * TIMES)


def fitted(noise, values):
    data = pf.Experiment(TIMES, {"x": values})
    return pf.fit(pf.Problem(DECAY, data, {"k": (0.1, 5)}, {"x": (1, 200)}, noise=noise))


def dots(panel):
    return next(one for one in panel.lines if one.get_linestyle() == "None")


@pytest.mark.parametrize(
    "noise, values, scale",
    [
        (pf.LogNormal(0.2), EXACT * np.exp(0.2 * RNG.standard_normal(21)), "log"),
        (pf.Noise(proportional=0.2), EXACT * (1 + 0.2 * RNG.standard_normal(21)), "log"),
        (pf.Noise(additive=2.0), EXACT + 2.0 * RNG.standard_normal(21), "linear"),
        (pf.Poisson(), RNG.poisson(EXACT), "linear"),
    ],
)
def test_residuals_are_standardised_by_the_noise_model(noise, values, scale):
    """Their size does not depend on that of the fitted value; the lines stand at two standard deviations."""
    fit = fitted(noise, values)
    over_time, over_value = plot_residuals(fit).axes
    name = fit.problem.names[0]
    np.testing.assert_allclose(dots(over_time).get_ydata(), fit.residuals[name]["x"])
    levels = sorted(one.get_ydata()[0] for one in over_time.lines if one.get_linestyle() == "--")
    assert levels == [-2, 2]
    assert over_value.get_xscale() == scale
    assert over_time.get_ylabel() == "standardised residual\nx"


def test_a_logarithmic_residual_is_that_of_the_logarithms():
    values = EXACT * np.exp(0.2 * RNG.standard_normal(21))
    fit = fitted(pf.LogNormal(0.2), values)
    expected = np.log(values / fit.predict(fit.problem.names[0], TIMES)["x"]) / 0.2
    np.testing.assert_allclose(dots(plot_residuals(fit).axes[0]).get_ydata(), expected, rtol=1e-6)


def test_censored_values_have_residuals_as_well():
    values = [f"<{1}" if value < 1 else float(value) for value in EXACT]
    fit = fitted(pf.LogNormal(0.2), values)
    assert np.isfinite(dots(plot_residuals(fit).axes[0]).get_ydata()).sum() == len(TIMES)


def test_censored_values_are_triangles_where_experiments_share_an_axis():
    values = [f"<{1}" if value < 1 else float(value) for value in EXACT]
    fit = fitted(pf.LogNormal(0.2), values)
    lines = plot_overlay(fit).axes[0].lines
    below = next(one for one in lines if one.get_marker() == "v")
    np.testing.assert_array_equal(below.get_ydata(), np.ones(int((EXACT < 1).sum())))
    assert len(dots(plot_overlay(fit).axes[0]).get_ydata()) == (EXACT >= 1).sum()


def test_no_two_experiments_on_one_axis_look_alike():
    runs = [pf.Experiment(TIMES, {"x": EXACT * (1 + 0.1 * k)}, f"S{k}") for k in range(12)]
    fit = pf.fit(pf.Problem(DECAY, runs, {"k": (0.1, 5)}, {"x": (1, 200)}), progress=False)
    curves = [one for one in plot_overlay(fit).axes[0].lines if one.get_linestyle() != "None"]
    assert len({(one.get_color(), one.get_linestyle()) for one in curves}) == 12


def test_ticks_of_a_few_decades_are_plain_numbers():
    fit = fitted(None, EXACT)
    (panel, *_) = plot_fit(fit, look=Look(log_y=True)).axes
    panel.figure.canvas.draw()
    shown = [one.get_text() for one in panel.get_yticklabels()]
    assert all(float(text) > 0 for text in shown)


def test_predictions_of_alike_experiments_share_their_axis():
    runs = [pf.Experiment(TIMES, {"x": EXACT * size}, name) for name, size in (("a", 1.0), ("b", 1.5))]
    fit = pf.fit(pf.Problem(DECAY, runs, {"k": (0.1, 5)}, {"x": (1, 200)}), progress=False)
    found = {name: fit.predict(name, TIMES, bands=True) for name in ("a", "b")}
    first, second = plot_predictions(fit, found, ["x"]).axes
    assert first.get_ylim() == second.get_ylim()


def test_many_dots_are_small_translucent_and_under_the_line():
    few, many, very_many = (dots_of(count) for count in (10, STYLE.many + 1, 100_000))
    assert "alpha" not in few
    assert 1 > many["alpha"] > very_many["alpha"] > 0
    assert many["markersize"] < few["markersize"]
    assert many["zorder"] < 2  # that of lines
    assert very_many["rasterized"]


@pytest.fixture(scope="module")
def patients():
    """Two routes: doses at once into the gut, an infusion into the blood; the gut is hidden."""
    model = pf.Model("gut' = -ka*gut\nblood' = ka*gut - ke*blood", observables={"conc": "blood/10"})
    times, parameters = np.array([0.5, 1, 2, 4, 8, 12.5, 14, 20]), {"ka": 1.0, "ke": 0.2}
    routes = {
        "oral": pf.Doses([0, 12], [100, 80], into="gut"),
        "drip": pf.Doses(0, 100, into="blood", duration=2.0),
        "none": None,
    }
    members = []
    for name, doses in routes.items():
        exact = pf.simulate(model, parameters, {"gut": 0, "blood": 5}, times, t0=0.0, doses=doses).observables
        start = {"gut": 0.0, "blood": 5.0}
        members.append(pf.Experiment(times, exact, name, doses=doses, initial=start, t0=0.0))
    return pf.fit(pf.Problem(model, members, {"ka": (0.1, 5), "ke": (0.01, 2)}))


def test_doses_stand_below_the_curves(patients):
    panels = patients.plot().axes
    rows = len(panels) // 3
    oral, drip, none = panels[-3:]
    assert [panel.get_ylabel() for panel in panels[::3]] == ["conc", "gut", "blood", "doses given"]
    stems = next(one for one in oral.lines if one.get_label() == "dose into gut")
    assert stems.get_xydata().tolist() == [[0, 100], [12, 80]]
    box = drip.patches[0]
    assert (box.get_x(), box.get_width(), box.get_height()) == (0, 2, 100)
    assert not none.has_data()
    assert rows == 4


def test_hidden_states_and_doses_get_less_room(patients):
    figure = patients.plot()
    figure.draw_without_rendering()
    measured, hidden, _, doses = (panel.get_position().height for panel in figure.axes[::3])
    assert measured > 1.5 * hidden
    assert hidden > doses


def test_panels_of_a_quantity_share_an_axis_where_their_sizes_are_alike(patients):
    figure = patients.plot(experiments=["oral", "drip"])
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


def test_panels_of_very_different_sizes_have_their_own_axes():
    runs = [pf.Experiment([0, 1, 2], {"x": size * np.exp(-np.arange(3))}, str(size)) for size in (1.0, 1e3)]
    figure = pf.fit(pf.Problem(DECAY, runs, {"k": (0.1, 5)})).plot()
    assert figure.axes[0].get_ylim()[1] < 2 < figure.axes[1].get_ylim()[1]


def test_an_input_called_dose_is_drawn():
    model = pf.Model("x' = dose - k*x", inputs=["dose"])
    drive = {"dose": pf.Table([0, 1], [50.0, 0.0])}
    exact = pf.simulate(model, {"k": 1.0}, {"x": 0.0}, TIMES, inputs=drive).observables
    fit = pf.fit(pf.Problem(model, pf.Experiment(TIMES, exact, inputs=drive), {"k": (0.1, 5)}))
    panel = plot_fit(fit).axes[-1]
    assert panel.get_ylabel() == "dose"
    assert panel.lines[0].get_ydata().max() == 50.0


def test_a_state_that_begins_at_zero_may_have_a_logarithmic_axis():
    model = pf.Model("gut' = -k*gut\nblood' = k*gut - 0.1*blood", observables={"y": "gut"})
    exact = pf.simulate(model, {"k": 1.0}, {"gut": 9.0, "blood": 0.0}, TIMES).observables
    problem = pf.Problem(model, pf.Experiment(TIMES, exact), {"k": (0.1, 5)}, {"gut": 9.0, "blood": 0.0})
    panels = plot_fit(pf.fit(problem), look=replace(SCREEN, log_y=True)).axes
    assert [panel.get_yscale() for panel in panels] == ["log", "log"]


def test_inputs_stand_below_the_curves():
    model = pf.Model("x' = u - k*x", inputs=["u", "w"], observables={"y": "x + 0*w"})
    drive = {"u": pf.Table([0, 1, 2], [0.0, 2.0, 1.0]), "w": 3.0}
    exact = pf.simulate(model, {"k": 1.0}, {"x": 1.0}, TIMES, inputs=drive).observables
    fit = pf.fit(pf.Problem(model, pf.Experiment(TIMES, exact, inputs=drive), {"k": (0.1, 5)}))
    panels = fit.plot().axes
    assert [panel.get_ylabel() for panel in panels] == ["y", "u"]  # a constant is not worth a panel
    times, values = panels[-1].lines[0].get_xydata().T
    assert values[times == 1.0] == 2.0
    assert values[times < 1.0].max() == 0.0


def test_axes_are_logarithmic_where_that_is_asked_for():
    fit = fitted(pf.LogNormal(0.2), EXACT)
    panel = plot_fit(fit, look=Look(log_x=True, log_y=True)).axes[0]
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    panel = plot_fit(fit, look=SCREEN).axes[0]
    assert (panel.get_xscale(), panel.get_yscale()) == ("linear", "linear")


def test_a_logarithmic_axis_shows_no_rounding_errors():
    """A state falls from 200 to 200 exp(-80), far below the tolerance of any solution."""
    model = pf.Model("g' = -ka*g; c' = ka*g - k*c", observables=["c"])
    times, doses = np.array([0.5, 1, 2, 4, 8, 12, 24, 36, 48, 72]), pf.Doses([0], 200, into="g")
    nothing = {"g": 0, "c": 0}
    exact = pf.simulate(model, {"ka": 1.1, "k": 0.05}, nothing, times, doses=[doses]).observables
    values = {"c": exact["c"] * (1 + 0.05 * np.random.default_rng(0).standard_normal(10))}
    data = pf.Experiment(times, values, "A", doses=[doses])
    fit = pf.fit(pf.Problem(model, data, {"ka": (0.05, 10), "k": (0.001, 1)}, nothing))
    predicted = {"A": fit.predict("A", np.linspace(0, 90, 91), bands=True)}
    for figure in (
        plot_fit(fit, band=0.95, look=Look(log_y=True)),
        plot_predictions(fit, predicted, ["c", "g"], look=Look(log_y=True)),
    ):
        of_c, of_g = figure.axes[:2]
        along, curve = of_g.lines[0].get_xydata().T
        shown = np.isfinite(curve)
        np.testing.assert_allclose(
            curve[shown], 200 * np.exp(-fit.parameters["ka"] * along[shown]), rtol=1e-2
        )
        assert 15 < along[shown].max() < 25
        assert of_g.get_ylim()[0] > 1e-10
        assert of_g.get_xlim() == of_c.get_xlim()


@pytest.mark.parametrize("samples, hollow", [(20, True), (200, False)])
def test_dots_of_all_experiments_on_one_axis_look_alike(samples, hollow):
    """Whatever the number of samples of each: here 21 of two and more or fewer of the third."""
    times = np.linspace(0, 4, samples)
    third = pf.Experiment(times, {"x": 50 * np.exp(-1.5 * times)}, "third")
    runs = [*(pf.Experiment(TIMES, {"x": EXACT * size}, f"S{size}") for size in (1, 2)), third]
    fit = pf.fit(pf.Problem(DECAY, runs, {"k": (0.1, 5)}, {"x": (1, 200)}), progress=False)
    figure = plot_overlay(fit)
    drawn = [one for one in figure.axes[0].lines if one.get_linestyle() == "None"]
    assert {(one.get_markerfacecolor() == "none", one.get_alpha()) for one in drawn} == {
        (hollow, drawn[0].get_alpha())
    }
    assert all((one.get_markerfacecolor() == "none") == hollow for one in figure.legends[0].legend_handles)


def test_a_curve_of_very_many_samples_has_few_points():
    times = np.linspace(0, 4, 5000)
    fit = pf.fit(pf.Problem(DECAY, pf.Experiment(times, {"x": np.exp(-times)}), {"k": (0.1, 5)}))
    line = next(one for one in fit.plot().axes[0].lines if one.get_label() == "fit")
    assert len(line.get_xdata()) < 1000
