"""Models compared by how well they predict data that they have not seen: PSIS-LOO and WAIC.

Vehtari, Gelman and Gabry, Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC (2017).
Values are expected log pointwise predictive densities; -2 times them are on the scale of AIC.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.errors import Notice
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.pareto import TRUSTED, smoothed


@dataclass(frozen=True)
class Comparison:
    """An expected log predictive density with its standard error over measurements; larger is better."""

    kind: str  # "loo" or "waic"
    value: float
    standard_error: float
    effective_parameters: float
    pointwise: Array  # (measurements,)
    khat: Array | None = None  # (measurements,): of LOO
    warnings: tuple[Notice, ...] = ()

    def __str__(self) -> str:
        said = "".join(f"\n{one.sentence()}" for one in self.warnings)
        return (
            f"{self.kind}: {self.value:.2f} ± {self.standard_error:.2f}, "
            f"{self.effective_parameters:.2f} effective parameters{said}"
        )


def _made(kind: str, pointwise: Array, full: Array, khat: Array | None, notices: list[Notice]) -> Comparison:
    spread = float(np.sqrt(len(pointwise) * np.var(pointwise)))
    return Comparison(
        kind,
        float(pointwise.sum()),
        spread,
        float(full.sum() - pointwise.sum()),
        pointwise,
        khat,
        tuple(notices),
    )


def loo(log_densities: Array) -> Comparison:
    """From log densities (draws, measurements), without refitting: importance weights leave each one out in turn."""
    from scipy.special import logsumexp

    count = len(log_densities)
    full = logsumexp(log_densities, axis=0) - np.log(count)
    found = [smoothed(-column) for column in log_densities.T]
    khat = np.array([k for _, k in found])
    pointwise = np.array(
        [logsumexp(weights + column) for (weights, _), column in zip(found, log_densities.T, strict=True)]
    )
    bad = int(np.sum(~(khat < TRUSTED)))
    notices = [Notice("inference.loo_not_trusted", "", {"count": bad, "all": len(khat)})] if bad else []
    return _made("loo", pointwise, np.asarray(full), khat, notices)


def waic(log_densities: Array, largest: float = 0.4) -> Comparison:
    """From log densities (draws, measurements); `largest`: variance of one beyond which WAIC is not trusted."""
    from scipy.special import logsumexp

    full = logsumexp(log_densities, axis=0) - np.log(len(log_densities))
    variances = np.var(log_densities, axis=0, ddof=1)
    bad = int(np.sum(variances > largest))
    notices = [Notice("inference.waic_not_trusted", "", {"count": bad, "all": len(variances)})] if bad else []
    return _made("waic", np.asarray(full - variances), np.asarray(full), None, notices)
