"""Periods of PEtab version 2 against SciPy's integrators, called here period by period."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import picardfit as pf

pytest.importorskip("libsbml", reason="PEtab problems need python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("yaml", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")

import yaml

from picardfit.importers import petab

HERE = Path(__file__).parent / "data"
K1, K2 = 0.8, 0.6
TABLES = {
    "parameter": [
        "parameterId lowerBound upperBound nominalValue estimate",
        "k1 0.01 100 0.8 true",
        "k2 0 10 0.6 true",
        "dose 0 10 2 true",
    ],
    "observable": ["observableId observableFormula noiseFormula", "obs_a A 0.5", "obs_b B 0.5"],
}


def table(*lines: str) -> str:
    return "\n".join("\t".join("" if w == "-" else w for w in line.split()) for line in lines) + "\n"


def rate(beta: float, x: np.ndarray) -> list[float]:
    """A' and B' of the model in data/model.xml, in which the volume of B is 2."""
    flux = beta * K1 * x[0] - K2 * x[1]
    return [-flux, flux]


def moved(x, beta: float, length: float) -> np.ndarray:
    if length == 0:
        return np.array(x, float)
    found = solve_ivp(lambda _, x: rate(beta, x), (0, length), x, method="LSODA", rtol=1e-11, atol=1e-12)
    return found.y[:, -1]


@pytest.fixture
def simulate(tmp_path):
    """The simulated observables of a problem with these periods, at times of an experiment."""

    def run(experiments, conditions, times: dict[str, list[float]], mapping=(), **tables) -> dict:
        content: dict = {"format_version": "2.0.0"}
        content["model_files"] = {"exchange": {"location": "model.xml", "language": "sbml"}}
        measurements = [
            f"{observable} {experiment} {t} 1.0"
            for experiment, own in times.items()
            for t in own
            for observable in ("obs_a", "obs_b")
        ]
        tables = TABLES | {
            "experiment": ["experimentId time conditionId", *experiments],
            "condition": ["conditionId targetId targetValue", *conditions],
            "measurement": ["observableId experimentId time measurement", *measurements],
            **({"mapping": ["petabEntityId modelEntityId name", *mapping]} if mapping else {}),
            **tables,
        }
        for kind, lines in tables.items():
            (tmp_path / f"{kind}s.tsv").write_text(table(*lines))
            content[f"{kind}_files"] = [f"{kind}s.tsv"]
        shutil.copy(HERE / "model.xml", tmp_path)
        (tmp_path / "problem.yaml").write_text(yaml.safe_dump(content))
        imported = petab.load(tmp_path / "problem.yaml")
        found = petab.simulate(imported, imported.problem.nominal)
        rows = zip(found["experimentId"], found["observableId"], found["time"], strict=True)
        return {
            (e, o, float(t)): v for (e, o, t), v in zip(rows, found["simulation"].tolist(), strict=True)
        } | {"problem": imported.problem}

    return run


def both(found: dict, experiment: str, time: float) -> list[float]:
    return [found[experiment, "obs_a", time], found[experiment, "obs_b", time]]


def test_states_and_constants_change_at_several_times(simulate):
    experiments = ["e 0 -", "e 2 shot", "e 3 fast", "e 4 shot", "e 4 slow"]
    conditions = ["shot A A+dose", "fast beta 3", "slow beta 0.5"]
    found = simulate(experiments, conditions, {"e": [1.0, 2.0, 3.0, 4.0, 5.0]})
    x = moved([3.0, 0.5], 1.0, 1.0)
    assert both(found, "e", 1.0) == pytest.approx(x, rel=1e-7)
    x = moved(x, 1.0, 1.0) + np.array([2.0, 0.0])
    assert both(found, "e", 2.0) == pytest.approx(x, rel=1e-7)
    x = moved(x, 1.0, 1.0)
    assert both(found, "e", 3.0) == pytest.approx(x, rel=1e-7)
    x = moved(x, 3.0, 1.0) + np.array([2.0, 0.0])
    assert both(found, "e", 4.0) == pytest.approx(x, rel=1e-7)
    assert both(found, "e", 5.0) == pytest.approx(moved(x, 0.5, 1.0), rel=1e-7)
    assert found["problem"].breaks(0) == (2.0, 3.0, 4.0)


def test_experiments_with_changes_at_different_times(simulate):
    experiments = ["e 0 -", "e 1 swap", "f -1 half", "f 2 swap", "f 3 set", "g 0 -"]
    conditions = ["swap A B", "swap B A", "half beta 0.5", "set A 4", "set B dose*time"]
    found = simulate(experiments, conditions, {"e": [2.0], "f": [1.0, 2.0, 4.0], "g": [2.0]})
    assert both(found, "g", 2.0) == pytest.approx(moved([3.0, 0.5], 1.0, 2.0), rel=1e-7)
    x = moved([3.0, 0.5], 1.0, 1.0)[::-1]
    assert both(found, "e", 2.0) == pytest.approx(moved(x, 1.0, 1.0), rel=1e-7)
    x = moved([3.0, 0.5], 0.5, 3.0)[::-1]
    assert both(found, "f", 2.0) == pytest.approx(x, rel=1e-7)
    assert both(found, "f", 4.0) == pytest.approx(moved([4.0, 6.0], 0.5, 1.0), rel=1e-7)


def test_a_constant_that_is_set_to_a_formula_of_states(simulate):
    experiments = ["e 0 -", "e 1 feel", "e 2 more", "f 0 -", "f 1 plain"]
    conditions = ["feel beta A*B", "more beta beta+1", "more A 1", "plain beta 2"]
    found = simulate(experiments, conditions, {"e": [1.5, 3.0], "f": [2.0]})
    x = moved([3.0, 0.5], 1.0, 1.0)
    beta = x[0] * x[1]
    assert both(found, "e", 1.5) == pytest.approx(moved(x, beta, 0.5), rel=1e-7)
    x = [1.0, moved(x, beta, 1.0)[1]]
    assert both(found, "e", 3.0) == pytest.approx(moved(x, beta + 1, 1.0), rel=1e-7)
    x = moved([3.0, 0.5], 1.0, 1.0)
    assert both(found, "f", 2.0) == pytest.approx(moved(x, 2.0, 1.0), rel=1e-7)


def test_a_pre_equilibration_before_changes_of_states(simulate):
    experiments = ["e -inf slow", "e 5 shot", "e 6 slow", "f -inf slow", "f 5 plain"]
    conditions = ["slow beta 0.25", "shot A A+B", "shot B 1", "shot beta 2*beta", "plain A 2"]
    found = simulate(experiments, conditions, {"e": [5.0, 6.0, 7.0], "f": [6.0]})
    a = 3.5 * K2 / (0.25 * K1 + K2)
    x = [3.5, 1.0]
    assert both(found, "e", 5.0) == pytest.approx(x, rel=1e-7)
    x = moved(x, 0.5, 1.0)
    assert both(found, "e", 6.0) == pytest.approx(x, rel=1e-7)
    assert both(found, "e", 7.0) == pytest.approx(moved(x, 0.25, 1.0), rel=1e-7)
    assert both(found, "f", 6.0) == pytest.approx(moved([2.0, 3.5 - a], 0.25, 1.0), rel=1e-7)


def test_periods_that_nobody_measures_are_not_simulated(simulate):
    found = simulate(["e 0 -", "e 2 shot", "e 9 shot"], ["shot A A+dose"], {"e": [1.0]})
    assert found["problem"].breaks(0) == ()
    assert both(found, "e", 1.0) == pytest.approx(moved([3.0, 0.5], 1.0, 1.0), rel=1e-7)


def test_other_names_for_what_the_model_has(simulate):
    mapping = ["factor beta -", "first A -", "shot - a_name"]
    conditions = ["shot factor 2", "shot first first+1"]
    found = simulate(["e 0 -", "e 1 shot"], conditions, {"e": [2.0]}, mapping)
    x = moved([3.0, 0.5], 1.0, 1.0) + np.array([1.0, 0.0])
    assert both(found, "e", 2.0) == pytest.approx(moved(x, 2.0, 1.0), rel=1e-7)


@pytest.mark.parametrize("row, code", [("first nowhere -", "mapping_unknown"), ("beta A -", "mapping_taken")])
def test_wrong_mappings(simulate, row, code):
    with pytest.raises(pf.InputError) as caught:
        simulate(["e 0 -"], [], {"e": [2.0]}, [row])
    assert caught.value.code == f"importers.{code}"
    assert caught.value.place.line == 2


def test_what_later_periods_set_is_estimated(simulate):
    times = np.linspace(0, 6, 13).tolist()
    experiments, conditions = (
        ["e 0 -", "e 2 shot", "e 4 half"],
        ["shot A A+dose", "half A A/2", "half beta dose"],
    )
    found = simulate(experiments, conditions, {"e": times})
    rows = [f"{o} e {t} {found['e', o, t]!r}" for t in times for o in ("obs_a", "obs_b")]
    head = "observableId experimentId time measurement"
    problem = simulate(experiments, conditions, {"e": times}, measurement=[head, *rows])["problem"]
    fit = pf.fit(problem, start={"k1": 0.3, "k2": 2.0, "dose": 6.0})
    assert fit.success
    assert fit.parameters == pytest.approx({"k1": 0.8, "k2": 0.6, "dose": 2.0}, rel=1e-5)


EVENTFUL = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2"><model id="m">
<listOfParameters>
<parameter id="A" value="1" constant="false"/><parameter id="B" value="0" constant="false"/>
<parameter id="k1" value="1" constant="true"/><parameter id="beta" value="1" constant="false"/>
</listOfParameters>
<listOfRules>
<rateRule variable="A"><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/><ci>k1</ci><ci>beta</ci></apply>
</math></rateRule>
</listOfRules>
<listOfEvents><event id="full" useValuesFromTriggerTime="false">
<trigger initialValue="INITIAL" persistent="true"><math xmlns="http://www.w3.org/1998/Math/MathML">
<apply><geq/><ci>A</ci><cn>3</cn></apply></math></trigger>
<listOfEventAssignments>
<eventAssignment variable="A"><math xmlns="http://www.w3.org/1998/Math/MathML"><cn>1</cn></math></eventAssignment>
<eventAssignment variable="B"><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><plus/><ci>B</ci><cn>1</cn></apply>
</math></eventAssignment>
</listOfEventAssignments></event></listOfEvents></model></sbml>
"""


