"""Posteriors against published ones, heavy tails, many experiments, and the cost of a gradient.

    python benchmarks/posterior.py hares       Stan's hare-lynx model against the reference draws of posteriordb
    python benchmarks/posterior.py epidemic    the waterborne epidemic of stat_comp_benchmarks
    python benchmarks/posterior.py tails [SEEDS]    heavy tails and a variance near zero, against integrals on a grid
    python benchmarks/posterior.py lorenz [DRAWS] [LEDGER] [EXPERIMENTS]    100 of them, 306 unknowns; LEDGER keeps them
    python benchmarks/posterior.py scaling [DRAWS]    the same with 10 to 300 experiments
    python benchmarks/posterior.py bends    log weights of Gaussian points in straight and in bent coordinates
    python benchmarks/posterior.py curvature [EXPERIMENTS]    eigenvalues of the second derivative at such points
    python benchmarks/posterior.py samplers [DRAWS]    NUTS, nutpie, emcee and weighted draws on the hares
    python benchmarks/posterior.py agreement    weighted draws against chains wherever k-hat is below 0.7
    python benchmarks/posterior.py engine      a gradient for four chains: collocation and batched integration

Times are given as seconds of the clock and of the processor: other programs change the former.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import picardfit as pf
from picardfit.inference.posterior.chart import Bending, chart_of, positions
from picardfit.inference.posterior.mixing import ess_bulk, ess_tail, r_hat
from picardfit.inference.posterior.setup import log_likelihood, mode_of, target_of

EPIDEMIC_DATA = Path(__file__).parent / "data" / "waterborne_sir.csv"
HARE_DATA = Path(pf.__file__).parent / "examples" / "starters" / "lotka-volterra" / "lynx_hare.csv"
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
    table, priors = pd.read_csv(HARE_DATA), pf.priors
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
    table, half = pd.read_csv(EPIDEMIC_DATA), pf.priors.HalfCauchy
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
    print(
        f"{'':18}{'mean':>10}{'MCSE off':>10}{'sd':>10}{'off':>8}{'ess bulk':>10}{'ess tail':>10}{'R-hat':>8}"
    )
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


# ---- heavy tails ---------------------------------------------------------------------------------------------------


def michaelis() -> pf.Problem:
    """Substrate far below the Michaelis constant: the data determine vmax/km, a Cauchy prior hardly closes km."""
    times = np.linspace(0.5, 4, 8)
    values = 0.5 * np.exp(-0.6 * times) + 0.01 * np.sin(9 * times)
    data = pf.Experiment(times, {"s": values}, t0=0.0, initial={"s": 0.5})
    half = pf.priors.HalfCauchy
    parameters = {"vmax": pf.Parameter(0, prior=half(2.0)), "km": pf.Parameter(0, prior=half(2.0))}
    return pf.Problem(pf.Model("s' = -vmax*s/(km + s)"), data, parameters, noise=pf.Noise(additive=0.02))


def quiet() -> pf.Problem:
    """Three almost exact measurements: a noise level near zero, where the posterior is a funnel."""
    times = np.array([0.5, 1.0, 2.0])
    data = pf.Experiment(
        times, {"x": np.exp(-0.7 * times) + np.array([1e-3, -1e-3, 1e-3])}, t0=0.0, initial={"x": 1.0}
    )
    noise = pf.Noise(additive=pf.Parameter(0, prior=pf.priors.HalfCauchy(0.1)))
    parameters = {"k": pf.Parameter(0, prior=pf.priors.HalfNormal(1.0))}
    return pf.Problem(pf.Model("x' = -k*x"), data, parameters, noise=noise)


def tails(seeds: int) -> None:
    """Probabilities below the quantiles of the draws, which should be 0.025, 0.5 and 0.975, by closed solutions."""
    for name, (problem, exact) in {
        "Michaelis-Menten": (michaelis(), michaelis_exact()),
        "variance near zero": (quiet(), quiet_exact()),
    }.items():
        fit = pf.fit(problem)
        runs = [(pf.NUTS(), 0), *((pf.LaplaceDraws(), seed) for seed in range(seeds))]
        for method, seed in runs:
            posterior = fit.posterior(method, seed=seed, progress=False)
            for label, below in exact.items():
                parts = [f"{below(q):.4f}" for q in np.quantile(posterior[label], [0.025, 0.5, 0.975])]
                worth = posterior.summary().loc[label, "ess_tail"]
                print(
                    f"{name}, {type(method).__name__}, {label}: {', '.join(parts)}; tails worth {worth:.0f}"
                )
            print(
                "   ", " ".join(str(one) for one in posterior.warnings) or "no warning", posterior.khat or ""
            )


def _below(values: np.ndarray, mass: np.ndarray):
    """The probability below a value, from weighted points."""
    order = np.argsort(values.ravel())
    known, total = values.ravel()[order], np.cumsum(mass.ravel()[order]) / mass.sum()
    return lambda value: float(np.interp(value, known, total))


def michaelis_exact() -> dict:
    """s = km W(s0/km exp((s0 - vmax t)/km)) on a grid of log(vmax/km) and log km."""
    from scipy.special import lambertw

    (data,) = michaelis().experiments
    slope, size = np.meshgrid(np.linspace(-2.5, 1.5, 1500), np.linspace(-12, 14, 1500), indexing="ij")
    km, vmax = np.exp(size), np.exp(slope + size)
    cost = (
        np.log1p((km / 2) ** 2) + np.log1p((vmax / 2) ** 2) - slope - 2 * size
    )  # priors, and d value / d log
    for t, y in zip(data.times, data.values[:, 0], strict=True):
        with np.errstate(over="ignore"):
            u = 0.5 / km * np.exp(np.minimum((0.5 - vmax * t) / km, 600.0))
        s = np.where(u < 1e250, km * lambertw(u).real, 0.5 - vmax * t)
        cost = cost + 0.5 * ((y - s) / 0.02) ** 2
    mass = np.exp(cost.min() - cost)
    return {"vmax": _below(vmax, mass), "km": _below(km, mass)}


def quiet_exact() -> dict:
    """x = exp(-k t) on a grid of (k - 0.7)/sigma and log sigma."""
    (data,) = quiet().experiments
    gap, size = np.meshgrid(np.sinh(np.linspace(-9, 9, 1501)), np.linspace(-14, 6, 1201), indexing="ij")
    sigma = np.exp(size)
    k = 0.7 + gap * sigma
    cost = np.log1p((sigma / 0.1) ** 2) - 2 * size + 0.5 * k**2
    cost = cost - np.log(np.cosh(np.linspace(-9, 9, 1501)))[:, None]  # the grid of gap
    for t, y in zip(data.times, data.values[:, 0], strict=True):
        with np.errstate(over="ignore"):
            cost = cost + 0.5 * ((y - np.exp(-k * t)) / sigma) ** 2 + size
    mass = np.where(k > 0, np.exp(np.nanmin(np.where(k > 0, cost, np.nan)) - cost), 0.0)
    return {"k": _below(k, mass), "noise.additive": _below(sigma, mass)}


# ---- many experiments ----------------------------------------------------------------------------------------------


def lorenz_problem(experiments: int) -> pf.Problem:
    """Lorenz' equations from many starts: three parameters, three noise levels, all initial states."""
    model, times, rng = pf.examples.lorenz.model(), np.linspace(0.0, 1.5, 16), np.random.default_rng(0)
    truth, runs = pf.examples.lorenz.TRUTH, []
    for _ in range(experiments):
        initial = dict(zip(model.states, rng.uniform(-1, 1, 3) + np.array([0, 0, 1.0]), strict=True))
        found = pf.simulate(model, truth, initial, times).observables
        runs.append(
            pf.Experiment(times, {n: v + 0.1 * rng.standard_normal(len(v)) for n, v in found.items()})
        )
    sigma = dict.fromkeys(model.observables, (0.01, 1.0))
    bounds = {name: (0.2 * value, 3 * value) for name, value in truth.items()}
    initial = dict.fromkeys(model.states, (-10.0, 10.0))
    return pf.Problem(model, runs, bounds, initial, noise=pf.Noise(additive=sigma))


