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
