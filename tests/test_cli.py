"""The command line, and how long it takes to begin."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import picardfit as pf
from picardfit.cli import Example, app

runner = CliRunner()


def test_without_arguments_it_explains_itself():
    assert "demo" in runner.invoke(app, []).output


def test_version():
    assert runner.invoke(app, ["--version"]).output == f"picardfit {pf.__version__}\n"


def test_examples_are_the_built_in_problems():
    assert {one.value.replace("-", "_") for one in Example} == set(pf.problems.ALL)


@pytest.mark.parametrize("example", ["fitzhugh-nagumo", "van-der-pol"])
def test_demo_saves_the_fit_that_it_shows(tmp_path, example):
    result = runner.invoke(app, ["demo", "--example", example, "--seed", "3", "--out", str(tmp_path / "out")])
    saved = pf.load(tmp_path / "out" / "fit.json")
    assert result.exit_code == 0
    assert f"{saved.parameters['theta1']:.5g}" in result.output


def test_demo_says_where_the_report_is(tmp_path):
    result = runner.invoke(app, ["demo", "--example", "lorenz", "--out", str(tmp_path)])
    assert str(tmp_path / "report.html") in result.output
    assert (tmp_path / "report.html").is_file()


def test_a_bad_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    result = runner.invoke(app, ["demo", "--out", str(tmp_path / "file" / "folder")])
    assert result.exit_code == 2
    assert "choose another" in result.output
    assert "Traceback" not in result.output


def test_an_unknown_example_is_refused_with_the_known_ones():
    result = runner.invoke(app, ["demo", "--example", "lorentz"])
    assert result.exit_code == 2
    assert "van-der-pol" in result.output


def python(code):
    return subprocess.run([sys.executable, *code], capture_output=True, text=True, check=True).stdout


def test_it_runs_as_a_module():
    assert python(["-m", "picardfit", "--version"]) == f"picardfit {pf.__version__}\n"


def test_import_leaves_heavy_packages_alone():
    heavy = ["pandas", "matplotlib", "rich", "scipy"]
    code = f"import sys, picardfit; print([name for name in {heavy} if name in sys.modules])"
    assert python(["-c", code]) == "[]\n"
