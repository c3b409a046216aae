"""What stands in a panel besides the curve: measured values, censored ones, inputs, doses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.display.plots.style import COLOURS, GREY, INK, STYLE, on_axis
from picardfit.model.inputs import Constant, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from picardfit.model.doses import Doses
    from picardfit.model.inputs import Input
    from picardfit.problem.calendar import Calendar
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

DOSES = "doses given"  # how their row is called; an input cannot have this name, which has a blank
DOSE_COLOURS = (INK, *COLOURS[2:])  # of the states that they go into


def dots_of(count: int, colour: str = INK) -> dict[str, Any]:
    """How measured values look where a panel holds `count` of them: hollow, or small and translucent.

    Many dots lie under the line of the fit, and thousands are drawn as pixels, because files of shapes would be large.
    """
    if count <= STYLE.many:
        hollow = {"markersize": STYLE.dot, "markerfacecolor": "none", "markeredgecolor": colour}
        return {**hollow, "markeredgewidth": STYLE.edge, "linestyle": "none"}
    least, most = STYLE.faint
    alpha = float(np.clip(most * np.sqrt(STYLE.many / count), least, most))
    small = {"markersize": STYLE.small_dot, "markerfacecolor": colour, "markeredgewidth": 0, "alpha": alpha}
    return {**small, "linestyle": "none", "zorder": 1.5, "rasterized": count > STYLE.crowded}


def draw_data(
    panel: Axes,
    problem: Problem,
    one: Experiment,
    quantity: str,
    calendar: Calendar | None,
    **changes: Any,
) -> None:
    """Measured values as dots; censored ones as triangles that point to the value, intervals as lines.

    `calendar`: of the axis. `changes`: of the looks of the dots, such as their marker, colour and label.
    """
    data, limits = measured_of(problem, one, quantity), limits_of(one, quantity)
    dots = {"marker": "o", "label": "data", **dots_of(int(np.isfinite(data).sum())), **changes}
    exact, along = np.isnan(limits[:, 0]) & np.isfinite(data), on_axis(one, one.times, calendar)
    panel.plot(along[exact], data[exact], **dots)
    beyond = ~np.isnan(limits[:, 0])
    times, limits = along[beyond], limits[beyond]
    dots["label"] = "censored" if dots["label"] == "data" else "_"
    for k, marker, other in ((1, "v", 0), (0, "^", 1)):
        some = np.isinf(limits[:, other])
        if some.any():
            panel.plot(times[some], limits[some, k], **{**dots, "marker": marker})
    inside = np.isfinite(limits).all(axis=1)
    if inside.any():
        colour = dots["markeredgecolor"] if "markeredgecolor" in dots else dots["markerfacecolor"]
        panel.vlines(
            times[inside], *limits[inside].T, color=colour, linewidth=STYLE.edge, label=dots["label"]
        )


def measured_of(problem: Problem, one: Experiment, observable: str) -> np.ndarray:
    """(n,): what was measured of an observable in an experiment, in the unit of its curve; NaN elsewhere."""
    mine = problem.samples.experiment == problem.names.index(one.name)
    return np.asarray(problem.samples.data[mine, problem.model.observables.index(observable)])


def limits_of(one: Experiment, observable: str) -> np.ndarray:
    """(n, 2): limits of censored values of an observable, NaN where exact."""
    if one.limits is None:
        return np.full((len(one.times), 2), np.nan)
    return np.asarray(one.limits[:, one.observables.index(observable)])


# ---- inputs and doses ------------------------------------------------------------------------------------------------


def driving_rows(problem: Problem, experiments: Sequence[Experiment]) -> list[str]:
    """The inputs that vary, in time or between these experiments, and a row for the doses where there are some."""
    inputs = [name for name in problem.model.signals if _varies([one.signals[name] for one in experiments])]
    return [*inputs, *([DOSES] if any(one.doses for one in experiments) else [])]


def _varies(signals: Sequence[Input]) -> bool:
    """Whether an input is worth drawing; numbers that belong to samples, such as their errors, are not."""
    if any(isinstance(one, Table) and one.kind == "marks" for one in signals):
        return False
    values = {one.value if isinstance(one, Constant) else None for one in signals}
    return None in values or len(values) > 1


def draw_driving(panel: Axes, one: Experiment, row: str, times: np.ndarray, dosed: Sequence[str]) -> None:
    """An input over these times as a filled curve, or the doses: their amounts, as wide as they last.

    `dosed`: the states that get doses in any experiment, each with its own colour.
    """
    if row == DOSES:
        for dose in one.doses:
            _draw_doses(
                panel, one, dose, float(times[-1]), DOSE_COLOURS[dosed.index(dose.into) % len(DOSE_COLOURS)]
            )
        panel.set_ylim(bottom=0.0)
        return
    signal = one.signals[row]
    jumps = np.array([b for b in signal.breakpoints if times[0] < b < times[-1]])
    if len(jumps) <= len(times):
        times = np.unique(np.concatenate([times, jumps, np.nextafter(jumps, times[0])]))
    values = signal.at(times)
    along = on_axis(one, times, one.calendar)
    panel.plot(along, values, color=GREY, linewidth=STYLE.line)
    if values.min() >= 0:
        panel.fill_between(along, 0.0, values, color=GREY, alpha=STYLE.shade, linewidth=0)


def _draw_doses(panel: Axes, one: Experiment, dose: Doses, last: float, colour: str) -> None:
    """Amounts given at once as stems, infusions as boxes that last as long as they do; none after the last time."""
    there = dose.times <= last
    start, amount, lasting = dose.times[there], dose.amounts[there], dose.duration[there]
    at_once = lasting == 0
    along = on_axis(one, start, one.calendar)
    if at_once.any():
        label, points = f"dose into {dose.into}", along[at_once]
        panel.vlines(points, 0.0, amount[at_once], color=colour, linewidth=STYLE.curve)
        panel.plot(
            points, amount[at_once], "^", color=colour, markersize=STYLE.dot, linestyle="none", label=label
        )
    if not at_once.all():
        stop = on_axis(one, np.minimum(start + lasting, last), one.calendar)
        box: dict[str, Any] = {"color": colour, "alpha": STYLE.box, "linewidth": 0, "align": "edge"}
        label, wide = f"infusion into {dose.into}", (stop - along)[~at_once]
        panel.bar(along[~at_once], amount[~at_once], wide, label=label, **box)


def event_times(one: Experiment, last: float) -> np.ndarray:
    """Times of doses and resets up to `last`, where curves jump or kink."""
    every = np.unique(np.concatenate([*(dose.times for dose in one.doses), np.array(one.resets, float)]))
    return every[every <= last]
