"""Noise and priors in a problem file: tables with a type and its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields

from picardfit.errors import InputError, did_you_mean, listing
from picardfit.files.toml_source import Place, Source
from picardfit.model.model import Model

NOISES = {"normal": "Noise", "log-normal": "LogNormal", "student-t": "StudentT", "laplace": "Laplace"}
PRIORS = {
    "normal": "Normal",
    "log-normal": "LogNormalPrior",
    "laplace": "LaplacePrior",
    "log-laplace": "LogLaplacePrior",
    "uniform": "Uniform",
}


def read_noise(source: Source, content: dict, model: Model | None) -> object | None:
    """A noise model for all observables, a mapping by observable, or None."""
    if "noise" not in content:
        return None
    table = source.table(("noise",), content["noise"])
    observables = () if model is None else model.observables
    if "type" not in table and table and all(key in observables for key in table):
        return {name: described(source, ("noise", name), one, NOISES, "noise") for name, one in table.items()}
    return described(source, ("noise",), table, NOISES, "noise")


def described(
    source: Source, place: Place, value: object, kinds: Mapping[str, str], word: str
) -> object | None:
    """The object that a table with `type` and its settings describes."""
    import picardfit

    table = dict(source.table(place, value))
    kind = table.pop("type", "normal" if word == "noise" else None)
    if not isinstance(kind, str) or kind not in kinds:
        hint = did_you_mean(str(kind), kinds)
        source.fault(
            (*place, "type"), f"The {word} type {kind!r} is unknown: write one of {listing(kinds)}.{hint}"
        )
        return None
    builder = getattr(picardfit, kinds[kind])
    before = len(source.faults)
    settings = source.known(place, table, [one.name for one in fields(builder) if one.init])
    settings = {key: _pairs(value) for key, value in settings.items()}
    if len(source.faults) > before:
        return None
    try:
        return builder(**settings)
    except InputError as error:
        source.fault(place, str(error))
    except TypeError as error:
        missing = re.findall(r"'(\w+)'", str(error))
        source.fault(place, f"This {kind} {word} is not complete: it also needs {listing(missing)}.")
    return None


def _pairs(value: object) -> object:
    """Lists of two numbers as pairs, also inside tables."""
    if isinstance(value, dict):
        return {key: _pairs(one) for key, one in value.items()}
    return tuple(value) if isinstance(value, list) and len(value) == 2 else value
