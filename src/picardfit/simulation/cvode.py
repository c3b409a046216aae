"""CVODE of SUNDIALS, by the package scikit-sundae: an engine that a user may choose, never required."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from picardfit.errors import InputError

Slopes = Callable[[float, np.ndarray], "np.ndarray | list[float]"]


@dataclass(frozen=True)
class CVODE:
    """Integrate with CVODE (extra `cvode`): `problem.nllh(parameters, engine=pf.CVODE())`.

    BDF formulas of variable order with exact Jacobians, run by run; where CVODE fails, SciPy's integrators follow.
    Models with events keep SciPy's.
    """

    margin: float = 20.0  # single steps get the accuracy asked for over this, as with LSODA: errors add up
    steps: int = 60_000  # between two times, before it gives up: a choice

    def check(self) -> None:
        """InputError where the package is missing."""
        _solver()

    def solved(
        self,
        slopes: Slopes,
        jacobian: Callable[[float, np.ndarray], np.ndarray],
        start: np.ndarray,
        grid: np.ndarray,
        rtol: float,
        atol: np.ndarray,
    ) -> np.ndarray | None:
        """The states (grid, states) of x' = slopes(t, x) on an ascending grid; None where CVODE gives up."""

        def write_slopes(t: float, x: np.ndarray, out: np.ndarray) -> None:
            out[:] = slopes(t, x)

        def write_jacobian(t: float, x: np.ndarray, _: np.ndarray, out: np.ndarray) -> None:
            out[...] = jacobian(t, x)

        options = {"rtol": rtol, "atol": atol, "max_num_steps": self.steps, "jacfn": write_jacobian}
        answer = _solver()(write_slopes, method="BDF", linsolver="dense", **options).solve(grid, start)
        found = answer.y if len(grid) > 2 else answer.y[[0, -1]]  # of two times it returns every step between
        return found if answer.success and np.isfinite(found).all() else None


def _solver() -> Callable[..., Any]:
    try:
        from sksundae.cvode import CVODE as Solver
    except ImportError:
        raise InputError("simulation.no_cvode") from None
    return Solver
