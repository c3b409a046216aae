"""Options of ECharts from numbers: data, curves, bands, losses, profiles. Nothing is computed but what is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from picardfit.studio.palette import Palette
from picardfit.studio.settings import DEFAULT, StudioSettings

ROUND = "value => typeof value === 'number' ? String(Number(value.toPrecision(5))) : value"
TICK = (
    "v => Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(0) "
    ": String(Number(v.toPrecision(6)))"
)


SYMBOLS = {"": "circle", "below": "triangle", "above": "triangle", "between": "rect"}


@dataclass(frozen=True)
class Points:
    """Measured values; `ids` come back when one is clicked, `out` says which are left out.

    `mark`: where a censored value is, `below` or `above` its limit or `between` two; blank for exact ones.
    """

    label: str
    times: np.ndarray
    values: np.ndarray
    colour: int = 0
    ids: Sequence[object] | None = None
    out: np.ndarray | None = None
    mark: str = ""


@dataclass(frozen=True)
class Curve:
    """A line; `key` names it for later updates."""

    label: str
    times: Sequence[float]
    values: Sequence[float]
    colour: int = 0
    key: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Shade:
    """A band between two lines."""

    label: str
    times: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: int = 0


def thinned(times: np.ndarray, values: np.ndarray, most: int) -> np.ndarray:
    """Indices of about `most` points that look like all of them: the extremes of every stretch, and the ends."""
    count = len(times)
    if count <= most:
        return np.arange(count)
    order = np.argsort(times, kind="stable")
    keep = [order[[0, -1]]]
    for part in np.array_split(order, max(most // 2 - 1, 1)):
        own = values[part]
        keep.append(part[[int(np.nanargmin(own)), int(np.nanargmax(own))]])
    return np.unique(np.concatenate(keep))


def pairs(
    times: Sequence[float] | np.ndarray, values: Sequence[float] | np.ndarray
) -> list[list[float | None]]:
    """[time, value] for a chart; a value that is not finite is a gap."""
    found = np.column_stack([np.asarray(times, float), np.asarray(values, float)])
    return [[x, y if np.isfinite(y) else None] for x, y in found.tolist()]


def base(palette: Palette, x_name: str, log_x: bool = False, log_y: bool = False) -> dict[str, Any]:
    """A chart without series."""
    axis = {
        "axisLine": {"lineStyle": {"color": palette.faint}},
        "axisLabel": {
            "color": palette.faint,
            "fontFamily": "Studio Sans",
            "fontSize": 12,
            ":formatter": TICK,
        },
        "splitLine": {"lineStyle": {"color": palette.line}},
        "nameTextStyle": {"color": palette.faint, "fontFamily": "Studio Sans"},
    }
    return {
        "animation": False,
        "grid": {"left": 8, "right": 14, "top": 12, "bottom": 26, "containLabel": True},
        "textStyle": {"fontFamily": "Studio Sans"},
        "aria": {"enabled": True},
        "xAxis": {
            **axis,
            "type": "log" if log_x else "value",
            "scale": True,
            "splitLine": {"show": False},
            "name": x_name,
            "nameLocation": "middle",
            "nameGap": 26,
            ":min": "v => v.min",
            ":max": "v => v.max",
        },
        "yAxis": {**axis, "type": "log" if log_y else "value", "scale": True, "axisLine": {"show": False}},
        "tooltip": {
            "trigger": "axis",
            "backgroundColor": palette.tip,
            "borderColor": palette.line,
            "textStyle": {"color": palette.ink, "fontFamily": "Studio Sans", "fontSize": 13},
            "axisPointer": {
                "lineStyle": {"color": palette.faint},
                "label": {":formatter": f"p => ({ROUND})(p.value)"},
            },
            ":valueFormatter": ROUND,
            "confine": True,
        },
        "dataZoom": [
            {"type": "inside", "xAxisIndex": 0, "zoomOnMouseWheel": "ctrl", "moveOnMouseMove": True}
        ],
        "series": [],
    }


def panel(
    palette: Palette,
    x_name: str,
    layers: Sequence[Points | Curve | Shade],
    *,
    log_x: bool = False,
    log_y: bool = False,
    below: tuple[float, float] | None = None,
    settings: StudioSettings = DEFAULT,
) -> dict[str, Any]:
    """A chart of data, curves and bands over time.

    `below`: the span of time of the chart above a low one, which has few ticks and whose colours that chart explains.
    """
    options = base(palette, x_name, log_x, log_y)
    if below is not None:
        options["yAxis"]["splitNumber"] = 2
        options["xAxis"] |= {":min": repr(below[0]), ":max": repr(below[1])}
    for layer in layers:
        colour = palette.series[layer.colour % len(palette.series)]
        if isinstance(layer, Points):
            options["series"] += _points(layer, colour, palette, settings.points)
        elif isinstance(layer, Curve):
            options["series"].append(_line(layer, colour))
        else:
            options["series"] += _shade(layer, colour)
    labels = [one.label for one in layers if not isinstance(one, Shade)]
    if len(set(labels)) > 1 and below is None:
        options["legend"] = _legend(palette, labels)
        options["grid"]["top"] = 34
    return options


def span(layers: Sequence[Points | Curve | Shade], positive: bool = False) -> tuple[float, float]:
    """The first and the last time of what is drawn; on a logarithmic axis of what is `positive`."""
    times = np.concatenate([np.asarray(one.times, float) for one in layers])
    times = times[times > 0] if positive else times
    return (float(times.min()), float(times.max())) if len(times) else (0.0, 1.0)


def _legend(palette: Palette, labels: Sequence[str]) -> dict[str, Any]:
    text = {"color": palette.ink, "fontFamily": "Studio Sans", "fontSize": 12.5}
    names = list(dict.fromkeys(labels))
    return {
        "data": names,
        "top": 0,
        "left": 6,
        "icon": "circle",
        "itemWidth": 9,
        "itemHeight": 9,
        "textStyle": text,
        "type": "scroll",
    }


def _points(layer: Points, colour: str, palette: Palette, most: int) -> list[dict[str, Any]]:
    chosen = thinned(layer.times, layer.values, most)
    out = np.zeros(len(layer.times), bool) if layer.out is None else layer.out
    small = len(chosen) > 400
    data = []
    for k in chosen.tolist():
        point: dict[str, Any] = {"value": [float(layer.times[k]), float(layer.values[k])]}
        if layer.ids is not None:
            point["name"] = str(layer.ids[k])
        if out[k]:
            point |= {
                "symbol": "path://M0,0L10,10M10,0L0,10",
                "itemStyle": {"color": "none", "borderColor": palette.faint, "borderWidth": 1.5},
            }
        data.append(point)
    return [
        {
            "type": "scatter",
            "name": layer.label,
            "data": data,
            "symbol": SYMBOLS[layer.mark],
            "symbolRotate": 180 if layer.mark == "below" else 0,
            "symbolSize": 4 if small else 8,
            "itemStyle": {
                "color": "transparent" if not small else colour,
                "borderColor": colour,
                "borderWidth": 0 if small else 1.8,
            },
            "cursor": "pointer" if layer.ids is not None else "default",
            "z": 3,
            "large": False,
        }
    ]


def _line(layer: Curve, colour: str) -> dict[str, Any]:
    style = {"color": colour, "width": 2, "type": "dashed" if layer.dashed else "solid"}
    return {
        "type": "line",
        "id": layer.key or None,
        "name": layer.label,
        "data": pairs(layer.times, layer.values),
        "showSymbol": False,
        "lineStyle": style,
        "itemStyle": {"color": colour},
        "z": 2,
        "emphasis": {"disabled": True},
    }


def _shade(layer: Shade, colour: str) -> list[dict[str, Any]]:
    low, high = np.asarray(layer.low, float), np.asarray(layer.high, float)
    common = {
        "type": "line",
        "showSymbol": False,
        "lineStyle": {"opacity": 0},
        "stack": f"{layer.label} {layer.colour}",
        "silent": True,
        "tooltip": {"show": False},
        "stackStrategy": "all",
        "emphasis": {"disabled": True},
        "z": 1,
    }
    return [
        {**common, "name": f"{layer.label} from", "data": pairs(layer.times, low)},
        {
            **common,
            "name": f"{layer.label} to",
            "data": pairs(layer.times, high - low),
            "areaStyle": {"color": colour, "opacity": 0.16},
        },
    ]


def losses(palette: Palette, told: Sequence[tuple[int, int, float | None]]) -> dict[str, Any]:
    """The loss over the iterations of every search."""
    options = base(palette, "iteration", log_y=all(one[2] is None or one[2] > 0 for one in told))
    searches: dict[int, list[list[float | None]]] = {}
    for search, iteration, loss in told:
        searches.setdefault(search, []).append([iteration, loss])
    for k, (search, points) in enumerate(searches.items()):
        colour = palette.series[k % len(palette.series)]
        options["series"].append(
            {
                "type": "line",
                "name": f"search {search}",
                "data": points,
                "showSymbol": len(points) < 2,
                "symbolSize": 5,
                "lineStyle": {"width": 2, "color": colour},
                "itemStyle": {"color": colour},
            }
        )
    if len(searches) > 1:
        options["legend"] = _legend(palette, [f"search {one}" for one in searches])
        options["grid"]["top"] = 34
    return options


def profile(palette: Palette, name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """How the loss rises away from an estimate, with the interval."""
    options = base(palette, name)
    marks = [{"xAxis": end} for end in record["interval"] if end is not None]
    options["series"] = [
        {
            "type": "line",
            "data": pairs(record["values"], record["rises"]),
            "symbolSize": 5,
            "lineStyle": {"width": 2, "color": palette.accent},
            "itemStyle": {"color": palette.accent},
            "markLine": {
                "symbol": "none",
                "silent": True,
                "precision": 20,  # decimals; by default ends are rounded to two
                "label": {"show": False},
                "lineStyle": {"color": palette.warm, "type": "dashed"},
                "data": marks,
            },
        }
    ]
    return options
