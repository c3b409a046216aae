"""Block-banded normal equations: assemble, eliminate the segment states, back-substitute.

Variables of one Gauss-Newton step are the states at all inner knots and, per experiment, a row of unknowns
b = [free initial states and local parameters of this experiment | global parameters]. Inner states couple only to
their neighbours, so one banded Cholesky factorisation (cost linear in segments) leaves a small dense system per
experiment, and a second elimination of the local columns leaves one for the global parameters (bounded_qp.py).

The quadratic model is   sum_j 1/2 d_j' H_j d_j + g_j' d_j  +  sum_j 1/2 |c_j + B_j d_j - d_(j+1)|^2_W
with d_j = (state at the start of segment j, free parameters), c_j the jump at the knot after segment j, W the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from picardfit.collocation.curvature import BLOCKWISE, Blockwise, Curvature, with_continuity
from picardfit.collocation.discretisation import Discretisation
from picardfit.collocation.mesh import Flags, Mesh, QuickIndex
from picardfit.formulas.kernels import Array
from picardfit.problem.unknowns import UnknownsColumns


@dataclass(frozen=True)
class Quadratic:
    """The quadratic model of the objective, segment by segment; columns are [states | free parameters]."""

    hessian: Array | Curvature  # (segments, columns, columns); in parts for large models
    slope: Array  # (segments, columns)
    end: Array  # (linked, states, columns): derivative of the end state of segments with a successor
    jump: Array  # (linked, states): end state minus next start state
    initial: Array  # (experiments, states, unknowns): derivative of the initial state by the unknowns
    unknowns: Array | None = None  # (experiments, width, width): further curvature of the unknowns themselves

    def jump_change(
        self, mesh: Mesh, columns: UnknownsColumns, unknowns_step: Array, states_step: Array
    ) -> Array:
        """(linked, states): by how much a step changes the jumps, to first order."""
        moved = mesh.columns(states_step, unknowns_step[:, columns.index])[mesh.linked_rows]
        return (self.end @ moved[..., None])[..., 0] - states_step[mesh.inner_rows]


@dataclass(frozen=True)
class Factor:
    """The factorised inner block and its coupling to the unknowns, for any number of right-hand sides."""

    mesh: Mesh
    columns: UnknownsColumns
    weighted: Array  # W B: (linked, states, columns)
    penalty: Array  # (linked, states), or (states,) for all alike
    initial: Array
    cholesky: Array  # lower band
    cross: Array  # (inner, states, width)
    solved: (
        Array | None
    )  # inner block^-1 cross; None for large models, where solving for one vector is faster
    hessian: Array  # reduced: (experiments, width, width)

    def reduce(self, slope: Array, jump: Array) -> Reduced:
        """Eliminate the inner states from the slope of data (segments, columns) and jumps (linked, states)."""
        mesh, index = self.mesh, self.columns.index
        states, first, inner = self.cross.shape[1], mesh.first, mesh.inner_rows
        slope = slope.copy()
        slope[mesh.linked_rows] += (jump[:, None, :] @ self.weighted)[:, 0]
        inner_slope = slope[inner, :states] - self.penalty * jump
        full = np.zeros((len(first), self.columns.width))
        full[:, index] = np.add.reduceat(slope[:, states:], first)
        full += (self.initial.transpose(0, 2, 1) @ slope[first, :states, None])[..., 0]
        solved = _solve_band(self.cholesky, inner_slope)
        reduced = full.copy()
        for e, (a, b) in enumerate(mesh.inner_ranges):
            if b > a:
                reduced[e] -= solved[a:b].ravel() @ self.cross[a:b].reshape(-1, self.columns.width)
        return Reduced(self, reduced, full, inner_slope, solved)


@dataclass(frozen=True)
class Reduced:
    """A slope after the inner states are eliminated."""

    factor: Factor
    slope: Array  # (experiments, width)
    full_slope: Array  # before elimination
    inner_slope: Array  # (inner, states)
    solved: Array  # inner block^-1 inner_slope

    def states(self, unknowns_step: Array) -> Array:
        """Back-substitution: the step of all segment start states (segments, states)."""
        factor, mesh = self.factor, self.factor.mesh
        step = np.empty((len(mesh), factor.initial.shape[1]))
        step[mesh.first] = (factor.initial @ unknowns_step[:, :, None])[..., 0]
        inner = mesh.inner_rows
        mine = unknowns_step if len(unknowns_step) == 1 else unknowns_step[mesh.experiment[inner]]
        if factor.solved is None:
            pulled = _solve_band(factor.cholesky, (factor.cross @ mine[:, :, None])[..., 0])
        else:
            pulled = (factor.solved @ mine[:, :, None])[..., 0]
        step[inner] = -(self.solved + pulled)
        return step

    def directional_slope(self, states_step: Array, unknowns_step: Array) -> float:
        """g' d of the whole step."""
        inner = states_step[self.factor.mesh.inner_rows]
        return float(np.vdot(self.inner_slope, inner) + np.vdot(self.full_slope, unknowns_step))


