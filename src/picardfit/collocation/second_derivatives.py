"""The second derivatives that Gauss-Newton leaves out.

With v the slope of data and continuity by the path u on a segment, differentiating u = P u twice gives

    v' u_ab = w' (f_zz [z_a, z_b]),   w = h A' (I - h A (x) f_x)^-T v,   z = (state at a node, parameters),

where z_a is the derivative of z by column a: S, and one for a parameter itself. Columns of f_zz [., z_b] are
differences of the exact first derivatives along z_b. Nonlinear observables and initial states add their second
derivatives, and so does the objective, unless it has kinks: then its curvature stays the one that the search uses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from picardfit.collocation.condensing import Quadratic
from picardfit.collocation.curvature import Curvature
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.linearisation import Linearisation
from picardfit.collocation.mesh import Indices
from picardfit.collocation.point import Point
from picardfit.formulas.kernels import Array, BatchedMap


@dataclass(frozen=True)
class Differencing:
    """How first derivatives are differenced."""

    step: float = 1e-7  # over the states' scale or the parameters' size; about the root of machine precision
    numbers: int = 500_000  # derivatives that are evaluated together, so that they stay in the cache


def has_second_order(system: Discretisation) -> bool:
    """Whether first derivatives are exact enough to be differenced."""
    problem = system.problem
    if problem.timed is not None:  # those of event times are not implemented
        return False
    return isinstance(problem.rhs, BatchedMap) and isinstance(problem.solved_model.output, BatchedMap)


def newton_model(
    system: Discretisation,
    point: Point,
    linear: Linearisation,
    forces: Array,
    scale: Array,
    differencing: Differencing = Differencing(),
) -> Quadratic:
    """The quadratic model with second derivatives; `forces` (linked, states): slope of continuity by the jumps."""
    differences = _Differences(system, point, linear, scale, differencing)
    hessian = differences.of_path(forces)
    if system.selected is None:
        hessian += differences.of_outputs()
    if system.selected is not None or not system.objective.smooth:
        known = linear.quadratic.hessian
        hessian += known.dense(system.mesh) if isinstance(known, Curvature) else known
    hessian = 0.5 * (hessian + hessian.transpose(0, 2, 1))
    return replace(
        linear.quadratic,
        hessian=hessian,
        unknowns=_of_initial(system, point, linear, forces, differencing.step),
    )


class _Differences:
    """Differences of slopes by states and parameters, along the columns of the derivatives."""

    def __init__(
        self,
        system: Discretisation,
        point: Point,
        linear: Linearisation,
        scale: Array,
        differencing: Differencing,
    ) -> None:
        self._system, self._point, self._linear, self._scale = system, point, linear, scale
        self._differencing = differencing
        layout, own = system.problem.layout, system.problem.layout.columns.parameters
        self._scales = layout.scales[:, own]  # (experiments, free parameters)
        self._size = layout.unit(point.unknowns)[:, own]
        self._chain = layout.parameter_slopes(point.unknowns)
        self._slope = system.objective.terms(linear.outputs).slope[:, None, :]  # (samples, 1, rows)

    @cached_property
    def _outputs(self) -> tuple[Array, Array]:
        """Derivatives of the rows by states and by parameters, (samples, rows, ...)."""
        return self._system.linearised_outputs(self._point.sampled, self._point.params)[1:]

    def _slope_by_path(self, forces: Array) -> Array:
        """(segments, nodes, states): derivative of data and continuity by the path at the nodes."""
        system, mesh, blocks = self._system, self._system.mesh, self._system.blocks
        if system.selected is None:
            by_state = (self._slope @ self._outputs[0])[:, 0]
        else:
            by_state, every = np.zeros(self._point.sampled.shape), np.arange(self._point.sampled.shape[1])
            np.add.at(by_state.T, every[system.selected], self._slope[:, 0].T)
        result = blocks.by_segment(system.along[1].transpose(0, 2, 1) @ blocks.padded(by_state))
        felt = system.felt(forces)
        result[mesh.linked] += mesh.rule.along(np.ones(1))[0, 1:, None] * felt[:, None, :]
        return result

    def of_path(self, forces: Array) -> Array:
        """(segments, columns, columns): w' f_zz, not yet symmetric."""
        slope = self._slope_by_path(forces)
        system, path, multipliers = self._system, self._point.path, self._linear.multipliers
        mesh, field, free = system.mesh, system.field, system.problem.layout.free_columns
        segments, _, states, columns = multipliers.shape
        _, wrt_x, wrt_p = field.linearise(path, system.spread(self._point.params))
        inverse, flat = self._linear.inverse, slope.reshape(segments, 1, -1)
        integral = mesh.integral.transpose(0, 2, 1)
        adjoint = field.solve_transposed(inverse, flat).reshape(slope.shape)
        again = ((integral @ adjoint)[:, :, None, :] @ wrt_x)[:, :, 0]
        missed = (slope - adjoint + again).reshape(segments, 1, -1)  # the inverse may be of nearby
        adjoint = adjoint + field.solve_transposed(inverse, missed).reshape(slope.shape)
        weights = (integral @ adjoint)[:, :, None, :]
        chain = self._chain[mesh.experiment][:, None, :]
        middle = (weights @ wrt_x)[:, :, 0], (weights @ wrt_p[..., free])[:, :, 0] * chain

        result = np.empty((segments, columns, columns))
        flat = multipliers.reshape(segments, -1, columns)
        for chosen in self._groups(columns, wrt_x.size + wrt_p.size):
            along = np.moveaxis(multipliers[..., chosen], -1, 0)  # (chosen, segments, nodes, states)
            speed = np.abs(along / self._scale).max(axis=(2, 3))
            length, params, chain = self._moved(chosen, speed, mesh.experiment)
            length = length[..., None, None]
            _, wrt_x, wrt_p = field.linearise(path + length * along, params[:, :, None, :])
            by_x = ((weights @ wrt_x)[..., 0, :] - middle[0]) / length
            by_p = ((weights @ wrt_p[..., free])[..., 0, :] * chain[:, :, None, :] - middle[1]) / length
            found = by_x.reshape(len(along), segments, -1).transpose(1, 0, 2) @ flat
            found[..., states:] += by_p.sum(axis=2).transpose(1, 0, 2)
            result[:, chosen] = found
        return result

    def of_outputs(self) -> Array:
        """(segments, columns, columns): second derivatives of the data, summed over samples.

        If the objective is not smooth only the part slope' g_zz that its rows have.
        """
        system, sampled, blocks = self._system, self._point.sampled, self._system.blocks
        samples, free = system.problem.samples, system.problem.layout.free_columns
        slope, (out_x, out_p) = self._slope, self._outputs
        groups = [
            system.derivatives_at_samples(
                self._linear.multipliers[chunk.segments], chunk, self._point.states, self._point.path
            )
            for chunk in system.chunks
        ]
        derivatives = blocks.unpadded(np.concatenate(groups))  # (samples, states, columns)
        states, columns = derivatives.shape[1:]
        middle = (slope @ out_x)[:, 0], (slope @ out_p[..., free])[:, 0] * self._chain[samples.experiment]

        result = np.empty((len(system.mesh), columns, columns))
        for chosen in self._groups(columns, out_x.size + out_p.size + derivatives.size):
            along = np.moveaxis(derivatives[..., chosen], -1, 0)  # (chosen, samples, states)
            speed = np.abs(along / self._scale).max(axis=2)
            length, params, chain = self._moved(chosen, speed, samples.experiment)
            length = length[..., None]
            rows, out_x, out_p = system.problem.measurement_at_samples.linearise(
                samples.times, sampled + length * along, params, system.sample_inputs
            )
            there = slope
            if system.objective.smooth:
                there = np.array([system.objective.terms(one).slope for one in rows])[..., None, :]
            by_x = ((there @ out_x)[..., 0, :] - middle[0]) / length
            by_p = ((there @ out_p[..., free])[..., 0, :] * chain - middle[1]) / length
            found = by_x.transpose(1, 0, 2) @ derivatives
            found[..., states:] += by_p.transpose(1, 0, 2)
            result[:, chosen] = blocks.by_segment(blocks.padded(found).sum(axis=1))
        return result

    def _groups(self, columns: int, size: int) -> list[slice]:
        """The columns in groups whose derivatives, of this size each, are computed together."""
        each = max(1, self._differencing.numbers // size)
        return [slice(k, min(k + each, columns)) for k in range(0, columns, each)]

    def _moved(self, chosen: slice, speed: Array, experiment: Indices) -> tuple[Array, Array, Array]:
        """Step lengths along the chosen columns, and parameters and their slopes there, each (chosen, rows, ...).

        `speed` (chosen, rows): of the states relative to their scale; `experiment` (rows,): the experiment of each row.
        """
        layout, states = self._system.problem.layout, len(self._scale)
        columns = np.arange(states + self._size.shape[1])[chosen]
        fastest = np.zeros((len(columns), len(self._size)))
        np.maximum.at(fastest.T, experiment, speed.T)
        own = np.flatnonzero(columns >= states)
        parameter = columns[own] - states
        fastest[own] = np.maximum(fastest[own], 1 / self._size[:, parameter].T)
        length = self._differencing.step / np.maximum(fastest, 1e-100)
        params, chain = (
            np.repeat(one[None], len(columns), axis=0) for one in (self._point.params, self._chain)
        )
        column, scales = layout.free_parameters[parameter], self._scales[:, parameter].transposed
        params[own, :, column] = moved = scales.moved(params[own, :, column], length[own])
        chain[own, :, parameter] = scales.slopes(moved)
        return length[:, experiment], params[:, experiment], chain[:, experiment]


def _of_initial(
    system: Discretisation, point: Point, linear: Linearisation, forces: Array, step: float
) -> Array | None:
    """(experiments, width, width): slope by the initial states times their second derivatives, if there are any."""
    mesh, layout, states = system.mesh, system.problem.layout, point.states.shape[1]
    if layout.plain_initial or layout.steady_starts is not None:
        return None
    slope = linear.quadratic.slope[:, :states].copy()
    slope[mesh.linked] += (forces[:, None, :] @ linear.quadratic.end[..., :states])[:, 0]
    first, unknowns = slope[mesh.first][:, None, :], point.unknowns
    size = layout.unit(unknowns)
    result = np.empty((len(unknowns), layout.width, layout.width))
    for b in range(layout.width):
        moved, length = unknowns.copy(), step * size[:, b]
        moved[:, b] += length
        change = layout.initial_derivative(moved) - linear.quadratic.initial
        result[:, :, b] = (first @ change)[:, 0] / length[:, None]
    return 0.5 * (result + result.transpose(0, 2, 1))
