"""The command line, and how long it takes to begin."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import picardfit as pf
from picardfit.cli import app
from picardfit.cli.check import CheckSettings, examine
from picardfit.cli.common import complaints
from picardfit.cli.demo import Example
from picardfit.cli.new import Starter, write_starter
from picardfit.cli.show import rounded

runner = CliRunner()
COMMANDS = [
    "demo",
    "new",
    "check",
    "fit",
    "plot",
    "predict",
    "simulate",
    "profile",
    "select",
    "validate",
    "design",
    "export",
    "petab",
]


def run(*arguments):
    return runner.invoke(app, [str(one) for one in arguments])


def python(code):
    return subprocess.run([sys.executable, *code], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def ponds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ponds")
    write_starter(Starter.LOTKA_VOLTERRA, folder)
    return folder


@pytest.fixture(scope="module")
def fitted(ponds, tmp_path_factory):
    """What `picardfit fit` said and wrote."""
    out = tmp_path_factory.mktemp("out") / "results"
    return run("fit", ponds, "--out", out), out


# ---- help and version --------------------------------------------------------------------------------------


def test_without_arguments_it_explains_itself():
    output = run().output
    assert all(re.search(rf"\b{name}\b", output) for name in COMMANDS)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(option):
    assert run(option).output == f"picardfit {pf.__version__}\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, option):
    result = run(command, option)
    assert result.exit_code == 0
    assert f"Example: picardfit {command}" in result.output


def test_help_of_the_program_tells_the_exit_codes():
    output = " ".join(run("--help").output.replace("│", " ").split())
    assert "2 bad input, 3 internal error" in output


def test_it_runs_as_a_module():
    assert python(["-m", "picardfit", "--version"]) == f"picardfit {pf.__version__}\n"


def test_import_leaves_heavy_packages_alone():
    heavy = ["pandas", "matplotlib", "rich", "scipy", "numpy", "picardfit.display"]
    code = f"import sys, picardfit; print([name for name in {heavy} if name in sys.modules])"
    assert python(["-c", code]) == "[]\n"


def test_help_needs_no_numerics():
    heavy = ["numpy", "sympy", "scipy", "pandas", "matplotlib"]
    code = (
        "import sys; from typer.testing import CliRunner; from picardfit.cli import app; "
        "CliRunner().invoke(app, ['fit', '--help']); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    assert python(["-c", code]) == "[]\n"


def test_public_names_work_without_being_imported_first():
    code = (
        "import picardfit as pf; print([n for n in pf.__all__ if not hasattr(pf, n)], hasattr(pf, 'nothing'))"
    )
    assert python(["-c", code]) == "[] False\n"


def test_there_is_shell_completion():
    assert "--install-completion" in run("--help").output


# ---- demo and new ------------------------------------------------------------------------------------------


def test_examples_are_the_built_in_problems():
    assert {one.value.replace("-", "_") for one in Example} == set(pf.examples.ALL)


@pytest.mark.parametrize("example", ["fitzhugh-nagumo", "van-der-pol"])
def test_demo_saves_the_fit_that_it_shows(tmp_path, example):
    result = run("demo", "--example", example, "--seed", 3, "--out", tmp_path / "out")
    saved = pf.load(tmp_path / "out" / "fit.json")
    assert result.exit_code == 0
    assert rounded(saved.parameters["theta1"], saved.standard_errors["theta1"]) in result.output


def test_demo_says_where_the_report_is(tmp_path):
    result = run("demo", "--example", "lorenz", "--out", tmp_path)
    assert str(tmp_path / "report.html") in result.output
    assert (tmp_path / "report.html").is_file()


def test_a_bad_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("demo", "--out", tmp_path / "file" / "folder")
    assert result.exit_code == 2
    assert "choose another" in result.output
    assert "Traceback" not in result.output


def test_an_unknown_example_is_refused_with_the_known_ones():
    result = run("demo", "--example", "lorentz")
    assert result.exit_code == 2
    assert "van-der-pol" in result.output


@pytest.mark.parametrize("starter", list(Starter))
def test_new_writes_a_folder_that_check_accepts(tmp_path, starter):
    assert run("new", tmp_path / "mine", "--from", starter.value).exit_code == 0
    result = run("check", tmp_path / "mine", "--quick")
    assert result.exit_code == 0, result.output
    assert "in order" in result.output


def test_new_overwrites_nothing(ponds):
    before = (ponds / "problem.toml").read_bytes()
    result = run("new", ponds, "--from", "influenza")
    assert result.exit_code == 2
    assert "already" in result.output
    assert (ponds / "problem.toml").read_bytes() == before


def test_the_schema_is_shown():
    assert json.loads(run("schema").output)["title"] == "picardfit problem file"


# ---- check -------------------------------------------------------------------------------------------------


def test_check_shows_model_and_data(ponds):
    output = run("check", ponds).output
    assert "hare' = " in output
    assert "lynx_hare" in output
    assert "Theory" not in output


def test_check_shows_constants_of_the_theorems_on_request(ponds):
    output = run("check", ponds, "--theory").output
    assert re.search(r"T = [\d.e-]+; along these data T = [\d.e-]+", output.replace("\n", " "))


@pytest.mark.parametrize("options, there", [([], False), (["--theory"], True)])
def test_check_for_machines_has_constants_on_request(ponds, options, there):
    assert ("segment_length" in json.loads(run("check", ponds, "--json", *options).output)) is there


def test_check_tells_all_errors_at_once(ponds, tmp_path):
    text = (
        (ponds / "problem.toml")
        .read_text()
        .replace("birth = {", "brith = {")
        .replace("lower = 0.001", "lowr = 1")
    )
    (tmp_path / "problem.toml").write_text(text)
    (tmp_path / "lynx_hare.csv").write_bytes((ponds / "lynx_hare.csv").read_bytes())
    result = run("check", tmp_path)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert lines[-1] == "picardfit: 3 errors."
    assert all(
        re.match(rf"{re.escape(str(tmp_path))}/problem.toml:\d+: .*Did you mean `\w+`\?$", x)
        for x in lines[:-1]
    )


def test_check_for_machines(ponds, tmp_path):
    record = json.loads(run("check", ponds, "--json").output)
    assert record["unknowns"] == 6
    assert record["experiments"]["lynx_hare"]["from"] == 1900
    (tmp_path / "problem.toml").write_text("equations = 1\n")
    result = run("check", tmp_path, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["errors"][0]["line"] == 1


def test_errors_for_machines_have_place_code_and_subject(ponds, tmp_path):
    text = (ponds / "problem.toml").read_text().replace("birth = {", "brith = {")
    (tmp_path / "problem.toml").write_text(text)
    (tmp_path / "lynx_hare.csv").write_bytes((ponds / "lynx_hare.csv").read_bytes())
    found = json.loads(run("check", tmp_path, "--json").stdout)["errors"]
    line = next(k for k, row in enumerate(text.splitlines(), 1) if "brith" in row)
    assert {key: value for key, value in found[0].items() if key != "message"} == {
        "file": str(tmp_path / "problem.toml"),
        "line": line,
        "key": ["parameters", "brith"],
        "code": "files.unknown_parameter",
        "subject": "brith",
    }
    assert found[0]["message"].endswith("Did you mean `birth`?")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("fit", "--starts", "foo"), "'foo' is not a whole number"),
        (("profile", "--level", "high"), "'high' is not a number"),
        (("fit", "--starts", "0"), "0 is less than 1"),
        (("simulate", "--digits", "18"), "18 is more than 17"),
    ],
)
def test_values_of_options_are_refused_in_plain_words(arguments, words):
    result = run(*arguments)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2
    assert (
        words in said or "is not in the range" in said or "is not a valid" in said
    )  # older Typer: Click's words
    assert "should be" not in said


def test_choices_are_refused_in_plain_words():
    said = " ".join(run("demo", "--example", "foo").stderr.replace("│", " ").split())
    assert "'foo' is not one of 'fitzhugh-nagumo'" in said
    assert "Value error" not in said


def test_an_import_that_ctrl_c_stopped_is_no_bug(capsys):
    """A compiled module that is stopped while it loads turns the interruption into an ImportError."""
    failed = ImportError("initialization failed")
    failed.__cause__ = KeyboardInterrupt()
    with pytest.raises(typer.Exit) as caught, complaints():
        raise failed
    assert caught.value.exit_code == 130
    assert "interrupted" in capsys.readouterr().err


def test_ctrl_c_while_the_command_line_is_loaded_is_quiet():
    script = """
