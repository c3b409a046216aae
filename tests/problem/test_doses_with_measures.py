"""Doses together with increments, censored values and dates."""

from dataclasses import replace
from datetime import date
from io import StringIO

import numpy as np
import pytest
import scipy.stats as st

import picardfit as pf
from complaints import complaint
from picardfit.evidence.certificate import path_rows
from picardfit.model.number_arrays import censored_text
from picardfit.problem.side_by_side import Simulated
from picardfit.simulation.batched_rosenbrock import RosenbrockSteps

KA, KE, DOSE = 0.9, 0.25, 100.0
EXCRETION = "gut' = -ka*gut\nblood' = ka*gut - ke*blood\nurine' = ke*blood"
MODEL = pf.Model(EXCRETION, observables={"collected": "increment(urine)", "blood": "blood"})
STATES = dict.fromkeys(("gut", "blood", "urine"), 0.0)
BOUNDS = {"ka": (0.1, 5.0), "ke": (0.02, 2.0)}


def _urine(t, given=(0.0, 12.0)):
    """Excreted amount after doses into the gut."""
    total = np.zeros(np.shape(t))
    for at in given:
        s = np.maximum(np.asarray(t, float) - at, 0.0)
        total += DOSE * (1 - (KA * np.exp(-KE * s) - KE * np.exp(-KA * s)) / (KA - KE))
    return total


def _experiment(t0=0.0, given=(0.0, 12.0), blood=(), **more):
    ends = t0 + np.arange(2.0, 25.0, 2.0)  # one collection ends at the time of the second dose
    data = {"collected": (ends, np.diff(_urine(np.append(t0, ends), given)))}
    if len(blood):
        data["blood"] = (blood, np.full(len(blood), 30.0))
    return pf.Experiment(None, data, "1", initial=STATES, t0=t0, doses=pf.Doses(given, DOSE, "gut"), **more)


def test_increments_of_a_state_behind_the_dosed_one_are_fitted():
    fit = pf.fit(pf.Problem(MODEL, _experiment(), BOUNDS))
    assert fit.status.success
    assert fit.parameters == pytest.approx({"ka": KA, "ke": KE}, rel=1e-4)
    times = np.array([12.0, 14.0, 24.0])
    expected = np.diff(_urine([0.0, *times]))
    assert fit.predict("1", times)["collected"] == pytest.approx(expected, rel=1e-4)
    assert fit.bands("1", times)["collected"].value == pytest.approx(expected, rel=1e-4)


def test_integrators_of_the_search_and_of_the_certificate_agree_with_the_path():
    given = (pf.Doses([0.0, 12.0], DOSE, "gut"), pf.Doses([5.0], 20.0, "blood", duration=2.0))
    run = replace(_experiment(blood=[3.0, 13.0, 15.0]), doses=given)
    problem = pf.Problem(MODEL, run, BOUNDS)
    fit = pf.fit(problem)
    unknowns, there = fit.solution.unknowns, problem.sampled
    rows = problem.predicted_rows(
        problem.layout.measured_values(unknowns), problem.layout.initial(unknowns)[0]
    )
    assert path_rows(fit.solution)[there] == pytest.approx(rows[there], rel=1e-6)
    states = Simulated(problem, unknowns[None], 1e-9, RosenbrockSteps()).states[
        0
    ]  # gut, blood, urine, its increment
    both = states[:, [3, 1]]
    assert both[there] == pytest.approx(rows[there], rel=1e-6)
    assert pf.structural(problem).identifiable


def test_simulated_increments_with_doses():
    times = np.arange(2.0, 25.0, 2.0)
    found = pf.simulate(MODEL, {"ka": KA, "ke": KE}, STATES, times, doses=pf.Doses([0.0, 12.0], DOSE, "gut"))
    assert found.observables["collected"] == pytest.approx(np.diff(_urine(np.append(0, times))), rel=1e-7)


def test_a_sample_at_a_dose_shows_the_state_after_it_beside_increments_at_other_times():
    """The rows of the path and those of an independent integration agree."""
    model = pf.Model(EXCRETION, observables={"collected": "increment(urine)", "gut": "gut"})
    ends, dosed = np.array([5.0, 11.0, 20.0]), np.array([6.0, 12.0])
    after = DOSE * (np.exp(-KA * dosed) + np.where(dosed == 12, 1.0, 0.0))
    data = {"collected": (ends, np.diff(_urine(np.append(0, ends)))), "gut": (dosed, after)}
    run = pf.Experiment(None, data, "1", initial=STATES, doses=pf.Doses([0.0, 12.0], DOSE, "gut"))
    fit = pf.fit(pf.Problem(model, run, BOUNDS))
    assert fit.parameters == pytest.approx({"ka": KA, "ke": KE}, rel=1e-4)