@pytest.fixture
def eventful(simulate, monkeypatch):
    """`simulate` with a model in which A grows and falls back to 1 at 3, and B counts how often."""

    def run(*given, initial="true", **more):
        model = EVENTFUL.replace("INITIAL", initial)
        monkeypatch.setattr(shutil, "copy", lambda _, folder: (folder / "model.xml").write_text(model))
        return simulate(*given, **more)

    return run


def test_an_event_waits_for_a_state_that_a_period_sets(eventful):
    experiments = ["e 0 -", "e 2 more", "e 4 fast"]
    conditions = ["more A A+1.5", "fast beta 2"]
    found = eventful(experiments, conditions, {"e": [1.0, 2.0, 3.0, 5.0]})
    k = K1
    assert both(found, "e", 1.0) == pytest.approx([1 + k, 0])
    # 1 + 2 k + 1.5 = 4.1 at t = 2: the event fires at once
    assert both(found, "e", 2.0) == pytest.approx([1.0, 1])
    assert both(found, "e", 3.0) == pytest.approx([1 + k, 1])
    # 1 + 2 k = 2.6 at t = 4, and 3 a quarter later
    assert both(found, "e", 5.0) == pytest.approx([1 + 2 * k * (1 - 0.4 / (2 * k)), 2])


def test_a_condition_that_holds_at_the_beginning(eventful):
    experiments, conditions = ["e 0 high", "f 5 high"], ["high A 4", "high beta -1"]
    times = {"e": [1.0], "f": [6.0]}
    found = eventful(experiments, conditions, times)
    assert both(found, "e", 1.0) == pytest.approx([4 - K1, 0])
    found = eventful(experiments, conditions, times, initial="false")
    assert both(found, "e", 1.0) == pytest.approx([1 - K1, 1])
    assert both(found, "f", 6.0) == pytest.approx([1 - K1, 1])


def test_a_fit_of_a_problem_with_events_is_saved(eventful, tmp_path):
    experiments, conditions = ["e 0 -", "e 2 more"], ["more A A+dose"]
    times = np.linspace(0.25, 8, 32).tolist()
    parameter = [
        "parameterId lowerBound upperBound nominalValue estimate",
        "k1 0.3 2 0.8 true",
        "dose 0.1 5 0.2 true",
    ]
    found = eventful(experiments, conditions, {"e": times}, parameter=parameter)
    rows = [f"obs_a e {t} {found['e', 'obs_a', t] + 0.01 * (-1) ** n!r}" for n, t in enumerate(times)]
    head = "observableId experimentId time measurement"
    observable = ["observableId observableFormula noiseFormula", "obs_a A 0.1"]
    problem = eventful(
        experiments,
        conditions,
        {"e": times},
        measurement=[head, *rows],
        parameter=parameter,
        observable=observable,
    )["problem"]
    fit = pf.fit(problem, progress=False)
    assert fit.success
    assert fit.parameters == pytest.approx({"k1": 0.8, "dose": 0.2}, abs=0.02)
    fit.save(tmp_path / "fit.json")
    again = pf.load(tmp_path / "fit.json")
    assert again.problem.model.events == problem.model.events
