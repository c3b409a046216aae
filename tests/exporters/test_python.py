"""Exports to Python compute our own solution, with SciPy and with CasADi."""

import subprocess
import sys

import numpy as np
import pytest

import picardfit as pf
from exported import clinic, clinic_fit, difference, every_fit, increments_fit, loaded, our_solution, span

FORMATS = ["python", "casadi"]


def module_of(fit, format, tmp_path, **options):
    if format == "casadi":
        pytest.importorskip("casadi")
    return loaded(fit.export(tmp_path / "model.py", format, **options))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", every_fit())
def test_starters_and_the_problems_of_the_paper(name, format, tmp_path):
    fit = every_fit()[name]()
    module = module_of(fit, format, tmp_path)
    for one in fit.problem.names:
        times = span(fit, one)
        assert difference(module.simulate(one, times), our_solution(fit, one, times)) < 1e-6


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("make", [clinic_fit, increments_fit])
def test_doses_infusions_tables_resets_covariates_and_increments(make, format, tmp_path):
    module = module_of(make(), format, tmp_path)
    for one in make().problem.names:
        times = span(make(), one)
        assert difference(module.simulate(one, times), our_solution(make(), one, times)) < 1e-6


@pytest.mark.parametrize("format", FORMATS)
def test_the_state_at_the_time_of_a_dose_is_the_one_after_it(format, tmp_path):
    times = [3.25 - 1e-9, 3.25]
    found = module_of(clinic_fit(), format, tmp_path).simulate("one", times)
    assert np.diff(found["gut"]) == pytest.approx(10, abs=1e-6)
    assert difference(found, our_solution(clinic_fit(), "one", times)) < 1e-6


def test_times_in_any_order_and_beyond_the_data(tmp_path):
    times = [20.0, 1.0, 1.0, 0.0]
    found = module_of(clinic_fit(), "python", tmp_path).simulate("two", times)
    assert difference(found, our_solution(clinic_fit(), "two", times)) < 1e-6


def test_other_values_can_be_tried(tmp_path):
    module = module_of(clinic_fit(), "python", tmp_path)
    assert module.simulate("two", [3.0], {"ka": 0.0}, {"gut": 5.0})["gut"] == pytest.approx(5 + 1.0)


def test_times_before_the_beginning_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two begins at t0"):
        module_of(clinic_fit(), "python", tmp_path).simulate("two", [-1.0])


def test_a_model_without_solution_is_an_error_and_not_a_number(tmp_path):
    module = module_of(clinic_fit(), "python", tmp_path)
    with pytest.raises(RuntimeError, match="no solution"), np.errstate(all="ignore"):
        module.simulate("two", [3.0], {"ka": np.nan})


def test_one_experiment_can_be_written(tmp_path):
    assert list(module_of(clinic_fit(), "python", tmp_path, experiment="two").EXPERIMENTS) == ["two"]


def test_the_right_hand_side_is_a_casadi_function(tmp_path):
    module = module_of(clinic_fit(), "casadi", tmp_path)
    values = {**module.PARAMETERS, **module.EXPERIMENTS["two"]["parameters"]}
    p, u = [values[n] for n in module.NAMES], module.inputs("two", 3.0)
    found = module.right_hand_side()(3.0, [1.0, 2.0, 3.0], p, [u[n] for n in module.INPUTS])
    model = clinic_fit().problem.model
    ours = model.rhs.value(
        3.0, [1, 2, 3], [values[n] for n in model.parameters], [u[n] for n in model.inputs]
    )
    assert np.asarray(found).ravel() == pytest.approx(ours)


def test_it_needs_numpy_and_scipy_only(tmp_path):
    """Run as a program where picardfit, SymPy and pandas cannot be imported."""
    path = clinic_fit().export(tmp_path / "model.py")
    barred = "import sys; sys.modules.update(dict.fromkeys(['picardfit', 'sympy', 'pandas', 'matplotlib'])); "
    code = f"{barred}import runpy; sys.argv = ['model.py', 'two']; runpy.run_path({str(path)!r}, run_name='__main__')"
    run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    title, header, *rows = run.stdout.strip().splitlines()
    assert (title, header.split()) == ("two", ["time", "gut", "blood", "out", "conc", "out_observed"])
    assert len(rows) == 16


