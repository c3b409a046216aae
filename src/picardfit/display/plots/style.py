"""How pictures look: sizes, legends, ticks, names, and how they are written.

Only Matplotlib's objects are used, never pyplot, so that no figure stays in a global list and no window opens.
Dots, lines and dashes differ in shape as well as in colour: everything can be read in grey.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from picardfit.errors import InputError
from picardfit.problem.calendar import Calendar
from picardfit.problem.dates import zone_info
from picardfit.whole_files import regular_target, write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from picardfit.fit import Fit
    from picardfit.problem.experiment import Experiment

INK, BLUE, ORANGE, GREY = "#222222", "#0072B2", "#D55E00", "#999999"  # of Okabe and Ito's palette
MARKERS = "osD^vP*X<>hp"


@dataclass(frozen=True)
class PlotStyle:
    """Sizes and limits of pictures, chosen by looking at them on a screen and on A4 paper.

    Lengths are in inches, widths of lines and sizes of texts and dots in points.
    """

    width: float = 6.5  # of a picture with one panel
    wide: float = 8.5  # of a picture with panels beside each other
    panel_width: float = 2.8  # of one of several panels of data and curves
    panel_height: float = 2.8  # of a panel that stands alone
    flat: tuple[float, float] = (1.1, 1.9)  # least and largest height of panels below each other
    sheet: float = 12.0  # height that fills a sheet of paper when its width is filled
    header: float = 0.7  # height of the legend above the panels
    heading: float = 0.4  # height of the name of an experiment
    bar: float = 0.28  # height of a bar with its label
    square: float = 0.42  # side of a square in the picture of correlations
    curve: float = 1.5
    line: float = 1.0  # thresholds, zero lines, ends of intervals
    outline: float = 1.6
    grid_line: float = 0.6
    dot: float = 4.0
    edge: float = 0.9  # of a hollow dot
    text: float = 8.0
    legend_text: float = 8.5
    title: float = 10.0
    shade: float = 0.2  # opacity of a band
    dots_per_inch: int = 150  # of files; notebooks show less
    notebook_dots_per_inch: int = 100
    experiments: int = 12  # drawn in one figure
    columns: int = 4  # experiments beside each other
    quantities: int = 12  # drawn in one figure
    unknowns: int = 24  # in the picture of correlations
    numbers: int = 12  # unknowns up to which correlations are also written as numbers
    bars: int = 40  # unknowns in the picture of their errors
    profiles: int = 3  # beside each other
    optima: int = 4  # that get a shape of their own in the waterfall
    marked_iterations: int = 80  # up to which every iteration gets a dot
    name: int = 40  # letters of a name; longer ones are cut
    label: int = 22  # letters of a name beside an axis
    ticks: int = 5  # of an axis, about: drawing them takes most of the time
    least_dates: int = 3  # ticks of an axis with dates
    points: tuple[int, int] = (101, 401)  # fewest and most times of a curve
    all_points: int = 12_000  # of all curves in a picture, about
    crowded: int = 500  # dots from which on a panel is drawn as pixels, to keep files small
    decades: float = 1e3  # range of a logarithmic axis that needs no ticks between the decades
    early: float = 0.05  # fraction of the span that holds half the samples where time gets a log axis
    flat_curve: float = 1e-6  # variation that is drawn flat, relative to the quantity in other experiments
    room: float = 0.1  # fraction of the height that is left free above and below


STYLE = PlotStyle()


class Picture(Figure):
    """A figure that notebooks show also where pyplot was never imported."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with placed(self):
            self.savefig(buffer, format="png", dpi=STYLE.notebook_dots_per_inch)
        return buffer.getvalue()


def figure_of(width: float, height: float) -> Figure:
    return Picture(figsize=(width, height), layout="constrained")