def test_increments_grow_by_infusions_and_may_use_covariates():
    model = pf.Model("x' = -k*x", observables={"new": "increment(x*weight)"}, covariates=["weight"])
    times = np.array([1.0, 2.0, 4.0])
    x = lambda t: 5.0 / 0.5 * (1 - np.exp(-0.5 * np.minimum(t, 2.0))) * np.exp(-0.5 * np.maximum(t - 2, 0))  # noqa: E731
    run = pf.Experiment(
        times,
        {"new": 7 * np.diff(x(np.append(0, times)))},
        initial={"x": 0.0},
        covariates={"weight": 7.0},
        doses=pf.Doses([0.0], 10.0, "x", duration=2.0),
    )
    fit = pf.fit(pf.Problem(model, run, {"k": (0.05, 3.0)}))
    assert fit.parameters["k"] == pytest.approx(0.5, rel=1e-5)


def test_increments_that_doses_or_resets_would_change_are_refused():
    dosed = pf.Model(EXCRETION, observables={"taken": "increment(gut + blood)"})
    run = pf.Experiment(
        [6.0, 18.0], {"taken": [1.0, 2.0]}, "1", initial=STATES, doses=pf.Doses(12.0, 5.0, "gut")
    )
    assert complaint(pf.Problem, dosed, run, BOUNDS).code == "problem.increment_of_dosed"
    again = complaint(pf.Problem, MODEL, _experiment(resets=[10.0]), BOUNDS)
    assert again.code == "problem.increment_with_reset"
    beside = complaint(pf.Problem, MODEL, _experiment(blood=[12.0]), BOUNDS)
    assert (beside.code, beside.subject) == ("problem.increment_beside_dose", "12")
    assert pf.Problem(MODEL, _experiment(blood=[13.0]), BOUNDS).measurements == 13


def test_dates_of_samples_with_doses_in_the_same_calendar():
    calendar = pf.Calendar("2024-05-01", "h")
    given = calendar.times(["2024-04-30 12:00", "2024-05-01 06:00"])
    assert given == pytest.approx([-12.0, 6.0])
    run = pf.Experiment(
        ["2024-05-01 01:00", "2024-05-01 09:00"],
        {"blood": [20.0, 30.0]},
        "1",
        initial=STATES,
        calendar=calendar,
        doses=pf.Doses(given, DOSE, "gut"),
        resets=["2024-05-01 05:00"],
    )
    assert (run.t0, run.resets) == (-12.0, (5.0,))  # by default at the first dose
    early = complaint(replace, run, t0="2024-05-01")
    assert (early.code, early.values["time"]) == ("problem.dose_before_start", "2024-04-30 12:00")


def test_dates_of_doses_become_times_of_their_experiment():
    given = pf.Doses(["2024-05-01 06:00", date(2024, 5, 1)], [1.0, 2.0], "gut")
    run = pf.Experiment(["2024-05-01 12:00", "2024-05-02"], {"blood": [20.0, 30.0]}, doses=given)
    assert (run.doses[0].times.tolist(), run.doses[0].amounts.tolist()) == ([-0.5, -0.25], [2.0, 1.0])
    assert run.t0 == -0.5
    planned = pf.plan(["2024-05-01 12:00", "2024-05-02"], ["blood"], doses=given)
    assert (planned.t0, planned.doses) == (run.t0, run.doses)


@pytest.mark.parametrize(
    "times, dates, code",
    [
        ([1.0, 2.0], "2024-05-01", "problem.no_calendar"),
        (["2024-05-01", "2024-05-02"], "3/4/2024", "problem.date_order"),
        (["2024-05-01", "2024-05-02"], "3 o'clock", "problem.date_unknown"),
    ],
)
def test_dates_of_doses_that_mean_no_time(times, dates, code):
    error = complaint(pf.Experiment, times, {"blood": [1.0, 2.0]}, doses=pf.Doses([dates], 1.0, "gut"))
    assert (error.code, error.place.key) == (code, ("doses",))