def test_an_experiment_that_is_not_there_is_one_sentence(tmp_path):
    path = clinic_fit().export(tmp_path / "model.py")
    run = subprocess.run([sys.executable, path, "three"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr.strip()) == (1, "There is no experiment three: write one of one, two")


def test_names_of_experiments_and_units_cannot_break_out_of_the_file(tmp_path):
    name = "x\"\"\"; raise SystemExit; '''\\"
    model = pf.Model(
        "x' = -k*x + u", inputs=["u"], units={"x": "m\nraise SystemExit", "u": "#\nraise SystemExit"}
    )
    one = pf.Experiment([0, 1, 2, 3], {"x": [1.0, 0.6, 0.4, 0.2]}, name, {"u": 0.0})
    fit = pf.fit(pf.Problem(model, one, {"k": pf.Parameter(0, 5, unit="\nraise SystemExit")}))
    module = module_of(fit, "python", tmp_path)
    assert module.simulate(name, [0.0])["x"] == pytest.approx(fit.initial_states[name]["x"])


def test_names_that_the_file_uses_itself_are_changed(tmp_path):
    model = pf.Model("state' = -np*state + x\nx' = -0.1*x", observables={"state": "state^2", "time": "x"})
    truth = {"state": 2.0, "x": 1.0}
    data = pf.simulate(model, {"np": 0.5}, truth, np.linspace(0, 4, 9)).observables
    fit = pf.fit(pf.Problem(model, pf.Experiment(np.linspace(0, 4, 9), data, "one"), {"np": (0.1, 2)}))
    found = module_of(fit, "python", tmp_path).simulate("one", [0.0, 2.0])
    assert list(found) == ["t", "state", "x", "state_observed", "time"]
    assert difference(found, our_solution(fit, "one", [0.0, 2.0])) < 1e-6
    assert "# `np` is called np_1 here" in (tmp_path / "model.py").read_text()


def test_a_table_of_marks(tmp_path):
    model = pf.Model("x' = -k*x", observables={"y": "x + 0*sd"}, inputs=["sd"])
    sd = pf.Table([0, 1, 2], [1.0, 2.0, 3.0], "marks")
    one = pf.Experiment([0, 1, 2], {"y": [1.0, 0.6, 0.4]}, "one", {"sd": sd})
    module = module_of(pf.fit(pf.Problem(model, one, {"k": (0, 5)})), "python", tmp_path)
    assert [float(module.inputs("one", t)["sd"]) for t in (0.4, 0.6, 1.4, 1.6)] == [1.0, 2.0, 2.0, 3.0]


def test_equations_are_written_with_their_helpers(tmp_path):
    text = clinic_fit().export(tmp_path / "model.py").read_text(encoding="utf-8")
    assert "clearance = " in text
    assert "# `lambda` is called lambda_1 here" in text


def test_a_model_from_a_function_that_only_calculates(tmp_path):
    model = pf.Model.from_function(lambda t, x, p: [-p.k * x[0] * np.exp(-t)], ["x"], ["k"])
    fit = pf.fit(pf.Problem(model, pf.Experiment([0, 1, 2], {"x": [1.0, 0.6, 0.5]}, "one"), {"k": (0, 5)}))
    times = np.linspace(0, 2, 9)
    found = module_of(fit, "python", tmp_path).simulate("one", times)
    assert difference(found, our_solution(fit, "one", times)) < 1e-6


def test_the_clinic_has_everything():
    """What the tests above rely on."""
    one, two = clinic().experiments
    assert (len(one.doses), two.resets, len(one.covariates)) == (2, (4.1,), 1)
