"""Known inputs u(t): a number, a formula in t, a table or a function, each with its breakpoints.

Every kind offers the same four things: `at(t)` (the values, same shape as t), `breakpoints` (times of jumps
and kinks, where the mesh gets a knot), `describe()` (short text) and `spec()` (a JSON-able description that
`input_from_spec` reads back).
At a jump the value is the new one (right-continuous); for the left limit ask slightly before the jump.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from math import nan

import numpy as np

from picardfit.errors import InputError, counted, did_you_mean, inside, listing
from picardfit.formulas.grammar import BatchedMap, breakpoints, names, parse
from picardfit.model.parameters import as_number, is_number

NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"  # a number written as text
MISSING = frozenset(
    {"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "."}
)  # "not measured", in lower case


GRID = 257  # times, besides the samples, at which inputs are looked at before anything is computed
STEEP = 10.0  # largest value over the median from which on a pole is looked for


@dataclass(frozen=True)
class Constant:
    """The same value at all times."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", as_number(self.value, "value of an input"))

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

    def at(self, t: np.ndarray) -> np.ndarray:
        nothing = np.empty(0)
        return _compiled(self.text)[0].value(np.asarray(t, dtype=float), nothing, nothing, nothing)[..., 0]

    def describe(self) -> str:
        return self.text

    def spec(self) -> dict[str, object]:
        return {"kind": "formula", "text": self.text}


