"""Known inputs u(t): a number, a formula in t, a table or a function, each with its breakpoints.

Every kind has `at(t)` (the values, in the shape of t), `breakpoints` (times of jumps and kinks, where the mesh gets a
knot), `describe()` (a short text) and `spec()` (a description for JSON, which `input_from_spec` reads back).
At a jump the value is the new one (right-continuous); for the left limit evaluate slightly before the jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy

from picardfit.checks import as_number, is_number
from picardfit.errors import InputError, closest, concerning
from picardfit.formulas.algebra import TIME, names
from picardfit.formulas.derivatives import Slopes, breakpoints, frequencies, is_step_function
from picardfit.formulas.enclosure import Interval
from picardfit.formulas.grammar import parse, to_text
from picardfit.formulas.kernels import BatchedMap
from picardfit.model.kinks import kinks
from picardfit.model.number_arrays import number_array, read_only


@dataclass(frozen=True)
class Constant:
    """A constant input."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", as_number(self.value, "value"))

    @property
    def breakpoints(self) -> tuple[float, ...]:
        return ()

    def at(self, t: np.ndarray) -> np.ndarray:
        return np.full(np.shape(t), self.value)

    def describe(self) -> str:
        return f"{self.value:g}"

    def spec(self) -> dict[str, object]:
        return {"kind": "number", "value": self.value}


@dataclass(frozen=True)
class Formula:
    """A formula in the time t alone, such as "2*exp(-t)"."""

    text: str

    def __post_init__(self) -> None:
        _compiled(self.text)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        return _compiled(self.text)[1]

    @property
    def steps(self) -> bool:
        """Whether the value is constant between two breakpoints."""
        return _compiled(self.text)[2]

    def at(self, t: np.ndarray) -> np.ndarray:
        nothing = np.empty(0)
        return _compiled(self.text)[0].value(np.asarray(t, dtype=float), nothing, nothing, nothing)[..., 0]

    def describe(self) -> str:
        return self.text

    def spec(self) -> dict[str, object]:
        return {"kind": "formula", "text": self.text}


TABLE_KINDS = ("hold", "linear", "marks")


