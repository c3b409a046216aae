"""How good the estimates and their intervals are, on simulated data: prints the tables.

    python benchmarks/efficiency.py [--datasets 400] [--coverage 400] [--first 0] [--workers 2] [--only NAME]
        [--level 0.0004] [--keep FILE] [--quick] [--skip-efficiency] [--skip-measures] [--skip-coverage] [--skip-cost]

Efficiency: the mean absolute error over many data sets divided by its Cramer-Rao value, sqrt(2/pi) times the smallest
standard deviation an unbiased estimate can have under the paper's noise y = (1 + n) g + m, one n per instant. `paired`
divides by the mean absolute error of the linear efficient estimate on the same data sets instead, which takes most of
the luck of the draw out. Bounds are too wide to act; failed fits are counted, not hidden.
Measures: censored values, counts and increments (measures.py): the standard deviation of estimates over its Cramer-Rao
value, and the coverage of Fisher's 95 % intervals.
Coverage: how often 95 % intervals hold the truth, Fisher's and profile's, under additive noise (least squares is then
the likelihood). On the last two problems it is skewed, of which Fisher's know nothing.
Cost: processor time of a profile, in fits to new data that start from the solution.
Seeds count from `--first`. `--keep FILE` appends each data set's result to a file of JSON lines; the same command with
the same file continues where the last one ended.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import picardfit as pf
from measures import cases as measured_cases
from picardfit.collocation.sensitivity import sensitivity
from picardfit.problem.named_values import unknowns_from
from picardfit.simulation.simulate import noisy
from picardfit.simulation.trajectories import Run
from picardfit.solvers.refit import expansion_at, refit
from seeds import Seeds

WIDE = (0.02, 50.0)  # bounds as factors of the truth
RISE = pf.Model("C' = k*(A - C)")
MEAN_OF_NORMAL = np.sqrt(2 / np.pi)  # mean of |x| for a standard normal x


@dataclass(frozen=True)
class Case:
    """A problem with one noise level, as a standard deviation."""

    problem: str
    eps: float
    settings: tuple[tuple[str, object], ...] = ()

    def generate(self, seed: int) -> pf.Problem:
        module = getattr(pf.examples, self.problem)
        return module.generate(seed=seed, eps=self.eps, eps_is="std", bounds=WIDE, **dict(self.settings))

    def with_noise(self, seed: int, proportional: bool) -> pf.Problem:
        """The experiments and initial states of seed 0 with noise of their own."""
        problem = self.generate(0)
        outputs = outputs_at_truth(problem)
        rng = np.random.default_rng([seed, 77])
        runs = []
        for one, exact in zip(problem.experiments, outputs, strict=True):
            data = noisy(rng, exact, self.eps, self.eps if proportional else 0.0)
            columns = {n: data[:, problem.model.observables.index(n)] for n in one.observables}
            runs.append(pf.Experiment(one.times, columns, one.name, one.inputs, one.initial, one.t0))
        return problem.with_experiments(runs)


@dataclass(frozen=True)
class Saturation:
    """Ten samples of a rise that has hardly begun to bend, C' = k (A - C) from C = 0: the likelihood of A is skewed."""

    eps: float
    problem: str = "saturation"

    def with_noise(self, seed: int, proportional: bool) -> pf.Problem:
        truth, start, times = {"A": 1.0, "k": 1.0}, {"C": 0.0}, np.linspace(0.1, 1, 10)
        exact = pf.simulate(RISE, truth, start, times, t0=0).observables["C"][:, None]
        data = noisy(np.random.default_rng([seed, 77]), exact, self.eps, self.eps if proportional else 0.0)
        run = pf.Experiment(times, {"C": data[:, 0]}, "run", initial=start, t0=0)
        wide = {"A": (1e-2, 1e3), "k": (1e-3, 1e2)}
        return pf.Problem(RISE, run, wide, truth={"parameters": truth, "initial": {"run": start}})


