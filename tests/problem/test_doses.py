"""Doses and covariates of problems: fits, certificates, derivatives, files, and what is refused."""

import numpy as np
import pytest

import picardfit as pf
from pharmacokinetics import BOUNDS, EMPTY, MODEL, TRUTH, oral_steady, problem_of
from picardfit.collocation.sensitivity import sensitivity
from picardfit.problem.json_values import plain
from picardfit.problem.serialisation import problem_digest, problem_from, problem_record
from picardfit.simulation.trajectories import Run

TIMES = np.array([0.5, 1, 2, 4, 8, 12, 13, 15, 20, 24.0])
POOR = {"ka": 15.0, "k": 0.007, "v": 150.0}
REGIMENS = {
    "one": (pf.Doses([0], 100, into="gut"), ()),
    "several": (pf.Doses([0, 6, 12], [100, 50, 100], into="gut"), ()),
    "at the last sample": ([pf.Doses([0], 100, into="gut"), pf.Doses([24], 50, into="central")], ()),
    "infusion": ([pf.Doses([0], 100, into="gut"), pf.Doses([3], 80, into="central", duration=2.5)], ()),
    "reset": (pf.Doses([0, 12], 100, into="gut"), (12.0,)),
}


@pytest.mark.parametrize("name", REGIMENS)
def test_exact_data_give_exact_parameters_from_a_poor_start(name):
    doses, resets = REGIMENS[name]
    fit = pf.fit(problem_of(TIMES, doses, resets=resets), start=POOR)
    assert fit.success
    assert fit.parameters == pytest.approx(TRUTH, rel=1e-6)
    assert fit.certificate.largest_jump < 1e-8


def test_the_certificate_agrees_on_noisy_data():
    fit = pf.fit(problem_of(TIMES, REGIMENS["several"][0], noise=0.1), start=POOR)
    assert fit.success
    assert fit.certificate.mismatch < 1e-6


def test_states_at_a_dose_are_those_after_it():
    fit = pf.fit(problem_of(TIMES, pf.Doses([0, 12, 30], 100, into="central")))
    (name,) = fit.problem.names
    states = fit.states(name, [0, 11.9999999, 12, 29.9999999, 30])["central"]
    assert states[0] == pytest.approx(100)
    assert states[2] - states[1] == pytest.approx(100, rel=1e-6)
    assert states[4] - states[3] == pytest.approx(100, rel=1e-6)
    assert fit.initial_states[name]["central"] == 0
    assert [one.code for one in fit.warnings] == ["problem.late_doses"]


def test_four_hundred_doses():
    times = np.sort(np.random.default_rng(0).uniform(0, 4800, 40))
    fit = pf.fit(problem_of(times, pf.Doses(np.arange(400) * 12.0, 100, into="gut")), start=POOR)
    assert fit.success
    assert fit.parameters == pytest.approx(TRUTH, rel=1e-5)


def test_sensitivities_agree_with_differences():
    jumps = problem_of(TIMES, REGIMENS["several"][0], resets=[12.0]).jumps[0]
    times = np.array([5.0, 6.0, 11.0, 12.0, 18.0])

    def solution(params, begin):
        return sensitivity(MODEL, Run(0.0, np.array(begin), np.array(params), {}, times, (), jumps))

    params, begin = [1.1, 0.15, 12.0], [100.0, 3.0]
    exact = solution(params, begin).derivatives
    for k, value in enumerate((*begin, *params)):
        step = np.eye(5)[k] * 1e-5 * value
        high, low = (solution(params + sign * step[2:], begin + sign * step[:2]).states for sign in (1, -1))
        np.testing.assert_allclose(exact[..., k], (high - low) / (2e-5 * value), rtol=1e-5, atol=1e-6)


