"""`picardfit petab` and `picardfit check` on PEtab problems: tables, numbers, exit codes."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("libsbml", reason="PEtab problems need python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("yaml", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")

from typer.testing import CliRunner

from picardfit.cli.app import app
from picardfit.importers import petab

HERE = Path(__file__).parent / "data"


def call(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(HERE, tmp_path / "problem")


@pytest.fixture
def with_idle(folder):
    """The problem with a parameter that nothing uses."""
    path = folder / "parameters.tsv"
    path.write_text(path.read_text() + "idle\tlin\t0\t1\t0.5\t1\n")
    return folder / "exchange.yaml"


def rows(path: Path) -> list[dict[str, str]]:
    head, *lines = (line.split("\t") for line in path.read_text().splitlines())
    return [dict(zip(head, line, strict=True)) for line in lines]


def test_tables_and_numbers(folder):
    done = call("petab", folder / "exchange.yaml", "--json")
    assert done.exit_code == 0
    record = json.loads(done.stdout)
    out = folder / "results"
    names = {"fit.json", "report.html", "parameters_exchange.tsv", "simulations_exchange.tsv"}
    assert names <= {Path(one).name for one in record["files"]} == {one.name for one in out.iterdir()}
    problem = petab.read(folder / "exchange.yaml")
    estimates = {
        row["parameterId"]: float(row["nominalValue"]) for row in rows(out / "parameters_exchange.tsv")
    }
    assert problem.nllh(estimates) == pytest.approx(record["nllh"], rel=1e-6)
    for name, value in estimates.items():
        assert record["petab"][name]["estimate"] == value
        assert 10 ** record["petab"][name]["on_scale"] == pytest.approx(value)
    simulated, measured = rows(out / "simulations_exchange.tsv"), rows(folder / "measurements.tsv")
    assert [row["time"] for row in simulated] == [row["time"] for row in measured]
    gaps = [
        float(a["simulation"]) - float(b["measurement"]) for a, b in zip(simulated, measured, strict=True)
    ]
    squares = sum(gap**2 for gap in gaps) / 0.1**2 / 2
    assert record["nllh"] == pytest.approx(squares + len(gaps) * (0.5 * 1.8378770664 - 2.302585093), rel=1e-6)


def test_what_is_shown(with_idle):
    done = call("petab", with_idle, "--no-report")
    assert done.exit_code == 0
    assert "log10" in done.stdout
    assert "negative log-likelihood" in done.stdout
    assert "Warning: `idle` is not estimated, because no formula uses it" in done.stdout
    table = rows(with_idle.parent / "results" / "parameters_exchange.tsv")
    assert table[-1]["nominalValue"] == "0.5"


def test_a_search_that_does_not_converge(folder):
    done = call("petab", folder / "exchange.yaml", "--json", "--max-iterations", 1)
    assert done.exit_code == 1
    assert json.loads(done.stdout)["success"] is False


@pytest.mark.parametrize("command", ["petab", "check"])
def test_bad_files(folder, command):
    (folder / "observables.tsv").unlink()
    done = call(command, folder / "exchange.yaml")
    assert done.exit_code == 2
    assert "There is no observable table" in done.output
    assert "Traceback" not in done.output
    record = json.loads(call(command, folder / "exchange.yaml", "--json").stdout)
    assert record["success"] is False
    assert "observables.tsv" in record["errors"][0]["message"]


def test_check(with_idle):
    done = call("check", with_idle)
    assert done.exit_code == 0
    assert "A' = -A*k1 + B*k2" in done.stdout
    assert "Warning: `idle` is not estimated" in done.stdout
    record = json.loads(call("check", with_idle, "--quick", "--json").stdout)
    assert record["measurements"] == 8
    assert record["unknowns"] == 2
    assert record["warnings"][0].startswith("`idle` is not estimated")


def test_a_folder_with_one_problem_stands_for_it(folder, tmp_path):
    assert call("petab", folder, "--no-report", "--quiet").exit_code == 0
    assert (folder / "results" / "fit.json").is_file()
    (folder / "second.yaml").write_text((folder / "exchange.yaml").read_text())
    result = call("petab", folder)
    assert result.exit_code == 2
    assert "exchange.yaml" in result.stderr
    assert "second.yaml" in result.stderr


def test_a_model_alone_is_no_problem(folder):
    result = call("check", folder / "model.xml")
    assert result.exit_code == 2
    assert "model.xml: This is a model, not a problem.toml" in result.stderr
    assert 'importers.sbml.read("model.xml")' in result.stderr


def test_a_quick_check_says_that_the_likelihood_is_infinite(folder):
    table = folder / "observables.tsv"
    table.write_text(table.read_text().replace("\tA\t", "\tlog(A - 50)\t"))
    result = call("check", folder / "exchange.yaml", "--quick")
    assert "The likelihood at the nominal values is not finite" in " ".join(result.stdout.split())
