"""Tests of residuals: runs (do they follow a pattern in time?), normality, outliers and size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.polynomial.polynomial import polyval

from picardfit.display.hook import shown
from picardfit.errors import Notice
from picardfit.evidence.correlations import Correlogram
from picardfit.model.densities import Shape
from picardfit.problem.experiment import runs as stretches
from picardfit.problem.problem import Problem

if TYPE_CHECKING:
    from picardfit.evidence.fisher import Information

K = TypeVar("K")


@dataclass(frozen=True)
class ResidualTests:
    """Which residuals cause a remark: those that the right model would give in fewer than 1 % of data sets."""

    doubtful: float = 0.01  # probability of a pattern, a shape or outliers below which they cause a remark
    notable: float = (
        0.05  # probability of a test below which it is named without a remark: chance, or a weak sign
    )
    unfit: float = 0.005  # and of so large, or so small, a sum of squares: 1 % for both
    fewest: int = 8  # residuals that a test needs: chosen, as both tests use approximations for large samples
    most: int = 5000  # residuals for which Royston's approximation of the test of normality was made
    outlying: float = 4.0  # standard deviations beyond which a residual is an outlier
    numerical: float = 1e-8  # residuals, relative to the data, that are errors of the computation


DEFAULT = ResidualTests()


@shown
@dataclass(frozen=True)
class Diagnostics:
    """Tests of the standardised residuals; a probability is NaN where there are too few.

    `runs`: observable -> probability of so few changes of sign in time, if the signs were independent (Wald and
    Wolfowitz); `normality`: probability of residuals this far from normal (Shapiro and Wilk), all together;
    `outliers`: how many of the `count` residuals are beyond four standard deviations; `chi_square`: the reduced one,
    None without noise model. `freedom`: degrees of freedom of the sum of squares, at least and at most; None where its
    size says nothing, because levels were estimated or no degrees are left.
    """

    runs: dict[str, float]
    normality: float
    outliers: int
    chi_square: float | None
    count: int = 0
    exact: bool = False  # the residuals are errors of the computation
    freedom: tuple[int, int] | None = None
    fixed_degrees: bool = False  # the noise is Student's t with given degrees of freedom
    autocorrelation: dict[str, Correlogram] = field(default_factory=dict, compare=False)  # by observable
    cross_correlation: dict[str, dict[str, Correlogram]] = field(default_factory=dict, compare=False)
    irregular: tuple[
        str, ...
    ] = ()  # experiments whose times are irregular: a lag of one sample is no fixed time

    @property
    def expected_outliers(self) -> float:
        """How many normal residuals would lie beyond four standard deviations."""
        from scipy.special import ndtr

        return float(2 * ndtr(-DEFAULT.outlying)) * self.count

    @property
    def patterned(self) -> tuple[str, ...]:
        """Observables whose residuals follow a pattern in time; over all of them one in 100 times by chance (Holm)."""
        return improbable(self.runs)

    @property
    def autocorrelated(self) -> tuple[str, ...]:
        """Observables whose residuals depend on earlier ones by the test of Ljung and Box; 1 % over all (Holm)."""
        found = {name: one.probability for name, one in self.autocorrelation.items()}
        return improbable(found)

    @property
    def following(self) -> tuple[tuple[str, str], ...]:
        """(observable, input) whose residuals are correlated with the input so far; 1 % over all (Holm)."""
        found = {
            (name, by): one.probability
            for name, several in self.cross_correlation.items()
            for by, one in several.items()
        }
        return improbable(found)

    @cached_property
    def _size_probabilities(self) -> tuple[float, float]:
        """Probability of so large and of so small a sum of squares with the given levels (chi-square)."""
        from scipy.special import chdtr, chdtrc

        if self.chi_square is None or self.freedom is None:
            return 1.0, 1.0
        least, most = self.freedom
        squares = self.chi_square * least
        return float(chdtrc(most, squares)), float(chdtr(least, squares))

    @property
    def too_large(self) -> bool:
        """Whether so large a sum of squares is improbable, even with the most degrees of freedom."""
        return self._size_probabilities[0] < DEFAULT.unfit

    @property
    def too_small(self) -> bool:
        """Whether so small a sum of squares is improbable, even with the fewest degrees of freedom."""
        return self._size_probabilities[1] < DEFAULT.unfit

    @property
    def tested(self) -> bool:
        """Whether there were enough residuals for a test in time."""
        return any(np.isfinite(p) for p in self.runs.values())

    @property
    def correlograms(self) -> dict[str, Correlogram]:
        """Test in words -> correlations of residuals with earlier ones and with inputs."""
        found = {f"autocorrelation, {name}": one for name, one in self.autocorrelation.items()}
        for name, several in self.cross_correlation.items():
            found |= {f"{name} with the input {by}": one for by, one in several.items()}
        return found

    @property
    def probabilities(self) -> dict[str, float]:
        """Test in words -> probability, NaN where there are too few residuals; none of residuals of rounding."""
        if self.exact:
            return {}
        found = {f"runs of equal sign, {name}": p for name, p in self.runs.items()}
        if np.isfinite(self.normality):
            found["normality (Shapiro and Wilk)"] = self.normality
        return found | {test: one.probability for test, one in self.correlograms.items()}

    @property
    def notable(self) -> str | None:
        """The least probable test, if it is below 5 %; alone that is chance, or a weak sign."""
        small = {test: p for test, p in self.probabilities.items() if p < DEFAULT.notable}
        return min(small, key=small.__getitem__, default=None)

    @property
    def remarks(self) -> tuple[Notice, ...]:
        """What is improbable; empty where nothing is."""
        if self.exact:
            return (Notice("evidence.residuals_exact"),)
        found = []
        if self.patterned:
            found.append(Notice("evidence.residuals_patterned", values={"names": self.patterned}))
        if others := tuple(name for name in self.autocorrelated if name not in self.patterned):
            found.append(Notice("evidence.residuals_autocorrelated", values={"names": others}))
        for name, by in self.following:
            found.append(Notice("evidence.residuals_follow_input", name, {"by": by}))
        if self.normality < DEFAULT.doubtful:
            plain, heavy = "evidence.residuals_not_normal", "evidence.residuals_heavy_tailed"
            code = heavy if self.fixed_degrees else plain
            found.append(Notice(code, values={"probability": self.normality}))
        expected = self.expected_outliers
        if self.outliers and many_probability(self.outliers, expected) < DEFAULT.doubtful:
            values = {"outliers": self.outliers, "count": self.count, "expected": expected}
            found.append(Notice("evidence.residuals_outliers", values=values))
        if self.too_large:
            found.append(Notice("evidence.residuals_too_large"))
        if self.too_small:
            found.append(Notice("evidence.residuals_too_small"))
        return tuple(found)


def improbable(probabilities: Mapping[K, float], level: float = DEFAULT.doubtful) -> tuple[K, ...]:
    """The keys whose probabilities are too small; over all of them with this probability by chance (Holm)."""
    tested = sorted((p, k) for k, p in enumerate(probabilities.values()) if np.isfinite(p))
    found = set()
    for place, (p, k) in enumerate(tested):
        if not p < level / (len(tested) - place):
            break
        found.add(k)
    return tuple(key for k, key in enumerate(probabilities) if k in found)


def named_residuals(problem: Problem, rows: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """experiment -> observable -> standardised residuals at its times, from rows (samples, rows) of the objective."""
    values, observables = problem.objective.residuals(rows), problem.model.observables
    mine = dict(stretches(problem.samples.experiment))
    return {
        one.name: {
            n: values[mine.get(e, slice(0)), observables.index(n)]
            for n in observables
            if n in one.observables
        }
        for e, one in enumerate(problem.experiments)
    }


def diagnose(
    residuals: Mapping[str, Mapping[str, np.ndarray]],
    chi_square: float | None,
    freedom: tuple[int, int] | None = None,
    fixed_degrees: bool = False,
) -> Diagnostics:
    """Test residuals by experiment and observable, each in the order of time."""
    observables = dict.fromkeys(name for one in residuals.values() for name in one)
    series = {
        name: [one[name][np.isfinite(one[name])] for one in residuals.values() if name in one]
        for name in observables
    }
    every = np.concatenate([np.zeros(0), *(part for parts in series.values() for part in parts)])
    outliers = int(np.sum(np.abs(every) > DEFAULT.outlying))
    runs, shape = {n: runs_probability(parts) for n, parts in series.items()}, normal_probability(every)
    return Diagnostics(runs, shape, outliers, chi_square, len(every), False, freedom, fixed_degrees)


def freedom(problem: Problem, found: Information | None) -> tuple[int, int] | None:
    """Degrees of freedom of the squares of standardised residuals, at least and at most; None if they say nothing.

    An unknown takes one of them if normal data alone determine it. It takes less with a prior, at a bound or where the
    data do not determine it, and where outliers hardly matter (a half with Laplace noise). `found`: the information at
    the solution, if the search converged.
    """
    layout, count = problem.layout, problem.measurements
    least = count - layout.count()
    estimated = bool((layout.noise_columns & layout.exists).any())
    if estimated or least <= 0 or problem.scatter is None:
        return None
    normal = all(column.shape is Shape.NORMAL for column in problem.scatter.columns)
    if not normal or found is None or problem.samples.limits is not None:
        return least, count
    believed = () if problem.priors is None else problem.priors.entries
    loose = {*found.undetermined, *(layout.label(e, c) for e, c, *_ in believed)}
    return least, count - sum(label not in loose for label in found.labels)


def has_fixed_degrees(problem: Problem) -> bool:
    """Whether the noise is Student's t with given degrees of freedom."""
    scatter = problem.scatter
    return scatter is not None and any(column.degrees is not None for column in scatter.columns)


