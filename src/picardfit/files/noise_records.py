"""Noise models, priors and parameters as plain records for files, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import picardfit.model.noise_models as noise_models
import picardfit.model.priors as priors
from picardfit.errors import InputError, listing
from picardfit.model.parameters import Parameter, is_number
from picardfit.problem.records import number

NOISES = {kind.__name__: kind for kind in noise_models.KINDS}
PRIORS = {kind.__name__: kind for kind in priors.KINDS}


def parameter_record(parameter: Parameter) -> dict[str, object]:
    """The fields that are not at their defaults."""
    default = Parameter()
    given = {one.name: getattr(parameter, one.name) for one in fields(Parameter)}
    record = {name: value for name, value in given.items() if value != getattr(default, name)}
    if parameter.prior is not None:
        record["prior"] = _record(parameter.prior)
    return record


def parameter_from(name: str, record: object) -> Parameter:
    known = {one.name for one in fields(Parameter)}
    if not isinstance(record, dict) or not known.issuperset(record):
        raise InputError(f"`{name}` is described by {record!r}: it may have {listing(sorted(known))}.")
    read = dict(record)
    read |= {key: number(record[key], f"{key} of `{name}`") for key in ("lower", "upper") if key in record}
    if record.get("prior") is not None:
        kind, values = _kind(record["prior"], PRIORS, f"the prior of `{name}`")
        read["prior"] = kind(**values)
    return Parameter(**read)


def noise_record(noise: noise_models.NoiseModel | Mapping) -> dict[str, object]:
    if isinstance(noise, Mapping):
        return {"observables": {name: noise_record(one) for name, one in noise.items()}}
    return {key: _level_record(value) for key, value in _record(noise).items()}


def noise_from(record: object) -> noise_models.NoiseModel | dict[str, noise_models.NoiseModel]:
    if isinstance(record, dict) and isinstance(record.get("observables"), dict):
        return {name: noise_from(one) for name, one in record["observables"].items()}
    kind, values = _kind(record, NOISES, "the noise")
    return kind(**{key: _level(key, value) for key, value in values.items()})


def _record(thing: object) -> dict[str, object]:
    values = {one.name: getattr(thing, one.name) for one in fields(thing)}
    return {"kind": type(thing).__name__, **values}


def _kind(record: object, kinds: dict[str, type], what: str) -> tuple[type, dict[str, object]]:
    """The class that a record names, and its values."""
    kind = kinds.get(record.get("kind")) if isinstance(record, dict) else None
    if kind is None:
        raise InputError(f"{what} is described by {record!r}: its kind must be one of {listing(kinds)}.")
    values = {key: value for key, value in record.items() if key != "kind"}
    known = {one.name for one in fields(kind)}
    if not known.issuperset(values):
        raise InputError(f"{what} has the unknown fields {listing(sorted(values.keys() - known))}.")
    return kind, values


def _level_record(value: object) -> object:
    if isinstance(value, Mapping):
        return {"observables": {name: _level_record(one) for name, one in value.items()}}
    if isinstance(value, Parameter):
        return {"parameter": parameter_record(value)}
    return list(value) if isinstance(value, tuple) else value


def _level(name: str, value: object) -> object:
    if value is None or is_number(value) or isinstance(value, str | bool):
        return value
    if isinstance(value, list):
        return tuple(number(one, f"a bound of `{name}`") for one in value)
    if isinstance(value, dict) and isinstance(value.get("observables"), dict):
        return {key: _level(key, one) for key, one in value["observables"].items()}
    if isinstance(value, dict) and "parameter" in value:
        return parameter_from(name, value["parameter"])
    raise InputError(f"the level `{name}` is described by {value!r}, which is not understood.")
