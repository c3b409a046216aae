"""Pictures: what is drawn, where, and what is left out."""

import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.transforms import Bbox

import picardfit as pf
from picardfit.display.gallery import draw
from picardfit.display.plots import (
    plot_convergence,
    plot_correlation,
    plot_fit,
    plot_identifiability,
    plot_profiles,
    plot_residuals,
    plot_waterfall,
)
from picardfit.display.plots.style import LOOKS, STYLE, columns_of, placed
from picardfit.examples import fitzhugh_nagumo, rosenzweig_macarthur
from picardfit.fit import SearchSummary
from picardfit.model.scales import LOG

PLACED = ("fit", "residuals", "autocorrelation", "identifiability", "correlation", "profiles", "convergence")


@pytest.fixture(scope="module")
def neuron():
    return pf.fit(fitzhugh_nagumo.generate(seed=1))


@pytest.fixture(scope="module")
def ponds():
    return pf.fit(rosenzweig_macarthur.generate(seed=1, ponds=2))


def labels(axis):
    """Texts of the ticks inside the axis."""
    low, high = sorted(axis.get_view_interval())
    return [
        t.get_text() for t in axis.get_ticklabels() if low <= t.get_position()[axis.axis_name == "y"] <= high
    ]


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
    np.testing.assert_array_equal(panels[2].lines[0].get_ydata(), neuron.trace[:, 2])
    assert [panel.get_yscale() for panel in panels] == ["log", "log", "log"]


