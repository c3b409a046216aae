"""Validation: scores by hand, held parameters, fitted and given initial states, leaving one out, interruptions."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

import picardfit as pf
from exported import ball_fit
from picardfit.errors import Status
from picardfit.inference.validation import curve, score

MODEL = pf.Model("w' = gain*u - drag*w - c*w*abs(w)", inputs=["u"])
TIMES = np.linspace(0, 10, 40)


def motor(seed, name, quadratic=0.0, start=0.3, sd=0.02):
    rng = np.random.default_rng(seed)
    levels = pf.Table(np.arange(0, 10, 0.5), rng.choice([-1.0, 0.0, 1.0], 20))
    values = {"gain": 2.0, "drag": 0.6, "c": quadratic}
    clean = pf.simulate(MODEL, values, {"w": start}, TIMES, inputs={"u": levels}).observables["w"]
    return pf.Experiment(
        TIMES, {"w": clean + sd * rng.standard_normal(len(TIMES))}, name=name, inputs={"u": levels}
    )


def problem(count=2, **fields):
    runs = [motor(k, f"run {k}") for k in range(1, count + 1)]
    return pf.Problem(MODEL, runs, {"gain": (0.1, 10), "drag": (0.01, 5), "c": 0.0}, **fields)


@pytest.fixture(scope="module")
def fit():
    return pf.fit(problem(3))


def test_models_with_events_predict_with_fitted_initial_states():
    """A ball thrown from another height bounces as the fit says, and its height and speed at the start are found."""
    found = ball_fit()
    times = np.linspace(0.02, 2.0, 60)
    noise = 0.02 * np.random.default_rng(8).standard_normal(len(times))
    truth, start = {"g": 9.81, "e": 0.8}, {"height": 1.6, "velocity": 0.5}
    clean = pf.simulate(found.problem.model, truth, start, times).observables["height"]
    validation = found.validate(pf.Experiment(times, {"height": clean + noise}, name="higher"))
    assert validation.overall["height"].r_squared > 0.99
    predicted = validation.predictions["higher"]
    fitted = dict(
        zip(predicted.fitted, predicted.problem.layout.natural(predicted.unknowns)[0], strict=False)
    )
    assert fitted["height(0)"] == pytest.approx(1.6, abs=0.06)
    height = curve(predicted, points=20)[1]["height"]
    assert np.sum(np.abs(height) < 1e-6) >= 2  # a coarse curve reaches the ground too


def test_scores_by_hand():
    found = score(np.array([1.0, 2.0, 3.0, 6.0]), np.array([1.0, 2.5, 3.0, 5.0]))
    assert found.count == 4
    assert found.rmse == pytest.approx(np.sqrt(1.25 / 4))
    assert found.nrmse == pytest.approx(np.sqrt(1.25 / 4) / 5)
    assert found.r_squared == pytest.approx(1 - 1.25 / 14)
    assert found.fit_percent == pytest.approx(100 * (1 - np.sqrt(1.25 / 14)))


def test_constant_data_have_no_r_squared():
    found = score(np.ones(3), np.array([1.0, 1.0, 2.0]))
    assert np.isnan([found.nrmse, found.r_squared, found.fit_percent]).all()


def test_parameters_are_held(fit):
    found = fit.validate(motor(7, "new"))
    assert found.parameters["new"] == pytest.approx(fit.parameters, rel=1e-12)


def test_initial_states_are_fitted_by_default(fit):
    found = fit.validate(motor(7, "new", start=1.7))
    assert found.initial_states["new"]["w"] == pytest.approx(1.7, abs=0.05)
    assert found.fitted == {"new": ("w(0)",)}


def test_given_initial_states_are_not_fitted(fit):
    by_experiment = fit.validate(replace(motor(7, "new"), initial={"w": 0.5}), initial="given")
    by_argument = fit.validate(motor(7, "new"), initial={"w": 0.5})
    for found in (by_experiment, by_argument):
        assert (found.initial_states["new"]["w"], found.fitted["new"]) == (0.5, ())
    assert by_argument.scores == by_experiment.scores


def test_score_is_that_of_a_simulation(fit):
    one = motor(7, "new")
    found = fit.validate(one, initial={"w": 0.3}).scores["new"]["w"]
    curve = pf.simulate(MODEL, fit.parameters, {"w": 0.3}, TIMES, inputs=one.inputs).observables["w"]
    assert found.rmse == pytest.approx(np.sqrt(np.mean((one.values[:, 0] - curve) ** 2)), rel=1e-7)


def test_right_model_predicts_as_well_as_it_fits(fit):
    found = fit.validate([motor(k, f"new {k}") for k in (7, 8)])
    assert found.overall["w"].count == 80
    assert 0.7 < found.ratio < 1.4
    assert found.probability > 0.01
    assert found.remarks == ()
    assert found.diagnostics.remarks == ()


def test_wrong_model_has_larger_errors_than_in_the_fit(fit):
    found = fit.validate(motor(7, "new", quadratic=0.2))
    assert found.ratio > 10
    assert [one.code for one in found.remarks] == ["inference.validation_larger_errors"]
    assert found.diagnostics.autocorrelated == ("w",)


def test_residuals_of_a_noise_model_are_standardised_by_it():
    fit = pf.fit(problem(2, noise=pf.Noise(additive=0.02)))
    found = fit.validate(motor(7, "new"), initial={"w": 0.3})
    one = motor(7, "new")
    gaps = (one.values[:, 0] - found.predictions["new"].rows[:, 0]) / 0.02
    assert found.ratio == pytest.approx(np.mean(gaps**2), rel=1e-10)


def test_local_parameters_are_fitted_to_the_new_experiment():
    runs = [motor(k, f"run {k}") for k in (1, 2)]
    bounds = {"gain": pf.Parameter(0.1, 10, local=True), "drag": (0.01, 5), "c": 0.0}
    found = pf.fit(pf.Problem(MODEL, runs, bounds, {"w": 0.3})).validate(motor(7, "new"))
    assert found.fitted == {"new": ("gain[new]",)}
    assert found.parameters["new"]["gain[new]"] == pytest.approx(2.0, abs=0.1)


def test_leaving_one_out_predicts_each_from_the_others(fit):
    found = fit.validate(leave_out=True)
    others = pf.fit(fit.problem.with_experiments(fit.problem.experiments[1:]))
    assert list(found.scores) == ["run 1", "run 2", "run 3"]
    assert found.parameters["run 1"] == pytest.approx(others.parameters, rel=1e-5)
    assert found.scores["run 1"]["w"].rmse == pytest.approx(
        others.validate(fit.problem.experiments[0]).scores["run 1"]["w"].rmse, rel=1e-5
    )


def test_executors_and_ledgers_do_not_change_the_result(fit, tmp_path):
    runs = [motor(k, f"new {k}") for k in (7, 8, 9)]
    plain = fit.validate(runs)
    with ThreadPoolExecutor(2) as executor:
        assert fit.validate(runs, executor=executor).scores == plain.scores
    first, again = (fit.validate(runs, ledger=tmp_path / "run.jsonl") for _ in range(2))
    assert first.scores == again.scores == plain.scores


def test_leaving_one_out_resumes_from_a_ledger(fit, tmp_path):
    def stop(done, total):
        if done == 1:
            raise KeyboardInterrupt

    part = fit.validate(leave_out=True, ledger=tmp_path / "run.jsonl", progress=stop)
    assert part.missing == ("run 2", "run 3")
    assert "Interrupted before 2 experiments" in str(part)
    whole = fit.validate(leave_out=True, ledger=tmp_path / "run.jsonl", progress=False)
    assert whole.scores == fit.validate(leave_out=True).scores


@dataclass(frozen=True)
class Stopped(pf.LiftedGaussNewton):
    """Ctrl-C in every fit without run 2."""

    def step(self, state):
        if "run 2" not in state.system.problem.names:
            raise KeyboardInterrupt
        return super().step(state)


def test_an_interrupted_fit_ends_leaving_out_with_what_is_finished(fit):
    part = replace(fit, method=Stopped()).validate(leave_out=True, progress=False)
    assert (part.missing, list(part.predictions)) == (("run 2", "run 3"), ["run 1"])


def test_data_of_the_fit_are_remarked(fit):
    found = fit.validate(fit.problem.experiments[0])
    assert [one.code for one in found.remarks] == ["inference.validation_of_fitted_data"]


def test_picture_text_and_html(fit, tmp_path):
    found = fit.validate([motor(7, "new"), motor(8, "other")])
    figure = found.plot(tmp_path / "validation.png")
    assert [panel.get_title().split(":")[0] for panel in figure.axes] == ["new", "other"]
    assert "Fitted to the data shown here: w(0)" in str(found)
    assert "Validation on 2 experiments" in found._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "options", "code"),
    [
        ((3,), {}, "inference.not_experiments"),
        (([],), {}, "inference.no_experiments_to_validate"),
        ((["data.csv"],), {}, "inference.not_experiments"),
        ((), {}, "fit.validate_nothing"),
        ((motor(7, "new"),), {"leave_out": True}, "fit.validate_both"),
        ((motor(7, "new"),), {"initial": "free"}, "inference.validation_initial"),
        ((motor(7, "new"),), {"initial": "given"}, "inference.validation_unknown"),
        ((motor(7, "new"),), {"initial": {"v": 1.0}}, "problem.unknown_state"),
        ((pf.plan(TIMES, ["w"], inputs={"u": 0.0}),), {}, "inference.validation_without_data"),
        ((pf.Experiment([0.0], {"w": [1.0]}, inputs={"u": 0}),), {}, "inference.validation_too_few"),
        ((pf.Experiment(TIMES, {"speed": TIMES}, inputs={"u": 0}),), {}, "problem.unknown_observable"),
        ((pf.Experiment(TIMES, {"w": TIMES}),), {}, "problem.missing_input"),
    ],
)
def test_wrong_validations_are_refused(fit, arguments, options, code):
    with pytest.raises(pf.InputError) as caught:
        fit.validate(*arguments, **options)
    assert caught.value.code == code


def test_one_experiment_cannot_be_left_out():
    with pytest.raises(pf.InputError) as caught:
        pf.fit(problem(1)).validate(leave_out=True)
    assert caught.value.code == "inference.one_experiment_left_out"


def test_failed_fits_are_refused(fit):
    with pytest.raises(pf.InputError) as caught:
        replace(fit, status=Status.DIVERGED).validate(motor(7, "new"))
    assert caught.value.code == "inference.validation_of_failed_fit"


def test_experiments_without_a_solution_are_remarked(fit):
    exploding = pf.Model("w' = gain*w*w + u", inputs=["u"])
    run = pf.Experiment([0, 0.5, 1.0], {"w": [1.0, 1.2, 1.6]}, inputs={"u": 0.0}, name="fitted")
    short = pf.fit(pf.Problem(exploding, run, {"gain": (0.1, 1)}, {"w": 1.0}))
    late = pf.Experiment([0, 50.0], {"w": [1.0, 2.0]}, inputs={"u": 1.0}, name="late")
    with pytest.raises(pf.InputError) as caught:
        short.validate(late)
    assert caught.value.code == "inference.validation_failed"
    found = short.validate([late, replace(run, name="again")])
    assert [one.code for one in found.remarks][-1] == "inference.not_predicted"