def factorise(
    mesh: Mesh, columns: UnknownsColumns, model: Quadratic, penalty: Array, damping: Array
) -> Factor:
    """Factorise the inner block, with a penalty of jumps (linked, states) or (states,) and a damping (states,).

    Raises numpy.linalg.LinAlgError when the banded matrix is not positive definite.
    """
    states, first, inner = model.end.shape[1], mesh.first, mesh.inner_rows
    weighted = penalty[..., None] * model.end
    of_states, mixed, of_parameters = with_continuity(mesh, model.hessian, model.end, penalty, weighted)

    index = columns.index
    diagonal = of_states[inner].copy()
    diagonal.reshape(len(diagonal), states * states)[:, :: states + 1] += penalty + damping
    cross = np.zeros((len(mesh.inner), states, columns.width))
    cross[..., index] = mixed[inner] - weighted[..., states:]
    begins, owner = mesh.first_links
    cross[begins] -= weighted[begins, :, :states] @ model.initial[owner]

    hessian = np.zeros((len(first), columns.width, columns.width))
    inside = index if isinstance(index, slice) else index[:, None]
    hessian[:, inside, index] = of_parameters
    _add_first(hessian, of_states[first], mixed[first], model.initial, index)
    if model.unknowns is not None:
        hessian += model.unknowns

    between, upper = mesh.between
    band = _band(diagonal, -weighted[between, :, :states], upper)
    cholesky = _cholesky_band(band) if len(mesh.inner) else band
    solved = _eliminate_inner(mesh, cholesky, cross, hessian)
    return Factor(mesh, columns, weighted, penalty, model.initial, cholesky, cross, solved, hessian)


def _eliminate_inner(
    mesh: Mesh, cholesky: Array, cross: Array, hessian: Array, blockwise: Blockwise = BLOCKWISE
) -> Array | None:
    """Subtract C' M^-1 C from the hessian of each experiment, in place, with C the cross terms and M = L L'.

    Returns M^-1 C; for large models None, since L^-1 C suffices for the product.
    """
    from scipy.linalg.blas import dsyrk

    width = hessian.shape[1]
    if cross.shape[1] < blockwise.fewest:
        solved = _solve_band(cholesky, cross)
        for e, (a, b) in enumerate(mesh.inner_ranges):
            if b > a:
                hessian[e] -= cross[a:b].reshape(-1, width).T @ solved[a:b].reshape(-1, width)
        return solved
    half = _half_solved(cholesky, cross)
    for e, (a, b) in enumerate(mesh.inner_ranges):
        if b > a:
            upper = dsyrk(1.0, half[a:b].reshape(-1, width).T)
            hessian[e] -= upper + np.triu(upper, 1).T
    return None


def _add_first(hessian: Array, of_states: Array, mixed: Array, initial: Array, columns: QuickIndex) -> None:
    """Terms of the first segments, whose start state is a function of the unknowns: in place."""
    back = initial.transpose(0, 2, 1)
    hessian += back @ of_states @ initial
    cross = back @ mixed
    hessian[:, :, columns] += cross
    hessian[:, columns, :] += cross.transpose(0, 2, 1)


