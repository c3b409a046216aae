"""Posterior: draws of the unknowns given the data, with what is known of their quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from picardfit.checks import as_whole
from picardfit.display.hook import picture, shown
from picardfit.errors import InputError, Notice, closest
from picardfit.evidence.curves import checked_times
from picardfit.fit import Fit
from picardfit.inference.bands import Bands, sampled_bands
from picardfit.inference.posterior.coordinates import Coordinates, coordinates_of
from picardfit.inference.posterior.methods import Drawn, Method
from picardfit.inference.posterior.mixing import (
    DOUBTS,
    TRUSTED,
    Mixing,
    e_bfmi,
    ess_bulk,
    ess_tail,
    mcse_mean,
    mixing_notices,
    r_hat,
    weighted_effective,
)
from picardfit.inference.posterior.predictive import (
    Comparison,
    data_costs,
    loo,
    new_data,
    prior_predictive,
    some_of,
    waic,
)
from picardfit.problem.named_values import experiment_index, labels_of
from picardfit.problem.problem import Problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

QUANTILES = (0.025, 0.5, 0.975)


@shown
@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of `fit.posterior()`. `posterior["k"]` are those of an unknown, (chains, draws), in natural units.

    Derived quantities have draws as unknowns have: `posterior["half_life"]`.
    """

    fit: Fit
    method: Method
    seed: int
    drawn: Drawn = field(repr=False)
    modes: int  # optima that chains began at
    error: float  # standard deviation of the log-likelihood's error over some draws; NaN if unknown
    seconds: float
    notices: tuple[Notice, ...] = ()  # what was found while drawing
    limits: Mixing = field(default_factory=Mixing, repr=False)

    @property
    def problem(self) -> Problem:
        return self.fit.problem

    @cached_property
    def coordinates(self) -> Coordinates:
        return coordinates_of(self.problem)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the unknowns: parameters, then initial states."""
        return tuple(labels_of(self.problem))

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """Unknown or derived quantity -> (chains, draws), natural units."""
        return self._values(self.drawn.z)

    def _values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Unknown or derived quantity -> values in natural units (...) at points z (..., d)."""
        internal = self.coordinates.internal(z)[0]
        natural, layout = self.coordinates.natural(internal), self.problem.layout
        own = {name: natural[..., k] for k, name in enumerate(self.coordinates.labels)}
        found = {name: own[name] for name in self.labels}
        if self.problem.derived:
            many = self.coordinates.unknowns(internal.reshape(-1, internal.shape[-1]))
            with np.errstate(all="ignore"):
                for name, one in self.problem.derived_quantities.items():
                    found[name] = one.values(layout, many).reshape(z.shape[:-1])
        return found

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.draws:
            raise InputError(
                "inference.no_draws_of",
                str(name),
                known=list(self.draws),
                close=closest(str(name), self.draws),
            )
        return self.draws[name]

    @property
    def shape(self) -> tuple[int, int]:
        """Chains and draws of each."""
        chains, draws = self.drawn.log_density.shape
        return chains, draws

    @property
    def unknowns(self) -> np.ndarray:
        """(chains * draws, experiments, width): all draws in internal coordinates, chain after chain."""
        z = self.drawn.z.reshape(-1, self.drawn.z.shape[-1])
        return self.coordinates.unknowns(self.coordinates.internal(z)[0])

    @property
    def divergences(self) -> int:
        """Draws whose path left the solution: parts of the posterior may be missing."""
        return 0 if self.drawn.divergent is None else int(self.drawn.divergent.sum())

    @property
    def khat(self) -> float | None:
        """The shape of the largest importance weights of `pf.LaplaceDraws`; None for chains."""
        return self.drawn.khat

    @property
    def e_bfmi(self) -> np.ndarray:
        """(chains,): how well the momenta explore the energies; empty without chains."""
        return np.zeros(0) if self.drawn.energy is None else e_bfmi(self.drawn.energy)

    @cached_property
    def table(self) -> dict[str, dict[str, float]]:
        weighted = self._weighted
        return {name: self._row(values, weighted.get(name)) for name, values in self.draws.items()}

    @property
    def _weighted(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Unknown or derived quantity -> points and weights from which its draws were taken; empty for chains."""
        if self.drawn.weighted is None:
            return {}
        z, weights = self.drawn.weighted
        return {name: (values, weights) for name, values in self._values(z).items()}

    def _row(self, values: np.ndarray, weighted: tuple[np.ndarray, np.ndarray] | None) -> dict[str, float]:
        fine = values[np.isfinite(values)]
        low, middle, high = np.quantile(fine, QUANTILES).tolist() if fine.size else [np.nan] * 3
        with np.errstate(over="ignore", invalid="ignore"):
            sd = float(np.std(fine, ddof=1)) if fine.size > 1 else np.nan
            mean = float(fine.mean()) if fine.size else np.nan
        row = {"mean": mean, "sd": sd, "q2.5": low, "q50": middle, "q97.5": high}
        if weighted is not None:
            count, tail = weighted_effective(*weighted, (QUANTILES[0], QUANTILES[-1]))
            trusted = self.khat is not None and self.khat < TRUSTED
            error = sd / np.sqrt(count) if trusted else np.nan
            own = {"mcse": error, "ess_bulk": count, "ess_tail": tail, "r_hat": np.nan}
        else:
            own = {
                "mcse": mcse_mean(values),
                "ess_bulk": ess_bulk(values),
                "ess_tail": ess_tail(values),
                "r_hat": r_hat(values),
            }
        return row | own

    def summary(self) -> pd.DataFrame:
        """A row for each unknown and derived quantity.

        Mean, sd, quantiles, Monte Carlo error of the mean, effective draws and R-hat;
        `posterior.warnings` says whether they may be trusted.
        """
        import pandas as pd

        return pd.DataFrame.from_dict(self.table, orient="index")

    @cached_property
    def warnings(self) -> tuple[Notice, ...]:
        """Why the draws may not represent the posterior; empty if nothing speaks against it."""
        return (*mixing_notices(self), *self.notices)

    @property
    def trusted(self) -> bool:
        """Whether no warning concerns the draws themselves."""
        return not any(one.code in DOUBTS for one in self.warnings)

    # ---- predictions -----------------------------------------------------------------------------------------------

    def predict(
        self,
        experiment: str | ArrayLike | None = None,
        times: ArrayLike | None = None,
        level: float = 0.95,
        *,
        noise: bool = False,
        inputs: Mapping[str, object] | None = None,
        initial: Mapping[str, float] | None = None,
        most: int = 400,
    ) -> Bands:
        """States and observables with pointwise bands of the posterior, around their medians, at any times from t0 on.

        `posterior.predict(times)` is enough where there is one experiment.
        With `noise` the bands of the observables are those of new measurements. `inputs`, `initial`: other inputs,
        other (known) initial states. `most`: how many of the draws are integrated.
        """
        if times is None and not isinstance(experiment, str):
            experiment, times = None, experiment
        if times is None:
            raise InputError("inference.predict_times")
        if experiment is None and len(self.problem.names) > 1:
            raise InputError("inference.predict_experiment", known=self.problem.names)
        e = 0 if experiment is None else experiment_index(self.problem, experiment)
        at = checked_times(self.problem.experiments[e].times_at(times))
        some = some_of(self.unknowns, as_whole(most, "most", 2))
        return sampled_bands(self.fit, e, at, some, level, noise, inputs, initial, self.seed)

    def new_data(self, most: int = 400) -> np.ndarray:
        """(draws, samples, observables): data as they would be measured again, each from one of the draws."""
        return new_data(self.problem, some_of(self.unknowns, as_whole(most, "most", 1)), self.seed)

    def prior_data(self, draws: int = 400) -> np.ndarray:
        """(draws, samples, observables): data from the priors (flat between bounds where there is none)."""
        return prior_predictive(self.problem, draws, self.seed)

    @cached_property
    def _costs(self) -> np.ndarray:
        """(draws, measurements): -log density of each measurement."""
        costs = data_costs(self.problem, some_of(self.unknowns, 2000))
        return np.asarray(costs[np.isfinite(costs).all(axis=1)])

    def loo(self) -> Comparison:
        """Expected log predictive density by leave-one-out (PSIS-LOO): larger is better."""
        return loo(-self._costs)

    def waic(self) -> Comparison:
        """The widely applicable information criterion as an expected log predictive density."""
        return waic(-self._costs)

    # ---- output ----------------------------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """One row for each draw: chain, draw, the unknowns, and what the sampler says of it."""
        from picardfit.inference.posterior.export import draws_frame

        return draws_frame(self)

    def to_arviz(self, log_likelihood: bool = False) -> object:
        """The draws as ArviZ has them; needs the extra `picardfit[arviz]`.

        `log_likelihood` adds that of each measurement, which `arviz.loo` needs: an integration for each draw.
        """
        from picardfit.inference.posterior.export import to_arviz

        return to_arviz(self, log_likelihood)

    def save(self, path: str | Path) -> Path:
        """Write the draws as a table (.csv) or for ArviZ and other languages (.nc, with the extra)."""
        from picardfit.inference.posterior.export import save

        return save(self, path)

    def plot(
        self, kind: str = "trace", path: str | Path | None = None, names: list[str] | None = None
    ) -> Figure:
        """A picture of the draws, written to `path` if given.

        `kind`: "trace", "rank", "pairs", "forest", "marginals" (with the priors) or "predictive" (with the data);
        `names`: of the unknowns to draw, by default the first ones.
        """
        return picture(DrawsPicture(self, kind, names), path)

    def __repr__(self) -> str:
        chains, draws = self.shape
        return f"<Posterior: {chains} x {draws} draws of {len(self.labels)} unknowns, {self.divergences} divergent>"


@dataclass(frozen=True, eq=False)
class DrawsPicture:
    """A picture of draws that is wanted."""

    posterior: Posterior
    kind: str
    names: list[str] | None = None
