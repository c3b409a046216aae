"""analyse(): the constants of the paper's theorems: K_x, M, the segment length T and the step sizes of Remark 1.

Picard-Lindelöf theorem (section 5): P contracts by T K_x on segments of length T < min(1/K_x, a/2M), where K_x and M
are the suprema of |df/dx| and |f| over the ball B_a with a = 2 sup |x|. A sample cannot find a supremum, so every
constant is a lower bound of it. Remark 1: alpha = 2/(mu + K_L) and sigma = min(1, mu/(K_L - mu)), with mu and K_L the
extreme eigenvalues of the Hessian of L_lambda,n in (x, theta); here that of Gauss-Newton in the limit of large n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from picardfit.checks import as_whole
from picardfit.display.hook import shown
from picardfit.errors import InputError
from picardfit.fit import Fit
from picardfit.inference.theorem_constants import (
    DEFAULT,
    AnalysisSettings,
    Constants,
    constants_along,
    constants_on_ball,
    contraction,
    curvature,
    on_segments,
    start_path,
)
from picardfit.problem.problem import Problem


@shown
@dataclass(frozen=True)
class Analysis:
    """What the paper's theorems say about a problem, by sampling. `print` it for the meaning of the numbers."""

    on_ball: Constants  # on B_a x Theta, as the theorem has it
    along_data: Constants  # along the start's path with the start's parameters
    spans: tuple[float, ...]  # length of each experiment
    segment_length: float  # of the mesh for what follows: T along the data, unless that is too short
    contraction: float  # largest |P v - P u| / |v - u| on these segments, v near the start's path u
    unknowns: int  # of L_lambda,n on these segments: start states and parameters
    convexity: float  # mu, NaN where not measured
    gradient_slope: float  # K_L, NaN where not measured
    unbounded: tuple[str, ...]  # parameters without finite bounds, for which an interval was assumed
    samples: int
    continuity: float = AnalysisSettings.continuity  # lambda

    @property
    def rate(self) -> float:
        """alpha = 2 / (mu + K_L) of Remark 1, NaN where the loss is not strongly convex."""
        return 2 / (self.convexity + self.gradient_slope) if self.convexity > 0 else np.nan

    @property
    def sigma(self) -> float:
        """min(1, mu / (K_L - mu)) of Remark 1, NaN where the loss is not strongly convex."""
        if not self.convexity > 0:
            return np.nan
        gap = self.gradient_slope - self.convexity
        return 1.0 if gap <= self.convexity else self.convexity / gap

    def segments(self, length: float) -> float:
        """J: segments of that length over all experiments."""
        if length <= 0:
            return np.inf
        return float(sum(max(1.0, np.ceil(span / length - 1e-9)) for span in self.spans))


def analyse(
    problem: Problem,
    start: Mapping[str, object] | Fit | None = None,
    *,
    samples: int = 2000,
    seed: int = 0,
    settings: AnalysisSettings = DEFAULT,
) -> Analysis:
    """Estimate the constants of the paper's theorems.

    `start`: parameter values as for `pf.fit`, or a Fit, whose path and values replace the guessed ones. `samples`:
    points on the ball, at least. The ball contains the bounds of the initial states and the start's path, widened.
    """
    if not isinstance(problem, Problem):
        raise InputError("inference.analysis_of", given=problem)
    samples, seed = as_whole(samples, "samples", 1, 2000), as_whole(seed, "seed", 0)
    begin = start_path(problem, start)
    along = constants_along(problem, begin)
    on_ball = constants_on_ball(problem, begin, samples, np.random.default_rng(seed), settings)
    spans = tuple(float(np.subtract(*problem.span(e)[::-1])) for e in range(len(problem.experiments)))
    length = min(max(along.segment_length, sum(spans) / settings.most_segments), max(spans) or 1.0)
    system, point = on_segments(problem, begin, length, settings.nodes)
    unknowns, (low, high) = curvature(system, point, settings)
    layout, columns = problem.layout, problem.layout.columns.parameters
    bounded = np.isfinite(layout.lower[0, columns]) & np.isfinite(layout.upper[0, columns])
    return Analysis(
        on_ball=on_ball,
        along_data=along,
        spans=spans,
        segment_length=float(system.mesh.length.max()),
        contraction=contraction(system, point),
        unknowns=unknowns,
        convexity=low,
        gradient_slope=high,
        unbounded=tuple(layout.names[k] for k in layout.free_parameters[~bounded]),
        samples=samples,
        continuity=settings.continuity,
    )