import runpy, sys
class Stops:
    def find_spec(self, name, *rest):
        if name == "picardfit.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stops())
runpy.run_module("picardfit", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


# ---- internal errors ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", [["--json"], []])
def test_a_full_standard_output_is_one_sentence(ponds, options):
    command = [sys.executable, "-m", "picardfit", "check", str(ponds), "--quick", *options]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("picardfit: Standard output cannot be written")


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """A command with a bug, run in an empty folder."""

    def bug(*_, **__):
        return 1 / 0

    monkeypatch.setattr("picardfit.files.problem_file.read_problem_file", bug)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_an_internal_error_is_one_line_and_a_file_with_the_traceback(broken):
    result = run("check", ".")
    assert result.exit_code == 3
    (report,) = broken.glob("picardfit-error-*.txt")
    (line,) = result.stderr.splitlines()
    assert line == (
        "picardfit: Internal error (ZeroDivisionError): this is a bug in picardfit, not in your input: "
        f"please open an issue in the repository of picardfit and attach the file {report}."
    )
    text = report.read_text()
    assert pf.__version__ in text
    assert "Traceback" in text
    assert "ZeroDivisionError" in text


def test_an_internal_error_for_machines(broken):
    result = run("fit", ".", "--json")
    (error,) = json.loads(result.stdout)["errors"]
    assert (result.exit_code, error["code"], error["subject"]) == (
        3,
        "cli.internal_error",
        "ZeroDivisionError",
    )


def test_an_internal_error_in_a_folder_that_is_not_writable(broken, tmp_path, monkeypatch):
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(elsewhere))
    monkeypatch.setattr("pathlib.Path.cwd", lambda: tmp_path / "gone")
    assert run("check", ".").exit_code == 3
    assert len(list(elsewhere.glob("picardfit-error-*.txt"))) == 1


