"""Exported fits in the programs they are meant for, against our own solution.

    python benchmarks/exports.py [--only lorenz] [--format sbml] [--stan]

Every starter, every problem of the paper (the tumour with all five dosings), a clinic with doses, infusions, tables,
resets and covariates, and models with events and an unknown switching time are fitted and exported to each format.
Each experiment is then simulated by each program that is installed: SciPy; CasADi; libroadrunner and COPASI for SBML
and, through antimony, for Antimony; rumoca for Modelica; Stan itself (--stan: a program takes a minute to compile). The
table shows the largest difference of any state or observable from `pf.simulate` at the estimates, relative to the
largest value it has in any experiment.

    pip install casadi libroadrunner antimony copasi-basico rumoca pystan
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import picardfit as pf

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from exported import STARTERS as NAMES
from exported import (
    ball_fit,
    clinic_fit,
    increments_fit,
    lag_fit,
    loaded,
    our_solution,
    starter_fit,
    switch_fit,
)

POINTS = 42  # times over each experiment
Curves = dict[str, np.ndarray]


def problems() -> dict[str, Callable[[], pf.Fit]]:
    """Functions that give the fits, by name."""
    found: dict[str, Callable[[], pf.Fit]] = {name: (lambda name=name: starter_fit(name)) for name in NAMES}
    for name, module in pf.examples.ALL.items():
        options = {"inputs": (1, 2, 3, 4, 5)} if name == "tumor" else {}
        found[f"paper: {name}"] = lambda module=module, options=options: pf.fit(module.generate(**options))
    found |= {"clinic": clinic_fit, "clinic, increments": increments_fit}
    return found | {"bouncing ball": ball_fit, "lag": lag_fit, "switching time": switch_fit}


# ---- programs: (path of the file, experiment, t0, times) -> curves by name -------------------------------------------


def python(path: Path, name: str, t0: float, times: np.ndarray) -> Curves:
    return loaded(path).simulate(name, times)


def roadrunner(path: Path, name: str, t0: float, times: np.ndarray) -> Curves:
    import roadrunner

    engine = roadrunner.RoadRunner(path.read_text(encoding="utf-8"))
    engine.integrator.relative_tolerance, engine.integrator.absolute_tolerance = 1e-10, 1e-13
    engine.integrator.maximum_num_steps = 100_000
    ids = engine.model.getGlobalParameterIds()
    table = engine.simulate(0.0, times[-1] - t0, len(times), ["time", *ids])
    return {one: np.asarray(table[:, k + 1]) for k, one in enumerate(ids)}


def copasi(path: Path, name: str, t0: float, times: np.ndarray) -> Curves:
    import basico

    model = basico.load_model_from_string(path.read_text(encoding="utf-8"))
    options = {"r_tol": 1e-11, "a_tol": 1e-14, "use_initial_values": True, "max_steps": 1_000_000}
    table = basico.run_time_course(0.0, times[-1] - t0, len(times) - 1, model=model, **options)
    basico.remove_datamodel(model)
    rows = [int(np.argmin(np.abs(table.index.to_numpy() - (t - t0)))) for t in times]
    return {one.removeprefix("Values[").removesuffix("]"): table[one].to_numpy()[rows] for one in table}


def rumoca(path: Path, name: str, t0: float, times: np.ndarray) -> Curves:
    import rumoca

    step = (times[-1] - times[0]) / (len(times) - 1)
    settings = rumoca.SimConfig(solver="bdf", rtol=1e-9, atol=1e-12)
    model = rumoca.Session().load(path, model=path.stem)
    found = model.simulate((times[0], times[-1]), dt=step, config=settings)
    rows = [int(np.flatnonzero(np.isclose(found.time, t, rtol=0, atol=1e-9 * step))[-1]) for t in times]
    return {one: np.asarray(found[one])[rows] for one in found.names}


def from_antimony(program: Callable[..., Curves]) -> Callable[..., Curves]:
    """A program that reads SBML, given a file of Antimony."""

    def run(path: Path, name: str, t0: float, times: np.ndarray) -> Curves:
        import antimony

        antimony.clearPreviousLoads()
        if antimony.loadAntimonyFile(str(path)) < 0:
            raise ValueError(antimony.getLastError())
        back = path.with_suffix(".xml")
        back.write_text(antimony.getSBMLString(antimony.getMainModuleName()), encoding="utf-8")
        return program(back, name, t0, times)

    return run


PROGRAMS = [  # format, ending, program, package, how to run it
    ("python", "model.py", "SciPy", "scipy", python),
    ("casadi", "model_casadi.py", "CasADi", "casadi", python),
    ("sbml", "model.xml", "roadrunner", "roadrunner", roadrunner),
    ("sbml", "model.xml", "COPASI", "basico", copasi),
    ("antimony", "model.ant", "roadrunner", "roadrunner", from_antimony(roadrunner)),
    ("modelica", "Fitted.mo", "rumoca", "rumoca", rumoca),
    ("stan", "model.stan", "Stan", "stan", None),
]


def cells(fit: pf.Fit, wanted: list[tuple]) -> Iterator[str]:
    """The largest relative difference of each program, or why there is none."""
    spans = {one.name: np.linspace(one.t0, one.times[-1], POINTS) for one in fit.problem.experiments}
    ours = {name: our_solution(fit, name, times) for name, times in spans.items()}
    for format, file, _, package, run in wanted:
        if find_spec(package) is None:
            yield "not installed"
            continue
        try:
            if run is None:
                yield f"{by_stan(fit):.1e}"
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = {}
                for one in fit.problem.experiments:
                    path = fit.export(Path(folder) / file, format, one.name)
                    found[one.name] = run(path, one.name, one.t0, spans[one.name])
        except pf.InputError as error:
            yield f"refused: {error.code.split('.')[1]}"
            continue
        yield f"{difference(found, ours):.1e}"


def difference(found: dict[str, Curves], ours: dict[str, Curves]) -> float:
    """Of all curves, relative to the largest value of each in any experiment."""
    worst = 0.0
    for name in next(iter(ours.values())):
        size = max(float(np.abs(one[name]).max()) for one in ours.values())
        shown = name if all(name in one for one in found.values()) else name.removesuffix("_observed")
        gap = max(float(np.abs(found[e][shown] - ours[e][name]).max()) for e in ours)
        worst = max(worst, gap / size if size else gap)
    return worst


def by_stan(fit: pf.Fit) -> float:
    """The states at the stops of the program, which is compiled and run once at the estimates."""
    import stan

    with tempfile.TemporaryDirectory() as folder:
        path = fit.export(Path(folder) / "model.stan")
        data, init = (json.loads(path.with_suffix(end).read_text()) for end in (".data.json", ".init.json"))
        finer = {name: data[name] / 100 for name in ("relative_tolerance", "absolute_tolerance")}
        model = stan.build(path.read_text(encoding="utf-8"), data=data | finer, random_seed=1)
    states = model.fixed_param(num_chains=1, num_samples=1, init=[init])["state"][..., 0]  # (stops, states)
    worst, names = 0.0, fit.problem.model.states
    first = [data["begins_at"][k] - 1 for k, begins in enumerate(data["is_first"]) if begins]
    for e, (begin, end) in enumerate(zip(first, [*first[1:], data["n_stops"]], strict=True)):
        times = np.array(data["stop"][begin:end])
        ours = our_solution(fit, fit.problem.names[e], times)
        for k, name in enumerate(names):
            size = max(np.abs(states[:, k]).max(), 1e-300)
            worst = max(worst, float(np.abs(states[begin:end, k] - ours[name]).max() / size))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--format", default="", help="one format")
    parser.add_argument(
        "--stan", action="store_true", help="compile and run the Stan programs, a minute each"
    )
    given = parser.parse_args()
    wanted = [one for one in PROGRAMS if given.format in one[0] and (given.stan or one[0] != "stan")]
    print("| problem |", *(f"{format}: {program} |" for format, _, program, _, _ in wanted))
    print("|---" * (len(wanted) + 1) + "|")
    for title, make in problems().items():
        if given.only in title:
            print(f"| {title} |", *(f"{cell} |" for cell in cells(make(), wanted)), flush=True)


if __name__ == "__main__":
    main()
