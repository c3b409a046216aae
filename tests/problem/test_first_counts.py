"""The first count of an increment: when it begins, where nobody says so."""

import io

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from picardfit.problem.first_counts import RegularSteps

MODEL = pf.Model("c' = b", observables={"cases": "increment(c)", "size": "c"})
SETTINGS = {
    "parameters": {"b": (0.01, 30.0)},
    "initial": {"c": 0.0},
    "noise": {"cases": pf.Poisson(), "size": pf.Noise(1.0)},
}


def _problem(experiments):
    return pf.Problem(MODEL, experiments, **SETTINGS)


@pytest.mark.parametrize(
    "times, step",
    [
        ([0, 7, 14], 7),
        ([0, 1, 2, 5, 6], 1),  # a weekend without reports
        (np.cumsum([0, 31, 28, 31, 30]), 30.5),  # months
        ([0, 1, 1, 2], 1),  # replicates
        ([0, 3, 10, 17], None),
        ([0, 1, 5.5], None),
        ([3], None),
    ],
)
def test_usual_steps(times, step):
    assert RegularSteps().step(np.array(times, float)) == step


def test_a_dated_table_counts_from_one_step_before_its_first_row():
    table = "date,cases\n2020-03-08,5\n2020-03-15,8\n2020-03-22,11\n"
    (one,) = _problem(pf.read_table(io.StringIO(table))).experiments
    assert one.t0 == -7.0
    (remark,) = one.remarks
    assert (remark.code, remark.values["t0"], remark.values["step"]) == (
        "problem.first_count",
        "2020-03-01",
        "7 d",
    )


def test_the_first_count_has_the_likelihood_of_its_own_period():
    counts = [5.0, 8.0, 11.0]
    moved = _problem(pf.Experiment([0, 2, 4], {"cases": counts}))
    given = _problem(pf.Experiment([0, 2, 4], {"cases": counts}, t0=-2.0))
    assert moved.nllh({"b": 4.0}) == given.nllh({"b": 4.0})


def test_experiments_of_a_problem_are_treated_alike():
    first = pf.Experiment([0, 1, 2], {"cases": [5, 8, 11]}, "a")
    none_yet = pf.Experiment([0, 1, 2], {"cases": [0, 8, 11]}, "b")
    later = pf.Experiment([1, 2], {"cases": [8, 11]}, "c")
    assert [one.t0 for one in _problem([first, none_yet, later]).experiments] == [-1.0, -1.0, 0.0]
    assert _problem([none_yet, later]).experiments[0].t0 == 0.0


def test_a_table_without_a_usual_step_asks_for_t0(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text("date,cases\n2020-03-08,5\n2020-03-11,8\n2020-03-22,11\n")
    error = complaint(_problem, pf.read_table(path))
    assert (error.code, error.place.file, error.place.line) == ("problem.increment_at_t0", str(path), 2)
    (one,) = _problem(pf.read_table(path, t0="2020-03-01")).experiments
    assert (one.t0, one.remarks) == (-7.0, ())


@pytest.mark.parametrize(
    "times, cells", [([1, 2, 3, 4, 5], [5, 5, np.nan, 9, 5]), ([1, 2, 4, 5], [5, 5, 9, 5])]
)
def test_a_count_after_a_gap_covers_it_and_a_remark_says_so(times, cells):
    problem = _problem(pf.Experiment(times, {"cases": cells}, "town", t0=0.0))
    covered = _problem(pf.Experiment([1, 2, 4, 5], {"cases": [5, 5, 9, 5]}, t0=0.0))
    assert problem.nllh({"b": 4.0}) == covered.nllh({"b": 4.0})
    (remark,) = _problem(problem.experiments).remarks  # said once, also where a problem is made again
    said = [remark.values[key] for key in ("experiment", "count", "total", "first", "since", "step")]
    assert (remark.code, remark.subject) == ("problem.counts_after_gaps", "cases")
    assert said == ["town", 1, 4, "4", "2", "1"]


def test_weekly_counts_beside_daily_sizes_have_no_gaps():
    days, weekly = np.arange(1.0, 29.0), np.full(28, np.nan)
    weekly[6::7] = 5.0
    assert not _problem(pf.Experiment(days, {"cases": weekly, "size": days}, t0=0.0)).remarks


def test_t0_first_in_a_problem_file_is_not_moved(tmp_path):
    (tmp_path / "cases.csv").write_text("date,cases\n2020-03-08,5\n2020-03-15,8\n2020-03-22,11\n")
    text = (
        "equations = \"c' = b\"\nobservables = { cases = 'increment(c)' }\ndata = 'cases.csv'\n%s"
        "[parameters]\nb = [0.01, 30]\n[initial]\nc = 0\n[noise]\ntype = 'poisson'\n"
    )
    path = tmp_path / "problem.toml"
    path.write_text(text % "")
    assert pf.read_problem(path).experiments[0].t0 == -7.0
    path.write_text(text % "t0 = 'first'\n")
    assert complaint(pf.read_problem, path).code == "problem.increment_at_t0"
    path.write_text(text % "t0 = 2020-03-02\n")
    assert pf.read_problem(path).experiments[0].t0 == -6.0


# ---- counts that were lost ---------------------------------------------------------------------------------

LOST = "time,cases\n0,\n1,5\n2,?\n3,?\n4,11\n"


def _lost(counts):
    return pf.Experiment([1, 2, 3, 4], {"cases": counts}, "town", t0=0.0)


def test_a_count_after_a_lost_one_covers_its_own_step():
    lost, blank, alone = (
        _problem(_lost(counts)) for counts in ([5, "?", "?", 11], [5, None, None, 11], [5, 0, 0, 11])
    )
    nllh = [one.nllh({"b": 4.0}) for one in (lost, blank, alone)]
    assert nllh[0] == pytest.approx(
        nllh[2] - 2 * 4.0
    )  # a count of 0 costs its mean; a lost one costs nothing
    assert nllh[1] != pytest.approx(nllh[0])


def test_lost_counts_are_no_measurements():
    problem = _problem(_lost([5, "?", "?", 11]))
    assert problem.measurements == 2
    assert problem.experiments[0].limits is None
    assert problem.experiments[0].remarks == ()


def test_a_fit_with_lost_counts_is_exact():
    fit = pf.fit(_problem(_lost([5, "?", "?", 11])))
    assert fit.parameters["b"] == pytest.approx(8.0)  # the mean of the two steps that were counted
    assert fit.certificate.mismatch < 1e-8


def test_new_data_lose_the_same_counts():
    problem = _problem(_lost([5, "?", "?", 11])).simulate_data({"b": 4.0}, seed=1)
    assert problem.experiments[0].observations["cases"].tolist()[1:3] == ["?", "?"]


@pytest.mark.parametrize(
    "table", [LOST, "time,observable,value\n1,cases,5\n2,cases,?\n3,cases,?\n4,cases,11\n"]
)
def test_tables_have_lost_counts(table):
    (one,) = pf.read_table(io.StringIO(table))
    assert one.observations["cases"].tolist() == [5.0, "?", "?", 11.0]
    assert one.counted[:, 0].all()


def test_a_saved_fit_keeps_lost_counts(tmp_path):
    fit = pf.fit(_problem(_lost([5, "?", "?", 11])))
    fit.save(tmp_path / "fit.json")
    assert pf.load(tmp_path / "fit.json").problem.nllh({"b": 4.0}) == fit.problem.nllh({"b": 4.0})
