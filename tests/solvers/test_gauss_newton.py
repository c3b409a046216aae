"""LiftedGaussNewton reaches the least-squares optimum, whatever scales, bounds, meshes and starts are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares

import picardfit as pf
from complaints import complaint
from picardfit.collocation.linearisation import linearise
from picardfit.collocation.mesh import rule
from picardfit.collocation.refinement import Resolution
from picardfit.evidence.certificate import certify
from picardfit.search.starts import make_start
from picardfit.solvers.gauss_newton.state import merit, merit_size
from picardfit.solvers.gauss_newton.step import Correction, trial_step
from picardfit.solvers.gauss_newton.transitions import Multipliers, on_finer_mesh
from picardfit.solvers.loop import run

LOTKA = pf.Model("x' = a*x - b*x*y; y' = d*x*y - c*y")
LOTKA_TRUTH = {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}
TIMES = np.linspace(0, 10, 21)
LOTKA_BOUNDS = dict.fromkeys(LOTKA_TRUTH, (0.01, 10))
DOSED = pf.Model(
    "x' = -k*x + dose; z' = k*x - q*z/(1 + z)", observables={"y": "s*x", "z": "z"}, inputs=["dose"]
)
DOSED_TRUTH = {"k": 0.8, "q": 0.5, "s": 2.0}
STEPS = ([0.0, 1.3, 2.7], [1.0, 0.0, 2.0])


def experiment(model, truth, initial, times, sd=0.05, seed=0, only=None, inputs=None, **options):
    simulated, rng = pf.simulate(model, truth, initial, times, inputs), np.random.default_rng(seed)
    noisy = {n: v + sd * rng.standard_normal(len(times)) for n, v in simulated.observables.items()}
    return pf.Experiment(times, {n: noisy[n] for n in only or noisy}, inputs=inputs, **options)


def lotka(times=TIMES, bounds=LOTKA_BOUNDS, **options) -> pf.Problem:
    return pf.Problem(
        LOTKA, experiment(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.0}, times, **options), parameters=bounds
    )


def dosed(bounds=None) -> pf.Problem:
    """Two experiments with a jumping input; one initial state known, one free."""
    times = np.linspace(0, 5, 15)
    runs = [
        experiment(
            DOSED, DOSED_TRUTH, {"x": x, "z": 0.2}, times, seed=s, inputs={"dose": STEPS}, name=f"run {s}"
        )
        for s, x in enumerate((0.5, 2.0))
    ]
    free = {"k": (0.01, 5), "q": pf.Parameter(0.01, 5, log=True), "s": (0.1, 5)}
    return pf.Problem(DOSED, runs, parameters=free | (bounds or {}), initial={"z": 0.2})


def vector_of(problem, unknowns) -> np.ndarray:
    layout = problem.layout
    own = layout.exists[:, : layout.local]
    return np.concatenate([unknowns[:, : layout.local][own], unknowns[0, layout.local :]])


def by_scipy(problem, begin) -> np.ndarray:
    """The optimum (internal unknowns) by SciPy's least squares over an independent integration."""
    layout = problem.layout
    own = layout.exists[:, : layout.local]

    def unknowns(vector):
        full = np.zeros_like(layout.lower)
        full[:, : layout.local][own] = vector[: own.sum()]
        full[:, layout.local :] = vector[own.sum() :]
        return full

    def residuals(vector):
        rows = unknowns(vector)
        gap = (
            problem.predicted_rows(layout.model_values(rows), layout.initial(rows)[0]) - problem.samples.data
        )
        return gap[np.isfinite(gap)]

    low, high = vector_of(problem, layout.lower), vector_of(problem, layout.upper)
    inside = np.clip(vector_of(problem, begin), low + 1e-3, high - 1e-3)
    return least_squares(
        residuals,
        inside,
        jac="3-point",
        bounds=(low, high),
        xtol=1e-13,
        ftol=1e-13,
        gtol=1e-13,
        x_scale="jac",
    ).x


PROBLEMS = {"lotka": lotka, "dosed": dosed}