def many_probability(number: int, expected: float) -> float:
    """Probability of so many or more rare events (Poisson)."""
    from scipy.special import gammainc

    return float(gammainc(number, expected)) if number > 0 else 1.0


def runs_probability(series: list[np.ndarray]) -> float:
    """Probability of so few runs of equal sign or fewer, over several series; normal approximation.

    Many runs say nothing: unknowns of each series, fitted to few samples, make residuals change their sign more often.
    """
    runs = expected = variance = 0.0
    count = 0
    for one in series:
        signs = one[one != 0] > 0
        above, below = int(signs.sum()), int((~signs).sum())
        n = above + below
        if above == 0 or below == 0 or n < 2:
            continue
        count += n
        runs += 1 + int(np.sum(signs[1:] != signs[:-1]))
        expected += 1 + 2 * above * below / n
        variance += 2 * above * below * (2 * above * below - n) / (n**2 * (n - 1))
    if count < DEFAULT.fewest or variance <= 0:
        return float("nan")
    from scipy.special import ndtr

    return float(ndtr((runs - expected) / np.sqrt(variance)))


def normal_probability(values: np.ndarray) -> float:
    """Probability by the test of Shapiro and Wilk; of evenly chosen values when there are very many."""
    if len(values) < DEFAULT.fewest or not np.all(np.isfinite(values)) or np.ptp(values) == 0:
        return float("nan")
    most = DEFAULT.most
    chosen = values if len(values) <= most else values[np.linspace(0, len(values) - 1, most).astype(int)]
    return shapiro_wilk(chosen)[1]


