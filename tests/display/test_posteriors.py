"""Text, HTML, pictures and report of draws."""

import numpy as np
import pytest

import picardfit as pf


@pytest.fixture(scope="module")
def draws():
    times = np.linspace(0, 4, 9)
    runs = [
        pf.Experiment(
            times, {"x": scale * np.exp(-0.6 * times) + 0.05 * np.cos(5 * times)}, name=f"run {scale}"
        )
        for scale in (1, 2)
    ]
    parameters = {"k": pf.Parameter(0.01, 5, unit="1/h", prior=pf.priors.LogNormal(-0.5, 0.5))}
    problem = pf.Problem(pf.Model("x' = -k*x"), runs, parameters, {"x": (0, 5)}, noise=pf.Noise(additive=0.1))
    return pf.fit(problem).posterior(pf.NUTS(draws=30, chains=2, warmup=30), progress=False)


def test_text_names_every_unknown_and_ends_with_the_warnings(draws):
    text = str(draws)
    assert "2 chains of 30 draws after 30 for warm-up" in text
    assert all(name in text for name in ("k", "x(0)[run 1]", "x(0)[run 2]"))
    assert text.splitlines()[-1] == str(draws.warnings[-1])


def test_trusted_draws_say_so(draws):
    quick = draws.fit.posterior(pf.LaplaceDraws(2000), progress=False)
    assert "Nothing speaks against these draws" in str(quick)
    assert "k-hat" in quick._repr_html_()


@pytest.mark.parametrize(
    "kind, panels",
    [("trace", 3), ("rank", 3), ("pairs", 9), ("forest", 1), ("marginals", 3), ("predictive", 2)],
)
def test_pictures_have_a_panel_for_each_unknown(draws, kind, panels, tmp_path):
    figure = draws.plot(kind, tmp_path / "picture.png")
    assert sum(panel.axison or kind == "pairs" for panel in figure.axes) == panels
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_chosen_unknowns_are_drawn(draws):
    (panel,) = [one for one in draws.plot("marginals", names=["k"]).axes if one.axison]
    assert panel.get_xlabel() == "k (1/h)"


def test_divergent_draws_are_marked(draws):
    from dataclasses import replace

    marked = np.zeros((2, 30), bool)
    marked[0, 3] = True
    bad = replace(draws, drawn=replace(draws.drawn, divergent=marked))
    for kind in ("trace", "pairs"):
        assert "divergent" in [text.get_text() for text in bad.plot(kind).legends[0].get_texts()]


@pytest.mark.parametrize("arguments, code", [(("violin",), "inference.picture_of_draws")])
def test_unknown_pictures_are_refused(draws, arguments, code):
    with pytest.raises(pf.InputError) as caught:
        draws.plot(*arguments)
    assert caught.value.code == code


def test_report_has_a_section_for_draws_of_its_fit_only(draws, tmp_path):
    page = draws.fit.report(tmp_path / "report.html", posterior=draws).read_text()
    assert "<h2>Posterior</h2>" in page
    with pytest.raises(pf.InputError) as caught:
        draws.fit.report(tmp_path / "report.html", posterior=1.0)
    assert caught.value.code == "display.not_a_posterior"


def test_an_unknown_keeps_its_prior_in_the_picture(draws):
    labels = [text.get_text() for text in draws.plot("marginals").legends[0].get_texts()]
    assert {"draws", "prior", "estimate"} <= set(labels)


def test_predictions_show_dates_and_censored_values():
    dates = ["2021-03-01", "2021-03-06", "2021-03-11", "2021-03-16", "2021-03-21"]
    data = pf.Experiment(dates, {"x": [9.0, 6.2, 4.1, "<4", 2.1]})
    problem = pf.Problem(
        pf.Model("x' = -k*x"), data, {"k": pf.Parameter(0.001, 1, log=True)}, noise=pf.LogNormal(0.1)
    )
    draws = pf.fit(problem).posterior(pf.LaplaceDraws(200), progress=False)
    panel = draws.plot("predictive").axes[0]
    assert panel.get_xlabel() == "date"
    assert "censored" in [line.get_label() for line in panel.lines]
