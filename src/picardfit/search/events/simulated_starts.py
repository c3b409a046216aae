"""Starts of problems with events on a simulated schedule: where what is known of the parameters beats the data.

Events read off noisy data may be too many or too few, and a schedule that lacks one of a pair leaves a switch in the
wrong position for the rest of the experiment. Parameters can be matched to such a schedule; held ones cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from picardfit.problem.problem import Problem, Start
from picardfit.search.events.revision import start_along
from picardfit.search.starts import open_values, spread_evenly

Worth = Callable[[np.ndarray], float]  # the objective of unknowns by simulation, infinite where that fails


@dataclass(frozen=True)
class InitialScan:
    """How initial states are scanned where all parameters are known."""

    points: int = 16  # chosen: less than half a second for a thermostat of 33 events


def with_known_parameters(problem: Problem) -> bool:
    """Whether the equations hold no unknown, so that only initial states and noise are searched for."""
    layout = problem.layout
    exists = layout.exists[:, len(layout.initial_states) :].any(axis=0)
    return not (exists & (layout.column_parameters < layout.model_parameters)).any()


def scanned_start(
    problem: Problem, start: Start, pinned: np.ndarray, rank: int, worth: Worth, seed: int
) -> Start | None:
    """The start on the path of the best initial states but `rank`: those of `start`, and others within the bounds.

    Values that are `pinned` (experiments, width) bool stay, and so do levels of noise. None where too few simulate.
    """
    stays = pinned | ~problem.layout.exists | problem.layout.noise_columns
    every = [start.unknowns]
    if not stays.all():
        for part in spread_evenly(problem.layout, InitialScan().points, seed):
            every.append(np.where(stays, start.unknowns, open_values(problem, start.unknowns, part)))
    values = np.array([worth(one) for one in every])
    order = [k for k in np.argsort(values, kind="stable") if np.isfinite(values[k])]
    return start_along(problem, every[order[rank]]) if rank < len(order) else None


def given_start(problem: Problem, start: Start, rival: Start, worth: Worth) -> Start | None:
    """The start on the simulated path of `start`, if that fits better than the one of `rival`."""
    better = worth(start.unknowns) < worth(rival.unknowns)
    return start_along(problem, start.unknowns) if better else None
