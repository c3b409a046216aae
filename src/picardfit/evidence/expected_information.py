"""Information at given values, with no fit and no data: a path by independent integration, then exact derivatives.

The path is put on a mesh that resolves it, contracted, and its jumps are taken away by a Newton step over all
segments; with exact continuity, derivatives are carried from segment to segment. Their relative error is near 1e-10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from picardfit.collocation.adaptation import first_mesh, resolve, state_scale, unresolved
from picardfit.collocation.condensing import closing_step, reduced, start_derivatives
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation, linearise
from picardfit.collocation.mesh import Flags, Mesh, rule
from picardfit.collocation.picard import FixedPoint, Newton, newton
from picardfit.collocation.point import Point, contract_from, evaluate
from picardfit.problem.problem import Problem, Start
from picardfit.simulation.trajectories import Run, observed, trajectories


@dataclass(frozen=True)
class ExactPath:
    """How a path by independent integration is put on a mesh; the values are chosen."""

    nodes: int = 9  # of a segment: a high order, as paths are smooth and the error should be near rounding
    resolved: float = 1e-9  # largest Legendre tail, relative to the states' scale
    least_state: float = 1e-12  # scale of a state that is zero throughout, relative to the largest
    astray: float = 1e-2  # jump, relative to the states' scale, at which the path is not the integrated one
    refinements: int = 40  # of the mesh, at most: each halves segments
    most_segments: int = 50_000
    integration: float = 1e-10  # relative tolerance of the integration
    newton_steps: int = 2  # for the path and the knots: one leaves 1e-5, two rounding
    grid: int = 120  # even times at which the path is integrated first, besides the samples


DEFAULT = ExactPath()


@dataclass(frozen=True)
class Expected:
    """A problem's path at given values, with derivatives by the unknowns (experiments, width), internal coordinates."""

    system: Discretisation
    linear: Linearisation

    @property
    def outputs(self) -> np.ndarray:
        """(samples, observables)."""
        return self.linear.outputs

    @cached_property
    def hessians(self) -> np.ndarray:
        """(experiments, width, width): Fisher information of each experiment, residuals of unit variance."""
        return reduced(self.system, self.linear.quadratic)[0]

    @cached_property
    def jacobian(self) -> np.ndarray:
        """(samples, observables, width): derivatives of the outputs by the unknowns row of the sample's experiment."""
        starts = start_derivatives(self.system, self.linear.quadratic)
        return self.linear.at_samples(self.system) @ starts[self.system.segment]


def expected(problem: Problem, unknowns: np.ndarray, nodes: int = DEFAULT.nodes) -> Expected | None:
    """Path and derivatives of a problem at unknowns in internal coordinates; None where there is no solution.

    Planned experiments get the predicted values as their data, so that every measurement counts.
    """
    start = simulated(problem, unknowns, DEFAULT.integration)
    filled = None if start is None else as_if_measured(problem, start)
    if start is None or filled is None:
        return None
    with np.errstate(all="ignore"):
        found = on_mesh(filled, start, nodes)
        linear = None if found is None else _polished(*found)
    if found is None or linear is None or not np.isfinite(linear.jacobian).all():
        return None
    return Expected(found[0], linear)


def solvable(problem: Problem, unknowns: np.ndarray) -> list[bool]:
    """Whether each experiment can be integrated to its end."""
    runs = _runs(problem, unknowns, [_grid(problem, e) for e in range(len(problem.experiments))])
    return [states is not None for states in trajectories(problem.solved_model, runs)]


def as_if_measured(problem: Problem, start: Start) -> Problem | None:
    """The problem with exact data wherever something is or will be measured; None where an output is not finite."""
    runs = _runs(problem, start.unknowns, [times for times, _ in start.tables])
    owner, states = problem.samples.experiment, start.at_samples(problem)
    exact = [
        observed(problem.solved_model, replace(run, times=one.times), states[owner == e])
        for e, (one, run) in enumerate(zip(problem.experiments, runs, strict=True))
    ]
    sampled, outputs = problem.sampled, np.concatenate(exact)
    if not np.isfinite(outputs[sampled]).all():
        return None
    return problem.with_data(np.where(sampled, problem.as_measured(outputs), np.nan))


