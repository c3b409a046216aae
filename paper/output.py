"""Tables as Markdown and CSV, figures as PNG and SVG."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

INK, BLUE, ORANGE, GREEN, PURPLE, GREY = "#222222", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#999999"
LARGE = 100.0  # numbers from here on are written with a power of ten


@dataclass(frozen=True)
class Spread:
    """A mean with its standard deviation over repetitions, and how many of them there were."""

    mean: float
    sd: float = math.nan
    count: int = 0
    mark: str = ""

    @property
    def error(self) -> float:
        """Standard error of the mean; NaN for less than two repetitions."""
        return self.sd / math.sqrt(self.count - 1) if self.count > 1 else math.nan

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "–"
        text = short(self.mean) if math.isnan(self.sd) else f"{short(self.mean)} ± {short(self.sd)}"
        return f"{text} {self.mark}".strip()


Cell = str | int | float | Spread


@dataclass(frozen=True)
class Table:
    """Rows of cells under titles; `name` is that of its files."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def markdown(self) -> str:
        lines = [
            f"**{self.title}**",
            "",
            "| " + " | ".join(self.columns) + " |",
            "|" + "---|" * len(self.columns),
        ]
        lines += ["| " + " | ".join(_text(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        (folder / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        spread = [any(isinstance(row[k], Spread) for row in self.rows) for k in range(len(self.columns))]
        titles = [t for k, c in enumerate(self.columns) for t in ([c, f"{c} sd"] if spread[k] else [c])]
        with (folder / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(titles)
            for row in self.rows:
                writer.writerow(v for k, cell in enumerate(row) for v in _values(cell, spread[k]))


@dataclass(frozen=True)
class Picture:
    """A figure with the name of its files and a caption."""

    name: str
    caption: str
    figure: Figure

    def markdown(self) -> str:
        return f"![{self.caption}]({self.name}.png)\n"

    def write(self, folder: Path) -> None:
        self.figure.savefig(folder / f"{self.name}.png", dpi=130)
        self.figure.savefig(folder / f"{self.name}.svg", metadata={"Date": None})


def spread(values: np.ndarray) -> Spread:
    """Mean and standard deviation over the repetitions that gave a number."""
    values = np.asarray(values, float)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Spread(math.nan)
    lost = len(values) - len(finite)
    mark = f"({lost} lost)" if lost else ""
    return Spread(float(finite.mean()), float(finite.std()), len(finite), mark)


def middle(values: np.ndarray) -> Spread:
    """The median over the data sets: some initial states determine next to nothing, and would rule a mean."""
    return Spread(float(np.median(np.asarray(values, float))), count=len(values))


def short(value: float) -> str:
    """Three digits at most: 0.13, 0.0042, 12.3, 2e+03."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if value == 0:
        return "0.00"
    if abs(value) >= LARGE:
        return f"{value:.0e}"
    if abs(value) >= 1:
        return f"{value:.2f}"
    return f"{value:.2f}" if abs(value) >= 0.095 else f"{value:.2g}"


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: object):
    """A figure and its panels (rows, columns), without pyplot."""
    made = Figure(figsize=(width, height), layout="constrained")
    panels = made.subplots(rows, columns, squeeze=False, **options)
    for panel in panels.ravel():
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25, linewidth=0.6)
    return made, panels


def page(title: str, parts: Sequence[Table | Picture]) -> str:
    """All tables and figures of an experiment as one Markdown text."""
    return "\n".join([f"# {title}\n", *(part.markdown() for part in parts)])


def _text(cell: Cell) -> str:
    return short(cell) if isinstance(cell, float) else str(cell)


def _values(cell: Cell, is_spread: bool) -> list[object]:
    if not is_spread:
        return [cell]
    return [cell.mean, cell.sd] if isinstance(cell, Spread) else [cell, ""]
