"""Pictures of populations: what they draw, and that each is written in both styles."""

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.display.gallery import PICTURES, draw, quick_pictures
from picardfit.display.plots.population import plot_effects, plot_individuals, plot_observed
from picardfit.display.plots.predictive_check import draw_checks
from picardfit.display.plots.style import PRINT, SCREEN, Look
from populations import log_random, theophylline, wang

OWN = [name for name, one in PICTURES.items() if "display.needs_population" in one.needs]


@pytest.fixture(scope="module")
def fit():
    return pf.fit(theophylline(covariates=["WT"]))


@pytest.fixture(scope="module")
def two_outputs():
    """A drug and its effect, a few values of which lie below a limit."""
    model = pf.Model("drug' = -k*drug\neffect' = drug - effect")
    rng, times = np.random.default_rng(1), np.array([0.5, 1, 2, 4])
    cells = []
    for k in range(6):
        own = np.exp(-0.5 * np.exp(0.3 * rng.standard_normal()) * times)
        drug, effect = 10 * own + 0.1 * rng.standard_normal(4), 3 * times * own + 0.1 * rng.standard_normal(4)
        cells.append(
            pf.Experiment(
                times,
                {"drug": [f"<{2.5}" if y < 2.5 else y for y in drug], "effect": effect},
                f"cell {k}",
            )
        )
    problem = pf.Problem(
        model,
        cells,
        {"k": log_random(0.01, 10)},
        initial={"drug": 10, "effect": 0},
        noise=pf.Noise(additive=(0.01, 3)),
    )
    return pf.fit(problem)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("look", [SCREEN, PRINT], ids=["screen", "print"])
def test_every_picture_of_a_population_is_drawn(fit, tmp_path, name, look):
    draw(fit, name, tmp_path / "x.svg", look)
    assert (tmp_path / "x.svg").stat().st_size > 1000


def test_all_quick_pictures_of_a_population(fit):
    assert list(quick_pictures(fit)) == ["fit", "overlay", "residuals", *OWN]


def test_curves_are_those_of_the_individual_and_of_the_typical_one(fit):
    panel = plot_individuals(fit, experiments=["5"]).axes[0]
    for label, typical in (("this individual", False), ("typical individual", True)):
        line = next(one for one in panel.lines if one.get_label() == label)
        times, values = line.get_xydata().T
        np.testing.assert_allclose(values, fit.predict("5", times, typical=typical)["conc"])


def test_observed_over_predicted(fit):
    table = fit.population.residuals()
    for panel, column in zip(plot_observed(fit).axes, ("pred", "ipred"), strict=True):
        dots = next(one for one in panel.lines if one.get_label() == "data").get_xydata()
        np.testing.assert_allclose(dots, table[[column, "value"]])


def test_check_shows_quantiles_and_bands(fit):
    check = fit.population.vpc(simulations=20)
    panel = draw_checks(fit, [check]).axes[0]
    line = next(one for one in panel.lines if one.get_label() == "median of the data")
    np.testing.assert_allclose(line.get_xydata().T, [check.times, check.observed[1]])
    assert len(panel.collections) == 3


def test_a_limit_of_quantification_has_a_panel_for_its_part(two_outputs):
    figure = draw(two_outputs, "vpc")
    assert [panel.get_ylabel() for panel in figure.axes] == ["drug", "part\nbelow limit", "effect"]
    triangles = [one for one in draw(two_outputs, "observed").axes[0].lines if one.get_label() == "censored"]
    assert len(triangles) == 1


def test_effects_stand_over_covariates(fit):
    panel = plot_effects(fit).axes[1]
    dots = next(one for one in panel.lines if one.get_label() == "individual").get_xydata()
    weights = [one.covariates["WT"] for one in fit.problem.experiments]
    np.testing.assert_allclose(dots.T, [weights, fit.population.effects["cl"]])


def test_logarithmic_axes(fit):
    panel = draw(fit, "individuals", look=Look(log_y=True)).axes[0]
    assert panel.get_yscale() == "log"
    assert draw(fit, "vpc", look=Look(log_x=True)).axes[0].get_xscale() == "log"
    assert draw(fit, "observed", look=Look(log_x=True, log_y=True)).axes[0].get_xscale() == "log"
    assert draw(fit, "cwres", look=Look(log_x=True)).axes[0].get_xscale() == "log"


def test_pictures_of_single_fits_are_refused(fit):
    error = complaint(draw, fit, "correlation")
    assert (error.code, error.subject) == ("display.not_of_populations", "correlation")


def test_effects_need_covariates():
    assert complaint(draw, pf.fit(wang()), "effects").code == "display.needs_covariates"


def test_the_report_holds_the_pictures(fit, tmp_path):
    page = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") + page.count("<img") == 8


def test_all_pictures_are_written(two_outputs, tmp_path):
    names = {path.stem for path in two_outputs.plots(tmp_path, "svg")}
    assert names == {"fit", "overlay", "residuals", *OWN} - {"effects"}
