"""`picardfit sample`: draws from the command line."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from picardfit.cli import app

PROBLEM = """
equations = "x' = -k*x"

[data]
file = "data.csv"

[parameters]
k = { lower = 0.01, upper = 5, prior = { type = "half-cauchy", scale = 1.0 } }

[initial]
x = { lower = 0, upper = 10, prior = { type = "gamma", shape = 4.0, rate = 2.0 } }
"""
NOISE = """
[noise]
additive = { lower = 0.01, upper = 1, prior = { type = "exponential", rate = 5.0 } }
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.csv").write_text("time,x\n0,2.1\n0.5,1.5\n1,1.0\n2,0.55\n3,0.2\n4,0.15\n")
    (tmp_path / "problem.toml").write_text(PROBLEM + NOISE)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["sample", *map(str, arguments)])


def test_draws_are_written_and_shown(folder):
    (folder / "problem.toml").write_text(PROBLEM + "[noise]\nadditive = 0.1\n")
    done = run(folder, "--method", "laplace", "--draws", 4000)
    assert done.exit_code == 0, done.output
    assert "k-hat" in done.output
    table = pd.read_csv(folder / "results" / "posterior.csv")
    assert list(table["name"]) == ["k", "x(0)"]
    assert len(pd.read_csv(folder / "results" / "draws.csv")) == 4000
    assert "<h2>Posterior</h2>" in (folder / "results" / "report.html").read_text()


def test_json_holds_the_summary_and_few_draws_end_with_code_1(folder):
    done = run(folder, "--draws", 10, "--warmup", 10, "--chains", 2, "--json", "--no-report")
    record = json.loads(done.stdout)
    assert done.exit_code == 1
    assert not record["success"]
    assert record["chains"] == 2
    assert record["summary"].keys() == {"k", "noise.additive", "x(0)"}
    assert not (folder / "results" / "report.html").exists()


def test_a_problem_without_noise_is_refused(folder):
    (folder / "problem.toml").write_text(
        PROBLEM.replace(', prior = { type = "half-cauchy", scale = 1.0 }', "").replace(
            ', prior = { type = "gamma", shape = 4.0, rate = 2.0 }', ""
        )
    )
    done = run(folder, "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["errors"][0]["code"] == "inference.posterior_without_noise"


def test_a_ledger_gives_the_same_draws_again(folder):
    asked = (
        folder,
        "--draws",
        20,
        "--warmup",
        20,
        "--chains",
        2,
        "--no-report",
        "--json",
        "--ledger",
        folder / "l",
    )
    first, again = run(*asked), run(*asked)
    assert json.loads(first.stdout)["summary"] == json.loads(again.stdout)["summary"]
    other = run(*asked, "--seed", 3)
    assert other.exit_code == 2
    assert json.loads(other.stdout)["errors"][0]["code"] == "parallel.ledger_of_another_run"


def test_another_sampler_can_be_chosen(folder):
    pytest.importorskip("emcee")
    done = run(folder, "--method", "emcee", "--draws", 20, "--warmup", 10, "--no-report")
    assert done.exit_code == 1, done.output
    assert "32 walkers of 20 draws" in done.output
