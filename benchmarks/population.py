"""Populations: published values, poor starts, scale, and the ratio to a plain implementation, in one run each.

    python benchmarks/population.py published   # the table of Wang 2007 and of theophylline
    python benchmarks/population.py starts      # theophylline from typical values ten times too large or too small
    python benchmarks/population.py scale       # 250, 500 and 1,000 individuals with 8 samples each: seconds and memory
    python benchmarks/population.py plain       # theophylline against scipy.optimize over solve_ivp with sensitivities
    python benchmarks/population.py neutropenia # five states, three of them hidden, 30 individuals, 10 poor starts

Times are processor seconds of this process, so that a busy machine does not count.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares, minimize

import picardfit as pf

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from populations import THEOPHYLLINE, log_random, theophylline, wang

TRUE = {"ka": 1.5, "cl": 2.7, "v": 31.0}
SPREADS = {"ka": 0.5, "cl": 0.25, "v": 0.15}
SAMPLES = np.array([0.25, 0.5, 1, 2, 4, 8, 12, 24.0])
NEUTROPENIA = pf.Model(
    """
    edrug = 4*slope*exp(-0.3*t)
    ktr = 4/mtt
    prol' = ktr*prol*(1 - edrug)*(circ0/circ)**gamma - ktr*prol
    one' = ktr*prol - ktr*one
    two' = ktr*one - ktr*two
    three' = ktr*two - ktr*three
    circ' = ktr*three - ktr*circ
    """,
    observables={"neutrophils": "circ"},
)


def timed(function, *args, **options):
    """What a call returns, and its processor seconds."""
    began = time.process_time()
    result = function(*args, **options)
    return result, time.process_time() - began


def published() -> None:
    """Every published value beside ours."""
    values, omega = {"ke": 0.5, "noise.proportional": 0.1**0.5}, {"ke": 0.04}
    for marginal, wanted in (
        (pf.FOCEI(), 39.458),
        (pf.FOCE(), 39.207),
        (pf.FO(), 39.213),
        (pf.Quadrature(25), 39.355),
    ):
        found = wang().marginal_objective(values, omega, marginal)
        print(f"Wang 2007, fixed, {marginal.name:<12}{found:10.4f}   published {wanted}")
    fit, seconds = timed(pf.fit, wang())
    print(
        f"Wang 2007, estimated, FOCEI  {fit.population.objective:10.5f}   published -4.34035 ({seconds:.2f} s)"
    )
    for name, wanted in (("ke", "0.477423 (0.0430)"), ("noise.proportional", "0.0347459 (0.00737)")):
        print(f"  {name} {fit.parameters[name]:.6f} ({fit.standard_errors[name]:.4g})   published {wanted}")
    omega, error = (
        one.loc["ke", "ke"] for one in (fit.population.covariance, fit.population.covariance_errors)
    )
    print(f"  variance {omega:.6f} ({error:.4g})   published 0.0793466 (0.0504)")
    fit, seconds = timed(pf.fit, theophylline())
    print(f"theophylline, FOCEI  {fit.population.objective:10.5f}   published 116.8038 ({seconds:.2f} s)")
    for name, wanted in (("ka", "0.46445 (0.198)"), ("cl", "1.01205 (0.0756)"), ("v", "3.45997 (0.0429)")):
        value = fit.parameters[name]
        print(
            f"  ln {name} {np.log(value):.5f} ({fit.standard_errors[name] / value:.3g})   published {wanted}"
        )
    print(f"  sd {fit.parameters['noise.additive']:.5f}   published 0.69384")
    variances = np.diag(fit.population.covariance)
    print(f"  variances {np.array2string(variances, precision=5)}   published 0.40463 0.06880 0.019222")
    fit, seconds = timed(pf.fit, theophylline(), marginal=pf.Quadrature(nodes=3))
    print(
        f"theophylline, quadrature of 3 nodes {fit.population.objective:.3f}   published 118.13 ({seconds:.2f} s)"
    )


def starts(count: int = 20) -> None:
    """How many starts with typical values a factor of ten away reach the published optimum."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(count):
        factor = 10.0 ** rng.choice([-1, 1], 3)
        start = {name: float(value * f) for (name, value), f in zip(TRUE.items(), factor, strict=True)}
        start["ka"], start["cl"] = np.clip(start["ka"], 0.06, 19), np.clip(start["cl"], 0.11, 49)
        fit, seconds = timed(pf.fit, theophylline(), start=start)
        hits += abs(fit.population.objective - 116.8034) < 0.01
        print(f"{factor}  {fit.population.objective:.4f}  {seconds:.2f} s", flush=True)
    print(f"{hits} of {count} starts")


def simulated(
    individuals: int, seed: int, spreads=SPREADS, noise: float = 0.3, samples=SAMPLES
) -> pf.Problem:
    """Theophylline-like data in closed form."""
    rng, subjects = np.random.default_rng(seed), []
    for k in range(individuals):
        ka, cl, v = (TRUE[name] * np.exp(sd * rng.standard_normal()) for name, sd in spreads.items())
        rate = cl / v
        curve = 300 * ka / v / (ka - rate) * (np.exp(-rate * samples) - np.exp(-ka * samples))
        data = {"conc": curve + noise * rng.standard_normal(len(samples))}
        subjects.append(pf.Experiment(samples, data, name=f"{k}", doses=pf.Doses([0], [300.0], into="gut")))
    parameters = {"ka": log_random(0.05, 20), "cl": log_random(0.1, 50), "v": log_random(1, 500)}
    start = {"gut": 0.0, "central": 0.0}
    return pf.Problem(THEOPHYLLINE, subjects, parameters, initial=start, noise=pf.Noise(additive=(0.01, 10)))


