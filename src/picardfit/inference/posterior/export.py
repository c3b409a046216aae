"""Draws for other programs: tables, ArviZ, NetCDF."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from picardfit.errors import InputError
from picardfit.inference.posterior.predictive import data_costs
from picardfit.whole_files import regular_target, write_bytes, write_text

if TYPE_CHECKING:
    import pandas as pd

    from picardfit.inference.posterior.posterior import Posterior


def draws_frame(one: Posterior) -> pd.DataFrame:
    """One row for each draw: chain, draw, the unknowns by name, and the columns of the sampler."""
    import pandas as pd

    chains, draws = one.shape
    columns: dict[str, np.ndarray] = {
        "chain": np.repeat(np.arange(chains), draws),
        "draw": np.tile(np.arange(draws), chains),
    }
    columns |= {name: values.ravel() for name, values in one.draws.items()}
    return pd.DataFrame(columns | {name: values.ravel() for name, values in _statistics(one).items()})


def _statistics(one: Posterior) -> dict[str, np.ndarray]:
    """What the sampler says of each draw, under the names of ArviZ."""
    drawn = one.drawn
    found = {
        "lp": drawn.log_density,
        "diverging": drawn.divergent,
        "energy": drawn.energy,
        "acceptance_rate": drawn.accept,
        "tree_depth": drawn.depth,
    }
    return {name: values for name, values in found.items() if values is not None}


def to_arviz(one: Posterior, log_likelihood: bool = False) -> object:
    """A DataTree with the groups posterior, sample_stats and observed_data, and with log_likelihood if wanted."""
    try:
        from arviz_base import from_dict
    except ImportError:
        raise InputError("inference.no_arviz") from None
    observed = {}
    for k, name in enumerate(one.problem.model.observables):
        values = one.problem.samples.data[:, k]
        observed[name] = values[np.isfinite(values)]
    groups = {"posterior": dict(one.draws), "sample_stats": _statistics(one), "observed_data": observed}
    if log_likelihood:
        costs = data_costs(one.problem, one.unknowns)
        groups["log_likelihood"] = {"measurements": -costs.reshape(*one.shape, -1)}
    return from_dict(groups)


def save(one: Posterior, path: str | Path) -> Path:
    """Write .csv or .nc."""
    ending = Path(path).suffix.lower()
    if ending == ".csv":
        return write_text(path, draws_frame(one).to_csv(index=False, lineterminator="\n"))
    if ending != ".nc":
        raise InputError("inference.draws_ending", str(path))
    tree = to_arviz(one)
    regular_target(path)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "draws.nc"
        try:
            tree.to_netcdf(file, engine="netcdf4")  # type: ignore[attr-defined]
        except (ImportError, ValueError):  # arviz-base without netCDF4
            raise InputError("inference.no_arviz") from None
        return write_bytes(path, file.read_bytes())