@pytest.mark.parametrize(
    "old, new, words",
    [
        ('t0 = "first"', "t0 = 0", "t0 ="),
        ("birth = {", "birth = {} #", "Bounds are missing for `birth`"),
        (
            'equations = """',
            'observables = { hare = "hare", lynx = "lynx", both = "hare + lynx" }\nequations = """',
            "both",
        ),
    ],
)
def test_check_warns(ponds, tmp_path, old, new, words):
    text = (ponds / "problem.toml").read_text()
    assert old in text
    (tmp_path / "problem.toml").write_text(text.replace(old, new, 1))
    (tmp_path / "lynx_hare.csv").write_bytes((ponds / "lynx_hare.csv").read_bytes())
    result = run("check", tmp_path, "--quick")
    assert result.exit_code == 0
    assert words in result.output


# ---- fit ---------------------------------------------------------------------------------------------------


def test_fit_writes_its_files(fitted):
    result, out = fitted
    assert result.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "fit.json",
        "parameters.csv",
        "predictions.csv",
        "report.html",
    ]


def test_tables_hold_the_fit(fitted):
    _, out = fitted
    saved = pf.load(out / "fit.json")
    with (out / "parameters.csv").open() as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert float(rows["birth"]["estimate"]) == saved.parameters["birth"]
    assert float(rows["hare(0)"]["upper"]) == saved.intervals()["hare(0)"][1]
    with (out / "predictions.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if float(row["time"]) == 1910)
    assert float(row["lynx"]) == pytest.approx(saved.predict("lynx_hare", [1910.0])["lynx"][0], rel=1e-12)
    band = saved.bands("lynx_hare", [1910.0], 0.95)["lynx"]
    ends = [float(row["lynx_lower"]), float(row["lynx_upper"])]
    assert ends == pytest.approx([band.low[0], band.high[0]], rel=1e-6)
    assert ends[0] < float(row["lynx"]) < ends[1]


def test_fit_shows_estimates_and_how_it_ended(fitted):
    output = fitted[0].output
    assert re.search(r"birth +0\.481 +0\.035 +0\.415 +0\.558 +1/year", output)
    assert pf.Status.CONVERGED.sentence() in output


def test_fit_for_machines(ponds, tmp_path):
    result = run("fit", ponds, "--json", "--no-report", "--out", tmp_path)
    record = json.loads(result.stdout)
    assert (record["success"], record["status"]) == (True, "CONVERGED")
    assert record["estimates"]["birth"]["estimate"] == pytest.approx(0.4812, rel=1e-3)
    assert result.stderr == ""
    assert not (tmp_path / "report.html").exists()


def test_a_fit_that_does_not_converge_ends_with_one(ponds, tmp_path):
    result = run("fit", ponds, "--max-iterations", 2, "--out", tmp_path, "--no-report")
    assert result.exit_code == 1
    assert "iteration limit" in result.output
    row = rows_of((tmp_path / "predictions.csv").read_text())[0]
    assert (row["hare_lower"], row["hare_upper"]) == ("", "")
    assert float(row["hare"]) > 0
    assert not (tmp_path / "parameters.csv").exists()


def test_a_failed_fit_sets_earlier_estimates_aside_and_says_so(ponds, tmp_path):
    (tmp_path / "parameters.csv").write_text("earlier")
    result = run("fit", ponds, "--max-iterations", 2, "--out", tmp_path, "--no-report", "--quiet")
    assert "parameters.csv is now parameters.earlier.csv" in result.stderr
    assert not (tmp_path / "parameters.csv").exists()
    assert (tmp_path / "parameters.earlier.csv").read_text() == "earlier"


def test_a_failed_fit_for_machines_names_what_it_set_aside(ponds, tmp_path):
    (tmp_path / "parameters.csv").write_text("earlier")
    result = run("fit", ponds, "--max-iterations", 2, "--out", tmp_path, "--no-report", "--json")
    assert json.loads(result.stdout)["set_aside"] == {"parameters.csv": "parameters.earlier.csv"}


@pytest.mark.parametrize("command", ["fit", "profile"])
@pytest.mark.parametrize("name", ["y.pdf", "figure.PNG", "table.csv"])
def test_a_file_for_a_folder_is_refused(ponds, tmp_path, command, name):
    result = run(command, ponds, "--out", tmp_path / name, *(["--json"]))
    assert result.exit_code == 2
    assert json.loads(result.stdout)["errors"][0]["code"] == "cli.out_is_a_file"
    assert not (tmp_path / name).exists()


def test_a_folder_with_a_dot_is_one(ponds, tmp_path):
    assert run("fit", ponds, "--out", tmp_path / "v1.2", "--no-report", "--quiet").exit_code == 0


def test_quiet_says_nothing(ponds, tmp_path):
    result = run("fit", ponds, "--quiet", "--no-report", "--out", tmp_path)
    assert (result.exit_code, result.output) == (0, "")


def test_verbose_tells_what_the_search_does(ponds, tmp_path):
    result = run("fit", ponds, "-v", "--json", "--no-report", "--out", tmp_path)
    assert json.loads(result.stdout)["success"]
    lines = [re.sub(r"^ +[\d.]+ s  ", "", line) for line in result.stderr.splitlines()]
    assert lines[0] == "a first search"
    assert re.match(r"search 1 begins where data and bounds suggest: birth [\d.]+, hunt", lines[1])
    assert re.match(r"search 1 converged after \d+ iterations and [\d.e-]+ s: loss 14.1606", lines[2])
    assert lines[-1].startswith("the fit ends: 2 searches found the best optimum")


def test_start_values_by_name(ponds, tmp_path):
    result = run("fit", ponds, "--start", "brith=1", "--out", tmp_path)
    assert result.exit_code == 2
    assert "Did you mean `birth`?" in result.output
    assert run("fit", ponds, "--start", "birth", "--out", tmp_path).exit_code == 2


def test_several_starts_in_processes(ponds, tmp_path):
    result = run("fit", ponds, "--starts", 3, "--workers", 2, "--no-report", "--json", "--out", tmp_path)
    assert json.loads(result.stdout)["loss"] == pytest.approx(14.16058, rel=1e-5)


def test_a_missing_problem_is_one_sentence(tmp_path):
    result = run("fit", tmp_path)
    assert result.exit_code == 2
    assert "picardfit new" in result.output


@pytest.mark.parametrize("width", [80, 120])
def test_no_number_is_cut_on_a_terminal(fitted, monkeypatch, width):
    from picardfit.cli import show

    _, out = fitted
    from rich.console import Console

    paper = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    monkeypatch.setattr(show, "console", lambda: paper)
    show.show_fit(pf.load(out / "fit.json"))
    text = paper.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "1/(year*thousand)" in text
    assert "…" not in text


def test_what_the_residuals_say_is_shown(capsys):
    from picardfit.cli import show

    times = np.linspace(0, 10, 41)
    data = pf.Experiment(times, {"x": 5 * np.exp(-0.3 * times) + 0.3 * np.sin(2 * times)})
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0, 2)}), progress=False)
    show.show_fit(fit)
    assert fit.diagnostics.remarks
    shown = " ".join(capsys.readouterr().out.split())
    assert all(" ".join(str(remark).split()) in shown for remark in fit.diagnostics.remarks)


