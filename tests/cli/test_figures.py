"""`picardfit plot` and `picardfit predict`: pictures and tables of a saved fit, and their complaints."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import picardfit as pf
from picardfit.cli import app
from picardfit.cli.figures import inches, look_of
from picardfit.cli.new import Starter, write_starter
from picardfit.cli.saved import fit_file
from picardfit.cli.times import TimesText
from picardfit.display.gallery import NEEDS, PICTURES, draw
from picardfit.display.plots.style import PRINT, Look

NEED_RANDOM = "display.needs_population"
MAGIC = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def error_of(*arguments):
    """(code, subject) of the one error that a command reports."""
    result = run(*arguments, "--json")
    assert result.exit_code == 2
    (error,) = json.loads(result.stdout)["errors"]
    return error["code"], error["subject"]


@pytest.fixture(scope="module")
def oscillator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oscillator")
    write_starter(Starter.VAN_DER_POL, folder)
    assert run("fit", folder, "--quiet", "--no-report").exit_code == 0
    return folder


@pytest.fixture(scope="module")
def fit(oscillator):
    return pf.load(oscillator / "results" / "fit.json")


@pytest.mark.parametrize("size", ["2", "5x3"])
def test_a_size_without_room_for_the_panels_is_refused(oscillator, tmp_path, size, recwarn):
    arguments = ("plot", oscillator, "--size", size, "--out", tmp_path / "small.png")
    assert error_of(*arguments) == ("display.no_room", "")
    assert (list(tmp_path.iterdir()), len(recwarn)) == ([], 0)


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    """A folder with a fit of data that have dates."""
    folder = tmp_path_factory.mktemp("dated")
    days = pd.date_range("2021-03-04", periods=9, freq="7D")
    values = 8 * np.exp(-0.35 * np.arange(9)) + 0.1 * np.array([1, -2, 1, 0, 2, -1, -1, 1, -1])
    data = pf.Experiment(days, {"x": values}, name="pond")
    pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0, 1)})).save(folder / "fit.json")
    return folder


# ---- plot ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", list(MAGIC))
def test_plot_writes_the_format_of_the_ending(oscillator, tmp_path, ending):
    result = run("plot", oscillator, "--out", tmp_path / f"figure.{ending}")
    assert result.exit_code == 0
    assert (tmp_path / f"figure.{ending}").read_bytes().startswith(MAGIC[ending])


def test_a_picture_of_a_fit_that_did_not_converge_says_so(fit, tmp_path):
    replace(fit, status=pf.Status.ITERATION_LIMIT).save(tmp_path / "fit.json")
    result = run("plot", tmp_path, "--out", tmp_path / "x.svg")
    assert result.exit_code == 1
    assert "the fit did not converge" in result.stderr
    assert "The fit did not converge" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize("name", [n for n, one in PICTURES.items() if NEED_RANDOM not in one.needs])
@pytest.mark.parametrize("style", ["screen", "print"])
def test_every_picture_of_the_table_is_drawn(oscillator, tmp_path, name, style):
    wishes = ["--parameter", "mu"] if name == "profiles" else []
    result = run("plot", oscillator, "--what", name, "--style", style, "--out", tmp_path / "x.svg", *wishes)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "x.svg").stat().st_size > 1000


def test_the_help_names_every_picture():
    shown = " ".join(run("plot", "--help").output.replace("│", " ").split())
    assert all(name in shown for name in PICTURES)


def test_size_and_resolution_are_those_asked_for(oscillator, tmp_path):
    from matplotlib.image import imread

    run("plot", oscillator, "--size", "10x5cm", "--dpi", "127", "--out", tmp_path / "x.png")
    assert imread(tmp_path / "x.png").shape[:2] in ((250, 500), (249, 499))  # older Matplotlib rounds down


def test_a_picture_for_print_is_as_wide_as_a_page_and_keeps_its_texts(oscillator, tmp_path):
    run("plot", oscillator, "--style", "print", "--out", tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert f'width="{72 * PRINT.page:g}pt"' in text
    assert ">time</text>" in text


@pytest.mark.parametrize(
    "wishes, code, subject",
    [
        (["--what", "residual"], "display.no_such_picture", "residual"),
        (["--what", "vpc"], "display.needs_population", "vpc"),
        (["--out", "figure.docx"], "display.picture_format", "figure.docx"),
        (["--style", "prnit"], "cli.no_such_style", "prnit"),
        (["--size", "huge"], "cli.size", "huge"),
        (["--size", "10x5000cm"], "cli.size_range", "10x5000cm"),
        (["--experiments", "run 9"], "problem.no_such_experiment", "run 9"),
        (["--what", "correlation", "--log-x"], "display.picture_takes_no", "correlation"),
        (["--log-y"], "display.log_of_values", "x"),
        (["--what", "fit", "--parameter", "mu"], "display.picture_takes_no", "fit"),
        (["--level", "95"], "cli.level", ""),
        (["--out", "nowhere/x.png"], "files.no_folder", "nowhere"),
    ],
)
def test_a_wish_that_cannot_be_fulfilled_is_named(oscillator, tmp_path, monkeypatch, wishes, code, subject):
    monkeypatch.chdir(tmp_path)
    assert error_of("plot", oscillator, *wishes) == (code, subject)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["plot", "predict"])
def test_dates_have_no_logarithm(dated, tmp_path, command):
    assert error_of(command, dated, "--log-x", "--out", tmp_path / "x.png") == (
        "display.log_of_dates",
        "pond",
    )


@pytest.mark.parametrize(
    "need, change",
    [
        ("display.needs_solution", {"solution": None}),
        ("display.needs_convergence", {"status": pf.Status.STALLED}),
        ("display.needs_searches", {"searches": ()}),
        ("display.needs_trace", {"trace": np.zeros((0, 3))}),
    ],
)
def test_a_fit_that_lacks_what_a_picture_shows_is_told(fit, need, change):
    from dataclasses import replace

    name = next(name for name, one in PICTURES.items() if need in one.needs)
    with pytest.raises(pf.InputError) as error:
        draw(replace(fit, **change), name)
    assert (error.value.code, error.value.subject) == (need, name)


def test_a_picture_of_several_needs_several():
    data = pf.Experiment([0, 1, 2], {"x": [1, 0.6, 0.4]}, initial={"x": 1.0})
    alone = pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0, 2)}))
    for name, need in (
        ("overlay", "display.needs_experiments"),
        ("correlation", "display.needs_two_unknowns"),
    ):
        with pytest.raises(pf.InputError) as error:
            draw(alone, name)
        assert error.value.code == need


def test_the_needs_of_every_picture_are_known():
    assert {need for one in PICTURES.values() for need in one.needs} == NEEDS.keys()


# ---- which fit -------------------------------------------------------------------------------------------------------


def test_a_folder_its_results_its_problem_and_the_file_name_the_same_fit(oscillator):
    file = oscillator / "results" / "fit.json"
    for path in (oscillator, file.parent, oscillator / "problem.toml", file):
        assert fit_file(path) == file


def test_a_folder_without_a_fit_is_told(tmp_path):
    write_starter(Starter.VAN_DER_POL, tmp_path)
    assert error_of("plot", tmp_path) == ("cli.no_fit", str(tmp_path))
    assert error_of("predict", tmp_path / "x") == ("cli.no_such_folder", str(tmp_path / "x"))


@pytest.mark.parametrize(
    "file, old, new, told",
    [
        ("problem.toml", "title = ", "# a comment\ntitle = ", False),
        ("problem.toml", "[0, 10]", "[0, 11]", True),
        ("problem.toml", "[0, 10]", "[10, 0]", True),
        ("runs.csv", "1.146", "1.147", True),
    ],
)
def test_what_was_changed_after_the_fit_is_told(oscillator, tmp_path, file, old, new, told):
    study = shutil.copytree(oscillator, tmp_path / "study")
    text = (study / file).read_text()
    assert old in text
    (study / file).write_text(text.replace(old, new))
    for command in (("plot", study, "--out", tmp_path / "x.png"), ("predict", study, "--times", "0:1:2")):
        assert ("changed since this fit" in run(*command).stderr) is told
        assert bool(json.loads(run(*command, "--json").stdout)["remarks"]) is told


# ---- predict ---------------------------------------------------------------------------------------------------------


def table(result):
    return list(csv.DictReader(io.StringIO(result.stdout)))


def test_the_table_holds_predictions_and_bands_beyond_the_data(oscillator, fit):
    name = fit.problem.names[0]
    last = float(fit.problem.experiments[0].times[-1])
    rows = table(run("predict", oscillator, "--times", f"{last},{2 * last}", "-e", name, "--level", "0.9"))
    expected = fit.predict(name, [last, 2 * last], bands=True, level=0.9)["x"]
    assert [float(row["x"]) for row in rows] == pytest.approx(expected.value)
    assert [float(row["x_lower"]) for row in rows] == pytest.approx(expected.low)
    assert [float(row["x_upper"]) for row in rows] == pytest.approx(expected.high)


def test_all_experiments_and_observables_are_predicted_by_default(oscillator, fit):
    rows = table(run("predict", oscillator))
    assert list(dict.fromkeys(row["experiment"] for row in rows)) == list(fit.problem.names)
    assert set(fit.problem.model.observables) <= rows[0].keys()


def test_noise_widens_the_bands(oscillator):
    plain, noisy = (
        table(run("predict", oscillator, "--times", "1:3:3", *more)) for more in ([], ["--noise"])
    )
    assert all(float(b["x_upper"]) > float(a["x_upper"]) for a, b in zip(plain, noisy, strict=True))


def test_a_table_and_a_picture_are_written(oscillator, tmp_path):
    files = [tmp_path / name for name in ("future.csv", "future.tsv", "future.pdf")]
    arguments = [one for path in files for one in ("--out", path)]
    assert run("predict", oscillator, "--times", "0:20:0.5", *arguments).exit_code == 0
    assert pd.read_csv(files[0]).equals(pd.read_csv(files[1], sep="\t"))
    assert files[2].read_bytes().startswith(MAGIC["pdf"])


def test_dates_are_read_and_shown_again(dated):
    rows = table(run("predict", dated, "--times", "2021-03-04:2021-06-02:1.0"))
    assert (rows[0]["date"], rows[-1]["date"]) == ("2021-03-04", "2021-06-02")
    assert [float(row["time"]) for row in rows] == list(range(91))


@pytest.fixture(scope="module")
def pumps(tmp_path_factory):
    """A folder with a fit of two tanks with an input table, of which the second begins later."""
    folder, times = tmp_path_factory.mktemp("pumps"), np.arange(0.0, 6)
    level = 2 - np.exp(-0.5 * times)
    runs = [
        pf.Experiment(t0 + times, {"x": level}, name, inputs={"u": pf.Table([0, 5], [1, 1])}, t0=t0)
        for name, t0 in (("early", 0.0), ("late", 2.0))
    ]
    model = pf.Model("x' = u - k*x", inputs=["u"])
    pf.fit(pf.Problem(model, runs, {"k": (0, 2)}), progress=False).save(folder / "fit.json")
    return folder


def test_times_before_an_experiment_are_left_out_of_several(pumps):
    result = run("predict", pumps, "--times", "0,1,3,4")
    times = [(row["experiment"], float(row["time"])) for row in table(result)]
    assert times == [*(("early", t) for t in (0, 1, 3, 4)), ("late", 3), ("late", 4)]
    assert "beginning of late" in result.stderr


def test_times_that_are_given_twice_are_all_predicted(pumps):
    rows = table(run("predict", pumps, "--times", "1", "--times", "2,4", "-e", "early"))
    assert [float(row["time"]) for row in rows] == [1, 2, 4]


@pytest.mark.parametrize("end", ["1e7", "1e9"])
def test_times_that_are_no_dates_are_refused(dated, end, recwarn):
    assert error_of("predict", dated, "--times", f"0:{end}:3") == ("problem.beyond_dates", "")
    assert len(recwarn) == 0


def test_an_experiment_that_begins_after_all_times_is_left_out(pumps):
    found = json.loads(run("predict", pumps, "--times", "0,1", "--json").stdout)
    assert list(found["predictions"]) == ["early"]
    assert "late" in found["remarks"][0]


def test_times_before_the_only_experiment_are_refused(pumps):
    assert error_of("predict", pumps, "--times", "0,3", "-e", "late") == ("evidence.before_t0", "late")


@pytest.mark.parametrize("last, held", [(5, False), (9, True)])
def test_inputs_that_are_held_beyond_their_table_are_told(pumps, last, held):
    found = json.loads(run("predict", pumps, "--times", f"4,{last}", "-e", "early", "--json").stdout)
    assert any("table of u ends" in one for one in found["remarks"]) is held


def test_json_has_the_predictions(dated):
    found = json.loads(run("predict", dated, "--times", "2021-03-04,2021-03-11", "--json").stdout)
    pond = found["predictions"]["pond"]
    assert (pond["times"], pond["dates"]) == ([0, 7], ["2021-03-04", "2021-03-11"])
    assert pond["x"]["low"][0] < pond["x"]["value"][0] < pond["x"]["high"][0]


@pytest.mark.parametrize(
    "wishes, code, subject",
    [
        (["--times", "now,then"], "cli.times", "now,then"),
        (["--times", "0:10"], "cli.times", "0:10"),
        (["--times", "0:10:0.0"], "cli.times", "0:10:0.0"),
        (["--times", "0:inf:5"], "cli.times_not_finite", "0:inf:5"),
        (["--times", "1.7.2022"], "cli.times_date", "1.7.2022"),
        (["--times", "2021-03-04,2021-03-05"], "problem.no_calendar", "run 1"),
        (["--observables", "z"], "cli.no_such_observable", "z"),
        (["--experiments", "run 9"], "problem.no_such_experiment", "run 9"),
        (["--out", "future.doc"], "cli.prediction_format", "future.doc"),
        (["--level", "2"], "cli.level", ""),
        (["--times", "-1,2"], "evidence.before_t0", "run 1"),
    ],
)
def test_a_prediction_that_cannot_be_made_is_told(oscillator, wishes, code, subject):
    assert error_of("predict", oscillator, *wishes) == (code, subject)


def test_noise_of_a_hidden_state_is_refused(tmp_path):
    from picardfit.examples import fitzhugh_nagumo

    pf.fit(fitzhugh_nagumo.generate(seed=1)).save(tmp_path / "fit.json")
    assert error_of("predict", tmp_path, "-y", "x2", "--noise") == ("cli.noise_of_state", "x2")
    assert "x2_lower" in table(run("predict", tmp_path, "-y", "x2"))[0]


def test_a_fit_that_did_not_converge_predicts_without_bands(fit, tmp_path):
    from dataclasses import replace

    replace(fit, status=pf.Status.STALLED).save(tmp_path / "fit.json")
    result = run(
        "predict", tmp_path, "--times", "1,2", "--out", tmp_path / "x.csv", "--out", tmp_path / "x.png"
    )
    assert result.exit_code == 1
    rows = pd.read_csv(tmp_path / "x.csv")
    assert rows["x_lower"].isna().all()
    assert rows["x"].notna().all()


# ---- sizes and times -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, expected",
    [
        ("17x10cm", (17 / 2.54, 10 / 2.54)),
        ("8.5", (8.5 / 2.54, None)),
        ("6.7 x 4in", (6.7, 4)),
        ("85mm", (85 / 25.4, None)),
        ("8,5cm", (8.5 / 2.54, None)),
    ],
)
def test_sizes_are_read(text, expected):
    assert inches(text) == pytest.approx(expected)


def test_options_change_the_look():
    assert look_of("screen", None, None, True, None) == Look(log_x=True)
    assert look_of("print", "10cm", 600).dots_per_inch == 600


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0:10:3", [0, 5, 10]),
        ("0:1:0.25", [0, 0.25, 0.5, 0.75, 1]),
        ("0:0.3:0.1", [0, 0.1, 0.2, 0.3]),
        ("1:2:0.3", [1, 1.3, 1.6, 1.9]),
        ("3, 1,2", [3, 1, 2]),
    ],
)
def test_times_are_read(text, expected):
    np.testing.assert_allclose(TimesText(text).of(), expected)


def test_dates_with_times_of_day_are_read():
    data = pf.Experiment(pd.date_range("2021-03-04", periods=3), {"x": [1, 2, 3]})
    at = TimesText("2021-03-04T12:00:2021-03-05 12:00:0.25").of(data)
    np.testing.assert_allclose(at, [0.5, 0.75, 1.0, 1.25, 1.5])


def test_all_pictures_of_a_fit_are_written(fit, tmp_path):
    names = {Path(one).stem for one in fit.plots(tmp_path)}
    assert {"fit", "overlay", "residuals", "identifiability", "correlation", "convergence"} <= names
    assert "profiles" not in names
