"""Commands on a population: the starter of theophylline from `new` to pictures, predictions and designs."""

import json

import pytest
from typer.testing import CliRunner

import picardfit as pf
from complaints import complaint
from picardfit.cli import app
from picardfit.files.problem_file import read_problem_file

CANDIDATE = """
[candidates.early]
times = [0.25, 0.5, 1]
covariates = { WT = 70 }
doses = { times = [0], amounts = [320], into = "gut" }
"""


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("population") / "study"
    assert run("new", folder, "--from", "population").exit_code == 0
    with (folder / "problem.toml").open("a", encoding="utf-8") as file:
        file.write(CANDIDATE)
    result = run("fit", folder, "--no-report")
    assert result.exit_code == 0, result.output
    assert "116.80" in result.output
    return folder


def test_a_picture_is_drawn(study, tmp_path):
    result = run("plot", study, "--what", "vpc", "--level", "0.9", "--out", tmp_path / "vpc.png", "--json")
    said = json.loads(result.stdout)
    assert (said["picture"], said["remarks"]) == ("vpc", [])  # the saved fit is that of the problem as it is
    assert (tmp_path / "vpc.png").read_bytes().startswith(b"\x89PNG")


def test_predictions_are_curves_of_individuals_without_bands(study):
    result = run("predict", study, "--times", "12,24", "-e", "1")
    first = result.stdout.splitlines()[1].split(",")
    fit = pf.load(study / "results" / "fit.json")
    assert float(first[2]) == pytest.approx(fit.predict("1", [12])["conc"][0])
    assert first[3:] == ["", ""]
    assert "no bands" in result.stderr


def test_typical_values_of_a_fit_are_simulated(study):
    result = run("simulate", study, "--fit", study / "results" / "fit.json", "--times", "12,24")
    fit = pf.load(study / "results" / "fit.json")
    row = next(line for line in result.stdout.splitlines() if line.startswith("1,12"))
    assert float(row.split(",")[2]) == pytest.approx(
        fit.predict("1", [12], typical=True)["conc"][0], rel=1e-4
    )


def test_curves_are_exported(study, tmp_path):
    assert run("export", study / "results" / "fit.json", "--out", tmp_path / "m.py").exit_code == 0


def test_profiles_of_typical_values_and_spreads(study):
    saved = study / "results" / "fit.json"
    result = run("profile", saved, "-p", "sd(v)")
    assert result.exit_code == 0, result.output
    low, high = pf.load(saved).profile("sd(v)").interval()
    told = next(line.split() for line in result.output.splitlines() if line.startswith("sd(v)"))
    assert [float(told[2]), float(told[3])] == pytest.approx([low, high], rel=1e-3)
    kept = json.loads(run("profile", saved, "-p", "v", "--json").stdout)["kept"]
    assert kept == ["sd(v)"]


def test_draws_of_a_population_are_refused(study):
    result = run("sample", study / "results" / "fit.json")
    assert result.exit_code == 2
    assert "vary between individuals" in result.stderr


def test_priors_of_spreads_in_a_problem_file(study, tmp_path):
    text = (study / "problem.toml").read_text(encoding="utf-8")
    (tmp_path / "theophylline.csv").write_bytes((study / "theophylline.csv").read_bytes())
    path = tmp_path / "problem.toml"
    given = 'correlated = []\npriors = { ka = { type = "half-normal", sd = 0.5 } }'
    path.write_text(text.replace("correlated = []", given), encoding="utf-8")
    assert pf.read_problem(path).random.priors == {"ka": pf.priors.HalfNormal(0.5)}
    path.write_text(text.replace("correlated = []", "priors = 3"), encoding="utf-8")
    assert complaint(pf.read_problem, path).code == "files.prior_kind"


def test_candidates_are_ranked(study):
    result = run("design", study, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["chosen"] == ["early"]


@pytest.mark.parametrize("command", [("select",), ("validate", "--leave-one-out"), ("export", "--petab")])
def test_commands_for_single_fits_refuse_populations(study, command):
    result = run(
        *command, study, *([study / "results" / "fit.json"] if command[0] == "select" else []), "--json"
    )
    (error,) = json.loads(result.stdout)["errors"]
    assert error["code"] == "cli.not_of_populations"


# ---- tables of the field ---------------------------------------------------------------------------------------------

TABLE = """ID,TIME,DV,AMT,RATE,EVID,CMT,DVID,II,ADDL,SS,MDV,CENS,LIMIT,WT
1,0,.,100,0,1,1,.,12,2,0,1,0,.,70
1,0.5,5.1,.,.,0,.,1,.,.,.,0,0,.,70
1,3,0.25,.,.,0,.,1,.,.,.,0,1,0,70
1,3,2.2,.,.,0,.,2,.,.,.,0,0,.,70
1,30,.,50,25,1,2,.,.,.,0,1,0,.,70
1,33,4.0,.,.,0,.,1,.,.,.,0,0,.,70
2,0,.,100,0,1,1,.,12,2,1,1,0,.,90
2,0.5,6.1,.,.,0,.,1,.,.,.,0,0,.,90
2,3,3.3,.,.,0,.,1,.,.,.,0,0,.,90
2,3,2.4,.,.,0,.,2,.,.,.,0,0,.,90
"""
PROBLEM = """
equations = '''
gut' = -ka*gut
central' = ka*gut - cl*(WT/70)^0.75/v*central
'''

[data]
file = "table.csv"
doses = { 1 = "gut", 2 = "central" }
observables = { 1 = "conc", 2 = "amount" }
covariates = ["WT"]

[observables]
conc = "central/v"
amount = "gut"

[parameters]
ka = { lower = 0.05, upper = 20, log = true }
cl = { lower = 0.1, upper = 50, log = true, random = true }
v  = { lower = 1, upper = 500, log = true, random = true }

[initial]
gut = 0
central = 0

[noise]
additive = [0.01, 10]
"""


def test_a_table_with_all_columns_is_a_population(tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "problem.toml").write_text(PROBLEM)
    problem = read_problem_file(tmp_path).with_data
    assert problem.names == ("1", "2")
    first, second = problem.experiments
    assert first.observations["conc"][1] == "0.0..0.25"
    assert sorted(dose.into for dose in first.doses) == ["central", "gut"]
    assert second.rest is not None
    assert [one.covariates["WT"] for one in problem.experiments] == [70, 90]
    values = {"ka": 1.0, "cl": 3.0, "v": 20.0, "noise.additive": 0.5}
    assert problem.marginal_objective(values, {"cl": 0.1, "v": 0.1}) < 1e3


def test_an_individual_that_a_steady_state_divides_is_refused(tmp_path):
    (tmp_path / "table.csv").write_text(
        TABLE + "2,48,.,100,0,1,1,.,12,0,1,1,0,.,90\n2,49,5.0,.,.,0,.,1,.,.,.,0,0,.,90\n"
    )
    (tmp_path / "problem.toml").write_text(PROBLEM)
    assert complaint(read_problem_file, tmp_path).code == "inference.population_divided"