ALL_DOSES = (("inputs", (1, 2, 3, 4, 5)), ("v_known", True))  # v(0) = 0 would sit on its bound
EFFICIENCY = [
    *(Case("van_der_pol", eps) for eps in (0.01, 0.1)),
    *(Case("fitzhugh_nagumo", eps) for eps in (0.01, 0.05)),
    *(Case("rosenzweig_macarthur", eps) for eps in (0.005, 0.02)),
    *(Case("tumor", eps, ALL_DOSES) for eps in (0.0001, 0.0004)),
    *(Case("lorenz", eps, (("bounded_initial", False),)) for eps in (0.01, 0.1)),
]
COVERAGE = [
    (Case("van_der_pol", 0.2), ("theta1", "theta2", "x1(0)", "x2(0)")),
    (Case("lorenz", 0.2, (("bounded_initial", False),)), ("sigma", "rho", "beta")),
    (Case("rosenzweig_macarthur", 0.05, (("ponds", 2),)), ("a", "b", "K")),
    (Saturation(0.1), ("A", "k")),
]
COST = [Case("van_der_pol", 0.1), Case("fitzhugh_nagumo", 0.05), Case("rosenzweig_macarthur", 0.02)]
COST += [Case("tumor", 0.0004, ALL_DOSES), Case("lorenz", 0.1, (("bounded_initial", False),))]


# ---- the truth, its derivatives and the information in the data ------------------------------------------------


def runs_at_truth(problem: pf.Problem) -> tuple[np.ndarray, list[Run]]:
    unknowns = unknowns_from(problem, problem.truth["parameters"], problem.truth["initial"])
    layout = problem.layout
    values, initial = layout.model_values(unknowns), layout.initial(unknowns)[0]
    runs = [
        Run(one.t0, initial[e], values[e], one.inputs, one.times, problem.breaks(e))
        for e, one in enumerate(problem.experiments)
    ]
    return unknowns, runs


def outputs_at_truth(problem: pf.Problem) -> list[np.ndarray]:
    """(times, observables) of every experiment."""
    truth, model = problem.truth, problem.model
    return [
        np.stack(
            list(
                pf.simulate(
                    model,
                    {n: truth["parameters"][n] for n in model.parameters},
                    truth["initial"][one.name],
                    one.times,
                    one.inputs,
                    one.t0,
                ).observables.values()
            ),
            axis=-1,
        )
        for one in problem.experiments
    ]


