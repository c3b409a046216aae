"""Tables with the columns of NONMEM."""

import io

import numpy as np
import pytest

import picardfit as pf
from complaints import complaint
from pharmacokinetics import oral


def read(text, **options):
    return pf.read_nonmem(io.StringIO(text), **options)


def test_individuals_with_doses_samples_and_covariates():
    text = "ID,TIME,DV,AMT,EVID,CMT,WT\n1,0,0,320,1,1,79.6\n1,0,.7,0,0,2,79.6\n1,2,9,0,0,2,79.6\n"
    text += "2,0,.,300,1,1,60\n2,1,5,0,0,2,60\n"
    first, second = read(text, doses={1: "gut"}, observables={2: "conc"}, covariates=["wt"])
    assert (first.name, second.name) == ("1", "2")
    assert first.times.tolist() == [0, 2]
    assert first.doses == (pf.Doses([0], 320, into="gut"),)
    assert (first.covariates, second.covariates) == ({"wt": 79.6}, {"wt": 60.0})


def test_columns_that_nothing_uses_are_named():
    (one,) = read(
        "C,ID,TIME,DV,AGE,SITE\n.,1,0,2,41,a\n.,1,1,1,41,a\n", observables="conc", covariates=["AGE"]
    )
    (remark,) = one.remarks
    assert (remark.code, remark.values["columns"]) == ("problem.column_ignored", ["SITE"])


def test_a_negative_dose_is_named_with_its_line(tmp_path):
    table = tmp_path / "d.csv"
    table.write_text("ID,TIME,DV,AMT\n1,0,.,100\n1,1,3,.\n1,2,.,-50\n1,3,2,.\n")
    data = pf.read_nonmem(table, doses="gut", observables="gut")
    error = complaint(pf.Problem, pf.Model("gut' = -k*gut"), data, {"k": (0, 1)}, {"gut": 0})
    assert (error.code, error.place.file, error.place.line) == ("problem.negative_dose", str(table), 4)


def test_a_table_without_doses_needs_three_columns():
    (one,) = read("id,time,dv\n1,0,10.68\n1,1,3.6837\n", observables="conc")
    assert one.observations["conc"].tolist() == [10.68, 3.6837]


def test_additional_doses_infusions_and_compartments():
    text = "ID TIME AMT RATE II ADDL CMT DV\n1 0 100 0 12 2 1 .\n1 3 50 25 . . 2 .\n1 30 . . . . 2 4\n"
    (one,) = read(text, doses={1: "gut", 2: "central"}, observables={2: "conc"})
    assert one.doses == (
        pf.Doses([0, 12, 24], 100, into="gut"),
        pf.Doses([3], 50, into="central", duration=2),
    )


def test_a_steady_state_begins_the_experiment():
    (one,) = read("ID,TIME,DV,AMT,II,SS,ADDL\n1,5,.,100,12,1,1\n1,6,3,.,.,.,.\n1,18,4,.,.,.,.\n", doses="gut")
    assert one.t0 == 5
    assert (one.rest.doses, one.rest.every) == ((pf.Doses([0], 100, into="gut"),), 12)
    assert one.doses == (pf.Doses([5, 17], 100, into="gut"),)


def test_a_steady_state_later_on_begins_another_experiment():
    text = "ID,TIME,DV,AMT,II,SS\n1,0,.,100,.,.\n1,1,3,.,.,.\n1,200,.,100,12,1\n1,203,4,.,.,.\n"
    first, second = read(text, doses="gut")
    assert (first.name, second.name, second.t0) == ("1", "1 (2)", 200)
    assert [one.code for one in first.remarks] == ["files.nonmem_divided"]


def test_a_reset_ends_infusions_and_forgets_doses():
    text = "ID,TIME,DV,AMT,RATE,II,ADDL,EVID\n1,0,.,100,10,20,5,1\n1,1,3,.,.,.,.,0\n1,5,.,.,.,.,.,3\n"
    text += "1,7,.,20,.,.,.,4\n1,8,4,.,.,.,.,0\n"
    (one,) = read(text, doses="gut")
    assert one.resets == (5, 7)
    assert one.doses == (pf.Doses([0, 7], [50, 20], into="gut", duration=[5, 0]),)


