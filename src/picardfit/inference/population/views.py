"""How predictions depend on effects and typical values, as an approximation sees it.

FOCEI and Laplace see the model itself: its predictions depend on theta + eta alone. FOCE takes the standard deviations
at eta = 0. FO sees m(theta) + m_eta eta, also with standard deviations at eta = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from picardfit.formulas.kernels import Array
from picardfit.inference.population.costs import Costs, costs
from picardfit.inference.population.predictions import Measurements, Predictions


@dataclass(frozen=True)
class View:
    """Rows (m, s) of all measurements, with derivatives by effects and by typical values."""

    rows: Array  # (measurements, 2)
    by_eta: Array  # (measurements, 2, effects)
    by_theta: Array  # (measurements, 2, width)
    eta_eta: Array | None  # (measurements, 2, effects, effects)
    eta_theta: Array | None  # (measurements, 2, effects, width); None: not needed


def full_view(found: Predictions, effects: int) -> View:
    """Predictions that depend on theta + eta."""
    second, wide = found.second, found.first.shape[2]
    return View(
        found.rows,
        found.first[..., :effects],
        found.first,
        None if second is None else second[..., :effects],
        second if second is not None and second.shape[3] == wide else None,
    )


def typical_levels(view: View, typical: Predictions) -> View:
    """The same with the standard deviations of the typical individual (FOCE)."""

    def replaced(array: Array | None, level: Array | float) -> Array | None:
        if array is None:
            return None
        copied = array.copy()
        copied[:, 1] = level
        return copied

    rows, by_eta = replaced(view.rows, typical.rows[:, 1]), replaced(view.by_eta, 0.0)
    by_theta = replaced(view.by_theta, typical.first[:, 1])
    assert rows is not None
    assert by_eta is not None
    assert by_theta is not None
    return View(rows, by_eta, by_theta, replaced(view.eta_eta, 0.0), replaced(view.eta_theta, 0.0))


def linear_view(typical: Predictions, eta: Array) -> View:
    """m(theta) + m_eta eta with the standard deviations of the typical individual (FO); eta (measurements, effects)."""
    effects, second = eta.shape[1], typical.second
    rows, by_eta = typical.rows.copy(), typical.first[..., :effects].copy()
    by_eta[:, 1] = 0.0
    rows[:, 0] += np.einsum("ne,ne->n", by_eta[:, 0], eta)
    by_theta, bent = typical.first.copy(), None
    if second is not None:
        bent = second.copy()
        bent[:, 1] = 0.0
        by_theta[:, 0] += np.einsum("ne,new->nw", eta, bent[:, 0])
    flat = np.zeros((*by_eta.shape, effects))
    return View(rows, by_eta, by_theta, flat, bent)


@dataclass(frozen=True)
class Sums:
    """Sums over the measurements of each individual."""

    cost: Array  # (individuals,)
    by_eta: Array  # (individuals, effects)
    by_theta: Array  # (individuals, width)
    eta_eta: Array  # (individuals, effects, effects): observed curvature
    information: Array  # (individuals, effects, effects): expected curvature
    eta_theta: Array | None  # (individuals, effects, width)
    information_eta: Array | None  # (individuals, effects, effects, effects): derivative of the information
    information_theta: Array | None  # (individuals, effects, effects, width)


def sums(measurements: Measurements, view: View, outer: bool) -> Sums:
    """Costs and their derivatives summed; with `outer`, also what the gradient of a marginal likelihood needs."""
    each = costs(measurements, view.rows)
    total = measurements.by_individual
    with np.errstate(all="ignore"):
        weighted = each.information[..., None] * view.by_eta
        information = np.einsum("nre,nrf->nef", weighted, view.by_eta)
        curved = np.einsum("nrq,nqf->nrf", each.curvature, view.by_eta)
        observed = np.einsum("nre,nrf->nef", view.by_eta, curved)
        if view.eta_eta is not None:
            observed += np.einsum("nr,nref->nef", each.slope, view.eta_eta)
        mixed = by_eta = by_theta = None
        if outer:
            assert view.eta_theta is not None
            assert view.eta_eta is not None
            curved = np.einsum("nrq,nqw->nrw", each.curvature, view.by_theta)
            mixed = total(np.einsum("nre,nrw->new", view.by_eta, curved))
            mixed += total(np.einsum("nr,nrew->new", each.slope, view.eta_theta))
            by_eta = total(_information_slope(each, view.by_eta, view.by_eta, view.eta_eta))
            by_theta = total(_information_slope(each, view.by_eta, view.by_theta, view.eta_theta))
        return Sums(
            total(each.value),
            total(np.einsum("nr,nre->ne", each.slope, view.by_eta)),
            total(np.einsum("nr,nrw->nw", each.slope, view.by_theta)),
            total(observed),
            total(information),
            mixed,
            by_eta,
            by_theta,
        )


def _information_slope(each: Costs, by_eta: Array, along: Array, bent: Array) -> Array:
    """(measurements, effects, effects, columns): derivative of sum_r I_r v_r v_r' along columns."""
    change = np.einsum("nrq,nqw->nrw", each.information_slope, along)
    first = np.einsum("nrw,nre,nrf->nefw", change, by_eta, by_eta)
    second = np.einsum("nr,nrew,nrf->nefw", each.information, bent, by_eta)
    return np.asarray(first + second + second.transpose(0, 2, 1, 3))
