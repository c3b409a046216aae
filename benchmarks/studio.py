"""How quick the studio is, measured in a real browser: first page, sliders, a long table; and whose digits it gives.

    python benchmarks/studio.py            needs the extras studio and studio-test, and Chromium
    python benchmarks/studio.py first table --rows 100000
    python benchmarks/studio.py sliders digits --moves 100

First page: from the command to a page that shows its first step. Slider: from the event of the browser to the next
frame after the new curve is drawn. Actions on a long table: from the click to the page that shows its effect.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "studio"))

from browsing import STARTERS, browser, opened, step, studio, type_equations

import picardfit as pf

PARTS = ("first", "sliders", "table", "digits")
SLIDERS = ("lotka-volterra", "influenza", "fitzhugh-nagumo", "van-der-pol", "pharmacokinetics")
MOVE = """
async ([label, moves]) => {
  const slider = [...document.querySelectorAll("input[type=range]")].find((one) => one.dataset.label === label);
  const ids = [...document.querySelectorAll(".nicegui-echart")].map((one) => Number(one.id.slice(1)));
  const chart = getElement(ids[0]).chart;
  const drawn = chart.setOption;
  const found = [];
  for (let k = 0; k < moves; k++) {
    const begin = performance.now();
    const done = new Promise((resolve) => {
      chart.setOption = function (...given) {
        drawn.apply(this, given);
        requestAnimationFrame(() => resolve(performance.now() - begin));
      };
    });
    slider.value = 300 + ((k * 37) % 400);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    found.push(await done);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  chart.setOption = drawn;
  return found;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=PARTS, help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--moves", type=int, default=100, help="of each slider")
    given = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder, browser() as made:
        root = Path(folder)
        if "first" in given.what:
            first_pages(made, root)
        if "sliders" in given.what:
            sliders(made, root, given.moves)
        if "table" in given.what:
            long_table(made, root, given.rows)
        if "digits" in given.what:
            digits(made, root)


def first_pages(made, root: Path, times: int = 4) -> None:
    """Seconds from the command to the first page; the first of them on a machine that may be cold."""
    found = []
    for k in range(times):
        begin = time.perf_counter()
        with studio(root / f"first {k}", root / "log.txt") as running:
            opened(made, running.address).close()
            found.append((time.perf_counter() - begin, processor(running.process.pid)))
    told = ", ".join(f"{spent:.2f} ({used:.2f})" for spent, used in found)
    print(f"first page, seconds from the command (of the processor, in the server): {told}")


def sliders(made, root: Path, moves: int) -> None:
    """Milliseconds from a move of a slider to the frame with its curve, for every starter that has sliders."""
    print(
        "slider, ms from the event to the frame: median, 95th percentile, largest; ms of the processor in the server"
    )
    for name in SLIDERS:
        folder = root / name
        shutil.copytree(STARTERS / name, folder, dirs_exist_ok=True)
        with studio(folder, root / "log.txt") as running:
            page = opened(made, running.address)
            step(page, "Play")
            page.wait_for_selector("input[type=range]")
            page.wait_for_timeout(1500)
            label = page.get_attribute("input[type=range]", "data-label")
            page.evaluate(MOVE, [label, 5])
            used = processor(running.process.pid)
            found = page.evaluate(MOVE, [label, moves])
            used = 1000 * (processor(running.process.pid) - used) / moves
            page.close()
        low, high = np.percentile(found, [50, 95])
        print(f"  {name:18s} {low:6.0f} {high:6.0f} {max(found):6.0f} {used:6.0f}")


def long_table(made, root: Path, rows: int) -> None:
    """Seconds that actions take with a table of many rows."""
    rng = np.random.default_rng(0)
    times = np.arange(rows) * (20 / rows)
    table = root / "long.csv"
    values = np.stack([times, np.exp(-0.3 * times) + 0.05 * rng.normal(size=rows)], axis=1)
    np.savetxt(table, values, "%.6g", ",", header="time,x", comments="")
    with studio(root / "long", root / "log.txt") as running:
        page = opened(made, running.address)
        print(f"actions with {rows:,} rows: seconds, and seconds of the processor in the server")

        def timed(words: str, action, until: str) -> None:
            begin, used = time.perf_counter(), processor(running.process.pid)
            action()
            page.wait_for_selector(until)
            page.evaluate("() => new Promise(requestAnimationFrame)")
            spent = time.perf_counter() - begin
            print(f"  {words:34s} {spent:5.2f} {processor(running.process.pid) - used:5.2f}")

        timed(
            "open the table",
            lambda: page.set_input_files("input[type=file]", table),
            f"text={rows:,} rows, 2",
        )
        timed("next rows", lambda: page.click("[aria-label='Later rows']"), "text=rows 201 to 400")
        timed(
            "column ignored",
            lambda: page.select_option("[data-column=x]", "ignored"),
            ".say.bad, .role-ignored",
        )
        timed("undo", lambda: page.click("#undo"), "[data-column=x].role-measured")
        timed("to the equations", lambda: page.click("#go-2"), ".cm-content")
        timed("type an equation", lambda: type_equations(page, "x' = -k*x"), "text=1 state, 1 parameter")
        timed("to the sliders", lambda: page.click("#go-3"), "[aria-label='Lower bound of k']")
        timed("sliders are there", lambda: None, "input[type=range]")
        timed(
            "a bound",
            lambda: (page.fill("[aria-label='Upper bound of k']", "5"), page.keyboard.press("Tab")),
            "#undo[title*='upper of k']",
        )
        timed("to the data", lambda: page.click("#go-1"), "main:has(#data-count) .nicegui-echart canvas")
        timed("to the fit", lambda: page.click("#go-5"), "#start-fit")
        page.click("#start-fit")
        page.wait_for_selector("#to-answer", timeout=300_000)
        timed("to the answer", lambda: page.click("#to-answer"), "#headline")
        timed("its curves", lambda: None, ".nicegui-echart canvas")
        timed("logarithmic time", lambda: page.click("text=log time"), "button.on:has-text('log time')")
        timed("to keep", lambda: page.click("#go-7"), "#problem-text")
        page.close()


def processor(pid: int) -> float:
    """Seconds of the processor that a process has used; NaN where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def digits(made, root: Path) -> None:
    """Whether a fit in the studio and `picardfit fit` on its folder give the same digits."""
    same = []
    for name in SLIDERS:
        folder = root / name
        shutil.copytree(STARTERS / name, folder, dirs_exist_ok=True)
        with studio(folder, root / "log.txt") as running:
            page = opened(made, running.address)
            step(page, "Fit")
            page.click("#start-fit")
            page.wait_for_selector("#to-answer", timeout=120_000)
            page.close()
        command = [
            sys.executable,
            "-m",
            "picardfit",
            "fit",
            str(folder),
            "--out",
            str(folder / "again"),
            "-q",
            "--no-report",
        ]
        subprocess.run(command, check=False)
        here, there = pf.load(folder / "results" / "fit.json"), pf.load(folder / "again" / "fit.json")
        equal = here.parameters == there.parameters and here.initial_states == there.initial_states
        same.append(equal and here.standard_errors == there.standard_errors and here.loss == there.loss)
    print(f"same digits as `picardfit fit`: {sum(same)} of {len(same)} starters")


if __name__ == "__main__":
    main()
