"""A fit as a JSON file: `save` writes it with its problem, `load` rebuilds it without fitting anything again.

Numbers are written with all their digits, so that what is read back is equal bit for bit. Everything read is
checked: formulas go through the same parser as the user's, arrays must have the shapes the problem asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

import numpy as np

from picardfit.checks import is_whole
from picardfit.collocation.adaptation import state_scale
from picardfit.collocation.mesh import Nodes
from picardfit.collocation.picard import residual
from picardfit.errors import InputError, Notice, Status
from picardfit.evidence.certificate import NOTHING_CERTIFIED, Certificate, path_rows
from picardfit.evidence.optima import StartResult
from picardfit.files.json_files import layout, read_json, write_text
from picardfit.files.sections.settings import METHODS as METHODS_BY_FILE_NAME
from picardfit.fit import Fit
from picardfit.problem.records import array, entries, get, get_optional, number, plain
from picardfit.problem.serialisation import notice_from, notice_record, problem_from, problem_record
from picardfit.search.solution_record import solution_of, solution_record, trace_of
from picardfit.solvers.loop import Method, Solution
from picardfit.solvers.picard_gradient.sets import Ball, Box, ConvexSet, HalfSpace, Product, Simplex

T = TypeVar("T")

FORMAT = "picardfit fit"
VERSION = 1
METHODS = {kind.__name__: kind for kind in METHODS_BY_FILE_NAME.values()}
SETS: dict[str, type] = {kind.__name__: kind for kind in (Box, Ball, HalfSpace, Simplex, Product)}


def save(fit: Fit, path: str | Path) -> Path:
    """Write the fit with its problem; the file replaces an older one only when it is complete."""
    from picardfit import __version__

    record = {
        "format": FORMAT,
        "version": VERSION,
        "picardfit": __version__,
        "status": fit.status.name,
        "message": fit.message,
        "loss": fit.loss,
        "objective": fit.objective,
        "estimates": _estimates(fit),
        "iterations": fit.iterations,
        "seconds": fit.seconds,
        "seed": fit.seed,
        "warnings": [notice_record(one) for one in fit.warnings],
        "method": _method_record(fit.method),
        "problem": problem_record(fit.problem),
        "certificate": None if fit.solution is None else asdict(fit.certificate),
        "asked": fit.asked,
        "starts": [{**asdict(one), "status": one.status.name} for one in fit.starts],
        "solution": None if fit.solution is None else solution_record(fit.solution),
        "trace": fit.trace,
    }
    return write_text(path, layout(plain(record, "the fit")) + "\n")


def load(path: str | Path) -> Fit:
    """The fit that `fit.save(path)` wrote."""
    record = _read(Path(path))
    try:
        return _fit(record)
    except InputError as error:
        raise error.within("files.damaged", str(path)) from None


# ---- fit -> record -----------------------------------------------------------------------------------------


def _estimates(fit: Fit) -> dict[str, dict[str, object]]:
    """Every estimate by name, for readers of the file; `load` does not use it."""
    errors, intervals = fit.standard_errors, fit.intervals()
    values = dict(fit.parameters)
    values |= {f"{s}(0)[{e}]": x for e, states in fit.initial_states.items() for s, x in states.items()}
    if len(fit.problem.experiments) == 1:
        values = {name.replace(f"(0)[{fit.problem.names[0]}]", "(0)"): x for name, x in values.items()}
    return {
        name: {"value": value}
        | ({"standard_error": errors[name], "interval_95": intervals[name]} if name in errors else {})
        for name, value in values.items()
    }


def _method_record(method: Method) -> dict[str, object]:
    kind = type(method)
    if METHODS.get(kind.__name__) is not kind:
        raise InputError("files.method_not_ours", kind.__name__, known=list(METHODS))
    values = {name: _setting_record(getattr(method, name)) for name in dataclass_fields(kind)}
    return {"name": kind.__name__, "settings": values}


def _setting_record(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        inner = {name: _setting_record(getattr(value, name)) for name in dataclass_fields(type(value))}
        name = type(value).__name__
        return {"set": name, **inner} if SETS.get(name) is type(value) else inner
    return [_setting_record(one) for one in value] if isinstance(value, tuple) else value


def dataclass_fields(kind: type) -> dict[str, Field[object]]:
    """The fields of a dataclass by name."""
    return {one.name: one for one in fields(kind)}


# ---- record -> fit -----------------------------------------------------------------------------------------


def _read(path: Path) -> dict[str, object]:
    record = read_json(path)
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise InputError("files.not_a_fit", str(path))
    version = record.get("version")
    if not is_whole(version) or version < 1:
        raise InputError("files.unknown_version", str(path), version=version)
    if version > VERSION:
        raise InputError("files.newer_version", str(path), writer=record.get("picardfit"))
    return record


def _fit(record: Mapping[str, object]) -> Fit:
    problem = problem_from(get(record, "problem", dict))
    certificate, solution = (get_optional(record, key, dict) for key in ("certificate", "solution"))
    if (certificate is None) != (solution is None):
        raise InputError("files.saved_solution_alone")
    fit = Fit(
        problem=problem,
        method=_method(get(record, "method", dict)),
        solution=None if solution is None else solution_of(problem, solution),
        status=_status(get(record, "status", str)),
        certificate=NOTHING_CERTIFIED if certificate is None else _certificate(certificate),
        iterations=get(record, "iterations", int),
        seconds=number(get(record, "seconds"), "seconds"),
        seed=get(record, "seed", int),
        starts=tuple(_start(one) for one in entries(record, "starts", dict)),
        trace=trace_of(get(record, "trace")),
        warnings=tuple(_warning(one) for one in get(record, "warnings", list)),
        asked=get_optional(record, "asked", int),
    )
    if fit.solution is not None:
        _check_solution(fit, fit.solution, number(get(record, "objective"), "objective"))
    return fit


def _warning(record: object) -> Notice:
    notice = notice_from(record)
    if isinstance(notice, str):
        raise InputError("problem.saved_notice", value=record)
    return notice


def _check_solution(fit: Fit, solution: Solution, value: float, tolerance: float = 1e-6) -> None:
    """The saved path must give the saved objective and Picard residual, so that changed numbers do not pass as a fit.

    `tolerance`: the relative difference that rounding on another machine can make; changes by hand are larger.
    """
    problem, system = fit.problem, solution.system
    with np.errstate(all="ignore"):
        params = system.spread(system.parameters(solution.unknowns))
        gap = residual(system.field, solution.states, solution.path, params)
        largest = np.abs(gap / state_scale(problem, [solution.path])).max()
        if problem.noise is None:
            size = max(abs(value), tolerance * problem.mean_loss(problem.least_squares.nothing))
        else:
            size = problem.objective.size(path_rows(solution), value)
        same_loss = abs(fit.objective - value) <= tolerance * size
        same_gap = abs(largest - fit.certificate.picard_residual) <= tolerance * (1 + largest)
    if not (same_loss and same_gap):
        raise InputError("files.saved_solution")


def _method(record: Mapping[str, object]) -> Method:
    name, values = get(record, "name", str), get(record, "settings", dict)
    if name not in METHODS:
        raise InputError("files.saved_method", name, known=list(METHODS))
    return _from_settings(METHODS[name], values)


def _from_settings(kind: type[T], settings: Mapping[str, object]) -> T:
    """A method, or a record of its settings, from the values of its fields."""
    known = {name: one.default for name, one in dataclass_fields(kind).items()}
    if not known.keys() >= settings.keys():
        raise InputError(
            "files.saved_settings", kind.__name__, unknown=sorted(settings.keys() - known.keys())
        )
    return kind(**{key: _setting(key, value, known[key]) for key, value in settings.items()})


def _setting(key: str, value: object, default: object) -> object:
    """A setting of the same type as its default; a default of None also stands for numbers and sets."""
    if isinstance(default, Nodes):
        families = [one.value for one in Nodes]
        if value not in families:
            raise InputError("files.saved_choice", key, value=value, known=families)
        return Nodes(value)
    if is_dataclass(default):
        return _from_settings(type(default), get({key: value}, key, dict))
    if default is None and (value is None or isinstance(value, dict)):
        return None if value is None else _convex_set(value)
    if isinstance(default, tuple):
        return tuple(array(value, (None,), key).tolist())
    if isinstance(default, int) or (default is None and isinstance(value, int)):
        if not is_whole(value):
            raise InputError("files.saved_whole", key, value=value)
        return value
    return number(value, key)


def _convex_set(record: object) -> ConvexSet:
    kind = SETS.get(get(record, "set", str)) if isinstance(record, dict) else None
    if not isinstance(record, dict) or kind is None:
        raise InputError("files.saved_set", value=record, known=list(SETS))
    wanted = list(dataclass_fields(kind))
    if set(wanted) != record.keys() - {"set"}:
        raise InputError("files.saved_set_entries", kind.__name__, wanted=wanted)
    if kind is Product:
        factors = [_convex_set(one) for one in entries(record, "sets", dict)]
        return Product(tuple(factors), tuple(entries(record, "sizes", int)))
    return kind(**{key: _vector(record[key], key) for key in wanted})


def _vector(value: object, where: str) -> float | tuple[float, ...]:
    return tuple(array(value, (None,), where).tolist()) if isinstance(value, list) else number(value, where)


def _certificate(record: Mapping[str, object]) -> Certificate:
    def value(key: str) -> float:
        return number(get(record, key), key)

    judged = record.get("undetermined") is not None
    return Certificate(
        picard_residual=value("picard_residual"),
        largest_jump=value("largest_jump"),
        loss=value("loss"),
        reintegrated_loss=value("reintegrated_loss"),
        mismatch=value("mismatch"),
        gradient=value("gradient"),
        at_bound=tuple(entries(record, "at_bound", str)),
        undetermined=tuple(entries(record, "undetermined", str)) if judged else None,
        segments=get(record, "segments", int),
        nodes=get(record, "nodes", int),
    )


def _start(record: Mapping[str, object]) -> StartResult:
    parameters = get(record, "parameters", dict)
    return StartResult(
        start=get(record, "start", int),
        loss=number(get(record, "loss"), "loss"),
        status=_status(get(record, "status", str)),
        iterations=get(record, "iterations", int),
        seconds=number(get(record, "seconds"), "seconds"),
        parameters={name: number(value, name) for name, value in parameters.items()},
        cluster=get_optional(record, "cluster", int),
    )


def _status(name: str) -> Status:
    if name not in Status.__members__:
        raise InputError("files.saved_status", name, known=list(Status.__members__))
    return Status[name]
