"""The data of an exported Stan program, and the estimates as its starting values, both as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from picardfit.exporters.content import Content, table_pieces
from picardfit.exporters.stan import Program
from picardfit.model.densities import COUNTS
from picardfit.model.inputs import Constant, Input, Table, values_at
from picardfit.model.parameters import Parameter


@dataclass(frozen=True)
class Tolerances:
    """Of the integrator in the program, which computes derivatives too."""

    relative: float = 1e-8  # a hundred times smaller than what the samplers notice
    steps: int = 100_000  # between two stops


def stan_files(said: Content) -> dict[str, str]:
    """By ending of the file: the data and the starting values."""
    return {".data.json": _json(_data(said)), ".init.json": _json(_init(said))}


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def _data(said: Content, tolerances: Tolerances = Tolerances()) -> dict[str, Any]:
    pieces: dict[str, list[Any]] = {name: [] for name in PIECES}
    stops: list[float] = []
    samples: dict[str, list[Any]] = {
        name: [] for name in ("sample_course", "sampled_at", "sample_input", "since")
    }
    for k, one in enumerate(said.courses):
        own = sorted({one.t0, *one.times.tolist(), *(t for t in one.edges if t <= one.last)})
        number = {t: len(stops) + position for position, t in enumerate(own, 1)}
        stops += own
        _add_pieces(pieces, said, k, number)
        _add_samples(samples, said, k, number)
    if not said.increments:
        del samples["since"]
    values = _values(said)
    return {
        "n_stops": len(stops),
        "stop": stops,
        "n_pieces": len(pieces["piece_course"]),
        **pieces,
        "n_samples": len(samples["sampled_at"]),
        **samples,
        "n_values": len(values["measured"]),
        **values,
        "relative_tolerance": tolerances.relative,
        "absolute_tolerance": tolerances.relative * min(said.scale.values()),
        "max_steps": tolerances.steps,
    }


PIECES = (
    "piece_course",
    "is_first",
    "begins_at",
    "ends_at",
    "jump_keep",
    "jump_add",
    "piece_ends",
    "input_begin",
    "input_slope",
)


def _add_pieces(pieces: dict[str, list[Any]], said: Content, k: int, stops: dict[float, int]) -> None:
    """The pieces of an experiment; the last of them has no length if the states jump at the last sample."""
    one, count = said.courses[k], len(said.states)
    dosed = said.fit.problem.layout.dosed
    at_once = np.zeros(count) if dosed is None else dosed[said.chosen[k], :count]
    jumps = {t: i for i, t in enumerate([] if one.jumps is None else one.jumps.times.tolist())}
    inputs = [_Lines(source, one.t0) for source in one.inputs.values()]
    inner = [t for t in one.edges if one.t0 < t < one.last]
    begins = [one.t0, *inner, *([one.last] if one.last in jumps and one.last > one.t0 else [])]
    for number, begin in enumerate(begins):
        end = begins[number + 1] if number + 1 < len(begins) else one.last
        keep, add = np.ones(count), at_once if number == 0 else np.zeros(count)
        if begin in jumps and one.jumps is not None:
            keep, add = one.jumps.keep[jumps[begin]], one.jumps.add[jumps[begin]]
        inset = min(4 * np.spacing(max(abs(begin), abs(end))), (end - begin) / 4)
        lines = [source.at(begin) for source in inputs] or [(0.0, 0.0)]
        row = (
            k + 1,
            int(number == 0),
            stops[begin],
            stops[end],
            keep.tolist(),
            add.tolist(),
            [begin + inset, end - inset],
            [value for value, _ in lines],
            [slope for _, slope in lines],
        )
        for name, value in zip(PIECES, row, strict=True):
            pieces[name].append(value)


class _Lines:
    """An input as lines; the program computes formulas itself."""

    def __init__(self, source: Input, t0: float) -> None:
        rows = [(t0, source.value if isinstance(source, Constant) else 0.0, 0.0)]
        if isinstance(source, Table):
            rows = table_pieces(source, t0)
        self.begins, self.values, self.slopes = np.array(rows).T

    def at(self, time: float) -> tuple[float, float]:
        """Value and slope of the piece that begins or continues at a time."""
        k = max(int(np.searchsorted(self.begins, time, side="right")) - 1, 0)
        slope = float(self.slopes[k])
        return float(self.values[k]) + slope * (time - float(self.begins[k])), slope


def _add_samples(samples: dict[str, list[Any]], said: Content, k: int, stops: dict[float, int]) -> None:
    problem, one = said.fit.problem, said.courses[k]
    times = problem.experiments[said.chosen[k]].times
    inputs = values_at(one.inputs, said.inputs, times) if said.inputs else np.zeros((len(times), 1))
    at = [stops[t] for t in times.tolist()]
    samples["sample_course"] += [k + 1] * len(times)
    samples["sampled_at"] += at
    samples["sample_input"] += inputs.tolist()
    if problem.increments is not None:
        mine = np.flatnonzero(problem.samples.experiment == said.chosen[k])
        rows = np.zeros((len(times), len(said.outputs)), int)
        for column, before in zip(said.increments, problem.increments.before[mine].T, strict=True):
            since = [stops[one.t0] if b < 0 else at[b - mine[0]] for b in before.tolist()]
            rows[:, list(said.outputs).index(column)] = since
        samples["since"] += rows.tolist()


def _values(said: Content) -> dict[str, list[Any]]:
    """The measured numbers, sample by sample."""
    program, problem = Program(said), said.fit.problem
    samples = problem.samples
    rows = np.flatnonzero(np.isin(samples.experiment, said.chosen))
    data = samples.data[rows]
    i, o = np.nonzero(np.isfinite(data))
    found: dict[str, list[Any]] = {
        "value_sample": (i + 1).tolist(),
        "value_output": (o + 1).tolist(),
        "measured": data[i, o].tolist(),
    }
    counted = np.array([column.shape in COUNTS for column in program.columns])[o]
    if program.counts:
        trials = (
            np.ones(data.shape) if samples.trials is None else np.nan_to_num(samples.trials[rows], nan=1.0)
        )
        whole = np.where(counted, data[i, o] * trials[i, o], 0.0)
        found |= {
            "measured_count": whole.round().astype(int).tolist(),
            "measured_trials": trials[i, o].astype(int).tolist(),
        }
    if program.censored and samples.limits is not None:
        lower, upper = np.moveaxis(samples.limits[rows][i, o], -1, 0)
        positive = np.array([column.base is not None for column in program.columns])[o]
        no_lower = ~np.isfinite(lower) | (positive & (lower <= 0))
        none = np.isnan(lower) & np.isnan(upper)
        kinds = np.select([none, ~np.isfinite(upper), no_lower], [0, 2, 1], 3)
        ends = (np.where(np.isfinite(end), end, 1.0).tolist() for end in (lower, upper))
        found |= {
            "censored": kinds.tolist(),
            **dict(zip(("measured_lower", "measured_upper"), ends, strict=True)),
        }
    return found


def _init(said: Content, inside: float = 1e-6) -> dict[str, Any]:
    """The estimates by their names in the program, a little inside their bounds, where Stan can begin."""
    program, fit = Program(said), said.fit
    found: dict[str, Any] = {}
    for name, one in fit.problem.parameters.items():
        if one.fixed is None:
            keys = [f"{name}[{course.name}]" for course in said.courses] if one.local else [name]
            values = [_within(fit.parameters[key], one, inside) for key in keys]
            found[program.names.given[name]] = values if one.local else values[0]
    for state, there in program.initial_names.items():
        unknown = program.unknown_initial(state)
        if unknown:
            found[there] = [
                _within(fit.initial_states[said.courses[k].name][state], one, inside)
                for k, one in unknown.items()
            ]
    if program.sigma:
        variance = fit.residual_variance
        found[program.sigma] = float(np.sqrt(variance)) if isfinite(variance) and variance > 0 else 1.0
    return found


def _within(value: float, one: Parameter, inside: float) -> float:
    low, high = one.bounds
    width = high - low if isfinite(high - low) else max(1.0, abs(value))
    return float(np.clip(value, low + inside * width, high - inside * width))
