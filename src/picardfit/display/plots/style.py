"""How pictures look: sizes, legends, ticks, names, and how they are written.

Only Matplotlib's objects are used, never pyplot, so that no figure stays in a global list and no window opens.
Dots, lines and dashes differ in shape as well as in colour: everything can be read in grey.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from picardfit.display.plots.placing import OnePass, placed
from picardfit.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from picardfit.fit import Fit

INK, BLUE, ORANGE, GREY = "#222222", "#0072B2", "#D55E00", "#999999"  # of Okabe and Ito's palette
MARKERS = "osD^vP*X<>hp"
MOST_QUANTITIES = 12  # drawn in one figure
LONGEST_NAME, SHORTER_NAME = 40, 22
MANY_DECADES = 1e3  # range of a logarithmic axis that needs no ticks between the decades
CROWDED = 500  # dots from which on a panel is drawn as pixels, to keep files small
TICKS = 5  # of an axis, about: they take most of the time of drawing


class Picture(Figure):
    """A figure that notebooks show also where pyplot was never imported."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with placed(self):
            self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def figure_of(width: float, height: float) -> Figure:
    return Picture(figsize=(width, height), layout=OnePass())


def written(figure: Figure, path: str | Path | None) -> Figure:
    for panel in figure.axes:
        _tidy(panel)
    if path is not None:
        save_figure(figure, path)
    return figure


def _tidy(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    for spine in panel.spines.values():  # they never reach beyond their panel, and measuring them is slow
        spine.set_in_layout(False)
    for axis in (panel.xaxis, panel.yaxis):
        if isinstance(axis.get_major_locator(), MaxNLocator):
            axis.get_major_locator().set_params(nbins=TICKS)
        elif isinstance(axis.get_major_locator(), LogLocator):
            axis.get_major_locator().set_params(numticks=TICKS)
    panel.tick_params(which="both", labelsize=8)
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)


def log_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks of a logarithmic axis from low to high: at powers of ten only where there are enough of them."""
    powers = LogLocator(subs=(1, 2, 5) if high < MANY_DECADES * low else (1,))
    axis.set_major_locator(MaxNLocator() if high < 10 * low else powers)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g}")  # setting formulas is slow


def legend(figure: Figure, panels, note: str, handles: Sequence = ()) -> None:
    """One legend for all panels above them, with what was left out as its title."""
    entries = {one.get_label(): one for one in handles}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    known = ["data", "fit", "fit of what was not measured"]
    order = [*(k for k in known if k in entries), *(k for k in entries if k not in known)]
    legend = figure.legend(
        [entries[k] for k in order],
        order,
        loc="upper left",
        bbox_to_anchor=(0, 1),
        ncols=columns_of(order, figure.get_figwidth()),
        frameon=False,
        fontsize=8.5,
        title=note or None,
        title_fontsize=8,
        alignment="left",
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def columns_of(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend fit beside each other, filled column by column."""
    sizes = [0.6 + 0.075 * len(label) for label in labels]  # inches, about
    for columns in range(len(sizes), 1, -1):
        rows = ceil(len(sizes) / columns)
        if (
            columns == ceil(len(sizes) / rows)
            and sum(max(sizes[k : k + rows]) for k in range(0, len(sizes), rows)) <= width
        ):
            return columns
    return 1


def short(name: str, longest: int = LONGEST_NAME) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def with_unit(name: str, unit: str, longest: int = LONGEST_NAME) -> str:
    return f"{short(name, longest)} ({short(unit, longest)})" if unit else short(name, longest)


def time_label(fit: Fit) -> str:
    return with_unit("time", fit.problem.model.unit("t"))


def spans_decades(times: np.ndarray) -> bool:
    """Whether most samples crowd at the start of a span of three decades or more: then time is drawn in logs."""
    positive = times[times > 0]
    return (
        len(positive) > 4 and positive[-1] > 1e3 * positive[0] and np.median(positive) < 0.05 * positive[-1]
    )


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the ending of the file names."""
    path = Path(path)
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise InputError("display.picture_format", str(path))
    if not path.parent.is_dir():
        raise InputError("display.no_folder", str(path.parent))
    with placed(figure):
        figure.savefig(path, dpi=150)
