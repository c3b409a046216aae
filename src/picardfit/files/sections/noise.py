"""Noise and priors in a problem file: tables with a type and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields

from picardfit.errors import InputError, Key, closest
from picardfit.files.toml_source import Source, kind_of
from picardfit.model import noise_models, priors
from picardfit.model.model import Model
from picardfit.model.noise_models import NoiseModel

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
    "uniform": priors.Uniform,
    "log-uniform": priors.LogUniform,
    "laplace": priors.Laplace,
    "log-laplace": priors.LogLaplace,
}


def read_noise(
    source: Source, content: Mapping[str, object], model: Model | None
) -> NoiseModel | dict[str, NoiseModel] | None:
    """A noise model for all observables, a mapping by observable, or None."""
    if "noise" not in content:
        return None
    given = content["noise"]
    observables = () if model is None else model.observables
    if isinstance(given, dict) and given and "type" not in given and all(n in observables for n in given):
        return {name: described(source, ("noise", name), one, "noise", name) for name, one in given.items()}
    return described(source, ("noise",), given, "noise")


def trials_columns(noise: NoiseModel | Mapping[str, NoiseModel] | None) -> tuple[str, ...]:
    """Columns of the data that hold numbers of trials of binomial counts."""
    every = noise.values() if isinstance(noise, Mapping) else [noise]
    trials = [one.trials for one in every if isinstance(one, noise_models.Binomial)]
    return tuple(one for one in trials if isinstance(one, str))


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
    given = source.known(key, table, [one.name for one in settings])
    missing = [one.name for one in settings if one.default is MISSING and one.name not in given]
    if len(source.faults) == before and missing:
        raise InputError("files.incomplete", kind=kind, word=word, missing=missing)
    if len(source.faults) > before:
        return None
    return builder(**{name: _pairs(one) for name, one in given.items()})


def _pairs(value: object) -> object:
    """Lists of two numbers as tuples, which stand for bounds; also inside tables."""
    if isinstance(value, dict):
        return {key: _pairs(one) for key, one in value.items()}
    return tuple(value) if isinstance(value, list) and len(value) == 2 else value
