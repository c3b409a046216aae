"""How far every step is: the mark beside its name in the rail, and a few words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from picardfit.studio.desk import Desk
from picardfit.studio.job import Phase

WRONG, DONE, OPEN = "wrong", "done", ""
BROKEN = "did not end well"  # of a fit
BELIEFS = (
    "parameters",
    "initial",
    "noise",
    "units",
    "experiments",
    "fit",
    "random",
    "doses",
    "t0",
    "derived",
)


class Mark(NamedTuple):
    """How a step looks, and what stands below its name."""

    look: str
    words: str

    @property
    def shown(self) -> str:
        return "needs a look" if self.look == WRONG and self.words != BROKEN else self.words


def marks_of(desk: Desk) -> dict[str, Mark]:
    """name of a step -> its mark; a step without one is never done."""
    return {name: mark(desk) for name, mark in MARKS.items()}


def fit_mark(desk: Desk) -> Mark:
    """Of the last fit."""
    failed = desk.fitting.phase is Phase.FAILED
    return Mark(_look(failed, desk.is_fitted), _fit_words(desk))


def _data(desk: Desk) -> Mark:
    reading = desk.reading
    many = f"{len(reading.tables)} tables, " if len(reading.tables) > 1 else ""
    words = f"{many}{reading.rows:,} rows" if reading.tables else ""
    wrong = reading.about("data", "time", "covariates", "")
    return Mark(_look(wrong, reading.tables), words)


def _equations(desk: Desk) -> Mark:
    model = desk.reading.model
    wrong = desk.reading.about("equations", "observables", "inputs")
    if model is None:
        return Mark(_look(wrong, False), "")
    return Mark(
        _look(wrong, True),
        f"{_count(len(model.states), 'state')}, {_count(len(model.parameters), 'parameter')}",
    )


def _play(desk: Desk) -> Mark:
    problem = None if desk.reading.file is None else desk.reading.file.problem
    words = "" if problem is None else _count(problem.layout.count(), "unknown")
    return Mark(_look(desk.reading.about(*BELIEFS), problem is not None), words)


def _check(desk: Desk) -> Mark:
    substance, record = desk.checked
    return Mark(_look(False, bool(record) and substance == desk.substance and not record.get("errors")), "")


def _answer(desk: Desk) -> Mark:
    stale = desk.is_fitted and desk.is_stale
    return Mark(_look(False, desk.is_fitted), "of an earlier problem" if stale else "")


MARKS: Mapping[str, Callable[[Desk], Mark]] = {
    "data": _data,
    "equations": _equations,
    "play": _play,
    "check": _check,
    "fit": fit_mark,
    "answer": _answer,
}


def _look(wrong: object, done: object) -> str:
    return WRONG if wrong else DONE if done else OPEN


def _fit_words(desk: Desk) -> str:
    match desk.fitting.phase:
        case Phase.FAILED:
            return BROKEN
        case Phase.ENDED:
            return "stopped" if desk.fitting.result.get("stopped") else "ended"
    return "done" if desk.is_fitted else ""


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
