"""What the experiments had to reach, line by line, from their tables: `python -m paper.verdicts picardfit-paper`.

Every experiment writes a table `verdicts`: a claim, in how many cells (or fits) it holds, and where it does not.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from compare.usage import UsageError
from paper.output import Spread, Table
from paper.tasks import LIKELIHOOD, Results, Task

COLUMNS = ("what", "holds", "of", "where not")
LISTED = 6  # exceptions that are named; the others are counted
ROUNDING = 1e-6  # relative: a loss this near the loss at the truth is not above it

Row = tuple[str, int, int, str]


def verdicts(name: str, rows: Sequence[Row]) -> Table:
    """The table of an experiment."""
    return Table("verdicts", f"{name}: what had to be reached", COLUMNS, tuple(rows))


def row(what: str, cells: Iterable[tuple[str, bool]]) -> Row:
    """One claim over cells (label, whether it holds there)."""
    cells = list(cells)
    failed = [label for label, holds in cells if not holds]
    more = f" and {len(failed) - LISTED} more" if len(failed) > LISTED else ""
    return what, len(cells) - len(failed), len(cells), "; ".join(failed[:LISTED]) + more


def at_or_below(ours: Spread, printed: Spread) -> bool:
    """Whether a mean is at or below the printed one, as both are printed."""
    return round(ours.mean, 2) <= printed.mean


def within_error(ours: Spread, printed: Spread) -> bool:
    """The same with one standard error of our mean granted."""
    return round(ours.mean - ours.error, 2) <= printed.mean


def within_deviation(ours: Spread, printed: Spread) -> bool:
    """Whether a mean is at most one printed standard deviation from the printed one, as both are printed."""
    return round(abs(round(ours.mean, 2) - printed.mean), 2) <= printed.sd


def below_truth(results: Results, what: str, tasks: Sequence[Task]) -> Row:
    """Whether what is minimised (loss, or negative log-likelihood) ends at or below its value at the truth."""
    name = "nllh" if tasks[0].method == LIKELIHOOD else "loss"
    cells = []
    for task in tasks:
        found, true = results[task][name], results[task][f"{name}_at_truth"]
        label = f"{_words(task)}: {found:.5g} against {true:.5g}"
        cells.append((label, bool(found <= true + ROUNDING * abs(true))))
    return row(what, cells)


def _words(task: Task) -> str:
    kept = {n: v for n, v in task.data.items() if n not in ("bounds", "u4", "shared_initial")}
    return ", ".join(f"{n} {_span(v)}" for n, v in kept.items())


def _span(value: object) -> str:
    return f"1:{value[-1]}" if isinstance(value, list) and np.ndim(value) == 1 else str(value)


def read(run: Path) -> list[tuple[str, str, int, int, str]]:
    """(experiment, what, holds, of, where not) of all experiments of a run."""
    found = []
    for path in sorted(run.glob("*/verdicts.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))[1:]
        found += [(path.parent.name, what, int(holds), int(of), where) for what, holds, of, where in lines]
    if not found:
        raise UsageError(f"There are no verdicts in `{run}`: run `python -m paper all --out {run}` first.")
    return found


def main(run: Annotated[Path, typer.Argument(help="The folder that `picardfit paper` wrote.")]) -> None:
    """Print every verdict."""
    for experiment, what, holds, of, where in read(run):
        typer.echo(f"{experiment}: {what}: {holds} of {of}" + (f" (not: {where})" if where else ""))


if __name__ == "__main__":
    typer.run(main)
