"""Where a search begins: the unknowns, and a guess of the states over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.problem.problem import Problem


@dataclass(frozen=True)
class Start:
    """Where a search begins: unknowns in internal coordinates and a table of guessed states per experiment."""

    unknowns: np.ndarray  # (experiments, width)
    tables: tuple[tuple[np.ndarray, np.ndarray], ...]  # (times (k,), states (k, states)) per experiment
    positive: np.ndarray  # (states,) bool: begins positive and can neither reach nor cross zero

    def states(self, times: np.ndarray, experiment: int) -> np.ndarray:
        """Guessed states at given times: (times, states)."""
        grid, values = self.tables[experiment]
        return np.stack([np.interp(times, grid, column) for column in values.T], axis=1)

    def at_samples(self, problem: Problem) -> np.ndarray:
        """Guessed states at the sampling instants: (samples, states)."""
        return np.concatenate([self.states(one.times, e) for e, one in enumerate(problem.experiments)])
