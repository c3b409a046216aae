"""A population fit as a JSON file: its problem, the optimum and the modes; what follows from them is computed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from picardfit import __version__
from picardfit.errors import InputError, Status
from picardfit.files.json_files import layout
from picardfit.files.sections.random import MARGINALS
from picardfit.inference.population.answer import PopulationFit, PopulationSearch
from picardfit.inference.population.at_values import study_of
from picardfit.inference.population.estimation import Box, Optimum
from picardfit.inference.population.marginals import Marginal, Quadrature
from picardfit.inference.population.objective import evaluate
from picardfit.problem.json_values import array, entries, get, get_optional, number, plain
from picardfit.problem.serialisation import notice_from, notice_record, problem_from, problem_record
from picardfit.solvers.gauss_newton.method import LiftedGaussNewton
from picardfit.whole_files import write_text

FORMAT = "picardfit population fit"
VERSION = 1


def save_population(fit: PopulationFit, path: str | Path) -> Path:
    """Write the fit with its problem; the file replaces an older one only when it is complete."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "picardfit": __version__,
        "status": fit.status.name,
        "message": fit.message,
        "marginal": _marginal_record(fit.marginal),
        "objective": fit.nllh,
        "estimates": _estimates(fit),
        "iterations": fit.iterations,
        "seconds": fit.seconds,
        "seed": fit.seed,
        "warnings": [notice_record(one) for one in fit.warnings],
        "problem": problem_record(fit.problem),
        "searches": [{**asdict(one), "status": one.status.name} for one in fit.searches],
        "optimum": None if fit.optimum is None else _optimum_record(fit.optimum),
    }
    return write_text(path, layout(plain(record, "fit")) + "\n")


def _estimates(fit: PopulationFit) -> dict[str, object]:
    """Estimates for readers of the file; loading does not use them."""
    errors, intervals = fit.errors(), fit.intervals()
    values = dict(fit.parameters)
    if fit.optimum is not None:
        values |= {f"sd({name})": one.sd for name, one in fit.population.spreads.items()}
    return {
        name: {"value": value}
        | ({"standard_error": errors[name], "interval_95": intervals[name]} if name in errors else {})
        for name, value in values.items()
    }


def _marginal_record(marginal: Marginal) -> dict[str, object]:
    name = next(name for name, kind in MARGINALS.items() if type(marginal) is kind)
    return {"name": name} | ({"nodes": marginal.nodes} if isinstance(marginal, Quadrature) else {})


def _optimum_record(optimum: Optimum) -> dict[str, object]:
    return {
        "point": optimum.at.point,
        "value": optimum.at.value,
        "lower": optimum.box.lower,
        "upper": optimum.box.upper,
        "unit": optimum.box.unit,
        "hessian": optimum.hessian,
        "steps": optimum.steps,
        "status": optimum.status.name,
    }


def population_from(record: Mapping[str, object]) -> PopulationFit:
    """The fit that a record describes."""
    version = record.get("version")
    if version != VERSION:
        raise InputError("files.unknown_version", "fit", version=version)
    problem, marginal = problem_from(get(record, "problem", dict)), _marginal(get(record, "marginal", dict))
    optimum = get_optional(record, "optimum", dict)
    return PopulationFit(
        problem=problem,
        method=LiftedGaussNewton(),
        marginal=marginal,
        optimum=None if optimum is None else _optimum(problem, marginal, optimum),
        status=_status(get(record, "status", str)),
        searches=tuple(map(_search, entries(record, "searches", dict))),
        iterations=get(record, "iterations", int),
        seconds=number(get(record, "seconds"), "seconds"),
        seed=get(record, "seed", int),
        warnings=tuple(map(notice_from, get(record, "warnings", list))),
    )


def _marginal(record: Mapping[str, object]) -> Marginal:
    name = get(record, "name", str)
    if name not in MARGINALS:
        raise InputError("files.unknown_marginal", value=name, known=list(MARGINALS))
    return Quadrature(get(record, "nodes", int)) if name == "quadrature" else MARGINALS[name]()


def _optimum(problem, marginal: Marginal, record: Mapping[str, object], tolerance: float = 1e-5) -> Optimum:
    """The optimum, evaluated again; a saved value that differs by more than rounding is damaged."""
    study = study_of(problem, marginal)
    count = study.setting.problem.layout.width + len(study.covariance.entries)
    point, lower, upper, unit = (
        array(get(record, key), (count,), key) for key in ("point", "lower", "upper", "unit")
    )
    at, value = evaluate(study, point), number(get(record, "value"), "value")
    if not abs(at.value - value) <= tolerance * (1 + abs(value)):
        raise InputError("files.saved_solution")
    hessian = get(record, "hessian")
    return Optimum(
        at,
        Box(lower, upper, unit),
        None if hessian is None else np.asarray(array(hessian, (count, count), "hessian")),
        get(record, "steps", int),
        _status(get(record, "status", str)),
    )


def _search(record: Mapping[str, object]) -> PopulationSearch:
    return PopulationSearch(
        get(record, "index", int),
        number(get(record, "objective"), "objective"),
        _status(get(record, "status", str)),
        get(record, "iterations", int),
        number(get(record, "seconds"), "seconds"),
    )


def _status(name: str) -> Status:
    if name not in Status.__members__:
        raise InputError("files.saved_status", name, known=list(Status.__members__))
    return Status[name]
