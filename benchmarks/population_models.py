"""Populations of many kinds: simulated studies, each fitted from its bounds, and checked by plain SciPy.

    python benchmarks/population_models.py [NAME ...]

The objective at the estimates is computed again for every individual: `solve_ivp` on equations written by hand, the
mode by `scipy.optimize`, the curvature by differences. Seconds are of the processor.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

import picardfit as pf


def spread(lower: float, upper: float) -> pf.Parameter:
    return pf.Parameter(lower, upper, log=True, random=True)


def shared(lower: float, upper: float) -> pf.Parameter:
    return pf.Parameter(lower, upper, log=True)


@dataclass(frozen=True)
class Person:
    """What is done to one individual."""

    times: dict[str, np.ndarray]  # observable -> sampling times
    doses: tuple[tuple[float, float, float], ...]  # time, amount, duration
    weight: float = 70.0


@dataclass(frozen=True)
class Study:
    """A model twice: as text, and as plain functions."""

    text: str
    observables: dict[str, str]
    initial: dict[str, object]
    into: str
    parameters: dict[str, pf.Parameter]
    truth: dict[str, float]
    omega: dict[str, float]  # standard deviations, in the scale of the search
    noise: object
    rates: Callable  # (t, x, p, weight) -> x'
    begin: Callable  # p -> x(0)
    outputs: Callable  # (x, p, weight) -> observables by name
    level: Callable  # (observable, prediction, p) -> standard deviation
    people: Callable  # rng -> list of Person
    random: object = None


def curve(study: Study, person: Person, p: dict[str, float]) -> dict[str, np.ndarray]:
    """Predictions of one individual by solve_ivp, dose after dose."""
    place = pf.Model(study.text, observables=study.observables).states.index(study.into)
    wanted = np.unique(np.concatenate(list(person.times.values())))
    stops = sorted({0.0, *wanted, *(t for t, _, _ in person.doses), *(t + d for t, _, d in person.doses)})
    x, found = np.array(study.begin(p), float), {}
    for k, t in enumerate(stops):
        for at, amount, duration in person.doses:
            if at == t and duration == 0:
                if t in wanted and t not in found:
                    found[t] = x.copy()
                x = x + amount * (np.arange(len(x)) == place)
        found.setdefault(t, x.copy())
        if k + 1 < len(stops):
            running = sum(a / d for at, a, d in person.doses if d > 0 and at <= t < at + d)

            def rates(s, y, running=running):
                return np.array(study.rates(s, y, p, person.weight)) + running * (np.arange(len(y)) == place)

            x = solve_ivp(rates, (t, stops[k + 1]), x, method="LSODA", rtol=1e-9, atol=1e-10).y[:, -1]
    return {
        name: np.array([study.outputs(found[t], p, person.weight)[name] for t in times])
        for name, times in person.times.items()
    }


def natural(study: Study, internal: dict[str, float]) -> dict[str, float]:
    """Values in natural units: logarithms and logits undone."""
    found = {}
    for name, value in internal.items():
        one = study.parameters[name]
        if getattr(one, "logit", False):
            found[name] = one.lower + (one.upper - one.lower) / (1 + np.exp(-value))
        else:
            found[name] = float(np.exp(value))
    return found


def internal(study: Study, values: dict[str, float]) -> dict[str, float]:
    found = {}
    for name, one in study.parameters.items():
        part = (values[name] - one.lower) / (one.upper - one.lower)
        found[name] = np.log(part / (1 - part)) if getattr(one, "logit", False) else np.log(values[name])
    return found


def simulated(study: Study, seed: int) -> tuple[pf.Problem, list[Person]]:
    rng, centre = np.random.default_rng(seed), internal(study, study.truth)
    people, experiments = study.people(rng), []
    for k, person in enumerate(people):
        own = {
            name: value + study.omega.get(name, 0.0) * rng.standard_normal() for name, value in centre.items()
        }
        p = natural(study, own)
        exact = curve(study, person, p)
        every = np.unique(np.concatenate(list(person.times.values())))
        data = {}
        for name, values in exact.items():
            noisy = values + study.level(name, values, study.truth | p) * rng.standard_normal(len(values))
            column = np.full(len(every), np.nan)
            column[np.searchsorted(every, person.times[name])] = noisy
            data[name] = column
        groups = {}
        for t, amount, duration in person.doses:
            groups.setdefault(duration, []).append((t, amount))
        doses = [
            pf.Doses([t for t, _ in some], [a for _, a in some], into=study.into, duration=duration)
            for duration, some in groups.items()
        ]
        covariates = {"weight": person.weight} if "weight" in study.text else {}
        experiments.append(pf.Experiment(every, data, f"{k + 1}", doses=doses, covariates=covariates, t0=0))
    model = pf.Model(study.text, observables=study.observables)
    problem = pf.Problem(
        model, experiments, study.parameters, study.initial, noise=study.noise, random=study.random
    )
    return problem, people


def plain_objective(study: Study, people: list[Person], fit) -> float:
    """FOCEI's objective at the estimates, by SciPy alone."""
    problem, total = fit.problem, 0.0
    centre, names = internal(study, fit.parameters), list(fit.population.names)
    values, vectors = np.linalg.eigh(fit.population.covariance.to_numpy())
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    for person, one in zip(people, problem.experiments, strict=True):
        data = [
            (name, one.values[np.searchsorted(one.times, times), one.observables.index(name)])
            for name, times in person.times.items()
        ]

        def rows(z, person=person):
            own = dict(centre)
            for name, eta in zip(names, root @ z, strict=True):
                own[name] += eta
            p = natural(study, own)
            found = curve(study, person, p)
            m = np.concatenate([found[name] for name in person.times])
            s = np.concatenate([study.level(name, found[name], fit.parameters) for name in person.times])
            return m, np.broadcast_to(s, m.shape)

        y = np.concatenate([v for _, v in data])

        def slopes(z, rows=rows, h=1e-4):
            ends = [[np.array(rows(z + sign * h * e)) for sign in (1, -1)] for e in np.eye(len(z))]
            return np.stack([(a - b) / (2 * h) for a, b in ends], axis=-1)

        def joint(z, rows=rows, y=y):
            m, s = rows(z)
            return 0.5 * np.sum(((y - m) / s) ** 2) + np.sum(np.log(s)) + 0.5 * z @ z

        def gradient(z, rows=rows, y=y, slopes=slopes):
            (m, s), (dm, ds) = rows(z), slopes(z)
            e = (y - m) / s
            return dm.T @ (-e / s) + ds.T @ ((1 - e**2) / s) + z

        z = root_of_gradient(joint, gradient, slopes, rows, np.zeros(len(names)))
        (_, s), (dm, ds) = rows(z), slopes(z)
        matrix = np.eye(len(z)) + (dm / s[:, None]).T @ (dm / s[:, None])
        matrix += 2 * (ds / s[:, None]).T @ (ds / s[:, None])
        total += 2 * joint(z) + np.linalg.slogdet(matrix)[1]
    return float(total)


