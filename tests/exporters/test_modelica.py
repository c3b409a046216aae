"""Modelica: what the text says, and our own solution by a compiler where one is installed."""

from functools import cache

import numpy as np
import pytest

import picardfit as pf
from exported import clinic_fit, difference, every_fit, increments_fit, our_solution, span, starter_fit


def exported(fit, tmp_path, experiment=None):
    return fit.export(tmp_path / "fitted.mo", experiment=experiment)


def by_rumoca(path, times):
    rumoca = pytest.importorskip("rumoca", reason="pip install rumoca")
    settings = rumoca.SimConfig(solver="bdf", rtol=1e-9, atol=1e-12)
    step = (times[-1] - times[0]) / (len(times) - 1)
    found = (
        rumoca.Session().load(path, model=path.stem).simulate((times[0], times[-1]), dt=step, config=settings)
    )
    rows = [int(np.flatnonzero(np.isclose(found.time, t, rtol=0, atol=1e-9 * step))[-1]) for t in times]
    return {name: np.asarray(found[name])[rows] for name in found.names}


@pytest.mark.parametrize("name", every_fit())
def test_starters_and_the_problems_of_the_paper(name, tmp_path):
    fit = every_fit()[name]()
    for one in fit.problem.names:
        path, times = exported(fit, tmp_path, one), span(fit, one)
        assert difference(by_rumoca(path, times), our_solution(fit, one, times)) < 1e-6


@pytest.mark.parametrize("one", ["one", "two"])
def test_doses_infusions_tables_resets_and_covariates(one, tmp_path):
    path, times = exported(clinic_fit(), tmp_path, one), span(clinic_fit(), one)
    assert difference(by_rumoca(path, times), our_solution(clinic_fit(), one, times)) < 1e-6


@cache
def dosed_fit():
    """Doses into one state again and again, into two at the same time, an infusion and a reset."""
    model = pf.Model("gut' = -ka*gut; blood' = ka*gut - ke*blood")
    gut, blood = pf.Doses([2.0, 4.0, 6.3], 10, into="gut"), pf.Doses([4.0, 5.1], [3, 4], into="blood")
    doses = [gut, blood, pf.Doses([3.0, 5.1], 5, into="blood", duration=0.7)]
    given = {"gut": np.ones(16), "blood": np.ones(16)}
    zero = {"gut": 0, "blood": 0}
    one = pf.Experiment(np.linspace(0.5, 8, 16), given, "one", {}, zero, 0.0, doses=doses, resets=[7.2])
    problem = pf.Problem(model, one, {"ka": (0.1, 5), "ke": (0.05, 5)})
    return pf.fit(problem.simulate_data({"ka": 1.1, "ke": 0.4}, sd=0.02), policy=pf.SearchPolicy(most=1))


def test_repeated_doses_follow_our_own_solution(tmp_path):
    path, times = exported(dosed_fit(), tmp_path), span(dosed_fit(), "one")
    assert difference(by_rumoca(path, times), our_solution(dosed_fit(), "one", times)) < 1e-6


def test_a_state_is_set_anew_in_one_clause_only(tmp_path):
    """Modelica 3.6, 8.3.6: a state must not have `reinit` in several `when` clauses; their branches are one."""
    lines = [one.strip() for one in exported(dosed_fit(), tmp_path).read_text().splitlines()]
    whens = [one for one in lines if one.startswith(("when", "elsewhen", "end when"))]
    times = ("4", "5.1", "6.3", "7.2")
    assert whens == ["when time >= 2 then", *(f"elsewhen time >= {t} then" for t in times), "end when;"]
    at = lines.index("elsewhen time >= 4 then")
    assert lines[at + 1 : at + 3] == ["reinit(gut, pre(gut) + 10);", "reinit(blood, pre(blood) + 3);"]


def test_the_model_has_the_name_of_its_file(tmp_path):
    text = exported(clinic_fit(), tmp_path).read_text()
    assert text.startswith('model fitted "Experiment one, ')
    assert text.rstrip().endswith("end fitted;")


def test_a_file_called_model_holds_a_model_called_model(tmp_path):
    """`model` is a keyword."""
    assert clinic_fit().export(tmp_path / "model.mo").read_text().startswith("model Model ")


@pytest.mark.parametrize(
    "experiment, line",
    [
        ("one", "der(gut) = feed - gut*ka;"),
        ("one", "// β is called beta here"),
        ("one", "Real gut(start = 10, fixed = true);"),
        ("one", "reinit(gut, pre(gut) + 10);"),
        ("one", "feed = (if (time < 1) then exp(-time) else 0);"),
        (
            "one",
            "infusion_into_blood = if time < 4.2 then 0 elseif time < 5.5 then 3.846153846153846 else 0;",
        ),
        ("two", "feed = if time < 2 then 0 elseif time < 5 then 1 else 0.3;"),
        ("two", "reinit(gut, 1);"),
        ("two", "parameter Real weight = 60;"),
        ("two", "out_observed = 2*out;"),
    ],
)
def test_what_happens_in_an_experiment(experiment, line, tmp_path):
    lines = [one.strip() for one in exported(clinic_fit(), tmp_path, experiment).read_text().splitlines()]
    assert line in lines


def test_a_table_of_lines(tmp_path):
    (line,) = [
        one for one in exported(clinic_fit(), tmp_path).read_text().splitlines() if one.startswith("  u = ")
    ]
    assert "elseif time < 3 then 1 + 0.5*(time - 1) elseif time < 6 then 0 + 0.333333333333333" in line


def test_time_and_units_are_those_of_the_experiment(tmp_path):
    text = exported(starter_fit("lotka-volterra"), tmp_path).read_text()
    assert "experiment(StartTime = 1900.0, StopTime = 1920.0" in text
    assert '"[1/year]"' in text


def test_increments_are_refused(tmp_path):
    with pytest.raises(pf.InputError) as caught:
        exported(increments_fit(), tmp_path)
    assert caught.value.code == "exporters.increment"


def test_names_of_experiments_cannot_break_out_of_their_text(tmp_path):
    one = pf.Experiment([0, 1, 2, 3], {"x": [1.0, 0.6, 0.4, 0.2]}, 'a"; end \\ b')
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), one, {"k": (-1, 5)}))
    assert exported(fit, tmp_path).read_text().startswith('model fitted "Experiment a\\"; end \\\\ b, fitted')
