"""A start at which the fast and the slow states of an optimum have changed places.

Data that show only some of the states often have two explanations which differ in the order of two rates: absorption
is fast and elimination slow, or the reverse (the flip-flop of oral pharmacokinetics); the first step of a chain of
reactions is the slow one, or the second; people become infectious late and recover early, or the reverse. Both fit
equally well, and which one a search finds depends on where it begins. So one search begins where the other explanation
is likely. Let state a decay at a rate r_a(theta) = |df_a/dx_a| that the parameters alone set. The start has

    log r_a(theta') = log r_b(theta)

for a permutation a -> b of such states, as near to the optimum as the data see it: among all such changes the one with
the smallest d' C^-1 d, C the covariance of the estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.evidence.fisher import information
from picardfit.problem.problem import Start
from picardfit.search.starts import make_start
from picardfit.solvers.loop import Solution


@dataclass(frozen=True)
class Exchange:
    """How parameters are found at which states have exchanged their rates."""

    points: int = 64  # of the path at which rates must be the same
    constant: float = 1e-9  # relative difference of rates that are the same: rounding
    acting: float = 1e-3  # relative change of a rate by a relative change of a parameter that counts
    distinct: float = 0.05  # difference of the logarithms of two rates that are worth exchanging
    steps: int = 12  # of Gauss-Newton in the logarithms; products of powers need one
    longest: float = 2.3  # change of an unknown in a step, in units or logarithms: a factor of ten
    close: float = 0.01  # difference of the logarithms at which rates are exchanged
    stiffest: float = (
        1e-2  # least variance of an unknown, relative to the largest: so well determined ones move, too
    )
    ridge: float = 1e-3  # damping of the steps, relative to the mean curvature
    difference: float = 1e-6  # change of an unknown over which rates are differenced, in its unit


def has_hidden_rates(best: Solution, settings: Exchange = Exchange()) -> bool:
    """Whether two states or more decay at rates that parameters set, one of them shown by no observable alone."""
    if best.system.problem.timed is not None:  # a start with exchanged rates has no events
        return False
    model = best.system.problem.solved_model
    by_states, _ = model.output.jacobian_pattern
    shown = by_states[by_states.sum(axis=1) == 1].any(axis=0)
    if shown.all():
        return False
    with np.errstate(all="ignore"):
        decaying = _Rates(best, settings).decaying(best.unknowns)
    return len(decaying) > 1 and not shown[decaying].all()


def exchanged_start(best: Solution, seed: int, settings: Exchange = Exchange()) -> Start | None:
    """A start with the rates of states exchanged, by a permutation of this seed; None where that is impossible."""
    problem = best.system.problem
    with np.errstate(all="ignore"):
        unknowns = exchanged(best, np.random.default_rng([seed, len(problem.samples.times)]), settings)
        if unknowns is None:
            return None
        given = unknowns.copy()
        given[:, : len(problem.layout.initial_states)] = np.nan  # as the data suggest
        return make_start(problem, given, matched=False)


def exchanged(best: Solution, rng: np.random.Generator, settings: Exchange = Exchange()) -> np.ndarray | None:
    """(experiments, width): the unknowns of an optimum after an exchange of rates; None where there is none."""
    rates = _Rates(best, settings)
    if not len(rates.columns):
        return None
    before, slopes = rates.linearised(best.unknowns)
    decaying = rates.decaying(best.unknowns)
    acting = decaying[np.abs(slopes[decaying]).max(axis=1) > settings.acting]
    wanted = before[_deranged(acting, rng)]
    if not (np.abs(wanted - before[acting]) > settings.distinct).any():
        return None
    metric = _covariance(best, rates.columns, rates.unit, settings.stiffest)
    layout, unknowns, now = best.system.problem.layout, best.unknowns.copy(), before
    for _ in range(settings.steps):
        gap, steep = wanted - now[acting], slopes[acting]
        if np.abs(gap).max() < settings.close:
            break
        curvature = steep @ metric @ steep.T
        damping = settings.ridge * np.trace(curvature) / len(acting)
        move = metric @ steep.T @ np.linalg.solve(curvature + damping * np.eye(len(acting)), gap)
        step = np.clip(move, -settings.longest, settings.longest) * rates.unit
        unknowns[:, rates.columns] += step
        unknowns = np.clip(unknowns, layout.lower, layout.upper)
        now, slopes = rates.linearised(unknowns)
        if not (np.isfinite(now[acting]).all() and np.isfinite(slopes[acting]).all()):
            return None
    return unknowns


def _deranged(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A permutation that leaves none of them where it was: one cycle through all."""
    cycle, moved = rng.permutation(len(values)), np.empty_like(values)
    moved[cycle] = values[np.roll(cycle, 1)]
    return moved


