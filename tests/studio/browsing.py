"""A studio in a process of its own and a real browser in front of it, for tests that act as a person would."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

STARTERS = Path(__file__).parents[2] / "src" / "picardfit" / "examples" / "starters"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def needed():
    """Skip, with the reason, where there is no browser to drive."""
    pytest.importorskip("nicegui", reason="the studio needs NiceGUI: pip install 'picardfit[studio]'")
    pytest.importorskip("playwright", reason="needs Playwright: pip install 'picardfit[studio-test]'")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt install chromium (or the like); see make test-studio")


class Running:
    """A studio that runs; `log` is what it has written."""

    def __init__(self, folder: Path, log: Path, *options: str) -> None:
        self.folder, self.path = folder, log
        self.begun = time.monotonic()
        with log.open("wb") as out:
            command = [sys.executable, "-m", "picardfit", "studio", str(folder), "--no-browser", *options]
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=log.parent)
        self.address = self._address()

    @property
    def log(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def _address(self) -> str:
        for _ in range(600):
            found = re.search(r"http://\S+", self.log)
            if found and "Ctrl-C" in self.log:
                return found.group(0)
            assert self.process.poll() is None, self.log
            time.sleep(0.05)
        raise AssertionError(self.log)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        finally:
            if self.process.poll() is None:
                self.process.kill()


@contextmanager
def studio(folder: Path, log: Path, *options: str):
    """A studio of a folder; no traceback may be in its log in the end."""
    running = Running(folder, log, *options)
    try:
        yield running
    finally:
        running.end()
    assert "Traceback" not in running.log, running.log


@contextmanager
def browser():
    """A headless Chromium of this machine."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield made
        made.close()


def opened(made, address: str, width: int = 1280, height: int = 800):
    """A page of a studio in a browser, or in a new tab; errors in the browser are kept in `page.complaints`."""
    page = (made.new_context() if hasattr(made, "new_context") else made).new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.set_default_timeout(40_000)
    page.complaints = []

    page.on("pageerror", lambda error: page.complaints.append(f"{error} {error.stack}"))
    page.on("console", lambda one: page.complaints.append(one.text) if one.type == "error" else None)
    page.goto(address)
    page.wait_for_selector("#step-title")
    return page


def step(page, name: str) -> None:
    """Go to a step."""
    page.click(f"nav .step:has-text('{name}')")
    page.wait_for_selector(f"#step-title:has-text('{name}')")


def type_equations(page, text: str) -> None:
    """Replace the equations, key by key."""
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    for k, line in enumerate(text.split("\n")):
        if k:
            page.keyboard.press("Enter")
        page.keyboard.insert_text(line)


def shot(page, name: str) -> None:
    """A picture of the page, where PICARDFIT_SHOTS names a folder for them."""
    folder = os.environ.get("PICARDFIT_SHOTS")
    if folder:
        page.wait_for_timeout(400)
        page.screenshot(path=str(Path(folder) / f"{name}.png"))
