"""What a problem file says of numbers that are not known: tables with a type for noise and priors, and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from picardfit.checks import is_number
from picardfit.errors import InputError, Key, closest
from picardfit.files.toml_source import Source, kind_of, schema
from picardfit.model import noise_models, priors
from picardfit.model.parameters import Parameter

NOISES: Mapping[str, type] = {
    "normal": noise_models.Noise,
    "log-normal": noise_models.LogNormal,
    "student-t": noise_models.StudentT,
    "laplace": noise_models.Laplace,
    "poisson": noise_models.Poisson,
    "negative-binomial": noise_models.NegativeBinomial,
    "binomial": noise_models.Binomial,
}
PRIORS: Mapping[str, type] = {
    "normal": priors.Normal,
    "log-normal": priors.LogNormal,
    "half-normal": priors.HalfNormal,
    "student-t": priors.StudentT,
    "cauchy": priors.Cauchy,
    "half-cauchy": priors.HalfCauchy,
    "exponential": priors.Exponential,
    "gamma": priors.Gamma,
    "inverse-gamma": priors.InverseGamma,
    "beta": priors.Beta,
    "rayleigh": priors.Rayleigh,
    "uniform": priors.Uniform,
    "log-uniform": priors.LogUniform,
    "laplace": priors.Laplace,
    "log-laplace": priors.LogLaplace,
}


def described(source: Source, key: Key, value: object, word: str, owner: str = ""):
    """The noise model or prior that a table with `type` and its settings describes; None and a fault if it is wrong.

    `word`: "noise" or "prior"; `owner`: the parameter or observable that it belongs to.
    """
    try:
        return _described(source, key, value, word)
    except InputError as error:
        source.complain(error.within("files.in_entry", owner) if owner else error, key)
    return None


def _described(source: Source, key: Key, value: object, word: str):
    if not isinstance(value, dict):
        code = "files.noise_kind" if word == "noise" else "files.prior_kind"
        raise InputError(code, word, kind=kind_of(value))
    table, kinds = dict(value), NOISES if word == "noise" else PRIORS
    kind = table.pop("type", "normal" if word == "noise" else None)
    if kind is None:
        raise InputError("files.no_type", word=word, kinds=list(kinds))
    if not isinstance(kind, str) or kind not in kinds:
        values = {"word": word, "kind": kind, "kinds": list(kinds), "close": closest(str(kind), kinds)}
        raise InputError("files.unknown_type", key=(*key, "type")).with_values(**values)
    builder = kinds[kind]
    settings = [one for one in fields(builder) if one.init]
    before = len(source.faults)
    given = source.known(key, table, ["type", *(one.name for one in settings)])
    missing = [one.name for one in settings if one.default is MISSING and one.name not in given]
    if len(source.faults) == before and missing:
        raise InputError("files.incomplete", kind=kind, word=word, missing=missing)
    if len(source.faults) > before:
        return None
    levels = {name: _level(source, (*key, name), one) for name, one in given.items()}
    return None if len(source.faults) > before else builder(**levels)


def _level(source: Source, key: Key, value: object) -> object:
    """A number or text as it is, a list of two as the bounds of a level; also inside a table by observable.

    A table with the entries of a parameter, such as a prior, is one.
    """
    if isinstance(value, dict):
        if value and value.keys() <= set(schema()["definitions"]["belief"]["properties"]):
            return read_parameter(source, key, value)
        return {name: _level(source, (*key, name), one) for name, one in value.items()}
    return tuple(value) if isinstance(value, list) and len(value) == 2 else value


def read_parameter(source: Source, key: Key, value: object) -> Parameter | None:
    """A number (fixed), a pair of bounds or a table, as a Parameter."""
    name = str(key[-1])
    if is_number(value):
        return _parameter(source, key, {"fixed": value})
    if isinstance(value, list):
        if len(value) != 2:
            source.fault(key, "files.not_a_pair", name, count=len(value))
            return None
        return _parameter(source, key, {"lower": value[0], "upper": value[1]})
    if not isinstance(value, dict):
        source.fault(key, "files.parameter_kind", name, kind=kind_of(value))
        return None
    before = len(source.faults)
    table = source.known(key, value, schema()["definitions"]["belief"]["properties"])
    if "bounds" in table:
        table |= _bounds(source, key, table)
        del table["bounds"]
    if "prior" in table:
        table["prior"] = described(source, (*key, "prior"), table["prior"], "prior", name)
    return None if len(source.faults) > before else _parameter(source, key, table)


def _bounds(source: Source, key: Key, table: Mapping[str, object]) -> dict[str, object]:
    """`lower` and `upper` of an entry `bounds`."""
    name, bounds = str(key[-1]), table["bounds"]
    if "lower" in table or "upper" in table:
        source.fault((*key, "bounds"), "files.bounds_twice", name)
    elif not isinstance(bounds, list) or len(bounds) != 2:
        source.fault((*key, "bounds"), "files.bounds_not_a_pair", name)
    else:
        return {"lower": bounds[0], "upper": bounds[1]}
    return {}


def _parameter(source: Source, key: Key, table: Mapping[str, Any]) -> Parameter | None:
    """The Parameter of these fields; it checks their types itself."""
    try:
        return Parameter(**table)
    except InputError as error:
        source.complain(error.within("files.in_entry", str(key[-1])), key)
    return None
