"""Stiff models and hidden states: random starts in wide bounds, default settings.

Prints for each problem how many starts end at the best loss of all (within 0.1 %), whether that is at or below the loss
at the truth, iterations and processor seconds, the worst mismatch with the independent integration, and what was called
undetermined. `--only NAME` runs the problems whose name contains NAME; `--seed` gives other noise, starts and
candidates of the rescue.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import picardfit as pf


@dataclass(frozen=True)
class Case:
    """A model with a truth, and what is measured."""

    name: str
    model: pf.Model
    truth: dict[str, float]
    initial: dict[str, float]
    times: np.ndarray
    noise: float | dict[str, float]  # standard deviations
    bounds: Callable[[str, float], pf.Parameter]
    known: dict[str, float] | None = None  # initial values that are known; others are free

    def problem(self, seed: int) -> tuple[pf.Problem, float]:
        """The problem with noise of this seed, and the loss at the truth."""
        run = pf.simulate(self.model, self.truth, self.initial, self.times)
        rng = np.random.default_rng(seed)
        data = {}
        for name in self.model.observables:
            exact = np.asarray(run.observables[name])
            size = self.noise[name] if isinstance(self.noise, dict) else self.noise
            data[name] = exact + size * rng.standard_normal(len(exact))
        known = self.known or {}
        experiment = pf.Experiment(self.times, data, initial={**known}, name="run")
        parameters = {name: self.bounds(name, value) for name, value in self.truth.items()}
        problem = pf.Problem(self.model, [experiment], parameters)
        residual = np.concatenate([data[n] - np.asarray(run.observables[n]) for n in self.model.observables])
        return problem, float(0.5 * np.sum(residual**2) / len(self.times))


def decades(factor: float) -> Callable[[str, float], pf.Parameter]:
    """Log parameters, this factor to both sides of the truth."""
    return lambda name, value: pf.Parameter(value / factor, value * factor, log=True)


def cases() -> list[Case]:
    found = []
    oscillator = pf.Model("x' = y\ny' = mu*(1 - x^2)*y - w^2*x", observables=["x"])
    for mu, period in ((20.0, 34.9), (200.0, 324.0)):
        found.append(
            Case(
                f"van der pol mu={mu:g}",
                oscillator,
                {"mu": mu, "w": 1.0},
                {"x": 2.0, "y": 0.0},
                np.linspace(0, 3 * period, 120),
                0.05,
                decades(10),
            )
        )
    robertson = pf.Model(
        "a' = -k1*a + k3*b*c\nb' = k1*a - k2*b^2 - k3*b*c\nc' = k2*b^2", observables=["a", "c"]
    )
    found.append(
        Case(
            "robertson",
            robertson,
            {"k1": 0.04, "k2": 3e7, "k3": 1e4},
            {"a": 1.0, "b": 0.0, "c": 0.0},
            np.logspace(-3, 5, 60),
            0.01,
            decades(10),
            known={"a": 1.0, "b": 0.0, "c": 0.0},
        )
    )
    chain = pf.Model("p' = -k1*p\nq' = k1*p - k2*q\nr' = k2*q - k3*r", observables=["p", "r"])
    found.append(
        Case(
            "stiff chain",
            chain,
            {"k1": 1.0, "k2": 1e6, "k3": 0.3},
            {"p": 1.0, "q": 0.0, "r": 0.0},
            np.linspace(0.1, 10, 50),
            0.01,
            decades(10),
            known={"p": 1.0, "q": 0.0, "r": 0.0},
        )
    )
    enzyme = "e = 1e-3 - c; s' = -kf*e*s + kr*c; c' = kf*e*s - (kr + kc)*c; p' = kc*c"
    found.append(
        Case(
            "enzyme, product",
            pf.Model(enzyme, observables=["p"]),
            {"kf": 1e5, "kr": 50.0, "kc": 20.0},
            {"s": 1.0, "c": 0.0, "p": 0.0},
            np.linspace(0, 100, 30),
            0.01,
            decades(300),
            known={"s": 1.0, "c": 0.0, "p": 0.0},
        )
    )
    found.append(
        Case(
            "lotka volterra, prey only",
            pf.Model("x' = a*x - b*x*y\ny' = c*x*y - d*y", observables=["x"]),
            {"a": 1.0, "b": 0.5, "c": 0.3, "d": 0.8},
            {"x": 2.0, "y": 1.0},
            np.linspace(0, 20, 40),
            0.1,
            decades(5),
        )
    )
    found.append(
        Case(
            "goodwin, x and z",
            pf.Model("x' = k1/(1 + z^10) - k2*x\ny' = k3*x - k4*y\nz' = k5*y - k6*z", observables=["x", "z"]),
            {"k1": 1.0, "k2": 0.1, "k3": 1.0, "k4": 0.1, "k5": 1.0, "k6": 0.1},
            {"x": 0.1, "y": 0.2, "z": 2.5},
            np.linspace(0, 80, 60),
            0.01,
            decades(3),
        )
    )
    found.append(
        Case(
            "roessler, x",
            pf.Model("x' = -y - z\ny' = x + a*y\nz' = b + z*(x - c)", observables=["x"]),
            {"a": 0.2, "b": 0.2, "c": 5.7},
            {"x": 1.0, "y": 1.0, "z": 0.5},
            np.linspace(0, 25, 120),
            0.2,
            decades(3),
        )
    )
    found.append(
        Case(
            "hindmarsh rose, x",
            pf.Model(
                "x' = y - a*x^3 + b*x^2 - z + i\ny' = c - d*x^2 - y\nz' = r*(s*(x + 1.6) - z)",
                observables=["x"],
            ),
            {"a": 1.0, "b": 3.0, "c": 1.0, "d": 5.0, "i": 3.0, "r": 0.006, "s": 4.0},
            {"x": -1.0, "y": 0.0, "z": 3.0},
            np.linspace(0, 60, 240),
            0.05,
            decades(2),
        )
    )
    found.append(
        Case(
            "hiv, log10 load",
            pf.Model(
                "T' = lam - d*T - k*T*V\nI' = k*T*V - delta*I\nV' = p*I - c*V",
                observables={"load": "log(V)/log(10)"},
            ),
            {"lam": 1e4, "d": 0.01, "k": 2.4e-8, "delta": 0.7, "p": 2000.0, "c": 3.0},
            {"T": 1e6, "I": 0.0, "V": 1.0},
            np.linspace(1, 60, 24),
            0.1,
            decades(10),
            known={"T": 1e6, "I": 0.0, "V": 1.0},
        )
    )
    found.append(
        Case(
            "seir, cases",
            pf.Model(
                "S' = -beta*S*I/1e5\nE' = beta*S*I/1e5 - sigma*E\nI' = sigma*E - gamma*I",
                observables={"cases": "rho*sigma*E"},
            ),
            {"beta": 0.6, "sigma": 0.25, "gamma": 0.2, "rho": 0.3},
            {"S": 99990.0, "E": 5.0, "I": 5.0},
            np.arange(0.0, 100, 2),
            20.0,
            decades(5),
        )
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1, help="of the noise, the starts and the rescue")
    parser.add_argument("--show", action="store_true", help="how every start ended")
    options = parser.parse_args()
    print("| problem | at the best | best/truth | iterations | s/fit | mismatch | undetermined |")
    print("|---|---|---|---|---|---|---|")
    for case in cases():
        if options.only not in case.name:
            continue
        problem, at_truth = case.problem(options.seed)
        fits, seconds = [], []
        for k in range(options.starts):
            began = time.process_time()
            start = _random_start(problem, options.seed, k)
            fits.append(pf.fit(problem, start=start, seed=1000 * options.seed + k))
            seconds.append(time.process_time() - began)
            if options.show:
                last = fits[-1]
                print(
                    f"start {k}: {last.status.name}, {last.loss / at_truth:.4f}, {seconds[-1]:.1f} s",
                    flush=True,
                )
        done = [f for f in fits if f.status.success]
        best = min((f.loss for f in done), default=np.nan)
        hits = [f for f in done if f.loss <= 1.001 * best]
        lost = sorted({n for f in hits for n in f.certificate.undetermined})
        print(
            f"| {case.name} | {len(hits)} of {len(fits)} | {best / at_truth:.4f} "
            f"| {np.median([f.iterations for f in fits]):.0f} | {np.median(seconds):.2f} "
            f"| {max((f.certificate.mismatch for f in hits), default=np.nan):.1e} | {', '.join(lost) or '-'} |",
            flush=True,
        )


def _random_start(problem: pf.Problem, seed: int, k: int) -> dict[str, float]:
    rng = np.random.default_rng([7, seed, k])
    start = {}
    for name, parameter in problem.parameters.items():
        low, high = np.log(parameter.lower), np.log(parameter.upper)
        start[name] = float(np.exp(rng.uniform(low, high)))
    return start


if __name__ == "__main__":
    main()
