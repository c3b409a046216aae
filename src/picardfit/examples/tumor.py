"""Tumour, healthy and immune cells under five dosings of an unmeasured drug (section 7.4 of the paper).

Odd in the paper:
- u4 = 3 - t on [3, 6] is a negative dose, under which the tumour grows; "u3, u4, u5 clear the tumour"
  holds for t - 3 on [3, 6] (the default here) and for 3 - t on [0, 3]. `Dose4` lists the readings.
- the last data set is printed Y1, Y2, Y3, Y3, Y5: with all five, inputs=(1, 2, 3, 4, 5) is meant.
- L_ls = 0.006 at the truth fits eps = 0.01 as a variance if the average runs over single numbers: variance is
  the default.
- the bounds are not printed; with inputs u1:3 and u1:4 theta5 ends 3.96 +- 0.00 and rho 0.99 +- 0.00 off,
  which looks like bounds at 5 times and a hundredth of the truth (IMPLIED_BOUNDS). The default, BOUNDS, is
  +-50 % around the truth for all parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cache

import numpy as np

from picardfit.errors import InputError
from picardfit.model.model import Model
from picardfit.problem.problem import Problem

from .common import Bounds, Settings, Spread, around, noisy_experiment, parameter_bounds, standard_deviation

MODEL = """
kill = 1 - exp(-v)
N' = theta1*N*(1 - N) - theta1*N*T - kill*N
T' = theta2*T*(1 - T) - theta3*T*I - theta1*T*N - 3*kill*T
I' = theta4 + theta5*I*T/(rho + T) - theta1*I*T - theta6*I - 2*kill*I
v' = -v + u
"""
TRUTH = {
    "theta1": 1.0,
    "theta2": 1.5,
    "theta3": 0.5,
    "theta4": 0.33,
    "theta5": 0.01,
    "theta6": 0.2,
    "rho": 0.3,
}
BOUNDS = around(TRUTH, (0.5, 1.5))
IMPLIED_BOUNDS = around(TRUTH, (0.01, 5.0))  # at least as wide as the errors in the paper's table
INITIAL = {"N": 1.0, "T": 2.0, "I": 1.65, "v": 0.0}
INITIAL_BOUNDS = {"N": (0.0, None), "T": (0.0, None), "I": (0.0, None), "v": (0.0, 3.0)}
SETTINGS = Settings(segment_length=0.1, order=2, continuity=2.0)
HORIZON = 6.0
SAMPLES = 51


class Dose4(Enum):
    """Readings of the fourth dosing; only PRINTED is what the paper prints."""

    RISING = "t - 3"  # on [3, 6]
    PRINTED = "3 - t"  # on [3, 6]: negative
    EARLY = "3 - t on [0, 3]"


DOSES = {
    1: "0",
    2: "where(t < 3, exp(-t), 0)",
    3: "where(t < 3, exp(t), 0)",
    5: "where(t >= 1.5 and t < 4.5, exp(t), 0)",
}
FOURTH = {
    Dose4.RISING: "where(t >= 3, t - 3, 0)",
    Dose4.PRINTED: "where(t >= 3, 3 - t, 0)",
    Dose4.EARLY: "where(t < 3, 3 - t, 0)",
}


@cache
def model() -> Model:
    return Model(MODEL, observables=["N", "T", "I"], inputs=["u"])


def dose(number: int, u4: Dose4 | str = Dose4.RISING) -> str:
    """The formula of dosing 1 to 5."""
    if u4 not in {*Dose4, *(d.value for d in Dose4)}:
        raise InputError("examples.unknown_reading", value=u4, known=[d.value for d in Dose4])
    doses = {**DOSES, 4: FOURTH[Dose4(u4)]}
    if number not in doses:
        raise InputError("examples.no_dosing", value=number)
    return doses[number]


def generate(
    seed: int = 0,
    eps: float = 0.01,
    eps_is: Spread | str = Spread.VARIANCE,
    *,
    inputs: Iterable[int] = (1, 2, 3),
    u4: Dose4 | str = Dose4.RISING,
    shared_initial: bool = True,
    v_known: bool = False,
    bounds: Bounds = None,
) -> Problem:
    """One experiment for each dosing in `inputs`; its data do not depend on which others are there.

    `shared_initial`: the unknown initial state is the same in all experiments (parameters N0, T0, I0,
    v0), else each has its own. `v_known`: the drug is known to be absent at the start.
    """
    numbers = list(inputs)
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError("examples.bad_dosings", value=tuple(numbers))
    sd = standard_deviation(eps, eps_is)
    times = np.linspace(0.0, HORIZON, SAMPLES)
    experiments = []
    for number in numbers:
        signal, rng = {"u": dose(number, u4)}, np.random.default_rng([seed, number])
        experiments.append(
            noisy_experiment(model(), TRUTH, INITIAL, times, rng, sd, name=f"u{number}", inputs=signal)
        )
    unknown = [state for state in INITIAL if not (v_known and state == "v")]
    initial: dict[str, object] = {"v": INITIAL["v"]} if v_known else {}
    parameters, truth = parameter_bounds(BOUNDS, TRUTH, bounds), dict(TRUTH)
    if shared_initial:
        initial |= {state: f"{state}0" for state in unknown}
        parameters |= {f"{state}0": INITIAL_BOUNDS[state] for state in unknown}
        truth |= {f"{state}0": INITIAL[state] for state in unknown}
    else:
        initial |= {state: INITIAL_BOUNDS[state] for state in unknown}
    starts = {one.name: dict(INITIAL) for one in experiments}
    return Problem(
        model(),
        experiments,
        parameters=parameters,
        initial=initial,
        truth={"parameters": truth, "initial": starts},
    )
