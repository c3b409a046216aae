"""`picardfit select` and `validate`, and what `fit` writes about criteria, residuals and derived quantities."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import picardfit as pf
from picardfit.cli import app
from picardfit.cli.current import interrupted
from picardfit.errors import Notice

runner = CliRunner()
TIMES = np.linspace(0, 8, 21)
TOML = """
equations = "{equations}"
t0 = 0
[data]
file = "{data}"
time = "hour"
experiment = "run"
[parameters]
{parameters}
[experiments.a]
initial = {{ x = 4.0 }}
{more}
"""


def run(*arguments):
    return runner.invoke(app, [str(one) for one in arguments])


def curve(start, seed):
    """x' = -x/(1 + x) by Euler's method with 400 steps between samples, with noise."""
    values, x = [], start
    for _ in TIMES:
        values.append(x)
        for _ in range(400):
            x -= 1e-3 * x / (1 + x)
    return np.array(values) * np.exp(0.03 * np.random.default_rng(seed).standard_normal(len(TIMES)))


def write_data(path, runs):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["hour", "run", "x"])
        for name, start, seed in runs:
            writer.writerows(zip(TIMES, [name] * len(TIMES), curve(start, seed), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models of two runs, with a third run in a table of its own."""
    home = tmp_path_factory.mktemp("models")
    write_data(home / "data.csv", [("a", 4.0, 1), ("b", 2.0, 2)])
    write_data(home / "third.csv", [("c", 3.0, 3)])
    for name, equations, parameters in (
        ("linear", "x' = -k*x", "k = [0.01, 5]"),
        ("saturated", "x' = -vmax*x/(km + x)", "vmax = [0.01, 10]\nkm = [0.01, 50]"),
    ):
        (home / name).mkdir()
        more = '[derived]\nhalf_life = { formula = "log(2)/k", unit = "h" }' if name == "linear" else ""
        text = TOML.format(equations=equations, data="../data.csv", parameters=parameters, more=more)
        (home / name / "problem.toml").write_text(text)
    return home


@pytest.fixture(scope="module")
def fitted(folder):
    return json.loads(run("fit", folder / "linear", "--json").stdout)


def test_json_of_a_fit_has_the_criteria_of_least_squares(fitted):
    found = fitted["criteria"]
    assert (found["estimated"], found["measurements"]) == (3, 42)
    assert found["aic"] == pytest.approx(2 * 3 - 2 * found["log_likelihood"])
    assert found["bic"] == pytest.approx(3 * np.log(42) - 2 * found["log_likelihood"])


def test_json_of_a_fit_has_derived_quantities_and_tests(fitted, folder):
    saved = json.loads((folder / "linear" / "results" / "fit.json").read_text())
    value = np.log(2) / fitted["estimates"]["k"]["estimate"]
    assert fitted["derived"]["half_life"]["value"] == pytest.approx(value)
    told = fitted["derived"]["half_life"]
    assert told.pop("also_fits") is None  # no other optimum fits as well
    assert saved["derived"]["half_life"] == told
    assert saved["criteria"] == fitted["criteria"]
    assert fitted["diagnostics"]["autocorrelation"]["x"]["probability"] < 0.01


def test_tables_have_derived_quantities(fitted, folder):
    rows = list(csv.DictReader((folder / "linear" / "results" / "parameters.csv").open()))
    assert [(one["name"], one["unit"]) for one in rows if one["remark"].startswith("= ")] == [
        ("half_life", "h")
    ]


def test_an_interval_by_profile_has_the_digits_of_the_row_above(fitted, folder):
    lines = run("fit", folder / "linear", "--no-report").stdout.splitlines()
    k = next(k for k, line in enumerate(lines) if line.startswith("half_life"))
    above, below = lines[k].split()[3:5], lines[k + 1].split()[-2:]
    assert [len(one.partition(".")[2]) for one in below] == [len(one.partition(".")[2]) for one in above]


def test_profile_of_a_derived_quantity_is_shown_beside_the_delta_method(fitted, folder):
    result = run("profile", folder / "linear" / "results" / "fit.json", "-p", "half_life")
    assert result.exit_code == 0
    numbers = [float(cell) for cell in result.stdout.splitlines()[1].split()[1:]]
    assert numbers[3:] == pytest.approx(fitted["derived"]["half_life"]["interval_95"], rel=1e-3)


def test_select_shows_the_better_model_first(fitted, folder):
    result = run("select", folder / "linear", folder / "saturated")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[0] == "saturated"
    assert "linear differs from saturated in: equations of x; parameters + k - km, vmax." in result.stdout


def test_select_refuses_one_model_given_twice(fitted, folder):
    result = run("select", folder / "linear", folder / "linear")
    assert result.exit_code == 2
    assert "at least two" in result.stderr


def test_select_as_json(fitted, folder):
    found = json.loads(run("select", folder / "linear", folder / "saturated", "--json").stdout)
    assert found["best"] == "saturated"
    assert found["models"][1]["differs"]["equations"] == ["x"]


def test_quiet_select_prints_the_name_of_the_best(fitted, folder):
    result = run("select", folder / "linear" / "results" / "fit.json", folder / "saturated", "-q")
    assert result.stdout == "saturated\n"