@pytest.mark.parametrize(
    "value, error, text",
    [
        (0.48123, 0.0351, "0.481"),
        (34.914, 1.6, "34.9"),
        (12345.6, 120.0, "12350"),
        (1.0, 1e-9, "1.0000000000"),
        (3.2e-8, 1e-9, "3.20e-08"),
        (0.0, 0.1, "0.00"),
        (1.0, 3300.0, "1.0"),
        (123.0, 3300.0, "120"),
        (2.5, float("inf"), "2.5"),
    ],
)
def test_digits_follow_the_error(value, error, text):
    assert rounded(value, error) == text


# ---- simulate ----------------------------------------------------------------------------------------------


def rows_of(output):
    return list(csv.DictReader(output.splitlines()))


def column_of(name, output):
    return np.array([float(row[name]) for row in rows_of(output)])


def test_simulate_gives_the_model_at_the_true_values(tmp_path):
    write_starter(Starter.VAN_DER_POL, tmp_path)
    rows = rows_of(run("simulate", tmp_path, "--times", "0:10:11").stdout)
    model = pf.read_problem(tmp_path).model
    exact = pf.simulate(model, {"mu": 1, "omega": 1}, {"x": 2.5, "y": 0}, np.linspace(0, 10, 11))
    found = [float(row["x"]) for row in rows if row["experiment"] == "run 2"]
    assert found == pytest.approx(exact.observables["x"].tolist())


def test_simulated_noise_has_the_wanted_size_and_a_seed(tmp_path):
    write_starter(Starter.VAN_DER_POL, tmp_path)
    wanted = ("simulate", tmp_path, "--times", "0:10:401")
    exact, noisy, again, other = (
        run(*wanted, *more).stdout
        for more in ((), ("--additive", 0.3), ("--additive", 0.3), ("--additive", 0.3, "--seed", 1))
    )
    assert noisy == again != other
    gaps = [float(a["x"]) - float(b["x"]) for a, b in zip(rows_of(noisy), rows_of(exact), strict=True)]
    assert np.std(gaps) == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    "section, spread",
    [
        ("additive = 0.2", lambda exact: 0.2),
        ("additive = [0.01, 1]", lambda exact: 0.2),
        ("proportional = 'mu/5'", lambda exact: 0.2 * abs(exact)),
        ("type = 'student-t'\nadditive = 0.2\ndegrees = 50", lambda exact: 0.2),
    ],
)
def test_simulate_adds_the_noise_of_the_file(tmp_path, section, spread):
    write_starter(Starter.VAN_DER_POL, tmp_path)
    path = tmp_path / "problem.toml"
    path.write_text(re.sub(r"(?s)\[noise\].*?(?=\n\[|\Z)", "", path.read_text()) + f"\n[noise]\n{section}\n")
    wanted = ["simulate", tmp_path, "--times", "0:10:401"]
    exact = column_of("x", run(*wanted).stdout)
    if "[" in section:  # the level is unknown
        assert "noise.additive" in run(*wanted, "--noise").output
        wanted += ["--set", "noise.additive=0.2"]
    drawn, again, other = (column_of("x", run(*wanted, "--noise", "--seed", k).stdout) for k in (4, 4, 5))
    assert np.std((drawn - exact) / spread(exact)) == pytest.approx(1, abs=0.15)
    assert (drawn == again).all()
    assert (drawn != other).all()


