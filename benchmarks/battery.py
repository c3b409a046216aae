"""The paper's five problems from random starts, and the cost of a fit: prints the tables.

    python benchmarks/battery.py [--starts 20] [--datasets 2] [--workers 2] [--only NAME] [--wide]
        [--skip-cost | --only-cost]

For every problem, noise level and reading of it ("std" or "variance"): how many random starts in the bounds reach the
best loss of all starts within 0.1 %, the largest jump and the largest mismatch with the independent integration among
those starts, the best loss against the loss at the true parameters. Then ratios of times within this run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import picardfit as pf
from picardfit.evidence.certificate import certify, path_value
from picardfit.search.starts import make_start
from picardfit.solvers.loop import run

NOISE = (0.01, 0.05, 0.1, 0.2, 0.4)


@dataclass(frozen=True)
class Case:
    """One row: how the data are generated."""

    problem: str
    label: str
    eps: float
    reading: str
    settings: tuple[tuple[str, object], ...] = ()

    def generate(self, seed: int) -> pf.Problem:
        module = getattr(pf.examples, self.problem)
        return module.generate(seed=seed, eps=self.eps, eps_is=self.reading, **dict(self.settings))


def cases(wide: bool) -> list[Case]:
    """The paper's settings; `wide` takes the bounds that the paper's tables of errors imply."""
    ponds_bounds = (("bounds", pf.examples.rosenzweig_macarthur.IMPLIED_BOUNDS),) if wide else ()
    tumor_bounds = (("bounds", pf.examples.tumor.IMPLIED_BOUNDS),) if wide else ()
    found = []
    for reading in ("std", "variance"):
        for eps in NOISE:
            found += [Case("van_der_pol", f"{n} samples", eps, reading, (("samples", n),)) for n in (101, 51)]
            found.append(Case("lorenz", "", eps, reading))
        found += [Case("fitzhugh_nagumo", "", eps, reading) for eps in (0.05, 0.2)]
        for ponds in (1, 2, 3, 4):
            found.append(
                Case(
                    "rosenzweig_macarthur", f"{ponds} ponds", 0.05, reading, (("ponds", ponds), *ponds_bounds)
                )
            )
        for last in (1, 2, 3, 4, 5):
            inputs = tuple(range(1, last + 1))
            found.append(Case("tumor", f"u1:{last}", 0.01, reading, (("inputs", inputs), *tumor_bounds)))
    return found


@dataclass(frozen=True)
class Row:
    """What one data set showed."""

    hits: int
    starts: int
    jump: float
    mismatch: float
    over_truth: float  # best loss / loss at the truth
    iterations: float
    seconds: float
    misses: tuple[str, ...]


def one_dataset(case: Case, seed: int, starts: int) -> Row:
    """All starts on one data set."""
    problem = case.generate(seed)
    method = pf.LiftedGaussNewton()
    outcomes = []
    for k in range(starts):
        begin = make_start(problem, None, np.random.default_rng([seed, k]))
        outcomes.append(run(method, method.init(problem, begin)))
    values = [np.inf if o.solution is None else path_value(o.solution) for o in outcomes]
    done = [v for v, o in zip(values, outcomes, strict=True) if o.status.success]
    best = min(done) if done else np.nan
    good = [o.status.success and v <= best * 1.001 for v, o in zip(values, outcomes, strict=True)]
    checks = [certify(o.solution) for o, ok in zip(outcomes, good, strict=True) if ok]
    truth = problem.loss(problem.truth["parameters"], problem.truth["initial"])
    misses = tuple(
        f"start {k}: {o.status.name.lower()} at {v / best:.4g} of the best"
        for k, (o, v, ok) in enumerate(zip(outcomes, values, good, strict=True))
        if not ok
    )
    return Row(
        sum(good),
        starts,
        max((c.largest_jump for c in checks), default=np.nan),
        max((c.mismatch for c in checks), default=np.nan),
        problem.mean_loss(best) / truth,
        float(np.median([o.iterations for o in outcomes])),
        float(np.median([o.seconds for o in outcomes])),
        misses,
    )


def table(chosen: list[Case], datasets: int, starts: int, workers: int) -> None:
    """Print one line a case as it is done."""
    print(
        "| problem | noise | data sets | at the best | largest jump | mismatch | best/truth | iterations | s/fit |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    hits = total = 0
    worst = 0.0
    with ProcessPoolExecutor(workers) as pool:
        futures = [(c, [pool.submit(one_dataset, c, s, starts) for s in range(datasets)]) for c in chosen]
        for case, parts in futures:
            rows = [p.result() for p in parts]
            hit, count = sum(r.hits for r in rows), sum(r.starts for r in rows)
            hits, total = hits + hit, total + count
            over = max(r.over_truth for r in rows)
            worst = max(worst, over)
            print(
                f"| {case.problem} {case.label} | {case.eps} {case.reading} | {datasets} | {hit} of {count} "
                f"| {max(r.jump for r in rows):.1e} | {max(r.mismatch for r in rows):.1e} | {over:.4f} "
                f"| {np.median([r.iterations for r in rows]):.0f} | {np.median([r.seconds for r in rows]):.3f} |",
                flush=True,
            )
            for row in rows:
                for miss in row.misses:
                    print(f"    {miss}", flush=True)
    share = 100 * hits / total
    print(f"\n{hits} of {total} starts ({share:.2f} %) reached the best loss; worst best/truth {worst:.4f}\n")


def cost(count: int = 7, rounds: int = 3) -> None:
    """Ratios of processor times within this run: the shortest of a few rounds, in which the rivals take turns."""
    pf.fit(pf.examples.van_der_pol.generate(seed=count, eps=0.1))  # imports are not part of a fit
    for low, high in ((0.5, 1.5), (0.2, 4.0)):
        ratios = []
        print(f"Van der Pol, 101 samples, bounds [{low}, {high}], random starts in them:")
        for k in range(count):
            problem = pf.examples.van_der_pol.generate(seed=k, eps=0.1, bounds=(low, high))
            theta = low * (high / low) ** np.random.default_rng([k, 1]).uniform(size=2)
            one = problem.experiments[0]
            initial = dict(zip(one.observables, one.values[0], strict=True))
            start = {"theta1": theta[0], "theta2": theta[1]}
            ours = theirs = np.inf
            for _ in range(rounds):
                began = time.process_time()
                fitted = pf.fit(problem, start=start, start_initial=initial)
                ours = min(ours, time.process_time() - began)
                seconds, their_loss = _shooting(one, [*theta, *initial.values()], low, high)
                theirs = min(theirs, seconds)
            ratios.append(theirs / ours)
            print(
                f"    start {theta.round(2)}: pf.fit {ours:.3f} s, loss {fitted.loss:.6f}; "
                f"least_squares over solve_ivp {theirs:.2f} s, loss {their_loss:.6f}: {theirs / ours:.0f} times"
            )
        print(f"    median ratio {np.median(ratios):.0f}")
    single = pf.examples.lorenz.generate(seed=1, eps=0.1)
    many = pf.examples.lorenz.generate(seed=1, eps=0.1, experiments=100)
    one = hundred = np.inf
    for _ in range(rounds):
        one = min(one, *(_timed(lambda: pf.fit(single)) for _ in range(3)))
        hundred = min(hundred, _timed(lambda: pf.fit(many)))
    print(f"Lorenz: one experiment {one:.3f} s, 100 experiments {hundred:.2f} s: {hundred / one:.0f} times.")
    code = (
        "import time; t = time.perf_counter(); import picardfit as pf; pf.Model, pf.fit; "
        "print(time.perf_counter() - t)"
    )
    cold = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))
    print(f"import picardfit with pf.Model and pf.fit: {cold:.2f} s.")


def _timed(task) -> float:
    began = time.process_time()
    task()
    return time.process_time() - began


def _shooting(one: pf.Experiment, start: list[float], low: float, high: float) -> tuple[float, float]:
    """What a user would write with SciPy: the same unknowns, the same start, LSODA at rtol 1e-8, finite differences."""

    def right(t, x, a, b):
        return [a * x[1], -a * x[0] + b * (1 - x[0] ** 2) * x[1]]

    def residual(z):
        found = solve_ivp(right, (0, 10), z[2:], "LSODA", one.times, rtol=1e-8, atol=1e-10, args=tuple(z[:2]))
        return np.full(one.values.size, 1e3) if not found.success else (found.y.T - one.values).ravel()

    bounds = ([low, low, -np.inf, -np.inf], [high, high, np.inf, np.inf])
    began = time.process_time()
    answer = least_squares(residual, start, bounds=bounds)
    return time.process_time() - began, answer.cost / len(one.times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--datasets", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--wide", action="store_true", help="the tumour and the ponds with the wide bounds")
    parser.add_argument("--skip-cost", action="store_true")
    parser.add_argument("--only-cost", action="store_true")
    options = parser.parse_args()
    if options.only_cost:
        return cost()
    chosen = [c for c in cases(options.wide) if options.only in c.problem]
    table(chosen, options.datasets, options.starts, options.workers)
    if not options.skip_cost:
        cost()


if __name__ == "__main__":
    main()
