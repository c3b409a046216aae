"""Where the panels of a figure stand. Every label is measured once, half as often as in Matplotlib's own layout.

That is enough because no picture here has more or fewer ticks when its panels grow or shrink.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine

PAD = 0.05  # inches round each panel with its labels
LEAST = 0.3  # part of the figure that panels get, whatever their labels need


class OnePass(LayoutEngine):
    """Panels of one grid share the room that their labels, and a legend above them, leave."""

    _adjust_compatible = False
    _colorbar_gridspec = False

    def execute(self, fig: Figure) -> None:
        renderer = RendererAgg(*fig.bbox.size, fig.dpi)
        panels = [one for one in fig.axes if one.get_subplotspec() is not None]
        if not panels:
            return
        grid = panels[0].get_subplotspec().get_gridspec()
        columns = [one.get_subplotspec().colspan.start for one in panels]
        rows = [grid.nrows - 1 - one.get_subplotspec().rowspan.start for one in panels]  # from below
        margins = np.array([_margins(one, renderer) for one in panels])  # (panels, 4)
        above = max((fig.bbox.y1 - one.get_window_extent(renderer).y0 for one in fig.legends), default=0.0)
        pad, (width, height) = PAD * fig.dpi, fig.bbox.size
        left, wide = _shares(columns, grid.ncols, margins[:, 0], margins[:, 2], width, pad)
        below, high = _shares(rows, grid.nrows, margins[:, 1], margins[:, 3], height - above, pad)
        for panel, column, row in zip(panels, columns, rows, strict=True):
            panel.set_position((left[column] / width, below[row] / height, wide / width, high / height))


def _margins(panel, renderer: RendererAgg) -> tuple[float, float, float, float]:
    """Pixels that labels need beyond a panel: left, below, right, above."""
    outer = panel.get_tightbbox(renderer)
    inner = panel.get_window_extent(renderer)
    if outer is None:
        return 0.0, 0.0, 0.0, 0.0
    return (*np.maximum(inner.min - outer.min, 0.0), *np.maximum(outer.max - inner.max, 0.0))


def _shares(
    places: list[int], count: int, before: np.ndarray, after: np.ndarray, size: float, pad: float
) -> tuple[np.ndarray, float]:
    """(starts (count,), length of each) of panels along one axis, in pixels; each has its margins and a pad."""
    first, last = np.zeros(count), np.zeros(count)
    np.maximum.at(first, places, before)
    np.maximum.at(last, places, after)
    used = first + last + 2 * pad
    length = max(size - used.sum(), LEAST * size) / count
    return np.concatenate([[0.0], np.cumsum(used + length)[:-1]]) + pad + first, length


@contextmanager
def placed(figure: Figure) -> Iterator[None]:
    """The panels have their places while this lasts; by itself Matplotlib draws a figure twice to find them."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine(None)
    try:
        yield
    finally:
        figure.set_layout_engine(engine)
