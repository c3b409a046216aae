"""`picardfit export`."""

import json

import pytest
from typer.testing import CliRunner

from exported import clinic_fit, loaded
from picardfit.cli import app
from picardfit.cli.new import Starter, write_starter

runner = CliRunner()


def run(*arguments):
    return runner.invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return clinic_fit().save(tmp_path_factory.mktemp("clinic") / "fit.json")


def test_a_folder_is_fitted_and_written(tmp_path):
    write_starter(Starter.LOTKA_VOLTERRA, tmp_path)
    said = run("export", tmp_path, "--out", tmp_path / "model.py")
    assert said.exit_code == 0
    assert said.stdout.split() == ["written", "to", str(tmp_path / "model.py")]
    assert loaded(tmp_path / "model.py").simulate("lynx_hare", [1900.0])["hare"][0] > 1


def test_a_saved_fit_is_written_beside_itself(saved):
    said = run("export", saved, "--format", "modelica", "-e", "two")
    assert said.exit_code == 0
    assert "choose with" not in said.stdout
    assert "Experiment two" in (saved.parent / "model.mo").read_text()


def test_what_is_left_out_is_told(saved, tmp_path):
    said = run("export", saved, "--out", tmp_path / "model.mo")
    assert "experiment one; the fit has 1 more experiment, choose with --experiment" in said.stdout


def test_for_machines(saved, tmp_path):
    said = json.loads(run("export", saved, "--out", tmp_path / "model.stan", "--json").stdout)
    assert (said["format"], said["experiments"], len(said["files"])) == ("stan", ["one", "two"], 3)


def test_a_bad_ending_is_one_sentence_before_any_fit(tmp_path):
    said = run("export", tmp_path / "not there", "--out", "model.m")
    assert said.exit_code == 2
    assert said.stderr.startswith("picardfit: The ending `.m` does not say")
    assert "--format sbml" in said.stderr