def information_at_truth(problem: pf.Problem, sd: float) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Labels, Fisher information of all unknowns under the paper's noise, and the score of these data.

    For normal data of mean g and covariance V = sd^2 (1 + g g'), both functions of the unknowns:
    I_ab = g_a' V^-1 g_b + 1/2 tr(V^-1 V_a V^-1 V_b), s_a = g_a' V^-1 r + 1/2 (r' V^-1 V_a V^-1 r - tr V^-1 V_a).
    """
    layout, model = problem.layout, problem.model
    unknowns, runs = runs_at_truth(problem)
    places = [(e, c) for e, c in np.argwhere(layout.exists) if c < layout.local or e == 0]
    information, score = np.zeros((len(places), len(places))), np.zeros(len(places))
    for e, run in enumerate(runs):
        found = sensitivity(model, run)
        one = problem.experiments[e]
        value, by_x, by_p = model.output.linearise(
            run.times, found.states, run.params, one.inputs_at(model.inputs, run.times)
        )
        slopes = by_x @ found.derivatives
        slopes[..., len(model.states) :] += by_p
        by_unknowns = np.concatenate(
            [layout.initial(unknowns)[1][e], np.zeros((len(model.parameters), layout.width))]
        )
        rows = len(model.states) + layout.free_parameters
        by_unknowns[rows, layout.columns.parameters] = layout.parameter_slopes(unknowns)[e]
        slopes = slopes @ by_unknowns  # (times, observables, width)
        mine = np.array([c >= layout.local or k == e for k, c in places])
        jacobian = slopes[..., [c for _, c in places]] * mine
        residual = problem.samples.data[problem.samples.experiment == e] - value
        for g, j, r in zip(value, jacobian, residual, strict=True):
            inverse = np.linalg.inv(sd**2 * (np.eye(len(g)) + np.outer(g, g)))
            change = sd**2 * (j.T[:, :, None] * g[None, None, :] + g[None, :, None] * j.T[:, None, :])
            turned = inverse @ change  # (unknowns, observables, observables)
            information += j.T @ inverse @ j + 0.5 * np.einsum("aij,bji->ab", turned, turned)
            score += j.T @ inverse @ r + 0.5 * (
                np.einsum("i,aij,j->a", inverse @ r, change, inverse @ r) - np.einsum("aii->a", turned)
            )
    return [layout.label(e, c) for e, c in places], information, score


# ---- efficiency -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """One data set: by parameter, the relative errors of each estimate and the Cramer-Rao value."""

    bound: dict[str, float]
    linear: dict[str, float]
    found: dict[str, dict[str, float] | None]  # None after a failure


def errors_of(case: Case, seed: int) -> dict:
    """The fields of Errors."""
    problem = case.generate(seed)
    labels, information, score = information_at_truth(problem, case.eps)
    covariance = np.linalg.inv(information)
    truth = problem.truth["parameters"]
    names = [n for n in problem.model.parameters if n in labels]
    place = {n: labels.index(n) for n in names}
    bound = {n: float(MEAN_OF_NORMAL * np.sqrt(covariance[k, k]) / abs(truth[n])) for n, k in place.items()}
    step = covariance @ score
    linear = {n: float(abs(step[k] / truth[n])) for n, k in place.items()}
    found: dict[str, dict[str, float] | None] = {}
    for method, variant in variants(problem, case.eps).items():
        fit = pf.fit(variant)
        found[method] = (
            {n: abs(fit.parameters[n] / truth[n] - 1) for n in names}
            if fit.success and not fit.certificate.at_bound
            else None
        )
    return asdict(Errors(bound, linear, found))


def variants(problem: pf.Problem, sd: float) -> dict[str, pf.Problem]:
    """The estimates that are compared."""
    noise = pf.Noise(additive=sd, proportional=sd, common=True)
    return {"least squares": problem, "likelihood": replace(problem, noise=noise)}


def efficiency(cases: list[Case], datasets: int, seeds: Seeds) -> None:
    print(f"Efficiency over {datasets} data sets from seed {seeds.first}:")
    print("mean absolute error / its Cramer-Rao value (paired)")
    ratios: dict[str, list[float]] = {}
    for case in cases:
        began = time.perf_counter()
        name = f"efficiency {case.problem} {case.eps:g}"
        every = [Errors(**one) for one in seeds.results(name, partial(errors_of, case), datasets)]
        methods = list(every[0].found)
        lost = {m: sum(one.found[m] is None for one in every) for m in methods}
        seconds = time.perf_counter() - began
        print(f"\n{case.problem}, sd {case.eps:g}   ({seconds:.0f} s; failed or at a bound: {lost})")
        print("  parameter    CR value " + "".join(f"{m:>24}" for m in methods))
        for name in every[0].bound:
            line = f"  {name:10} {np.mean([one.bound[name] for one in every]):10.2%} "
            for method in methods:
                kept = [one for one in every if one.found[method] is not None]
                error = np.mean([one.found[method][name] for one in kept])
                ratio = error / np.mean([one.bound[name] for one in kept])
                paired = error / np.mean([one.linear[name] for one in kept])
                ratios.setdefault(method, []).append(float(ratio))
                line += f"{ratio:15.3f} ({paired:.3f})"
            print(line)
    for method, values in ratios.items():
        print(
            f"\n{method}: median {np.median(values):.3f}, largest {max(values):.3f} of {len(values)} ratios"
        )


# ---- censored values, counts and increments -----------------------------------------------------------------------


def estimated(name: str, seed: int) -> dict[str, tuple[float, bool]] | None:
    """What `Measured.estimate` finds in one data set."""
    return next(case for case in measured_cases() if case.problem == name).estimate(seed)


def measures(datasets: int, only: str, seeds: Seeds) -> None:
    print(f"\nCensored values, counts and increments over {datasets} data sets from seed {seeds.first}")
    print("                        parameter   root mean square error / Cramer-Rao value   coverage of 95 %")
    for case in measured_cases():
        if only not in case.problem:
            continue
        every = seeds.results(f"measures {case.problem}", partial(estimated, case.problem), datasets)
        kept = [one for one in every if one is not None]
        for name in case.truth:
            errors, inside = np.array([one[name] for one in kept], float).T
            ratio = np.sqrt(np.mean(errors**2)) / case.bound[name]
            failed = f"   failed: {len(every) - len(kept)}" if len(kept) < len(every) else ""
            print(f"  {case.problem:22} {name:10} {ratio:30.3f} {inside.mean():28.1%}{failed}")


# ---- coverage ---------------------------------------------------------------------------------------------------


def covered(case: Case | Saturation, names: tuple[str, ...], seed: int) -> dict[str, tuple[int, int]] | None:
    """For each name where the truth lies: -1 below, 0 in, 1 above Fisher's and the profile's interval.

    None after a failure.
    """
    problem = case.with_noise(seed, proportional=False)
    fit = pf.fit(problem)
    if not fit.success:
        return None
    truth = dict(problem.truth["parameters"])
    if len(problem.names) == 1:
        truth |= {f"{s}(0)": x for s, x in problem.truth["initial"][problem.names[0]].items()}
    fisher = fit.intervals(0.95)
    result = {}
    for name in names:
        both = (fisher[name], fit.profile(name, 0.95).interval())
        result[name] = tuple(int(truth[name] > high) - int(truth[name] < low) for low, high in both)
    return result


def coverage(datasets: int, only: str, seeds: Seeds) -> None:
    print(f"\nCoverage of 95 % intervals over {datasets} data sets from seed {seeds.first} (additive noise)")
    print(f"  standard deviation of such a count: {np.sqrt(0.95 * 0.05 / datasets):.1%}")
    for case, names in COVERAGE:
        if only not in case.problem:
            continue
        task = partial(covered, case, names)
        every = seeds.results(f"coverage {case.problem} {case.eps:g}", task, datasets)
        kept = [one for one in every if one is not None]
        print(f"\n{case.problem}, sd {case.eps:g}   (failed: {len(every) - len(kept)})")
        print("  parameter      Fisher (truth below, above)     profile (truth below, above)")
        for name in names:
            line = f"  {name:10}"
            for side in np.array([one[name] for one in kept]).T:
                inside, below, above = (np.mean(side == k) for k in (0, -1, 1))
                line += f" {inside:10.1%} ({below:5.1%}, {above:5.1%})       "
            print(line.rstrip())


# ---- cost -------------------------------------------------------------------------------------------------------


def cost(only: str) -> None:
    print("\nCost of a profile (both ends of a 95 % interval) in warm fits, processor time")
    for case in COST:
        if only not in case.problem:
            continue
        cold, fit = _timed(pf.fit, case.with_noise(0, True))
        others = [case.with_noise(seed, True) for seed in range(1, 8)]
        warm = np.median([_timed(warm_fit, fit, other)[0] for other in others])
        information = np.median([_timed(expansion_at, fit.problem, fit.solution)[0] for _ in range(5)])
        names = [n for n in fit.parameters if n in fit.standard_errors]
        profiles = [min(_timed(fit.profile, n)[0] for _ in range(2)) / warm for n in names]
        print(
            f"  {case.problem:22} cold fit {cold * 1e3:5.0f} ms, warm fit {warm * 1e3:6.1f} ms, "
            f"information {information * 1e3:4.1f} ms; "
            f"profile: median {np.median(profiles):4.1f}, largest {max(profiles):4.1f} warm fits"
        )


def warm_fit(fit: pf.Fit, problem: pf.Problem) -> None:
    """Another data set, from the solution of the first."""
    refit(expansion_at(problem, fit.solution), fit.residual_variance)


def _timed(task, *arguments) -> tuple[float, object]:
    began = time.process_time()
    result = task(*arguments)
    return time.process_time() - began, result


@contextmanager
def _workers(count: int) -> Iterator[Executor | None]:
    if count < 2:
        yield None
    else:
        with ProcessPoolExecutor(count) as executor:
            yield executor


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", type=int, default=400)
    parser.add_argument("--coverage", type=int, default=400)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--level", type=float, help="only this noise level, in the efficiency")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="JSON lines of finished data sets")
    parser.add_argument("--quick", action="store_true", help="20 data sets each")
    for part in ("efficiency", "measures", "coverage", "cost"):
        parser.add_argument(f"--skip-{part}", action="store_true")
    options = parser.parse_args()
    datasets, intervals = (20, 20) if options.quick else (options.datasets, options.coverage)
    chosen = [c for c in EFFICIENCY if options.only in c.problem and options.level in (None, c.eps)]
    with _workers(options.workers) as executor:
        seeds = Seeds(options.first, options.keep, executor)
        if not options.skip_efficiency:
            efficiency(chosen, datasets, seeds)
        if not options.skip_measures:
            measures(datasets, options.only, seeds)
        if not options.skip_coverage:
            coverage(intervals, options.only, seeds)
    if not options.skip_cost:
        cost(options.only)


if __name__ == "__main__":
    main()
