"""Never wrong in silence: random problems, fitted and checked by an independent optimiser.

    python benchmarks/soak.py [--count 5000] [--first 0] [--workers 1] [--show]

Each problem has a random polynomial or rational vector field with 1 to 6 states, random observables (some states
hidden), missing values, sometimes an input with jumps, sometimes several experiments, and noise. Checked are:

- the fit ends, without an exception and without a warning that leaks out;
- its status is true: where it says converged, SciPy's `least_squares` over `solve_ivp`, started at the answer, finds no
  lower loss (by more than 0.1 %), and the loss by that integration is the loss that the fit reports;
- how often the answer is at or below what `least_squares` finds from the truth (the global optimum, mostly);
- memory does not grow.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import picardfit as pf

SLOW = 60.0  # processor seconds of one fit that are called too long
WORSE = 1e-3  # relative difference of losses that counts


@dataclass(frozen=True)
class Report:
    """What became of one problem."""

    seed: int
    verdict: str  # "right", "missed" (a worse optimum, or no success), or what is wrong
    status: str
    seconds: float
    memory: float  # megabytes, the largest so far
    note: str = ""


@dataclass(frozen=True)
class Sample:
    """A random problem, its truth, and the same equations as plain functions for the other optimiser."""

    problem: pf.Problem
    truth: dict[str, float]
    initial: list[dict[str, float]]


def random_sample(seed: int) -> Sample | None:
    """The problem of this seed; None where its true solution explodes or does next to nothing."""
    rng = np.random.default_rng([seed, 2026])
    states = [f"x{i}" for i in range(1, rng.integers(1, 7) + 1)]
    has_input = rng.uniform() < 0.3
    lines, truth = [], {}
    for i, state in enumerate(states):
        rate = f"k{i + 1}"
        truth[rate] = float(np.exp(rng.uniform(-1.5, 0.5)))
        terms = [f"-{rate}*{state}"]
        other = states[rng.integers(len(states))]
        kind = rng.integers(4)
        name = f"c{i + 1}"
        truth[name] = float(np.exp(rng.uniform(-1.5, 0.5)))
        if kind == 0:
            terms.append(f"{name}*{other}/(1 + {other}^2)")
        elif kind == 1:
            terms.append(f"{name}*sin({other})")
        elif kind == 2:
            terms.append(f"{name} - 0.1*{state}^3")
        else:
            terms.append(f"{name}*{other}*exp(-{state}^2)")
        if has_input and i == 0:
            terms.append("u")
        lines.append(f"{state}' = {' + '.join(terms)}")
    shown = [s for s in states if rng.uniform() < 0.6] or [states[0]]
    observables = {s: s for s in shown}
    if rng.uniform() < 0.2:
        observables["total"] = " + ".join(states)
    model = pf.Model("\n".join(lines), observables=observables, inputs=["u"] if has_input else ())
    experiments, initial = [], []
    for e in range(rng.integers(1, 4)):
        start = {s: float(rng.uniform(-2, 2)) for s in states}
        times = np.sort(rng.uniform(0, rng.uniform(3, 15), rng.integers(8, 60)))
        inputs = (
            {"u": {"times": [0.0, 2.0, 5.0], "values": [0.0, 1.0, float(rng.uniform(-1, 1))]}}
            if has_input
            else None
        )
        try:
            run = pf.simulate(model, truth, start, times, inputs=_input(inputs), t0=0.0)
        except pf.InputError:
            return None
        data = {}
        for name in observables:
            exact = np.asarray(run.observables[name])
            value = exact + 0.05 * max(np.ptp(exact), 0.1) * rng.standard_normal(len(times))
            value[rng.uniform(size=len(times)) < 0.1] = np.nan
            data[name] = value
        if not all(np.isfinite(v).any() for v in data.values()):
            return None
        experiments.append(pf.Experiment(times, data, inputs=_input(inputs), name=f"run{e}", t0=0.0))
        initial.append(start)
    bounds = {name: (value / 5, value * 5) for name, value in truth.items()}
    box = dict.fromkeys(states, (-5.0, 5.0))
    return Sample(pf.Problem(model, experiments, bounds, initial=box), truth, initial)


def _input(inputs: dict | None) -> dict | None:
    if inputs is None:
        return None
    table = inputs["u"]
    return {"u": pf.Table(table["times"], table["values"])}


def check(seed: int) -> Report:
    sample = random_sample(seed)
    if sample is None:
        return Report(seed, "skipped", "", 0.0, _memory())
    began = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as leaked:
            warnings.simplefilter("always")
            fit = pf.fit(sample.problem)
    except Exception as error:  # whatever it is, it is a fault
        return Report(seed, "exception", "", time.process_time() - began, _memory(), repr(error))
    seconds = time.process_time() - began

    def ended(verdict: str, note: str = "") -> Report:
        return Report(seed, verdict, fit.status.name, seconds, _memory(), note)

    if leaked:
        return ended("warning leaked", str(leaked[0].message))
    if seconds > SLOW:
        return ended("too slow")
    reference = _Reference(sample.problem)
    best = reference.improve(reference.point(sample.truth, sample.initial))
    if not fit.success:
        return ended("missed", f"loss {fit.loss:.4g}, reference {best:.4g}")
    own = reference.point(fit.parameters, [fit.initial_states[n] for n in sample.problem.names])
    again = reference.loss(own)
    if not abs(again - fit.loss) <= 1e-4 * fit.loss + 1e-12:
        return ended("wrong loss", f"says {fit.loss:.8g}, is {again:.8g}")
    lower = reference.improve(own)
    if lower < (1 - WORSE) * fit.loss:
        return ended("not an optimum", f"says {fit.loss:.8g}, from there {lower:.8g}")
    if best < (1 - WORSE) * fit.loss:
        return ended("missed", f"loss {fit.loss:.6g}, reference {best:.6g}")
    return ended("right")


class _Reference:
    """The same loss by SciPy's integrator, and its minimum by SciPy's optimiser."""

    def __init__(self, problem: pf.Problem) -> None:
        self.problem, self.model = problem, problem.model
        self.names = list(problem.parameters)
        lower = [problem.parameters[n].lower for n in self.names]
        upper = [problem.parameters[n].upper for n in self.names]
        count = len(problem.experiments) * len(self.model.states)
        self.bounds = (np.array(lower + [-5.0] * count), np.array(upper + [5.0] * count))

    def point(self, parameters: dict, initial: list[dict]) -> np.ndarray:
        states = [one[s] for one in initial for s in self.model.states]
        return np.clip([*(parameters[n] for n in self.names), *states], *self.bounds)

    def residuals(self, z: np.ndarray) -> np.ndarray:
        model, parts = self.model, []
        params = np.array([dict(zip(self.names, z, strict=False))[n] for n in model.parameters])
        starts = z[len(self.names) :].reshape(-1, len(model.states))
        for one, start in zip(self.problem.experiments, starts, strict=True):
            states = self._run(one, params, start)
            if states is None:
                return np.full(self.problem.measurements, 1e3)
            values = model.output.value(one.times, states, params, one.inputs_at(model.inputs, one.times))
            order = [model.observables.index(n) for n in one.observables]
            gap = values[:, order] - one.values
            parts.append(gap[np.isfinite(one.values)])
        return np.concatenate(parts)

    def _run(self, one: pf.Experiment, params: np.ndarray, start: np.ndarray) -> np.ndarray | None:
        """Piece by piece between the jumps of the input."""
        model = self.model
        edges = np.unique(
            [one.t0, *(t for t in (2.0, 5.0) if model.inputs and t < one.times[-1]), one.times[-1]]
        )
        states, now = np.empty((len(one.times), len(start))), start
        states[one.times <= one.t0] = start
        for a, b in pairwise(edges):
            inputs = one.inputs_at(model.inputs, np.array([0.5 * (a + b)]))[0]
            wanted = (one.times > a) & (one.times <= b)
            grid = np.unique(np.append(one.times[wanted], b))
            found = solve_ivp(
                lambda t, x, u=inputs: model.rhs.value(t, x, params, u),
                (a, b),
                now,
                "LSODA",
                grid,
                rtol=1e-9,
                atol=1e-11,
            )
            if not found.success or not np.isfinite(found.y).all():
                return None
            states[wanted], now = found.y.T[np.searchsorted(grid, one.times[wanted])], found.y[:, -1]
        return states

    def loss(self, z: np.ndarray) -> float:
        return 0.5 * float(np.sum(self.residuals(z) ** 2)) / len(self.problem.samples.times)

    def improve(self, z: np.ndarray) -> float:
        answer = least_squares(self.residuals, z, bounds=self.bounds, x_scale="jac", max_nfev=15)
        return answer.cost / len(self.problem.samples.times)


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="every problem that was not right")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    reports = []
    with ProcessPoolExecutor(options.workers) as pool:
        for report in pool.map(check, seeds, chunksize=4):
            reports.append(report)
            if report.verdict not in ("right", "skipped", "missed") or (
                options.show and report.verdict == "missed"
            ):
                print(f"seed {report.seed}: {report.verdict} ({report.status}) {report.note}", flush=True)
            if len(reports) % 100 == 0:
                print(len(reports), dict(Counter(r.verdict for r in reports)), flush=True)
    ran = [r for r in reports if r.verdict != "skipped"]
    print(f"{len(ran)} problems: {dict(Counter(r.verdict for r in ran))}")
    print(f"status: {dict(Counter(r.status for r in ran))}")
    seconds = [r.seconds for r in ran]
    print(f"seconds of a fit: median {np.median(seconds):.2f}, largest {max(seconds):.1f}")
    half = len(ran) // 2
    print(
        f"memory: {max(r.memory for r in ran[:half]):.0f} MB after half, {max(r.memory for r in ran):.0f} MB at the end"
    )


if __name__ == "__main__":
    main()