@contextmanager
def placed(figure: Figure) -> Iterator[None]:
    """Fix the positions of the panels in this context; otherwise Matplotlib draws a figure twice to find them."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def written(figure: Figure, path: str | Path | None, grid: bool = True) -> Figure:
    """The figure with tidy panels, saved to `path` if that is given."""
    for panel in figure.axes:
        _tidy(panel, grid)
    if path is not None:
        save_figure(figure, path)
    return figure


def _tidy(panel: Axes, grid: bool) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    for spine in panel.spines.values():  # they never reach beyond their panel, and measuring them is slow
        spine.set_in_layout(False)
    for axis in (panel.xaxis, panel.yaxis):
        locator = axis.get_major_locator()
        if isinstance(locator, MaxNLocator):
            locator.set_params(nbins=STYLE.ticks)
        elif isinstance(locator, LogLocator):
            locator.set_params(numticks=STYLE.ticks)
    panel.tick_params(which="both", labelsize=STYLE.text)
    if grid:
        panel.grid(color="#e6e6e6", linewidth=STYLE.grid_line)
    panel.set_axisbelow(True)


def thin(color: str, linestyle: str) -> dict[str, Any]:
    """How a threshold, a zero line or the end of an interval is drawn."""
    return {"color": color, "linewidth": STYLE.line, "linestyle": linestyle}


def log_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks of a logarithmic axis from low to high: at powers of ten only where there are enough of them."""
    powers = LogLocator(subs=(1, 2, 5) if high < STYLE.decades * low else (1,))
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
        loc="outside upper left",
        ncols=columns_of(order, figure.get_figwidth()),
        frameon=False,
        fontsize=STYLE.legend_text,
        title=note or None,
        title_fontsize=STYLE.text,
        alignment="left",
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def not_drawn(number: int, word: str) -> str:
    """A note for the legend: `3 more unknowns not drawn`; empty if all are drawn."""
    return f"{number} more {word} not drawn" if number else ""


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


def short(name: str, longest: int = STYLE.name) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def with_unit(name: str, unit: str, longest: int = STYLE.name) -> str:
    return f"{short(name, longest)} ({short(unit, longest)})" if unit else short(name, longest)


def time_label(fit: Fit, calendar: Calendar | None) -> str:
    """`date` for a calendar, in which time zone, or else `time (h)`."""
    if calendar is not None:
        return with_unit("date", calendar.zone)
    return with_unit("time", fit.problem.model.unit("t"))


def common_calendar(experiments: Sequence[Experiment]) -> Calendar | None:
    """A calendar whose time zone all experiments share, for an axis on which they are drawn together."""
    calendars = [one.calendar for one in experiments if one.calendar is not None]
    zones = {one.zone for one in calendars}
    if len(calendars) < len(experiments) or ("" in zones and len(zones) > 1):
        return None
    return calendars[0] if len(zones) == 1 else Calendar(calendars[0].start, zone="UTC")


def on_axis(one: Experiment, times: np.ndarray, calendar: Calendar | None) -> np.ndarray:
    """Times as an axis takes them: those of Matplotlib's dates where the axis has a calendar."""
    if calendar is None or one.calendar is None:
        return times
    return np.asarray(date2num(one.calendar.moments(times)))


def date_axis(panel: Axes, calendar: Calendar | None) -> None:
    """Ticks and labels of a time axis that shows dates; one without a calendar stays as it is."""
    if calendar is None:
        return
    zone = zone_info(calendar.zone) if calendar.zone else None
    locator = AutoDateLocator(tz=zone, minticks=STYLE.least_dates, maxticks=STYLE.ticks)
    panel.xaxis.set_major_locator(locator)
    panel.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
    panel.xaxis.get_offset_text().set_fontsize(STYLE.text)


def spans_decades(times: np.ndarray) -> bool:
    """Whether most samples crowd at the start of a span of three decades or more: then time is drawn in logs."""
    positive = times[times > 0]
    if len(positive) < STYLE.ticks or positive[-1] <= STYLE.decades * positive[0]:
        return False
    return bool(np.median(positive) < STYLE.early * positive[-1])


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the ending of the file names."""
    path = Path(path)
    kinds = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise InputError("display.picture_format", str(path))
    regular_target(path)  # before the time that drawing takes
    content = BytesIO()
    with placed(figure):
        figure.savefig(content, format=path.suffix[1:].lower(), dpi=STYLE.dots_per_inch)
    write_bytes(path, content.getvalue())
