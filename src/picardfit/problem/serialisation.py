"""A problem as plain records (numbers, texts, lists and dictionaries) and back, and digests that identify a problem.

Files are checked as strictly as what a user writes: formulas go through the same parser, and bounds, noise levels and
inputs through the same constructors.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from picardfit.checks import is_number
from picardfit.errors import InputError, Notice
from picardfit.formulas.algebra import names
from picardfit.formulas.events import event_text
from picardfit.formulas.grammar import parse
from picardfit.formulas.kernels import BatchedMap
from picardfit.model import noise_models, priors
from picardfit.model.added_inputs import INFUSION
from picardfit.model.derived import Derived
from picardfit.model.doses import Doses, doses_from_spec
from picardfit.model.events import Event, read_event
from picardfit.model.inputs import Input, Signal, input_from_spec
from picardfit.model.model import Model, inside_increment
from picardfit.model.noise_models import NoiseModel
from picardfit.model.number_arrays import CENSORED
from picardfit.model.parameters import Parameter, as_parameter
from picardfit.model.random_effects import RandomEffects
from picardfit.problem.calendar import Calendar
from picardfit.problem.experiment import Experiment
from picardfit.problem.json_values import Record, array, entries, get, get_optional, number, plain
from picardfit.problem.problem import Problem
from picardfit.problem.rest import Rest

NOISES: dict[str, type[NoiseModel]] = {kind.__name__: kind for kind in noise_models.KINDS}
PRIORS: dict[str, type[priors.Prior]] = {kind.__name__: kind for kind in priors.KINDS}
# of events that were read from other formats: their texts do not say it
EVENT_FLAGS = ("begins_false", "may_stay", "fleeting", "at_zero", "early")

T = TypeVar("T")


def problem_record(problem: Problem) -> Record:
    """The problem as records; an InputError if its equations, observables or inputs are Python functions."""
    derived = {name: vars(one) for name, one in problem.derived.items()}
    return {
        "model": _model_record(problem.model),
        "parameters": {name: _parameter_record(one) for name, one in problem.parameters.items()},
        "initial": {name: _initial_record(name, one) for name, one in problem.initial.items()},
        "truth": problem.truth,
        "noise": _noise_record(problem.noise),
        "nominal": problem.nominal,
        "random": _random_record(problem.random),
        "experiments": [_experiment_record(one) for one in problem.experiments],
        **({"derived": derived} if derived else {}),
    }


def problem_from(record: Record) -> Problem:
    """Build the problem that `problem_record` described."""
    noise = get(record, "noise")
    return Problem(
        _model_from(get(record, "model", dict)),
        [_experiment_from(one) for one in entries(record, "experiments", dict)],
        parameters=_initial_from(get(record, "parameters", dict)),
        initial=_initial_from(get(record, "initial", dict)),
        truth=get_optional(record, "truth", dict),
        noise=None if noise is None else _noise_from(noise),
        nominal=get_optional(record, "nominal", dict),
        random=_random_from(record.get("random")),
        derived=_derived_from(get(record, "derived", dict) if "derived" in record else {}),
    )


def _random_record(random: RandomEffects | None) -> Record | None:
    if random is None:
        return None
    groups = [list(group) for group in random.correlated]
    record: Record = {"correlated": groups, "start": dict(random.start), "fixed": dict(random.fixed)}
    if random.priors:
        record["priors"] = {name: _kind_record(one) for name, one in random.priors.items()}
    return record


def _random_from(record: object) -> RandomEffects | None:
    if record is None:
        return None
    known = ("correlated", "start", "fixed", "priors")
    if not isinstance(record, dict) or not record.keys() <= set(known):
        raise InputError("problem.saved_random", value=record, known=known)
    given = get(record, "priors", dict) if "priors" in record else {}
    priors = {name: _kind_from(one, PRIORS, "prior", name) for name, one in given.items()}
    return RandomEffects(**{**record, "priors": priors})


def _derived_from(record: Record) -> dict[str, Derived]:
    return {
        name: Derived(*(get(get(record, name, dict), key, str) for key in ("formula", "unit")))
        for name in record
    }


# ---- model ---------------------------------------------------------------------------------------------------------


def _model_record(smoothed: Model) -> Record:
    model = smoothed.as_written
    for part, mapping in (("equations", model.rhs), ("observables", model.output)):
        if not isinstance(mapping, BatchedMap):
            raise InputError("problem.function_not_saved", part)
    added: Record = {"covariates": list(model.covariates), "infused": list(model.infused)}
    if not model.text:
        added |= {"events": [one.text for one in model.events]}
        added |= {
            flag: [k for k, one in enumerate(model.events) if getattr(one, flag)] for flag in EVENT_FLAGS
        }
    record: Record = {
        "text": model.text,
        "states": list(model.states),
        "parameters": list(model.parameters),
        "inputs": list(model.inputs),
        "equations": model.equations,
        "observables": model.observable_formulas,
        "units": dict(model.units),
        **{key: value for key, value in added.items() if value},
    }
    if smoothed.smoothing:
        record["smoothing"] = dict(smoothed.smoothing)
    _model_from(record)  # refuse now what could not be read back, not when the file is loaded
    return record


def _model_from(record: Record) -> Model:
    """Build a model; one without text was traced from a function, and its names keep the saved order."""
    states, parameters, inputs = (
        tuple(entries(record, key, str)) for key in ("states", "parameters", "inputs")
    )
    equations, observables = get(record, "equations", dict), get(record, "observables", dict)
    text, units = get(record, "text", str), get(record, "units", dict)
    covariates, infused = (tuple(_texts(record, key)) for key in ("covariates", "infused"))
    if text:
        rates_of = {INFUSION + name for name in infused}
        model = Model(text, observables, [n for n in inputs if n not in rates_of], units, covariates)
        model = model.with_infusions(infused)
    else:
        changes = {
            name: inner for name, one in observables.items() if (inner := inside_increment(one)) is not None
        }
        rates, outputs = (
            {name: parse(formula) for name, formula in group.items()}
            for group in (equations, {**observables, **changes})
        )
        every = ("t", *rates, *parameters, *inputs)
        used = {name for expression in (*rates.values(), *outputs.values()) for name in names(expression)}
        if len(set(every)) < len(every) or not used.issubset(every):
            raise InputError("problem.saved_names")
        events = [_event_from(record, k, one, states) for k, one in enumerate(_texts(record, "events"))]
        model = Model.from_expressions(
            rates, outputs, parameters, inputs, units, tuple(changes), covariates, infused, events=events
        )
    if (model.states, model.parameters, model.inputs) != (states, parameters, inputs):
        raise InputError("problem.saved_names")
    widths = get(record, "smoothing", dict) if "smoothing" in record else {}
    return model.smoothed({str(formula): number(width, "smoothing") for formula, width in widths.items()})


def _event_from(record: Record, number: int, text: str, states: tuple[str, ...]) -> Event:
    """An event from its text, with the flags that it has in the record."""
    event, _ = read_event(event_text(text), states, {})
    flags: dict[str, Any] = {
        flag: flag in record and number in entries(record, flag, int) for flag in EVENT_FLAGS
    }
    return replace(event, **flags)


def _texts(record: Record, key: str) -> list[str]:
    """The texts of an entry that is only there if it holds any."""
    return entries(record, key, str) if key in record else []


# ---- experiments ---------------------------------------------------------------------------------------------------


def _experiment_record(one: Experiment) -> Record:
    for name, source in one.inputs.items():
        if isinstance(source, Signal):
            raise InputError(
                "problem.input_function_not_saved", name, experiment=one.name, function=source.describe()
            )
    added: Record = {
        "doses": [dose.spec() for dose in one.doses],
        "covariates": one.covariates,
        "resets": list(one.resets),
    }
    record: Record = {
        "name": one.name,
        "t0": one.t0,
        "times": one.times,
        "values": one.observations,
        "inputs": _specs(one.inputs),
        "initial": {name: _initial_record(name, spec) for name, spec in one.initial.items()},
        "rest": None if one.rest is None else _rest_record(one.rest),
        "remarks": [notice_record(remark) for remark in one.remarks],
        **{key: value for key, value in added.items() if value},
    }
    # an entry only where there are dates: digests of other problems, by which ledgers are known, stay as they were
    return record if one.calendar is None else {**record, "calendar": one.calendar.record()}


def _rest_record(rest: Rest) -> Record:
    record: Record = {"inputs": _specs(rest.inputs), "initial": rest.initial}
    if rest.doses:
        record |= {"doses": [dose.spec() for dose in rest.doses], "every": rest.every}
    return record if rest.after is None else {**record, "after": _rest_record(rest.after)}


def _rest_from(record: Record) -> Rest:
    every = get_optional(record, "every", float) if "every" in record else None
    after = _rest_from(get(record, "after", dict)) if "after" in record else None
    return Rest(_inputs_from(record), get(record, "initial", dict), _doses_from(record), every, after)


def _doses_from(record: Record) -> list[Doses]:
    return [doses_from_spec(one) for one in entries(record, "doses", dict)] if "doses" in record else []


def _experiment_from(record: Record) -> Experiment:
    values, rest = get(record, "values", dict), get_optional(record, "rest", dict)
    calendar = get(record, "calendar", dict) if "calendar" in record else None
    return Experiment(
        array(get(record, "times"), (None,), "times"),
        {name: _measured_from(name, column) for name, column in values.items()},
        name=get(record, "name", str),
        inputs=_inputs_from(record),
        initial=_initial_from(get(record, "initial", dict)),
        t0=number(get(record, "t0"), "t0"),
        rest=None if rest is None else _rest_from(rest),
        remarks=tuple(notice_from(one) for one in get(record, "remarks", list)),
        calendar=None if calendar is None else Calendar.from_record(calendar),
        doses=_doses_from(record),
        covariates=get(record, "covariates", dict) if "covariates" in record else None,
        resets=array(get(record, "resets"), (None,), "resets") if "resets" in record else (),
    )


def _measured_from(name: str, column: object) -> object:
    """Measured values; a text is a censored one, which the experiment reads."""
    if isinstance(column, list) and any(
        isinstance(one, str) and re.fullmatch(CENSORED, one) for one in column
    ):
        return [one if isinstance(one, str) else number(one, f"values of `{name}`") for one in column]
    return array(column, (None,), f"values of `{name}`")


def _specs(inputs: Mapping[str, Input]) -> Record:
    return {name: source.spec() for name, source in inputs.items()}


def _inputs_from(record: Record) -> dict[str, Input]:
    specs = get(record, "inputs", dict)
    for name, spec in specs.items():
        if not isinstance(spec, dict) or not isinstance(spec.get("text", ""), str):
            raise InputError("problem.saved_input", name, value=spec)
    return {name: input_from_spec(spec) for name, spec in specs.items()}


def notice_record(notice: Notice) -> Record:
    """A warning as a plain record."""
    return {"code": notice.code, "subject": notice.subject, "values": dict(notice.values)}


def notice_from(record: object) -> Notice:
    """Read a warning; its code must be in the catalogue, and its values must be those that the sentence needs."""
    if not isinstance(record, dict):
        raise InputError("problem.saved_notice", value=record)
    notice = Notice(get(record, "code", str), get(record, "subject", str), get(record, "values", dict))
    try:
        notice.sentence()
    except (LookupError, ValueError, TypeError, OSError):  # unknown code, or values missing in the sentence
        raise InputError("problem.saved_notice", value=record) from None
    return notice


# ---- parameters, priors, initial states ----------------------------------------------------------------------------


def _parameter_record(parameter: Parameter) -> Record:
    """The fields of a parameter that are not at their defaults."""
    default = Parameter()
    given = {one.name: getattr(parameter, one.name) for one in fields(Parameter)}
    record = {name: value for name, value in given.items() if value != getattr(default, name)}
    for key in ("prior", "drawn"):
        if getattr(parameter, key) is not None:
            record[key] = _kind_record(getattr(parameter, key))
    return record


def _parameter_from(name: str, record: object) -> Parameter:
    known = [one.name for one in fields(Parameter)]
    if not isinstance(record, dict) or not record.keys() <= set(known):
        raise InputError("problem.saved_parameter", name, value=record, known=known)
    values = dict(record)
    for key in ("lower", "upper"):
        if key in values:
            values[key] = number(values[key], f"{key} of `{name}`")
    for key in ("prior", "drawn"):
        if values.get(key) is not None:
            values[key] = _kind_from(values[key], PRIORS, "prior", name)
    return Parameter(**values)


def _initial_record(name: str, spec: object) -> Record | str:
    """A formula as text, anything else as the parameter it describes."""
    return spec if isinstance(spec, str) else _parameter_record(as_parameter(name, spec))


def _initial_from(record: Record) -> dict[str, str | Parameter]:
    return {
        name: spec if isinstance(spec, str) else _parameter_from(name, spec) for name, spec in record.items()
    }


# ---- noise ---------------------------------------------------------------------------------------------------------


def _noise_record(value: object) -> object:
    """A noise model, a mapping of them by observable, or one of their levels."""
    if isinstance(value, Mapping):
        return {"observables": {name: _noise_record(one) for name, one in value.items()}}
    if isinstance(value, Parameter):
        return {"parameter": _parameter_record(value)}
    if isinstance(value, NoiseModel):
        return {key: _noise_record(one) for key, one in _kind_record(value).items()}
    return list(value) if isinstance(value, tuple) else value


def _noise_from(record: object) -> NoiseModel | dict[str, NoiseModel]:
    if isinstance(record, dict) and isinstance(record.get("observables"), dict):
        return {name: _kind_from(one, NOISES, "noise", name) for name, one in record["observables"].items()}
    return _kind_from(record, NOISES, "noise")


def _level_from(name: str, value: object) -> object:
    if value is None or is_number(value) or isinstance(value, str | bool):
        return value
    if isinstance(value, list):
        return tuple(number(one, f"a bound of `{name}`") for one in value)
    if isinstance(value, dict) and isinstance(value.get("observables"), dict):
        return {key: _level_from(key, one) for key, one in value["observables"].items()}
    if isinstance(value, dict) and "parameter" in value:
        return _parameter_from(name, value["parameter"])
    raise InputError("problem.saved_level", name, value=value)


# ---- records that name their class ---------------------------------------------------------------------------------


def _kind_record(thing: NoiseModel | priors.Prior) -> Record:
    return {"kind": type(thing).__name__} | {one.name: getattr(thing, one.name) for one in fields(thing)}


def _kind_from(record: object, kinds: Mapping[str, type[T]], what: str, subject: str = "") -> T:
    """Build an object of the class that a record names: `what` ("prior", "noise") of which `subject`."""
    name = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(name, str) or name not in kinds:
        raise InputError("problem.saved_kind", subject, what=what, value=record, known=list(kinds))
    values = {key: _level_from(key, value) for key, value in record.items() if key != "kind"}
    make: Callable[..., T] = kinds[name]
    if unknown := values.keys() - inspect.signature(make).parameters.keys():
        raise InputError("problem.saved_fields", subject, what=what, fields=sorted(unknown))
    return make(**values)


# ---- digests -------------------------------------------------------------------------------------------------------


def digest(content: object) -> str:
    """A hash of numbers, texts, lists and mappings; equal contents have equal digests."""
    text = json.dumps(plain(content, "problem"), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def problem_digest(problem: Problem) -> str:
    """A digest of formulas and data; of values of the equations where these are Python functions."""
    problem = replace(problem, model=problem.model.as_written) if problem.model.smoothing else problem
    try:
        return digest(_floats(plain(problem_record(problem), "problem")))
    except InputError:
        return digest(_fingerprint(problem))


def _floats(value: object) -> object:
    """Whole numbers as floats: 10 and 10.0 mean the same, and a saved problem may have either."""
    if isinstance(value, Mapping):
        return {key: _floats(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_floats(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _fingerprint(problem: Problem) -> list[object]:
    """Names, bounds, data and inputs, and the equations at 16 random points, to ten digits."""
    model, samples, layout = problem.model, problem.samples, problem.layout
    rng = np.random.default_rng(0)
    x, p, u = (
        rng.uniform(0.1, 2.0, (16, len(group))) for group in (model.states, model.parameters, model.inputs)
    )
    inputs = problem.inputs_at(samples.experiment, samples.times)[..., : len(model.inputs)]
    values = [function.value(rng.uniform(size=16), x, p, u) for function in (model.rhs, model.output)]
    rounded = [np.char.mod("%.9e", a).tolist() for a in (*values, inputs)]
    arrays = [
        samples.times,
        samples.data,
        samples.limits,
        samples.trials,
        layout.lower,
        layout.upper,
        layout.base,
        layout.known,
        *([layout.scales.logit, layout.scales.low] if layout.scales.logit.any() else ()),
    ]
    named = [problem.names, model.states, model.parameters, model.inputs, model.observables]
    calendars = [one.calendar.record() for one in problem.experiments if one.calendar is not None]
    given = [[dose.spec() for dose in one.doses] + list(one.resets) for one in problem.experiments]
    return [*named, *rounded, *arrays, *calendars, *(given if any(given) else ())]