def scale() -> None:
    """Seconds and memory over the number of individuals."""
    for individuals in (250, 500, 1000):
        fit, seconds = timed(pf.fit, simulated(individuals, 1))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{individuals:5d} individuals  {seconds:6.1f} s  {memory:6.0f} MB  {fit.status.name}", flush=True
        )


# ---- a plain implementation ----------------------------------------------------------------------------------------


def plain_focei(problem: pf.Problem) -> float:
    """FOCEI with one solve_ivp (sensitivities beside the states) per individual and step; the objective reached."""
    subjects = [(one.times, one.values[:, 0], float(one.doses[0].amounts[0])) for one in problem.experiments]

    def curve(phi, times, dose):
        ka, cl, v = np.exp(phi)

        def rates(_, x):
            gut, central = x[:2]
            own = [-ka * gut, ka * gut - cl / v * central]
            jacobian = np.array([[-ka, 0.0], [ka, -cl / v]])
            by_phi = np.array([[-ka * gut, 0, 0], [ka * gut, -cl / v * central, cl / v * central]])
            return np.concatenate([own, (jacobian @ x[2:].reshape(2, 3) + by_phi).ravel()])

        found = solve_ivp(
            rates, (0, times[-1]), [dose, *[0.0] * 7], t_eval=times, method="LSODA", rtol=1e-8, atol=1e-8
        ).y
        value = found[1] / v
        return value, found[5:8].T / v - np.outer(value, [0, 0, 1])

    modes = np.zeros((len(subjects), 3))

    def objective(x):
        theta, sd, omega, total = x[:3], np.exp(x[3]), np.exp(x[4:]), 0.0
        for k, (times, y, dose) in enumerate(subjects):
            found = least_squares(
                lambda z, t=times, y=y, d=dose: np.append((y - curve(theta + omega * z, t, d)[0]) / sd, z),
                modes[k],
                jac=lambda z, t=times, d=dose: np.vstack(
                    [-curve(theta + omega * z, t, d)[1] * omega / sd, np.eye(3)]
                ),
                method="lm",
                xtol=1e-9,
                ftol=1e-12,
            )
            modes[k] = found.x
            slopes = curve(theta + omega * found.x, times, dose)[1] * omega / sd
            matrix = np.eye(3) + slopes.T @ slopes
            total += 2 * found.cost + 2 * len(y) * np.log(sd) + np.linalg.slogdet(matrix)[1]
        return total

    begin = np.concatenate([np.log([1.0, 3.0, 30.0]), [0.0], np.log([0.3, 0.3, 0.3])])
    return float(minimize(objective, begin, method="BFGS", options={"gtol": 1e-3}).fun)


def plain() -> None:
    """Both on theophylline, in one run."""
    problem = theophylline()
    fit, ours = timed(pf.fit, problem)
    reached, theirs = timed(plain_focei, problem)
    print(f"picardfit {fit.population.objective:.4f} in {ours:.2f} s, plain {reached:.4f} in {theirs:.1f} s")
    print(f"ratio {ours / theirs:.3f}")


# ---- hidden states -------------------------------------------------------------------------------------------------


def neutropenia(individuals: int = 30, seed: int = 0) -> pf.Problem:
    """Semi-mechanistic myelosuppression (Friberg 2002): circulating cells measured, four states hidden."""
    rng, times = np.random.default_rng(seed), np.array([0, 2, 4, 6, 8, 10, 12, 15, 18, 22.0])
    subjects = []
    for k in range(individuals):
        values = {
            "slope": 0.4 * np.exp(0.3 * rng.standard_normal()),
            "mtt": 5 * np.exp(0.15 * rng.standard_normal()),
            "circ0": 5 * np.exp(0.35 * rng.standard_normal()),
            "gamma": 0.17,
        }
        first = dict.fromkeys(NEUTROPENIA.states, values["circ0"])
        exact = pf.simulate(NEUTROPENIA, values, first, times).observables["neutrophils"]
        noisy = exact * (1 + 0.15 * rng.standard_normal(len(times)))
        subjects.append(pf.Experiment(times, {"neutrophils": noisy}, name=f"{k}"))
    parameters = {
        "slope": log_random(0.01, 10),
        "mtt": log_random(0.5, 50),
        "circ0": log_random(0.1, 100),
        "gamma": pf.Parameter(0.01, 2, log=True),
    }
    first = dict.fromkeys(NEUTROPENIA.states, "circ0")
    return pf.Problem(
        NEUTROPENIA, subjects, parameters, initial=first, noise=pf.Noise(proportional=(0.01, 1))
    )


def hidden(count: int = 10) -> None:
    """How many poor starts reach the best objective."""
    problem, rng, found = neutropenia(), np.random.default_rng(1), []
    for _ in range(count):
        factor = 10.0 ** rng.uniform(-1, 1, 4)
        values = {"slope": 0.4, "mtt": 5.0, "circ0": 5.0, "gamma": 0.17}
        start = {name: float(value * f) for (name, value), f in zip(values.items(), factor, strict=True)}
        start["mtt"] = float(np.clip(start["mtt"], 0.51, 49))
        fit, seconds = timed(pf.fit, problem, start=start)
        found.append(fit.population.objective if fit.optimum is not None else np.inf)
        print(f"{found[-1]:.4f}  {fit.status.name}  {seconds:.1f} s", flush=True)
    print(f"{sum(one < min(found) + 0.01 for one in found)} of {count} starts reach {min(found):.4f}")


if __name__ == "__main__":
    tasks = {
        "published": published,
        "starts": starts,
        "scale": scale,
        "plain": plain,
        "neutropenia": hidden,
    }
    chosen = sys.argv[1] if len(sys.argv) > 1 else "published"
    tasks[chosen](*map(int, sys.argv[2:]))
