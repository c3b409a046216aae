"""Populations with published or known answers."""

from pathlib import Path

import numpy as np
import pandas as pd

import picardfit as pf

DATA = Path(__file__).parents[1] / "benchmarks" / "data"


def log_random(lower, upper, **options):
    return pf.Parameter(lower, upper, log=True, random=True, **options)


def wang():
    """Ten subjects with two samples of 10 exp(-ke t) each: Wang 2007, J. Pharmacokinet. Pharmacodyn. 34:575."""
    table = pd.read_csv(DATA / "wang2007.csv")
    subjects = [
        pf.Experiment(one.TIME.to_numpy(), {"y": one.DV.to_numpy()}, name=str(k))
        for k, one in table.groupby("ID")
    ]
    return pf.Problem(
        pf.Model("x' = -ke*x", observables={"y": "x"}),
        subjects,
        {"ke": log_random(0.01, 10)},
        initial={"x": 10.0},
        noise=pf.Noise(proportional=(0.001, 1)),
    )


THEOPHYLLINE = pf.Model("gut' = -ka*gut\ncentral' = ka*gut - cl/v*central", observables={"conc": "central/v"})


def theophylline(**options):
    """Oral theophylline in twelve subjects, one compartment (NONMEM's and nlmixr's example theo_sd)."""
    subjects = pf.read_nonmem(
        DATA / "theophylline.csv",
        doses={1: "gut"},
        observables={2: "conc"},
        covariates=options.pop("covariates", ()),
    )
    parameters = {"ka": log_random(0.05, 20), "cl": log_random(0.1, 50), "v": log_random(1, 500)}
    return pf.Problem(
        options.pop("model", THEOPHYLLINE),
        subjects,
        options.pop("parameters", parameters),
        initial={"gut": 0.0, "central": 0.0},
        noise=options.pop("noise", pf.Noise(additive=(0.01, 10))),
        **options,
    )


def linear_growth(individuals=20, samples=6, slope_sd=0.3, start_sd=0.5, noise=0.2, seed=0, **options):
    """x' = b from x(0) = a with normal a and b: a linear mixed model, whose marginal likelihood is known exactly."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0, 3, samples)
    a, b = 2 + start_sd * rng.standard_normal(individuals), 1 + slope_sd * rng.standard_normal(individuals)
    subjects = [
        pf.Experiment(times, {"x": a[k] + b[k] * times + noise * rng.standard_normal(samples)}, name=f"s{k}")
        for k in range(individuals)
    ]
    return pf.Problem(
        pf.Model("x' = b"),
        subjects,
        {"b": pf.Parameter(-10, 10, random=True)},
        initial={"x": pf.Parameter(-10, 10, random=True)},
        noise=pf.Noise(additive=(0.01, 5)),
        **options,
    )


def linear_objective(problem, a, b, noise, covariance):
    """-2 log L - n log(2 pi) of `linear_growth` at given values, in closed form."""
    total = 0.0
    for one in problem.experiments:
        design = np.stack([one.times, np.ones_like(one.times)], axis=1)
        gap = one.values[:, 0] - design @ [b, a]
        matrix = design @ covariance @ design.T + noise**2 * np.eye(len(gap))
        total += np.linalg.slogdet(matrix)[1] + gap @ np.linalg.solve(matrix, gap)
    return total
