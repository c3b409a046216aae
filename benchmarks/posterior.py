"""Posteriors against published ones, calibration by simulation, heavy tails, and the cost of a gradient.

    python benchmarks/posterior.py hares       Stan's hare-lynx model against the reference draws of posteriordb
    python benchmarks/posterior.py epidemic    the waterborne epidemic of stat_comp_benchmarks
    python benchmarks/posterior.py calibration [DATA_SETS]    ranks of the truth among draws, on three problems
    python benchmarks/posterior.py tails       heavy tails and a variance near zero, against integrals on a grid
    python benchmarks/posterior.py lorenz [DRAWS]    100 experiments, 306 unknowns
    python benchmarks/posterior.py engine      a gradient for four chains: collocation and batched integration

Times are given as seconds of the clock and of the processor: other programs change the former.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import picardfit as pf

DATA = Path(__file__).parents[2] / "shared" / "data"
HARES = {  # mean and sd of 10,000 draws (posteriordb, hudson_lynx_hare-lotka_volterra)
    "birth": (0.54686, 0.06305),
    "hunt": (0.027747, 0.0041547),
    "death": (0.80010, 0.08937),
    "grow": (0.024086, 0.0035281),
    "hare(0)": (34.0352, 2.9169),
    "lynx(0)": (5.9359, 0.53055),
    "noise.sigma.hare": (0.24806, 0.04326),
    "noise.sigma.lynx": (0.25102, 0.04359),
}
EPIDEMIC = {  # stat_comp_benchmarks, model sir
    "beta": (1.0120, 0.0429),
    "gamma": (0.19979, 0.00864),
    "xi": (10.546, 0.717),
    "delta": (0.35613, 0.0253),
}


def positive(prior):
    return pf.Parameter(0, prior=prior)


def hare_problem() -> pf.Problem:
    table, priors = pd.read_csv(DATA / "lynx_hare.csv"), pf.priors
    model = pf.Model("hare' = birth*hare - hunt*hare*lynx\nlynx' = grow*hare*lynx - death*lynx")
    pelts = pf.Experiment(
        table["year"].to_numpy() - 1900.0, {name: table[name].to_numpy() for name in ("hare", "lynx")}
    )
    parameters = {name: positive(priors.Normal(1, 0.5)) for name in ("birth", "death")}
    parameters |= {name: positive(priors.Normal(0.05, 0.05)) for name in ("hunt", "grow")}
    initial = {name: positive(priors.LogNormal(np.log(10), 1)) for name in ("hare", "lynx")}
    sigma = {name: positive(priors.LogNormal(-1, 1)) for name in ("hare", "lynx")}
    return pf.Problem(model, pelts, parameters, initial, noise=pf.LogNormal(sigma=sigma))


def epidemic_problem() -> pf.Problem:
    table, half = pd.read_csv(DATA / "waterborne_sir.csv"), pf.priors.HalfCauchy
    model = pf.Model(
        """
        s' = -beta*B/(B + 1e6)*s
        i' = beta*B/(B + 1e6)*s - gamma*i
        B' = xi*i - delta*B
        """,
        observables={"new_infections": "increment(10000 - s)", "bacteria": "B"},
    )
    weeks = pf.Experiment(
        table["time"].to_numpy(float),
        {name: table[name].to_numpy(float) for name in ("new_infections", "bacteria")},
        initial={"s": 10000.0, "i": 0.0, "B": 10000.0},
        t0=0.0,
    )
    scales = {"beta": 2.5, "gamma": 1.0, "xi": 25.0, "delta": 1.0}
    parameters = {name: positive(half(scale)) for name, scale in scales.items()}
    noise = {"new_infections": pf.Poisson(), "bacteria": pf.LogNormal(sigma=0.15)}
    return pf.Problem(model, weeks, parameters, noise=noise)


def compared(problem: pf.Problem, reference: dict[str, tuple[float, float]], draws: int) -> None:
    """Fit, draw, and print means and sds beside the reference ones."""
    clock, processor = time.perf_counter(), time.process_time()
    fit = pf.fit(problem)
    posterior = fit.posterior(pf.NUTS(draws=draws), seed=0, progress=False)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    table = posterior.summary()
    print(f"{'':18}{'mean':>10}{'MCSE off':>10}{'sd':>10}{'off':>8}{'ess bulk':>10}{'ess tail':>10}{'R-hat':>8}")
    for name, (mean, sd) in reference.items():
        row = table.loc[name]
        error = np.hypot(row["mcse"], sd / 100)  # 10,000 reference draws have an error of their own
        print(
            f"{name:18}{row['mean']:10.5g}{(row['mean'] - mean) / error:10.2f}{row['sd']:10.4g}"
            f"{row['sd'] / sd - 1:8.1%}{row['ess_bulk']:10.0f}{row['ess_tail']:10.0f}{row['r_hat']:8.4f}"
        )
    least = float(table[["ess_bulk", "ess_tail"]].min().min())
    print(
        f"{posterior.divergences} divergent; {clock:.1f} s of the clock, {processor:.1f} s of the processor, fit "
        f"included: at least {least / clock:.0f} ({least / processor:.0f}) effective draws a second"
    )
    print("\n".join(map(str, posterior.warnings)))
    quick = fit.posterior(pf.LaplaceDraws(), seed=0, progress=False)
    off = max(abs(quick.summary().loc[n, "mean"] - m) / s for n, (m, s) in reference.items())
    print(f"LaplaceDraws: {quick.seconds:.1f} s, k-hat {quick.khat:.2f}, means at most {off:.2f} sd off")


def main() -> None:
    command, *numbers = sys.argv[1:] or ["hares"]
    if command == "hares":
        compared(hare_problem(), HARES, int(numbers[0]) if numbers else 1000)
    elif command == "epidemic":
        compared(epidemic_problem(), EPIDEMIC, int(numbers[0]) if numbers else 1000)


if __name__ == "__main__":
    main()
