"""What notebooks show: HTML of models, problems and results, pictures without pyplot, a progress bar."""

from __future__ import annotations

import importlib
import re
import sys
from html import unescape
from types import SimpleNamespace

import pytest

import picardfit as pf
from picardfit.display.painters import PAINTERS
from picardfit.examples import fitzhugh_nagumo
from picardfit.parallel.progress import Bar

EVIL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def fit():
    return pf.fit(fitzhugh_nagumo.generate(seed=1))


def shown(one) -> str:
    """The texts of what a notebook shows."""
    return unescape(re.sub(r"<style>.*?</style>|<.*?>", "", one._repr_html_(), flags=re.DOTALL))


def test_a_model_shows_its_equations_and_names():
    model = pf.Model("x' = -a*x/b + u", inputs=["u"], units={"a": "1/h"})
    assert "<mfrac>" in model._repr_html_()
    assert "a (1/h), b" in shown(model)


def test_a_problem_shows_bounds_and_data(fit):
    text = shown(fit.problem)
    one = fit.problem.experiments[0]
    assert f"{fit.problem.measurements} measurements in 1 experiment; least squares" in text
    assert f"y ({len(one.times)})" in text
    assert all(name in text for name in fit.problem.parameters)


def test_a_problem_with_many_experiments_shows_the_first_ones():
    runs = [pf.Experiment([0, 1], {"x": [1, 0.6]}, f"run {k}") for k in range(100)]
    text = shown(pf.Problem(pf.Model("x' = -a*x"), runs))
    assert "run 9" in text
    assert "run 10" not in text
    assert "… and 90 more." in text


def test_an_experiment_shows_what_was_measured(fit):
    assert "neuron" in shown(fit.problem.experiments[0])


def test_a_fit_shows_its_verdict_and_estimates(fit):
    text = shown(fit)
    assert "Both parameters are determined" in text
    assert f"{fit.parameters['theta1']:.5g}" in text


def test_a_fit_shows_its_curves_and_residuals(fit):
    html = fit._repr_html_()
    assert html.count("<figure") == 2
    assert "Data and fit, with 95 % confidence bands" in shown(fit)


def test_a_fit_that_failed_shows_its_curves_without_bands(fit):
    method = pf.LiftedGaussNewton(max_iterations=1)
    failed = pf.fit(fit.problem, method, policy=pf.SearchPolicy(most=1), progress=False)
    assert "Data and fit" in shown(failed)
    assert "bands" not in shown(failed)


def test_formulas_are_aligned_to_the_left():
    """Notebooks align cells to the right; a rule of two classes wins over theirs of one."""
    html = pf.Model("x' = -a*x")._repr_html_()
    rule = re.search(r"\.picardfit\.picardfit table\.equations td \{([^}]*)\}", html)
    assert "text-align: left" in rule[1]


def test_other_results_show_their_text(fit):
    assert str(fit.certificate).splitlines()[0] in shown(fit.certificate)
    found = fit.identifiability()
    assert all(one.sentence.split(": ", 1)[1] in shown(found) for one in found.verdicts.values())


def test_a_profile_shows_its_picture(fit):
    assert "<svg" in fit.profile("theta1")._repr_html_()


def test_a_design_shows_what_to_do(fit):
    plans = [pf.plan([1.0, 2.0], ["y"], name=f"plan {k}") for k in range(2)]
    found = pf.design(fit, plans)
    assert f"Chosen: {found.chosen[0]}" in shown(found)


def test_what_the_user_typed_is_escaped():
    model = pf.Model("x' = -a*x", observables={EVIL: "x"})
    run = pf.Experiment([0, 1, 2], {EVIL: [1, 0.6, 0.4]}, EVIL)
    problem = pf.Problem(model, run, {"a": pf.Parameter(0.1, 2, unit=EVIL)})
    for one in (model, run, problem, pf.fit(problem)):
        assert "<script>" not in one._repr_html_()


def test_pictures_show_themselves_as_png(fit):
    assert fit.plot()._repr_png_().startswith(b"\x89PNG")


# ---- progress ----------------------------------------------------------------------------------------------


class Display:
    """Stands for IPython's `display`; keeps what the cell shows."""

    def __init__(self):
        self.shown = []

    def __call__(self, content, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(content)
        return SimpleNamespace(update=lambda content, raw: self.shown.append(content))


@pytest.fixture
def kernel(monkeypatch):
    """A notebook's kernel as far as the bar looks, with a clock that is set by hand."""
    now, display = [100.0], Display()
    running = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: running))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    return SimpleNamespace(clock=now, shown=display.shown, running=running)


def work(kernel, seconds):
    bar = Bar("starts", clock=lambda: kernel.clock[0])
    for done in range(1, 11):
        kernel.clock[0] += seconds
        bar.show(done, 10, "best loss <0.5>")
    bar.close()


def test_a_notebook_sees_a_bar_that_is_updated_in_place(kernel):
    work(kernel, 0.5)
    assert (
        '<progress value="0.2000" max="1"></progress> 2 of 10 starts, 2/s, 4 s left'
        in kernel.shown[0]["text/html"]
    )
    assert "best loss &lt;0.5&gt;" in kernel.shown[0]["text/html"]


def test_a_notebook_keeps_how_far_it_came(kernel):
    work(kernel, 0.5)
    assert kernel.shown[-1]["text/plain"] == "10 of 10 starts in 5 s, best loss <0.5>"


def test_quick_work_in_a_notebook_shows_nothing(kernel):
    work(kernel, 0.01)
    assert kernel.shown == []


def test_an_ipython_terminal_is_no_notebook(kernel):
    kernel.running.config.clear()
    work(kernel, 0.5)
    assert kernel.shown == []


def test_in_a_real_notebook(tmp_path):
    """A kernel runs a cell: bar, fit and picture arrive as rich outputs."""
    nbformat = pytest.importorskip("nbformat", reason="Jupyter is not installed")
    client = pytest.importorskip("nbclient", reason="Jupyter is not installed")
    pytest.importorskip("ipykernel", reason="Jupyter is not installed")
    cells = [
        "import picardfit as pf\n"
        "from picardfit.examples import fitzhugh_nagumo\n"
        "fit = pf.fit(fitzhugh_nagumo.generate(seed=1), starts=160)",
        "fit",
        "fit.plot()",
        "fit.explore()",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    client.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    first, second, third, fourth = ([out.get("data", {}) for out in cell["outputs"]] for cell in book.cells)
    assert "160 of 160 searches" in first[0]["text/html"]
    assert "Both parameters are determined" in second[0]["text/html"]
    assert "<svg" in second[0]["text/html"]
    assert "image/png" in third[0]
    assert "application/vnd.jupyter.widget-view+json" in fourth[0]


def test_every_painter_exists():
    painters = [one for own in PAINTERS.values() for one in own if one]
    for module, _, function in (one.partition(":") for one in painters):
        assert callable(getattr(importlib.import_module(f"picardfit.display.{module}"), function))
