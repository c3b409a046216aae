"""Which candidates to choose: greedy additions by a criterion, then exchanges as long as they gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from picardfit.inference.design_information import Stage


@dataclass(frozen=True)
class Exchanges:
    """When the exchange of chosen candidates for others ends."""

    sweeps: int = 20  # over all chosen ones, at most; a few are enough
    gain: float = 1e-9  # relative improvement that is more than rounding


def scores(criterion: str, stages: Sequence[Stage], added: Sequence[np.ndarray]) -> np.ndarray:
    """(trials,): mean over the stages of what is minimised; added[s] is (trials, unknowns, unknowns)."""
    total = np.zeros(len(added[0]))
    for stage, more in zip(stages, added, strict=True):
        found = covariance(stage, more, stage.targets)
        q = found.shape[1]
        if criterion == "D":
            value = np.linalg.slogdet(found)[1] / q
        elif criterion == "E":
            value = np.linalg.eigvalsh(found)[:, -1]
        else:
            value = np.trace(found, axis1=1, axis2=2) / q
        total = total + value
    return total / len(stages)


def covariance(stage: Stage, more: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(trials, q, q)."""
    matrix = stage.base + more
    scale = 1 / np.sqrt(np.einsum("...ii->...i", matrix))
    scaled = matrix * scale[..., :, None] * scale[..., None, :]
    right = scale[..., :, None] * rows.T
    found = right.transpose(0, 2, 1) @ np.linalg.solve(scaled, right)
    return 0.5 * (found + found.transpose(0, 2, 1))


def choose(
    stages: Sequence[Stage],
    criterion: str,
    budget: int,
    repeat: bool,
    exchanges: Exchanges = Exchanges(),
) -> list[int]:
    """Greedy additions, then exchanges as long as they gain."""
    chosen: list[int] = []
    for _ in range(budget):
        chosen.append(_best(stages, criterion, chosen, repeat)[0])
    for _ in range(exchanges.sweeps if budget > 1 else 0):
        before = list(chosen)
        for place in range(budget):
            others = chosen[:place] + chosen[place + 1 :]
            trial, found = _best(stages, criterion, others, repeat)
            if found[trial] < found[chosen[place]] - exchanges.gain * abs(found[chosen[place]]):
                chosen[place] = trial
        if chosen == before:
            break
    return chosen


def _best(stages: Sequence[Stage], criterion: str, chosen: list[int], repeat: bool) -> tuple[int, np.ndarray]:
    """The candidate to add to the chosen ones, and the scores of all."""
    added = [stage.items[chosen].sum(axis=0) + stage.items for stage in stages]
    found = scores(criterion, stages, added)
    open_ = np.ones(len(found), bool)
    if not repeat:
        open_[chosen] = False
    return int(np.argmin(np.where(open_, found, np.inf))), found
