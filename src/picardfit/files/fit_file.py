"""A fit as a JSON file: `save` writes it with its problem, `load` rebuilds it without fitting anything again.

Numbers are written with all their digits, so that what is read back is equal bit for bit. Everything read is
checked: formulas go through the same parser as the user's, arrays must have the shapes the problem asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

import numpy as np

from picardfit.checks import is_whole
from picardfit.collocation.adaptation import state_scale
from picardfit.collocation.mesh import Nodes
from picardfit.collocation.picard import residual
from picardfit.errors import InputError, Status, concerning
from picardfit.evidence.certificate import NOTHING_CERTIFIED, Certificate, path_rows
from picardfit.evidence.optima import SearchSummary
from picardfit.files.json_files import layout, read_json
from picardfit.files.population_file import FORMAT as POPULATION_FORMAT
from picardfit.files.population_file import population_from
from picardfit.files.sections.settings import METHODS as METHODS_BY_FILE_NAME
from picardfit.fit import Fit
from picardfit.problem.json_values import array, entries, get, get_optional, number, plain
from picardfit.problem.named_values import parameters_of
from picardfit.problem.problem import Problem
from picardfit.problem.serialisation import notice_from, notice_record, problem_from, problem_record
from picardfit.search.policy import SearchPolicy
from picardfit.search.solution_record import solution_of, solution_record, trace_of
from picardfit.solvers.loop import Method, Solution
from picardfit.solvers.picard_gradient.sets import Ball, Box, ConvexSet, HalfSpace, Product, Simplex
from picardfit.whole_files import sound_path, write_text

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
        **({"derived": derived_record(fit)} if fit.derived else {}),
        "criteria": criteria_record(fit),
        "diagnostics": diagnostics_record(fit),
        "iterations": fit.iterations,
        "seconds": fit.seconds,
        "seed": fit.seed,
        "warnings": [notice_record(one) for one in fit.warnings],
        "method": _method_record(fit.method),
        "problem": problem_record(fit.problem),
        "certificate": None if fit.solution is None else asdict(fit.certificate),
        "asked": fit.asked,
        "policy": _setting_record(fit.policy),
        "searches": [{**asdict(one), "status": one.status.name} for one in fit.searches],
        "solution": None if fit.solution is None else solution_record(fit.solution),
        "trace": fit.trace,
    }
    return write_text(path, layout(plain(record, "fit")) + "\n")


def load(path: str | Path) -> Fit:
    """The fit that `fit.save(path)` wrote."""
    try:
        record = _read(sound_path(path))
        with concerning("files.damaged"):
            if record.get("format") == POPULATION_FORMAT:
                return cast("Fit", population_from(record))  # it has the face of a Fit
            return _fit(record)
    except InputError as error:
        raise error.at(file=str(path)) from None


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


def derived_record(fit: Fit, level: float = 0.95) -> dict[str, dict[str, object]]:
    """Every derived quantity by name, for readers; `load` computes them again."""
    profiled = {name: one.interval(level) for name, one in fit.derived_profiles.items() if level <= one.level}
    return {
        name: {
            "value": one.value,
            "standard_error": one.standard_error,
            f"interval_{100 * level:g}": one.interval(level),
            **({f"profile_{100 * level:g}": profiled[name]} if name in profiled else {}),
            "unit": one.unit,
            "formula": one.formula,
        }
        for name, one in fit.derived.items()
    }


def criteria_record(fit: Fit) -> dict[str, object]:
    """What models are compared by, for readers; None where it is not defined."""
    solved = fit.solution is not None and fit.status.converged
    return {
        "log_likelihood": fit.log_likelihood if solved else None,
        "estimated": fit.estimated,
        "measurements": fit.problem.measurements,
        "aic": fit.aic if solved else None,
        "aicc": fit.aicc if solved else None,
        "bic": fit.bic if solved else None,
    }


def diagnostics_record(fit: Fit) -> dict[str, object]:
    """The tests of the residuals, for readers."""
    found = fit.diagnostics
    return {
        "runs": found.runs,
        "normality": found.normality,
        "outliers": found.outliers,
        "reduced_chi_square": found.chi_square,
        "autocorrelation": {name: vars(one) for name, one in found.autocorrelation.items()},
        "cross_correlation": {
            name: {by: vars(one) for by, one in several.items()}
            for name, several in found.cross_correlation.items()
        },
        "irregular_times": found.irregular,
        "remarks": [notice_record(one) for one in found.remarks],
    }


def _method_record(method: Method) -> dict[str, object]:
    kind = type(method)
    if METHODS.get(kind.__name__) is not kind:
        raise InputError("files.method_not_ours", kind.__name__, known=list(METHODS))
    return {"name": kind.__name__, "settings": _setting_record(method)}


def _setting_record(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        name = type(value).__name__
        record = {"set": name} if SETS.get(name) is type(value) else {}
        return record | {one.name: _setting_record(getattr(value, one.name)) for one in fields(value)}
    return [_setting_record(one) for one in value] if isinstance(value, tuple) else value


# ---- record -> fit -----------------------------------------------------------------------------------------


def _read(path: Path) -> dict[str, object]:
    record = read_json(path)
    if not isinstance(record, dict) or record.get("format") not in (FORMAT, POPULATION_FORMAT):
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
        status=_status(get(record, "status"), "status"),
        certificate=NOTHING_CERTIFIED if certificate is None else _from_fields(Certificate, certificate),
        iterations=get(record, "iterations", int),
        seconds=number(get(record, "seconds"), "seconds"),
        seed=get(record, "seed", int),
        searches=tuple(_search(one, problem) for one in entries(record, "searches", dict)),
        trace=trace_of(get(record, "trace")),
        warnings=tuple(map(notice_from, get(record, "warnings", list))),
        policy=_from_fields(SearchPolicy, get(record, "policy", dict)),
        asked=get(record, "asked", int),
    )
    if fit.solution is not None:
        _check_solution(fit, fit.solution, number(get(record, "objective"), "objective"))
    return fit


def _search(record: Mapping[str, object], problem: Problem) -> SearchSummary:
    one: SearchSummary = _from_fields(SearchSummary, record)
    if (
        one.cluster is not None
        and one.parameters.keys() != parameters_of(problem, problem.layout.lower).keys()
    ):
        raise InputError("files.saved_search", str(one.start))
    return one


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
    return _from_fields(METHODS[name], values)


def _from_fields(kind: type, record: Mapping[str, object]) -> Any:
    """A dataclass from the values of its fields; fields that are left out keep their defaults."""
    known = {one.name: one for one in fields(kind)}
    if unknown := sorted(record.keys() - known.keys()):
        raise InputError("files.saved_settings", kind.__name__, unknown=unknown)
    given = [one for one in known.values() if one.name in record or one.default is MISSING]
    return kind(**{one.name: _field_value(one, get(record, one.name)) for one in given})


def _field_value(one: Field[object], value: object) -> object:
    """The value of a field by its annotation, or by its default where that is a record of settings."""
    if is_dataclass(one.default):
        if value is None and "None" in str(one.type):
            return None
        return _from_fields(type(one.default), get({one.name: value}, one.name, dict))
    kind, optional, _ = str(one.type).partition(" | None")
    return None if optional and value is None else READERS[kind](value, one.name)


def _whole(value: object, subject: str) -> int:
    if not is_whole(value):
        raise InputError("files.saved_whole", subject, value=value)
    return value


def _floats(value: object, subject: str) -> tuple[float, ...]:
    return tuple(array(value, (None,), subject).tolist())


def _status(value: object, subject: str) -> Status:
    name = get({subject: value}, subject, str)
    if name not in Status.__members__:
        raise InputError("files.saved_status", name, known=list(Status.__members__))
    return Status[name]


def _nodes(value: object, subject: str) -> Nodes:
    families = [one.value for one in Nodes]
    if value not in families:
        raise InputError("files.saved_choice", subject, value=value, known=families)
    return Nodes(value)


def _convex_set(record: object, subject: str = "set") -> ConvexSet:
    kind = SETS.get(get(record, "set", str)) if isinstance(record, dict) else None
    if not isinstance(record, dict) or kind is None:
        raise InputError("files.saved_set", value=record, known=list(SETS))
    values = {name: value for name, value in record.items() if name != "set"}
    wanted = [one.name for one in fields(kind)]
    if set(wanted) != values.keys():
        raise InputError("files.saved_set_entries", kind.__name__, wanted=wanted)
    return _from_fields(kind, values)


READERS: dict[str, Callable[[object, str], object]] = {  # annotation of a field -> how its value is read
    "float": number,
    "int": _whole,
    "Vector": lambda value, name: (_floats if isinstance(value, list) else number)(value, name),
    "tuple[float, ...]": _floats,
    "tuple[int, ...]": lambda value, name: tuple(entries({name: value}, name, int)),
    "tuple[str, ...]": lambda value, name: tuple(entries({name: value}, name, str)),
    "dict[str, float]": lambda value, name: {
        key: number(one, key) for key, one in get({name: value}, name, dict).items()
    },
    "Status": _status,
    "Nodes": _nodes,
    "ConvexSet": _convex_set,
    "tuple[ConvexSet, ...]": lambda value, name: tuple(map(_convex_set, entries({name: value}, name, dict))),
}
