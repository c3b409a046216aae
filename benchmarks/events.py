"""Events and switching times: success from poor starts, and coverage of intervals.

    python benchmarks/events.py                       # all of it
    python benchmarks/events.py izhikevich            # one part
    python benchmarks/events.py lag tank --sets 50    # fewer data sets

`izhikevich`: five parameters of a spiking neuron from a voltage trace with noise, from ten poor starts, drawn evenly
from bounds of a factor of 2 to 5 to both sides of the truth. `tank`: a tank that thresholds switch, from ten poor
starts, and the coverage of 95 % intervals. `lag`: a dose after an unknown lag time, coverage. `kink`: the same with a
sample one standard error before the dose, where the likelihood has a kink; coverage of Fisher's intervals and of
profiles. `apart`: these data without that sample. `division`: a cell that grows and divides at a threshold; the number
of divisions differs, coverage. `thermostat`: 33 events, held parameters a little off and an unknown initial
temperature, begun at the truth or not, 12 data sets; eight with two open parameters, one search each from the truth.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import picardfit as pf

NEURON = pf.Model(
    "v' = 0.04*v^2 + 5*v + 140 - u + I\nu' = a*(b*v - u)\nwhen v > 30: v = c; u = u + d", observables=["v"]
)
NEURON_TRUTH = {"I": 10.0, "a": 0.02, "b": 0.2, "c": -65.0, "d": 8.0}
NEURON_BOUNDS = {"I": (4, 25), "a": (0.005, 0.08), "b": (0.06, 0.6), "c": (-130, -35), "d": (2, 30)}

TANK = pf.Model(
    "level' = pump*q - k*level\npump' = 0\nwhen level > high: pump = 0\nwhen level < low: pump = 1",
    observables=["level"],
)
TANK_TRUTH = {"q": 2.0, "k": 0.3, "high": 3.0, "low": 1.0}
TANK_BOUNDS = {"q": (0.5, 8), "k": (0.08, 1.2), "high": (1.2, 9), "low": (0.25, 3)}

LAG = pf.Model("gut' = -ka*gut\nc' = ka*gut/v - ke*c\nwhen t > lag: gut = gut + 10", observables=["c"])
LAG_TRUTH = {"ka": 1.2, "ke": 0.25, "v": 2.0, "lag": 1.5}  # between two samples: see docs/howto/events.md
KINK_TRUTH = {**LAG_TRUTH, "lag": 1.3}  # a sample is at 1.272
LAG_BOUNDS = {"ka": (0.4, 6), "ke": (0.05, 0.39), "v": (0.4, 10), "lag": (0.1, 5)}

CELL = pf.Model("mass' = r*mass\nwhen mass > full: mass = birth", observables=["mass"])
CELL_TRUTH = {"r": 0.45, "full": 2.0}
CELL_BOUNDS = {
    "r": (0.1, 2),
    "full": (1.1, 5),
    "birth": 1.0,
}  # of one equation only log(full/birth) is determined


def measured(model, truth, initial, times, sd, seed):
    """Noisy data of the only observable."""
    (name,) = model.observables
    clean = pf.simulate(
        model, {"birth": 1.0, **truth} if model is CELL else truth, initial, times
    ).observables[name]
    return pf.Experiment(times, {name: clean + sd * np.random.default_rng(seed).standard_normal(len(times))})


def neuron(seed: int) -> pf.Problem:
    data = measured(NEURON, NEURON_TRUTH, {"v": -65.0, "u": -13.0}, np.arange(0.5, 200, 0.5), 1.0, seed)
    return pf.Problem(NEURON, data, NEURON_BOUNDS, {"v": -65.0, "u": -13.0}, noise=pf.Noise(1.0))


def tank(seed: int) -> pf.Problem:
    data = measured(TANK, TANK_TRUTH, {"level": 2.0, "pump": 1.0}, np.linspace(0.2, 20, 80), 0.05, seed)
    return pf.Problem(TANK, data, TANK_BOUNDS, {"level": 2.0, "pump": 1.0}, noise=pf.Noise(0.05))


def lag(seed: int, truth: dict[str, float] = LAG_TRUTH) -> pf.Problem:
    zero = {"gut": 0.0, "c": 0.0}
    data = measured(LAG, truth, zero, np.linspace(0.25, 12, 24), 0.05, seed)
    return pf.Problem(LAG, data, LAG_BOUNDS, zero, noise=pf.Noise(0.05))


def kink(seed: int) -> pf.Problem:
    return lag(seed, KINK_TRUTH)


def apart(seed: int) -> pf.Problem:
    problem = kink(seed)
    (one,) = problem.experiments
    (name,) = LAG.observables
    far = abs(one.times - KINK_TRUTH["lag"]) > 0.1
    data = pf.Experiment(one.times[far], {name: np.asarray(one.values)[far, 0]})
    return pf.Problem(LAG, data, LAG_BOUNDS, {"gut": 0.0, "c": 0.0}, noise=pf.Noise(0.05))


def division(seed: int) -> pf.Problem:
    """A culture that begins at a random mass, so that it divides four to six times."""
    begin = float(np.random.default_rng([seed, 1]).uniform(1.0, 1.95))
    data = measured(CELL, CELL_TRUTH, {"mass": begin}, np.linspace(0.2, 8, 40), 0.03, seed)
    return pf.Problem(CELL, data, CELL_BOUNDS, {"mass": (0.5, 3)}, noise=pf.Noise(0.03))


ROOM = pf.Model(
    "T' = (on*heat - loss*(T - outside))/2\non' = 0\nwhen T > 21.5: on = 0\nwhen T < 19.5: on = 1",
    observables=["T"],
    inputs=["outside"],
)
ROOM_TRUTH = {"heat": 6.0, "loss": 0.15}


def room(begin: float, rng: np.random.Generator) -> pf.Experiment:
    """Two days of temperatures every 15 minutes."""
    times, outside = np.arange(0, 48, 0.25), {"outside": "3 + 5*sin(2*3.14159265*(t - 9)/24)"}
    clean = pf.simulate(ROOM, ROOM_TRUTH, {"T": begin, "on": 1.0}, times, outside).observables["T"]
    noisy = np.round(clean + 0.15 * rng.standard_normal(len(times)), 3)
    return pf.Experiment(times, {"T": noisy}, inputs=outside)


def heated(data: pf.Experiment, parameters: dict) -> pf.Problem:
    return pf.Problem(ROOM, data, parameters, {"T": (15, 25), "on": 1.0}, noise=pf.Noise(0.15))


def thermostat() -> None:
    """How often the optimum is reached: at most as high as the truth, or within 0.5 K of it with held parameters."""
    begins, reached = (18.0, 20.5), 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        days = [room(begin, rng) for begin in begins]
        for begin, day in zip(begins, days, strict=True):
            shifts = {
                name: 1 + size * rng.standard_normal() for name, size in (("heat", 0.004), ("loss", 0.002))
            }
            problem = heated(day, {name: ROOM_TRUTH[name] * shift for name, shift in shifts.items()})
            for start in (None, {"T": begin}):
                fit = pf.fit(problem, start_initial=start, progress=False)
                reached += fit.success and abs(fit.initial_states["experiment 1"]["T"] - begin) < 0.5
    print(f"thermostat: {reached} of 24 initial temperatures with held parameters", flush=True)
    reached = 0
    for seed in range(8):
        initial = {"T": begins[seed % 2]}
        problem = heated(
            room(initial["T"], np.random.default_rng(seed)), {"heat": (0.2, 20), "loss": (0.01, 1)}
        )
        one = pf.SearchPolicy(most=1)
        fit = pf.fit(problem, start=ROOM_TRUTH, start_initial=initial, policy=one, progress=False)
        reached += fit.success and fit.nllh <= problem.nllh(ROOM_TRUTH, initial)
    print(f"thermostat: {reached} of 8 single searches from the truth", flush=True)


PARTS = {
    "izhikevich": (neuron, NEURON_TRUTH, False),
    "tank": (tank, TANK_TRUTH, True),
    "lag": (lag, LAG_TRUTH, True),
    "kink": (kink, KINK_TRUTH, True),
    "apart": (apart, KINK_TRUTH, True),
    "division": (division, CELL_TRUTH, True),
}


def poor_start(problem: pf.Problem, seed: int) -> dict[str, float]:
    """Values drawn evenly between the bounds."""
    rng = np.random.default_rng(seed)
    free = {name: one.bounds for name, one in problem.parameters.items() if one.fixed is None}
    return {name: float(rng.uniform(*bounds)) for name, bounds in free.items()}


def starts(name: str, count: int) -> None:
    """Fits from poor starts of one data set each."""
    make, truth, _ = PARTS[name]
    reached, seconds = 0, []
    for seed in range(count):
        problem, begun = make(seed), time.perf_counter()
        fit = pf.fit(problem, start=poor_start(problem, 100 + seed), progress=False)
        seconds.append(time.perf_counter() - begun)
        errors = fit.standard_errors
        near = all(abs(fit.parameters[n] - truth[n]) < 5 * errors[n] for n in truth)
        good = fit.nllh <= problem.nllh(truth, fit.initial_states) + 1e-6
        reached += bool(fit.success and near and good)
        print(
            f"  start {seed}: {fit.status.name}, {seconds[-1]:.1f} s, reached: {fit.success and near and good}",
            flush=True,
        )
    print(f"{name}: {reached} of {count} poor starts, {np.median(seconds):.1f} s a fit")


def coverage(name: str, count: int, every: int = 20) -> None:
    """How many 95 % intervals hold the truth, of fits by one search each; a line for every 20 data sets."""
    make, truth, _ = PARTS[name]
    hits, events, told = dict.fromkeys(truth, 0), [], 0
    profiled = dict.fromkeys(truth, 0)
    for seed in range(count):
        fit = pf.fit(make(seed), policy=pf.SearchPolicy(most=1), progress=False)
        if fit.success:
            events.append(len(fit.solution.system.mesh.schedule[0]))
            intervals = fit.intervals(0.95)
            for parameter, value in truth.items():
                low, high = intervals[parameter]
                hits[parameter] += low <= value <= high
            if name == "kink":
                told += "search.event_at_sample" in [one.code for one in fit.warnings]
                for parameter, value in truth.items():
                    low, high = fit.profile(parameter).interval(0.95)
                    profiled[parameter] += low <= value <= high
        else:
            print(f"  data set {seed}: {fit.status.name}", flush=True)
        if (seed + 1) % every == 0 or seed + 1 == count:
            shares = {parameter: f"{100 * n / max(len(events), 1):.1f} %" for parameter, n in hits.items()}
            print(
                f"{name}: {len(events)} of {seed + 1} fits succeeded, {min(events)} to {max(events)} events; "
                f"coverage {100 * sum(hits.values()) / (len(events) * len(hits)):.1f} %, {shares}",
                flush=True,
            )
            if name == "kink":
                shares = {one: f"{100 * n / max(len(events), 1):.1f} %" for one, n in profiled.items()}
                print(f"  profiles: {shares}; {told} fits say that a sample is beside the event", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS, "thermostat"], default=[])
    parser.add_argument("--sets", type=int, default=200, help="data sets for coverage")
    parser.add_argument("--starts", type=int, default=10, help="poor starts")
    given = parser.parse_args()
    for name in given.parts or (*PARTS, "thermostat"):
        if name == "thermostat":
            thermostat()
            continue
        if name in ("izhikevich", "tank"):
            starts(name, given.starts)
        if PARTS[name][2] and given.sets:
            coverage(name, given.sets)


if __name__ == "__main__":
    main()
