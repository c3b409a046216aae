"""Derivatives of a state of rest along the solution that leads to it.

They are needed where the equations f(x) = 0 do not determine the rest: of A' = -k A, B' = 1 - B, C' = A B the C that
remains depends on the whole way, and no linear conservation law explains it. The variational equation S' = f_x S + f_p
is then solved along the path, by the three-stage Radau IIA method on the steps of SciPy's Radau, which has its stages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap

_ROOT = 6**0.5
_C = np.array([(4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0])
# the coefficients of Radau IIA of order 5 (Hairer and Wanner, Solving ODEs II, table IV.5.6); the last row is b
_A = np.array(
    [
        [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
        [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
        [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
    ]
)


@dataclass(frozen=True)
class Following:
    """Accuracy of the derivatives; both are choices."""

    rtol: float = 1e-9
    atol: float = 1e-12  # relative to the size of each state


def derivatives_along(
    rhs: BatchedMap | NumericMap,
    point: tuple[float, np.ndarray, np.ndarray, np.ndarray],
    length: float,
    size: np.ndarray,
    settings: Following = Following(),
) -> tuple[np.ndarray, np.ndarray] | None:
    """d x(length) / d start (states, states) and / d parameters (states, parameters); None if there is no solution.

    `point`: time, start, parameters and inputs, of which the time stays as it is.
    """
    from scipy.integrate import solve_ivp

    t, start, p, u = point
    path = solve_ivp(
        lambda _, x: rhs.value(t, x, p, u),
        (0.0, length),
        start,
        method="Radau",
        jac=lambda _, x: rhs.linearise(t, x, p, u)[1],
        dense_output=True,
        rtol=settings.rtol,
        atol=settings.atol * size,
    )
    if not path.success:
        return None
    n = len(start)
    slopes = np.concatenate([np.eye(n), np.zeros((n, len(p)))], axis=1)
    for begin, end in zip(path.t[:-1], path.t[1:], strict=True):
        step = end - begin
        stages = path.sol(begin + step * _C).T  # (3, states)
        _, by_states, by_params = rhs.linearise(t, stages, p, u)
        forcing = np.concatenate([np.zeros((3, n, n)), by_params], axis=2)
        right = by_states @ slopes + forcing  # (3, states, columns)
        matrix = np.eye(3 * n).reshape(3, n, 3, n) - step * np.einsum("ij,iab->iajb", _A, by_states)
        try:
            found = np.linalg.solve(matrix.reshape(3 * n, 3 * n), right.reshape(3 * n, -1))
        except np.linalg.LinAlgError:
            return None
        slopes = slopes + step * np.tensordot(_A[2], found.reshape(3, n, -1), 1)
    return (slopes[:, :n], slopes[:, n:]) if np.isfinite(slopes).all() else None
