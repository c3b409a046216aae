"""Correlation of residuals with themselves and with the inputs at other samples, with bands and tests.

With the residuals e of an observable, r_k = sum_t e_t e_{t+k} / sum_t e_t^2 over the samples of each experiment; a lag
k counts samples, whatever the time between them. For errors that are independent and normal, e = M e0 with M = I - G G'
(fitted_space.py) and L_k the matrix with e' L_k e = sum_t e_t e_{t+k}:

    E r_k = tr(M L_k) / tr M,    E r_j r_k = (tr(M L_j) tr(M L_k) + 2 tr(M L_j M L_k)) / ((tr M)^2 + 2 tr M^2).

These moments are exact for a linear model with one observable. Q = (r - E r)' (cov r)^-1 (r - E r) is compared with a
chi-square of as many degrees as lags. Without fitted unknowns, M = I, Q = n (n + 2) sum r_k^2 / (n - k): the test of
Ljung and Box. Fitted ARMA models take p + q degrees from it, because their regressors are past residuals; the curve of
an ODE is none of these, so that no degree is lost, but residuals of neighbouring samples are correlated through M.

Products of residuals have a heavier tail than normal numbers: of short series of independent errors chi-square calls
2 % improbable at a level of 1 %. Small probabilities of Q are therefore those of F, whose second number of degrees
gives Q the variance that it has for independent normal errors, which are simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import picture, shown
from picardfit.evidence.fisher import quantile
from picardfit.evidence.fitted_space import FittedSpace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class CorrelationSettings:
    """Which lags are computed and tested."""

    longest: int = 20  # lag that is computed, at most: as usual in pictures of autocorrelation
    shown_share: float = 0.5  # of the longest series: few pairs of residuals are farther apart
    tested: int = 10  # lags of the test, at most (Hyndman and Athanasopoulos, Forecasting, 5.4)
    tested_share: float = 0.2  # of the longest series (the same source)
    fewest: int = 8  # residuals that a test needs, as for the other tests of residuals
    left: float = 3.0  # residuals minus unknowns that a test needs, of one observable: chosen
    irregular: float = 1.5  # longest step between samples, over the median, from which on times are irregular
    most: int = 4_000_000  # numbers kept at once; long series with more take M = I, which is off by unknowns / samples
    rank: float = 1e-9  # eigenvalue of the covariance, relative to the largest, that counts as zero
    doubtful: float = (
        0.1  # probability by chi-square below which errors are simulated; above it is off by less than 0.01
    )
    draws: int = 1000  # of simulated errors: their variance is off by 5 %
    simulated: int = (
        500  # residuals up to which they are; of more, chi-square calls 1.2 % improbable at a level of 1 %
    )


DEFAULT = CorrelationSettings()


@shown
@dataclass(frozen=True, eq=False)
class Correlogram:
    """Correlations of residuals by lag, in samples, with what they would be if the model were right.

    `statistic`: that of Ljung and Box over the first lags from 0 on; `freedom`: how many; `probability`: of one as
    large if the errors are independent.
    """

    lags: np.ndarray  # (lags,)
    values: np.ndarray  # (lags,)
    expected: (
        np.ndarray
    )  # (lags,): mean if the errors are independent: not zero, because unknowns were fitted
    errors: np.ndarray  # (lags,): standard deviation then
    statistic: float
    freedom: int
    probability: float
    count: int  # residuals

    def band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lags,) each: the ends between which a correlation lies with this probability, if the model is right."""
        reach = quantile(level, np.inf) * self.errors
        return self.expected - reach, self.expected + reach

    def plot(self, path: str | Path | None = None) -> Figure:
        """The correlations by lag, with the band of 95 %."""
        return picture(self, path)

    @property
    def largest(self) -> int:
        """The lag whose correlation is farthest from what is expected, in standard deviations."""
        with np.errstate(all="ignore"):
            away = np.abs(self.values - self.expected) / self.errors
        return int(self.lags[int(np.nanargmax(np.where(np.isfinite(away), away, -1.0)))])


@dataclass(frozen=True)
class Series:
    """Residuals of one observable in one experiment, in the order of time."""

    residuals: np.ndarray  # (n,)
    basis: np.ndarray  # (n, directions): its rows of G, those of the experiment alone first
    own: int  # how many directions belong to the experiment alone
    inputs: dict[str, np.ndarray]  # (n,) each: at the samples


def series_of(
    experiment: int,
    column: int,
    residuals: np.ndarray,
    inputs: dict[str, np.ndarray],
    space: FittedSpace | None,
) -> Series:
    """The measured residuals of an observable, with their part of the fitted space."""
    there = np.isfinite(residuals)
    if space is None:
        basis, own = np.zeros((int(there.sum()), 0)), 0
    else:
        basis, own = space.of(experiment, there, column), space.own_size(experiment)
    return Series(residuals[there], basis, own, {name: one[there] for name, one in inputs.items()})