def _cholesky_band(band: Array) -> Array:
    """Cholesky factor of a lower band (LAPACK itself: SciPy's wrappers cost more than small systems do)."""
    from scipy.linalg.lapack import dpbtrf

    factor, failed = dpbtrf(band, lower=1, overwrite_ab=1)
    if failed:
        raise np.linalg.LinAlgError("the banded matrix is not positive definite")
    return np.asarray(factor)


def _solve_band(cholesky: Array, right: Array) -> Array:
    """Solve with the factorised inner block for an array (inner, states, ...)."""
    from scipy.linalg.lapack import dpbtrs

    if not right.size:
        return np.zeros_like(right)
    count = right.shape[0] * right.shape[1]
    solved: Array = dpbtrs(cholesky, right.reshape(count, -1), lower=1)[0].reshape(right.shape)
    return solved


def _half_solved(cholesky: Array, right: Array) -> Array:
    """L^-1 right for an array (inner, states, columns), with products of matrices.

    L has the blocks L_jj and L_(j+1)j; LAPACK's solver for bands takes one right-hand side at a time. BLAS is called
    for transposed arrays, because its matrices are stored by columns.
    """
    from scipy.linalg.blas import dtrsm

    solved, count, states = right.copy(), *right.shape[:2]
    columns = _block_columns(np.ascontiguousarray(cholesky.T), count, states)
    own, below = columns[..., :states] * _upper(states), columns[:-1, :, states:].copy()  # L_jj', L_(j+1)j'
    for j in range(count):
        if j:
            solved[j] -= below[j - 1].T @ solved[j - 1]
        dtrsm(1.0, own[j].T, solved[j].T, side=1, lower=1, trans_a=1, overwrite_b=1)
    return solved


@lru_cache
def _upper(states: int) -> Array:
    """Ones on the diagonal and above it."""
    return np.tri(states).T


def _band(diagonal: Array, lower: Array, upper_index: QuickIndex) -> Array:
    """Lower band storage of a block-tridiagonal matrix; lower[i] stands below the diagonal block upper_index[i]."""
    count, states = diagonal.shape[:2]
    band = np.zeros((count * states, 2 * states))
    if count:
        columns = _block_columns(band, count, states)
        columns[..., :states] = diagonal.transpose(0, 2, 1) * _upper(states)
        columns[upper_index, :, states:] = lower.transpose(0, 2, 1)
    return band.T


def _block_columns(band: Array, count: int, states: int) -> Array:
    """(blocks, states, 2 states): the columns of each diagonal block and the block below it, as a view of a band.

    Entry (row, column) of the matrix is entry (column, row - column) of an array whose rows are twice as long as a
    block: going one column on and staying in the row is a constant stride, so that blocks are views.
    """
    unit = band.itemsize
    strides = 2 * states**2 * unit, (2 * states - 1) * unit, unit
    return np.ndarray((count, states, 2 * states), buffer=band, strides=strides)


# ---- recursions along the segments ---------------------------------------------------------------------------------
#
# With exact continuity the start state of every segment is a function of the unknowns: it is the end state of the
# segment before it. With B_j = [derivative of the end state of segment j by its start state | by the free parameters],
# derivatives and first-order corrections of start states run forwards (X_{j+1} = B_j [X_j; ..] + c_j), and the adjoint
# variables of continuity run backwards (y_j = g_j + B_j' y_{j+1}). All experiments are handled together.


