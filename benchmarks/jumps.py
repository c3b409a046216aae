"""Equations that jump as a state changes: friction, thresholds, switches.

    python benchmarks/jumps.py [--only NAME] [--starts 4]

Data come from the equations with narrow smooth switches in place of the jumps, because integrators find no solution
where a state stays on a jump (a body that sticks). Fits begin at random points between bounds of one decade to either
side of the truth. Solved: the fit converged, and its loss is at most 1 % above the smallest of all starts of the
problem, one search from the truth included. "As written" has the loss of the equations with their jumps, integrated
by SciPy, over that of the fit; it is infinite where there is no solution.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

import picardfit as pf

SOLVED = 1.01  # loss over the smallest


@dataclass(frozen=True)
class Case:
    """A problem whose equations hold SWITCH(d), 1 where d > 0 and -1 elsewhere."""

    name: str
    equations: str
    truth: Mapping[str, float]
    initial: tuple[Mapping[str, float], ...]
    last: float
    observables: tuple[str, ...]
    samples: int = 80
    noise: float = 0.02  # part of the range of an observable
    fixed: Mapping[str, float] = field(default_factory=dict)
    width: float = 1e-3  # of the switches that make the data

    def model(self, width: float | None) -> pf.Model:
        """The equations with smooth switches of this width; None: with jumps."""
        text = self.equations
        while "SWITCH(" in text:
            before, rest = text.split("SWITCH(", 1)
            inside, after = rest.split(")", 1)
            text = before + (f"sign({inside})" if width is None else f"tanh(({inside})/{width})") + after
        return pf.Model(text, observables={name: name for name in self.observables})

    def problem(self) -> pf.Problem:
        rng, times = np.random.default_rng(5), np.linspace(0, self.last, self.samples)
        exact, runs = self.model(self.width), []
        for initial in self.initial:
            curves = pf.simulate(exact, {**self.truth, **self.fixed}, initial, times).observables
            data = {n: v + self.noise * np.ptp(v) * rng.standard_normal(len(v)) for n, v in curves.items()}
            runs.append(pf.Experiment(times, data, f"run {len(runs) + 1}"))
        bounds: dict[str, object] = {n: pf.Parameter(v / 10, v * 10, log=True) for n, v in self.truth.items()}
        return pf.Problem(self.model(None), runs, {**bounds, **self.fixed})


CASES = (
    Case(
        "pendulum with dry friction",
        "q' = w\nw' = -k*sin(q) - b*w - c*SWITCH(w)",
        {"k": 6.0, "b": 0.15, "c": 0.3},
        ({"q": 1.5, "w": 0.0}, {"q": 0.4, "w": 2.0}),
        8.0,
        ("q",),
    ),
    Case(
        "motor that sticks",
        "u = a*sin(1.1*t)\nw' = (u - b*w - c*SWITCH(w))/j",
        {"a": 1.5, "b": 0.4, "c": 0.5, "j": 0.25},
        ({"w": 0.0},),
        14.0,
        ("w",),
        fixed={"a": 1.5},
    ),
    Case(
        "mass on a belt",
        "x' = v\nv' = -k*x - c*v - F*SWITCH(v - 0.7)",
        {"k": 1.5, "c": 0.08, "F": 0.9},
        ({"x": 0.1, "v": 0.2},),
        25.0,
        ("x",),
        samples=120,
    ),
    Case(
        "harvest above a threshold",
        "x' = r*x*(1 - x/K) - q*x*(1 + SWITCH(x - T))/2",
        {"r": 0.9, "K": 12.0, "q": 0.35, "T": 5.0},
        ({"x": 0.2}, {"x": 11.0}),
        12.0,
        ("x",),
    ),
    Case(
        "heater with a relay",
        "room' = -a*(room - 5) + h*wall\nwall' = -b*wall + g*(1 - SWITCH(room - 20))/2",
        {"a": 0.12, "b": 0.8, "h": 1.0, "g": 2.5},
        ({"room": 8.0, "wall": 0.0},),
        30.0,
        ("room",),
        fixed={"h": 1.0},
    ),
    Case(
        "two genes",
        "x' = s*(1 - SWITCH(y - 0.6))/2 - d*x\ny' = p*(1 + SWITCH(x - 0.5))/2 - e*y",
        {"s": 1.4, "p": 1.1, "d": 1.0, "e": 0.8},
        ({"x": 0.1, "y": 0.1}, {"x": 1.0, "y": 0.9}),
        9.0,
        ("x", "y"),
        width=0.02,
    ),
    Case(
        "prey that switches its refuge",
        "p' = r*p - a*p*z*(1 + SWITCH(p - T))/2\nz' = k*a*p*z*(1 + SWITCH(p - T))/2 - m*z",
        {"r": 0.6, "a": 0.9, "k": 0.5, "m": 0.35, "T": 0.5},
        ({"p": 1.2, "z": 0.4},),
        25.0,
        ("p", "z"),
    ),
    Case(
        "valve with two flows",
        "h' = q - c*sqrt(h) - e*(1 + SWITCH(h - H))/2",
        {"q": 1.0, "c": 0.35, "e": 0.4, "H": 2.0},
        ({"h": 0.2}, {"h": 5.0}),
        15.0,
        ("h",),
    ),
    Case(
        "neuron with two slopes",
        "v' = -v + a*(1 + SWITCH(v - 0.3))/2 - w + i\nw' = e*(v - g*w)",
        {"a": 1.0, "i": 0.15, "e": 0.15, "g": 0.5},
        ({"v": 0.0, "w": 0.0},),
        40.0,
        ("v",),
        samples=120,
    ),
    Case(
        "drag that changes its law",
        "v' = g - a*v*(1 - SWITCH(v - V))/2 - b*v^2*(1 + SWITCH(v - V))/2",
        {"g": 9.8, "a": 0.6, "b": 0.08, "V": 6.0},
        ({"v": 0.0}, {"v": 20.0}),
        3.0,
        ("v",),
        fixed={"g": 9.8},
    ),
)


@dataclass(frozen=True)
class Attempt:
    """How one fit ended."""

    status: str
    success: bool
    loss: float
    as_written: float
    seconds: float


def attempt(case: Case, problem: pf.Problem, start: Mapping[str, float], **options: object) -> Attempt:
    began = time.process_time()
    fit = pf.fit(problem, start=dict(start), progress=False, **options)
    seconds = time.process_time() - began
    sharp = problem.loss(fit.parameters, fit.initial_states) if fit.success else np.inf
    return Attempt(fit.status.name, fit.success, fit.loss, sharp / fit.loss, seconds)


def row(case: Case, starts: int) -> tuple[int, int]:
    """Print the line of a problem: solved, and starts."""
    problem, rng = case.problem(), np.random.default_rng(17)
    free = [name for name in case.truth if name not in case.fixed]
    at_truth = attempt(case, problem, {n: case.truth[n] for n in free}, policy=pf.SearchPolicy(most=1))
    found = [
        attempt(case, problem, {n: case.truth[n] * 10 ** rng.uniform(-1, 1) for n in free})
        for _ in range(starts)
    ]
    least = min([one.loss for one in [*found, at_truth] if one.success], default=np.inf)
    solved = [one for one in found if one.success and one.loss <= SOLVED * least]
    others = ", ".join(f"{one.status} {one.loss / least:.3g}" for one in found if one not in solved) or "-"
    written = max((one.as_written for one in solved), default=np.nan)
    seconds = [one.seconds for one in found]
    print(
        f"| {case.name} | {len(solved)} of {starts} | {np.median(seconds):.2f} | {max(seconds):.2f} "
        f"| {written:.6f} | {others} |",
        flush=True,
    )
    return len(solved), starts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--starts", type=int, default=4)
    options = parser.parse_args()
    print("| problem | solved | s, median | s, largest | as written | others |")
    print("|---|---|---|---|---|---|")
    rows = [row(case, options.starts) for case in CASES if options.only in case.name]
    print(f"{sum(a for a, _ in rows)} of {sum(b for _, b in rows)}")


if __name__ == "__main__":
    main()
