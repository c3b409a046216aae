"""The noise of a problem file."""

from __future__ import annotations

from collections.abc import Mapping

from picardfit.files.sections.beliefs import described
from picardfit.files.toml_source import Source
from picardfit.model import noise_models
from picardfit.model.model import Model
from picardfit.model.noise_models import NoiseModel


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