def forward(mesh: Mesh, ends: Array, columns: Array, added: Array | None = None) -> Array:
    """Fill the first rows of `columns` from segment to segment, in place: z_{j+1}[:states] = B_j z_j + c_j.

    `ends` (linked, states, rows): B; `columns` (segments, rows, k): z, given in the first segment of each experiment
    and in the rows beyond the states; `added` (linked, states, k): c, by default zero. Returns `columns`.
    """
    states = ends.shape[1]
    if len(mesh.first) == 1:  # plain products are several times faster than indexed ones
        for j, end in enumerate(ends):
            np.matmul(end, columns[j], out=columns[j + 1, :states])
            if added is not None:
                columns[j + 1, :states] += added[j]
        return columns
    link = np.full(len(mesh), -1)
    link[mesh.linked] = np.arange(len(mesh.linked))
    for step in range(mesh.counts.max() - 1):
        segment = mesh.first[mesh.counts > step + 1] + step
        here = link[segment]
        moved = ends[here] @ columns[segment]
        columns[segment + 1, :states] = moved if added is None else moved + added[here]
    return columns


def backward(mesh: Mesh, ends: Array, slope: Array, values: Array, chosen: Flags) -> Array:
    """Adjoint variables at the chosen knots, from the last one back: y_j = g_(j+1) + B_(j+1)' y_(j+1).

    Knot j follows the segment `mesh.linked[j]`. `ends` (linked, states, states): B, the derivative of the end of the
    segment before a knot by its start; `slope` (segments, states): g; `values` (linked, states): y where it is known;
    `chosen` (linked,) bool: knots where it is not. Returns y (linked, states).
    """
    linked, result, number = mesh.linked, values.copy(), np.flatnonzero(chosen)
    if not len(number):
        return result
    follows = np.append(linked[1:] == linked[:-1] + 1, False)  # another knot comes after the next segment
    unknown_next = follows & np.append(chosen[1:], False)
    known = np.flatnonzero(~unknown_next)
    depth = known[np.searchsorted(known, number)] - number  # unknown knots between this one and a known value
    order = np.argsort(depth, kind="stable")
    for ready in np.split(number[order], np.cumsum(np.bincount(depth))[:-1]):
        demand = slope[linked[ready] + 1]
        linking = follows[ready]
        after = ready[linking] + 1
        demand[linking] += (ends[after].transpose(0, 2, 1) @ result[after][..., None])[..., 0]
        result[ready] = demand
    return result


def closing_step(mesh: Mesh, quadratic: Quadratic, jumps: Array) -> Array:
    """(segments, states): steps of the start states that close the jumps to first order, first states held.

    d_{j+1} = B_j d_j + c_j with the jumps c (linked, states).
    """
    states = jumps.shape[1]
    step = np.zeros((len(mesh), states, 1))
    return forward(mesh, quadratic.end[..., :states], step, jumps[..., None])[..., 0]


def start_derivatives(system: Discretisation, quadratic: Quadratic) -> Array:
    """(segments, states + free parameters, width): derivative of each segment's own variables by the unknowns.

    The own variables of a segment are its start state and the free parameters.
    """
    mesh, layout = system.mesh, system.problem.layout.columns
    states = quadratic.initial.shape[1]
    columns = np.zeros((len(mesh), states + len(layout.parameters), layout.width))
    columns[:, states + np.arange(len(layout.parameters)), layout.parameters] = 1
    columns[mesh.first, :states] = quadratic.initial
    return forward(mesh, quadratic.end, columns)


def reduced(
    system: Discretisation, quadratic: Quadratic, columns: Array | None = None
) -> tuple[Array, Array]:
    """Hessian (experiments, width, width) and slope (experiments, width) of the objective in the unknowns alone.

    Inner start states are functions of the unknowns because continuity is exact; `columns` are their derivatives, the
    `start_derivatives`, if these are known already.
    """
    columns = start_derivatives(system, quadratic) if columns is None else columns
    back, first = columns.transpose(0, 2, 1), system.mesh.first
    if isinstance(quadratic.hessian, Curvature):
        hessian = quadratic.hessian.reduced(system.mesh, columns, system.problem.layout.columns.parameters)
    else:
        hessian = np.add.reduceat(back @ quadratic.hessian @ columns, first)
    return hessian, np.add.reduceat((back @ quadratic.slope[..., None])[..., 0], first)