class _Rates:
    """log r_a of all states as functions of the parameters, means over points of a path."""

    def __init__(self, best: Solution, settings: Exchange) -> None:
        problem, mesh = best.system.problem, best.system.mesh
        layout = problem.layout
        parameters = np.arange(layout.width) >= len(layout.initial_states)
        self.columns = np.flatnonzero(parameters & layout.exists.any(axis=0) & ~layout.noise_columns)
        self.unit = layout.unit(best.unknowns)[0, self.columns]
        chosen = np.unique(np.linspace(0, len(mesh.experiment) - 1, settings.points).astype(int))
        self._problem, self._settings, self._experiment = problem, settings, mesh.experiment[chosen]
        self._times, self._states = mesh.node_times[chosen, -1], best.path[chosen, -1]
        self._inputs = problem.inputs_at(self._experiment, self._times)

    def _logarithms(self, unknowns: np.ndarray) -> np.ndarray:
        """(points, states)."""
        params = self._problem.layout.model_values(unknowns)[self._experiment]
        rhs = self._problem.solved_model.rhs
        _, by_states, _ = rhs.linearise(self._times, self._states, params, self._inputs)
        rates: np.ndarray = np.log(np.abs(np.diagonal(by_states, axis1=-2, axis2=-1)))
        return rates

    def __call__(self, unknowns: np.ndarray) -> np.ndarray:
        """(states,)."""
        return np.asarray(self._logarithms(unknowns).mean(axis=0))

    def decaying(self, unknowns: np.ndarray) -> np.ndarray:
        """The states whose rates are the same at all points of an experiment, whatever the states and inputs are."""
        rates = self._logarithms(unknowns)
        first = rates[np.searchsorted(self._experiment, self._experiment)]
        return np.flatnonzero((np.abs(rates - first) <= self._settings.constant).all(axis=0))

    def linearised(self, unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(states,) and its derivatives (states, columns) by changes in units of the unknowns.

        Unknowns of single experiments move together in all of them.
        """
        here, slopes = self(unknowns), []
        for column, unit in zip(self.columns, self.unit, strict=True):
            moved = unknowns.copy()
            moved[:, column] += self._settings.difference * unit
            slopes.append((self(moved) - here) / self._settings.difference)
        return here, np.array(slopes).T


def _covariance(best: Solution, columns: np.ndarray, unit: np.ndarray, stiffest: float) -> np.ndarray:
    """(columns, columns): how freely parameters move together, the freest by 1; unknowns without information freely."""
    found = information(best, everything=True)
    shared = {int(c): k for k, (_, c) in enumerate(found.index) if c >= best.system.problem.layout.local}
    known = np.array([int(c) in shared for c in columns], bool)
    metric = np.eye(len(columns))
    if known.any():
        there = np.ix_(known, known)
        part = found.covariance(chosen=np.array([shared[int(c)] for c in columns[known]]))
        part = part / np.outer(unit[known], unit[known])
        largest = np.where(np.isfinite(part), part, 0.0).diagonal().max()
        metric[there] = np.where(np.isfinite(part), part / largest, np.eye(len(part))) if largest > 0 else 1.0
    return metric + stiffest * np.eye(len(columns))
