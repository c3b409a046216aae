"""Radau IIA collocation of any number of stages, and an inverse of its stage equations that needs one matrix.

A step of length h from y solves Z = h A F(y + Z) for the stages Z (stages, states). With J the Jacobian, Newton's
method needs (I - A (x) hJ)^-1, which has stages/2 complex factors. Here it is replaced by a rational function with the
single real pole 1/gamma,

    M = C_1 N + C_2 N^2 + C_3 N^3,    N = (I - gamma h J)^-1,

that agrees with it to second order in hJ and at infinity: C_1 = gamma A^-1, C_1 + C_2 + C_3 = I,
C_1 + 2 C_2 + 3 C_3 = A/gamma. One factorisation of the size of the model serves a whole step, and all stages are
right-hand sides of one product. (Two terms: the blended implicit methods of Brugnano and Magherini, 2002.)
The table is the integrators' own, so that they share nothing with the mesh of a fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre


@dataclass(frozen=True, eq=False)
class Radau:
    """The method with `stages` stages; its order at the end of a step is 2 stages - 1, in between `stages`."""

    nodes: np.ndarray  # (stages,), the last one is 1
    matrix: np.ndarray  # A (stages, stages): integrals of the Lagrange polynomials from 0 to each node
    inverse: np.ndarray  # of A
    at_start: np.ndarray  # (stages,): the polynomial through values at the nodes, taken at 0
    powers: np.ndarray  # (3, stages, stages): C_1, C_2, C_3
    basis: (
        np.ndarray
    )  # (stages + 1, stages + 1): values at 0 and the nodes -> Legendre coefficients, transposed

    def weights(self, place: np.ndarray) -> np.ndarray:
        """(*place, stages + 1): weights of the values at 0 and the nodes in the polynomial at these places."""
        powers = np.empty((*place.shape, len(self.basis)))
        powers[..., 0] = 1.0
        powers[..., 1:] = 2 * place[..., None] - 1
        weights: np.ndarray = np.multiply.accumulate(powers, axis=-1) @ self.basis
        return weights


@lru_cache(maxsize=8)
def radau(stages: int, pole: float) -> Radau:
    """The method and its approximate inverse with the pole 1/`pole`."""
    series = np.zeros(stages + 1)
    series[-2:] = -1.0, 1.0  # P_s - P_(s-1) vanishes at the nodes
    nodes = (np.sort(legendre.legroots(series).real) + 1) / 2
    nodes[-1] = 1.0
    higher = legendre.legvander(2 * nodes - 1, stages)
    degree = np.arange(1, stages)
    # the integral of P_k(2x - 1) from 0 is (P_(k+1) - P_(k-1)) / (2 (2k + 1)), that of P_0 is x
    integrals = np.column_stack([nodes, (higher[:, 2:] - higher[:, :-2]) / (2 * (2 * degree + 1))])
    to_series = np.linalg.inv(higher[:, :-1])
    matrix = integrals @ to_series
    inverse, identity = np.linalg.inv(matrix), np.eye(stages)
    first = pole * inverse
    third = matrix / pole - 2 * identity + first
    to_powers = np.zeros((stages + 1, stages + 1))
    for k in range(stages + 1):
        to_powers[: k + 1, k] = legendre.leg2poly(np.eye(stages + 1)[k])
    return Radau(
        nodes=nodes,
        matrix=matrix,
        inverse=inverse,
        at_start=legendre.legvander(-np.ones(1), stages - 1)[0] @ to_series,
        powers=np.array([first, identity - first - third, third]),
        basis=to_powers @ np.linalg.inv(legendre.legvander(2 * np.append(0.0, nodes) - 1, stages)),
    )
