"""Simulation-based calibration of `pf.NUTS` (Talts and others, 2018): draws are right if the truth has any rank.

    python benchmarks/calibration.py [DATA_SETS] [--only NAME] [--ledger FOLDER]

The truth is drawn from the priors, data from the truth, and the posterior from the data. The rank of the truth among
independent draws is then uniform, which a chi-square test checks for every unknown of three problems. With a ledger an
interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import picardfit as pf
from picardfit.inference.posterior.predictive import prior_draws
from picardfit.parallel.ledger import Ledger

KEPT = 19  # draws among which the truth has a rank from 0 to 19
THIN = 4  # iterations between two draws of a chain that are kept, so that they are nearly independent
CHAINS = 10  # with two draws each, of which one is dropped
WARMUP = 40  # iterations: the metric is that of the Fisher information, only the step size is found


def positive(prior) -> pf.Parameter:
    return pf.Parameter(0, prior=prior)


def decay() -> pf.Problem:
    """Decay with unknown start and noise level."""
    times, priors = np.linspace(0.5, 5.0, 8), pf.priors
    noise = pf.Noise(additive=pf.Parameter(1e-3, prior=priors.LogNormal(-2.0, 0.4)))
    data = pf.Experiment(times, {"x": np.exp(-times)}, t0=0.0)
    parameters = {"k": pf.Parameter(0, prior=priors.Gamma(6.0, 8.0))}
    initial = {"x": positive(priors.LogNormal(0.5, 0.3))}
    return pf.Problem(pf.Model("x' = -k*x"), data, parameters, initial, noise=noise)


def hidden() -> pf.Problem:
    """Two compartments of which one is measured; rates differ, so that nothing can be exchanged."""
    times, priors = np.linspace(0.5, 6.0, 10), pf.priors
    model = pf.Model("a' = -p*a\nb' = p*a - q*b", observables=["b"])
    data = pf.Experiment(times, {"b": np.exp(-times)}, t0=0.0, initial={"b": 0.0})
    parameters = {
        "p": pf.Parameter(1e-3, log=True, prior=priors.LogNormal(0.3, 0.3)),
        "q": pf.Parameter(1e-3, log=True, prior=priors.LogNormal(-0.7, 0.3)),
    }
    initial = {"a": positive(priors.Gamma(9.0, 3.0))}
    return pf.Problem(model, data, parameters, initial, noise=pf.LogNormal(sigma=0.15))


def at_bound() -> pf.Problem:
    """An initial state that is often as good as zero, its bound."""
    times, priors = np.linspace(0.25, 4.0, 8), pf.priors
    data = pf.Experiment(times, {"x": times}, t0=0.0)
    parameters = {
        "s": pf.Parameter(0, 10, prior=priors.Normal(2.0, 0.5)),
        "k": pf.Parameter(0.05, 5, prior=priors.LogNormal(-0.3, 0.3)),
    }
    initial = {"x": pf.Parameter(0, 3, prior=priors.HalfNormal(0.2))}
    return pf.Problem(pf.Model("x' = s - k*x"), data, parameters, initial, noise=pf.Noise(additive=0.2))


CALIBRATIONS: dict[str, Callable[[], pf.Problem]] = {
    "decay": decay,
    "hidden": hidden,
    "at_bound": at_bound,
}


def data_set(problem: pf.Problem, seed: int) -> tuple[pf.Problem, np.ndarray]:
    """The problem with data from unknowns that are drawn from its priors, and these unknowns."""
    truth = prior_draws(problem, 1, np.random.default_rng([seed, 7]))[0]
    return problem.simulate_data(truth, seed=seed), truth


def ranks_of_one(problem: pf.Problem, seed: int) -> dict[str, int] | None:
    """unknown -> rank of the truth among KEPT draws, for one data set; None if its fit failed."""
    again, truth = data_set(problem, seed)
    method = pf.NUTS(draws=THIN + 1, chains=CHAINS, warmup=WARMUP)
    try:
        fit = pf.fit(again, policy=pf.SearchPolicy(most=1), progress=False)
        posterior = fit.posterior(method, seed=seed, progress=False)
    except pf.InputError:
        return None
    coordinates = posterior.coordinates
    values = problem.layout.natural(truth)[tuple(coordinates.index.T)]
    true = dict(zip(coordinates.labels, values, strict=True))
    kept = {name: posterior[name][:, ::THIN].ravel()[:KEPT] for name in posterior.labels}
    return {name: int(np.sum(values < true[name])) for name, values in kept.items()}


def ranks(
    name: str, data_sets: int, ledger: Path | None = None, first: int = 0
) -> tuple[dict[str, np.ndarray], int]:
    """unknown -> ranks (data sets,), and how many fits failed."""
    problem = CALIBRATIONS[name]()
    identity = {"problem": name, "kept": KEPT, "thin": THIN, "chains": CHAINS, "warmup": WARMUP}
    book = None if ledger is None else Ledger(ledger / f"{name}.jsonl", identity)
    found: list[dict[str, int] | None] = []
    for seed in range(first, first + data_sets):
        if book is not None and seed in book.done:
            found.append(book.result(seed, lambda result: result))
            continue
        found.append(ranks_of_one(problem, seed))
        if book is not None:
            book.append(seed, found[-1])
    fine = [one for one in found if one is not None]
    return {n: np.array([one[n] for one in fine]) for n in fine[0]}, len(found) - len(fine)


def uniformity(rank: np.ndarray, bins: int = 10) -> float:
    """p value of a chi-square test that ranks from 0 to KEPT are equally likely."""
    from scipy.stats import chisquare

    return float(chisquare(np.bincount(rank * bins // (KEPT + 1), minlength=bins)).pvalue)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data_sets", type=int, nargs="?", default=200)
    parser.add_argument("--only", choices=CALIBRATIONS)
    parser.add_argument("--ledger", type=Path, help="folder that keeps what is done")
    asked = parser.parse_args()
    if asked.ledger is not None:
        asked.ledger.mkdir(parents=True, exist_ok=True)
    for name in [asked.only] if asked.only else CALIBRATIONS:
        began = time.process_time()
        found, failed = ranks(name, asked.data_sets, asked.ledger)
        print(f"{name}: {asked.data_sets} data sets, {failed} failed, {time.process_time() - began:.0f} s")
        for unknown, rank in found.items():
            counts = np.bincount(rank * 10 // (KEPT + 1), minlength=10)
            print(f"  {unknown}: p = {uniformity(rank):.3f}; tenths: {counts.tolist()}", flush=True)


if __name__ == "__main__":
    main()