@pytest.fixture(scope="module", params=PROBLEMS.values(), ids=PROBLEMS)
def solved(request):
    problem = request.param()
    return problem, pf.fit(problem)


@pytest.fixture(scope="module")
def lotka_fit():
    return pf.fit(lotka())


# the optimum


def test_reaches_the_optimum_of_scipy(solved):
    problem, fit = solved
    unknowns = fit.solution.unknowns
    begin = unknowns + 0.02 * np.sign(np.sin(np.arange(unknowns.size))).reshape(unknowns.shape)
    np.testing.assert_allclose(vector_of(problem, unknowns), by_scipy(problem, begin), rtol=1e-6, atol=1e-6)


def test_jumps_vanish(solved):
    assert solved[1].certificate.largest_jump <= 1e-9


def test_path_is_a_fixed_point_of_the_picard_operator(solved):
    assert solved[1].certificate.picard_residual <= 1e-10


def test_gradient_promises_nothing_more(solved):
    assert solved[1].certificate.gradient < 1e-12


def test_parameters_at_bounds_are_the_constrained_optimum():
    problem = dosed({"k": (0.9, 5), "s": (0.1, 1.7)})
    fit = pf.fit(problem)
    np.testing.assert_allclose(
        vector_of(problem, fit.solution.unknowns),
        by_scipy(problem, fit.solution.unknowns),
        rtol=1e-6,
        atol=1e-6,
    )


def test_parameters_at_bounds_are_said_to_be_there():
    fit = pf.fit(dosed({"k": (0.9, 5), "s": (0.1, 1.7)}))
    assert fit.status is pf.Status.CONVERGED_AT_BOUND
    assert set(fit.certificate.at_bound) == {"k", "s"}


def test_data_without_noise_give_the_truth():
    fit = pf.fit(lotka(sd=0.0))
    assert fit.status is pf.Status.CONVERGED
    assert fit.parameters == pytest.approx(LOTKA_TRUTH, rel=1e-8)


@pytest.mark.parametrize("nodes, family", [(3, pf.Nodes.RADAU), (7, pf.Nodes.RADAU), (5, pf.Nodes.LOBATTO)])
def test_the_optimum_does_not_depend_on_the_nodes(nodes, family, lotka_fit):
    fit = pf.fit(lotka(), pf.LiftedGaussNewton(nodes=nodes, family=family))
    assert fit.parameters == pytest.approx(lotka_fit.parameters, rel=1e-6)


def test_the_optimum_does_not_depend_on_the_penalties(lotka_fit):
    fit = pf.fit(lotka(), pf.LiftedGaussNewton(penalties=(10.0, 1000.0)))
    assert fit.parameters == pytest.approx(lotka_fit.parameters, rel=1e-6)


def test_initial_states_alone_may_be_unknown():
    """x' = -x is linear in x(0), so its estimate is a ratio of two sums."""
    times = np.linspace(0, 3, 13)
    model, decay = pf.Model("x' = -k*x"), np.exp(-times)
    values = 2 * decay + 0.1 * np.cos(7 * times)
    fit = pf.fit(pf.Problem(model, pf.Experiment(times, {"x": values}), parameters={"k": 1.0}))
    expected = np.sum(decay * values) / np.sum(decay**2)
    assert fit.initial_states["experiment 1"]["x"] == pytest.approx(expected, rel=1e-8)


# invariance


@pytest.mark.parametrize("unit", [1e6, 1e-6])
def test_units_of_the_states_do_not_matter(unit, lotka_fit):
    """x and y in other units: b and d carry the inverse unit."""
    plain = lotka().experiments[0]
    scaled = pf.Experiment(plain.times, {n: unit * v for n, v in plain.observations.items()})
    bounds = {"a": (0.01, 10), "c": (0.01, 10), "b": (0.01 / unit, 10 / unit), "d": (0.01 / unit, 10 / unit)}
    found = pf.fit(pf.Problem(LOTKA, scaled, parameters=bounds)).parameters
    back = found | {"b": found["b"] * unit, "d": found["d"] * unit}
    assert back == pytest.approx(lotka_fit.parameters, rel=1e-6)