def root_of_gradient(joint, gradient, slopes, rows, z):
    """The mode by damped scoring steps."""
    value = joint(z)
    for _ in range(60):
        (_, s), (dm, ds) = rows(z), slopes(z)
        matrix = np.eye(len(z)) + (dm / s[:, None]).T @ (dm / s[:, None])
        matrix += 2 * (ds / s[:, None]).T @ (ds / s[:, None])
        step, length = -np.linalg.solve(matrix, gradient(z)), 1.0
        while joint(z + length * step) > value + 1e-9 and length > 1e-4:
            length *= 0.5
        z = z + length * step
        value = joint(z)
        if np.abs(length * step).max() < 1e-5:
            break
    return z


# ---- the studies ---------------------------------------------------------------------------------------------------


def warfarin() -> Study:
    """Two outputs, eight effects, a logit, an initial state that varies: nlmixr2's example of PK and PD."""
    pk = np.array([0.5, 1, 2, 3, 6, 9, 12, 24, 36, 48, 72, 96, 120])
    pd = np.array([0.0, 24, 36, 48, 72, 96, 120, 144])

    def people(rng):
        return [
            Person({"cp": pk if k % 3 == 0 else pk[5:], "pca": pd}, ((0.0, 1.5 * w, 0.0),), w)
            for k, w in enumerate(rng.normal(70, 12, 32).clip(40, 110))
        ]

    def rates(t, x, p, w):
        conc = x[2] / p["v"]
        effect = 1 - p["emax"] * conc / (p["ec50"] + conc)
        return [
            -p["ktr"] * x[0],
            p["ktr"] * x[0] - p["ka"] * x[1],
            p["ka"] * x[1] - p["cl"] * conc,
            p["e0"] * p["kout"] * effect - p["kout"] * x[3],
        ]

    return Study(
        """
        depot' = -ktr*depot
        gut' = ktr*depot - ka*gut
        center' = ka*gut - cl/v*center
        effect' = e0*kout*(1 - emax*(center/v)/(ec50 + center/v)) - kout*effect
        """,
        {"cp": "center/v", "pca": "effect"},
        {"depot": 0, "gut": 0, "center": 0, "effect": "e0"},
        "depot",
        {
            "ktr": spread(0.05, 20),
            "ka": spread(0.05, 20),
            "cl": spread(0.005, 2),
            "v": spread(1, 100),
            "emax": pf.Parameter(0, 1, logit=True, random=True),
            "ec50": spread(0.05, 20),
            "kout": spread(0.005, 1),
            "e0": spread(10, 500),
        },
        {"ktr": 1.3, "ka": 1.1, "cl": 0.135, "v": 8.0, "emax": 0.95, "ec50": 1.5, "kout": 0.05, "e0": 96.0},
        {"ktr": 0.5, "ka": 0.5, "cl": 0.27, "v": 0.2, "emax": 0.4, "ec50": 0.4, "kout": 0.2, "e0": 0.05},
        pf.Noise(additive={"cp": (0.001, 5), "pca": (0.1, 50)}, proportional={"cp": (0.001, 1), "pca": 0}),
        rates,
        lambda p: [0, 0, 0, p["e0"]],
        lambda x, p, w: {"cp": x[2] / p["v"], "pca": x[3]},
        lambda name, f, p: (
            np.full(len(f), p.get("noise.additive.pca", 4.0))
            if name == "pca"
            else np.sqrt(
                p.get("noise.additive.cp", 0.3) ** 2 + (p.get("noise.proportional.cp", 0.1) * f) ** 2
            )
        ),
        people,
    )


