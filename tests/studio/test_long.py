"""Long tests of the studio: a table of 100,000 rows, and ten minutes of random clicking and typing."""

from __future__ import annotations

import os
import random
import time
import tomllib
from contextlib import suppress

import numpy as np
import pytest

import picardfit as pf
from picardfit.errors import InputError
from studio.browsing import STARTERS, browser, needed, opened, step, studio, type_equations

ROWS = 100_000
MINUTES = float(os.environ.get("PICARDFIT_MONKEY_MINUTES", "10"))
SEED = int(os.environ.get("PICARDFIT_MONKEY_SEED", "1"))
WORDS = ("x", "a*x - b", "1e", "-3", "0", "hare' = )", "'", '"', "<b>", "é", "log(", "1/0", "first", "9" * 30)


@pytest.fixture(scope="module")
def chromium():
    needed()
    with browser() as made:
        yield made


@pytest.mark.slow
def test_a_table_of_many_rows_is_shown_played_with_and_fitted(chromium, tmp_path):
    """The picture is thinned to extremes, the grid turns pages, and the fit uses every row."""
    rng, times = np.random.default_rng(0), np.arange(ROWS) * (20 / ROWS)
    values = np.exp(-0.3 * times) + 0.05 * rng.normal(size=ROWS)
    table = tmp_path / "long.csv"
    np.savetxt(table, np.stack([times, values], axis=1), "%.6g", ",", header="time,x", comments="")
    with studio(tmp_path / "study", tmp_path / "log.txt") as running:
        page = opened(chromium, running.address)
        page.set_input_files("input[type=file]", table)
        page.wait_for_selector(f"text={ROWS:,} rows, 2 columns")
        page.wait_for_selector("text=the highest and lowest of each stretch are drawn")
        page.click("[aria-label='Later rows']")
        page.wait_for_selector("text=rows 201 to 400")
        step(page, "Equations")
        type_equations(page, "x' = -k*x")
        page.wait_for_selector("text=1 state, 1 parameter")
        step(page, "Play")
        page.wait_for_selector("input[type=range]")
        step(page, "Fit")
        page.click("#start-fit")
        page.wait_for_selector("#to-answer", timeout=300_000)
        page.click("#to-answer")
        page.wait_for_selector("#headline")
        page.wait_for_selector(".nicegui-echart canvas")
        fit = pf.load(running.folder / "results" / "fit.json")
        assert fit.problem.measurements == ROWS
        assert fit.parameters["k"] == pytest.approx(0.3, rel=0.01)
        assert page.complaints == []


@pytest.mark.slow
def test_random_clicking_and_typing_breaks_nothing(chromium, tmp_path):
    """A seeded monkey: no error in the browser, no traceback in the log, and a folder that still reads as a study."""
    chance = random.Random(SEED)
    with studio(tmp_path / "study", tmp_path / "log.txt") as running:
        page = opened(chromium, running.address)
        page.set_default_timeout(3000)
        page.on("dialog", lambda one: one.dismiss())
        page.set_input_files("input[type=file]", STARTERS / "lotka-volterra" / "lynx_hare.csv")
        until = time.monotonic() + 60 * MINUTES
        while time.monotonic() < until:
            one_action(page, chance)
        assert page.complaints == []
        assert running.process.poll() is None
        page.close()
    assert tomllib.loads((running.folder / "problem.toml").read_text(encoding="utf-8"))
    with suppress(InputError):  # random equations are seldom right; but they are told, they do not crash
        pf.read_problem(running.folder)


def one_action(page, chance: random.Random) -> None:
    """Click, choose, type or go elsewhere, at random."""
    from playwright.sync_api import Error

    what = chance.choice(
        ["step", "button", "button", "field", "field", "choice", "slider", "equations", "tick", "undo"]
    )
    with suppress(Error):  # the thing was gone, covered or disabled: a person would click elsewhere
        if what == "step":
            page.click(f"#go-{chance.randint(1, 7)}", timeout=1500)
        elif what == "equations" and page.query_selector(".cm-content"):
            page.click(".cm-content", timeout=1500)
            page.keyboard.insert_text(chance.choice(WORDS))
            if chance.random() < 0.3:
                page.keyboard.press("Control+z")
        elif what == "undo":
            page.click(chance.choice(["#undo", "#redo", "#look"]), timeout=1000)
        elif what != "equations":
            act(page, what, chance)
        page.wait_for_timeout(chance.randint(5, 120))


def act(page, what: str, chance: random.Random) -> None:
    selectors = {
        "button": "main button, .q-dialog button:not(#really-stop)",
        "field": "main input.in",
        "choice": "main select",
        "slider": "main input[type=range]",
        "tick": "main input[type=checkbox]",
    }
    found = [one for one in page.query_selector_all(selectors[what]) if one.is_visible()]
    if not found:
        return
    one = chance.choice(found)
    if what == "choice":
        options = one.query_selector_all("option")
        one.select_option(index=chance.randrange(len(options)), timeout=1000)
    elif what == "field":
        one.fill(chance.choice(WORDS), timeout=1000)
        page.keyboard.press("Tab")
    elif what == "slider":
        one.fill(str(chance.randint(0, 1000)), timeout=1000)
    else:
        one.click(timeout=1000)