@pytest.mark.parametrize("ending, magic", [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_ending_names_the_format(neuron, tmp_path, ending, magic):
    path = tmp_path / f"fit.{ending}"
    neuron.plot(path)
    assert path.read_bytes().startswith(magic)


@pytest.mark.parametrize(
    "name, code, subject",
    [
        ("fit.doc", "display.picture_format", "fit.doc"),
        ("fit", "display.picture_format", "fit"),
        ("fit.tiff", "display.picture_format", "fit.tiff"),
        ("a/b.png", "files.no_folder", "a"),
    ],
)
def test_a_bad_file_name_is_explained(neuron, tmp_path, name, code, subject):
    with pytest.raises(pf.InputError) as error:
        neuron.plot(tmp_path / name)
    assert (error.value.code, error.value.subject) == (code, str(tmp_path / subject))


def test_no_global_figures_are_made():
    code = "import sys, picardfit.display.report; print('matplotlib.pyplot' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "False\n"


# ---- starts, correlations, profiles, units -----------------------------------------------------------------


def with_starts(fit, losses, clusters):
    """The fit as if these starts had been made."""
    ends = [pf.Status.CONVERGED if k is not None else pf.Status.STALLED for k in clusters]
    starts = tuple(
        SearchSummary(k, loss, end, 3, 0.1, fit.parameters, cluster)
        for k, (loss, end, cluster) in enumerate(zip(losses, ends, clusters, strict=True))
    )
    return replace(fit, searches=starts)


def test_waterfall_ranks_the_starts_and_groups_them_by_optimum(neuron):
    best = neuron.loss
    many = with_starts(neuron, [40 * best, best, 2 * best, best, np.inf], [None, 0, 1, 0, None])
    panel = plot_waterfall(many).axes[0]
    shown = {one.get_label(): one.get_xydata().tolist() for one in panel.lines if one.get_label()[0] != "_"}
    assert shown == {
        "best optimum (2 of 5 searches)": [[1, best], [2, best]],
        "2. optimum (1 of 5 searches)": [[3, 2 * best]],
        "no optimum reached (1)": [[4, 40 * best]],
        "nothing found (1)": [[5, 80 * best]],
    }
    assert panel.get_yscale() == "log"


def test_waterfall_draws_rounding_errors_flat(neuron):
    many = with_starts(neuron, [neuron.loss, neuron.loss * (1 + 1e-9)], [0, 0])
    low, high = plot_waterfall(many).axes[0].get_ylim()
    assert high - low > 0.1 * neuron.loss


def test_waterfall_of_a_likelihood_draws_rounding_errors_flat(neuron):
    problem = neuron.problem
    likely = pf.fit(
        pf.Problem(problem.model, problem.experiments, problem.parameters, noise=pf.Noise(additive=0.2))
    )
    low, high = plot_waterfall(with_starts(likely, [-100, -100 + 1e-9], [0, 0])).axes[0].get_ylim()
    assert high - low > 1


def test_waterfall_of_failures_only_is_drawn(neuron, tmp_path):
    plot_waterfall(with_starts(neuron, [np.inf, np.nan], [None, None]), tmp_path / "waterfall.png")


def test_squares_are_as_large_as_correlations_and_hollow_when_negative(neuron):
    panel = plot_correlation(neuron).axes[0]
    order = [neuron.covariance_labels.index(name) for name in ("theta1", "theta2")]
    value = neuron.correlation[order[1], order[0]]
    square = next(one for one in panel.patches if one.get_center() == pytest.approx((0, 1)))
    assert square.get_width() * square.get_height() == pytest.approx(0.81 * abs(value))
    assert (square.get_facecolor()[3] == 0) == (value < 0)
    assert f"{value:.2f}".replace("-", "−") in {text.get_text() for text in panel.texts}


def test_correlations_of_many_unknowns_are_counted_not_drawn():
    runs = [pf.Experiment([0, 1, 2], {"x": [1, 0.6, 0.4 + 0.01 * k]}, f"run {k}") for k in range(30)]
    fit = pf.fit(pf.Problem(pf.Model("x' = -a*x"), runs, {"a": (0.1, 2)}))
    figure = plot_correlation(fit)
    assert len(figure.axes[0].get_xticklabels()) == STYLE.unknowns
    assert figure.legends[0].get_title().get_text() == "7 more unknowns not drawn"


def test_profiles_show_threshold_interval_and_unit(ponds):
    found = replace(ponds.profile("r"), unit="1/day")
    panel = plot_profiles([found]).axes[0]
    assert line(panel, "threshold of 95 %").get_ydata()[0] == pytest.approx(found.threshold())
    ends = sorted(one.get_xdata()[0] for one in panel.lines if one.get_label() == "95 % interval")
    assert ends == pytest.approx(found.interval())
    assert panel.get_xlabel() == "r (1/day)"


def test_units_stand_on_the_axes(tmp_path):
    model = pf.Model("x' = -a*x", observables={"y": "x"}, units={"t": "h", "x": "mg/l", "a": "1/h"})
    run = pf.Experiment([0, 1, 2, 3], {"y": [1, 0.6, 0.4, 0.2]})
    fit = pf.fit(pf.Problem(model, run, {"a": (0.1, 2)}))
    panel = plot_fit(fit).axes[0]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("time (h)", "y (mg/l)")
    assert plot_residuals(fit).axes[0].get_ylabel() == "data − fit\ny (mg/l)"
    assert fit.profile("a").unit == "1/h"


def test_band_is_that_of_the_fit(neuron):
    panel = neuron.plot(band=0.9).axes[0]
    high = neuron.bands("neuron", [1.0, 2.0], 0.9)["y"].high
    shade = panel.collections[0].get_paths()[0].vertices
    for time, value in zip((1.0, 2.0), high, strict=True):
        there = shade[np.abs(shade[:, 0] - time) < 0.02, 1]
        assert there.max() == pytest.approx(value, abs=0.02)


def test_chosen_experiments_are_drawn(ponds):
    assert ponds.plot(experiments=["pond 2"]).axes[0].get_title() == "pond 2"


def test_an_unknown_experiment_is_named(ponds):
    with pytest.raises(pf.InputError) as error:
        ponds.plot(experiments=["pond 9"])
    assert (error.value.code, error.value.subject) == ("problem.no_such_experiment", "pond 9")


def test_identifiability_picture_has_a_bar_for_each_unknown(neuron):
    found = neuron.identifiability()
    panel = plot_identifiability(found).axes[0]
    assert [text.get_text() for text in panel.get_yticklabels()] == list(found.verdicts)[::-1]


@pytest.mark.parametrize("width, columns", [(2.0, 1), (3.0, 2), (20.0, 4)])
def test_legends_have_as_many_columns_as_fit(width, columns):
    assert columns_of(["ten letters"] * 4, width) == columns


def test_all_pictures_are_written_to_a_folder(neuron, tmp_path):
    written = neuron.plots(tmp_path / "new", "svg")
    assert [one.name for one in written] == [
        "fit.svg",
        "residuals.svg",
        "autocorrelation.svg",
        "identifiability.svg",
        "correlation.svg",
        "convergence.svg",
    ]
    assert all(one.stat().st_size > 1000 for one in written)


def test_texts_of_pictures_stay_inside(ponds):
    """No label of any picture is cut off at the edge."""
    many = with_starts(ponds, [ponds.loss, 3 * ponds.loss], [0, 1])
    pictures = [many.plot(band=0.95), many.plot_residuals(), many.plot_correlation(), many.plot_waterfall()]
    pictures += [
        many.plot_convergence(),
        many.plot_autocorrelation(),
        many.identifiability().plot(),
        ponds.profile("r").plot(),
    ]
    for figure in pictures:
        figure.draw_without_rendering()
        whole = figure.bbox
        for panel in figure.axes:
            box = panel.get_tightbbox()
            assert box.x0 >= whole.x0 - 1, panel.get_ylabel()
            assert box.x1 <= whole.x1 + 1
            assert box.y0 >= whole.y0 - 1
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert box.x1 <= whole.x1 + 1
            assert all(box.y0 >= panel.get_window_extent().y1 - 1 for panel in figure.axes if panel.lines)


def test_a_narrow_logarithmic_axis_has_a_few_plain_ticks(ponds):
    figure = plot_profiles([replace(ponds.profile("r"), scale=LOG)])
    figure.canvas.draw()
    shown = labels(figure.axes[0].xaxis)
    assert 2 <= len(shown) <= 7
    assert all(float(text) > 0 for text in shown)
    assert len(figure.axes[0].xaxis.get_minorticklocs()) == 0


def test_every_axis_has_few_ticks(neuron):
    for figure in (plot_fit(neuron), plot_residuals(neuron), plot_convergence(neuron)):
        figure.canvas.draw()
        for panel in figure.axes:
            for axis in (panel.xaxis, panel.yaxis):
                assert len(axis.get_majorticklocs()) <= 10


def test_errors_are_drawn_in_percent(ponds):
    figure = plot_identifiability(ponds.identifiability())
    figure.canvas.draw()
    assert {"10 %", "20 %", "100 %"} <= set(labels(figure.axes[0].xaxis))


def test_residuals_over_decades_of_time_have_a_logarithmic_axis():
    times = np.geomspace(1e-2, 1e2, 15)
    data = pf.Experiment(times, {"x": np.exp(-times)})
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0.1, 10)}))
    over_time, over_value = fit.plot_residuals().axes
    assert (over_time.get_xscale(), over_value.get_xscale()) == ("log", "linear")


