"""Take the pictures of the studio for docs/studio.md and the README: `python docs/make_studio_pictures.py`.

Needs the extras studio and studio-test, and Chromium.
"""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "studio"))

from browsing import STARTERS, browser, opened, step, studio, type_equations  # noqa: E402

EQUATIONS = "hare' = birth*hare - hunt*hare*lynx\nlynx' = gain*hare*lynx - death*lynx"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, browser() as made:
        root = Path(folder)
        with studio(root / "Lynx and hare", root / "log.txt") as running:
            page = opened(made, running.address)
            page.set_default_timeout(120_000)
            page.set_input_files("input[type=file]", STARTERS / "lotka-volterra" / "lynx_hare.csv")
            page.wait_for_selector("text=21 rows, 3 columns")
            page.wait_for_selector(".q-notification", state="detached")
            take(page, "data")
            step(page, "Equations")
            type_equations(page, EQUATIONS.replace("death*lynx", "death*(lynx"))
            page.wait_for_selector(".line-fault")
            take(page, "equations")
            type_equations(page, EQUATIONS)
            page.wait_for_selector(".line-fault", state="detached")
            step(page, "Play")
            page.wait_for_selector("input[type=range]")
            take(page, "play")
            step(page, "Fit")
            page.click("#start-fit")
            page.wait_for_selector("#to-answer")
            page.click("#to-answer")
            page.wait_for_selector("#headline")
            page.click("#look")
            page.wait_for_selector("#headline")
            take(page, "answer")


def take(page, name: str) -> None:
    """A picture of the window, when everything is drawn."""
    page.wait_for_timeout(1500)
    page.mouse.move(640, 790)
    page.screenshot(path=str(HERE / "studio" / f"{name}.png"))


if __name__ == "__main__":
    main()
