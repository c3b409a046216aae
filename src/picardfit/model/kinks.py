"""Which rows of a piecewise linear table are kinks that matter, and its integral across those that do not.

Every row of such a table bends it a little. A finely tabulated smooth curve bends so little at each row that nothing
needs to stop there; a corner, a pulse or noise is different.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre


@dataclass(frozen=True)
class Smoothness:
    """When rows of a table pass for points of a smooth curve (docs/decisions/015).

    An input that is wrong by a fraction e of its range moves the states by at most about e of theirs, and by far less
    where the error changes sign from row to row.
    """

    degree: int = 3  # of the polynomials that smooth pieces of a table follow
    tolerance: float = 1e-4  # largest distance from such a polynomial, relative to the range of the table
    doublings: int = 6  # a smooth piece has at most 2^6 intervals: integrators step across short ones only
    straight: float = (
        1e-12  # distance of a row from the line through its neighbours that is rounding, as above
    )


def kinks(times: np.ndarray, values: np.ndarray, rules: Smoothness = Smoothness()) -> np.ndarray:
    """Times of the kinks and jumps of the table that joins these rows (n,) by lines; times are in order.

    Rows on a line through their neighbours are none. Of the others, neighbouring intervals become one piece if a
    polynomial follows them, then neighbouring pieces, and so on; kinks are where pieces meet.
    """
    tolerance = rules.tolerance * float(np.ptp(values))
    corner = np.ones(len(times), bool)
    corner[1:-1] = ~_straight(times, values, rules.straight * float(np.ptp(values)))
    times, values = times[corner], values[corner]
    kept, smooth = np.ones(len(times), bool), np.diff(times) > 0  # two rows at one time are a jump
    for level in range(1, rules.doublings + 1):
        size, count = 2**level, len(smooth) // 2
        smooth = smooth[: 2 * count : 2] & smooth[1 : 2 * count : 2]
        begin = size * np.flatnonzero(smooth)
        rows = begin[:, None] + np.arange(size + 1)
        smooth[smooth] = _misfit(times[rows], values[rows], rules.degree) <= tolerance
        kept[size * np.flatnonzero(smooth) + size // 2] = False
    return np.unique(times[kept])


def _straight(times: np.ndarray, values: np.ndarray, tolerance: float) -> np.ndarray:
    """(n - 2,) bool: whether an inner row is on the line through its two neighbours."""
    width = times[2:] - times[:-2]
    share = np.divide(times[1:-1] - times[:-2], width, out=np.zeros_like(width), where=width > 0)
    line = values[:-2] + share * (values[2:] - values[:-2])
    apart, near = np.diff(times) > 0, np.abs(values[1:-1] - line) <= tolerance
    return np.asarray(apart[1:] & apart[:-1] & near)


def _misfit(times: np.ndarray, values: np.ndarray, degree: int) -> np.ndarray:
    """(pieces,): largest distance of piecewise linear curves (pieces, rows) from the polynomials that fit them best.

    It is measured at the rows and halfway between them, where lines and polynomial differ most.
    """
    at, u = (_with_middles(one) for one in (times, values))
    basis = legendre.legvander(2 * (at - at[:, :1]) / (at[:, -1:] - at[:, :1]) - 1, degree)
    fitted = basis @ (np.linalg.pinv(basis) @ u[..., None])
    return np.asarray(np.abs(fitted[..., 0] - u).max(axis=1, initial=0.0))


def _with_middles(rows: np.ndarray) -> np.ndarray:
    """(pieces, 2 n - 1): the values (pieces, n) and the means of neighbours between them."""
    result = np.empty((len(rows), 2 * rows.shape[1] - 1))
    result[:, ::2], result[:, 1::2] = rows, (rows[:, 1:] + rows[:, :-1]) / 2
    return result


def smooth_at_nodes(
    times: np.ndarray, values: np.ndarray, knots: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The segments between knots that hold rows of a table, and (segments, nodes): smooth values for the table there.

    A quadrature with s nodes integrates a polynomial u of degree s - 1, but not the table between its nodes. The values
    are those of the u with the same moments: the integrals of u P_k over the segment, for the Legendre polynomials P_k
    with k < s, are those of the table, so that what the table drives is right at the end of the segment. They stay
    within the range of the table.
    """
    inside = np.unique(times[(times > knots[0]) & (times < knots[-1])])
    inside = inside[~np.isin(inside, knots)]
    chosen = np.unique(np.searchsorted(knots, inside) - 1)
    ends = np.unique(np.concatenate([inside, knots[chosen], knots[chosen + 1]]))
    owner = np.searchsorted(knots, ends[:-1], side="right") - 1
    pieces = np.isin(owner, chosen)
    begin, width, owner = ends[:-1][pieces, None], np.diff(ends)[pieces, None], owner[pieces]
    points, weights = legendre.leggauss(len(nodes) // 2 + 1)  # exact for a line times P_k
    at = begin + width * (points + 1) / 2
    share = (at - knots[owner, None]) / np.diff(knots)[owner, None]
    weighted = np.interp(at, times, values) * weights * width / np.diff(knots)[owner, None]
    each = (weighted[:, None, :] @ legendre.legvander(2 * share - 1, len(nodes) - 1))[:, 0]
    moments = np.add.reduceat(each, np.searchsorted(owner, chosen)) if len(chosen) else each
    orders = np.arange(len(nodes))
    smooth = ((orders + 0.5) * moments) @ legendre.legvander(2 * nodes - 1, len(nodes) - 1).T
    return chosen, np.clip(smooth, values.min(), values.max())