def test_a_sample_before_its_dose_shows_the_trough():
    text = "ID,TIME,DV,AMT\n1,0,.,100\n1,12,2,.\n1,12,.,100\n1,12,102,.\n"
    (one,) = read(text, doses="central", observables="conc")
    model = pf.Model("central' = -k*central", observables={"conc": "central"})
    problem = pf.Problem(model, one, {"k": (0.01, 2)}, {"central": 0.0})
    trough = 100 * np.exp(-0.3 * 12)
    rows = problem.predicted_rows(np.array([[0.3]]), np.array([[100.0]]))[:, 0]
    np.testing.assert_allclose(rows, [trough, trough + 100], rtol=1e-8)
    assert pf.fit(problem).success


def test_comments_clock_times_and_dates():
    text = "C,ID,DATE,TIME,DV,AMT\n.,1,01/30/2024,8:00,.,100\nC,1,01/30/2024,9:00,99,.\n.,1,01/31/2024,9:30,3,.\n"
    (one,) = read(text, doses="gut")
    assert one.times.tolist() == [25.5]


@pytest.mark.parametrize(
    "column, first, second, order, hours",
    [
        ("DATE", "03/04/2024", "03/05/2024", "mdy", 24.0),
        ("DATE", "03/04/2024", "03/05/2024", "dmy", 24.0 * 30),
        ("DATE", "03/14/2024", "03/15/2024", None, 24.0),  # no month is the 14th
        ("DATE", "3.4.24", "4.4.24", None, 24.0),  # dots stand after days
        ("DATE", "2024-03-04", "2024-03-05", None, 24.0),
        ("DATE", "3", "5", None, 48.0),
        ("DAT1", "03/04/99", "04/04/99", None, 24.0),
        ("DAT2", "99/03/04", "99/03/05", None, 24.0),
        ("DAT3", "99/03/04", "99/04/04", None, 24.0),
    ],
)
def test_orders_of_dates(column, first, second, order, hours):
    text = f"ID,{column},TIME,DV\n1,{first},8:00,1\n1,{second},8:00,2\n"
    (one,) = read(text, date_order=order)
    assert one.times.tolist() == [0.0, hours]


@pytest.mark.parametrize(
    "dates, code, line",
    [
        (("03/04/2024", "03/05/2024"), "problem.date_order", 2),
        (("13/04/2024", "03/14/2024"), "problem.date_orders", 3),
        (("03/14/2024", "soon"), "problem.date_unknown", 3),
        (("03/14/2024", "45"), "problem.date_among_numbers", 3),
    ],
)
def test_dates_that_cannot_be_told(dates, code, line, tmp_path):
    path = tmp_path / "pk.csv"
    path.write_text("ID,DATE,TIME,DV\n1,{},8:00,1\n1,{},9:00,2\n".format(*dates))
    error = complaint(pf.read_nonmem, path)
    assert (error.code, error.subject, error.place.line) == (code, "DATE", line)


def test_counts_of_a_table_of_nonmem_name_their_line(tmp_path):
    path = tmp_path / "seizures.csv"
    path.write_text("ID,TIME,DV\n1,1,3\n1,2,1.5\n")
    model = pf.Model("c' = b", observables={"DV": "c"})
    error = complaint(pf.Problem, model, pf.read_nonmem(path), {"b": (0, 5)}, noise=pf.Poisson())
    assert (error.code, error.place.file, error.place.line) == ("problem.not_a_count", str(path), 3)


def test_outputs_by_dvid():
    (one,) = read("ID,TIME,DV,DVID\n1,0,1,1\n1,0,2,2\n1,1,3,2\n", observables={1: "a", 2: "b"})
    assert one.observables == ("a", "b")
    assert np.isfinite(one.values).sum() == 3