class Between(StrEnum):
    """What a table is between its times."""

    HOLD = "hold"
    LINEAR = "linear"
    MARKS = "marks"


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
    kind: Between | str = "hold"

    def __post_init__(self) -> None:
        kinds = [one.value for one in Between]
        if self.kind not in kinds:
            raise InputError(
                f"The table kind {self.kind!r} is unknown: write kind='hold', kind='linear' or kind='marks'."
                f"{did_you_mean(str(self.kind), kinds)}"
            )
        times, values = (
            number_array(self.times, "the table times"),
            number_array(self.values, "the table values"),
        )
        if len(times) != len(values):
            raise InputError(
                f"The table has {counted(len(times), 'time')} but {counted(len(values), 'value')}: "
                f"give one value per time."
            )
        order = np.argsort(times, kind="stable")
        times, values = times[order], values[order]
        if len(times) == 0:
            raise InputError("The table is empty: give at least one time and one value.")
        most = 2 if self.kind == "linear" else 1
        repeated = times[most:][times[most:] == times[:-most]]
        if len(repeated):
            raise InputError(
                f"The table has {'two' if most == 1 else 'three'} values at time {repeated[0]:g}: "
                f"keep {'one' if most == 1 else 'two'} of them."
            )
        object.__setattr__(self, "times", read_only(times))
        object.__setattr__(self, "values", read_only(values))
        object.__setattr__(self, "kind", Between(self.kind).value)

    def __reduce__(self):
        return Table, (
            self.times,
            self.values,
            self.kind,
        )  # arrays forget in a pickle that they are read-only

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.spec() == other.spec()

    def __hash__(self) -> int:
        return hash((self.kind, tuple(self.times), tuple(self.values)))

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Held: the times where the value changes. Linear: every time, as each may be a kink. Marks: none."""
        if self.kind == "marks":
            return ()
        if self.kind == "linear":
            return tuple(np.unique(self.times).tolist())
        return tuple(self.times[1:][np.diff(self.values) != 0].tolist())

    def at(self, t: np.ndarray) -> np.ndarray:
        t = np.asarray(t, dtype=float)
        if self.kind == "linear":
            return np.asarray(np.interp(t, self.times, self.values))
        if self.kind == "marks":
            middle = (self.times[1:] + self.times[:-1]) / 2
            return np.asarray(self.values[np.searchsorted(middle, t)])
        last = np.searchsorted(self.times, t, side="right") - 1
        return np.asarray(self.values[np.maximum(last, 0)])

    def describe(self) -> str:
        if len(self.times) == 1:
            return f"{self.kind} table: {self.values[0]:g}"
        return f"{self.kind} table: {len(self.times)} times from {self.times[0]:g} to {self.times[-1]:g}"

    def spec(self) -> dict[str, object]:
        return {
            "kind": "table",
            "times": self.times.tolist(),
            "values": self.values.tolist(),
            "between": self.kind,
        }


@dataclass(frozen=True)
class Signal:
    """A Python function t -> value, with the times where it jumps or bends.

    It is called with an array of times when it can handle one, else time by time.
    """

    function: Callable
    breakpoints: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"The signal {self.function!r} is not a function: pass one that takes t.")
        times = number_array(self.breakpoints, "the breakpoints")
        object.__setattr__(self, "breakpoints", tuple(np.unique(times).tolist()))

    def at(self, t: np.ndarray) -> np.ndarray:
        t = np.asarray(t, dtype=float)
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
        except Exception as error:  # the function is the user's: whatever it raises is told
            raise InputError(
                f"{_capital(self.describe())} failed at t = {time:g} with {type(error).__name__}: {error}; "
                f"it must return a number at every time of the experiment."
            ) from error
        if np.size(value) != 1 or np.asarray(value).dtype.kind not in "iufb":
            raise InputError(
                f"{_capital(self.describe())} returned {value!r} at t = {time:g}: it must return one real number."
            )
        return float(np.asarray(value).item())

    def describe(self) -> str:
        return f"function {getattr(self.function, '__name__', type(self.function).__name__)}"

    def spec(self) -> dict[str, object]:
        return {"kind": "callable", "name": self.describe(), "breakpoints": list(self.breakpoints)}


Input = Constant | Formula | Table | Signal


def as_input(name: str, spec: object) -> Input:
    """The input meant by `spec`: a number, formula in t, pair (times, values), function or Input."""
    if isinstance(spec, Input):
        return spec
    if isinstance(spec, np.ndarray):
        spec = spec.tolist()
    try:
        if is_number(spec):
            return Constant(spec)
        if isinstance(spec, str):
            return Formula(spec)
        if callable(spec):
            return Signal(spec)
        if isinstance(spec, (tuple, list)) and len(spec) == 2:
            return Table(spec[0], spec[1])
    except InputError as error:
        raise inside(f"Input `{name}`", error) from None
    raise InputError(
        f"Input `{name}` is given as {spec!r}: write a number, a formula in t, a pair (times, values), "
        f"or a function of t."
    )


def values_at(inputs: Mapping[str, Input], names: Sequence[str], times: np.ndarray) -> np.ndarray:
    """The inputs of these names side by side: (*times.shape, names)."""
    values = np.empty((*np.shape(times), len(names)))
    for column, name in enumerate(names):
        try:
            values[..., column] = inputs[name].at(times)
        except InputError as error:
            raise inside(f"Input `{name}`", error) from error
    return values


def check_finite(inputs: Mapping[str, Input], names: Sequence[str], t0: float, times: np.ndarray) -> None:
    """InputError when an input is not finite between t0 and the last of the times, or grows without limit there."""
    last = max(float(times[-1]), t0)
    grid = np.unique(np.concatenate([[t0], times, np.linspace(t0, last, GRID)]))
    for name in names:
        source = inputs[name]
        if not isinstance(source, Formula | Signal):
            continue
        values = values_at(inputs, [name], grid)[:, 0]
        wrong = np.flatnonzero(~np.isfinite(values))
        how = "with piecewise" if isinstance(source, Formula) else "with an `if`"
        remedy = f"make it finite from t = {t0:g} to {last:g} (for example {how}), or choose other times"
        if len(wrong):
            value = "infinite" if np.isinf(values[wrong[0]]) else "not a real number"
            raise InputError(
                f"Input `{name}` ({source.describe()}) is {value} at t = {grid[wrong[0]]:.6g}: {remedy}."
            )
        pole = _pole(source, grid, np.abs(values))
        if pole is not None:
            raise InputError(
                f"Input `{name}` ({source.describe()}) grows without limit at t = {pole:.6g}: {remedy}."
            )


def _pole(source: Input, grid: np.ndarray, size: np.ndarray) -> float | None:
    """A time near the largest value where |u| grows at least like 1/distance, so that no solution passes it.

    Zooming in on a pole keeps |u| times the width of the window as it is; on anything integrable it vanishes.
    """
    k = int(np.argmax(size))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    if not size[k] > STEEP * np.median(size) or not high > low:
        return None
    area, width = size[k] * (high - low), high - low
    while high - low > max(1e-9 * width, 64 * np.spacing(max(abs(low), abs(high)))):
        window = np.linspace(low, high, 33)
        values = np.abs(source.at(window))
        k = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        if not np.isfinite(values[k]):
            return float(window[k])
        low, high = window[max(k - 1, 0)], window[min(k + 1, 32)]
        if not values[k] * (high - low) > 1e-2 * area:
            return None
    return float(0.5 * (low + high))


def input_from_spec(spec: Mapping[str, object]) -> Input:
    """The input that `spec()` described; a function cannot be restored from its description."""
    match spec:
        case {"kind": "number", "value": value}:
            return Constant(value)
        case {"kind": "formula", "text": text}:
            return Formula(text)
        case {"kind": "table", "times": times, "values": values, "between": kind}:
            return Table(times, values, kind)
        case {"kind": "callable", "name": name}:
            raise InputError(
                f"An input was saved as a Python {name}, which a file cannot hold: "
                f"build the problem again, or give that input as a formula or a table."
            )
    raise InputError(
        f"The saved input {dict(spec)!r} is not known: save it again with this version of picardfit."
    )


def number_array(values: object, what: str, missing: bool = False) -> np.ndarray:
    """`values` as a new float array (n,); `missing` lets NaN, None and blank cells through as NaN.

    Text, infinities and nested sequences are InputErrors that name the entry, counted from 1.
    """
    single = isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable)
    if single or (isinstance(values, np.ndarray) and values.ndim == 0):
        raise InputError(
            f"{_capital(what)} must be a sequence of numbers, not {values!r}: write a list such as [1, 2]."
        )
    if isinstance(values, np.ma.MaskedArray):
        values = values.astype(float).filled(nan)
    if not isinstance(values, np.ndarray):
        values = list(values)
    try:
        array = np.asarray(values)
    except ValueError:  # ragged rows
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InputError(
            f"{_capital(what)} must be one flat sequence of numbers, not a table or nested lists: split it."
        )
    if array.dtype.kind in "iuf":
        array = array.astype(float)
    else:
        array = np.array([_cell(value, row, what) for row, value in enumerate(values, 1)], dtype=float)
    wrong = np.flatnonzero(np.isinf(array) if missing else ~np.isfinite(array))
    if len(wrong):
        remedy = (
            "leave it blank or NaN if it was not measured" if missing else "give a finite number or remove it"
        )
        raise InputError(f"Entry {wrong[0] + 1} of {what} is {array[wrong[0]]:g}: {remedy}.")
    return array


def read_only(array: np.ndarray) -> np.ndarray:
    """The same array, which can no longer be written to."""
    array.setflags(write=False)
    return array


@lru_cache(maxsize=256)
def _compiled(text: str) -> tuple[BatchedMap, tuple[float, ...]]:
    """The formula as a NumPy function and its breakpoints, built once for each text."""
    expression = parse(text, "The formula")
    others = sorted(names(expression) - {"t"})
    if others:
        raise InputError(
            f"The formula '{text}' uses {listing(others)}, but an input may use only the time `t`: "
            f"write numbers in their place.{did_you_mean(others[0], ['t'])}"
        )
    return BatchedMap([expression]), breakpoints([expression])


def _cell(value: object, row: int, what: str) -> float:
    """One entry of a sequence that is not all numbers."""
    if value is None or str(value).strip().lower() in MISSING:
        return nan
    if isinstance(value, str) and re.fullmatch(NUMBER, value.strip()):
        return float(value)
    if isinstance(value, date | np.datetime64):
        raise InputError(
            f"Entry {row} of {what} is a date, {value}: convert dates to numbers, such as days since the first."
        )
    if not is_number(value):
        raise InputError(
            f"Entry {row} of {what} is {value!r}, which is not a number: replace it by a number."
        )
    return as_number(value, f"entry {row} of {what}", infinite=True)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
