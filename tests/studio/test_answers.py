"""What can be asked of a fit on the page, and how the page treats hands, eyes and ears."""

from __future__ import annotations

import shutil
import zipfile

import pytest

import picardfit as pf
from studio.browsing import STARTERS, browser, needed, opened, shot, step, studio, type_equations

UNNAMED = """
() => [...document.querySelectorAll("button, input, select, textarea, [role=img]")]
  .filter((one) => one.offsetParent !== null && !one.closest(".ag-root, .cm-editor, .q-uploader"))
  .filter((one) => !(one.getAttribute("aria-label") || one.innerText?.trim() || one.closest("label")))
  .map((one) => one.outerHTML.slice(0, 160))
"""
LOGISTIC = "hare' = birth*hare*(1 - hare/500) - hunt*hare*lynx\nlynx' = gain*hare*lynx - death*lynx"
WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def chromium():
    needed()
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A study with a fit."""
    needed()
    folder = shutil.copytree(STARTERS / "lotka-volterra", tmp_path_factory.mktemp("fitted") / "study")
    fit = pf.fit(pf.read_problem(folder), progress=False)
    (folder / "results").mkdir()
    fit.save(folder / "results" / "fit.json")
    return folder


@pytest.fixture
def running(fitted, tmp_path):
    folder = shutil.copytree(fitted, tmp_path / "study")
    with studio(folder, tmp_path / "log.txt") as made:
        yield made


def test_profiles_predictions_candidates_and_comparisons(chromium, running):
    page = opened(chromium, running.address)
    page.wait_for_selector("#headline")
    page.fill("[aria-label='Predict until']", "1930")
    page.keyboard.press("Tab")
    page.wait_for_selector("text=Only the data")
    page.click("button:has-text('birth')")
    page.wait_for_selector("text=/birth: 0.4\\d+ to 0.5\\d+/")
    page.fill("[aria-label='Times of the candidate']", "1900:1920:5")
    page.keyboard.press("Tab")
    page.click("text=Add a candidate")
    page.wait_for_selector("td:has-text('plan 1')")
    page.click("#rank")
    page.wait_for_selector("pre:has-text('plan 1')")
    shot(page, "6-answer")
    for equations in (None, LOGISTIC):
        if equations:
            step(page, "Equations")
            type_equations(page, equations)
            page.wait_for_selector("text=2 states, 4 parameters")
            page.wait_for_function(
                "document.querySelector('math')?.closest('section').innerText.includes('500')"
            )
        step(page, "Fit")
        page.click("#start-fit")
        page.wait_for_selector("#stop-fit")
        page.wait_for_selector("#to-answer", timeout=90_000)
    page.click("#to-answer")
    page.wait_for_selector("th:has-text('AICc')")
    page.click("button:text-is('0001')")
    page.wait_for_selector("button.on:text-is('0001')")
    assert page.complaints == []


def test_downloads(chromium, running, tmp_path):
    page = opened(
        chromium, f"{running.address.partition('?')[0]}step/keep?{running.address.partition('?')[2]}"
    )
    page.wait_for_selector("#download-picture")
    for ending, begin in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        page.select_option("[aria-label=Format]", ending)
        with page.expect_download() as download:
            page.click("#download-picture")
        assert download.value.path().read_bytes().startswith(begin)
    with page.expect_download() as download:
        page.click("#download-model")
    assert "import" in download.value.path().read_text(encoding="utf-8")
    with page.expect_download() as download:
        page.click("#download-zip")
    assert {"problem.toml", "lynx_hare.csv", "results/fit.json"} <= set(
        zipfile.ZipFile(download.value.path()).namelist()
    )
    assert "pf.Model(" in page.inner_text("#as-python")
    assert f"picardfit fit {running.folder}" in page.inner_text("#as-command")
    assert page.complaints == []


def test_a_point_is_left_out_by_a_click_and_comes_back(chromium, running):
    page = opened(chromium, running.address)
    step(page, "Data")
    page.wait_for_selector(".nicegui-echart canvas")
    page.wait_for_timeout(500)
    place = """() => { const chart = getElement(Number(document.querySelector(".nicegui-echart").id.slice(1))).chart;
      const at = chart.convertToPixel({ seriesIndex: 0 }, chart.getOption().series[0].data[4].value);
      const box = document.querySelector(".nicegui-echart").getBoundingClientRect();
      window.scrollBy(0, box.top - 200);
      const now = document.querySelector(".nicegui-echart").getBoundingClientRect();
      return [now.left + at[0], now.top + at[1]]; }"""
    table = running.folder / "lynx_hare.csv"
    before = table.read_text(encoding="utf-8")
    page.mouse.click(*page.evaluate(place))
    page.wait_for_selector("text=1 left out")
    assert "# left out,5,hare,36.3" in table.read_text(encoding="utf-8")
    page.click("#bring-back")
    page.wait_for_selector("#data-count:text-is('21 rows, 3 columns')")
    assert [line for line in table.read_text(encoding="utf-8").splitlines() if line[0] != "#"] == [
        line for line in before.splitlines() if line[0] != "#"
    ]
    page.click("#undo")
    page.wait_for_selector("text=1 left out")
    assert page.complaints == []


def test_a_slider_moves_its_curve_and_starts_the_fit(chromium, running):
    page = opened(chromium, running.address)
    step(page, "Play")
    page.wait_for_selector("input[type=range][data-label=birth]")
    page.wait_for_timeout(300)
    curve = """() => { const id = Number(document.querySelector(".nicegui-echart").id.slice(1));
      const series = getElement(id).chart.getOption().series.find((one) => one.id === "curve");
      return JSON.stringify(series.data); }"""
    before, loss = page.evaluate(curve), page.inner_text("#loss")
    page.focus("input[type=range][data-label=birth]")
    begin = int(page.input_value("input[type=range][data-label=birth]"))
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(60)  # the page is drawn again in between
    page.wait_for_function(f"({curve})() !== {before!r}")
    page.wait_for_function(f"document.getElementById('loss').innerText !== {loss!r}")
    assert int(page.input_value("input[type=range][data-label=birth]")) == begin + 5
    page.click("#start-here")
    page.wait_for_selector(".q-notification")
    assert "start = {birth" in (running.folder / "problem.toml").read_text(encoding="utf-8")
    assert page.complaints == []


def test_every_control_has_a_name_and_nothing_is_too_wide(chromium, running):
    page = opened(chromium, running.address)
    for width in (1280, 800):
        page.set_viewport_size({"width": width, "height": 800})
        for k in range(1, 8):
            page.keyboard.press(f"Alt+{k}")
            page.wait_for_selector(f"#go-{k}[aria-current=step]")
            page.wait_for_selector("#main .working", state="detached")
            page.wait_for_timeout(150)
            assert page.evaluate(UNNAMED) == [], k
            assert page.evaluate(WIDE) <= 0, (width, k)
    assert page.complaints == []