def test_steady_state_doses():
    times = np.array([0, 1, 3, 6, 12.0, 15])
    since = np.where(times < 12, times, times - 12)
    one = pf.Experiment(
        times,
        {"conc": oral_steady(since, 12.0) / 12.0},
        doses=pf.Doses([0, 12], 100, into="gut"),
        rest=pf.Rest(doses=pf.Doses([0], 100, into="gut"), every=12),
    )
    problem = pf.Problem(MODEL, one, BOUNDS)
    assert problem.loss(TRUTH) < 1e-16
    fit = pf.fit(problem, start=POOR)
    assert fit.success
    assert fit.parameters == pytest.approx(TRUTH, rel=1e-6)


def test_a_problem_with_doses_survives_a_file(tmp_path):
    doses, _ = REGIMENS["infusion"]
    problem = problem_of(TIMES, doses, noise=0.05, resets=(12.0,), covariates={"sex": 1.0})
    again = problem_from(plain(problem_record(problem), "problem"))
    assert problem_digest(again) == problem_digest(problem)
    assert problem_digest(problem_of(TIMES, doses, noise=0.05)) != problem_digest(problem)
    fit = pf.fit(problem)
    loaded = pf.load(fit.save(tmp_path / "fit.json"))
    (name,) = problem.names
    later = [3.0, 4.0, 12.0, 40.0]
    np.testing.assert_array_equal(loaded.predict(name, later)["conc"], fit.predict(name, later)["conc"])


# ---- covariates ----------------------------------------------------------------------------------------------


def test_covariates_may_stand_in_every_formula():
    model = pf.Model("x' = -cl*weight/v*x", observables={"y": "x/v + weight"})
    times = np.array([0.0, 1, 2, 4])
    people = [
        pf.Experiment(times, {"y": 0.1 * w * np.exp(-0.01 * w * times) + w}, str(w), covariates={"weight": w})
        for w in (50.0, 70.0)
    ]
    noise = pf.Noise(additive="0.001*weight")
    problem = pf.Problem(model, people, {"cl": (0.01, 1), "v": 10.0}, {"x": "weight"}, noise=noise)
    assert problem.model.covariates == ("weight",)
    fit = pf.fit(problem)
    assert fit.parameters["cl"] == pytest.approx(0.1, rel=1e-6)
    assert fit.initial_states["50.0"]["x"] == 50


def two_people(**options):
    one = pf.Experiment([1.0, 2.0], {"conc": [1.0, 2.0]}, "7", **options)
    two = pf.Experiment([1.0, 2.0], {"conc": [1.0, 2.0]}, "8")
    return pf.Problem(MODEL, [one, two], {n: b for n, b in BOUNDS.items() if n != "ka"}, {"gut": 0.0})


def complaint(**options):
    with pytest.raises(pf.InputError) as caught:
        two_people(**options)
    return caught.value.code, caught.value.subject


def test_bad_doses_and_covariates_are_named():
    assert complaint(doses=pf.Doses([0], 1, into="gutt")) == ("problem.dose_into", "gutt")
    assert complaint(doses=pf.Doses([-1], 1, into="gut"), t0=0) == ("problem.dose_before_start", "gut")
    assert complaint(doses=pf.Doses([0], -1, into="gut")) == ("problem.negative_dose", "gut")
    assert complaint(doses=100)[0] == "model.not_doses"
    assert complaint(covariates={"ka": 1.0}) == ("problem.missing_covariate", "ka")
    assert complaint(covariates={"gut": 1.0}) == ("problem.covariate_is_state", "gut")
    assert complaint(resets=[1.5]) == ("problem.reset_to_unknown", "central")


def test_a_state_that_may_be_negative_may_be_kicked_down():
    model = pf.Model("x' = v\nv' = -w*x")
    kick = pf.Doses([1.0], -2.0, into="v")
    one = pf.Experiment([0.5, 1.5, 2.5], {"x": [0.1, -0.5, -1.0]}, doses=kick)
    assert pf.Problem(model, one, {"w": (0.1, 2)}).jumps[0].add.tolist() == [[0.0, -2.0]]


RELAX = "V' = -(V - E)/tau"
FALL = "v' = -c*v"


