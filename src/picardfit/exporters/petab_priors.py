"""Priors as cells of PEtab's parameter table."""

from __future__ import annotations

from collections.abc import Callable

from picardfit.errors import InputError
from picardfit.model import priors
from picardfit.model.priors import Prior

# name and numbers of each kind of prior; PEtab has scales where we have rates
KINDS: dict[type[Prior], tuple[str, Callable[..., tuple[float, ...]]]] = {
    priors.Normal: ("normal", lambda one: (one.mean, one.sd)),
    priors.Laplace: ("laplace", lambda one: (one.mean, one.scale)),
    priors.Uniform: ("uniform", lambda one: (one.lower, one.upper)),
    priors.LogNormal: ("log-normal", lambda one: (one.mean, one.sd)),
    priors.LogLaplace: ("log-laplace", lambda one: (one.mean, one.scale)),
    priors.LogUniform: ("log-uniform", lambda one: (one.lower, one.upper)),
    priors.Cauchy: ("cauchy", lambda one: (one.location, one.scale)),
    priors.Gamma: ("gamma", lambda one: (one.shape, 1 / one.rate)),
    priors.Exponential: ("exponential", lambda one: (1 / one.rate,)),
    priors.Rayleigh: ("rayleigh", lambda one: (one.scale,)),
}


def prior_cells(name: str, prior: Prior) -> tuple[str, str]:
    """priorDistribution and priorParameters; InputError for a prior that PEtab does not have.

    PEtab's priors are densities of the value itself, not of its logarithm.
    """
    if type(prior) not in KINDS or (prior.base is not None and not prior.of_value):
        raise InputError("exporters.petab_prior", name, prior=type(prior).__name__)
    word, numbers = KINDS[type(prior)]
    return word, ";".join(repr(float(value)) for value in numbers(prior))
