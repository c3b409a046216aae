"""How pictures look: sizes, colours, legends, ticks, and how they are written.

Only Matplotlib's objects are used, never pyplot, so that no figure stays in a global list and no window opens.
Dots, lines and dashes differ in shape as well as in colour: everything can be read in grey.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

import numpy as np
from matplotlib import rc_context
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter, LogLocator, MaxNLocator, NullLocator

from picardfit.display.plots.fonts import lettered, tell_lost
from picardfit.errors import InputError
from picardfit.problem.calendar import SECONDS, Calendar
from picardfit.problem.dates import zone_info
from picardfit.whole_files import regular_target, write_bytes

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.layout_engine import LayoutEngine

    from picardfit.problem.experiment import Experiment

INK, BLUE, ORANGE, GREY = "#222222", "#0072B2", "#D55E00", "#999999"  # of Okabe and Ito's palette
COLOURS = (
    BLUE,
    ORANGE,
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#8C510A",
    "#222222",
)  # of experiments, after the same
MARKERS = "osDP*X<>hpd8"  # triangles that point up or down are censored values
LINES = ("-", "--", ":")  # of experiments, each after all colours
SLIM = "slim"  # label of a panel that is too low for many ticks
NARROW = "narrow"  # of one that is not wide enough for them
COLLAPSED = "constrained_layout not applied"  # how Matplotlib's warning of too little room begins
FORMATS = ("png", "svg", "pdf")  # endings of pictures


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
    least_side: float = 0.2  # of a panel, where a size is asked for: in less nothing can be read
    sheet: float = 12.0  # height that fills a sheet of paper when its width is filled
    header: float = 0.7  # height of a legend of one row above the panels
    legend_row: float = 0.19  # and of each further row
    handle: float = 0.6  # width of an entry of a legend without its text
    letter: float = 0.075  # and of a letter of it, about
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
    box: float = 0.5  # and of an infusion
    dots_per_inch: int = 150  # of files of figures without a look
    notebook_dots_per_inch: int = 100
    experiments: int = 12  # drawn in one figure
    columns: int = 4  # experiments beside each other
    quantities: int = 12  # drawn in one figure
    unknowns: int = 24  # in the picture of correlations
    numbers: int = 12  # unknowns up to which correlations are also written as numbers
    number: float = 0.4  # width of a square that a number needs
    beside: int = 3  # letters of names that fit beside each other under squares
    bars: int = 40  # unknowns in the picture of their errors
    profiles: int = 3  # beside each other
    optima: int = 4  # that get a shape of their own in the waterfall
    marked_iterations: int = 80  # up to which every iteration gets a dot
    name: int = 40  # letters of a name; longer ones are shortened
    label: int = 22  # letters of a name beside an axis
    ticks: int = 5  # of an axis, about: drawing them takes most of the time
    slim_ticks: int = 2  # of the values of an input, and beside each other in pictures of pairs
    spine: float = 0.8  # axes and their ticks
    letters: float = 14.0  # of the usual text on an inch
    title_letters: float = 11.0  # of a title on an inch
    dates: tuple[int, int] = (3, 5)  # ticks of an axis with dates, fewest and most
    broad_dates: tuple[int, int] = (4, 8)  # and of a broad one
    broad: float = 4.0  # width of a panel with many dates
    fine: float = 2.6  # width of a logarithmic axis that has room for ticks between the powers of ten
    points: tuple[int, int] = (101, 401)  # fewest and most times of a curve
    all_points: int = 12_000  # of all curves in a picture, about
    crowded: int = 500  # dots from which on a panel is drawn as pixels, to keep files small
    many: int = (
        150  # dots from which on they are small and translucent, so that the line on top stays visible
    )
    small_dot: float = 2.2  # one of many
    faint: tuple[float, float] = (0.06, 0.5)  # opacity of one of many: of very many, and of just enough
    worst: int = (
        6  # experiments with a colour of their own where there are many, those with the largest misfit
    )
    hidden: float = 0.6  # height of a hidden state's panel, over that of a measured quantity
    driving: float = 0.45  # height of an input's or of the doses' panel
    inputs: int = 4  # inputs and dosed states drawn under the curves
    alike: float = 0.25  # shortest range over the union of all from which on panels share an axis
    log_values: float = 100.0  # ratio of fitted values from which on residuals stand over their logarithm
    decades: float = 1e3  # range of a logarithmic axis that needs no ticks between the decades
    plain: float = (
        1e4  # range of a logarithmic axis up to which its ticks are plain numbers, not powers of ten
    )
    early: float = 0.05  # fraction of the span that holds half the samples where time gets a log axis
    flat_curve: float = 1e-6  # variation that is drawn flat, relative to the quantity in other experiments
    resolved: float = (
        1e-10  # of a curve's largest value: what is smaller is no more than errors of the solution,
    )
    # whose tolerances are relative to that, and is not drawn on a logarithmic axis
    room: float = 0.1  # fraction of the height that is left free above and below


STYLE = PlotStyle()


@dataclass(frozen=True)
class Look:
    """What a reader wishes of a picture. Screen and paper differ in sizes of texts and lines; neither needs colour."""

    size: tuple[float | None, float | None] = (
        None,
        None,
    )  # inches: width and height; None: as the content needs
    dots_per_inch: int = 150  # of PNG files, and of what is drawn as pixels in others
    log_x: bool | None = None  # None: as suits the data
    log_y: bool | None = None
    experiments: int = STYLE.experiments  # drawn in one figure
    columns: int = STYLE.columns  # experiments beside each other
    narrow: bool = False  # panels that stand beside each other elsewhere stand below each other
    column: float = STYLE.width  # inches: width of a picture with one column of panels
    page: float | None = None  # inches: width of one with several; None: as the panels need
    lower: float = 1.0  # factor of heights
    text: float = STYLE.text  # points: ticks; labels, legends and titles are relative to it
    lines: float = 1.0  # factor of the widths of lines and the sizes of dots
    grid: bool = True


SCREEN = Look()
PRINT = Look(  # a column of 8.5 cm or a page of 17 cm, as journals have them
    dots_per_inch=300,
    experiments=6,
    columns=3,
    column=3.35,
    page=6.7,
    lower=0.8,
    text=7.0,
    lines=0.75,
    grid=False,
)
REPORT = Look(
    columns=1, narrow=True, column=4.4
)  # half of the page of a report; the whole width of a telephone
LOOKS = {"screen": SCREEN, "print": PRINT}


class Picture(Figure):
    """A figure that knows its look, and that notebooks show also where pyplot was never imported."""

    look: Look = SCREEN

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with placed(self, STYLE.notebook_dots_per_inch) as lost:
            self.savefig(buffer, format="png", dpi=STYLE.notebook_dots_per_inch)
        tell_lost(lost)
        return buffer.getvalue()


def figure_of(width: float, height: float, look: Look = SCREEN, columns: int = 1) -> Picture:
    """An empty figure of this size on a screen, or as large as the look demands; `columns`: panels side by side."""
    usual = look.column if look.narrow or (columns == 1 and width <= STYLE.width) else look.page or width
    own = look.size[0] or usual, look.size[1] or height * look.lower
    figure = Picture(figsize=own, layout="constrained")
    figure.look = look
    return figure


def square_figure(side: float, look: Look = SCREEN) -> Picture:
    """An empty figure for a square of this side on a screen, with room for labels; not wider than the look allows."""
    widest = (look.column if look.narrow or side <= STYLE.sheet / 2 else look.page) or np.inf
    part = min(1.0, widest / (STYLE.header + side)) if look.size[0] is None else 1.0
    width = look.size[0] or part * (STYLE.header + side)
    height = look.size[1] or width * (STYLE.heading + side) / (STYLE.header + side)
    figure = Picture(figsize=(width, height), layout="constrained")
    figure.look = look
    return figure


def arrangement(count: int, most: int) -> tuple[int, int]:
    """(rows, columns) for so many experiments, at most `most` side by side and the rows about equally full."""
    rows = ceil(count / min(count, most))
    return rows, ceil(count / rows)


@contextmanager
def placed(figure: Figure, dots: float) -> Iterator[str]:
    """Fix the positions of the panels in this context; otherwise Matplotlib draws a figure twice to find them.

    `dots` on an inch, those of the picture to come: letters are not equally wide at all of them. The value of the
    context are the letters that no installed font has.
    """
    engine, usual = figure.get_layout_engine(), figure.dpi
    figure.set_dpi(dots)
    with lettered(figure) as lost:
        if engine is not None:
            _lay_out(figure, engine)
        figure.set_layout_engine(None)
        try:
            yield lost
        finally:
            figure.set_layout_engine(engine)
            figure.set_dpi(usual)


def _lay_out(figure: Figure, engine: LayoutEngine) -> None:
    """Place the panels; InputError where the size that was asked for leaves no room for them."""
    if not isinstance(figure, Picture) or figure.look.size == (None, None):
        engine.execute(figure)
        return
    with catch_warnings(record=True) as told:
        filterwarnings("always", message=COLLAPSED)
        engine.execute(figure)
    size = figure.get_size_inches()
    sides = [size * panel.get_position().size for panel in figure.axes if panel.axison]
    collapsed = any(str(one.message).startswith(COLLAPSED) for one in told)
    if collapsed or min(map(min, sides), default=np.inf) < STYLE.least_side:
        width, height = 2.54 * size
        raise InputError("display.no_room", width=width, height=height)


def written(figure: Picture, path: str | Path | None, grid: bool = True) -> Figure:
    """The figure with tidy panels, saved to `path` if that is given."""
    for panel in figure.axes:
        _tidy(panel, grid and figure.look.grid, figure.look)
    if path is not None:
        save_figure(figure, path)
    return figure


def _tidy(panel: Axes, grid: bool, look: Look) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    for spine in panel.spines.values():  # they never reach beyond their panel, and measuring them is slow
        spine.set_in_layout(False)
        spine.set_linewidth(STYLE.spine * look.lines)
    for axis in (panel.xaxis, panel.yaxis):
        locator = axis.get_major_locator()
        if isinstance(locator, MaxNLocator):
            locator.set_params(nbins=_ticks(panel, axis))
        elif isinstance(locator, LogLocator):
            low, high = sorted(axis.get_view_interval())
            usual = isinstance(axis.get_major_formatter(), LogFormatter)
            if usual and low > 0 and high < STYLE.plain * low:
                log_ticks(axis, low, high)
            else:
                locator.set_params(numticks=_ticks(panel, axis))
        axis.label.set_fontsize(look.text + 1)
        axis.get_offset_text().set_fontsize(look.text)
    panel.title.set_fontsize(look.text + 1.5)
    panel.tick_params(which="both", labelsize=look.text, width=STYLE.spine * look.lines)
    if look.lines != 1.0:
        for line in panel.lines:
            line.set_linewidth(line.get_linewidth() * look.lines)
            line.set_markersize(line.get_markersize() * look.lines)
            line.set_markeredgewidth(line.get_markeredgewidth() * look.lines)
    if grid:
        panel.grid(color="#e6e6e6", linewidth=STYLE.grid_line)
    panel.set_axisbelow(True)


def _ticks(panel: Axes, axis: Axis) -> int:
    """How many ticks an axis gets: fewer where its panel is flat or narrow."""
    few = SLIM if axis is panel.yaxis else NARROW
    return STYLE.slim_ticks if panel.get_label() == few else STYLE.ticks


def thin(color: str, linestyle: str) -> dict[str, Any]:
    """How a threshold, a zero line or the end of an interval is drawn."""
    return {"color": color, "linewidth": STYLE.line, "linestyle": linestyle}


def log_ticks(axis: Axis, low: float, high: float, width: float = np.inf) -> None:
    """Ticks of a logarithmic axis from low to high: at powers of ten only where there are enough of them.

    `width`: of the axis in inches; a short one has room for powers of ten only.
    """
    between = high < STYLE.decades * low and width >= STYLE.fine
    powers = LogLocator(subs=(1, 2, 5) if between else (1,))
    even = MaxNLocator(STYLE.ticks, steps=[1, 2, 5, 10])
    axis.set_major_locator(even if high < 10 * low else powers)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g}")  # setting formulas is slow


def legend(figure: Picture, panels: Iterable[Axes], note: str, handles: Sequence[Artist] = ()) -> None:
    """One legend for all panels above them, with what was left out as its title."""
    entries: dict[str, Artist] = {str(one.get_label()): one for one in handles}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if not entries and not note:
        return
    size = figure.look.text + STYLE.legend_text - STYLE.text
    known = ["data", "fit", "fit of what was not measured"]
    order = [*(k for k in known if k in entries), *(k for k in entries if k not in known)]
    columns = columns_of(order, _legend_width(figure))
    note = wrapped(note, figure)
    rows = ceil(len(order) / columns) + note.count("\n") + bool(note)
    if figure.look.size[1] is None and rows > 1:
        figure.set_figheight(
            figure.get_figheight() + (rows - 1) * STYLE.legend_row * size / STYLE.legend_text
        )
    legend = figure.legend(
        [entries[k] for k in order],
        order,
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        fontsize=size,
        title=note or None,
        title_fontsize=figure.look.text,
        alignment="left",
    )
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)
    for drawn in legend.legend_handles:
        if isinstance(drawn, Line2D) and drawn.get_alpha() is not None:
            drawn.set_alpha(None)  # one dot alone would hardly be seen
            drawn.set_markersize(STYLE.dot)


def add_title(figure: Picture, words: str) -> None:
    """A title over the whole figure: over the entries of its legend, where there is one, with room for it."""
    size = figure.look.text + STYLE.legend_text - STYLE.text
    if figure.look.size[1] is None:
        figure.set_figheight(figure.get_figheight() + 1.5 * STYLE.legend_row * size / STYLE.legend_text)
    if not figure.legends:
        figure.suptitle(words, fontsize=size)
        return
    title = figure.legends[0].get_title()
    figure.legends[0].set_title("\n".join(filter(None, [words, title.get_text()])))


def letters(inches: float, points: float) -> int:
    """How many letters of this size fit on a line of this length, about; at least half a label."""
    return max(int(inches * STYLE.letters * STYLE.text / points), STYLE.label // 2)


def wrapped(text: str, figure: Picture) -> str:
    """A note in lines that are as wide as the figure."""
    return fill(text, letters(figure.get_figwidth(), figure.look.text))


def columns_of(labels: Sequence[str], width: float) -> int:
    """How many columns of a legend fit beside each other, filled column by column."""
    sizes = [STYLE.handle + STYLE.letter * len(label) for label in labels]
    for columns in range(len(sizes), 1, -1):
        rows = ceil(len(sizes) / columns)
        if (
            columns == ceil(len(sizes) / rows)
            and sum(max(sizes[k : k + rows]) for k in range(0, len(sizes), rows)) <= width
        ):
            return columns
    return 1


def legend_letters(names: Sequence[str], figure: Picture, more: int = 0) -> int:
    """How many letters of names a legend has room for without more rows; `more`: letters that follow each."""
    width = _legend_width(figure)
    columns = columns_of([name[: STYLE.label] + " " * more for name in names], width)
    room = int((width / columns - STYLE.handle) / STYLE.letter) - more
    return min(max(room, STYLE.label), STYLE.name)


def _legend_width(figure: Picture) -> float:
    """The width of a figure in inches of the usual text."""
    return figure.get_figwidth() * STYLE.text / figure.look.text


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
    """Ticks and labels of a time axis that shows dates; one without a calendar stays as it is.

    Matplotlib shows four years around a single date; here the axis then goes one unit of the calendar to each side.
    """
    if calendar is None:
        return
    first, last = panel.dataLim.intervalx
    if first == last:
        unit = SECONDS[calendar.unit] / SECONDS["d"]
        panel.set_xlim(first - unit, last + unit)
    zone = zone_info(calendar.zone) if calendar.zone else None
    place, figure = panel.get_subplotspec(), panel.figure
    beside = 1 if place is None else place.get_gridspec().ncols
    broad = isinstance(figure, Figure) and figure.get_figwidth() / beside >= STYLE.broad
    least, most = STYLE.broad_dates if broad else STYLE.dates
    locator = AutoDateLocator(tz=zone, minticks=least, maxticks=most)
    panel.xaxis.set_major_locator(locator)
    panel.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
    panel.xaxis.get_offset_text().set_fontsize(STYLE.text)


def above_rounding(values: np.ndarray, style: PlotStyle = STYLE) -> np.ndarray:
    """Values of a curve for a logarithmic axis: NaN from where on they are errors of the solution around zero."""
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return np.where(np.abs(values) >= style.resolved * size, values, np.nan)


def band_above_rounding(
    low: np.ndarray, high: np.ndarray, values: np.ndarray, style: PlotStyle = STYLE
) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the band around these values for a logarithmic axis: it ends below where the curve would."""
    least = style.resolved * np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return np.maximum(low, least), np.where(high > least, high, np.nan)


def spans_decades(times: np.ndarray) -> bool:
    """Whether most samples crowd at the start of a span of three decades or more: then time is drawn in logs."""
    positive = times[times > 0]
    if len(positive) < STYLE.ticks or positive[-1] <= STYLE.decades * positive[0]:
        return False
    return bool(np.median(positive) < STYLE.early * positive[-1])


def check_format(path: str | Path) -> str:
    """The format that the ending of a file names."""
    ending = Path(path).suffix[1:].lower()
    if ending not in FORMATS:
        raise InputError("display.picture_format", str(path), known=[f".{one}" for one in FORMATS])
    return ending


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the ending of the file names; texts of PDF and SVG files stay texts."""
    ending = check_format(path)
    regular_target(path)  # before the time that drawing takes
    content, dots = (
        BytesIO(),
        figure.look.dots_per_inch if isinstance(figure, Picture) else STYLE.dots_per_inch,
    )
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}), placed(figure, dots) as lost:
        figure.savefig(content, format=ending, dpi=dots)
    if ending != "svg":  # whose texts are drawn by the program that shows it
        tell_lost(lost)
    write_bytes(path, content.getvalue())
