"""Populations in problem files and on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import picardfit as pf
from complaints import complaint
from picardfit.cli import app
from picardfit.files.problem_file import read_problem_file
from picardfit.problem.json_values import plain
from picardfit.problem.serialisation import problem_from, problem_record

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
TEXT = """
equations = "x' = -ke*x"
data = {{ file = "{data}", format = "nonmem", observables = "x" }}

[parameters]
ke = {{ lower = 0.01, upper = 10, log = true, random = true }}

[initial]
x = 10

[noise]
proportional = [0.001, 1]

[random]
{random}
"""


def written(folder, random=""):
    path = folder / "problem.toml"
    path.write_text(TEXT.format(data=(DATA / "wang2007.csv").as_posix(), random=random))
    return path


def test_random_effects_are_read(tmp_path):
    file = read_problem_file(written(tmp_path, 'start = { ke = 0.1 }\nmarginal = "quadrature"\nnodes = 3'))
    assert file.with_data.random == pf.RandomEffects(start={"ke": 0.1})
    assert file.with_data.parameters["ke"].random
    assert file.settings.marginal == pf.Quadrature(3)


def test_unknown_marginal(tmp_path):
    error = complaint(read_problem_file, written(tmp_path, 'marginal = "focii"'))
    assert error.code == "files.unknown_marginal"


def test_random_effects_survive_a_record(tmp_path):
    problem = pf.read_problem(written(tmp_path, "fixed = { ke = 0.04 }"))
    again = problem_from(plain(problem_record(problem), "problem"))
    assert again.random == problem.random
    assert again.parameters == problem.parameters


def test_a_damaged_record_of_random_effects(tmp_path):
    content = plain(problem_record(pf.read_problem(written(tmp_path))), "problem")
    error = complaint(problem_from, content | {"random": 3})
    assert error.code == "problem.saved_random"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wang")
    ran = CliRunner().invoke(app, ["fit", str(written(folder)), "--no-report"])
    return folder / "results", ran


def test_command_writes_its_files(fitted):
    folder, ran = fitted
    assert ran.exit_code == 0, ran.output
    assert {path.name for path in folder.iterdir()} == {
        "fit.json",
        "parameters.csv",
        "individuals.csv",
        "predictions.csv",
    }
    assert "-4.3404" in ran.output
    assert "sd(ke)" in (folder / "parameters.csv").read_text()


def test_command_for_machines(tmp_path):
    ran = CliRunner().invoke(app, ["fit", str(written(tmp_path)), "--json", "--no-report"])
    found = json.loads(ran.output)
    assert found["objective"] == pytest.approx(-4.34035, abs=1e-4)
    assert found["covariance"]["ke"]["ke"] == pytest.approx(0.0793, rel=1e-2)


def test_command_profiles_a_saved_fit(fitted):
    folder, _ = fitted
    ran = CliRunner().invoke(app, ["profile", str(folder / "fit.json"), "-p", "ke", "--quiet"])
    assert ran.exit_code == 0, ran.output
    assert (folder / "profiles.csv").read_text().startswith("name,value,rise")


def test_one_individual_is_a_fault_of_the_file(tmp_path):
    path = written(tmp_path)
    (tmp_path / "one.csv").write_text("ID,TIME,DV\n1,0,10\n1,1,6\n")
    path.write_text(path.read_text().replace((DATA / "wang2007.csv").as_posix(), "one.csv"))
    assert complaint(read_problem_file, path).code == "inference.population_of_one"
