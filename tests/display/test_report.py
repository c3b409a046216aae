"""The HTML report: complete, self-contained, and safe to open."""

import re
import shutil
import subprocess
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser
from textwrap import dedent

import numpy as np
import pytest

import picardfit as pf
from picardfit.display.markup import estimate_tables, folding_table, noise_words
from picardfit.display.report import combination_table
from picardfit.display.text import estimate_rows, true_values
from picardfit.display.verdicts import determined_words, summary
from picardfit.examples import fitzhugh_nagumo, tumor
from picardfit.inference.combinations import Combination
from picardfit.inference.identifiability import Determination, Identifiability, Verdict

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


@pytest.mark.parametrize("count, tag", [(6, "svg"), (1, "h1"), (8, "h2")])
def test_parts_are_there(outline, count, tag):
    assert outline.tags.count(tag) == count


def test_every_estimate_and_interval_is_shown(fit, outline):
    assert {cell for row in estimate_rows(fit) for cell in row if cell} <= set(outline.texts)


def test_true_values_of_simulated_data_are_shown(outline):
    assert "0.064" in outline.texts


def test_true_values_have_the_names_of_the_rows(fit):
    assert true_values(fit.problem) == {"theta1": 0.08, "theta2": 0.064, "x1(0)": 0.0, "x2(0)": 2.0}


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
    kind, _, sentences = summary(fit)
    assert kind == "mind"
    assert any(one.startswith("At a bound: theta5, rho and v0") for one in sentences)


def test_what_the_data_do_not_determine_is_named():
    run = pf.Experiment([0, 1, 2, 3], {"x": [1, 0.62, 0.35, 0.22]}, initial={"x": 1.0})
    fit = pf.fit(pf.Problem(pf.Model("x' = -a*b*x"), run, {"a": (0.1, 10), "b": (0.1, 10)}))
    kind, headline, sentences = summary(fit)
    assert kind == "mind"
    assert headline == "None of the two parameters is determined by these data: a and b."
    assert any(one.startswith("Determined only together: a*b") for one in sentences)


def test_a_failed_fit_is_reported_without_a_table(fit, tmp_path):
    failed = replace(fit, solution=None, certificate=None, status=pf.Status.NOT_FINITE)
    page = failed.report(tmp_path / "report.html").read_text()
    assert "The fit did not succeed." in page
    assert "no solution was found" in page


def test_tests_of_the_residuals_are_shown(fit, outline):
    (found,) = fit.diagnostics.autocorrelation.values()
    shown = outline.texts
    name = next(iter(fit.diagnostics.autocorrelation))
    place = shown.index(f"autocorrelation, {name}")
    cells = [text for text in shown[place : place + 10] if text.strip()][:4]
    assert cells[1:] == [f"{found.statistic:.4g}", str(found.freedom), f"{found.probability:.2g}"]


@pytest.mark.parametrize("name", ["report.pdf", "report"])
def test_a_report_is_a_page(fit, tmp_path, name):
    with pytest.raises(pf.InputError) as error:
        fit.report(tmp_path / name)
    assert (error.value.code, error.value.subject) == ("display.report_format", str(tmp_path / name))


def test_a_missing_folder_is_named(fit, tmp_path):
    with pytest.raises(pf.InputError) as error:
        fit.report(tmp_path / "nowhere" / "report.html")
    assert (error.value.code, error.value.subject) == ("files.no_folder", str(tmp_path / "nowhere"))


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


def judged(**errors):
    """Verdicts on parameters with these relative errors."""

    def kind(error):
        if error <= 0.2:
            return Determination.DETERMINED
        return Determination.WEAK if error <= 1 else Determination.NONE

    found = {name: Verdict(name, kind(e), e, value=1.0) for name, e in errors.items()}
    return Identifiability(found, (), ())


