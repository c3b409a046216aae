"""What residuals say: tests of runs (is a pattern left in time?), of normality and of their size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import shown
from picardfit.errors import Notice
from picardfit.evidence.normality import shapiro_wilk
from picardfit.model.densities import Shape
from picardfit.problem.experiment import runs as stretches
from picardfit.problem.problem import Problem

if TYPE_CHECKING:
    from picardfit.evidence.fisher import Information


@dataclass(frozen=True)
class ResidualTests:
    """Which residuals are remarked on: those that the right model would give in fewer than 1 % of data sets."""

    doubtful: float = 0.01  # probability below which a pattern, a shape or outliers are remarked on
    unfit: float = 0.005  # probability on either side below which the size of the residuals is: 1 % on both
    fewest: int = 8  # residuals that a test needs: the approximations of both tests are good from there on
    most: int = 5000  # residuals for which Royston's approximation of the test of normality was made
    outlying: float = 4.0  # standard deviations beyond which a residual is an outlier


DEFAULT = ResidualTests()


@shown
@dataclass(frozen=True)
class Diagnostics:
    """Tests of the standardised residuals; a probability is NaN where there are too few.

    `runs`: observable -> probability of so few or so many changes of sign in time, if the signs were independent
    (Wald and Wolfowitz); `normality`: probability of residuals this far from normal (Shapiro and Wilk), all together;
    `outliers`: how many of the `count` residuals are beyond four standard deviations; `chi_square`: the reduced one,
    None without noise model. What is remarked on would come up in fewer than 1 % of data sets from the right model.
    `freedom`: degrees of freedom of the sum of squares, at least and at most; None where its size says nothing,
    because levels were estimated or no degrees are left.
    """

    runs: dict[str, float]
    normality: float
    outliers: int
    chi_square: float | None
    count: int = 0
    exact: bool = False  # the residuals are errors of the computation
    freedom: tuple[int, int] | None = None
    fixed_degrees: bool = False  # the noise is Student's t with given degrees of freedom

    @property
    def expected_outliers(self) -> float:
        """How many normal residuals would lie beyond four standard deviations."""
        from scipy.special import ndtr

        return float(2 * ndtr(-DEFAULT.outlying)) * self.count

    @property
    def patterned(self) -> tuple[str, ...]:
        """Observables whose residuals follow a pattern in time; over all of them one in 100 times by chance (Holm)."""
        tested = sorted((p, name) for name, p in self.runs.items() if np.isfinite(p))
        found = []
        for k, (p, name) in enumerate(tested):
            if not p < DEFAULT.doubtful / (len(tested) - k):
                break
            found.append(name)
        return tuple(name for name in self.runs if name in found)

    @property
    def too_large(self) -> bool:
        """Whether so large a sum of squares is improbable with the given levels (chi-square, most freedom)."""
        from scipy.special import chdtrc

        if self.chi_square is None or self.freedom is None:
            return False
        least, most = self.freedom
        return float(chdtrc(most, self.chi_square * least)) < DEFAULT.unfit

    @property
    def too_small(self) -> bool:
        """Whether so small a sum of squares is improbable with the given levels (chi-square, least freedom)."""
        from scipy.special import chdtr

        if self.chi_square is None or self.freedom is None:
            return False
        least, _ = self.freedom
        return float(chdtr(least, self.chi_square * least)) < DEFAULT.unfit

    @property
    def tested(self) -> bool:
        """Whether there were enough residuals for a test in time."""
        return any(np.isfinite(p) for p in self.runs.values())

    @property
    def remarks(self) -> tuple[Notice, ...]:
        """What stands out; empty where nothing does."""
        if self.exact:
            return (Notice("evidence.residuals_exact"),)
        found = []
        if self.patterned:
            found.append(Notice("evidence.residuals_patterned", values={"names": self.patterned}))
        if self.normality < DEFAULT.doubtful:
            code = (
                "evidence.residuals_heavy_tailed" if self.fixed_degrees else "evidence.residuals_not_normal"
            )
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


def named_residuals(problem: Problem, rows: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """experiment -> observable -> standardised residuals at its times, from rows (samples, rows) of the objective."""
    values, observables = problem.objective.residuals(rows), problem.model.observables
    mine = dict(stretches(problem.samples.experiment))
    return {
        one.name: {n: values[mine.get(e, slice(0)), observables.index(n)] for n in one.observables}
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
    return Diagnostics(
        {name: runs_probability(parts) for name, parts in series.items()},
        normal_probability(every),
        outliers,
        chi_square,
        len(every),
        freedom=freedom,
        fixed_degrees=fixed_degrees,
    )


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
    if not normal or found is None:
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
    """Probability of the test of Shapiro and Wilk; of evenly chosen ones when there are very many."""
    if len(values) < DEFAULT.fewest or not np.all(np.isfinite(values)) or np.ptp(values) == 0:
        return float("nan")
    most = DEFAULT.most
    chosen = values if len(values) <= most else values[np.linspace(0, len(values) - 1, most).astype(int)]
    return shapiro_wilk(chosen)[1]
