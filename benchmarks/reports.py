"""How large reports are, how long they take to write, and how long a browser takes to show them.

    python benchmarks/reports.py                 # needs Chromium for the last three columns

Fits of 1, 12 and 100 experiments with 10 samples in each and with 100,000 in all. `open` is the time of a whole process
of a headless browser that starts, reads the report, lays it out, paints it and ends, the least of `--repeat` runs;
`blank` is that of an empty page, nearly all of it the start, so that the difference is what a report takes in a browser
that runs already. At 400 pixels the report stands in a frame of that width, because a browser's window is not narrower
than 500.
"""

from __future__ import annotations

import argparse
import html
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import picardfit as pf

CASES = [(experiments, samples) for experiments in (1, 12, 100) for samples in (10 * experiments, 100_000)]
LARGEST, SLOWEST = 5e6, 2.0  # bytes and seconds that a report must stay below
PROBE = """<script>
const root = document.documentElement;
top.document.title = window.innerWidth + (root.scrollWidth > root.clientWidth ? " overflows" : " fits");
</script></body>"""
FLAGS = """--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking
--disable-component-update --disable-sync --hide-scrollbars"""


def problem(experiments: int, samples: int, seed: int = 0) -> pf.Problem:
    """A driven, damped oscillator of which the position is measured, with so many samples in all."""
    rng = np.random.default_rng(seed)
    model = pf.Model(
        "x' = v\nv' = u - k*x - c*v", observables={"x": "x"}, inputs=["u"], units={"t": "s", "x": "mm"}
    )
    each, runs = samples // experiments, []
    for run in range(experiments):
        times = np.linspace(0, 20, each)
        drive = {"u": pf.Table([0, 5, 12], [0.0, 1.0 + 0.01 * run, 0.2])}
        start = {"x": 1.0, "v": 0.0}
        exact = pf.simulate(model, {"k": 2.0, "c": 0.3}, start, times, inputs=drive).observables["x"]
        data = {"x": exact + 0.1 * rng.standard_normal(each)}
        runs.append(pf.Experiment(times, data, f"run {run + 1}", inputs=drive))
    bounds = {"x": (-3, 3), "v": (-3, 3)}
    return pf.Problem(
        model, runs, {"k": (0.1, 10), "c": (0.01, 3)}, bounds, noise=pf.Noise(additive=(0.01, 1))
    )


def browse(browser: str, page: Path, *arguments: str) -> tuple[float, str]:
    """Seconds of a browser process that shows a page, and what it wrote."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            *FLAGS.split(),
            f"--user-data-dir={profile}",
            "--window-size=1200,900",
            *arguments,
        ]
        begin = time.perf_counter()
        shown = subprocess.run(
            [*command, page.as_uri()], capture_output=True, text=True, timeout=300, check=True
        ).stdout
        return time.perf_counter() - begin, shown


def framed(page: Path, width: int, probe: str) -> Path:
    """A page that shows a report in a frame of this width."""
    text = html.escape(page.read_text(encoding="utf-8").replace("</body>", probe), quote=True)
    frame = f'<iframe srcdoc="{text}" style="width:{width}px;height:880px;border:0"></iframe>'
    path = page.with_suffix(f".{width}.html")
    path.write_text(f"<!DOCTYPE html><title>-</title><body style='margin:0'>{frame}</body>", encoding="utf-8")
    return path


def opened(browser: str, page: Path, width: int, repeat: int) -> tuple[float, bool]:
    """Least seconds to show a report at this width, and whether nothing in it is wider."""
    plain, probed = framed(page, width, "</body>"), page.with_name("probed.html")
    picture = f"--screenshot={page.with_suffix('.png')}"
    seconds = min(browse(browser, plain, picture)[0] for _ in range(repeat))
    framed(page, width, PROBE).replace(probed)
    _, shown = browse(browser, probed, "--dump-dom")
    plain.unlink(missing_ok=True)
    return seconds, f"<title>{width} fits</title>" in shown


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3, help="times that each report is opened")
    parser.add_argument("--out", type=Path, help="folder that keeps the reports")
    given = parser.parse_args()
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    folder = given.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print(
        "| experiments | samples | fit, s | write, s | size, MB | open at 1,200 px, s | open at 400 px, s | blank, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    fine, blank = True, folder / "blank.html"
    blank.write_text("<!DOCTYPE html><title>-</title>", encoding="utf-8")
    for experiments, samples in CASES:
        made = problem(experiments, samples)
        begin = time.perf_counter()
        fit = pf.fit(made)
        fitted = time.perf_counter()
        page = fit.report(folder / f"report-{experiments}-{samples}.html")
        wrote = time.perf_counter()
        size, times = page.stat().st_size, []
        if browser:
            picture = f"--screenshot={blank.with_suffix('.png')}"
            start = min(browse(browser, blank, picture)[0] for _ in range(given.repeat))
            for width in (1200, 400):
                seconds, fits = opened(browser, page, width, given.repeat)
                times.append(f"{seconds:.2f}{'' if fits else ', too wide'}")
                fine &= seconds - start < SLOWEST and fits
            times.append(f"{start:.2f}")
        fine &= size < LARGEST
        cells = (experiments, f"{made.measurements:,}", f"{fitted - begin:.1f}", f"{wrote - fitted:.1f}")
        print("|", " | ".join(map(str, (*cells, f"{size / 1e6:.2f}", *times))), "|", flush=True)
    all_or_not = "All" if fine else "NOT ALL"
    print(
        f"\n{all_or_not} open within {SLOWEST:g} s, are below {LARGEST / 1e6:g} MB and no wider than the window."
    )


if __name__ == "__main__":
    main()