@pytest.mark.parametrize(
    "errors, words",
    [
        (
            {"a": 0.1, "b": 0.05, "c": 0.02},
            "All three parameters are determined to ± 10 % or better (least certain: a).",
        ),
        ({"a": 0.1, "b": 0.05}, "Both parameters are determined to ± 10 % or better (least certain: a)."),
        ({"a": 0.1, "b": 0.38, "c": 0.02}, "All three parameters are determined; b only to ± 38 %."),
        (
            {"a": 0.4, "b": 0.5, "c": 3.0},
            "Two of three parameters are determined; a only to ± 40 % and b only to ± 50 %; "
            "the data do not determine c.",
        ),
        ({"a": 0.1}, "The parameter a is determined to ± 10 %."),
        ({"a": 0.4}, "The parameter a is determined; a only to ± 40 %."),
        ({"a": 7.0}, "The parameter a is not determined."),
    ],
)
def test_verdicts_in_words(fit, errors, words):
    named = replace(fit)
    named.__dict__["parameters"] = dict.fromkeys(errors, 1.0)
    assert determined_words(named, judged(**errors)) == words


def test_the_program_in_the_report_makes_the_same_fit(tmp_path):
    model = pf.Model(
        "k = a*(1 + 0.1*u)\nx' = -k*x + d",
        observables={"y": "2*x"},
        inputs=["u", "d"],
        units={"t": "h", "y": "mg"},
    )
    drop = {"u": "sin(t)", "d": pf.Table([0, 1], [0.0, 0.1])}
    values = [2, np.nan, 0.8, 0.5, 0.3, 0.3]
    runs = [pf.Experiment([0, 1, 2, 3, 4, 5], {"y": values}, "first", inputs=drop, initial={"x": "x0"})]
    runs.append(
        pf.Experiment([0, 1, 2], {"y": [1.9, 1.3, 0.9]}, inputs={"u": 0, "d": 0.1}, initial={"x": "x0"})
    )
    beliefs = {
        "a": pf.Parameter(0.01, 10, log=True, prior=pf.priors.Normal(0.5, 1.0)),
        "x0": (0, 10),
        "s": (0.01, 1),
    }
    problem = pf.Problem(model, runs, beliefs, noise=pf.Noise(additive="s"))
    careful = replace(pf.LiftedGaussNewton.damping, start=0.02)
    fit = pf.fit(problem, pf.LiftedGaussNewton(nodes=4, damping=careful), seed=3)
    page = fit.report(tmp_path / "report.html").read_text()
    program = unescape(re.search(r"<pre>(from dataclasses.*?)</pre>", page, re.DOTALL)[1])
    space = {"print": lambda *_: None}
    exec(program, space)
    assert space["fit"].parameters == fit.parameters
    assert space["model"].units == model.units


def test_several_starts_get_a_section_with_their_optima(tmp_path):
    times = np.linspace(0, 4, 9)
    run = pf.Experiment(times, {"y": np.exp(-times) ** 2})
    model = pf.Model("x' = -a**2*x", observables={"y": "x**2"})
    fit = pf.fit(pf.Problem(model, run, {"a": (-3, 3)}, {"x": (0, 2)}), starts=4)
    page = fit.report(tmp_path / "report.html").read_text()
    assert f"{fit.hits} of 4 searches" in page
    assert "best optimum (" in page


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """The report of a fit with a hundred experiments."""
    times = np.linspace(0, 3, 8)
    rng = np.random.default_rng(0)
    runs = [
        pf.Experiment(times, {"x": np.exp(-times) + 0.02 * rng.standard_normal(8)}, f"run {k}")
        for k in range(100)
    ]
    model = pf.Model("x' = -a*x\nz' = x - z", observables={"x": "x"})
    problem = pf.Problem(model, runs, {"a": (0.1, 5)}, {"x": 1.0, "z": 0.0})
    return pf.fit(problem).report(tmp_path_factory.mktemp("crowd") / "report.html")


def test_a_hundred_experiments_make_a_small_report_that_says_what_is_left_out(crowd):
    page = crowd.read_text()
    assert len(page) < 3e6
    assert (
        "Drawn are 12 of 100 experiments: the 6 that fit worst, the worst first, then 6 typical ones" in page
    )
    assert Outline(page).nested


