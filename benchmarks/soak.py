"""Never wrong in silence: random problems, fitted and checked by an independent optimiser.

    python benchmarks/soak.py [--count 5000] [--first 0] [--workers 1] [--out soak.jsonl] [--minutes 60] [--show]

Each problem has a random polynomial or rational vector field with 1 to 6 states, random observables (some states
hidden), missing values, sometimes an input with jumps, sometimes several experiments, and noise. Checked are:

- the fit ends, without an exception and without a warning that leaks out;
- its status is true: where it says converged, SciPy's `least_squares` over `solve_ivp`, started at the answer, finds no
  lower loss (by more than 0.1 %), and the loss by that integration is the loss that the fit reports;
- its certificate says what the answer says: the same loss, unknowns inside their bounds, those on a bound named;
- how often the answer is at or below what `least_squares` finds from the truth (the global optimum, mostly);
- memory does not grow.

The other optimiser shares no code with the fit: it evaluates the text of the equations by Python, integrates with
DOP853, and takes derivatives by integrating all experiments and displaced copies at once. With `--out` each result is
a line of that file, and seeds that are in it already are not run again: a run can be broken off and continued.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import picardfit as pf

SLOW = 60.0  # processor seconds of one fit that are called too long
WORSE = 1e-3  # relative difference of losses that counts
JUMPS = (2.0, 5.0)  # of the input
BOX = 5.0  # initial states are between -BOX and BOX
FAULTS = ("exception", "warning leaked", "too slow", "wrong loss", "not an optimum", "inconsistent")


@dataclass(frozen=True)
class Report:
    """What became of one problem."""

    seed: int
    verdict: str  # "right", "local optimum", "no success", "no success, at the best", or one of FAULTS
    status: str
    seconds: float
    memory: float  # megabytes, the largest so far
    loss: float = np.nan
    reference: float = np.nan  # what the other optimiser finds from the truth
    note: str = ""


@dataclass(frozen=True)
class Sample:
    """A random problem, its truth, and the same equations as plain functions for the other optimiser."""

    problem: pf.Problem
    truth: dict[str, float]
    initial: list[dict[str, float]]
    equations: dict[str, str]  # state -> right-hand side
    observables: dict[str, str]
    levels: list[tuple[float, ...]]  # of the input, between its jumps, for each experiment


def random_sample(seed: int) -> Sample | None:
    """The problem of this seed; None where its true solution explodes or does next to nothing."""
    rng = np.random.default_rng([seed, 2026])
    states = [f"x{i}" for i in range(1, rng.integers(1, 7) + 1)]
    has_input = rng.uniform() < 0.3
    equations, truth = {}, {}
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
        equations[state] = " + ".join(terms)
    shown = [s for s in states if rng.uniform() < 0.6] or [states[0]]
    observables = {s: s for s in shown}
    if rng.uniform() < 0.2:
        observables["total"] = " + ".join(states)
    lines = "\n".join(f"{state}' = {formula}" for state, formula in equations.items())
    model = pf.Model(lines, observables=observables, inputs=["u"] if has_input else ())
    experiments, initial, levels = [], [], []
    for e in range(rng.integers(1, 4)):
        start = {s: float(rng.uniform(-2, 2)) for s in states}
        times = np.sort(rng.uniform(0, rng.uniform(3, 15), rng.integers(8, 60)))
        levels.append((0.0, 1.0, float(rng.uniform(-1, 1))) if has_input else (0.0, 0.0, 0.0))
        inputs = {"u": pf.Table([0.0, *JUMPS], list(levels[-1]))} if has_input else None
        try:
            run = pf.simulate(model, truth, start, times, inputs=inputs, t0=0.0)
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
        experiments.append(pf.Experiment(times, data, inputs=inputs, name=f"run{e}", t0=0.0))
        initial.append(start)
    bounds = {name: (value / 5, value * 5) for name, value in truth.items()}
    box = dict.fromkeys(states, (-BOX, BOX))
    problem = pf.Problem(model, experiments, bounds, initial=box)
    return Sample(problem, truth, initial, equations, observables, levels)


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
        return Report(seed, "exception", "", time.process_time() - began, _memory(), note=repr(error))
    seconds = time.process_time() - began
    reference = Reference(sample)
    best = reference.improve(reference.point(sample.truth, sample.initial))

    def ended(verdict: str, note: str = "") -> Report:
        return Report(seed, verdict, fit.status.name, seconds, _memory(), fit.loss, best, note)

    if leaked:
        return ended("warning leaked", str(leaked[0].message))
    if seconds > SLOW:
        return ended("too slow")
    if wrong := _inconsistency(fit, sample.problem):
        return ended("inconsistent", wrong)
    at_the_best = fit.loss <= (1 + WORSE) * best
    if not fit.success:
        return ended("no success, at the best" if at_the_best else "no success")
    own = reference.point(fit.parameters, [fit.initial_states[n] for n in sample.problem.names])
    again = reference.loss(own)
    if not abs(again - fit.loss) <= 1e-4 * fit.loss + 1e-12:
        return ended("wrong loss", f"is {again:.8g}")
    lower = reference.improve(own)
    if lower < (1 - WORSE) * fit.loss:
        return ended("not an optimum", f"from there {lower:.8g}")
    return ended("right" if at_the_best else "local optimum")


def _inconsistency(fit: pf.Fit, problem: pf.Problem) -> str:
    """What the answer and its certificate do not agree about; empty where they do."""
    proof = fit.certificate
    outside = [n for n, p in problem.parameters.items() if not p.lower <= fit.parameters[n] <= p.upper]
    starts = [x for one in fit.initial_states.values() for x in one.values()]
    if outside or not all(abs(x) <= BOX for x in starts):
        return f"outside the bounds: {outside or 'an initial state'}"
    if not fit.success:
        return ""
    if not (proof.agrees and abs(proof.loss - fit.loss) <= 1e-9 * fit.loss):
        return f"the certificate has a loss of {proof.loss:.8g} and a mismatch of {proof.mismatch:.1e}"
    on_bound = {n for n, p in problem.parameters.items() if fit.parameters[n] in (p.lower, p.upper)}
    if not on_bound <= set(proof.at_bound):
        return f"on a bound: {sorted(on_bound)}, named: {proof.at_bound}"
    if bool(proof.at_bound) != (fit.status is pf.Status.CONVERGED_AT_BOUND):
        return f"named at a bound: {proof.at_bound}"
    return ""


class Reference:
    """The same loss by SciPy's integrator over the text of the equations, and its minimum by SciPy's optimiser."""

    def __init__(self, sample: Sample) -> None:
        self.experiments, self.levels = sample.problem.experiments, sample.levels
        self.times = np.unique(np.concatenate([one.times for one in self.experiments]))
        self.last: tuple[np.ndarray, np.ndarray] | None = None  # point and table
        self.samples = sum(len(one.times) for one in self.experiments)
        self.measured = sum(np.isfinite(one.values).sum() for one in self.experiments)
        self.names, self.states = list(sample.truth), list(sample.equations)
        self.slopes = _compiled(sample.equations.values())
        self.outputs = _compiled(sample.observables.values())
        self.order = list(sample.observables)
        parameters = [sample.problem.parameters[n] for n in self.names]
        box = [BOX] * (len(self.experiments) * len(self.states))
        lower = [p.lower for p in parameters] + [-b for b in box]
        self.bounds = (np.array(lower), np.array([p.upper for p in parameters] + box))

    def point(self, parameters: dict, initial: list[dict]) -> np.ndarray:
        states = [one[s] for one in initial for s in self.states]
        return np.clip([*(parameters[n] for n in self.names), *states], *self.bounds)

    def table(self, z: np.ndarray) -> np.ndarray:
        """(measured, 1 + unknowns): residuals at z and at copies displaced into the box, all in one integration."""
        if self.last is None or not np.array_equal(self.last[0], z):
            self.last = z.copy(), self._table(np.column_stack([z, z[:, None] + np.diag(self._steps(z))]))
        return self.last[1]

    def residuals(self, z: np.ndarray) -> np.ndarray:
        return self.table(z)[:, 0]

    def jacobian(self, z: np.ndarray) -> np.ndarray:
        table = self.table(z)
        return (table[:, 1:] - table[:, :1]) / self._steps(z)

    def _steps(self, z: np.ndarray) -> np.ndarray:
        step = 1e-6 * (1 + np.abs(z))
        return np.where(z + step > self.bounds[1], -step, step)

    def _table(self, points: np.ndarray) -> np.ndarray:
        """(measured, points) of the columns."""
        names = dict(zip(self.names, points, strict=False))
        starts = points[len(self.names) :].reshape(len(self.experiments), len(self.states), -1)
        states = self._run(names, starts.transpose(1, 0, 2))
        if states is None:
            return np.full((self.measured, points.shape[1]), 1e3)
        parts = []
        for e, one in enumerate(self.experiments):
            mine = states[:, np.searchsorted(self.times, one.times), e]
            known = names | dict(zip(self.states, mine, strict=True))
            for name, curve in zip(self.order, eval(self.outputs, FUNCTIONS, known), strict=True):
                values = one.values[:, one.observables.index(name)]
                parts.append((curve - values[:, None])[np.isfinite(values)])
        return np.concatenate(parts)

    def _run(self, names: dict, start: np.ndarray) -> np.ndarray | None:
        """(states, times, experiments, points), piece by piece between the jumps of the input; None if it explodes."""
        last, now = self.times[-1], start
        states = np.empty((len(start), len(self.times), *start.shape[1:]))
        states[:, self.times <= 0] = start[:, None]
        for (a, b), level in zip(pairwise((0.0, *JUMPS, np.inf)), np.transpose(self.levels), strict=True):
            if a >= last:
                break
            wanted = (self.times > a) & (self.times <= b)
            grid = np.unique(np.append(self.times[wanted], min(b, last)))
            known = names | {"u": level[:, None]}

            def slope(_, x, known=known):
                known.update(zip(self.states, x.reshape(start.shape), strict=True))
                rates = np.empty(start.shape)
                for k, rate in enumerate(eval(self.slopes, FUNCTIONS, known)):
                    rates[k] = rate
                return rates.ravel()

            found = solve_ivp(slope, (a, min(b, last)), now.ravel(), "DOP853", grid, rtol=1e-8, atol=1e-10)
            if not found.success or not np.isfinite(found.y).all():
                return None
            table = found.y.T.reshape(-1, *start.shape).swapaxes(0, 1)
            states[:, wanted], now = table[:, np.searchsorted(grid, self.times[wanted])], table[:, -1]
        return states

    def loss(self, z: np.ndarray) -> float:
        return 0.5 * float(np.sum(self.residuals(z) ** 2)) / self.samples

    def improve(self, z: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            answer = least_squares(
                self.residuals,
                z,
                self.jacobian,
                self.bounds,
                x_scale="jac",
                ftol=1e-6,
                xtol=1e-6,
                max_nfev=30,
            )
        return answer.cost / self.samples


FUNCTIONS = {"sin": np.sin, "exp": np.exp, "__builtins__": {}}


def _compiled(formulas: Iterable[str]) -> CodeType:
    """The formulas as one tuple."""
    text = "".join(f"{one}, " for one in formulas).replace("^", "**")
    return compile(f"({text})", "<formulas>", "eval")


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _results(seeds: list[int], workers: int) -> Iterator[Report]:
    if workers == 1:
        yield from map(check, seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(check, seeds, chunksize=4)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, help="file of results, one a line; what is in it is not run again"
    )
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after as long")
    parser.add_argument("--show", action="store_true", help="every problem that was not right")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    lines = options.out.read_text().splitlines() if options.out and options.out.exists() else []
    reports = [r for r in (Report(**json.loads(line)) for line in lines) if r.seed in seeds]
    done = {r.seed for r in reports}
    for report in reports:
        _show(report, options.show)
    until = time.monotonic() + 60 * options.minutes
    for report in _results([s for s in seeds if s not in done], options.workers):
        reports.append(report)
        _show(report, options.show)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(asdict(report)) + "\n")
        if len(reports) % 100 == 0:
            print(len(reports), dict(Counter(r.verdict for r in reports)), flush=True)
        if time.monotonic() > until:
            break
    _summary([r for r in reports if r.verdict != "skipped"])


def _show(report: Report, everything: bool) -> None:
    if report.verdict in FAULTS or (everything and report.verdict not in ("right", "skipped")):
        print(
            f"seed {report.seed}: {report.verdict} ({report.status}) loss {report.loss:.6g}, "
            f"reference {report.reference:.6g} {report.note}",
            flush=True,
        )


def _summary(ran: list[Report]) -> None:
    if not ran:
        print("no problem was run")
        return
    print(f"{len(ran)} problems")
    for (verdict, status), count in Counter((r.verdict, r.status) for r in ran).most_common():
        print(f"{count:6d}  {verdict} ({status})")
    below = sum(r.loss < (1 - WORSE) * r.reference for r in ran)
    print(f"below what the other optimiser finds from the truth: {below}")
    seconds = [r.seconds for r in ran]
    print(f"seconds of a fit: median {np.median(seconds):.2f}, largest {max(seconds):.1f}")
    half = max(len(ran) // 2, 1)
    print(
        f"memory: {max(r.memory for r in ran[:half]):.0f} MB after half, {max(r.memory for r in ran):.0f} MB at the end"
    )


if __name__ == "__main__":
    main()