def test_dates_of_doses_mean_nothing_to_a_simulation():
    model, given = pf.Model("x' = -k*x"), pf.Doses(["2024-05-01"], 1.0, "x")
    assert (
        complaint(pf.simulate, model, {"k": 1.0}, {"x": 1.0}, [1.0], doses=given).code == "model.dose_dates"
    )


def test_a_dose_before_zero_moves_t0_with_a_remark():
    run = pf.Experiment([1.0, 2.0], {"blood": [20.0, 30.0]}, "1", doses=pf.Doses([-12.0], 1.0, "gut"))
    assert (run.t0, [one.code for one in run.remarks]) == (-12.0, ["problem.early_dose"])
    assert not replace(run, remarks=()).remarks
    assert not pf.Experiment([1.0], {"blood": [2.0]}, t0=-12.0, doses=run.doses).remarks


def test_a_censored_sample_of_a_table_of_nonmem_costs_the_probability_below_its_limit(tmp_path):
    file = tmp_path / "pk.csv"
    file.write_text(
        "ID,TIME,DV,AMT,EVID,CENS,LIMIT\n"
        "1,0,.,10,1,0,.\n1,1,6.0,.,0,0,.\n1,4,1.5,.,0,1,.\n1,5,1.0,.,0,1,0.2\n1,6,<0.7,.,0,0,.\n1,7,0.1,.,0,-1,.\n"
    )
    (one,) = pf.read_nonmem(file, doses="x", observables="y")
    assert list(one.observations["y"]) == [6.0, "<1.5", "0.2..1.0", "<0.7", censored_text(0.1, np.inf)]
    problem = pf.Problem(
        pf.Model("x' = -k*x", observables={"y": "x"}),
        one,
        {"k": 0.5},
        {"x": 0.0},
        noise=pf.Noise(0.3),
    )
    law = st.norm(10 * np.exp(-0.5 * np.array([1.0, 4, 5, 6, 7])), 0.3)
    low = np.array([-np.inf, 0.2, -np.inf, 0.1])
    high = np.array([1.5, 1.0, 0.7, np.inf])
    expected = -law.logpdf(6.0)[0] - np.log((law.cdf([0, *high]) - law.cdf([0, *low]))[1:]).sum()
    rows = np.column_stack([law.mean(), law.std()])
    assert problem.objective.nllh(rows) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("1,1,2.0,.,0,2,.", "files.censoring_code"),
        ("1,1,2.0,.,0,1,3.0", "files.limit_on_wrong_side"),
        ("1,1,<2.0,.,0,1,.", "files.censored_without_value"),
    ],
)
def test_wrong_censoring_of_a_table_of_nonmem_names_its_line(tmp_path, row, code):
    file = tmp_path / "pk.csv"
    file.write_text(f"ID,TIME,DV,AMT,EVID,CENS,LIMIT\n1,0,.,10,1,0,.\n{row}\n")
    error = complaint(pf.read_nonmem, file, doses="x", observables="y")
    assert (error.code, error.place.line) == (code, 3)


def test_columns_of_a_dated_table_that_hold_censored_values_trials_or_nothing_of_use():
    text = "date,cases,tested,note,lab\n2024-05-01,3,10,a,1\n2024-05-03,4,12,b,1\n2024-05-04,5,11,c,2\n"
    (one,) = pf.read_table(StringIO(text))
    model = pf.Model("p' = r*p*(1 - p)", observables={"cases": "p"})
    noise = pf.Binomial(trials="tested")
    problem = pf.Problem(model, one, {"r": (0.01, 1.0)}, {"p": (0.1, 0.9)}, noise=noise)
    assert problem.experiments[0].observables == ("cases", "tested")
    (remark,) = problem.experiments[0].remarks
    assert sorted(remark.values["columns"]) == ["lab", "note"]
    assert problem.experiments[0].times.tolist() == [0.0, 2.0, 3.0]
    (low,) = pf.read_table(StringIO("date,y\n2024-05-01,<0.5\n2024-05-02,<0.5\n"))  # no names
    assert low.limits[:, 0].tolist() == [[-np.inf, 0.5]] * 2


def test_columns_that_say_what_is_censored_are_used():
    text = "time,observable,value,cens,limit,who\n0,y,2.0,0,,me\n1,y,0.5,1,0.1,me\n"
    (one,) = pf.read_table(StringIO(text))
    assert list(one.observations["y"]) == [2.0, "0.1..0.5"]
    assert [remark.values["columns"] for remark in one.remarks] == [["who"]]