def test_many_initial_states_are_folded():
    runs = [pf.Experiment([0, 1, 2], {"x": [1, 0.6, 0.4 + 0.01 * k]}, f"run {k}") for k in range(13)]
    fit = pf.fit(pf.Problem(pf.Model("x' = -a*x"), runs, {"a": (0.1, 2)}))
    tables = estimate_tables(fit)
    assert "<summary>13 initial states</summary>" in tables
    assert tables.index(">a</td>") < tables.index("<details>") < tables.index("x(0)[run 0]")
    assert "<details>" not in folding_table(("", ""), [(f"x(0)[run {k}]", "1") for k in range(12)], fit)


def test_parameters_and_derived_quantities_of_many_experiments_are_folded_by_name():
    runs = [
        pf.Experiment([0, 1, 2, 3], {"x": np.exp(-0.05 * k * np.arange(4))}, f"run {k}") for k in range(3, 10)
    ]
    bounds, derived = {"a": pf.Parameter(0.01, 2, local=True)}, {"half": pf.Derived("log(2)/a", unit="d")}
    fit = pf.fit(
        pf.Problem(pf.Model("x' = -a*x"), runs, bounds, {"x": 1.0}, noise=pf.Noise(0.1), derived=derived)
    )
    tables = str(estimate_tables(fit))
    assert "<summary>a in 7 experiments: 0.15 to 0.45</summary>" in tables
    assert "<summary>half = log(2)/a in 7 experiments: 1.54 to 4.621 d</summary>" in tables
    assert tables.count("= log(2)/a") == 1


def test_a_combination_of_many_unknowns_is_cut():
    many = Combination({f"x{k}": 1.0 + k for k in range(30)}, power=False, error=0.5)
    assert "and 24 more" in combination_table([many])


def test_residuals_are_explained_as_they_are_drawn(tmp_path):
    data, bounds = pf.Experiment([0, 1, 2, 3], {"x": [9, 5, 3, "<3"]}), {"k": (0.1, 2)}
    noise = pf.LogNormal(0.2)
    page = pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, bounds, noise=noise)).report(tmp_path / "a.html")
    text = page.read_text()
    assert "standardised by the noise model" in text
    assert "censored values are drawn at random" in text
    assert "Triangles: censored values" in text


# ---- in a browser ------------------------------------------------------------------------------------------

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the report with")
PROBE = """<script>
const size = e => { const b = e.getBoundingClientRect(); return b.width > 100 && b.height > 100; };
const figures = [...document.querySelectorAll("figure svg, figure img")];
const formulas = [...document.querySelectorAll("math")].every(e => e.getBoundingClientRect().height > 5);
top.document.title = [window.innerWidth, figures.length, figures.filter(size).length, formulas,
  document.documentElement.scrollWidth <= document.documentElement.clientWidth].join(" ");
</script></body>"""


def framed(page, width):
    """A page that shows a report in a frame of this width: windows are not narrower than 500 pixels."""
    content = escape(page.replace("</body>", PROBE), quote=True)
    frame = f'<iframe srcdoc="{content}" style="width:{width}px;height:800px"></iframe>'
    return f"<!DOCTYPE html><title></title>{frame}"


def browse(folder, *arguments):
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    )
    more = ["--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}"]
    command = [CHROMIUM, *flags.split(), *more, "--enable-logging=stderr", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)