def test_simulate_needs_one_noise(tmp_path):
    write_starter(Starter.PHARMACOKINETICS, tmp_path)
    path = tmp_path / "problem.toml"
    result = run("simulate", tmp_path, "--noise", "--additive", 1)
    assert (result.exit_code, "leave out --noise" in result.output) == (2, True)
    path.write_text(re.sub(r"(?s)\[noise\].*?(?=\n\[|\Z)", "", path.read_text()))
    result = run("simulate", tmp_path, "--noise")
    assert (result.exit_code, "add a section [noise]" in result.output) == (2, True)


def test_simulated_data_can_be_fitted(tmp_path):
    write_starter(Starter.PHARMACOKINETICS, tmp_path)
    out = tmp_path / "concentrations.csv"
    assert run("simulate", tmp_path, "--set", "eliminate=0.8", "--out", out).exit_code == 0
    fit = pf.fit(pf.read_problem(tmp_path))
    assert fit.parameters["eliminate"] == pytest.approx(0.8, rel=1e-4)


def test_simulate_plans_without_data(tmp_path):
    (tmp_path / "problem.toml").write_text('equations = "x\' = -k*x"\nparameters = { k = 2 }\n')
    rows = rows_of(run("simulate", tmp_path, "--times", "0,1", "--set", "x=3").stdout)
    assert float(rows[1]["x"]) == pytest.approx(3 * np.exp(-2))


def test_simulate_needs_no_unknown(tmp_path):
    (tmp_path / "problem.toml").write_text(
        'equations = "x\' = -k*x"\ndata = "d.csv"\nparameters = { k = 2 }\ninitial = { x = 3 }\n'
    )
    (tmp_path / "d.csv").write_text("time,x\n0,3\n1,0.4\n")
    rows = rows_of(run("simulate", tmp_path).stdout)
    assert float(rows[1]["x"]) == pytest.approx(3 * np.exp(-2))
    assert "Everything is fixed" in run("fit", tmp_path).stderr


def test_simulate_takes_a_fit(ponds, fitted):
    saved = fitted[1] / "fit.json"
    rows = rows_of(run("simulate", ponds, "--fit", saved).stdout)
    assert float(rows[5]["hare"]) == pytest.approx(
        pf.load(saved).predict("lynx_hare", [1905.0])["hare"][0], rel=1e-6
    )


@pytest.mark.parametrize(
    "options, words",
    [
        ((), "--set birth="),
        (("--set", "brith=1"), "Did you mean `birth`?"),
        (("--times", "0:1"), "0:10:41"),
        (("--times", "a,b"), "0:10:41"),
        (("--times", "0:nan:3"), "finite"),
    ],
)
def test_what_is_missing_to_simulate(ponds, options, words):
    result = run("simulate", ponds, *options)
    assert result.exit_code == 2
    assert words in result.output


# ---- commands that live elsewhere --------------------------------------------------------------------------


# ---- what the data can tell --------------------------------------------------------------------------------


def test_check_tells_what_no_data_could_determine(ponds, tmp_path):
    text = (
        (ponds / "problem.toml").read_text().replace('t0 = "first"', 't0 = "first"\nobservables = ["hare"]')
    )
    (tmp_path / "problem.toml").write_text(text)
    (tmp_path / "lynx_hare.csv").write_text(
        "year,hare\n" + "".join(f"{1900 + k},{20 + k % 7}\n" for k in range(12))
    )
    result = run("check", tmp_path)
    assert result.exit_code == 0
    assert re.search(r"cannot determine everything: .*hunt", result.output.replace("\n", " "))


def test_check_confirms_what_can_be_determined(ponds):
    assert "locally identifiable" in run("check", ponds).output


def test_check_gives_up_on_an_examination_that_takes_too_long(ponds):
    examination = examine(pf.read_problem(ponds), CheckSettings(patience=1e-4), theory=True)
    assert (examination.structure, examination.analysis) == (None, None)
    assert [one.code for one in examination.warnings] == ["cli.not_examined_in_time", "cli.no_constants"]