@dataclass(frozen=True, eq=False)
class Table:
    """Values at given times: held until the next time (kind="hold") or joined by lines (kind="linear").

    kind="marks": the value of the nearest time, for numbers that belong to samples (a standard deviation for each);
    observables and noise may use them, the equations may not.
    Before the first time the first value holds, after the last time the last one. In a linear table two
    values at one time are a jump from the first to the second.
    `times`, `values`: (n,), sorted by time and read-only.
    """

    times: np.ndarray
    values: np.ndarray
    kind: str = "hold"

    def __post_init__(self) -> None:
        if self.kind not in TABLE_KINDS:
            close = closest(str(self.kind), TABLE_KINDS)
            raise InputError("model.table_kind", value=self.kind, close=close)
        times = number_array(self.times, "times")
        values = number_array(self.values, "values")
        if len(times) != len(values):
            raise InputError("model.table_lengths", times=len(times), values=len(values))
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        if len(times) == 0:
            raise InputError("model.empty_table")
        most = 2 if self.kind == "linear" else 1
        repeated = times[most:][times[most:] == times[:-most]]
        if len(repeated):
            code = "model.table_repeats" if most == 1 else "model.linear_table_repeats"
            raise InputError(code, time=float(repeated[0]))
        object.__setattr__(self, "times", read_only(times))
        object.__setattr__(self, "values", read_only(values))

    def __reduce__(self) -> tuple[type[Table], tuple[object, ...]]:
        # a pickled array forgets that it is read-only
        return Table, (self.times, self.values, self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.spec() == other.spec()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # integrations ask for it in every piece between two breaks
        return hash((self.kind, tuple(self.times), tuple(self.values)))

    @cached_property
    def _writable(self) -> tuple[np.ndarray, np.ndarray]:
        """Times and values for `np.interp`, which copies arrays that are read-only every time it is called."""
        return self.times.copy(), self.values.copy()

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Held: the times where the value changes. Linear: those of jumps and of kinks that matter. Marks: none."""
        return self._breakpoints

    @cached_property
    def _breakpoints(self) -> tuple[float, ...]:
        if self.kind == "marks":
            return ()
        if self.kind == "linear":
            return tuple(kinks(self.times, self.values).tolist())
        return tuple(self.times[1:][np.diff(self.values) != 0].tolist())

    def at(self, t: np.ndarray) -> np.ndarray:
        t = np.asarray(t, dtype=float)
        if self.kind == "linear":
            return np.asarray(np.interp(t, *self._writable))
        if self.kind == "marks":
            middle = (self.times[1:] + self.times[:-1]) / 2
            return np.asarray(self.values[np.searchsorted(middle, t)])
        last = np.searchsorted(self.times, t, side="right") - 1
        return np.asarray(self.values[np.maximum(last, 0)])

    def describe(self) -> str:
        words = {"hold": "steps", "linear": "lines", "marks": "numbers of samples"}[self.kind]
        if len(self.times) == 1:
            return f"{words}: {self.values[0]:g}"
        return f"{words}: {len(self.times)} times from {self.times[0]:g} to {self.times[-1]:g}"

    def spec(self) -> dict[str, object]:
        times, values = self.times.tolist(), self.values.tolist()
        return {"kind": "table", "times": times, "values": values, "between": self.kind}


@dataclass(frozen=True)
class Signal:
    """A Python function t -> value, with the times where it jumps or bends.

    Give `breakpoints=[]` for a function that is smooth; without `breakpoints` a fit warns that jumps may be missed.
    The function is called with a read-only array of times when it can handle one, else time by time.
    """

    function: Callable[..., Any]
    breakpoints: tuple[float, ...] = None  # type: ignore[assignment]  # None: not told, stored as ()
    told: bool = field(init=False, compare=False)  # whether the breakpoints were given

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError("model.signal_not_function", value=self.function)
        object.__setattr__(self, "told", self.breakpoints is not None)
        times = number_array(self.breakpoints or (), "breakpoints")
        object.__setattr__(self, "breakpoints", tuple(np.unique(times).tolist()))

    def at(self, t: np.ndarray) -> np.ndarray:
        t = read_only(np.asarray(t, dtype=float).view())
        try:
            values = np.asarray(self.function(t))
        except Exception:  # `if t > 3` and math.sin do not take arrays; a real failure shows time by time
            values = None
        if values is None or values.shape != t.shape or values.dtype.kind not in "iufb":
            values = np.array([self._at_one(time) for time in t.ravel().tolist()]).reshape(t.shape)
        return values.astype(float)

    def _at_one(self, time: float) -> float:
        try:
            value = self.function(time)
        except Exception as error:  # the function is the user's: it may raise anything
            values = {"time": time, "kind": type(error).__name__, "error": str(error)}
            raise InputError("model.signal_failed", self._name).with_values(**values) from error
        if np.size(value) != 1 or np.asarray(value).dtype.kind not in "iufb":
            raise InputError("model.signal_value", self._name, time=time, value=value)
        return float(np.asarray(value).item())

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def describe(self) -> str:
        return f"function {self._name}"

    def spec(self) -> dict[str, object]:
        return {"kind": "callable", "name": self.describe(), "breakpoints": list(self.breakpoints)}


Input = Constant | Formula | Table | Signal


@dataclass(frozen=True)
class Slope:
    """The derivative of an input by time, one-sided at its breakpoints; of a function by differences."""

    of: Input
    step: float = (
        6e-6  # of differences, relative to the time or, near 0, to 1: the cube root of the rounding error
    )

    def at(self, t: np.ndarray) -> np.ndarray:
        t, source = np.asarray(t, dtype=float), self.of
        if isinstance(source, Formula):
            nothing = np.empty(0)
            found: np.ndarray = _compiled_slope(source.text).value(t, nothing, nothing, nothing)[..., 0]
            return found
        if isinstance(source, Table) and source.kind == "linear":
            times, first = np.unique(source.times, return_index=True)
            last = np.append(first[1:], len(source.times)) - 1
            slopes = (source.values[first[1:]] - source.values[last[:-1]]) / np.diff(times)
            row = np.searchsorted(times, t, side="right")
            return np.concatenate([[0.0], slopes, [0.0]])[row]
        if constant_between_breaks(source):
            return np.zeros(t.shape)
        step = self.step * np.maximum(np.abs(t), 1.0)
        return np.asarray((source.at(t + step) - source.at(t - step)) / (2 * step))


@dataclass(frozen=True)
class Clock:
    """The time as an input: that for which the other inputs were evaluated."""

    def at(self, t: np.ndarray) -> np.ndarray:
        return np.array(t, dtype=float)


def constant_between_breaks(source: Input) -> bool:
    """Whether an input changes at its breakpoints only."""
    match source:
        case Constant():
            return True
        case Table():
            return source.kind != "linear"
        case Formula():
            return source.steps
    return False


def as_input(name: str, spec: object) -> Input:
    """The input meant by `spec`: a number, formula in t, pair (times, values), function or Input."""
    if isinstance(spec, Input):
        return spec
    if isinstance(spec, np.ndarray):
        spec = spec.tolist()
    with concerning("model.in_input", name, key=("inputs", name)):
        if is_number(spec):
            return Constant(spec)
        if isinstance(spec, str):
            return Formula(spec)
        if callable(spec):
            return Signal(spec)
        if isinstance(spec, (tuple, list)) and len(spec) == 2:
            return Table(spec[0], spec[1])
    raise InputError("model.not_an_input", name, key=("inputs", name), value=spec)


def values_at(
    inputs: Mapping[str, Input | Slope | Clock], names: Sequence[str], times: np.ndarray
) -> np.ndarray:
    """The inputs of these names side by side: (*times.shape, names)."""
    values = np.empty((*np.shape(times), len(names)))
    for column, name in enumerate(names):
        try:
            values[..., column] = inputs[name].at(times)
        except InputError as error:
            raise error.within("model.in_input", name).at(key=("inputs", name)) from error.__cause__
    return values


@dataclass(frozen=True)
class PoleSearch:
    """How inputs are searched for poles before anything is computed. All are choices."""

    grid: int = 257  # times, besides the samples, at which an input is evaluated first
    steep: float = 10.0  # ratio of largest value and median above which the largest may be a pole
    window: int = 33  # times in each window that zooms in on the largest value
    narrowest: float = 1e-9  # width of the last window over that of the first
    vanished: float = 1e-2  # height times width over its first value, below which the peak is integrable


def check_finite(
    inputs: Mapping[str, Input],
    names: Sequence[str],
    t0: float,
    times: np.ndarray,
    search: PoleSearch = PoleSearch(),
) -> None:
    """Raise an InputError if an input has a pole, or no finite value, between t0 and the last of the times."""
    last = max(float(times[-1]), t0)
    grid = np.unique(np.concatenate([[t0], times, np.linspace(t0, last, search.grid)]))
    for name in names:
        source = inputs[name]
        if not isinstance(source, Formula | Signal):
            continue
        if isinstance(source, Formula):
            with concerning("model.in_input", name, key=("inputs", name)):
                check_oscillations([parse(source.text)], t0, last)
        values = values_at(inputs, [name], grid)[:, 0]
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            time = float(grid[wrong[0]])
            code = "model.input_infinite" if np.isinf(values[wrong[0]]) else "model.input_not_real"
        elif (pole := _pole(source, grid, np.abs(values), search)) is not None:
            time, code = pole, "model.input_pole"
        else:
            continue
        how = "piecewise" if isinstance(source, Formula) else "an `if`"
        shown = {"source": source.describe(), "time": time, "first": t0, "last": last, "how": how}
        raise InputError(code, name, key=("inputs", name)).with_values(**shown)


def check_oscillations(
    expressions: Sequence[sympy.Expr],
    first: float,
    last: float,
    bounds: Mapping[str, Interval] = MappingProxyType({}),
    most_periods: float = 1e4,
) -> None:
    """InputError for sin(1e6*t) and the like: no mesh resolves more than `most_periods`, and no data show them.

    `bounds`: of the parameters; refused is what oscillates too fast for all values between them.
    """
    for node, frequency in frequencies(expressions, bounds).items():
        if frequency * (last - first) > most_periods:
            values = {"first": first, "last": last, "most": most_periods}
            periods = frequency * (last - first)
            raise InputError("formulas.fast_oscillation", to_text(node), periods=periods).with_values(
                **values
            )


def _pole(source: Input, grid: np.ndarray, size: np.ndarray, search: PoleSearch) -> float | None:
    """A time near the largest value where |u| grows at least like 1/distance, so that no solution passes it.

    While the window narrows around a pole, |u| times its width stays the same; for anything integrable it vanishes.
    """
    k = int(np.argmax(size))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    if not size[k] > search.steep * np.median(size) or not high > low:
        return None
    area, width = size[k] * (high - low), high - low
    while high - low > max(search.narrowest * width, 64 * np.spacing(max(abs(low), abs(high)))):
        window = np.linspace(low, high, search.window)
        values = np.abs(source.at(window))
        k = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        if not np.isfinite(values[k]):
            return float(window[k])
        low, high = window[max(k - 1, 0)], window[min(k + 1, search.window - 1)]
        if not values[k] * (high - low) > search.vanished * area:
            return None
    return float(0.5 * (low + high))


def input_from_spec(spec: Mapping[str, Any]) -> Input:
    """The input that `spec()` described; a function cannot be restored from its description."""
    match spec:
        case {"kind": "number", "value": value}:
            return Constant(value)
        case {"kind": "formula", "text": text}:
            return Formula(text)
        case {"kind": "table", "times": times, "values": values, "between": kind}:
            return Table(times, values, kind)
        case {"kind": "callable", "name": name}:
            raise InputError("model.saved_function", str(name))
    raise InputError("model.saved_input", value=dict(spec))


@lru_cache(maxsize=256)
def _compiled_slope(text: str) -> BatchedMap:
    return BatchedMap([Slopes().slope(parse(text), TIME)])


@lru_cache(maxsize=256)
def _compiled(text: str) -> tuple[BatchedMap, tuple[float, ...], bool]:
    """The formula as a NumPy function, its breakpoints, and whether it is constant between them; once for each text."""
    expression = parse(text)
    others = sorted(names(expression) - {"t"})
    if others:
        raise InputError("model.input_uses", text, names=others, close=closest(others[0], ["t"]))
    return BatchedMap([expression]), breakpoints([expression]), is_step_function(expression)
