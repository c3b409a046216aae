"""The settings of the rescue, grouped by what they decide.

Where no origin is given, a value was chosen on the stiff and the published problems of benchmarks/hard.py and petab.py
before this record existed; docs/decisions/008 tells what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from picardfit.simulation.batched_rosenbrock import RosenbrockSteps


@dataclass(frozen=True)
class Descent:
    """Levenberg-Marquardt steps of candidates side by side."""

    damping: float = 1e-2  # the first one
    decrease: float = 0.2  # factor after a step downhill
    increase: float = 10.0  # factor after any other
    least_damping: float = 1e-5
    most_damping: float = 1e6  # at which a candidate is given up
    weakest: float = 1e-6  # least damped curvature relative to the largest, unknowns scaled by their sizes
    reach: float = (
        2.3  # longest step in the logarithm of an unknown, a factor of ten: longer ones end on plateaus
    )
    idle: int = 4  # steps in a row that gain next to nothing after which a candidate has ended


@dataclass(frozen=True)
class Variation:
    """How further candidates are made from good ones."""

    tries: int = 3  # variations of a kind of which the best one sets out
    moved: float = 0.3  # chance of an unknown to be moved far
    far: float = 3.0  # how far, in its logarithm or its own size
    loose_cost: float = 3.0  # rise of the log-likelihood along directions that the data leave open
    loose_reach: float = 4.0  # and how far at most
    mixed: float = 0.7  # chance of an unknown to get the difference of two others
    jitter: float = 0.1  # random move beside that
    least_size: float = 0.02  # unit of an unknown near zero, in parts of its bounds


@dataclass(frozen=True)
class Lead:
    """How candidates are led to the data: first they are fitted to the first samples, then to more.

    A path that has the wrong period, or none, has no slope towards the right one as soon as it has to follow several
    periods at once. The numbers were chosen on the repressilator (benchmarks/rescue.py --alone): docs/decisions/028.
    """

    parts: tuple[float, ...] = (0.35, 0.7)  # of the sampling times of every experiment, one after the other
    steps: int = 12  # downhill in each of these
    samples: int = 3  # an experiment keeps at least
    candidates: int = 128  # the best that are led, in lanes of 64: each costs a fifth of its whole descent


@dataclass(frozen=True)
class Rescue:
    """Single shooting from many simulated candidates side by side, tried when searches fail or do not agree.

    `work` bounds it, in the units of `picardfit.solvers.loop.StepCost`: about 7 microseconds each.
    """

    candidates: int = 256  # spread over the bounds and ranked by one simulation
    lanes: int = 64  # that go downhill at the same time
    experiments: int = 10  # from which on there are proportionally fewer of both
    steps: int = 240  # of the lanes at most
    work: float = 6e6  # after which no further step of the lanes begins, beside their first ranking
    patience: int = 10  # steps without a better leader after which no more are taken
    vain: float = 1.0  # descents for every lane that must have ended in vain, too, where no search converged
    tolerance: float = 1e-3  # of the integrations, relative
    closer: float = 1e-5  # the same for the last steps
    little: float = 1e-3  # a gain that hardly counts: of the loss, or per measurement of a likelihood
    last: float = 1e-5  # the same for the last steps
    queued: float = 0.125  # part of the free lanes that goes to candidates at least, and not to variations
    parents: int = 8  # best optima of which variations are made
    finalists: int = 4  # of the candidates, from which searches on the Picard operator set out
    polishes: int = 25  # further steps at the closer tolerance where no such search converged
    lenders: int = 24  # candidates whose scales and offsets are tried on each other
    calibrations: int = 10  # steps in scales, offsets and noise levels before candidates are ranked
    integration: RosenbrockSteps = field(default=RosenbrockSteps())
    descent: Descent = field(default=Descent())
    variation: Variation = field(default=Variation())
    lead: Lead | None = field(default=Lead())  # where no search converged; None: never
