"""SBML and Antimony: valid, and simulated by others they give our own solution."""

import numpy as np
import pytest

import picardfit as pf
from exported import clinic_fit, difference, every_fit, increments_fit, our_solution, span, starter_fit
from picardfit.importers import sbml

libsbml = pytest.importorskip("libsbml")


def exported(fit, tmp_path, experiment=None, ending="xml"):
    return fit.export(tmp_path / f"model.{ending}", experiment=experiment)


def complaints(path):
    """What libSBML has to say about a file; it has no units to check."""
    document = libsbml.readSBMLFromFile(str(path))
    document.setConsistencyChecks(libsbml.LIBSBML_CAT_UNITS_CONSISTENCY, False)
    document.checkConsistency()
    return [document.getError(k).getMessage() for k in range(document.getNumErrors())]


def read_back(path, fit, experiment, times):
    """Our own reader's solution of a file, whose time begins at 0."""
    system = sbml.load(path)
    start = {n: float(e) for n, e in system.start({}).items() if n in system.states}
    t0 = fit.problem.experiments[fit.problem.names.index(experiment)].t0
    model = system.model(tuple(dict.fromkeys((*system.variables, *system.definitions))))
    return pf.simulate(model, system.values, start, times - t0).observables


def by_roadrunner(text, times, t0):
    roadrunner = pytest.importorskip("roadrunner", reason="pip install libroadrunner")
    engine = roadrunner.RoadRunner(text)
    engine.integrator.relative_tolerance, engine.integrator.absolute_tolerance = 1e-10, 1e-13
    engine.integrator.maximum_num_steps = 100_000
    names = engine.model.getGlobalParameterIds()
    table = engine.simulate(0.0, times[-1] - t0, len(times), ["time", *names])
    return {name: np.asarray(table[:, k + 1]) for k, name in enumerate(names)}


@pytest.mark.parametrize("name", every_fit())
def test_starters_and_the_problems_of_the_paper(name, tmp_path):
    fit = every_fit()[name]()
    for one in fit.problem.names:
        path, times = exported(fit, tmp_path, one), span(fit, one)
        assert complaints(path) == []
        assert difference(read_back(path, fit, one, times), our_solution(fit, one, times)) < 1e-6


@pytest.mark.parametrize("name", every_fit())
def test_roadrunner_gives_our_solution(name, tmp_path):
    fit = every_fit()[name]()
    for one, experiment in zip(fit.problem.names, fit.problem.experiments, strict=True):
        text, times = exported(fit, tmp_path, one).read_text(), span(fit, one)
        found = by_roadrunner(text, times, experiment.t0)
        assert difference(found, our_solution(fit, one, times)) < 1e-6


@pytest.mark.parametrize("one", ["one", "two"])
def test_doses_infusions_tables_resets_and_covariates(one, tmp_path):
    path, times = exported(clinic_fit(), tmp_path, one), span(clinic_fit(), one)
    assert complaints(path) == []
    ours = our_solution(clinic_fit(), one, times)
    assert difference(read_back(path, clinic_fit(), one, times), ours) < 1e-6


@pytest.mark.parametrize("one", ["one", "two"])
def test_roadrunner_finds_the_events(one, tmp_path):
    path, times = exported(clinic_fit(), tmp_path, one), span(clinic_fit(), one)
    ours = our_solution(clinic_fit(), one, times)
    assert difference(by_roadrunner(path.read_text(), times, 0.0), ours) < 1e-6


@pytest.mark.parametrize("one", ["one", "two"])
def test_antimony_means_the_same(one, tmp_path):
    antimony = pytest.importorskip("antimony", reason="pip install antimony")
    path, times = exported(clinic_fit(), tmp_path, one, "ant"), span(clinic_fit(), one)
    antimony.clearPreviousLoads()
    assert antimony.loadAntimonyFile(str(path)) >= 0, antimony.getLastError()
    back = tmp_path / "back.xml"
    back.write_text(antimony.getSBMLString(antimony.getMainModuleName()))
    ours = our_solution(clinic_fit(), one, times)
    assert difference(read_back(back, clinic_fit(), one, times), ours) < 1e-6


def test_antimony_has_rate_rules_and_events(tmp_path):
    pytest.importorskip("antimony", reason="pip install antimony")
    text = exported(clinic_fit(), tmp_path, "one", "ant").read_text()
    assert "gut' = feed - gut*ka;" in text
    assert "at time >= 3.25, t0=false: gut = 10 + gut;" in text


def test_a_file_begins_at_time_zero_and_says_what_that_is(tmp_path):
    path = exported(starter_fit("lotka-volterra"), tmp_path)
    assert "Time 0 of this file is the time 1900.0 of the experiment." in path.read_text()


def test_of_several_experiments_the_first_is_written_and_told(tmp_path):
    text = exported(clinic_fit(), tmp_path).read_text()
    assert "Experiment one, " in text
    assert "The fit has 1 more experiments" in text


def test_names_are_those_of_the_model_where_they_can_be(tmp_path):
    model = libsbml.readSBMLFromFile(str(exported(clinic_fit(), tmp_path))).getModel()
    names = {model.getParameter(k).getId() for k in range(model.getNumParameters())}
    assert {"gut", "blood", "out", "lambda", "beta", "conc", "out_observed", "weight", "u"} <= names


def test_a_name_that_means_something_in_sbml_is_changed(tmp_path):
    model = pf.Model("Time' = -Pi*Time + model")
    one = pf.Experiment([0, 1, 2, 3], {"Time": [1.0, 0.6, 0.4, 0.2]}, "one", t0=0.0)
    fit = pf.fit(pf.Problem(model, one, {"Pi": (0, 5), "model": 0.1}))
    path, times = exported(fit, tmp_path), span(fit, "one")
    assert complaints(path) == []
    found, ours = read_back(path, fit, "one", times), our_solution(fit, "one", times)
    assert found["Time_1"] == pytest.approx(ours["Time"], rel=1e-6)
    assert "Time is called Time_1 here" in path.read_text()


def test_increments_are_refused(tmp_path):
    with pytest.raises(pf.InputError) as caught:
        exported(increments_fit(), tmp_path)
    assert (caught.value.code, caught.value.subject) == ("exporters.increment", "lost")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["xml", "mo"])
def test_thousands_of_events_are_refused(tmp_path, ending):
    table = pf.Table(np.linspace(0, 3, 2500), np.random.default_rng(0).uniform(0, 1, 2500))
    one = pf.Experiment([0, 1, 2, 3], {"x": [1.0, 0.9, 1.1, 1.2]}, "one", {"u": table})
    problem = pf.Problem(pf.Model("x' = u - k*x", inputs=["u"]), one, {"k": (0, 5)})
    fit = pf.fit(problem, policy=pf.SearchPolicy(most=1))
    with pytest.raises(pf.InputError) as caught:
        exported(fit, tmp_path, ending=ending)
    assert (caught.value.code, caught.value.values["most"]) == ("exporters.many_events", 2000)