@pytest.mark.parametrize("unit", [1e5, 1e-5])
def test_units_of_time_do_not_matter(unit, lotka_fit):
    plain = lotka().experiments[0]
    scaled = pf.Experiment(plain.times * unit, plain.observations)
    bounds = dict.fromkeys(LOTKA_TRUTH, (0.01 / unit, 10 / unit))
    found = pf.fit(pf.Problem(LOTKA, scaled, parameters=bounds)).parameters
    assert {n: v * unit for n, v in found.items()} == pytest.approx(lotka_fit.parameters, rel=1e-6)


def test_order_of_the_experiments_does_not_matter():
    problem = dosed()
    backwards = problem.with_experiments(problem.experiments[::-1])
    assert pf.fit(backwards).parameters == pytest.approx(pf.fit(problem).parameters, rel=1e-6)


def test_an_experiment_said_twice_does_not_move_the_optimum(lotka_fit):
    one = lotka().experiments[0]
    twice = pf.Problem(LOTKA, [replace_name(one, "a"), replace_name(one, "b")], parameters=LOTKA_BOUNDS)
    assert pf.fit(twice).parameters == pytest.approx(lotka_fit.parameters, rel=1e-6)


def replace_name(one: pf.Experiment, name: str) -> pf.Experiment:
    return pf.Experiment(one.times, one.observations, name)


def test_log_search_finds_the_same_optimum(lotka_fit):
    bounds = {n: pf.Parameter(0.01, 10, log=True) for n in LOTKA_TRUTH}
    assert pf.fit(lotka(bounds=bounds)).parameters == pytest.approx(lotka_fit.parameters, rel=1e-6)


def test_a_state_far_smaller_than_the_others():
    truth = LOTKA_TRUTH | {"b": 400.0}
    one = experiment(LOTKA, truth, {"x": 2.0, "y": 1e-3}, np.linspace(0, 10, 21), sd=0.0)
    fit = pf.fit(pf.Problem(LOTKA, one, parameters=LOTKA_BOUNDS | {"b": (1, 1e4)}))
    assert fit.parameters == pytest.approx(truth, rel=1e-6)


def test_experiments_with_very_different_spans():
    model, truth = pf.Model("x' = -k*(x - m)"), {"k": 0.02, "m": 3.0}
    short = experiment(model, truth, {"x": 1.0}, np.linspace(0, 1, 10), sd=0.01, name="short")
    long = experiment(model, truth, {"x": 8.0}, np.linspace(0, 1000, 30), sd=0.01, seed=1, name="long")
    problem = pf.Problem(model, [short, long], parameters={"k": (1e-4, 10), "m": (0, 10)})
    fit = pf.fit(problem)
    np.testing.assert_allclose(
        vector_of(problem, fit.solution.unknowns), by_scipy(problem, fit.solution.unknowns), rtol=1e-6
    )


# what the data do not determine


@pytest.mark.parametrize("bounds", [None, {"a": (0.01, 10), "b": (0.01, 10)}])
def test_an_undetermined_combination_converges_quickly(bounds):
    model = pf.Model("x' = -a*b*x")
    data = experiment(model, {"a": 0.7, "b": 1.0}, {"x": 2.0}, np.linspace(0, 3, 13))
    fit = pf.fit(pf.Problem(model, data, parameters=bounds))
    assert fit.success
    assert fit.iterations < 40


def test_what_is_not_determined_is_said():
    model = pf.Model("x' = -a*b*x")
    data = experiment(model, {"a": 0.7, "b": 1.0}, {"x": 2.0}, np.linspace(0, 3, 13))
    said = str(pf.fit(pf.Problem(model, data)))
    rows = [line.split()[0] for line in said.splitlines() if "not determined by" in line]
    assert rows == ["a", "b"]


def test_the_determined_combination_is_that_of_the_simpler_model():
    model, simple = pf.Model("x' = -a*b*x"), pf.Model("x' = -k*x")
    data = experiment(simple, {"k": 0.7}, {"x": 2.0}, np.linspace(0, 3, 13))
    found = pf.fit(pf.Problem(model, data)).parameters
    assert found["a"] * found["b"] == pytest.approx(
        pf.fit(pf.Problem(simple, data)).parameters["k"], rel=1e-6
    )


