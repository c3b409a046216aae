"""When counts of an increment begin, where nobody says so.

A table of new cases per week gives the first week a number too, at its end. Its beginning, which is t0, stands nowhere:
it is one usual step of the table before the first count. A count after blank cells or missing rows covers all the time
since the count before; that may be meant or not, so a remark says it. A cell `?` ends that time: the count was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from picardfit.errors import InputError, Notice
from picardfit.model.model import Model
from picardfit.problem.experiment import Experiment


@dataclass(frozen=True)
class RegularSteps:
    """When sampling times have a usual step: every step is about once, twice, ... as long as the median of them."""

    tolerance: float = 0.1  # of the usual step: months have 28 to 31 days

    def step(self, times: np.ndarray) -> float | None:
        """The usual step between distinct times (n,), or None if there is none."""
        steps = np.diff(np.unique(times))
        if not len(steps):
            return None
        usual = float(np.median(steps))
        often = steps / usual
        whole = np.maximum(np.round(often), 1.0)  # more than once: reports are missing
        return usual if (np.abs(often - whole) <= self.tolerance).all() else None


def with_first_counts(
    model: Model, experiments: Sequence[Experiment], regular: RegularSteps = RegularSteps()
) -> tuple[Experiment, ...]:
    """The experiments, in which t0 is one usual step before counts at a t0 that nobody gave, with a remark.

    Where one experiment counts something at such a t0, the others with samples there are treated alike. A count of 0
    there moves nothing by itself: nothing was counted yet at t0.
    """
    counted = [(one, _at_start(model, one)) for one in experiments]
    if not any(value for _, value in counted):
        return tuple(experiments)
    return tuple(
        one if value is None or not one.assumed_t0 else _moved(model, one, regular) for one, value in counted
    )


def with_gaps(
    model: Model, experiments: Sequence[Experiment], regular: RegularSteps = RegularSteps()
) -> tuple[Experiment, ...]:
    """The experiments, with remarks on counts that cover more than the usual step between counts."""
    return tuple(
        replace(one, remarks=(*one.remarks, *found)) if (found := _gaps(model, one, regular)) else one
        for one in experiments
    )


def _gaps(model: Model, one: Experiment, regular: RegularSteps) -> list[Notice]:
    found = []
    for name in (name for name in model.increments if name in one.observables):
        column, times = one.observables.index(name), one.count_times(name)
        measured = np.isin(times, one.times[one.sampled[:, column]])
        step = regular.step(times)
        if step is None:
            continue
        begins = np.append(one.t0, times[:-1])
        late = np.flatnonzero(measured & (times - begins > (2 - regular.tolerance) * step))
        if len(late):
            first, since = one.time_texts(np.array([times[late[0]], begins[late[0]]]))
            unit = "" if one.calendar is None else f" {one.calendar.unit}"
            said = {"experiment": one.name, "count": len(late), "total": int(measured.sum()), "first": first}
            said |= {"since": since, "step": f"{step:.6g}{unit}"}
            found.append(Notice("problem.counts_after_gaps", name, said))
    return [notice for notice in found if notice not in one.remarks]  # a problem may be made of another's


def check_first_counts(model: Model, one: Experiment) -> None:
    """InputError for a count at t0, from which it counts."""
    value = _at_start(model, one)
    if value:
        name, column = _first_column(model, one)
        row = int(np.flatnonzero((one.times <= one.t0) & (np.nan_to_num(column) != 0))[0])
        (t0,) = one.time_texts(np.array([one.t0]))
        error = InputError("problem.increment_at_t0", name, key=("t0",), experiment=one.name)
        raise one.located(error.with_values(t0=t0, value=value), name, row)


def _at_start(model: Model, one: Experiment) -> float | None:
    """The largest count at t0; None without one."""
    columns = [
        one.values[one.times <= one.t0, k] for k, n in enumerate(one.observables) if n in model.increments
    ]
    found = np.concatenate([np.zeros(0), *columns])
    found = found[np.isfinite(found)]
    return float(found[np.argmax(np.abs(found))]) if len(found) else None


def _first_column(model: Model, one: Experiment) -> tuple[str, np.ndarray]:
    """Name and values (n,) of the first increment with a count at t0."""
    early = one.times <= one.t0
    return next(
        (name, one.values[:, k])
        for k, name in enumerate(one.observables)
        if name in model.increments and np.nan_to_num(one.values[early, k]).any()
    )


def _moved(model: Model, one: Experiment, regular: RegularSteps) -> Experiment:
    """The experiment with t0 one usual step of its increments earlier; as it is where there is no usual step."""
    names = [name for name in one.observables if name in model.increments]
    measured = one.sampled[:, [one.observables.index(name) for name in names]].any(axis=1)
    step = regular.step(one.times[measured])
    if step is None:
        return one
    t0 = one.t0 - step
    first, begin = one.time_texts(np.array([one.t0, t0]))
    unit = "" if one.calendar is None else f" {one.calendar.unit}"
    said = {"experiment": one.name, "first": first, "t0": begin, "step": f"{step:.6g}{unit}"}
    remark = Notice("problem.first_count", names[0], said)
    return replace(one, t0=t0, assumed_t0=False, remarks=(*one.remarks, remark))