# ---- places ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lengthy():
    """A fit whose names are longer than most panels."""
    state, times = "concentration_of_phosphorylated_receptor_in_the_cytosol", np.linspace(0, 10, 20)
    made, lost = (
        "production_rate_of_the_receptor_in_the_nucleus",
        "degradation_rate_of_the_phosphorylated_receptor",
    )
    noise = 0.1 * np.random.default_rng(5).standard_normal((2, 20))
    runs = [
        pf.Experiment(
            times,
            {state: 3 - 2.5 * np.exp(-0.6 * times) + noise[k]},
            f"wild type, replicate {k} of series two",
        )
        for k in (0, 1)
    ]
    model = pf.Model(f"{state}' = {made} - {lost}*{state}", units={made: "mmol/l/h"})
    return pf.fit(pf.Problem(model, runs, {made: (0, 10), lost: (0.01, 5)}, {state: (0, 5)}))


@pytest.mark.parametrize("look", ["screen", "print"])
@pytest.mark.parametrize("fit, what", [*itertools.product(["neuron", "lengthy"], PLACED)])
def test_panels_and_their_labels_stand_inside_the_figure_and_apart(request, fit, what, look):
    """Measured again after the placing: nothing is clipped, no panel reaches into another, the legend is above."""
    figure = draw(request.getfixturevalue(fit), what, look=LOOKS[look])
    with placed(figure, figure.look.dots_per_inch):
        renderer = RendererAgg(*figure.bbox.size, figure.dpi)
        boxes = [panel.get_tightbbox(renderer) for panel in figure.axes if panel.axison]
        boxes += [legend.get_window_extent(renderer) for legend in figure.legends]
        width, height = figure.bbox.size
    for k, one in enumerate(boxes):
        assert min(one.x0, one.y0, width - one.x1, height - one.y1) > -1.0
        assert not any(Bbox.intersection(one, other) for other in boxes[:k])