def test_every_start_reaches_one_loss_with_a_hidden_predator():
    """Only prey is measured and b fixes the unit of the predator."""
    problem = pf.Problem(
        LOTKA,
        lotka(np.linspace(0, 12, 31), only=["x"]).experiments,
        parameters=dict.fromkeys("acd", (0.1, 3)) | {"b": 0.4},
        initial={"y": (0.1, 5)},
    )
    fit = pf.fit(problem, starts=5)
    assert all(s.status.success for s in fit.searches)
    assert [s.loss for s in fit.searches] == pytest.approx([fit.loss] * 5, rel=1e-6)


# meshes


def test_jumps_of_inputs_are_knots():
    mesh = pf.fit(dosed()).solution.system.mesh
    assert all({1.3, 2.7} <= set(knots.tolist()) for knots in mesh.knots)


def layer_problem() -> pf.Problem:
    """A relaxation to cos(t) within 1e-3, sampled inside and outside the layer."""
    model = pf.Model("x' = -k*(x - cos(t))")
    times = np.concatenate([[0], np.linspace(5e-4, 5e-3, 10), np.linspace(0.1, 3, 20)])
    data = experiment(model, {"k": 1000.0}, {"x": 0.0}, times, sd=0.01)
    return pf.Problem(model, data, parameters={"k": (1, 1e5)}, initial={"x": 0.0})


@pytest.fixture(scope="module")
def layer_fit():
    return pf.fit(layer_problem())


def test_refinement_resolves_a_sharp_layer(layer_fit):
    assert layer_fit.status is pf.Status.CONVERGED
    assert layer_fit.certificate.mismatch < 1e-7


def test_refinement_is_local(layer_fit):
    mesh = layer_fit.solution.system.mesh
    assert mesh.length[mesh.start < 5e-3].max() < 0.3 * mesh.length[mesh.start > 0.5].min()


def test_a_layer_gives_the_optimum_of_scipy(layer_fit):
    problem, unknowns = layer_problem(), layer_fit.solution.unknowns
    assert layer_fit.parameters["k"] == pytest.approx(by_scipy(problem, 1.02 * unknowns)[0], rel=1e-6)


def converged_state(problem, method):
    state = method.init(problem, make_start(problem))
    for _ in range(method.max_iterations):
        if state.status is not None:
            break
        state = method.step(state)
    return state


COARSE = pf.LiftedGaussNewton(polish_nodes=5, resolution=1e-4)


def test_new_knots_disturb_nothing():
    """Going on with a finer mesh: every split costs at most three steps, for new knots get their own multipliers."""
    coarse = converged_state(lotka(), COARSE)
    fine, splits, iterations = replace(COARSE, resolution=1e-8), 0, 0
    state = replace(coarse, status=None)
    while state.status is None:
        before, state = len(state.system.mesh), fine.step(state)
        splits, iterations = splits + (len(state.system.mesh) > before), iterations + 1
    assert state.status is pf.Status.CONVERGED
    assert len(state.system.mesh) > len(coarse.system.mesh)
    assert iterations <= 3 * splits + 1


def test_multipliers_of_new_knots_make_the_split_point_stationary():
    """Without them the first step after a split would open jumps of the size of multiplier over penalty."""
    state = replace(converged_state(lotka(), COARSE), status=None)
    fine = replace(COARSE, resolution=1e-8)
    wanted = Resolution(rule(5), fine.resolution, rounds=8, segments=1000)
    split = on_finer_mesh(state, (wanted,), fine.contraction)
    stepped = fine.step(split)
    opened = np.abs(stepped.point.jumps * np.sqrt(stepped.knot_penalty)).max()
    wrong = fine.step(replace(split, multipliers=np.zeros_like(split.multipliers)))
    assert opened < 1e-3 * np.abs(wrong.point.jumps * np.sqrt(wrong.knot_penalty)).max()


def test_no_more_segments_than_allowed():
    state = converged_state(lotka(), replace(COARSE, resolution=1e-12, max_segments=50, max_iterations=60))
    assert len(state.system.mesh) <= 50


