"""A solution as a plain record that JSON can hold: how it travels from workers, and into ledgers and files of fits.

Numbers keep all their digits. What is read back is checked: arrays must have the shapes that the problem asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Mesh, Nodes, Rule, rule
from picardfit.errors import InputError
from picardfit.problem.json_values import Record, array, entries, get
from picardfit.problem.problem import Problem, Schedule, Scheduled
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class Limits:
    """What a record must meet to describe a solution."""

    nodes: int = 200  # of a segment; only a damaged file has more
    slack: float = 1e-9  # of the first and last knot, relative to the times: rounding on another machine


def as_record(content: object) -> Record:
    """The content of a file, which must be a mapping by texts."""
    if not isinstance(content, dict):
        raise InputError("search.not_a_record", value=content)
    return content


def solution_record(solution: Solution) -> Record:
    """Mesh, unknowns, states, path and jumps of a solution."""
    mesh = solution.system.mesh
    arrays = {key: getattr(solution, key) for key in ("unknowns", "states", "path", "jumps")}
    if not all(np.isfinite(values).all() for values in arrays.values()):
        raise InputError("search.path_not_finite")
    record: Record = {"nodes": mesh.rule.nodes, "knots": mesh.knots, **arrays}
    if solution.system.problem.timed is not None:
        record["lengths"] = mesh.length
        record["schedule"] = [
            [[one.knot, list(one.events), one.at, one.before] for one in own] for own in mesh.schedule
        ]
    return record


def solution_of(problem: Problem, record: Record, limits: Limits = Limits()) -> Solution:
    """The solution that a record describes."""
    nodes = array(get(record, "nodes"), (None,), "nodes")
    mesh = Mesh(_rule(nodes, limits), _knots(problem, record, limits))
    if problem.timed is not None:
        lengths = array(get(record, "lengths"), (len(mesh),), "lengths")
        mesh = replace(mesh, schedule=_schedule(problem, get(record, "schedule")), lengths=lengths)
    states, segments = len(problem.solved_model.states), len(mesh)
    shapes = {
        "unknowns": (len(problem.experiments), problem.layout.width),
        "states": (segments, states),
        "path": (segments, len(mesh.rule.nodes), states),
        "jumps": (len(mesh.linked), states),
    }
    arrays = {key: array(get(record, key), shape, key) for key, shape in shapes.items()}
    if not all(np.isfinite(values).all() for values in arrays.values()):
        raise InputError("search.saved_not_finite")
    if problem.timed is not None:
        mesh = replace(mesh, clock=arrays["states"][:, -1])
    return Solution(Discretisation(problem, mesh), **arrays)


def _schedule(problem: Problem, content: object) -> Schedule:
    """What happens when, of each experiment; InputError where a record does not say that."""
    assert problem.timed is not None
    events = len(problem.timed.fitted.events)
    try:
        found = tuple(
            tuple(
                Scheduled(
                    float(knot),
                    tuple(int(k) for k in fired),
                    None if at is None else float(at),
                    int(before),
                )
                for knot, fired, at, before in own
            )
            for own in content  # type: ignore[attr-defined]
        )
    except (TypeError, ValueError):
        raise InputError("search.saved_schedule") from None
    known = all(0 <= k < events for own in found for one in own for k in one.events)
    if len(found) != len(problem.experiments) or not known:
        raise InputError("search.saved_schedule")
    return found


def trace_of(values: object) -> np.ndarray:
    """(iterations, 3), as `Fit.trace`."""
    return array(values, (None, 3), "trace")


def _rule(nodes: np.ndarray, limits: Limits) -> Rule:
    """The rule with these nodes, the very object if it is of a known family: the solvers compare by identity."""
    inside = (nodes[:1] >= 0).all() and (nodes[-1:] <= 1).all() and (np.diff(nodes) > 0).all()
    if not 1 <= len(nodes) <= limits.nodes or not inside:
        raise InputError("search.saved_nodes", most=limits.nodes)
    families = [rule(len(nodes), family) for family in Nodes if len(nodes) > 1 or family is not Nodes.LOBATTO]
    return next((one for one in families if np.array_equal(one.nodes, nodes)), Rule(nodes))


def _knots(problem: Problem, record: Record, limits: Limits) -> tuple[np.ndarray, ...]:
    every = [array(one, (None,), "knots") for one in entries(record, "knots", list)]
    if len(every) != len(problem.experiments):
        raise InputError("search.saved_knots")
    for e, knots in enumerate(every):
        begin, end = problem.span(e)
        slack = limits.slack * max(abs(begin), abs(end), 1.0)
        increasing = len(knots) > 1 and np.isfinite(knots).all() and (np.diff(knots) > 0).all()
        if not increasing or abs(knots[0] - begin) > slack or knots[-1] < end - slack:
            raise InputError("search.saved_knots_of", problem.names[e], begin=begin, end=end)
    return tuple(every)