def two_compartments() -> Study:
    """Infusions of different lengths, a block of the covariance, clearance by weight."""
    times = np.array([0.5, 1, 2, 4, 6, 8, 12, 24])

    def people(rng):
        return [
            Person({"conc": times}, ((0.0, 500.0, 1.0 + k % 2), (12.0, 250.0, 1.0)), w)
            for k, w in enumerate(rng.normal(70, 15, 40).clip(35, 120))
        ]

    def rates(t, x, p, w):
        cl = p["cl"] * (w / 70) ** 0.75
        a, b = x[0] / p["v1"], x[1] / p["v2"]
        return [-cl * a - p["q"] * (a - b), p["q"] * (a - b)]

    return Study(
        """
        central' = -cl*(weight/70)^0.75*central/v1 - q*(central/v1 - other/v2)
        other' = q*(central/v1 - other/v2)
        """,
        {"conc": "central/v1"},
        {"central": 0, "other": 0},
        "central",
        {"cl": spread(0.1, 100), "v1": spread(1, 500), "q": shared(0.1, 100), "v2": spread(1, 500)},
        {"cl": 5.0, "v1": 20.0, "q": 4.0, "v2": 40.0},
        {"cl": 0.3, "v1": 0.2, "v2": 0.25},
        pf.Noise(proportional=(0.005, 1)),
        rates,
        lambda p: [0, 0],
        lambda x, p, w: {"conc": x[0] / p["v1"]},
        lambda name, f, p: p.get("noise.proportional", 0.12) * f,
        people,
        pf.RandomEffects(correlated=[("cl", "v1")]),
    )