# going on


def test_resume_from_a_solution_stays_there(lotka_fit):
    method = pf.LiftedGaussNewton()
    outcome = run(method, method.resume(lotka_fit.problem, lotka_fit.solution))
    np.testing.assert_allclose(outcome.solution.unknowns, lotka_fit.solution.unknowns, rtol=1e-7)


def test_resume_from_a_solution_is_quick(lotka_fit):
    method = pf.LiftedGaussNewton()
    outcome = run(method, method.resume(lotka_fit.problem, lotka_fit.solution))
    assert outcome.status is pf.Status.CONVERGED
    assert outcome.iterations <= 6


def test_resume_with_other_data_finds_their_optimum(lotka_fit):
    other, method = lotka(seed=1), pf.LiftedGaussNewton()
    outcome = run(method, method.resume(other, lotka_fit.solution))
    np.testing.assert_allclose(outcome.solution.unknowns, pf.fit(other).solution.unknowns, rtol=1e-5)


def test_a_step_leaves_its_state_alone():
    problem = lotka()
    method = pf.LiftedGaussNewton()
    state = method.init(problem, make_start(problem))
    kept = [a.copy() for a in (state.point.unknowns, state.point.states, state.point.path, state.multipliers)]
    method.step(state)
    for before, after in zip(
        kept, (state.point.unknowns, state.point.states, state.point.path, state.multipliers), strict=True
    ):
        np.testing.assert_array_equal(before, after)


def test_merit_never_grows_within_a_stage():
    problem, method = lotka(), pf.LiftedGaussNewton()
    state = method.init(problem, make_start(problem))
    for _ in range(12):
        after = method.step(state)
        if after.stage == state.stage and after.multipliers is state.multipliers:
            old, new = (merit(s, s.point) for s in (state, after))
            assert new <= old * (1 + 1e-12)
        state = after


def test_iteration_limit_is_kept_and_said():
    fit = pf.fit(lotka(), pf.LiftedGaussNewton(max_iterations=2))
    assert (fit.iterations, fit.status) == (2, pf.Status.ITERATION_LIMIT)


def test_a_solution_passes_its_own_certificate(lotka_fit):
    assert certify(lotka_fit.solution).agrees


# settings


@pytest.mark.parametrize(
    "setting, value, code",
    [
        ("nodes", 0, "errors.not_whole"),
        ("nodes", 2.5, "errors.not_whole"),
        ("polish_nodes", -1, "errors.not_whole"),
        ("patience", 0, "errors.not_whole"),
        ("max_segments", "many", "errors.not_whole"),
        ("max_iterations", True, "errors.not_whole"),
        ("tolerance", 0.0, "errors.not_positive"),
        ("jump_tolerance", -1e-9, "errors.not_positive"),
        ("resolution", float("nan"), "errors.not_positive"),
        ("coarse_resolution", "fine", "errors.not_positive"),
    ],
)
def test_bad_settings_are_named(setting, value, code):
    error = complaint(pf.LiftedGaussNewton, **{setting: value})
    assert (error.code, error.subject) == (code, setting)


@pytest.mark.parametrize("penalties", [(), (1.0, -3.0), 3.0, ("a",)])
def test_penalties_are_positive_numbers(penalties):
    assert complaint(pf.LiftedGaussNewton, penalties=penalties).code == "solvers.not_penalties"


def test_a_family_is_a_member_of_nodes():
    assert complaint(pf.LiftedGaussNewton, family="radau").code == "solvers.not_a_family"


@pytest.mark.parametrize(
    "record, field, value, code",
    [
        ("damping", "start", -1.0, "solvers.negative"),
        ("stages", "calm", "small", "solvers.negative"),
        ("correction", "most", 1.5, "errors.not_whole"),
        ("joining", "ease", float("nan"), "solvers.negative"),
        ("contraction", "quick_steps", 2.5, "errors.not_whole"),
    ],
)
def test_bad_thresholds_are_named(record, field, value, code):
    changed = replace(getattr(pf.LiftedGaussNewton(), record), **{field: value})
    error = complaint(pf.LiftedGaussNewton, **{record: changed})
    assert (error.code, error.subject) == (code, f"{record}.{field}")