def lorenz(draws: int, ledger: str | None = None, experiments: int = 100) -> None:
    """Draws in all, in four chains, with the time of fit and draws, and what the first half of them is worth."""
    problem = lorenz_problem(experiments)
    clock, processor = time.perf_counter(), time.process_time()
    fit = pf.fit(problem, start=pf.examples.lorenz.TRUTH)
    print(
        f"{experiments} experiments, {problem.layout.count()} unknowns: fit in {time.process_time() - processor:.0f} s"
    )
    posterior = fit.posterior(pf.NUTS(draws=draws // 4, warmup=150), seed=0, ledger=ledger)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    leaps = posterior.drawn.leaps
    print(
        f"{draws} draws: {clock:.0f} s of the clock, {processor:.0f} s of the processor; {leaps} leaps, "
        f"{leaps / (draws + 600):.1f} an iteration; log-likelihood wrong by {posterior.error:.1e}"
    )
    for count in (draws // 8, draws // 4):
        some = {name: values[:, :count] for name, values in posterior.draws.items()}
        rhat = np.array([r_hat(one) for one in some.values()])
        bulk, tail = (min(map(worth, some.values())) for worth in (ess_bulk, ess_tail))
        print(
            f"first {4 * count}: largest R-hat {rhat.max():.3f}, {np.sum(rhat > 1.01)} above 1.01; least effective "
            f"{bulk:.0f} (tail {tail:.0f}); {posterior.drawn.divergent[:, :count].sum()} divergent"
        )
    print("\n".join(map(str, posterior.warnings)))


def scaling(draws: int) -> None:
    """Processor time of a step of a path, and of an effective draw, for more and more experiments."""
    for experiments in (10, 30, 100, 300):
        fit = pf.fit(lorenz_problem(experiments), start=pf.examples.lorenz.TRUTH, progress=False)
        began = time.process_time()
        found = fit.posterior(pf.NUTS(draws=1, warmup=0), seed=0, progress=False)
        first = time.process_time() - began
        began = time.process_time()
        found = fit.posterior(pf.NUTS(draws=draws // 4, warmup=50), seed=0, progress=False)
        seconds = time.process_time() - began - first
        steps = found.drawn.leaps
        print(
            f"{experiments} experiments: {first:.1f} s of the processor before the first draw, {steps} steps of "
            f"{1e3 * seconds / steps:.2f} ms, {1e3 * seconds / steps / experiments:.4f} ms an experiment; "
            f"{steps / (draws + 200):.1f} steps an iteration",
            flush=True,
        )


def bends() -> None:
    """Standard deviation of log weights of points of the Gaussian, straight and bent, on problems of other studies."""
    from calibration import CALIBRATIONS, data_set

    problems = {"hares": hare_problem(), "epidemic": epidemic_problem(), "Michaelis-Menten": michaelis()}
    problems |= {"variance near zero": quiet(), "10 of Lorenz": lorenz_problem(10)}
    problems |= {
        f"{name} {seed}": data_set(make(), seed)[0] for name, make in CALIBRATIONS.items() for seed in (1, 2)
    }
    for name, problem in problems.items():
        fit = pf.fit(problem, progress=False)
        mode = mode_of(fit)
        target = target_of(fit, mode, 8, np.random.default_rng(0))
        (centre,) = target.positions([(mode.z, None)])
        v, spread = np.random.default_rng(5).standard_normal((200, len(mode.z))), []
        for settings in (Bending(widths=()), Bending()):
            chart = chart_of(target, centre, mode.covariance, 0, settings)
            found = positions(target, [chart] * len(v), [(one, centre.track) for one in v])
            log_weights = np.array([one.log_density for one in found]) + 0.5 * np.sum(v**2, axis=1)
            spread.append(float(np.std(log_weights)))
        said = "bent" if chart.bend is not None else "left straight"
        print(f"{name}: {spread[0]:.2f} straight, {spread[1]:.2f} ({said})", flush=True)


def curvature(experiments: int) -> None:
    """Extreme eigenvalues of minus the second derivative at two points of the Gaussian, straight and bent."""
    fit = pf.fit(lorenz_problem(experiments), start=pf.examples.lorenz.TRUTH, progress=False)
    mode = mode_of(fit)
    target = target_of(fit, mode, 4, np.random.default_rng(0))
    (centre,) = target.positions([(mode.z, None)])
    exact = replace(target, lanes=target.lanes.exact)
    for settings in (Bending(widths=()), Bending()):
        chart, rng = chart_of(target, centre, mode.covariance, 0, settings), np.random.default_rng(3)
        for _ in range(2):
            v, width = rng.standard_normal(len(mode.z)), 1e-3
            near = [v + sign * width * unit for unit in np.eye(len(v)) for sign in (1.0, -1.0)]
            found = positions(exact, [chart] * len(near), [(one, centre.track) for one in near])
            slopes = np.array([one.slope for one in found])
            second = (slopes[1::2] - slopes[0::2]) / (2 * width)
            values = np.linalg.eigvalsh(0.5 * (second + second.T))
            said = "bent" if chart.bend is not None else "straight"
            print(f"{said}: {values[0]:.2f} to {values[-1]:.2f}", flush=True)


# ---- other samplers, and weighted draws against chains ---------------------------------------------------------------


def samplers(draws: int) -> None:
    """Effective draws a second of each method on the hares, without the fit; means in sds of the reference."""
    fit = pf.fit(hare_problem())
    methods = (pf.NUTS(draws=draws), pf.Nutpie(draws=draws), pf.Emcee(draws=2 * draws), pf.LaplaceDraws())
    for method in methods:
        processor = time.process_time()
        found = fit.posterior(method, seed=0, progress=False)
        processor = time.process_time() - processor
        table = found.summary()
        least = float(table[["ess_bulk", "ess_tail"]].min().min())
        off = max(abs(table.loc[name, "mean"] - mean) / sd for name, (mean, sd) in HARES.items())
        print(
            f"{type(method).__name__}: {np.prod(found.shape)} draws, at least {least:.0f} effective, {processor:.1f} s "
            f"of the processor: {least / processor:.0f} a second; means at most {off:.2f} sd off, "
            f"largest R-hat {table['r_hat'].max():.3f}, {found.divergences} divergent",
            flush=True,
        )


def agreement() -> None:
    """Means in Monte Carlo errors and ends of 95 % intervals in sds: weighted draws less chains."""
    from calibration import CALIBRATIONS, data_set

    problems = {"hares": hare_problem(), "epidemic": epidemic_problem(), "Michaelis-Menten": michaelis()}
    problems["variance near zero"] = quiet()
    for name, make in CALIBRATIONS.items():
        problems |= {f"{name} {seed}": data_set(make(), seed)[0] for seed in range(3)}
    for name, problem in problems.items():
        fit = pf.fit(problem, progress=False)
        quick = fit.posterior(pf.LaplaceDraws(), seed=0, progress=False)
        chains = fit.posterior(pf.NUTS(), seed=0, progress=False)
        a, b = quick.summary(), chains.summary()
        means = np.abs(a["mean"] - b["mean"]) / np.hypot(a["mcse"], b["mcse"])
        ends = max(float((np.abs(a[q] - b[q]) / b["sd"]).max()) for q in ("q2.5", "q97.5"))
        print(
            f"{name}: k-hat {quick.khat:.2f}, means differ by {means.max():.1f} errors, ends by {ends:.2f} sd; "
            f"{'trusted' if quick.trusted else 'not trusted'}, chains {'trusted' if chains.trusted else 'not trusted'}",
            flush=True,
        )


# ---- the engine ----------------------------------------------------------------------------------------------------


def engine(calls: int = 200) -> None:
    """Processor time of the density and its gradient at points of a Hamiltonian path, for four chains."""
    from picardfit.problem.side_by_side import Simulated, measured
    from picardfit.simulation.batched_rosenbrock import RosenbrockSteps

    problem = hare_problem()
    fit = pf.fit(problem)
    mode = mode_of(fit)
    target = target_of(fit, mode, 4, np.random.default_rng(0))
    root, rng = np.linalg.cholesky(mode.covariance), np.random.default_rng(1)
    direction = root @ rng.standard_normal((len(root), 4))
    points = [mode.z + np.sin(0.4 * k + np.arange(4))[:, None] * direction.T for k in range(calls)]
    tracks = [one.track for one in target.positions([(mode.z, None)] * 4)]
    began = time.process_time()
    for z in points:
        _, _, tracks = target.evaluate(z, tracks)
    each = (time.process_time() - began) / calls
    steps = target.lanes.work.steps / target.lanes.work.calls
    print(f"collocation on {len(target.lanes.mesh)} segments: {1e3 * each:.2f} ms, {steps:.1f} Newton steps")
    exact = np.array([log_likelihood(problem, target.coordinates, z) for z in points[3]])
    for tolerance in (1e-3, 1e-5, 1e-7):
        began = time.process_time()
        for z in points[:20]:
            unknowns = target.coordinates.unknowns(target.coordinates.internal(z)[0])
            shots = Simulated(problem, unknowns, tolerance, RosenbrockSteps(), True)
            shots.slopes(np.arange(4))
        each = (time.process_time() - began) / 20
        unknowns = target.coordinates.unknowns(target.coordinates.internal(points[3])[0])
        states = Simulated(problem, unknowns, tolerance, RosenbrockSteps(), False).states
        rows = measured(problem, unknowns, states)
        gap = max(abs(problem.objective.value(row) + one) for row, one in zip(rows, exact, strict=True))
        print(
            f"batched Rosenbrock steps at {tolerance:.0e}: {1e3 * each:.1f} ms, log-likelihood wrong by {gap:.1e}"
        )
    unknowns = target.coordinates.unknowns(target.coordinates.internal(points[3])[0])
    costs = target.lanes.solve(unknowns, [None] * 4, False).cost
    print(f"collocation: log-likelihood wrong by {np.abs(costs + exact).max():.1e}")


def main() -> None:
    command, *others = sys.argv[1:] or ["hares"]
    first = int(others[0]) if others else None
    tasks = {
        "hares": lambda: compared(hare_problem(), HARES, first or 1000),
        "epidemic": lambda: compared(epidemic_problem(), EPIDEMIC, first or 1000),
        "tails": lambda: tails(first or 8),
        "lorenz": lambda: lorenz(first or 1000, *others[1:2], *map(int, others[2:3])),
        "scaling": lambda: scaling(first or 100),
        "bends": bends,
        "curvature": lambda: curvature(first or 100),
        "samplers": lambda: samplers(first or 1000),
        "agreement": agreement,
        "engine": engine,
    }
    if command not in tasks:
        sys.exit(f"{command!r} is none of {', '.join(tasks)}")
    tasks[command]()


if __name__ == "__main__":
    main()