@needs_browser
@pytest.mark.parametrize("width", [400, 1200])
def test_a_browser_shows_every_figure_and_formula_without_complaint(page, tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(framed(page, width))
    seen = browse(tmp_path, "--window-size=1400,900", "--dump-dom", path.as_uri())
    figures = page.count("<figure")
    assert re.search("<title>(.*?)</title>", seen.stdout)[1] == f"{width} {figures} {figures} true true"
    assert "CONSOLE" not in seen.stderr


@needs_browser
def test_the_report_prints_on_a4(page, tmp_path):
    path, paper = tmp_path / "report.html", tmp_path / "report.pdf"
    path.write_text(page)
    browse(tmp_path, f"--print-to-pdf={paper}", path.as_uri())
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", paper.read_bytes())
    assert 3 <= len(boxes) <= 12
    assert {(round(float(w)), round(float(h))) for w, h in boxes} == {(595, 842)}


@pytest.mark.parametrize("runs, printed", [(3, True), (45, False)])
def test_paper_names_long_tables_instead_of_printing_them(tmp_path, runs, printed):
    """The experiments, their values, initial states and verdicts, and the program."""
    times = np.linspace(0, 3, 5)
    every = [
        pf.Experiment(times, {"x": (1 + k / 50) * np.exp(-times) + 0.01 * np.cos(9 * times + k)}, f"run {k}")
        for k in range(runs)
    ]
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), every, {"k": (0.1, 5)}, {"x": (0.1, 9)}))
    page = fit.report(tmp_path / "report.html").read_text()
    named = re.findall(r'<p class="quiet paper">(.*?): on the screen only', page)
    long = [
        "The 45 experiments",
        "The measured values",
        "45 initial states",
        "45 initial states",
        "The program",
    ]
    assert named == ([] if printed else long)
    assert page.count('<details class="screen">') == len(named)


def test_the_title_is_escaped(fit, tmp_path):
    page = fit.report(tmp_path / "report.html", "Ponds <b>& lakes").read_text()
    assert "<h1>Ponds &lt;b&gt;&amp; lakes</h1>" in page
    assert "<title>Ponds &lt;b&gt;&amp; lakes</title>" in page


@pytest.mark.parametrize(
    "noise, said",
    [
        (pf.Noise(additive=0.1), "normal, additive 0.1"),
        (
            pf.Noise(0.1, (0.01, 1), common=True),
            "normal, additive 0.1, proportional estimated between 0.01 and 1, one common factor at each time",
        ),
        (pf.Noise(additive={"x": 1, "y": "s*x"}), "normal, additive (x: 1, y: s*x)"),
        ({"x": pf.LogNormal(pf.Parameter(0.1, 2)), "y": pf.StudentT(1.0)},
         "x: log-normal, sigma estimated between 0.1 and 2; y: Student's t, additive 1"),
    ],
)  # fmt: skip
def test_noise_in_words(noise, said):
    assert noise_words(noise) == said


def test_priors_of_initial_states_are_told(tmp_path):
    prior = pf.priors.LogNormal(0.0, 1.0)
    runs = [pf.Experiment([0, 1, 2], {"x": [1, q, q * q]}, name) for name, q in (("a", 0.6), ("b", 0.4))]
    parameters = {"k": pf.Parameter(0.1, 2, prior=pf.priors.Normal(0.5, 0.25))}
    initial = {"x": pf.Parameter(0, prior=prior)}
    noise = pf.Noise(additive=pf.Parameter(0, prior=pf.priors.HalfNormal(0.5)))
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), runs, parameters, initial, noise=noise))
    text = " ".join(" ".join(Outline(fit.report(tmp_path / "report.html").read_text()).texts).split())
    assert "x(0) 0 no bound LogNormal(mean=0, sd=1)" in text  # one row for both experiments
    assert "k 0.1 2 Normal(mean=0.5, sd=0.25)" in text
    assert "estimated above 0" in text


def test_initial_states_that_differ_between_experiments_have_rows_of_their_own(tmp_path):
    runs = [
        pf.Experiment([0, 1, 2], {"x": [1, q, q * q]}, name, initial={"x": (0, high)})
        for name, q, high in (("a", 0.6, 2), ("b", 0.4, 3))
    ]
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), runs, {"k": (0.1, 2)}))
    text = " ".join(" ".join(Outline(fit.report(tmp_path / "report.html").read_text()).texts).split())
    assert "x(0)[a] 0 2 x(0)[b] 0 3" in text