def test_check_does_not_examine_a_large_model_and_cuts_its_lists(tmp_path):
    equations = "\n".join(f"y{i}' = -k*y{i}" for i in range(300))
    (tmp_path / "data.csv").write_text("t,y0\n0,1\n1,0.5\n2,0.3\n")
    text = f'equations = """\n{equations}\n"""\ndata = "data.csv"\n[parameters]\nk = [0.1, 2]\n'
    (tmp_path / "problem.toml").write_text(text)
    told = run("check", tmp_path)
    assert told.exit_code == 0
    assert "300 states with 301 unknowns" in " ".join(told.stdout.split())
    assert len(told.stdout) < 20_000


def test_check_tells_that_equations_cannot_be_integrated():
    run = pf.Experiment([0, 1, 2], {"x": [1.0, 2.0, 3.0]})
    exploding = pf.Problem(pf.Model("x' = k*x**2"), run, {"k": (50, 90)}, {"x": (5, 9)})
    assert [one.code for one in examine(exploding).warnings] == ["cli.not_examined"]


@pytest.mark.parametrize("starter", list(Starter))
def test_check_examines_every_starter(tmp_path, starter):
    write_starter(starter, tmp_path)
    found = examine(pf.read_problem(tmp_path))
    assert found.structure is not None
    assert found.structure.identifiable


def test_check_does_not_examine_a_long_void(ponds, tmp_path):
    """With t0 = 0 the years are counted from the year 0."""
    (tmp_path / "problem.toml").write_text(
        (ponds / "problem.toml").read_text().replace('t0 = "first"', "t0 = 0")
    )
    (tmp_path / "lynx_hare.csv").write_bytes((ponds / "lynx_hare.csv").read_bytes())
    output = " ".join(run("check", tmp_path).output.split())
    assert 'write t0 = "first"' in output
    assert "was not examined" in output


def test_fit_shows_verdicts(fitted):
    assert re.search(r"birth.* determined\n", re.sub(r" +\n", "\n", fitted[0].output))


def test_profile_gives_intervals(fitted, tmp_path):
    saved = fitted[1] / "fit.json"
    result = run("profile", saved, "-p", "birth", "-p", "birth/death", "--out", tmp_path, "--json")
    found = json.loads(result.stdout)["profiles"]
    low, high = found["birth"]["interval"]
    assert low < pf.load(saved).parameters["birth"] < high
    assert found["birth/death"]["interval"][0] > 0
    assert (tmp_path / "profiles.csv").read_text().startswith("name,value,rise\nbirth,")


def profiled(saved, out, *names):
    """`picardfit profile` of these names, and the names in the table afterwards."""
    result = run("profile", saved, *(option for name in names for option in ("-p", name)), "--out", out)
    rows = rows_of((out / "profiles.csv").read_text())
    return result, list(dict.fromkeys(row["name"] for row in rows)), rows


def test_a_second_profile_is_added_to_the_table(fitted, tmp_path):
    saved = fitted[1] / "fit.json"
    _, _, first = profiled(saved, tmp_path, "birth", "birth/death")
    result, names, rows = profiled(saved, tmp_path, "gain")
    assert names == ["birth", "birth/death", "gain"]
    assert rows[: len(first)] == first
    assert "beside the profiles of birth, birth/death" in result.output


def test_a_profile_takes_the_place_of_an_earlier_one_of_its_name(fitted, tmp_path):
    _, _, first = profiled(fitted[1] / "fit.json", tmp_path, "birth")
    _, _, again = profiled(fitted[1] / "fit.json", tmp_path, "birth")
    assert again == first


def test_profiles_of_other_estimates_are_dropped(fitted, tmp_path):
    (tmp_path / "profiles.csv").write_text("name,value,rise\nbirth,0.7,1\nbirth,0.8,0\nmu,1,0\n")
    result, names, _ = profiled(fitted[1] / "fit.json", tmp_path, "gain")
    assert names == ["gain"]
    assert "which belong to other estimates: birth, mu" in result.stderr


@pytest.mark.parametrize("content", ["", "name,value\na,1\n", "name,value,rise\na,b,c\n", "\x00\n"])
def test_a_table_that_holds_no_profiles_is_left_alone(fitted, tmp_path, content):
    (tmp_path / "profiles.csv").write_text(content)
    result = run("profile", fitted[1] / "fit.json", "-p", "birth", "--out", tmp_path, "--json")
    assert json.loads(result.stdout)["errors"][0]["code"] == "cli.not_profiles"
    assert (tmp_path / "profiles.csv").read_text() == content


def test_profiles_are_shared_by_workers_and_kept_in_a_ledger(fitted, tmp_path):
    asked = ["profile", fitted[1] / "fit.json", "-p", "birth", "-p", "death", "--out", tmp_path, "--json"]
    ledger = tmp_path / "run.jsonl"
    plain = run(*asked)
    shared = run(*asked, "--workers", 2, "--ledger", ledger)
    assert plain.stdout == shared.stdout
    assert len(ledger.read_text().splitlines()) == 5  # two sides of each, after the header


def test_profile_of_an_unknown_name_is_one_sentence(fitted):
    result = run("profile", fitted[1] / "fit.json", "-p", "brith")
    assert result.exit_code == 2
    assert "Did you mean `birth`?" in result.output