def test_select_refuses_other_data(folder, tmp_path):
    text = TOML.format(equations="x' = -k*x", data="other.csv", parameters="k = [0.01, 5]", more="")
    (tmp_path / "problem.toml").write_text(text)
    write_data(tmp_path / "other.csv", [("a", 4.0, 1), ("b", 2.0, 5)])
    result = run("select", folder / "linear", tmp_path, "--json")
    (error,) = json.loads(result.stdout)["errors"]
    assert (result.exit_code, error["code"]) == (2, "inference.other_data")


def test_select_fits_again_when_the_problem_has_changed(folder, tmp_path):
    (tmp_path / "changed").mkdir()
    text = TOML.format(equations="x' = -k*x", data="../data.csv", parameters="k = 0.5", more="")
    write_data(tmp_path / "data.csv", [("a", 4.0, 1), ("b", 2.0, 2)])
    (tmp_path / "changed" / "problem.toml").write_text(text.replace("k = 0.5", "k = [0.01, 5]"))
    run("fit", tmp_path / "changed", "--no-report", "-q")
    (tmp_path / "changed" / "problem.toml").write_text(text)
    found = json.loads(run("select", folder / "linear", tmp_path / "changed", "--json").stdout)
    assert {one["name"]: one["estimated"] for one in found["models"]} == {"linear": 3, "changed": 2}


def test_profile_and_export_use_the_saved_fit_until_the_problem_changes(fitted, folder, tmp_path):
    shutil.copytree(folder / "linear", tmp_path / "linear")
    shutil.copy(folder / "data.csv", tmp_path)
    commands = ("profile", tmp_path / "linear", "-p", "k", "-v"), ("export", tmp_path / "linear")
    assert [run(*one).stderr for one in commands] == ["", ""]
    problem = tmp_path / "linear" / "problem.toml"
    problem.write_text(problem.read_text().replace("k = [0.01, 5]", "k = [0.01, 6]"))
    assert "search 1" in run(*commands[0]).stderr


@pytest.mark.parametrize("code", ["search.unconfirmed", "search.interrupted"])
def test_an_interrupted_fit_is_not_used_again(fitted, folder, code):
    fit = pf.load(folder / "linear" / "results" / "fit.json")
    assert not interrupted(fit)
    assert interrupted(replace(fit, warnings=(Notice(code, values={"done": 1, "asked": 3}),)))


def test_validate_predicts_other_data(folder):
    result = run("validate", folder / "saturated", "--data", folder / "third.csv")
    assert result.exit_code == 0
    assert "Fitted to the data shown here: x(0)." in result.stdout
    assert (folder / "saturated" / "results" / "validation.png").stat().st_size > 1000


def test_validate_as_json(folder, tmp_path):
    arguments = ("--data", folder / "third.csv", "--set", "x=3", "--out", tmp_path / "out", "--json")
    found = json.loads(run("validate", folder / "saturated", *arguments).stdout)
    assert found["scores"]["c"]["x"]["r_squared"] > 0.98
    assert found["fitted"] == {"c": []}
    assert found["files"] == [str(tmp_path / "out" / "validation.png")]


def test_validate_writes_the_picture_that_was_named(folder, tmp_path):
    result = run(
        "validate", folder / "saturated", "--data", folder / "third.csv", "--out", tmp_path / "y.pdf"
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "y.pdf").read_bytes().startswith(b"%PDF")


def test_validate_refuses_a_picture_of_another_format(folder, tmp_path):
    arguments = ("--data", folder / "third.csv", "--out", tmp_path / "y.gif", "--json")
    (error,) = json.loads(run("validate", folder / "saturated", *arguments).stdout)["errors"]
    assert (error["code"], list(tmp_path.iterdir())) == ("display.picture_format", [])


def test_validate_names_a_missing_file_as_it_was_given(folder):
    (error,) = json.loads(run("validate", folder / "saturated", "--data", "no.csv", "--json").stdout)[
        "errors"
    ]
    assert (error["code"], error["subject"]) == ("cli.no_data_file", "no.csv")


def test_validate_leaves_one_out(folder, tmp_path):
    found = json.loads(
        run("validate", folder / "saturated", "--leave-one-out", "--out", tmp_path, "--json").stdout
    )
    assert found["left_out"]
    assert list(found["scores"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "cli.validate_nothing"),
        (("--data", "third.csv", "--leave-one-out"), "cli.validate_both"),
        (("--data", "third.csv", "--initial", "free"), "inference.validation_initial"),
        (("--data", "third.csv", "--initial", "given"), "inference.validation_unknown"),
        (("--data", "missing.csv"), "cli.no_data_file"),
        (("--data", "other.csv"), "files.column_not_observed"),
    ],
)
def test_wrong_validations_are_one_sentence(folder, arguments, code, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "other.csv").write_text("hour,run,speed\n0,a,1\n1,a,2\n")
    result = run("validate", "saturated", *arguments, "--json")
    (error,) = json.loads(result.stdout)["errors"]
    assert (result.exit_code, error["code"]) == (2, code)


def test_a_saved_fit_cannot_say_how_tables_are_read(fitted, folder):
    saved = folder / "linear" / "results" / "fit.json"
    result = run("validate", saved, "--data", folder / "third.csv", "--json")
    assert json.loads(result.stdout)["errors"][0]["code"] == "cli.validate_saved"
