"""The ending of a search as a plain record that JSON can hold: how it is kept in a ledger."""

from __future__ import annotations

from picardfit.errors import Status
from picardfit.problem.json_values import Record, array, get, get_optional, number
from picardfit.search.searches import Ending
from picardfit.search.solution_record import as_record, solution_record, trace_of
from picardfit.solvers.loop import Solution


def encoded(ending: Ending) -> Record:
    solution = ending.solution
    return {
        "status": ending.status.name,
        "value": ending.value,
        "iterations": ending.iterations,
        "seconds": ending.seconds,
        "jump": ending.jump,
        "unknowns": ending.unknowns,
        "solution": solution_record(solution) if isinstance(solution, Solution) else solution,
        "trace": ending.trace,
        "work": ending.work,
    }


def decoded(content: object) -> Ending:
    record = as_record(content)
    unknowns, trace = get_optional(record, "unknowns", list), get_optional(record, "trace", list)
    return Ending(
        Status[get(record, "status", str)],
        number(get(record, "value"), "value"),
        get(record, "iterations", int),
        number(get(record, "seconds"), "seconds"),
        number(get(record, "jump"), "jump"),
        None if unknowns is None else array(unknowns, (None, None), "unknowns"),
        get_optional(record, "solution", dict),
        None if trace is None else trace_of(trace),
        number(get(record, "work"), "work"),
    )