@pytest.mark.parametrize(
    "text, code, line",
    [
        ("ID,TIME,DV,AMT,EVID\n1,0,.,.,1\n1,1,2,.,0\n", "dose_without_amount", 2),
        ("ID,TIME,DV,AMT,RATE\n1,0,.,.,5\n1,1,2,.,0\n", "rate_without_amount", 2),
        ("ID,TIME,DV,AMT,RATE\n1,0,.,5,-2\n1,1,2,.,0\n", "modelled_rate", 2),
        ("ID,TIME,DV,AMT,II\n1,0,.,5,5\n1,1,2,.,0\n", "interval_alone", 2),
        ("ID,TIME,DV,AMT,ADDL\n1,0,.,5,5\n1,1,2,.,0\n", "additional_without_interval", 2),
        ("ID,TIME,DV,AMT,SS\n1,0,.,5,1\n1,1,2,.,0\n", "steady_without_interval", 2),
        ("ID,TIME,DV,AMT,EVID\n1,0,.,5,1\n1,1,2,7,0\n", "amount_of_sample", 3),
        ("ID,TIME,DV,AMT\n1,3,.,5\n1,1,2,.\n", "order", 3),
        ("ID,TIME,DV,AMT,CMT\n1,3,.,5,4\n1,4,2,.,2\n", "compartment", 2),
        ("ID,TIME,DV,EVID\n1,3,1,9\n", "evid", 2),
    ],
)
def test_bad_rows_are_named(text, code, line, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(pf.InputError) as caught:
        pf.read_nonmem(path, doses={1: "gut"})
    assert (caught.value.code, caught.value.place.line) == (f"files.nonmem_{code}", line)


@pytest.mark.parametrize(
    "weights, code", [((70, 71), "files.covariate_varies"), ((".", "."), "files.no_covariate")]
)
def test_a_covariate_is_one_number(weights, code):
    text = "ID,TIME,DV,WT\n1,0,1,{}\n1,1,2,{}\n".format(*weights)
    with pytest.raises(pf.InputError) as caught:
        read(text, covariates=["WT"])
    assert (caught.value.code, caught.value.subject) == (code, "WT")


PROBLEM = """
data = { file = "data.csv", doses = { 1 = "gut" }, observables = { 2 = "conc" }, covariates = ["WT"] }
equations = \"\"\"
gut' = -ka*gut
central' = ka*gut - k*WT/70*central
\"\"\"
observables = { conc = "central/v" }
parameters = { ka = [0.3, 20], k = [0.01, 0.3], v = [1, 100] }
initial = { gut = 0, central = 0 }
"""


def test_a_problem_file_reads_such_a_table(tmp_path):
    times = [0.5, 1, 2, 5, 9, 20]
    rows = [f"1,{t},{c},.,2,70" for t, c in zip(times, oral(times) / 12, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["ID,TIME,DV,AMT,CMT,WT", "1,0,.,100,1,70", *rows]))
    (tmp_path / "problem.toml").write_text(PROBLEM)
    fit = pf.fit(pf.read_problem(tmp_path / "problem.toml"))
    assert fit.parameters == pytest.approx({"ka": 1.1, "k": 0.15, "v": 12.0}, rel=1e-5)


def test_doses_and_covariates_of_experiments_in_a_problem_file(tmp_path):
    (tmp_path / "data.csv").write_text("experiment,time,conc,WT\na,1,3,70\na,13,5,70\nb,2,1,60\nb,5,3,60\n")
    text = PROBLEM.splitlines()
    text[1] = (
        'data = "data.csv"\ncovariates = ["WT"]\ndoses = { into = "gut", times = [0, 12], amounts = 100 }'
    )
    text.append('[experiments.b]\ndoses = [{ into = "central", times = [1], amounts = [50], duration = 2 }]')
    (tmp_path / "problem.toml").write_text("\n".join(text))
    a, b = pf.read_problem(tmp_path / "problem.toml").experiments
    assert a.doses == (pf.Doses([0, 12], 100, into="gut"),)
    assert b.doses == (pf.Doses([1], 50, into="central", duration=2),)
    assert (a.covariates, b.covariates) == ({"WT": 70.0}, {"WT": 60.0})


def test_a_row_of_a_billion_doses_is_refused(tmp_path):
    path = tmp_path / "doses.csv"
    path.write_text("ID,TIME,DV,AMT,II,ADDL,EVID\n1,0,.,100,1,1e9,1\n1,2,3,.,.,.,0\n")
    with pytest.raises(pf.InputError) as caught:
        pf.read_nonmem(path, doses={1: "gut"}, observables={1: "conc"})
    assert caught.value.code == "files.nonmem_many_doses"


@pytest.mark.parametrize("comment", ["C1,0,.,50,1,1", "C a comment", "ID,TIME,DV,AMT,EVID,CMT", "@ note"])
def test_rows_that_begin_with_a_letter_are_comments(comment):
    text = f"ID,TIME,DV,AMT,EVID,CMT\n{comment}\n1,0,.,100,1,1\n1,1,2,.,0,2\n2,0,.,100,1,1\n2,1,2,.,0,2\n"
    first, second = read(text, doses={1: "gut"}, observables={2: "conc"})
    assert (first.name, second.name) == ("1", "2")
    assert [(one.code, one.values["line"]) for one in first.remarks] == [("files.comment_rows", 2)]


def test_names_of_individuals_that_are_words_are_no_comments():
    first, second = read("ID,TIME,DV\nA1,0,2\nA1,1,1\nB2,0,2\n", observables="x")
    assert (first.name, second.name, first.remarks) == ("A1", "B2", ())


def test_a_table_that_nonmem_wrote():
    text = "TABLE NO.  1\n ID          TIME        DV          AMT\n"
    text += (
        "  1.0000E+00  0.0000E+00  0.0000E+00  1.0000E+02\n  1.0000E+00  1.0000E+00  2.0000E+00  0.0000E+00\n"
    )
    (one,) = read(text, doses="gut", observables="conc")
    assert (one.name, one.times.tolist(), one.doses) == ("1", [1], (pf.Doses([0], 100, into="gut"),))


def test_names_that_a_comment_holds():
    (one,) = read("#ID,TIME,DV\n1,0,2\n1,1,1\n", observables="x")
    assert one.times.tolist() == [0, 1]


def test_compartments_and_measurements_may_have_names():
    text = "id,time,dv,amt,cmt,dvid\n1,0,.,100,Depot,.\n1,1,2,.,.,cp\n1,2,90,.,.,pca\n"
    (one,) = read(text, doses={"depot": "gut"}, observables={"cp": "conc", "pca": "effect"})
    assert one.doses == (pf.Doses([0], 100, into="gut"),)
    assert one.observations["effect"].tolist()[1] == 90
    error = complaint(read, text.replace("pca", "inr"), doses="gut", observables={"cp": "conc"})
    assert (error.code, error.values["value"]) == ("files.nonmem_observable", "inr")


@pytest.mark.parametrize("column", ["TINF", "DUR", "duration"])
def test_durations_of_infusions(column):
    (one,) = read(f"ID,TIME,DV,AMT,{column}\n1,0,.,100,2\n1,1,2,.,.\n", doses="gut")
    assert one.doses == (pf.Doses([0], 100, into="gut", duration=2),)


def test_a_time_with_its_date_in_one_cell():
    (one,) = read("ID,TIME,DV\n1,2021-03-04 22:00,2\n1,2021-03-05 01:30,1\n")
    assert one.times.tolist() == [0, 3.5]


def test_an_individual_without_a_name_is_refused():
    assert complaint(read, "ID,TIME,DV\n.,0,2\n.,1,1\n").code == "files.unnamed_experiment"


def test_a_covariate_that_stands_for_a_missing_value_is_told():
    (one,) = read("ID,TIME,DV,wt\n1,0,2,-99\n1,1,1,-99\n", covariates=["WT"])
    assert [(remark.code, remark.values["column"]) for remark in one.remarks] == [
        ("files.coded_missing", "wt")
    ]


@pytest.mark.parametrize("columns, told", [("AMT,EVID", "EVID"), ("AMT,dose", "AMT"), ("MDV,dose", None)])
def test_a_plain_table_has_no_doses(columns, told):
    text = f"ID,TIME,DV,{columns}\n1,0,3,0,0\n1,1,2,0,0\n2,0,3,0,0\n"
    if told is None:
        assert len(pf.read_table(io.StringIO(text))) == 1
    else:
        error = complaint(pf.read_table, io.StringIO(text))
        assert (error.code, error.subject) == ("files.events_of_nonmem", told)
    (chosen,) = pf.read_table(io.StringIO(text), observables=["DV"])
    assert chosen.observables == ("DV",)


def test_covariates_may_stand_in_initial_formulas_alone(tmp_path):
    (tmp_path / "data.csv").write_text("experiment,t,x,S0\na,1,0.5,2\nb,1,0.7,3\n")
    (tmp_path / "problem.toml").write_text(
        'equations = "x\' = -k*x"\ndata = { file = "data.csv", covariates = ["S0"] }\n'
        '[parameters]\nk = [0.1, 5]\n[initial]\nx = "S0/2"\n'
    )
    problem = pf.read_problem(tmp_path)
    np.testing.assert_allclose(problem.layout.initial(problem.layout.lower)[0], [[1.0], [1.5]])
