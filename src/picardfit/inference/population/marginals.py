"""How the integral over the random effects is approximated: the settings of a marginal likelihood.

The names are those of the field (Wang 2007, J. Pharmacokinet. Pharmacodyn. 34:575). docs/howto/population.md gives the
formulas, and says when each of them fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from picardfit.checks import as_whole
from picardfit.errors import InputError


@dataclass(frozen=True)
class FOCEI:
    """First-order conditional estimation with interaction: Laplace's method with the expected curvature."""

    name: ClassVar[str] = "FOCEI"


@dataclass(frozen=True)
class FOCE:
    """First-order conditional estimation without interaction: noise levels are those of the typical individual."""

    name: ClassVar[str] = "FOCE"


@dataclass(frozen=True)
class FO:
    """First order: predictions are linear in the random effects, around the typical individual."""

    name: ClassVar[str] = "FO"


@dataclass(frozen=True)
class MarginalLaplace:
    """Laplace's method with the observed curvature."""

    name: ClassVar[str] = "Laplace"


@dataclass(frozen=True)
class Quadrature:
    """Adaptive Gauss-Hermite quadrature around the mode of each individual, `nodes` in each random effect."""

    nodes: int = 5
    name: ClassVar[str] = "quadrature"
    most: ClassVar[int] = 20_000  # points of an individual; more than 20 minutes of a large study

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", as_whole(self.nodes, "nodes", 1, 5))


Marginal = FOCEI | FOCE | FO | MarginalLaplace | Quadrature


def as_marginal(given: object) -> Marginal:
    """The approximation that is meant; FOCEI by default."""
    if given is None:
        return FOCEI()
    if isinstance(given, type) and issubclass(given, Marginal.__args__):
        raise InputError("inference.marginal_is_a_class", given.__name__)
    if not isinstance(given, Marginal):
        raise InputError("inference.not_a_marginal", value=given)
    return given
