"""Errors about measurements name their line of the table, in whatever order an experiment brings them."""

import pytest

import picardfit as pf
from complaints import complaint

MODEL = pf.Model("c' = b", observables={"cases": "c"})


def _read(tmp_path, text, noise=None, name="data.csv"):
    path = tmp_path / name
    path.write_text(text)
    return pf.Problem(MODEL, pf.read_table(path), {"b": (0.01, 30)}, {"c": 0.1}, noise=noise or pf.Poisson())


@pytest.mark.parametrize(
    "text, line",
    [
        ("t,cases\n3,4\n1,2.5\n2,3\n", 3),
        ("t,cases\n3,4\n\n# note\n1,2\n1,-2\n", 6),
        ("experiment,t,cases\na,1,4\nb,1,2\nb,2,2.5\n", 4),
        ("t,observable,value\n3,cases,4\n1,other,2.5\n1,cases,2.5\n", 4),
        ("date,cases\n2021-03-04,1\n2021-03-03,1.5\n", 3),
    ],
)
def test_a_number_that_is_no_count(tmp_path, text, line):
    error = complaint(_read, tmp_path, text)
    assert (error.code, error.place.line) == ("problem.not_a_count", line)
    assert error.place.file == str(tmp_path / "data.csv")


@pytest.mark.parametrize(
    "text, code, line",
    [
        ("t,cases,tested\n2,3,9\n1,3,2\n", "problem.more_than_trials", 3),
        ("t,cases,tested\n2,3,9\n1,3,\n", "problem.trials_missing", 3),
        ("t,cases,tested\n2,3,9\n1,3,2.5\n", "problem.not_a_count", 3),
    ],
)
def test_trials(tmp_path, text, code, line):
    error = complaint(_read, tmp_path, text, pf.Binomial(trials="tested"))
    assert (error.code, error.place.line) == (code, line)


def test_a_bad_measurement_without_a_table_is_named_by_its_time():
    one = pf.Experiment([1, 2, 3], {"cases": [4, 2.5, 1]}, "city")
    noise = {"noise": pf.Poisson()}
    error = complaint(pf.Problem, pf.Model("c' = b", observables={"cases": "c"}), one, **noise)
    assert "at t = 2 of `city`" in str(error)
    dated = pf.Experiment(["2021-03-04", "2021-03-05"], {"cases": [4, -1]}, "city")
    error = complaint(pf.Problem, pf.Model("c' = b", observables={"cases": "c"}), dated, **noise)
    assert "at 2021-03-05 of `city`" in str(error)


def test_a_censored_value_under_least_squares_is_named_with_its_line(tmp_path):
    (tmp_path / "data.csv").write_text("t,cases\n3,4\n1,<2.5\n")
    (one,) = pf.read_table(tmp_path / "data.csv")
    error = complaint(pf.Problem, pf.Model("c' = b", observables={"cases": "c"}), one)
    assert (error.code, error.place.line) == ("problem.censored_without_noise", 3)


def test_a_problem_file_names_the_line_of_its_table(tmp_path):
    (tmp_path / "data.csv").write_text("t,cases\n3,4\n1,2.5\n")
    path = tmp_path / "problem.toml"
    path.write_text(
        "equations = \"c' = b\"\nobservables = { cases = 'c' }\ndata = 'data.csv'\n"
        "[parameters]\nb = [0.01, 30]\n[noise]\ntype = 'poisson'\n"
    )
    error = complaint(pf.read_problem, path)
    assert (error.place.file, error.place.line) == (str(tmp_path / "data.csv"), 3)