def test_a_ledger_makes_a_fit_go_on(ponds, tmp_path):
    options = ("fit", ponds, "--starts", 2, "--ledger", tmp_path / "run.jsonl", "--no-report", "--json")
    first, again = (json.loads(run(*options, "--out", tmp_path).stdout) for _ in range(2))
    assert first["estimates"] == again["estimates"]
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 3


def test_design_ranks_the_candidates(ponds, tmp_path):
    text = (ponds / "problem.toml").read_text()
    plans = (
        "[candidates.few]\ntimes = [1900, 1901]\n[candidates.many]\ntimes = [1900, 1902, 1904, 1906, 1908]\n"
    )
    (tmp_path / "problem.toml").write_text(text + plans)
    (tmp_path / "lynx_hare.csv").write_bytes((ponds / "lynx_hare.csv").read_bytes())
    result = run("design", tmp_path)
    assert result.exit_code == 0, result.output
    assert result.output.index("many") < result.output.index("few")


def test_design_looks_at_the_criterion_first(ponds):
    result = run("design", ponds, "--criterion", "Q")
    assert result.exit_code == 2
    assert "--criterion Q is unknown" in result.output


@pytest.mark.parametrize("level", ["1.5", "0", "95", "nan"])
def test_profile_looks_at_the_level_first(ponds, level):
    result = run("profile", ponds, "--level", level)
    assert result.exit_code == 2
    assert f"--level {level} is not between 0 and 1: write for example --level 0.95." in result.output


def test_errors_begin_with_the_line_of_the_file(ponds, tmp_path):
    text = (ponds / "problem.toml").read_text() + "\n[candidates.long]\nobservables = ['hare']\n"
    (tmp_path / "problem.toml").write_text(text)
    (tmp_path / "lynx_hare.csv").write_text((ponds / "lynx_hare.csv").read_text())
    error = run("design", tmp_path).stderr
    assert error.startswith(f"{tmp_path / 'problem.toml'}:")
    assert "candidate `long`" in error


def test_design_without_candidates_says_how_to_add_them(ponds):
    result = run("design", ponds)
    assert result.exit_code == 2
    assert "[candidates." in result.output


def candidates(ponds, folder, text):
    """The starter with candidates."""
    write_starter(Starter.LOTKA_VOLTERRA, folder)
    file = folder / "problem.toml"
    file.write_text(file.read_text().replace('t0 = "first" ', "#") + text)
    return folder


def test_candidates_in_years_begin_with_their_first_time(ponds, tmp_path):
    """As data do: an unknown initial state is not sought in the year 0."""
    years = "[candidates.{}]\ntimes = [1921, 1923, 1925]\n"
    text = years.format("unsaid") + years.format("said") + "t0 = 1921\n"
    found = json.loads(run("design", candidates(ponds, tmp_path, text), "--json").output)
    unsaid, said = (found["candidates"][name]["errors"] for name in ("unsaid", "said"))
    assert unsaid == pytest.approx(said)
    assert unsaid["birth"] < 0.97 * found["now"]["errors"]["birth"]


def test_a_known_state_of_a_candidate_in_years_must_say_when_it_holds(ponds, tmp_path):
    text = "[candidates.anew]\ntimes = [1921]\ninitial = { hare = 30, lynx = 4 }\n"
    result = run("design", candidates(ponds, tmp_path, text))
    assert result.exit_code == 2
    assert 'write t0 = "first"' in result.output


def test_a_plan_in_years_must_say_when_it_begins(tmp_path):
    plan = tmp_path / "problem.toml"
    plan.write_text('equations = "x\' = -k*x"\nparameters = { k = 0.1 }\ninitial = { x = 1 }\n')
    result = run("simulate", plan, "--times", "1900,1901")
    assert result.exit_code == 2
    assert 'write t0 = "first"' in result.output
    plan.write_text(f't0 = "first"\n{plan.read_text()}')
    assert rows_of(run("simulate", plan, "--times", "1900,1901").output)[0]["x"] == "1.0"


def test_a_budget_beyond_the_candidates_is_one_sentence(ponds, tmp_path):
    folder = candidates(ponds, tmp_path, "[candidates.more]\ntimes = [1921]\n")
    assert "--budget 2 is more than the 1 candidate" in run("design", folder, "--budget", 2).output


@pytest.mark.parametrize("command", ["fit", "profile"])
def test_a_folder_that_cannot_be_made_is_told_before_the_search(ponds, tmp_path, monkeypatch, command):
    def never(*_, **__):
        raise AssertionError("a search was begun")

    monkeypatch.setattr("picardfit.cli.fit.run", never)
    (tmp_path / "taken").write_text("")
    result = run(command, ponds, "--out", tmp_path / "taken")
    assert result.exit_code == 2
    assert "cannot be created" in result.output