def test_thresholds_come_as_their_record():
    error = complaint(pf.LiftedGaussNewton, damping=0.1)
    assert (error.code, error.subject) == ("solvers.not_a_record", "damping")


def test_thresholds_are_saved_with_a_fit(tmp_path, lotka_fit):
    usual = pf.LiftedGaussNewton()
    method = replace(
        usual,
        damping=replace(usual.damping, start=0.1),
        second_derivatives=replace(usual.second_derivatives, missed=np.inf),
        correction=replace(usual.correction, most=2),
        contraction=replace(usual.contraction, quick_steps=9),
    )
    replace(lotka_fit, method=method).save(tmp_path / "fit.json")
    assert pf.load(tmp_path / "fit.json").method == method


def test_without_corrections_steps_are_damped_more_often(lotka_fit):
    """Corrections are worth steps: both ways lead to the same optimum."""
    usual = pf.LiftedGaussNewton()
    plain = pf.fit(lotka(), replace(usual, correction=replace(usual.correction, most=0)))
    assert plain.parameters == pytest.approx(lotka_fit.parameters, rel=1e-6)


def test_new_derivatives_shorten_a_search_along_a_curved_valley():
    """The data show how much of `s` there is over what it decays to: k1, k2 and k3 may grow together."""
    model = pf.Model("a' = -k1*a^2 + k2*a*s\ns' = k1*a^2 - k2*a*s - k3*s\np' = k3*s", observables=["a", "p"])
    truth, first = {"k1": 1.0, "k2": 2e4, "k3": 1e4}, {"a": 1.0, "s": 0.0, "p": 0.0}
    run = pf.simulate(model, truth, first, np.logspace(-2, 2, 40))
    noise = 0.01 * np.random.default_rng(1).standard_normal((2, 40))
    data = {name: run.observables[name] + row for name, row in zip("ap", noise, strict=True)}
    bounds = {name: pf.Parameter(value / 30, value * 30, log=True) for name, value in truth.items()}
    problem = pf.Problem(model, pf.Experiment(run.times, data, initial=first), bounds)
    usual, policy = pf.LiftedGaussNewton(), pf.SearchPolicy(most=1)
    old = replace(usual, correction=replace(usual.correction, further=np.inf))
    start = {"k1": 3.0, "k2": 2e5, "k3": 1e3}
    few, many = (pf.fit(problem, method, start=start, policy=policy) for method in (usual, old))
    assert few.iterations < 0.7 * many.iterations
    assert few.loss == pytest.approx(many.loss, rel=1e-6)


@pytest.mark.parametrize(
    "before, after, renews",
    [
        (100.0, 1.0, False),  # one more correction will do
        (100.0, 5.0, False),  # two more
        (100.0, 20.0, True),
        (100.0, 99.0, True),
        (np.inf, 50.0, False),  # nothing is known of the pace
        (0.0, 0.0, False),
    ],
)
def test_new_derivatives_are_made_where_corrections_are_slow(before, after, renews):
    """What is missing of a predicted decrease of 1 falls by the same factor with every correction."""
    assert Correction(further=2.0).renews(1.0, before, after) is renews
    assert not Correction(further=np.inf).renews(1.0, before, after)


def test_a_gain_that_rounding_errors_hide_is_not_corrected():
    problem, method = lotka(), pf.LiftedGaussNewton()
    state = method.step(method.init(problem, make_start(problem)))
    linear, rules = linearise(state.system, state.point), replace(method.correction, satisfied=2.0)

    def gain(hidden):  # no step is satisfactory, so that it is corrected
        given = (state, linear, linear.quadratic, 1.0, 1e-10, rules, method.contraction)
        return trial_step(*given, hidden=hidden).gained

    plain = replace(rules, most=0)
    alone = trial_step(state, linear, linear.quadratic, 1.0, 1e-10, plain, method.contraction).gained
    assert gain(np.inf) == alone < gain(0.0)