@pytest.mark.parametrize(
    ("equations", "data", "parameters", "initial", "inputs"),
    [
        (RELAX, [-66.0, -65.5], {"E": (-80, -50), "tau": (0.1, 10)}, {"V": -65.0}, {}),
        (RELAX, [0.5, 0.3], {"E": -65.0, "tau": (0.1, 10)}, {"V": 0.0}, {}),
        (RELAX, [0.5, 0.3], {"tau": (0.1, 10)}, {"V": 0.0}, {"E": -65.0}),
        (RELAX, [0.5, 0.3], {"E": (-80, -50), "tau": (0.1, 10)}, {"V": "E"}, {}),
        (FALL, [0.5, 0.3], {"c": (0.1, 10)}, {"v": (-10, 10)}, {}),
        (FALL, [0.5, -0.3], {"c": (0.1, 10)}, {"v": 0.0}, {}),
        (FALL, [0.5, 0.3], {"c": (0.1, 10)}, {"v": -5.0}, {}),
    ],
)
def test_a_state_that_is_said_to_be_negative_may_be_kicked_down(equations, data, parameters, initial, inputs):
    model = pf.Model(equations, inputs=list(inputs))
    (state,) = model.states
    kick = pf.Doses([1.0], -2.0, into=state)
    one = pf.Experiment([1.5, 2.5], {state: data}, doses=kick, inputs=inputs)
    assert pf.Problem(model, one, parameters, initial).jumps[0].add.tolist() == [[-2.0]]


@pytest.mark.parametrize("initial", [{"v": 0.0}, {"v": (0, 10)}, {"v": "dose/c"}, {}])
def test_a_negative_dose_needs_something_that_says_so(initial):
    one = pf.Experiment([1.5, 2.5], {"v": [0.5, 0.3]}, doses=pf.Doses([1.0], -2.0, into="v"))
    with pytest.raises(pf.InputError) as caught:
        pf.Problem(
            pf.Model(FALL),
            one,
            {"c": (0.1, 10)} | ({"dose": (1, 2)} if "dose" in str(initial) else {}),
            initial,
        )
    assert (caught.value.code, caught.value.subject) == ("problem.negative_dose", "v")


def test_unused_covariates_are_remarked():
    one = pf.Experiment(TIMES, {"conc": np.ones(len(TIMES))}, covariates={"sex": 1.0})
    problem = pf.Problem(MODEL, one, BOUNDS, EMPTY)
    assert [remark.code for remark in problem.remarks] == ["problem.unused_covariates"]


def test_an_infusion_too_short_for_a_mesh_is_given_at_once():
    short = pf.Doses([0, 3], 100, into="gut", duration=[1e-12, 1.0])
    (given,) = pf.Experiment([1, 12], {"conc": [1, 2]}, doses=short).doses
    assert given.duration.tolist() == [0.0, 1.0]
    (kept,) = pf.Experiment([1, 12], {"conc": [1, 2]}, doses=pf.Doses([0], 1, "gut", 1e-6)).doses
    assert kept.duration.tolist() == [1e-6]


def test_doses_are_told_at_dates_where_the_samples_have_dates():
    given = pf.Doses([-1, 286], 100, into="gut")
    one = pf.Experiment(["2021-03-04", "2021-03-05"], {"conc": [1, 2]}, doses=given, t0=-1)
    assert "2 doses of 100 into gut from 2021-03-03 to 2021-12-15" in repr(one)
    assert "from -1 to 286" not in str(pf.Problem(MODEL, one, BOUNDS, EMPTY))


def test_a_covariate_that_is_written_wrong_is_recognised():
    model = pf.Model("x' = -k*weight*x", covariates=["weight"])
    one = pf.Experiment([0, 1, 2], {"x": [1, 0.5, 0.2]}, covariates={"wieght": 2.0})
    with pytest.raises(pf.InputError, match=r"Did you mean `wieght`\?"):
        pf.Problem(model, one, {"k": (0.1, 1)})