def autocorrelation(series: Sequence[Series], settings: CorrelationSettings = DEFAULT) -> Correlogram | None:
    """Correlations of residuals with later ones, over several series; None where there are too few."""
    count, longest = (
        sum(len(one.residuals) for one in series),
        max((len(one.residuals) for one in series), default=0),
    )
    last = min(settings.longest, int(settings.shown_share * longest))
    squares = sum(float(one.residuals @ one.residuals) for one in series)
    if count < settings.fewest or last < 1 or squares <= 0:
        return None
    lags = np.arange(1, last + 1)
    products = [sum(float(one.residuals[:-k] @ one.residuals[k:]) for one in series) for k in lags]
    values = np.array(products) / squares
    moments = _moments(_affordable(series, last, settings), lags)
    if moments is None or moments[2] < settings.left:
        return None
    expected, covariance, _ = moments
    tested = max(1, min(settings.tested, int(settings.tested_share * longest)))
    first = covariance[:tested, :tested]
    statistic, freedom, probability = _portmanteau((values - expected)[:tested], first, settings.rank)
    if probability < settings.doubtful and count <= settings.simulated:
        draws = simulated_correlations(series, lags[:tested], settings.draws) - expected[:tested]
        probability = _heavy_tailed(statistic, freedom, _squares(draws, first, settings.rank)[0])
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return Correlogram(lags, values, expected, errors, statistic, freedom, probability, count)


def cross_correlation(
    series: Sequence[Series], name: str, settings: CorrelationSettings = DEFAULT
) -> Correlogram | None:
    """Correlations of residuals with an input k samples before; None for an input that is constant in each experiment.

    r_k = sum_t e_t u_{t-k} / sqrt(sum e^2 sum u^2), u minus its mean in each experiment. With v_k the shifted input
    of unit length, the covariance is v_j' M v_k / tr M. Lags from 0 on are tested: residuals that know future inputs
    are those of a feedback loop.
    """
    centred = [
        one.inputs[name] - one.inputs[name].mean() if len(one.residuals) else np.zeros(0) for one in series
    ]
    count, longest = sum(map(len, centred)), max(map(len, centred), default=0)
    size = np.sqrt(sum(float(u @ u) for u in centred))
    scale = max((float(np.abs(one.inputs[name]).max(initial=0.0)) for one in series), default=0.0)
    last = min(settings.longest, int(settings.shown_share * longest))
    squares = sum(float(one.residuals @ one.residuals) for one in series)
    if count < settings.fewest or last < 1 or squares <= 0 or size <= 1e-12 * scale * np.sqrt(count):
        return None
    series, lags = _affordable(series, 2 * last + 1, settings), np.arange(-last, last + 1)
    shifted = [np.stack([_shifted(u / size, k) for k in lags.tolist()]) for u in centred]  # (lags, n) each
    values = sum(v @ one.residuals for v, one in zip(shifted, series, strict=True)) / np.sqrt(squares)
    covariance = sum(v @ v.T for v in shifted)
    across = np.zeros((len(lags), _shared_size(series)))
    left = float(count)
    for v, one in zip(shifted, series, strict=True):
        along = v @ one.basis
        covariance = covariance - along[:, : one.own] @ along[:, : one.own].T
        across += along[:, one.own :]
        left -= float(np.sum(one.basis**2))
    if left < settings.left:
        return None
    covariance = (covariance - across @ across.T) / left
    tested = max(1, min(settings.tested, int(settings.tested_share * longest)))
    chosen = slice(last, last + tested)
    statistic, freedom, probability = _portmanteau(values[chosen], covariance[chosen, chosen], settings.rank)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    nothing = np.zeros(len(lags))
    return Correlogram(lags, np.asarray(values), nothing, errors, statistic, freedom, probability, count)


def irregular(times: np.ndarray, settings: CorrelationSettings = DEFAULT) -> bool:
    """Whether the steps between samples differ, so that a lag of one sample means different times."""
    steps = np.diff(times)
    if len(steps) < 2:
        return False
    middle = float(np.median(steps))
    return bool(steps.max() > settings.irregular * middle or steps.min() * settings.irregular < middle)


def _affordable(series: Sequence[Series], lags: int, settings: CorrelationSettings) -> list[Series]:
    """The series, those without their fitted directions whose products would take too much memory."""
    return [
        one
        if one.basis.size * lags <= settings.most
        else Series(one.residuals, np.zeros((len(one.residuals), one.basis.shape[1])), one.own, one.inputs)
        for one in series
    ]


def _shared_size(series: Sequence[Series]) -> int:
    return max((one.basis.shape[1] - one.own for one in series), default=0)


