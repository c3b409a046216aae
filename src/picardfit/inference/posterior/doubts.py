"""What speaks against draws: mixing, effective draws, divergences, energies, and what was found while drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from picardfit.errors import Notice
from picardfit.inference.posterior.methods import NUTS, LaplaceDraws
from picardfit.inference.posterior.pareto import TRUSTED

if TYPE_CHECKING:
    from picardfit.inference.posterior.posterior import Posterior

DOUBTS = {
    "inference.not_mixed",
    "inference.few_effective",
    "inference.few_weights",
    "inference.divergent",
    "inference.low_energy",
    "inference.weights_not_trusted",
    "inference.posterior_inexact",
    "inference.posterior_open",
    "inference.several_modes",
    "inference.one_mode",
    "inference.no_diagnostics",
}


def mixing_notices(one: Posterior) -> list[Notice]:
    """What R-hat, effective draws, divergences and energies say."""
    limits, table, found = one.limits, one.table, []
    least = {
        name: float(np.nan_to_num(np.minimum(row["ess_bulk"], row["ess_tail"])))
        for name, row in table.items()
    }
    poorest, wanted = min(least, key=lambda name: least[name]), limits.effective * one.method.independent
    few = {"count": least[poorest], "wanted": wanted}
    if one.drawn.khat is not None:
        if not one.drawn.khat < TRUSTED:
            found.append(Notice("inference.weights_not_trusted", "", {"khat": one.drawn.khat}))
        if least[poorest] < wanted:
            found.append(Notice("inference.few_weights", poorest, few))
        return found
    (chains, draws), method = one.shape, one.method
    assert not isinstance(method, LaplaceDraws)
    if draws < 4:
        return [Notice("inference.no_diagnostics", "", {"draws": draws})]
    worst = max(table, key=lambda name: np.nan_to_num(table[name]["r_hat"], nan=np.inf))
    if not table[worst]["r_hat"] <= limits.r_hat:
        found.append(Notice("inference.not_mixed", worst, {"r_hat": table[worst]["r_hat"]}))
    if least[poorest] < wanted:
        found.append(Notice("inference.few_effective", poorest, few))
    if one.divergences:
        found.append(Notice("inference.divergent", "", {"count": one.divergences, "draws": chains * draws}))
    if isinstance(method, NUTS) and one.drawn.depth is not None:
        full = int((one.drawn.depth >= method.depth).sum())
        values = {"count": full, "draws": chains * draws, "depth": method.depth}
        found += [Notice("inference.deep", "", values)] * bool(full)
    low = float(np.min(one.e_bfmi, initial=np.inf))
    if low < limits.energy:
        found.append(Notice("inference.low_energy", "", {"value": low}))
    return found
