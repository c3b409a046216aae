"""Properties that hold for random examples: a few in every run, many in the slow one, always the same ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much]


class Properties:
    """The properties of one test file.

    `holds` makes a test of a property; `many`, assigned to a name that begins with `test_`, repeats all of them.
    """

    def __init__(self, few: int = 25, many: int = 1000) -> None:
        self._few, self._many = few, many
        self._every: list[Callable] = []

    def holds(self, **examples: SearchStrategy) -> Callable[[Callable], Callable]:
        def test_of(check: Callable) -> Callable:
            self._every.append(check_with(check, self._many, examples))
            return check_with(check, self._few, examples)

        return test_of

    def many(self) -> Callable:
        @pytest.mark.slow
        @pytest.mark.parametrize("check", self._every, ids=lambda check: check.__name__)
        def test_many_examples(check):
            check()

        return test_many_examples


def check_with(check: Callable, count: int, examples: dict[str, SearchStrategy]) -> Callable:
    """The check as a function without arguments that tries so many examples."""
    chosen = settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=QUIET
    )
    return chosen(given(**examples)(check))