def phenobarbital() -> Study:
    """Newborns: many small doses, one to three samples each, everything by weight."""

    def people(rng):
        found = []
        for w in rng.normal(1.5, 0.5, 59).clip(0.6, 3.5):
            doses = ((0.0, 20 * w, 0.0), *((12.0 * k, 2.5 * w, 0.0) for k in range(1, 12)))
            times = np.sort(
                rng.choice(
                    np.array([2.0, 11.0, 47.5, 63.5, 95.5, 112.3, 143.5]), rng.integers(1, 4), replace=False
                )
            )
            found.append(Person({"conc": times}, doses, float(w)))
        return found

    return Study(
        "central' = -(cl*weight)/(v*weight)*central",
        {"conc": "central/(v*weight)"},
        {"central": 0},
        "central",
        {"cl": spread(0.0001, 1), "v": spread(0.05, 20)},
        {"cl": 0.0047, "v": 1.0},
        {"cl": 0.25, "v": 0.2},
        pf.Noise(additive=(0.05, 50)),
        lambda t, x, p, w: [-p["cl"] / p["v"] * x[0]],
        lambda p: [0.0],
        lambda x, p, w: {"conc": x[0] / (p["v"] * w)},
        lambda name, f, p: np.full(len(f), p.get("noise.additive", 2.5)),
        people,
    )


def seven_states() -> Study:
    """A chain of transit compartments, two of distribution and a response that is measured beside the drug."""
    times = np.array([0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 24])

    def rates(t, x, p, w):
        conc = x[4] / p["v"]
        chain = [-p["k"] * x[0], *(p["k"] * (x[j - 1] - x[j]) for j in (1, 2, 3))]
        return [
            *chain,
            p["k"] * x[3] - p["cl"] * conc - p["q"] * (conc - x[5] / p["v2"]),
            p["q"] * (conc - x[5] / p["v2"]),
            p["kout"] * (p["base"] / (1 + conc / p["ic"]) - x[6]),
        ]

    return Study(
        """
        a1' = -k*a1
        a2' = k*(a1 - a2)
        a3' = k*(a2 - a3)
        a4' = k*(a3 - a4)
        c' = k*a4 - cl*c/v - q*(c/v - p/v2)
        p' = q*(c/v - p/v2)
        r' = kout*(base/(1 + (c/v)/ic) - r)
        """,
        {"conc": "c/v", "response": "r"},
        {"a1": 0, "a2": 0, "a3": 0, "a4": 0, "c": 0, "p": 0, "r": "base"},
        "a1",
        {
            "k": spread(0.1, 50),
            "cl": spread(0.1, 100),
            "v": spread(1, 500),
            "q": shared(0.1, 100),
            "v2": shared(1, 500),
            "kout": shared(0.01, 10),
            "base": spread(1, 1000),
            "ic": spread(0.01, 100),
        },
        {"k": 3.0, "cl": 5.0, "v": 20.0, "q": 3.0, "v2": 30.0, "kout": 0.3, "base": 50.0, "ic": 2.0},
        {"k": 0.3, "cl": 0.3, "v": 0.2, "base": 0.15, "ic": 0.4},
        pf.Noise(
            additive={"conc": 0, "response": (0.1, 50)}, proportional={"conc": (0.01, 1), "response": 0}
        ),
        rates,
        lambda p: [0, 0, 0, 0, 0, 0, p["base"]],
        lambda x, p, w: {"conc": x[4] / p["v"], "response": x[6]},
        lambda name, f, p: (
            np.full(len(f), p.get("noise.additive.response", 2.0))
            if name == "response"
            else p.get("noise.proportional.conc", 0.1) * f
        ),
        lambda rng: [Person({"conc": times, "response": times}, ((0.0, 300.0, 0.0),)) for _ in range(30)],
    )


STUDIES = {
    "warfarin": warfarin,
    "two compartments": two_compartments,
    "phenobarbital": phenobarbital,
    "seven states": seven_states,
}


def main(names: list[str]) -> None:
    for name in names or STUDIES:
        study = STUDIES[name]()
        problem, people = simulated(study, 1)
        began = time.process_time()
        fit = pf.fit(problem, progress=False)
        seconds = time.process_time() - began
        print(
            f"{name}: {fit.status.name}, objective {fit.population.objective:.4f} in {seconds:.1f} s",
            flush=True,
        )
        print("  " + ", ".join(f"{k} {fit.parameters[k]:.3g} ({v:.3g})" for k, v in study.truth.items()))
        print(
            "  "
            + ", ".join(
                f"sd({k}) {fit.population.spreads[k].sd:.3g} ({v:.3g})" for k, v in study.omega.items()
            )
        )
        for one in fit.warnings:
            print("  " + str(one))
        print(f"  by SciPy at these estimates: {plain_objective(study, people, fit):.4f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