@pytest.mark.parametrize("look", ["screen", "print"])
@pytest.mark.parametrize("what", ["identifiability", "profiles", "fit", "residuals"])
def test_ticks_stand_apart_beside_long_names(lengthy, what, look):
    figure = draw(lengthy, what, look=LOOKS[look])
    with placed(figure, figure.look.dots_per_inch):
        renderer = RendererAgg(*figure.bbox.size, figure.dpi)
        for panel in figure.axes:
            texts = [one for one in panel.get_xticklabels() if one.get_text() and one.get_visible()]
            boxes = sorted((one.get_window_extent(renderer) for one in texts), key=lambda one: one.x0)
            assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


def test_bars_say_where_other_values_fit_as_well(ponds):
    found = ponds.identifiability()
    verdicts = {
        n: replace(one, alternatives=(2.0,)) if n == "r" else one for n, one in found.verdicts.items()
    }
    panel = plot_identifiability(replace(found, verdicts=verdicts)).axes[0]
    bars = {one.get_label(): len(one) for one in panel.containers}
    assert bars["other values fit as well"] == 1


@pytest.fixture(scope="module")
def counted():
    """A fit of new cases beside the number of those who are ill."""
    model = pf.Model("x' = k*x", observables={"cases": "increment(x)", "ill": "x"})
    times, noise = np.arange(1.0, 9.0), {"cases": pf.Poisson(), "ill": pf.Noise(additive=2.0)}
    data = pf.simulate(model, {"k": 0.4}, {"x": 20.0}, times, noise=noise).observables
    run = pf.Experiment(times, data, "town")
    return pf.fit(pf.Problem(model, run, {"k": (0.1, 1.0)}, {"x": (5, 50)}, noise=noise))


def test_panels_of_increments_have_the_time_axis_of_the_others(counted):
    limits = {panel.get_xlim() for panel in counted.plot().axes}
    assert len(limits) == 1
    assert limits.pop()[0] < 0


def test_standardised_residuals_have_dashes_at_two(counted):
    for panel in counted.plot_residuals().axes[::2]:
        assert [line.get_ydata()[0] for line in panel.lines if line.get_linestyle() == "--"] == [-2.0, 2.0]


def test_no_curve_is_drawn_through_a_lost_count():
    model = pf.Model("n' = b", observables={"c": "increment(n)"})
    one = pf.Experiment([1, 2, 3, 4, 20, 21, 22, 23], {"c": [5, 4, 6, 5, "?", 4, 5, 6]})
    panel = pf.fit(pf.Problem(model, one, {"b": (0, 20)}, {"n": 0}, noise=pf.Poisson())).plot().axes[0]
    curve = next(line for line in panel.lines if line.get_label() == "fit")
    times, values = curve.get_xdata(), curve.get_ydata()
    assert times[np.isnan(values)].tolist() == [20]
    np.testing.assert_allclose(values[times != 20], 5, rtol=1e-6)
