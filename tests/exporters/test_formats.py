"""Which format a file has, and what cannot be exported."""

from dataclasses import replace

import numpy as np
import pytest

import picardfit as pf
from exported import ONCE, clinic_fit
from picardfit.exporters.formats import FORMATS, export, format_of


@pytest.mark.parametrize(
    "name, format",
    [
        ("model.py", "python"),
        ("model_casadi.py", "casadi"),
        ("model.xml", "sbml"),
        ("Model.SBML", "sbml"),
        ("model.ant", "antimony"),
        ("model.mo", "modelica"),
        ("model.stan", "stan"),
    ],
)
def test_the_ending_says_the_format(tmp_path, name, format):
    assert format_of(tmp_path / name) == format
    assert format in FORMATS


def test_a_format_wins_over_the_ending(tmp_path):
    path = clinic_fit().export(tmp_path / "model.txt", format="modelica")
    assert (path, path.read_text().split()[0]) == (tmp_path / "model.txt", "model")


def test_a_stan_program_has_two_files_beside_it(tmp_path):
    written = export(clinic_fit(), tmp_path / "model.stan")
    assert [path.name for path in written.paths] == ["model.stan", "model.data.json", "model.init.json"]
    assert (written.experiments, written.others) == (("one", "two"), ())


def test_a_file_for_one_experiment_says_what_it_leaves_out(tmp_path):
    written = export(clinic_fit(), tmp_path / "model.mo")
    assert (written.experiments, written.others) == (("one",), ("two",))


@pytest.mark.parametrize("ending", [one.endings[0] for one in FORMATS.values()])
def test_a_file_of_a_fit_that_did_not_converge_says_so(tmp_path, ending):
    if ending == ".ant":
        pytest.importorskip("antimony")
    good = clinic_fit()
    bad = replace(good, status=pf.Status.ITERATION_LIMIT)
    texts = [fit.export(tmp_path / f"model{ending}").read_text() for fit in (good, bad)]
    assert ["The fit did not converge" in text for text in texts] == [False, True]


@pytest.mark.parametrize(
    "arguments, code, subject",
    [
        ({"path": "model.m"}, "exporters.unknown_ending", ".m"),
        ({"path": "model"}, "exporters.no_ending", "model"),
        ({"path": "model.py", "format": "matlab"}, "exporters.unknown_format", "matlab"),
        ({"path": "model.py", "experiment": "three"}, "problem.no_such_experiment", "three"),
        ({"path": "nowhere/model.py"}, "files.no_folder", None),
    ],
)
def test_bad_arguments(arguments, code, subject, tmp_path):
    with pytest.raises(pf.InputError) as caught:
        clinic_fit().export(**{**arguments, "path": tmp_path / arguments["path"]})
    assert caught.value.code == code
    assert subject in (None, caught.value.subject)
    assert not list(tmp_path.iterdir())


def fitted(model, inputs=None):
    one = pf.Experiment([0, 1, 2, 3], {"x": [1.0, 0.6, 0.4, 0.2]}, "one", inputs)
    return pf.fit(pf.Problem(model, one, {"k": (0, 5)}), policy=ONCE)


def test_a_python_function_that_decides_is_refused(tmp_path):
    model = pf.Model.from_function(lambda t, x, p: [-p[0] * x[0] if x[0] > 0 else 0.0], ["x"], ["k"])
    with pytest.raises(pf.InputError) as caught:
        fitted(model).export(tmp_path / "model.py")
    assert caught.value.code == "exporters.function_model"


def test_a_python_function_as_input_is_refused(tmp_path):
    fit = fitted(pf.Model("x' = u - k*x", inputs=["u"]), {"u": pf.Signal(np.sin, [])})
    with pytest.raises(pf.InputError) as caught:
        fit.export(tmp_path / "model.py")
    assert (caught.value.code, caught.value.subject) == ("exporters.function_input", "u")
    assert caught.value.values["experiment"] == "one"


@pytest.mark.parametrize("package, ending", [("libsbml", "xml"), ("libsbml", "ant"), ("antimony", "ant")])
def test_packages_that_are_missing_are_named(package, ending, tmp_path, monkeypatch):
    if (package, ending) == ("libsbml", "ant"):
        pytest.importorskip("antimony")
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(pf.InputError) as caught:
        clinic_fit().export(tmp_path / f"model.{ending}")
    assert caught.value.code == f"exporters.needs_{package}"
