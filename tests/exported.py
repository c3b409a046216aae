"""Fits to export, and our own solution to compare the exports with."""

import importlib.util
from functools import cache
from importlib.resources import files

import numpy as np

import picardfit as pf
from picardfit.files.problem_file import read_problem_file

ONCE = pf.SearchPolicy(most=1)
STARTERS = ("fitzhugh-nagumo", "influenza", "lotka-volterra", "pharmacokinetics", "van-der-pol")
TIMES = np.linspace(0.5, 8, 16)
EQUATIONS = """
    clearance = lambda*(weight/70)^0.75
    gut' = -ka*gut + feed
    blood' = ka*gut - clearance*blood/β + 0.1*where(t > 2 and t < 2.5, max(u, 0), abs(sin(t)))
    out' = clearance*blood
"""


def clinic(observables=None, **options) -> pf.Problem:
    """Doses, an infusion, formulas, tables of both kinds, covariates, a reset, a local parameter, odd names."""
    observables = observables or {"conc": "blood/β", "out": "2*out"}
    model = pf.Model(EQUATIONS, observables, inputs=["feed", "u"], covariates=["weight"])
    given = {name: np.ones(16) for name in observables}
    steps, lines = pf.Table([0, 2, 5], [0, 1, 0.3]), pf.Table([0, 1, 3, 3, 6], [0, 1, 2, 0, 1], "linear")
    nothing = {"gut": 0, "blood": 0, "out": 0}
    doses = [pf.Doses([0, 3.25], 10, into="gut"), pf.Doses([4.2], 5, into="blood", duration=1.3)]
    formula = {"feed": "where(t < 1, exp(-t), 0)", "u": lines}
    one = pf.Experiment(TIMES, given, "one", formula, nothing, 0.0, doses=doses, covariates={"weight": 80})
    two = pf.Experiment(
        TIMES,
        given,
        "two",
        {"feed": steps, "u": 0.4},
        {**nothing, "gut": 1},
        0.0,
        covariates={"weight": 60},
        resets=options.pop("resets", [4.1]),
    )
    parameters = {"lambda": (0.1, 5), "ka": pf.Parameter(0.1, 5, local=True), "β": (0.5, 10)}
    problem = pf.Problem(model, [one, two], parameters, **options)
    truth = {"lambda": 1.3, "ka": {"one": 1.1, "two": 0.7}, "β": 3.0}
    return problem.simulate_data(truth, sd=None if "noise" in options else 0.02)


@cache
def clinic_fit() -> pf.Fit:
    return pf.fit(clinic(), policy=ONCE)


@cache
def increments_fit() -> pf.Fit:
    """The clinic, where what left the body is collected from sample to sample."""
    return pf.fit(clinic({"conc": "blood/β", "lost": "increment(out)"}, resets=[]), policy=ONCE)


@cache
def starter_fit(name: str) -> pf.Fit:
    folder = files("picardfit") / "examples" / "starters" / name
    return pf.fit(read_problem_file(folder / "problem.toml").with_data, policy=ONCE)


@cache
def paper_fit(name: str) -> pf.Fit:
    return pf.fit(pf.examples.ALL[name].generate(), policy=ONCE)


def every_fit() -> dict:
    """Functions that give the fits of all starters and of the paper's problems, by name."""
    found = {name: (lambda name=name: starter_fit(name)) for name in STARTERS}
    return found | {f"paper {name}": (lambda name=name: paper_fit(name)) for name in pf.examples.ALL}


def span(fit, name, count=42) -> np.ndarray:
    """Times over the data of an experiment, without its own (doses may coincide with those)."""
    one = fit.problem.experiments[fit.problem.names.index(name)]
    return np.linspace(one.t0, one.times[-1], count)


def our_solution(fit, name, times) -> dict:
    """States and observables by an independent integration at the estimates."""
    one = fit.problem.experiments[fit.problem.names.index(name)]
    found = pf.simulate(
        fit.problem.model,
        fit.parameters_of(name),
        fit.initial_states[name],
        times,
        one.inputs,
        one.t0,
        doses=one.doses,
        covariates=one.covariates,
        resets=one.resets,
    )
    own = {
        name if name not in found.states else f"{name}_observed": y for name, y in found.observables.items()
    }
    return own | found.states


def difference(found, ours) -> float:
    """The largest difference of what both have, relative to the largest value of each."""
    common = [name for name in ours if name in found]
    assert set(common) >= {name for name in ours if not name.endswith("_observed")}
    return max(
        float(np.abs(np.asarray(found[name]) - ours[name]).max() / max(np.abs(ours[name]).max(), 1e-6))
        for name in common
    )


def loaded(path):
    """An exported Python file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ball_fit() -> pf.Fit:
    """A ball that bounces: events that wait for a state, which only SciPy's format holds."""
    model = pf.Model(
        "height' = velocity\nvelocity' = -g\nwhen height < 0: velocity = -e*velocity", observables=["height"]
    )
    times = np.linspace(0.02, 2.5, 80)
    clean = pf.simulate(model, {"g": 9.81, "e": 0.8}, {"height": 1.0, "velocity": 0.0}, times)
    noise = 0.02 * np.random.default_rng(3).standard_normal(len(times))
    data = pf.Experiment(times, {"height": clean.observables["height"] + noise}, name="ball")
    bounds, initial = {"g": (2, 40), "e": (0.2, 1)}, {"height": (0.2, 5), "velocity": (-5, 5)}
    return pf.fit(pf.Problem(model, data, bounds, initial))


def lag_fit() -> pf.Fit:
    """A dose after an unknown lag."""
    model = pf.Model("gut' = -ka*gut\nc' = ka*gut/v - ke*c\nwhen t > lag: gut = gut + 10", observables=["c"])
    times, truth = np.linspace(0, 12, 30), {"ka": 1.5, "v": 2, "ke": 0.3, "lag": 1.3}
    clean = pf.simulate(model, truth, {"gut": 0, "c": 0}, times).observables["c"]
    noise = 0.05 * np.random.default_rng(4).standard_normal(len(times))
    bounds = {"ka": (0.5, 10), "v": (0.2, 20), "ke": (0.01, 0.5), "lag": (0, 4)}
    return pf.fit(
        pf.Problem(model, pf.Experiment(times, {"c": clean + noise}, name="lag"), bounds, {"gut": 0, "c": 0})
    )


def switch_fit() -> pf.Fit:
    """An unknown time in an equation."""
    model = pf.Model("x' = a*(t < t_switch) - k*x")
    times, truth = np.linspace(0, 12, 30), {"a": 2, "k": 0.5, "t_switch": 5.2}
    clean = pf.simulate(model, truth, {"x": 0}, times).observables["x"]
    noise = 0.05 * np.random.default_rng(5).standard_normal(len(times))
    bounds = {"a": (0.1, 10), "k": (0.01, 5), "t_switch": (1, 10)}
    return pf.fit(
        pf.Problem(model, pf.Experiment(times, {"x": clean + noise}, name="switch"), bounds, {"x": 0})
    )
