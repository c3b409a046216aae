"""Which experiment and which observable of the problem each row of the measurement table belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import isinf
from typing import NamedTuple

from picardfit.importers.petab.tables import MeasurementRow, Tables


class Run(NamedTuple):
    """An experiment by its conditions of pre-equilibration and simulation."""

    before: str | None
    condition: str
    settled: bool  # whether it is measured when it has come to rest

    @property
    def name(self) -> str:
        if self.settled:
            return f"{self.condition} at rest"
        return self.condition if self.before is None else f"{self.condition} after {self.before}"


def run_of(row: MeasurementRow) -> Run:
    """The experiment of a measurement."""
    return Run(row.before, row.condition, isinf(row.time))


def time_in_run(row: MeasurementRow) -> float:
    """The time of a measurement in its experiment: an experiment measured at rest begins there."""
    return 0.0 if isinf(row.time) else row.time


class Placed:
    """The observables of the problem: `members`: observable -> its rows, `name_of`: row -> its observable.

    Measurements of one observable share it when their placeholders name the same parameters and no two at
    one time have different numbers.
    """

    def __init__(self, tables: Tables, taken: Iterable[str]) -> None:
        groups: dict[tuple, list[int]] = {}
        self._numbers: dict[tuple, tuple[float, ...]] = {}
        for k, row in enumerate(tables.measurements):
            groups.setdefault(self._key(row), []).append(k)
        count = Counter(observable for observable, _, _ in groups)
        taken = set(taken)
        self.members: dict[str, list[int]] = {}
        for (observable, _, _), members in groups.items():
            unique = count[observable] == 1 and observable not in taken - tables.observables.keys()
            self.members[observable if unique else self._numbered(observable, taken)] = members
        self.name_of = {k: name for name, members in self.members.items() for k in members}

    def _key(self, row: MeasurementRow) -> tuple[str, tuple[str | None, ...], int]:
        """Observable, parameters in placeholders, and a count that separates different numbers at one time."""
        both = (*row.observable_parameters, None, *row.noise_parameters)
        words = tuple(None if isinstance(v, float) else v or "" for v in both)
        numbers = tuple(v for v in both if isinstance(v, float))
        layer = 0
        while True:
            spot = (row.observable, words, layer, row.before, row.condition, row.time)
            if self._numbers.setdefault(spot, numbers) == numbers:
                return row.observable, words, layer
            layer += 1

    def _numbered(self, observable: str, taken: set[str]) -> str:
        """The first of observable_1, observable_2, ... that nothing else is called."""
        k = 1
        while f"{observable}_{k}" in {*self.members, *taken}:
            k += 1
        return f"{observable}_{k}"
