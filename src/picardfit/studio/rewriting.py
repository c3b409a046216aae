"""A problem that came from elsewhere (PEtab) as a problem file and a long table.

Every part is written where a problem file has a place for it. Parts that have none (steady states before an experiment,
inputs that are functions) are an InputError. What was written is read again and compared with the problem.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sympy

from picardfit.errors import InputError
from picardfit.files.problem_file import FILE_NAME, read_problem
from picardfit.files.sections.beliefs import NOISES, PRIORS
from picardfit.formulas.grammar import to_text
from picardfit.model.inputs import Constant, Formula, Table
from picardfit.model.parameters import Parameter
from picardfit.problem.problem import Problem
from picardfit.studio import document

MEASUREMENTS = "measurements.csv"


def rewritten(problem: Problem, title: str) -> tuple[dict[str, bytes], str]:
    """The files beside the problem file, and its text."""
    files, text = {MEASUREMENTS: _table(problem)}, _text(problem, title)
    with TemporaryDirectory() as folder:
        for name, content in {**files, FILE_NAME: text.encode()}.items():
            (Path(folder) / name).write_bytes(content)
        again = read_problem(folder)
    if not _same(problem, again):
        raise InputError("studio.too_rich", title, part="its data or unknowns")
    return files, text


def _same(problem: Problem, again: Problem) -> bool:
    """Whether the likelihood at the nominal values, or else the number of unknowns and measurements, is the same."""
    sizes = [(one.measurements, one.layout.count(), len(one.experiments)) for one in (problem, again)]
    if sizes[0] != sizes[1]:
        return False
    if problem.nominal is None:
        return True
    there, here = problem.nllh(problem.nominal), again.nllh(problem.nominal)
    return there == here or abs(there - here) <= 1e-6 * max(abs(there), 1.0)


def _table(problem: Problem) -> bytes:
    """All measurements, one a row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["experiment", "time", "observable", "value"])
    for one in problem.experiments:
        for name, column in one.observations.items():
            for time, value in zip(one.times.tolist(), column, strict=True):
                if isinstance(value, str) or value == value:
                    writer.writerow(
                        [one.name, repr(time), name, value if isinstance(value, str) else repr(float(value))]
                    )
    return out.getvalue().encode()


def _text(problem: Problem, title: str) -> str:
    model = problem.model
    text = document.new(title)
    text = document.with_equations(text, "\n".join(f"{n}' = {right}" for n, right in model.equations.items()))
    text = document.with_value(text, ("data",), MEASUREMENTS)
    if model.signals:
        text = document.with_value(text, ("inputs",), list(model.signals))
    for name, formula in model.observable_formulas.items():
        text = document.with_value(text, ("observables", name), formula)
    for name, known in problem.parameters.items():
        if name.isidentifier():  # others, such as noise.additive, stand in [noise]
            text = document.with_value(text, ("parameters", name), _belief(known))
    for name, level in _noise(problem).items():
        text = document.with_value(text, ("noise", name), level)
    for one, initial in zip(problem.experiments, problem.initial_by_experiment, strict=True):
        if one.rest is not None or one.resets:
            raise InputError("studio.too_rich", title, part="the state before the experiment " + one.name)
        entry: dict[str, Any] = {"t0": one.t0}
        entry |= (
            {"inputs": {n: _input(title, n, one.inputs[n]) for n in model.signals}} if model.signals else {}
        )
        entry |= {"initial": {state: _initial(spec) for state, spec in initial.items()}}
        for key, value in entry.items():
            text = document.with_value(text, ("experiments", one.name, key), value)
    return text


def _belief(one: Parameter) -> object:
    """A parameter as a number or a table."""
    if one.fixed is not None:
        return one.fixed
    found: dict[str, Any] = {"lower": one.lower, "upper": one.upper}
    found = {name: end for name, end in found.items() if isfinite(end)}
    flags = {name: True for name in ("log", "logit", "local", "random") if getattr(one, name)}
    prior = {} if one.prior is None else {"prior": _described(one.prior, PRIORS)}
    return {**found, **flags, **({"unit": one.unit} if one.unit else {}), **prior}


def _described(one: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    """A noise model or prior as a table with its type."""
    kind = next(name for name, made in kinds.items() if made is type(one))
    given = {part.name: getattr(one, part.name) for part in fields(one) if part.init}  # type: ignore[arg-type]
    usual = {part.name: part.default for part in fields(one)}  # type: ignore[arg-type]
    return {"type": kind, **{n: _level(v) for n, v in given.items() if v is not None and v != usual[n]}}


def _level(value: object) -> object:
    if isinstance(value, Parameter):
        return _belief(value)
    if isinstance(value, Mapping):
        return {name: _level(one) for name, one in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _noise(problem: Problem) -> dict[str, object]:
    """The section [noise]: by observable, or one for all."""
    if problem.noise is None:
        return {}
    if isinstance(problem.noise, Mapping):
        return {name: _described(one, NOISES) for name, one in problem.noise.items()}
    return _described(problem.noise, NOISES)


def _input(title: str, name: str, signal: object) -> object:
    if isinstance(signal, Constant):
        return float(signal.value)
    if isinstance(signal, Formula):
        return signal.text
    if isinstance(signal, Table):
        return {"times": signal.times.tolist(), "values": signal.values.tolist(), "kind": signal.kind}
    raise InputError("studio.too_rich", title, part=f"the input {name}")


def _initial(spec: object) -> object:
    if isinstance(spec, sympy.Expr):
        return to_text(spec)
    return _belief(spec) if isinstance(spec, Parameter) else spec
