"""The rows of a comparison and how they print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

TAIL = "success: within 0.1 % of the smallest loss; seconds: processor time, model building included, imports not"
SAME = 1e-3  # losses up to this relative distance from the best one count as the best


@dataclass(frozen=True)
class Row:
    """What one tool did. `loss` and the rest are NaN or empty where it gave no answer.

    `loss`: the paper's L_ls at its answer, by independent integration. `success`: it reached the smallest loss of all
    tools within 0.1 %. `seconds`: processor time, model building included, imports not; `elapsed`: on the clock.
    """

    tool: str
    version: str
    sentence: str
    loss: float = np.nan
    parameters: Mapping[str, float] = field(default_factory=dict)
    initial_states: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    seconds: float = np.nan
    elapsed: float = np.nan
    success: bool = False


@dataclass(frozen=True)
class Comparison:
    """All rows, in the order in which the tools were named."""

    rows: tuple[Row, ...]
    start: Mapping[str, float]  # the parameters every tool began from

    @property
    def best(self) -> Row | None:
        """The row with the smallest loss; None if no tool gave an answer."""
        done = [row for row in self.rows if np.isfinite(row.loss)]
        return min(done, key=lambda row: row.loss, default=None)

    def __getitem__(self, tool: str) -> Row:
        for row in self.rows:
            if row.tool == tool:
                return row
        raise KeyError(tool)

    def __str__(self) -> str:
        names = list(self.start)
        head = ["tool", "loss", "success", "seconds", *names, ""]
        body = [["start", "", "", "", *(f"{self.start[n]:.5g}" for n in names), ""]]
        for row in self.rows:
            known = [f"{row.parameters[n]:.5g}" if n in row.parameters else "" for n in names]
            loss = f"{row.loss:.6g}" if not np.isnan(row.loss) else ""
            seconds = f"{row.seconds:.2f}" if np.isfinite(row.seconds) else ""
            body.append([row.tool, loss, "yes" if row.success else "no", seconds, *known, row.sentence])
        widths = [max(len(line[k]) for line in (head, *body)) for k in range(len(head) - 1)]
        lines = []
        for line in (head, *body):
            cells = [line[0].ljust(widths[0])]
            cells += [c.rjust(w) for c, w in zip(line[1:-1], widths[1:], strict=True)]
            lines.append("  ".join([*cells, line[-1]]).rstrip())
        return "\n".join([*lines, TAIL])


def reaches(loss: float, best: float, floor: float) -> bool:
    """Whether a loss is the best one within 0.1 %, or both are rounding (`floor`)."""
    return bool(loss <= best * (1 + SAME) + floor)
