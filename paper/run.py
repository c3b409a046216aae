"""Run experiments: their fits over processes with a ledger each, then tables and figures into a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from paper import fitzhugh_nagumo, lorenz, predator_prey, tumor, van_der_pol
from paper.ledger import run_tasks
from paper.output import Table, page
from paper.plan import Plan
from paper.tasks import ALGORITHM_4, DEFAULT, LIKELIHOOD, TOOL, Results, solve, together
from picardfit import __version__

EXPERIMENTS = {
    "van-der-pol": van_der_pol,
    "fitzhugh-nagumo": fitzhugh_nagumo,
    "predator-prey": predator_prey,
    "tumor": tumor,
    "lorenz": lorenz,
}
METHODS = {ALGORITHM_4: "Algorithm 4", DEFAULT: "default", LIKELIHOOD: "default, likelihood"}


def run(
    names: Sequence[str], plan: Plan, out: Path, workers: int, say: Callable[[str], None] = print
) -> list[Path]:
    """Run the named experiments; returns the page of each. Fits that a ledger in `out` holds are not repeated.

    `say` gets one line at the beginning of each stage, also where no progress bar is shown.
    """
    out.mkdir(parents=True, exist_ok=True)
    settings = {"version": __version__, "quick": plan.quick, "seed": plan.seed, "steps": plan.steps}
    (out / "run.json").write_text(json.dumps(settings), encoding="utf-8")
    pages = []
    for name in names:
        module, folder = EXPERIMENTS[name], out / name
        folder.mkdir(parents=True, exist_ok=True)
        tasks = module.tasks(plan)
        say(f"{name}: {len(tasks)} fits and bounds")
        results = run_tasks(solve, tasks, folder / "ledger.jsonl", workers, name, together)
        say(f"{name}: tables and figures")
        parts = [*module.present(results, plan), costs(results)]
        for part in parts:
            part.write(folder)
        pages.append(folder / "index.md")
        pages[-1].write_text(page(module.TITLE, parts), encoding="utf-8")
    return pages


def costs(results: Results) -> Table:
    """What the fits cost, by method."""
    seconds: dict[str, list[float]] = {}
    for key, record in results.records.items():
        _, method, _, settings, _ = json.loads(key)
        if "seconds" in record:
            label = f"{settings['tool']} (another tool)" if method == TOOL else METHODS[method]
            seconds.setdefault(label, []).append(record["seconds"])
    rows = [
        (label, len(own), f"{np.nansum(own):.0f}", float(np.nanmean(own)) if np.isfinite(own).any() else "–")
        for label, own in seconds.items()
    ]
    return Table("costs", "Processor seconds", ("method", "fits", "seconds", "seconds a fit"), tuple(rows))
