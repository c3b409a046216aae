"""Noise and priors in a problem file: tables with a type and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields

from picardfit.errors import Key, closest
from picardfit.files.toml_source import Source
from picardfit.model import noise_models, priors
from picardfit.model.model import Model
from picardfit.model.noise_models import NoiseModel

NOISES: Mapping[str, type] = {
    "normal": noise_models.Noise,
    "log-normal": noise_models.LogNormal,
    "student-t": noise_models.StudentT,
    "laplace": noise_models.Laplace,
}
PRIORS: Mapping[str, type] = {
    "normal": priors.Normal,
    "log-normal": priors.LogNormalPrior,
    "laplace": priors.LaplacePrior,
    "log-laplace": priors.LogLaplacePrior,
    "uniform": priors.Uniform,
}


def read_noise(
    source: Source, content: Mapping[str, object], model: Model | None
) -> NoiseModel | dict[str, NoiseModel] | None:
    """A noise model for all observables, a mapping by observable, or None."""
    if "noise" not in content:
        return None
    table = source.table(("noise",), content["noise"])
    observables = () if model is None else model.observables
    if "type" not in table and table and all(name in observables for name in table):
        return {name: described(source, ("noise", name), one, NOISES, "noise") for name, one in table.items()}
    return described(source, ("noise",), table, NOISES, "noise")


def described(source: Source, key: Key, value: object, kinds: Mapping[str, type], word: str):
    """The noise model or prior that a table with `type` and its settings describes; None and a fault if it is wrong.

    `word`: "noise" or "prior".
    """
    table = dict(source.table(key, value))
    kind = table.pop("type", "normal" if word == "noise" else None)
    if not isinstance(kind, str) or kind not in kinds:
        close = closest(str(kind), kinds)
        source.fault((*key, "type"), "files.unknown_type", word, kind=kind, kinds=list(kinds), close=close)
        return None
    builder = kinds[kind]
    settings = [one for one in fields(builder) if one.init]
    before = len(source.faults)
    given = source.known(key, table, [one.name for one in settings])
    missing = [one.name for one in settings if one.default is MISSING and one.name not in given]
    if len(source.faults) == before and missing:
        source.fault(key, "files.incomplete", f"{kind} {word}", missing=missing)
    if len(source.faults) > before:
        return None
    return source.attempt(key, builder, **{name: _pairs(one) for name, one in given.items()})


def _pairs(value: object) -> object:
    """Lists of two numbers as tuples, which stand for bounds; also inside tables."""
    if isinstance(value, dict):
        return {key: _pairs(one) for key, one in value.items()}
    return tuple(value) if isinstance(value, list) and len(value) == 2 else value
