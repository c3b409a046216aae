"""The page without a mouse, in a real browser."""

from __future__ import annotations

import shutil

import pytest

from studio.browsing import STARTERS, browser, needed, opened, step, studio, type_equations

CELL = "document.activeElement.closest('.ag-cell') !== null"
EDITOR = "document.activeElement.closest('.cm-content') !== null"


@pytest.fixture(scope="module")
def chromium():
    needed()
    with browser() as made:
        yield made


def test_a_field_keeps_what_was_typed_whatever_is_drawn_again(chromium, tmp_path):
    folder = shutil.copytree(STARTERS / "lotka-volterra", tmp_path / "study")
    with studio(folder, tmp_path / "log.txt") as running:
        page = opened(chromium, running.address)
        page.keyboard.press("Alt+3")
        field = "[aria-label='Upper bound of birth']"
        page.wait_for_selector(field)
        for typed, seen in (("7.5", "input[type=range]"), ("abc", ".say.bad:has-text('abc')")):
            page.fill(field, typed)
            page.keyboard.press("Tab")
            page.wait_for_selector("#undo[title*='upper of birth']")
            page.wait_for_selector(seen)
            page.wait_for_selector("#main .working", state="detached")
            page.wait_for_timeout(300)
            assert page.input_value(field) == typed
        page.click("#undo")
        page.wait_for_selector(".say.bad", state="detached")
        assert page.input_value(field) != "abc"
        assert page.complaints == []


def tab_until(page, condition, most=40):
    """Press Tab until something has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(condition):
            return
    raise AssertionError(f"{condition} is never reached")


def test_every_step_and_field_is_reached_with_the_keyboard(chromium, tmp_path):
    folder = shutil.copytree(STARTERS / "lotka-volterra", tmp_path / "study")
    with studio(folder, tmp_path / "log.txt") as running:
        page = opened(chromium, running.address)
        page.keyboard.press("Alt+1")
        page.wait_for_selector(".ag-cell")
        tab_until(page, "document.activeElement.closest('.ag-header-cell') !== null")
        for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        assert page.evaluate(CELL)
        page.keyboard.press("Enter")
        page.keyboard.press("Control+a")
        page.keyboard.type("31")
        page.keyboard.press("Enter")
        page.wait_for_selector("#undo[title*='row 1 of hare']")
        page.keyboard.press("Tab")
        assert not page.evaluate(CELL)  # one Tab leaves the grid
        page.keyboard.press("Alt+2")
        page.wait_for_selector(".cm-content")
        before = page.inner_text(".cm-content")
        tab_until(page, EDITOR)
        page.keyboard.press("Tab")
        assert not page.evaluate(EDITOR)
        assert page.inner_text(".cm-content") == before
        page.keyboard.press("Alt+5")
        page.wait_for_selector("#start-fit")
        tab_until(page, "document.activeElement.id === 'start-fit'")
        page.keyboard.press("Enter")
        page.wait_for_selector("#to-answer", timeout=90_000)
        tab_until(page, "document.activeElement.id === 'to-answer'")
        page.keyboard.press("Enter")
        page.wait_for_selector("#headline")
        assert page.complaints == []


TOPS = """() => ['.cm-lineNumbers .cm-gutterElement', '.cm-line'].map((kind) => [...document.querySelectorAll(kind)]
  .filter((one) => one.innerText && one.style.visibility !== 'hidden')
  .map((one) => Math.round(one.getBoundingClientRect().top)))"""


def test_a_wrong_formula_keeps_the_focus_and_messages_keep_the_lines(chromium, tmp_path):
    folder = shutil.copytree(STARTERS / "lotka-volterra", tmp_path / "study")
    with studio(folder, tmp_path / "log.txt") as running:
        page = opened(chromium, running.address)
        step(page, "Data")
        page.wait_for_selector("#data-count")
        (tmp_path / "notes.docx").write_bytes(b"PK")
        page.set_input_files("input[type=file] >> nth=0", tmp_path / "notes.docx")
        page.wait_for_selector(".q-notification:has-text('neither a table')")
        step(page, "Equations")
        page.fill("[aria-label='Formula of hare']", "scale*(")
        page.keyboard.press("Tab")
        page.wait_for_selector("[aria-label='Formula of hare'][aria-invalid=true]")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Formula of lynx"
        page.fill("[aria-label='Formula of hare']", "hare")
        page.keyboard.press("Tab")
        page.wait_for_selector("[aria-invalid=true]", state="detached")
        type_equations(page, "hare' = birth*rate\nlynx' = 2\nrate = hare")
        page.wait_for_selector(".line-fault")
        page.wait_for_timeout(300)
        numbers, lines = page.evaluate(TOPS)
        assert numbers == lines
        assert page.complaints == []