def test_other_optima_are_told(tmp_path):
    """Uptake and loss of a drug may be exchanged when the volume is unknown."""
    (tmp_path / "drug.csv").write_text(
        "t,c\n0.5,1.51\n1,2.15\n2,2.75\n4,2.35\n8,1.24\n12,0.61\n16,0.29\n20,0.15\n24,0.07\n"
    )
    (tmp_path / "problem.toml").write_text(
        """
        equations = '''
        gut' = -ka*gut
        blood' = ka*gut - ke*blood
        '''
        data = "drug.csv"
        observables = { c = "blood/V" }
        initial = { gut = 100, blood = 0 }
        fit = { starts = 8 }
        [parameters]
        ka = { lower = 0.05, upper = 10, log = true }
        ke = { lower = 0.05, upper = 10, log = true }
        V = { lower = 1, upper = 100, log = true }
        """
    )
    result = run("fit", tmp_path, "--no-report")
    found = pf.load(tmp_path / "results" / "fit.json").parameters
    assert (
        f"Warning: other values fit as well: ka = {found['ke']:.4g}, ke = {found['ka']:.4g}" in result.output
    )
    page = pf.load(tmp_path / "results" / "fit.json").report(tmp_path / "report.html").read_text("utf-8")
    assert '<div class="verdict mind">' in page
    assert f"Other values fit as well: ka = {found['ke']:.4g}, ke = {found['ka']:.4g}" in page
    said = run("profile", tmp_path, "-p", "ka", "-p", "ka + ke")
    (told,) = [line for line in said.output.splitlines() if "Another optimum" in line]
    assert told.startswith(
        f"ka: Another optimum fits as well, with ka = {found['ke']:.4g}: the confidence set is more"
    )


def test_check_shows_what_is_known_at_the_start(tmp_path):
    write_starter(Starter.PHARMACOKINETICS, tmp_path)
    output = run("check", tmp_path, "--quick").output
    assert output.count("blood = 0, tissue = 0") == 3


def test_rounding_leaves_the_times_alone(ponds):
    values = [
        f"--set={name}" for name in ("birth=0.5", "hunt=0.02", "gain=0.03", "death=0.9", "hare=30", "lynx=4")
    ]
    rows = rows_of(run("simulate", ponds, "--times", "1900,1901.5", "--digits", 2, *values).output)
    assert [row["time"] for row in rows] == ["1900.0", "1901.5"]
    assert all(float(row["hare"]) == float(f"{float(row['hare']):.2g}") for row in rows)


def test_a_reader_who_has_seen_enough_is_no_failure(ponds, tmp_path):
    command = [sys.executable, "-m", "picardfit", "check", str(ponds), "--quick"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


def test_counts_of_new_cases_from_simulation_to_fit(tmp_path):
    """Increments with negative binomial noise: simulate, fit, predictions at the samples only."""
    (tmp_path / "problem.toml").write_text(
        'equations = "c\' = a*exp(-k*t)"\ndata = "d.csv"\nt0 = 0\n[observables]\ncases = "increment(c)"\n'
        "[parameters]\na = {lower = 5, upper = 500, start = 60}\nk = {lower = 0.05, upper = 4, start = 0.7}\n"
        '[initial]\nc = 0\n[noise]\ntype = "negative-binomial"\ndispersion = [0.5, 500]\n'
    )
    table = tmp_path / "d.csv"
    asked = ("--noise", "--times", "0.25:3:12", "--set", "noise.dispersion=20", "--out", table)
    assert run("simulate", tmp_path, *asked).exit_code == 0
    counts = [float(row["cases"]) for row in rows_of(table.read_text())]
    assert all(one == round(one) >= 0 for one in counts)
    assert run("fit", tmp_path, "--quiet").exit_code == 0
    predicted = rows_of((tmp_path / "results" / "predictions.csv").read_text())
    told = [row for row in predicted if row["cases"] not in ("", "nan")]
    assert [float(row["time"]) for row in told] == pytest.approx(np.linspace(0.25, 3, 12))
    assert sum(float(row["cases"]) for row in told) == pytest.approx(float(predicted[-1]["c"]), rel=1e-6)
    ahead = run("predict", tmp_path, "--times", "2,3")
    first, second = (float(row["cases"]) for row in rows_of(ahead.stdout))
    weekly = {float(row["time"]): float(row["cases"]) for row in told}
    assert first == pytest.approx(weekly[2.0], rel=1e-4)  # since the sample at 1.75
    assert second == pytest.approx(sum(v for time, v in weekly.items() if time > 2), rel=1e-4)
    assert "the first since the sample before it" in ahead.stderr


@pytest.mark.parametrize("times", ["2021-03-01:2021-03-03:2", "2021-03-01, 2021-03-03"])
def test_simulations_take_dates_where_the_data_have_them(tmp_path, times):
    (tmp_path / "data.csv").write_text("date,x\n2021-03-01,3\n2021-03-05,2\n")
    (tmp_path / "problem.toml").write_text('equations = "x\' = -1*x"\ndata = "data.csv"\n[initial]\nx = 3\n')
    rows = rows_of(run("simulate", tmp_path, "--times", times).stdout)
    assert [row["date"] for row in rows] == ["2021-03-01", "2021-03-03"]
    assert float(rows[1]["x"]) == pytest.approx(3 * np.exp(-2))
