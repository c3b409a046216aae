"""Random effects in a problem file: their covariance, and how the marginal likelihood is approximated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from picardfit.errors import closest
from picardfit.files.sections.beliefs import described
from picardfit.files.toml_source import Source, kind_of, schema
from picardfit.inference.population.marginals import FO, FOCE, FOCEI, Marginal, MarginalLaplace, Quadrature
from picardfit.model.random_effects import RandomEffects

MARGINALS: Mapping[str, type] = {
    "focei": FOCEI,
    "foce": FOCE,
    "fo": FO,
    "laplace": MarginalLaplace,
    "quadrature": Quadrature,
}


def read_random(source: Source, content: Mapping[str, object]) -> RandomEffects | None:
    """The section [random]; None without one."""
    if "random" not in content:
        return None
    known = schema()["properties"]["random"]["properties"]
    table = source.known(("random",), content["random"], known)
    given: dict[str, Any] = {name: table[name] for name in ("correlated", "start", "fixed") if name in table}
    if "priors" in table:
        priors = _priors(source, table["priors"])
        if priors is None:
            return None
        given["priors"] = priors
    return source.attempt(("random",), RandomEffects, **given)


def _priors(source: Source, given: object) -> dict[str, object] | None:
    """Priors of standard deviations by name; None and a fault if one is wrong."""
    if not isinstance(given, dict):
        source.fault(("random", "priors"), "files.prior_kind", "priors", kind=kind_of(given))
        return None
    found = {
        name: described(source, ("random", "priors", name), one, "prior", name) for name, one in given.items()
    }
    return None if None in found.values() else found


def read_marginal(source: Source, content: Mapping[str, object]) -> Marginal | None:
    """The approximation that the section [random] names; None without one."""
    section = content.get("random")
    table = section if isinstance(section, dict) else {}
    name = table.get("marginal")
    if name is None:
        return None
    if not isinstance(name, str) or name not in MARGINALS:
        close = closest(str(name), MARGINALS)
        source.fault(
            ("random", "marginal"), "files.unknown_marginal", value=name, known=list(MARGINALS), close=close
        )
        return None
    if name == "quadrature" and "nodes" in table:
        return source.attempt(("random", "nodes"), Quadrature, table["nodes"])
    return MARGINALS[name]()