# Coefficients of Royston's polynomials (Applied Statistics 44, 1995, algorithm AS R94), in ascending powers.
LAST = (0.0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056)  # of 1/sqrt(n), corrects the largest weight
LAST_BUT_ONE = (0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633)
FEW = 11  # values up to which 1 - W is transformed with a shift
SHIFT = (-2.273, 0.459)  # of n
FEW_MEAN = (0.544, -0.39978, 0.025054, -6.714e-4)  # of n
FEW_LOG_SD = (1.3822, -0.77857, 0.062767, -0.0020322)  # of n
MEAN, LOG_SD = (-1.5861, -0.31082, -0.083751, 0.0038915), (-0.4803, -0.082676, 0.0030302)  # of log n


def shapiro_wilk(values: np.ndarray) -> tuple[float, float]:
    """(W, probability of a smaller W) for 6 to 5000 values (n,) that are normal and not all equal.

    Royston's approximation of the test of Shapiro and Wilk. SciPy's own gives the same probabilities, but loading
    scipy.stats takes longer than most fits.
    """
    from scipy.special import ndtr

    ordered = np.sort(np.asarray(values, float))
    ordered = ordered - ordered[len(ordered) // 2]
    spread = float(np.sum((ordered - ordered.mean()) ** 2))
    statistic = min(float(_weights(len(ordered)) @ ordered) ** 2 / spread, 1.0)
    n = len(ordered)
    rest = np.log(max(1.0 - statistic, np.finfo(float).tiny))
    if n <= FEW:
        room = polyval(n, SHIFT) - rest
        if room <= 0:
            return statistic, 0.0
        score = (-np.log(room) - polyval(n, FEW_MEAN)) / np.exp(polyval(n, FEW_LOG_SD))
    else:
        size = np.log(n)
        score = (rest - polyval(size, MEAN)) / np.exp(polyval(size, LOG_SD))
    return statistic, float(ndtr(-score))


def _weights(n: int) -> np.ndarray:
    """(n,): the weights of the ordered values, antisymmetric and of length 1."""
    from scipy.special import ndtri

    scores = ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25))  # expected ordered values, about
    square = float(scores @ scores)
    corrections = np.array([polyval(n**-0.5, LAST_BUT_ONE), polyval(n**-0.5, LAST)])
    outer = scores[-2:] / np.sqrt(square) + corrections
    scale = (square - 2 * float(scores[-2:] @ scores[-2:])) / (1.0 - 2 * float(outer @ outer))
    inner = scores[2:-2] / np.sqrt(scale)
    return np.concatenate([-outer[::-1], inner, outer])
