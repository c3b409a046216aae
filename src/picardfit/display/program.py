"""A fit as Python code that repeats it: model, data, bounds and noise, method, seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import inf, isfinite
from typing import Any

import numpy as np

from picardfit.fit import Fit
from picardfit.formulas.tracing import NumericMap
from picardfit.model.doses import Doses
from picardfit.model.inputs import Constant, Formula, Signal, Table
from picardfit.model.model import Model
from picardfit.model.priors import KINDS as PRIORS
from picardfit.problem.experiment import Experiment
from picardfit.search.policy import SearchPolicy

MOST_NUMBERS = 1200  # of measured values that are written out


def program(fit: Fit) -> str | None:
    """Code that repeats the fit; None when parts of the problem are Python functions or the data are too many."""
    problem = fit.problem
    model = problem.model
    signals = [signal for one in problem.experiments for signal in one.inputs.values()]
    functions = any(isinstance(part, NumericMap) for part in (model.rhs, model.output))
    if functions or any(isinstance(one, Signal) for one in signals) or problem.measurements > MOST_NUMBERS:
        return None
    experiments = "\n".join(f"    {_experiment(one)}," for one in problem.experiments)
    beliefs = {"parameters": problem.parameters, "initial": problem.initial, "noise": problem.noise}
    beliefs |= {"derived": problem.derived}
    given = [f"    {name}={code(value)}," for name, value in beliefs.items() if value]
    method = code(fit.method)
    return "\n".join(
        [
            *(["from dataclasses import replace"] if "replace(" in method else []),
            "import picardfit as pf",
            "",
            _model(model),
            f"experiments = [\n{experiments}\n]",
            "\n".join(["problem = pf.Problem(", "    model,", "    experiments,", *given, ")"]),
            f"fit = pf.fit(problem, {method}, {starts_asked(fit)}seed={fit.seed})",
            "print(fit)",
        ]
    )


def starts_asked(fit: Fit) -> str:
    """`starts=3, ` as the fit was called."""
    starts = "" if fit.asked == 1 else f"starts={fit.asked}, "
    return starts if fit.policy == SearchPolicy() else f"{starts}policy={code(fit.policy)}, "


def code(value: object) -> str:
    """The value as a Python expression; records by those of their fields that are not at their defaults."""
    if isinstance(value, Enum):
        return f"pf.{type(value).__name__}.{value.name}"
    if isinstance(value, Constant):
        return code(value.value)
    if isinstance(value, Formula):
        return repr(value.text)
    if isinstance(value, Doses):
        lasting = f", duration={code(value.duration)}" if value.infused.any() else ""
        return f"pf.Doses({code(value.times)}, {code(value.amounts)}, into={value.into!r}{lasting})"
    if isinstance(value, np.ndarray):
        return code(value.tolist())
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{code(k)}: {code(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(code, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    if is_dataclass(value):
        return _record(value)
    if isinstance(value, float) and not isfinite(value):
        return 'float("inf")' if value == inf else 'float("-inf")' if value == -inf else "None"
    return repr(value)


def _record(value: Any) -> str:
    given = []
    for one in fields(value):
        mine = getattr(value, one.name)
        if not one.init or (not isinstance(value, Table) and mine == one.default):
            continue
        if is_dataclass(one.default):  # settings of a method, as `replace` makes them from the usual ones
            home = f"pf.{type(value).__name__}.{one.name}"
            given.append(f"{one.name}=replace({home}, {', '.join(_changes(mine))})")
        else:
            given.append(f"{one.name}={code(mine)}")
    room = "pf.priors" if isinstance(value, PRIORS) else "pf"
    return f"{room}.{type(value).__name__}({', '.join(given)})"


def _changes(settings: Any) -> list[str]:
    """The fields of a settings record that differ from their defaults, as arguments."""
    changed = [one for one in fields(settings) if getattr(settings, one.name) != one.default]
    return [f"{one.name}={code(getattr(settings, one.name))}" for one in changed]


def _model(model: Model) -> str:
    lines = model.text.strip("\n") or "\n".join(f"{name}' = {formula}" for name, formula, _ in model.written)
    plain = '"""' not in lines and "\\" not in lines
    text = f'"""\n{lines}\n"""' if plain else repr(lines)
    parts = [text, f"observables={code(model.observable_formulas)}"]
    parts += [f"inputs={code(list(model.signals))}"] if model.signals else []
    parts += [f"covariates={code(list(model.covariates))}"] if model.covariates else []
    parts += [f"units={code(dict(model.units))}"] if model.units else []
    return f"model = pf.Model({', '.join(parts)})"


def _experiment(one: Experiment) -> str:
    parts = [code(one.times), code(one.observations), f"name={one.name!r}"]
    parts += [f"inputs={code(one.inputs)}"] if one.inputs else []
    parts += [f"initial={code(one.initial)}"] if one.initial else []
    parts += [f"t0={code(one.t0)}"]
    parts += [f"rest={_record(one.rest)}"] if one.rest is not None else []
    parts += [f"calendar={one.calendar!r}"] if one.calendar is not None else []
    parts += [f"doses={code(list(one.doses))}"] if one.doses else []
    parts += [f"covariates={code(one.covariates)}"] if one.covariates else []
    parts += [f"resets={code(one.resets)}"] if one.resets else []
    return f"pf.Experiment({', '.join(parts)})"
