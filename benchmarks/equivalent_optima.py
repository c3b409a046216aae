"""Models whose data two orders of the rates explain equally well: how often a default fit shows both.

    python benchmarks/equivalent_optima.py [--sets 10] [--first 0] [--only NAME]

Each model hides states. Its second explanation is known in closed form, or, for the last group, does not exist: there
the table shows what looking for it costs. "Both": fits with two optima of the same loss (within 0.01 %); "without": the
same when the searches do not begin at exchanged rates (`picardfit.search.exchange`), by the first searches alone.
Times are processor seconds, medians, of a default fit and of one search.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

import picardfit as pf
from picardfit.errors import Status

EARLY = [0.25, 0.5, 1, 2, 3.5, 5, 7, 9, 12, 24]
DENSE = [0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 36]
SAME = 1e-4  # relative difference of losses


@dataclass(frozen=True)
class Model:
    """Equations, truth, what is known at the start, sampling, and whether a second explanation exists."""

    equations: str
    observable: str
    truth: dict[str, float]
    initial: dict[str, float]
    times: list[float] | np.ndarray
    noise: float = 0.02  # relative to the largest value
    bounds: float = 30.0  # factor to both sides of the truth
    log: bool = True
    estimated: tuple[str, ...] = ()  # initial states that are not known
    two: bool = True


MODELS = {
    "oral, rates and volume": Model(
        "g' = -ka*g\nc' = ka*g - ke*c",
        "c/v",
        {"ka": 1.5, "ke": 0.1, "v": 30.0},
        {"g": 300.0, "c": 0.0},
        EARLY,
    ),
    "oral, clearance and volume": Model(
        "g' = -ka*g\nc' = ka*g - cl/v*c",
        "c/v",
        {"ka": 1.5, "cl": 3.0, "v": 30.0},
        {"g": 300.0, "c": 0.0},
        EARLY,
    ),
    "two reactions, product": Model(
        "a' = -k1*a\nb' = k1*a - k2*b\nc' = k2*b",
        "c",
        {"k1": 0.9, "k2": 0.25},
        {"a": 1.0, "b": 0.0, "c": 0.0},
        EARLY,
    ),
    "the same, linear bounds": Model(
        "a' = -k1*a\nb' = k1*a - k2*b\nc' = k2*b",
        "c",
        {"k1": 0.9, "k2": 0.25},
        {"a": 1.0, "b": 0.0, "c": 0.0},
        EARLY,
        bounds=10.0,
        log=False,
    ),
    "three reactions, product": Model(
        "a' = -k1*a\nb' = k1*a - k2*b\nc' = k2*b - k3*c\nd' = k3*c",
        "d",
        {"k1": 1.5, "k2": 0.5, "k3": 0.15},
        {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0},
        DENSE,
        noise=0.005,
    ),
    "two exponentials": Model(
        "x' = -b*x\nz' = -d*z",
        "x + z",
        {"b": 1.2, "d": 0.12},
        {"x": 3.0, "z": 2.0},
        EARLY,
        noise=0.01,
        estimated=("x", "z"),
    ),
    "parent and metabolite": Model(
        "p' = -(k + m)*p\nq' = m*p - e*q",
        "q",
        {"k": 0.3, "m": 0.2, "e": 1.2},
        {"p": 10.0, "q": 0.0},
        EARLY,
    ),
    "oral, two compartments": Model(
        "g' = -ka*g\nc' = ka*g - (k10 + k12)*c + k21*d\nd' = k12*c - k21*d",
        "c/v",
        {"ka": 2.0, "k10": 0.15, "k12": 0.4, "k21": 0.3, "v": 1.0},
        {"g": 10.0, "c": 0.0, "d": 0.0},
        DENSE,
        noise=0.005,
    ),
    "epidemic, scaled": Model(
        "S' = -beta*S*I\nE' = beta*S*I - sigma*E\nI' = sigma*E - gamma*I",
        "q*I",
        {"beta": 1.2, "sigma": 0.6, "gamma": 0.2, "q": 100.0},
        {"S": 0.99, "E": 0.01, "I": 0.0},
        np.linspace(2, 60, 30),
    ),
    "two compartments, bolus": Model(
        "c' = -(k10 + k12)*c + k21*d\nd' = k12*c - k21*d",
        "c",
        {"k10": 0.3, "k12": 0.8, "k21": 0.4},
        {"c": 10.0, "d": 0.0},
        EARLY,
        two=False,
    ),
    "epidemic, known scale": Model(
        "S' = -beta*S*I\nE' = beta*S*I - sigma*E\nI' = sigma*E - gamma*I",
        "I",
        {"beta": 1.2, "sigma": 0.6, "gamma": 0.2},
        {"S": 0.99, "E": 0.01, "I": 0.0},
        np.linspace(2, 60, 30),
        two=False,
    ),
    "messenger and protein": Model(
        "m' = a*exp(-t/5) - dm*m\np' = b*m - dp*p",
        "p",
        {"a": 2.0, "dm": 0.8, "b": 1.0, "dp": 0.1},
        {"m": 0.0, "p": 0.0},
        EARLY,
    ),
}


def problem_of(one: Model, seed: int) -> pf.Problem:
    model = pf.Model(one.equations, observables={"y": one.observable})
    exact = pf.simulate(model, one.truth, one.initial, one.times, t0=0.0).observables["y"]
    noise = one.noise * np.abs(exact).max() * np.random.default_rng([seed, 2026]).standard_normal(len(exact))
    known = {name: value for name, value in one.initial.items() if name not in one.estimated}
    data = pf.Experiment(one.times, {"y": exact + noise}, initial=known, t0=0.0)
    parameters = {
        name: pf.Parameter(value / one.bounds, value * one.bounds, log=one.log)
        for name, value in one.truth.items()
    }
    initial = {name: (0.0, 5 * one.initial[name]) for name in one.estimated}
    return pf.Problem(model, data, parameters, initial=initial or None)


def tied(searches: list) -> int:
    """How many optima with the least loss these searches found."""
    found = [one for one in searches if one.cluster is not None and one.status is not Status.ARRIVED]
    least = min((one.loss for one in found), default=np.inf)
    return len({one.cluster for one in found if one.loss <= least * (1 + SAME)})


def row(name: str, first: int, sets: int) -> str:
    one, both, without, most, seconds = MODELS[name], 0, 0, 0, []
    for seed in range(first, first + sets):
        problem = problem_of(one, seed)
        began = time.process_time()
        fit = pf.fit(problem, seed=seed, progress=False)
        middle = time.process_time()
        pf.fit(problem, seed=seed, progress=False, policy=pf.SearchPolicy(most=1))
        seconds.append((middle - began, time.process_time() - middle))
        both += tied(fit.searches) > 1
        drawn = [s for s in fit.searches if s.start < pf.SearchPolicy().most]
        without += tied(drawn) > 1
        most = max(most, len(fit.searches))
    default, single = np.median(seconds, axis=0)
    exists = "" if one.two else " (none)"
    return (
        f"| {name}{exists} | {both} of {sets} | {without} of {sets} | {most} | {default:.3f} | {single:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=10, help="data sets of each model")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--only", default="", help="models whose name contains this")
    options = parser.parse_args()
    print(
        "| model | both | without | most searches | s, default | s, one search |\n|---|---|---|---|---|---|"
    )
    for name in MODELS:
        if options.only in name:
            print(row(name, options.first, options.sets), flush=True)


if __name__ == "__main__":
    main()