def _shifted(values: np.ndarray, lag: int) -> np.ndarray:
    """(n,): the values `lag` samples before, 0 where there are none."""
    moved = np.zeros_like(values)
    if abs(lag) >= len(values):
        return moved
    if lag >= 0:
        moved[lag:] = values[: len(values) - lag]
    else:
        moved[:lag] = values[-lag:]
    return moved


def _moments(series: Sequence[Series], lags: np.ndarray) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Mean (lags,) and covariance (lags, lags) of r, and tr M; see the head of this file."""
    shared = _shared_size(series)
    trace = squares = 0.0
    first, second = np.zeros(len(lags)), np.zeros((len(lags), len(lags)))
    gram, across = np.zeros((shared, shared)), np.zeros((len(lags), shared, shared))
    for one in series:
        n, basis, own = len(one.residuals), one.basis, one.own
        moved = np.stack([0.5 * (_shifted(basis, k) + _shifted(basis, -k)) for k in lags])  # L_k G
        product = np.einsum("ni,knj->kij", basis, moved)  # G' L_k G
        first -= np.trace(product, axis1=1, axis2=2)
        second += np.diag(np.maximum(n - lags, 0)) - 4 * np.einsum("kni,lni->kl", moved, moved)
        inside = product.copy()
        inside[:, own:, own:] = 0.0  # shared directions are summed over experiments first
        second += 2 * np.einsum("kij,lij->kl", inside, inside)
        across += product[:, own:, own:]
        square = basis.T @ basis
        gram += square[own:, own:]
        square[own:, own:] = 0.0
        trace += n - float(np.sum(basis**2))
        squares += n - 2 * float(np.sum(basis**2)) + float(np.sum(square**2))
    second += 2 * np.einsum("kij,lij->kl", across, across)
    squares += float(np.sum(gram**2))
    if trace <= 0:
        return None
    expected = first / trace
    covariance = (np.outer(first, first) + second) / (trace**2 + 2 * squares) - np.outer(expected, expected)
    return expected, covariance, trace


def _portmanteau(gap: np.ndarray, covariance: np.ndarray, rank: float) -> tuple[float, int, float]:
    """gap' covariance^-1 gap, its degrees of freedom, and the probability of a larger one (chi-square)."""
    from scipy.special import chdtrc

    squares, freedom = _squares(gap[None], covariance, rank)
    statistic = float(squares[0])
    return statistic, freedom, float(chdtrc(freedom, statistic)) if freedom else float("nan")


def _squares(gaps: np.ndarray, covariance: np.ndarray, rank: float) -> tuple[np.ndarray, int]:
    """g' covariance^-1 g for every row g of gaps (draws, lags), and their degrees of freedom; NaN and 0 for none."""
    sizes, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    kept = sizes > rank * max(float(sizes[-1]), np.finfo(float).tiny)
    if not kept.any():
        return np.full(len(gaps), np.nan), 0
    return np.sum((gaps @ vectors[:, kept]) ** 2 / sizes[kept], axis=1), int(kept.sum())


def simulated_correlations(series: Sequence[Series], lags: np.ndarray, draws: int) -> np.ndarray:
    """(draws, lags): correlations of residuals M e0 of independent normal errors e0; always the same draws."""
    rng, shared = np.random.default_rng(0), np.zeros((draws, _shared_size(series)))
    errors = [rng.standard_normal((draws, len(one.residuals))) for one in series]
    for e, one in zip(errors, series, strict=True):
        shared += e @ one.basis[:, one.own :]
    products, squares = np.zeros((draws, len(lags))), np.zeros((draws, 1))
    for e, one in zip(errors, series, strict=True):
        left = (
            e - (e @ one.basis[:, : one.own]) @ one.basis[:, : one.own].T - shared @ one.basis[:, one.own :].T
        )
        squares += np.sum(left**2, axis=1, keepdims=True)
        for k, lag in enumerate(lags.tolist()):
            products[:, k] += np.einsum("dn,dn->d", left[:, :-lag], left[:, lag:])
    return products / squares


def _heavy_tailed(statistic: float, freedom: int, simulated: np.ndarray) -> float:
    """The probability of a larger statistic if it is F times a number, with the variance of simulated ones.

    F with L and d degrees has the mean d/(d - 2) and, relative to L times its square, the variance 2 v with
    v = (d + L - 2)/(d - 4); v = 1 is chi-square.
    """
    from scipy.special import chdtrc, fdtrc

    wider = float(simulated.var()) / (2 * freedom)
    if not wider > 1.0:
        return float(chdtrc(freedom, statistic))
    degrees = (freedom - 2 + 4 * wider) / (wider - 1)
    return float(fdtrc(freedom, degrees, statistic / freedom * degrees / (degrees - 2)))
