"""Small SBML models against libRoadRunner, an independent simulator: right to 1e-6, or refused by name."""

import re
from pathlib import Path

import numpy as np
import pytest
import sympy

import picardfit as pf
from picardfit.importers import sbml
from sbml_models import ANTIMONY, RAW, REFUSED, REFUSED_ANTIMONY

libsbml = pytest.importorskip("libsbml", reason="SBML needs python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("antimony", reason="Antimony needs its library: pip install 'picardfit[sbml]'")


TIMES = np.array([0.0, 0.31, 0.77, 1.13, 1.61, 2.03, 2.47, 2.93, 3.37, 4.09, 4.71, 5.3])
NAMESPACES = {(3, 1): "level3/version1/core", (3, 2): "level3/version2/core"}


def written(folder: Path, level: tuple[int, int], body: str) -> Path:
    """A file with this body, in which {{formula}} stands for its MathML."""

    def math(match: re.Match) -> str:
        settings = libsbml.L3ParserSettings()
        node = libsbml.parseL3FormulaWithSettings(match[1], settings)
        assert node is not None, libsbml.getLastParseL3Error()
        return libsbml.writeMathMLToString(node).split("?>", 1)[1]

    path = folder / "model.xml"
    path.write_text(
        f'<?xml version="1.0" encoding="UTF-8"?><sbml xmlns="http://www.sbml.org/sbml/{NAMESPACES[level]}" '
        f'level="{level[0]}" version="{level[1]}"><model id="m">{re.sub("{{(.*?)}}", math, body)}</model></sbml>'
    )
    return path


def translated(folder: Path, text: str) -> Path:
    """The SBML file of a model in Antimony."""
    (folder / "model.ant").write_text(text)
    path = folder / "model.xml"
    libsbml.writeSBMLToFile(sbml.read_document(folder / "model.ant"), str(path))
    return path


def model_file(name: str, folder: Path) -> tuple[Path, list[str]]:
    if name in ANTIMONY:
        text, names = ANTIMONY[name]
        return translated(folder, text), names.split()
    level, body, names = RAW[name]
    return written(folder, level, body), names.split()


def ours(path: Path, names: list[str]) -> np.ndarray:
    """(names, times)"""
    system = sbml.load(path)
    model = system.model(names)
    start = system.start({name: sympy.Float(value) for name, value in system.values.items()})
    values = {name: system.values[name] for name in model.parameters}
    initial = {state: float(start[state]) for state in model.states}
    run = pf.simulate(model, values, initial, TIMES, t0=0.0)
    return np.array([run.observables[name] for name in names])


def theirs(path: Path, names: list[str]) -> np.ndarray:
    """(names, times) by libRoadRunner; species are concentrations unless the file says otherwise."""
    roadrunner = pytest.importorskip(
        "roadrunner", reason="the comparison needs libroadrunner: pip install libroadrunner"
    )
    document = libsbml.readSBML(str(path))  # its elements live as long as it does
    species = {one.getId(): one.getHasOnlySubstanceUnits() for one in document.getModel().getListOfSpecies()}
    runner = roadrunner.RoadRunner(path.read_text())
    runner.integrator.relative_tolerance, runner.integrator.absolute_tolerance = 1e-10, 1e-12
    runner.integrator.setValue("maximum_time_step", 0.01)  # otherwise it steps over short events
    runner.timeCourseSelections = ["time", *(n if species.get(n, True) else f"[{n}]" for n in names)]
    return np.array(runner.simulate(times=list(TIMES)))[:, 1:].T


RIGHT = [name for name in (*ANTIMONY, *RAW) if name not in REFUSED_ANTIMONY]


def test_there_are_many_models():
    assert len(RIGHT) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_a_model_is_simulated_as_by_roadrunner(name, tmp_path):
    path, names = model_file(name, tmp_path)
    expected = theirs(path, names)
    size = np.maximum(np.abs(expected).max(axis=1, keepdims=True), 1e-9)
    assert np.abs(ours(path, names) - expected) / size == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", [*REFUSED_ANTIMONY, *REFUSED])
def test_a_model_is_refused_by_name(name, tmp_path):
    if name in REFUSED_ANTIMONY:
        path, code = translated(tmp_path, ANTIMONY[name][0]), REFUSED_ANTIMONY[name]
    else:
        level, body, code = REFUSED[name]
        path = written(tmp_path, level, body)
    with pytest.raises(pf.InputError) as caught:
        sbml.load(path).model()
    assert caught.value.code == f"importers.{code}"
    assert caught.value.place.line or code == "no_kinetic_law"


def test_a_fit_refuses_events_of_one_time_that_see_each_other(tmp_path):
    path, _ = model_file("events of one time that use values of the trigger", tmp_path)
    data = pf.Experiment(TIMES[1:], {"x": TIMES[1:]})
    problem = pf.Problem(sbml.load(path).model(["x"]), data, initial={"x": (-0.5, 0.5), "y": 1.0, "z": 0.0})
    with pytest.raises(pf.InputError) as caught:
        pf.fit(problem, progress=False)
    assert caught.value.code == "search.events_together"