def _grid(problem: Problem, experiment: int) -> np.ndarray:
    """Times at which the path is integrated first: even ones, the samples and points between them."""
    start, stop = problem.span(experiment)
    times = np.unique(np.concatenate([[start], problem.experiments[experiment].times, [stop]]))
    between = 0.5 * (times[1:] + times[:-1])
    grid = [np.linspace(start, stop, DEFAULT.grid + 1), times, between]
    if (jumps := problem.jumps[experiment]) is not None:
        inside = jumps.times[jumps.times < stop]
        grid += [inside, np.nextafter(inside, start)]  # both sides of a jump, for interpolation
    return np.unique(np.concatenate(grid))


def _runs(problem: Problem, unknowns: np.ndarray, times: Sequence[np.ndarray]) -> list[Run]:
    params, initial = problem.layout.model_values(unknowns), problem.layout.initial(unknowns)[0]
    return [
        Run(
            one.t0,
            initial[e],
            params[e],
            one.signals,
            times[e],
            *problem.events(e),
            sizes=problem.state_sizes[e],
        )
        for e, one in enumerate(problem.experiments)
    ]


def simulated(problem: Problem, unknowns: np.ndarray, rtol: float = 1e-8) -> Start | None:
    """A start on the path of these unknowns, by independent integration; None where there is no solution."""
    runs = _runs(problem, unknowns, [_grid(problem, e) for e in range(len(problem.experiments))])
    solved = trajectories(problem.solved_model, runs, rtol)
    tables = [
        (run.times, states)
        for run, states in zip(runs, solved, strict=True)
        if states is not None and np.isfinite(states).all()
    ]
    if len(tables) < len(runs):
        return None
    return Start(unknowns, tuple(tables), np.zeros(len(problem.solved_model.states), bool))


def on_mesh(
    problem: Problem, start: Start, nodes: int, tolerance: float = DEFAULT.resolved
) -> tuple[Discretisation, Point] | None:
    """The path on a mesh that resolves it (Legendre tails below `tolerance`); knot states come from the integration."""
    scale = state_scale(problem, [states for _, states in start.tables], least=DEFAULT.least_state)
    mesh = first_mesh(problem, start, rule(nodes), scale)

    def attempt(mesh: Mesh) -> tuple[tuple[Discretisation, Point] | None, Flags]:
        states = _knot_states(problem, start.unknowns, mesh) if len(mesh) <= DEFAULT.most_segments else None
        if states is None:
            return None, np.zeros(len(mesh), bool)
        system = Discretisation(problem, mesh)
        point, chosen = contract_from(system, start.unknowns, states, scale)
        if point is None:
            return None, chosen
        chosen = unresolved(mesh, point.states, point.path, scale, tolerance)
        chosen[mesh.linked] |= (np.abs(point.jumps) > DEFAULT.astray * scale).any(axis=1)
        return (system, point), chosen

    return resolve(mesh, attempt, DEFAULT.refinements, DEFAULT.most_segments)


def _knot_states(problem: Problem, unknowns: np.ndarray, mesh: Mesh) -> np.ndarray | None:
    """(segments, states): start state of each segment, by integration."""
    solved = trajectories(
        problem.solved_model, _runs(problem, unknowns, [knots[:-1] for knots in mesh.knots])
    )
    found = [states for states in solved if states is not None]
    if len(found) < len(solved):
        return None
    tables = tuple(zip((knots[:-1] for knots in mesh.knots), found, strict=True))
    return Start(unknowns, tables, np.zeros(found[0].shape[1], bool)).at_knots(problem, mesh.knots)


def _polished(system: Discretisation, point: Point) -> Linearisation | None:
    """The linearisation at a path without jumps: Newton steps for the path of each segment, then for the knots."""
    mesh, spread = system.mesh, system.spread(system.parameters(point.unknowns))
    scale = state_scale(system.problem, [point.path], least=DEFAULT.least_state)
    linear = linearise(system, point)
    for _ in range(DEFAULT.newton_steps):
        step = closing_step(mesh, linear.quadratic, point.jumps)
        states = point.states + step
        path = point.path + (linear.multipliers[..., : step.shape[1]] @ step[:, None, :, None])[..., 0]
        equation = FixedPoint(system.field, states, spread, scale)
        path = newton(equation, path, 0.0, Newton(steps=1), linear.inverse).path
        moved = evaluate(system, point.unknowns, states, path, scale, linear.nearby)
        if moved is None:
            return None
        point, linear = moved, linearise(system, moved, expected=True)
    return linear
