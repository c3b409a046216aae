"""One compartment with oral doses or infusions, in closed form."""

import numpy as np

import picardfit as pf

MODEL = pf.Model("gut' = -ka*gut\ncentral' = ka*gut - k*central", observables={"conc": "central/v"})
TRUTH = {"ka": 1.1, "k": 0.15, "v": 12.0}
EMPTY = {"gut": 0.0, "central": 0.0}
BOUNDS = {
    "ka": pf.Parameter(0.3, 20, log=True),
    "k": pf.Parameter(0.005, 0.3, log=True),
    "v": pf.Parameter(1, 200, log=True),
}


def oral(times, amount=100.0, ka=1.1, k=0.15):
    """Amount in the central compartment after one oral dose at 0."""
    times = np.asarray(times, float)
    after = np.maximum(times, 0.0)
    return np.where(times >= 0, amount * ka / (ka - k) * (np.exp(-k * after) - np.exp(-ka * after)), 0.0)


def infused(times, amount=100.0, duration=2.0, k=0.15):
    """Amount after an infusion that begins at 0."""
    times = np.asarray(times, float)
    running = np.clip(times, 0.0, duration)
    return amount / duration / k * (1 - np.exp(-k * running)) * np.exp(-k * np.maximum(times - duration, 0.0))


def oral_steady(since, every, amount=100.0, ka=1.1, k=0.15):
    """Amount in the central compartment at steady state, some time after the last of all doses."""
    since = np.asarray(since, float)
    slow, fast = (np.exp(-rate * since) / (1 - np.exp(-rate * every)) for rate in (k, ka))
    return amount * ka / (ka - k) * (slow - fast)


def problem_of(times, doses, noise=0.0, seed=0, **options):
    """A problem with simulated data, and proportional noise if so wanted."""
    found = pf.simulate(MODEL, TRUTH, EMPTY, times, doses=doses, **options)
    scatter = 1 + noise * np.random.default_rng(seed).standard_normal(len(times))
    one = pf.Experiment(times, {"conc": found.observables["conc"] * scatter}, doses=doses, **options)
    return pf.Problem(MODEL, one, BOUNDS, initial=EMPTY)