def test_with_fewer_newton_steps_the_first_segments_are_shorter():
    problem, usual = lotka(), pf.LiftedGaussNewton()
    hasty = replace(usual, contraction=replace(usual.contraction, first_steps=1))
    few, many = (len(one.init(problem, make_start(problem)).system.mesh) for one in (usual, hasty))
    assert many > few


def test_the_path_is_contracted_to_the_tolerance_of_the_settings():
    usual = pf.LiftedGaussNewton()
    loose = replace(usual, contraction=replace(usual.contraction, tolerance=1e-5))
    exact, coarse = (converged_state(lotka(), one).residual for one in (usual, loose))
    assert exact < 1e-10 < coarse < 1e-5


def test_multipliers_are_no_yardstick():
    """They may cost any amount where they mean nothing yet; a step that gains much must not count as rounding."""
    problem, method = pf.examples.van_der_pol.generate(seed=1), pf.LiftedGaussNewton()
    state = method.step(method.init(problem, make_start(problem)))
    heavy = replace(state, multipliers=state.multipliers + 1e8)
    assert merit_size(heavy) == merit_size(state)
    assert merit_size(state) >= state.point.data
    after = method.step(heavy)
    assert after.point is not heavy.point or after.damping > heavy.damping


def flame() -> pf.Problem:
    """The time of the flame is determined, but hardly more than the product of rate and first radius."""
    model, times = pf.Model("y' = k*(y^2 - y^3)"), np.linspace(0, 2000, 60)
    exact = np.asarray(pf.simulate(model, {"k": 1.0}, {"y": 1e-3}, times).observables["y"])
    data = pf.Experiment(times, {"y": exact + 0.03 * np.random.default_rng(1).standard_normal(60)})
    first = pf.Parameter(1e-5, 1e-1, log=True)
    return pf.Problem(model, data, {"k": pf.Parameter(0.1, 10, log=True)}, initial={"y": first})


def test_a_search_that_crawls_ends_and_others_follow():
    """It took all 400 iterations to creep along a valley."""
    single = pf.fit(flame(), policy=pf.SearchPolicy(most=1))
    assert single.status is pf.Status.STALLED
    assert single.iterations < 200
    fit = pf.fit(flame())
    assert fit.status.success
    assert fit.loss < single.loss


@pytest.mark.parametrize(("links", "largest"), [(1, 1e6), (100, 1e6), (1000, 1e7), (10_000, 1e9)])
def test_a_longer_chain_may_have_stiffer_links(links, largest):
    assert Multipliers().largest(links) == largest


def test_stiffer_links_close_a_long_chain_in_fewer_steps():
    model, times = pf.Model("x' = y; y' = u - k*x", ["x"], ["u"]), np.linspace(0, 2, 3001)
    table = {"u": pf.Table(times, np.random.default_rng(1).standard_normal(len(times)))}
    data = experiment(model, {"k": 1.3}, {"x": 1.0, "y": 1.0}, times, sd=0.1, inputs=table)
    problem = pf.Problem(model, data, {"k": (0.1, 10)}, {"x": 1.0, "y": 1.0})
    ends = {}
    for rules in (Multipliers(), Multipliers(in_series=0.0)):
        method = pf.LiftedGaussNewton(multipliers=rules)
        ends[rules] = run(method, method.init(problem, make_start(problem)))
    stiff, soft = ends.values()
    assert stiff.status is soft.status is pf.Status.CONVERGED
    assert stiff.iterations < soft.iterations
    np.testing.assert_allclose(stiff.solution.unknowns, soft.solution.unknowns, rtol=1e-6)


def test_memory_limits_the_segments_of_large_models():
    rules = pf.LiftedGaussNewton().refinement
    assert rules.most_segments(1, 40) == rules.numbers // 1600
    assert rules.most_segments(1000, 24) > 50_000  # a thousand experiments of three states, 8 nodes


def test_a_mesh_stays_within_its_memory():
    usual = pf.LiftedGaussNewton()
    tight = replace(usual, refinement=replace(usual.refinement, numbers=12 * 10**2))
    fit = pf.fit(lotka(), tight, policy=pf.SearchPolicy(most=1))
    assert fit.certificate.segments <= 12 < pf.fit(lotka(), usual).certificate.segments
