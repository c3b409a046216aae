"""fit(): the truth from exact data in many settings, repeatability, uncertainty, predictions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import picardfit as pf
from picardfit.display.text import optima_text
from picardfit.search.starts import make_start

TIMES = np.linspace(0, 3, 13)
DECAY = pf.Model("x' = -k*x")
CHAIN = pf.Model("x' = -k*x; z' = k*x - q*z")
LOTKA = pf.Model("x' = a*x - b*x*y; y' = d*x*y - c*y")
STARTS = 8  # of the fits that are compared bit for bit
LOTKA_TRUTH = {"a": 1.0, "b": 0.4, "c": 0.9, "d": 0.3}


def decay(rate=0.7, size=2.0, times=TIMES, **options):
    return pf.Experiment(times, {"x": size * np.exp(-rate * np.asarray(times))}, **options)


def simulated(model, parameters, begin, times=TIMES, inputs=None, sd=0.0, seed=0, only=None, **options):
    """An experiment from a simulation, with noise of one standard deviation."""
    run, rng = pf.simulate(model, parameters, begin, times, inputs), np.random.default_rng(seed)
    shown = only or list(run.observables)
    noisy = {n: run.observables[n] + sd * rng.standard_normal(len(times)) for n in shown}
    return pf.Experiment(times, noisy, inputs=inputs or {}, **options)


def noisy_decay(seed=0, sd=0.05, **options):
    return pf.Problem(DECAY, simulated(DECAY, {"k": 0.7}, {"x": 2.0}, sd=sd, seed=seed), **options)


@pytest.fixture(scope="module")
def van_der_pol():
    return pf.fit(pf.examples.van_der_pol.generate(seed=1, eps=0.1))


# the truth from exact data


@pytest.mark.parametrize("name", ["van_der_pol", "lorenz", "fitzhugh_nagumo", "rosenzweig_macarthur"])
def test_exact_data_give_the_truth(name):
    problem = getattr(pf.examples, name).generate(seed=3, eps=0.0)
    fit = pf.fit(problem)
    assert {k: fit.parameters[k] for k in problem.truth["parameters"]} == pytest.approx(
        problem.truth["parameters"], rel=1e-6
    )


def test_exact_data_give_the_initial_states():
    problem = pf.examples.van_der_pol.generate(seed=3, eps=0.0)
    assert pf.fit(problem).initial_states["run 1"] == pytest.approx(
        problem.truth["initial"]["run 1"], rel=1e-6
    )


def test_no_bounds_at_all():
    bounded = pf.examples.van_der_pol.generate(seed=2, eps=0.1)
    free = pf.Problem(bounded.model, bounded.experiments)
    assert pf.fit(free).parameters == pytest.approx(pf.fit(bounded).parameters, rel=1e-6)


def test_log_parameters_over_four_decades():
    truth, times = {"k": 20.0, "q": 0.02}, np.geomspace(1e-3, 300, 40)
    problem = pf.Problem(
        CHAIN,
        simulated(CHAIN, truth, {"x": 1.0, "z": 0.0}, times),
        parameters={n: pf.Parameter(1e-3, 1e2, log=True) for n in truth},
        initial={"x": 1.0, "z": 0.0},
    )
    assert pf.fit(problem).parameters == pytest.approx(truth, rel=1e-6)


def test_local_parameters_are_those_of_their_experiments():
    rates = {"a": 0.3, "b": 0.7, "c": 1.1}
    runs = [decay(rate, name=name) for name, rate in rates.items()]
    fit = pf.fit(pf.Problem(DECAY, runs, parameters={"k": pf.Parameter(0, 5, local=True)}))
    assert fit.parameters == pytest.approx({f"k[{n}]": r for n, r in rates.items()}, rel=1e-6)


def test_local_and_shared_parameters_together():
    runs = [
        simulated(CHAIN, {"k": k, "q": 0.4}, {"x": 2.0, "z": 0.0}, name=name, initial={"z": 0.0})
        for name, k in (("a", 0.5), ("b", 1.5))
    ]
    fit = pf.fit(pf.Problem(CHAIN, runs, parameters={"k": pf.Parameter(0, 5, local=True), "q": (0, 2)}))
    assert fit.parameters == pytest.approx({"k[a]": 0.5, "k[b]": 1.5, "q": 0.4}, rel=1e-6)


def test_known_initial_states_are_held_exactly():
    fit = pf.fit(pf.Problem(DECAY, decay(size=2.0), initial={"x": 1.9}))
    assert fit.initial_states["experiment 1"]["x"] == 1.9


def test_initial_states_by_formulas_of_a_shared_parameter():
    runs = [
        decay(size=2.0, name="a", initial={"x": "c"}),
        decay(size=4.0, name="b", initial={"x": "2*c"}),
        decay(size=3.0, name="c", initial={"x": "c + 1"}),
    ]
    fit = pf.fit(pf.Problem(DECAY, runs, parameters={"c": (0, 10)}))
    assert fit.parameters == pytest.approx({"k": 0.7, "c": 2.0}, rel=1e-6)


def test_initial_states_by_a_formula_of_a_local_parameter():
    runs = [decay(size=size, name=name, initial={"x": "c"}) for name, size in (("a", 2.0), ("b", 5.0))]
    fit = pf.fit(pf.Problem(DECAY, runs, parameters={"c": pf.Parameter(0, 10, local=True)}))
    assert fit.parameters == pytest.approx({"k": 0.7, "c[a]": 2.0, "c[b]": 5.0}, rel=1e-6)


def test_steady_state_as_initial_formula():
    model = pf.Model("x' = s*u - d*x", inputs=["u"])
    run = simulated(
        model, {"s": 3.0, "d": 1.5}, {"x": 2.0}, inputs={"u": "where(t < 1, 1, 2)"}, initial={"x": "s/d"}
    )
    fit = pf.fit(pf.Problem(model, run, parameters={"s": (0.1, 10), "d": (0.1, 10)}))
    assert fit.parameters == pytest.approx({"s": 3.0, "d": 1.5}, rel=1e-6)


@pytest.mark.parametrize(
    "dose", ["where(t < 1, 0, where(t < 2, 3, 1))", ([0, 0.9, 2.1], [0, 3, 1]), "1 + sin(4*t)", 2.0]
)
def test_inputs_of_every_kind(dose):
    model = pf.Model("x' = u - k*x", inputs=["u"])
    run = simulated(model, {"k": 0.7}, {"x": 1.0}, inputs={"u": dose})
    assert pf.fit(pf.Problem(model, run)).parameters["k"] == pytest.approx(0.7, rel=1e-6)


def test_input_given_by_a_function():
    model = pf.Model("x' = u - k*x", inputs=["u"])
    run = simulated(model, {"k": 0.7}, {"x": 1.0}, inputs={"u": lambda t: 1 + np.cos(t)})
    assert pf.fit(pf.Problem(model, run)).parameters["k"] == pytest.approx(0.7, rel=1e-6)


def test_missing_data_are_no_obstacle():
    full = pf.examples.lorenz.generate(seed=1, eps=0.0)
    one, rng = full.experiments[0], np.random.default_rng(0)
    holes = {n: np.where(rng.uniform(size=len(v)) < 0.4, np.nan, v) for n, v in one.observations.items()}
    fit = pf.fit(full.with_experiments([pf.Experiment(one.times, holes, name=one.name)]))
    assert fit.parameters == pytest.approx(full.truth["parameters"], rel=1e-6)


def test_observables_with_sampling_times_of_their_own():
    run = pf.simulate(CHAIN, {"k": 0.7, "q": 0.3}, {"x": 2.0, "z": 0.5}, np.arange(0, 4, 0.25))
    pairs = {"x": (run.times[::4], run.states["x"][::4]), "z": (run.times[1::3], run.states["z"][1::3])}
    fit = pf.fit(pf.Problem(CHAIN, pf.Experiment(None, pairs)))
    assert fit.parameters == pytest.approx({"k": 0.7, "q": 0.3}, rel=1e-6)


def test_hidden_state():
    run = simulated(LOTKA, LOTKA_TRUTH, {"x": 2.0, "y": 1.5}, np.linspace(0, 12, 41), only=["x"])
    bounds = dict.fromkeys(LOTKA_TRUTH, (0.05, 3.0)) | {"b": 0.4}
    fit = pf.fit(pf.Problem(LOTKA, run, parameters=bounds, initial={"y": (0, 5)}))
    assert fit.parameters == pytest.approx(LOTKA_TRUTH, rel=1e-6)


def test_initial_state_before_the_first_sample():
    fit = pf.fit(pf.Problem(DECAY, decay(times=TIMES[4:])))
    assert fit.initial_states["experiment 1"]["x"] == pytest.approx(2.0, rel=1e-6)


def test_time_may_begin_anywhere():
    run = pf.Experiment(TIMES + 1900, {"x": 2 * np.exp(-0.7 * TIMES)}, t0=1900)
    assert pf.fit(pf.Problem(DECAY, run)).initial_states["experiment 1"]["x"] == pytest.approx(2.0, rel=1e-6)


def test_an_observable_of_two_states():
    model = pf.Model("x' = -k*x; z' = -q*z", observables={"total": "x + z"})
    run = pf.Experiment(TIMES, {"total": 2 * np.exp(-0.7 * TIMES) + np.exp(-3 * TIMES)})
    fit = pf.fit(pf.Problem(model, run, parameters={"k": (0, 1.5), "q": (1.5, 9)}))
    assert fit.parameters == pytest.approx({"k": 0.7, "q": 3.0}, rel=1e-5)


def test_a_model_from_a_function():
    model = pf.Model.from_function(lambda t, x, p, u: [-p[0] * x[0]], states=["x"], parameters=["k"])
    assert pf.fit(pf.Problem(model, decay())).parameters["k"] == pytest.approx(0.7, rel=1e-6)


def test_a_bound_that_acts_is_named():
    fit = pf.fit(pf.Problem(DECAY, decay(), parameters={"k": (1.0, 3.0)}))
    assert (fit.status, fit.certificate.at_bound) == (pf.Status.CONVERGED_AT_BOUND, ("k",))


def test_loss_of_the_fit_is_that_of_an_independent_integration(van_der_pol):
    independent = van_der_pol.problem.loss(van_der_pol.parameters, van_der_pol.initial_states)
    assert van_der_pol.loss == pytest.approx(independent, rel=1e-7)


def test_no_neighbour_has_a_smaller_loss(van_der_pol):
    for name, step in van_der_pol.standard_errors.items():
        if name not in van_der_pol.parameters:
            continue
        for sign in (-0.1, 0.1):
            moved = van_der_pol.parameters | {name: van_der_pol.parameters[name] + sign * step}
            assert van_der_pol.problem.loss(moved, van_der_pol.initial_states) > van_der_pol.loss


# starts, seeds, executors


def test_same_seed_same_result():
    first, second = (pf.fit(noisy_decay(), starts=3, seed=5) for _ in range(2))
    assert (first.parameters, first.loss, first.iterations) == (
        second.parameters,
        second.loss,
        second.iterations,
    )


def test_every_start_is_reported():
    fit = pf.fit(pf.examples.van_der_pol.generate(seed=1), starts=3)
    assert [s.start for s in fit.searches] == [0, 1, 2]
    assert [s.loss for s in fit.searches] == pytest.approx([fit.loss] * 3, rel=1e-6)


def test_best_start_wins():
    """x = sin(k t) has many local optima in k."""
    times = np.linspace(0, 6, 25)
    run = pf.Experiment(times, {"x": np.sin(3 * times)})
    problem = pf.Problem(pf.Model("x' = k*cos(k*t)"), run, parameters={"k": (0, 8)}, initial={"x": 0.0})
    fit = pf.fit(problem, starts=8)
    assert len({round(s.loss, 6) for s in fit.searches}) > 1
    assert fit.parameters["k"] == pytest.approx(3.0, rel=1e-6)


def answer(fit):
    """Everything about a fit that must be the same bit for bit; only seconds may differ."""
    starts = [replace(one, seconds=0.0) for one in fit.searches]
    path = None if fit.solution is None else fit.solution.path.tobytes()
    return fit.parameters, fit.initial_states, fit.certificate, fit.iterations, fit.message, path, starts


@pytest.fixture(scope="module")
def many():
    """A problem with two equally good optima and its serial fit."""
    problem = pf.examples.van_der_pol.generate(seed=1, reparametrised=True)
    return problem, pf.fit(problem, starts=STARTS)


@pytest.mark.parametrize(
    "pool, workers", [(ThreadPoolExecutor, 2), (ProcessPoolExecutor, 1), (ProcessPoolExecutor, 3)]
)
def test_executors_give_the_serial_result(many, pool, workers):
    problem, serial = many
    with pool(workers) as executor:
        assert answer(pf.fit(problem, starts=STARTS, executor=executor)) == answer(serial)


def test_an_only_start_on_an_executor_gives_the_serial_result():
    problem = noisy_decay()
    with ThreadPoolExecutor(1) as executor:
        assert answer(pf.fit(problem, executor=executor)) == answer(pf.fit(problem))


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed", reason="pip install picardfit[dask]")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def test_dask_gives_the_serial_result(many, dask):
    problem, serial = many
    assert answer(pf.fit(problem, starts=STARTS, executor=dask.get_executor())) == answer(serial)


def test_a_dask_worker_killed_in_mid_run_changes_nothing(many, dask):
    problem, serial = many
    victims = list(dask.run(os.getpid).values())
    killed = []

    def kill_one(news):
        if not killed:
            killed.append(victims[0])
            os.kill(victims[0], signal.SIGKILL)

    fit = pf.fit(problem, starts=STARTS, executor=dask.get_executor(), progress=kill_one)
    assert killed
    assert answer(fit) == answer(serial)


def test_a_pool_worker_killed_in_mid_run_changes_nothing(many):
    problem, serial = many
    killed = []
    with ProcessPoolExecutor(2) as executor:

        def kill_one(news):
            if not killed:
                killed.extend(executor._processes)
                os.kill(killed[0], signal.SIGKILL)

        fit = pf.fit(problem, starts=STARTS, executor=executor, progress=kill_one)
    assert killed
    assert answer(fit) == answer(serial)


# ledger


@pytest.fixture(scope="module")
def written(many, tmp_path_factory):
    """The ledger of a whole run, and its fit."""
    path = tmp_path_factory.mktemp("ledger") / "run.jsonl"
    fit = pf.fit(many[0], starts=STARTS, ledger=path)
    return path.read_bytes(), fit


def test_a_ledger_changes_nothing(many, written):
    assert answer(written[1]) == answer(many[1])


@pytest.mark.parametrize("lines", [1, 2, 5, STARTS, STARTS + 1])
def test_a_run_resumed_after_any_line_gives_the_same(many, written, tmp_path, lines):
    problem, serial = many
    path = tmp_path / "run.jsonl"
    whole = written[0].splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:lines]) + b"".join(whole[lines : lines + 1])[:30])
    assert answer(pf.fit(problem, starts=STARTS, ledger=path)) == answer(serial)
    assert len(path.read_bytes().splitlines()) == STARTS + 1


def test_a_ledger_may_get_more_starts(many, tmp_path):
    problem, serial = many
    pf.fit(problem, starts=5, ledger=tmp_path / "run.jsonl")
    with ProcessPoolExecutor(2) as executor:
        fit = pf.fit(problem, starts=STARTS, ledger=tmp_path / "run.jsonl", executor=executor)
    assert answer(fit) == answer(serial)


@pytest.mark.parametrize("starts", [1, 3])
def test_a_ledger_of_more_starts_serves_fewer(many, written, tmp_path, starts):
    (tmp_path / "run.jsonl").write_bytes(written[0])
    fit, alone = (pf.fit(many[0], starts=starts, **more) for more in ({"ledger": tmp_path / "run.jsonl"}, {}))
    assert (fit.parameters, fit.loss) == (alone.parameters, alone.loss)
    if starts > 1:  # a default fit also ends searches that come to a known optimum
        assert answer(fit) == answer(alone)


def test_a_ledger_keeps_rescue_starts(tmp_path):
    problem = pf.Problem(
        pf.Model("x' = -k*x/(b - 1)"), decay(), parameters={"b": pf.Parameter(0, 3, start=1.0), "k": 0.7}
    )
    first, second = (pf.fit(problem, ledger=tmp_path / "run.jsonl") for _ in range(2))
    assert answer(first) == answer(second) == answer(pf.fit(problem))


def test_paths_fill_neither_memory_nor_ledger(tmp_path):
    pf.fit(noisy_decay(), starts=40, ledger=tmp_path / "run.jsonl")
    kept = [b'"solution": {' in line for line in (tmp_path / "run.jsonl").read_bytes().splitlines()[1:]]
    assert 1 <= sum(kept) < 20


@pytest.mark.parametrize(
    "change, culprit",
    [
        ({"seed": 1}, "seed"),
        ({"method": pf.LiftedGaussNewton(nodes=4)}, "method"),
        ({"start": {"k": 1.0}}, "start"),
        ({"problem": noisy_decay(seed=1)}, "problem"),
    ],
)
def test_a_ledger_of_another_fit_is_refused(tmp_path, change, culprit):
    asked = {"problem": noisy_decay(), "starts": 2, "ledger": tmp_path / "run.jsonl"}
    pf.fit(**asked)
    with pytest.raises(pf.InputError, match=f"another run, which differs in `{culprit}`:"):
        pf.fit(**asked | change)


def test_functions_without_formulas_have_ledgers_too(tmp_path):
    def problem(rate):
        model = pf.Model.from_function(
            lambda t, x, p, u: [-p[0] * x[0] * rate if x[0] > 0 else 0.0], states=["x"], parameters=["k"]
        )
        return pf.Problem(model, decay(), {"k": (0.1, 2.0)})

    first = pf.fit(problem(1.0), starts=2, ledger=tmp_path / "run.jsonl")
    assert answer(pf.fit(problem(1.0), starts=2, ledger=tmp_path / "run.jsonl")) == answer(first)
    with pytest.raises(pf.InputError, match="differs in `problem`"):
        pf.fit(problem(2.0), starts=2, ledger=tmp_path / "run.jsonl")


def test_ledger_which_is_no_file():
    with pytest.raises(pf.InputError, match="is not a file"):
        pf.fit(noisy_decay(), ledger=3)


PROGRAM = """
import sys
import picardfit as pf
if __name__ == "__main__":
    from concurrent.futures import ProcessPoolExecutor
    problem = pf.examples.van_der_pol.generate(seed=1, reparametrised=True)
    with ProcessPoolExecutor(2) as executor:
        pf.fit(problem, starts=400, ledger=sys.argv[1], executor=executor if sys.argv[2] == "pool" else None)
"""


def children(pid):
    """Numbers of the processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in tasks for child in one.read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("way", ["serial", "pool"])
def test_a_killed_main_process_is_resumed_with_the_same_result(many, tmp_path, way):
    problem, serial = many
    path = tmp_path / "run.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, path, way], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    while not path.exists() or path.read_bytes().count(b"\n") < 4:
        assert process.poll() is None
        time.sleep(0.02)
    workers = children(process.pid)
    process.kill()
    process.wait()
    assert path.read_bytes().count(b"\n") < 400
    assert len(workers) == (2 if way == "pool" else 0)
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.02)
    assert answer(pf.fit(problem, starts=STARTS, ledger=path)) == answer(serial)


# optima


def test_two_equal_optima_are_both_reported(many):
    _, fit = many
    first, second = fit.optima[:2]
    assert first.loss == pytest.approx(second.loss, rel=1e-6)
    assert sorted([first.parameters["rho"], second.parameters["rho"]]) == pytest.approx([0, 2], abs=0.05)
    assert sum(one.count for one in fit.optima) == STARTS
    assert not first.flat
    assert "found another one that fits as well" in str(fit)


def test_starts_know_their_optimum(many):
    _, fit = many
    for one in fit.searches:
        assert one.loss == pytest.approx(fit.optima[one.cluster].loss, rel=1e-6)
        assert one.parameters == pytest.approx(fit.optima[one.cluster].parameters, abs=1e-3)


@pytest.mark.parametrize("sd", [0.0, 0.05])
def test_a_flat_optimum_is_one_and_says_so(sd):
    run = simulated(DECAY, {"k": 0.7}, {"x": 2.0}, sd=sd)
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*q*x"), run, {"k": (0.1, 10), "q": (0.1, 10)}), starts=20)
    assert [one.count for one in fit.optima] == [20]
    assert set(fit.optima[0].varying) == {"k", "q"}


def test_a_parameter_that_nothing_feels_is_flat_even_at_its_bound():
    model = pf.Model("x' = -k*x; z' = -q*z")
    run = simulated(DECAY, {"k": 0.7}, {"x": 2.0}, sd=0.05)
    fit = pf.fit(pf.Problem(model, run, {"k": (0, 3), "q": (0, 3)}, {"z": 1.0}), starts=8)
    assert [(one.count, set(one.varying)) for one in fit.optima] == [(8, {"q"})]


def test_local_optima_are_told_apart():
    """x = sin(k t) has many local optima in k."""
    times = np.linspace(0, 6, 25)
    run = pf.Experiment(times, {"x": np.sin(3 * times)})
    problem = pf.Problem(pf.Model("x' = k*cos(k*t)"), run, parameters={"k": (0, 8)}, initial={"x": 0.0})
    fit = pf.fit(problem, starts=20)
    rates = np.array([one.parameters["k"] for one in fit.optima])
    assert fit.optima[0].parameters["k"] == pytest.approx(3.0)
    assert 4 <= len(rates) <= 9
    assert np.diff(np.sort(rates)).min() > 0.3


def test_starts_that_did_not_converge_belong_to_no_optimum():
    fit = pf.fit(noisy_decay(), pf.LiftedGaussNewton(max_iterations=1), starts=3)
    assert [one.cluster for one in fit.searches] == [None] * 3
    assert fit.optima == ()
    assert "3 starts reached no optimum" in optima_text(fit)


def test_the_waterfall_is_sorted(many):
    _, fit = many
    losses = fit.waterfall()
    assert len(losses) == STARTS
    assert (np.diff(losses) >= 0).all()
    assert losses[0] == pytest.approx(fit.loss)


def test_clusters_survive_saving(many, tmp_path):
    _, fit = many
    assert pf.load(fit.save(tmp_path / "fit.json")).optima == fit.optima


def test_tables_of_many_starts(many):
    _, fit = many
    optima, starts = (part.splitlines() for part in fit.searches_table(most=5).split("\n\n"))
    assert optima[0].split() == ["optimum", "loss", "starts", "rho", "theta2"]
    assert len(optima) == 1 + len(fit.optima)
    assert len(starts) == 7
    assert starts[-1].startswith(f"... and {STARTS - 5} more")
    assert starts[1].split()[:4] == ["1", f"{fit.waterfall()[0]:.6g}", "1", str(fit.optima[0].start)]


# where starts begin


def begins(problem, starts, **options):
    """Where the searches begin, for a method that ends at once."""
    fit = pf.fit(problem, pf.GradientDescent(tolerance=1e9), starts=starts, **options)
    return np.array([list(one.parameters.values()) for one in fit.searches])


def test_more_starts_only_add_starts():
    problem = noisy_decay(parameters={"k": (0, 3)})
    np.testing.assert_array_equal(begins(problem, 40)[:7], begins(problem, 7))


def test_other_seeds_other_starts():
    problem = noisy_decay(parameters={"k": (0, 3)})
    assert (begins(problem, 5, seed=1)[1:] != begins(problem, 5, seed=2)[1:]).all()


# progress, interruption, failure


def test_an_executor_tells_progress_of_every_start():
    news = []
    with ThreadPoolExecutor(2) as executor:
        fit = pf.fit(noisy_decay(), starts=5, executor=executor, progress=news.append)
    assert sorted(n.start for n in news) == list(range(5))
    assert {n.start: n.iteration for n in news} == {one.start: one.iterations for one in fit.searches}


def test_an_interrupt_keeps_the_starts_that_are_done(tmp_path):
    def stop(news):
        if (news.start, news.iteration) == (3, 2):
            raise KeyboardInterrupt

    problem, path = noisy_decay(), tmp_path / "run.jsonl"
    fit = pf.fit(problem, starts=6, progress=stop, ledger=path)
    assert fit.success
    assert (
        "Only 3 of 6 starts were done before the interruption: call fit again with the same ledger"
        in fit.message
    )
    assert [one.status.success for one in fit.searches] == [True, True, True, False]
    assert answer(pf.fit(problem, starts=6, ledger=path)) == answer(pf.fit(problem, starts=6))


def test_an_interrupt_while_workers_search_keeps_what_came_back():
    def stop(news):
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as executor:
        fit = pf.fit(noisy_decay(), starts=6, executor=executor, progress=stop)
    assert fit.success
    assert len(fit.searches) == 1
    assert "Only 1 of 6 starts were done" in fit.message


def test_a_start_that_breaks_down_is_named_and_the_others_count(monkeypatch):
    def fragile(problem, given, part=None, matched=True):
        if part is not None and part[0, -1] > 0.5:
            raise ArithmeticError("too fast")
        return make_start(problem, given, part=part)

    monkeypatch.setattr("picardfit.search.searches.make_start", fragile)
    fit = pf.fit(pf.Problem(DECAY, decay(), {"k": (0.0, 3.0)}), starts=8)
    broken = [one.start for one in fit.searches if one.status is pf.Status.FAILED]
    assert 1 < len(broken) < 7
    assert fit.parameters["k"] == pytest.approx(0.7, rel=1e-6)
    assert (
        f"{len(broken)} of 8 starts broke down, start {broken[0]} with: ArithmeticError: too fast"
        in fit.message
    )


def test_when_every_start_breaks_down_the_fit_says_so(monkeypatch):
    def broken(problem, given, part=None, matched=True):
        raise ArithmeticError("too fast")

    monkeypatch.setattr("picardfit.search.searches.make_start", broken)
    fit = pf.fit(noisy_decay(), starts=3, policy=pf.SearchPolicy(rescue=None))
    assert (fit.success, fit.solution, fit.status) == (False, None, pf.Status.FAILED)
    assert "ArithmeticError: too fast" in fit.message
    assert fit.waterfall().tolist() == [np.inf] * 3


def test_given_start_is_where_the_first_search_begins():
    method = pf.GradientDescent(tolerance=1e9)  # ends at once
    fit = pf.fit(noisy_decay(), method, start={"k": 1.7}, start_initial={"x": 3.0})
    found = fit.parameters["k"], fit.initial_states["experiment 1"]["x"]
    assert found == pytest.approx((1.7, 3.0), rel=1e-6)


def test_other_starts_are_drawn_although_one_is_given():
    method = pf.GradientDescent(tolerance=1e9)  # ends at once
    fit = pf.fit(noisy_decay(parameters={"k": (0, 3)}), method, start={"k": 1.7}, starts=4)
    stayed = [abs(s.parameters["k"] - 1.7) < 1e-3 for s in fit.searches]
    assert stayed == [True, False, False, False]


def test_a_failing_start_is_followed_by_others():
    problem = pf.Problem(
        pf.Model("x' = -k*x/(b - 1)"), decay(), parameters={"b": pf.Parameter(0, 3, start=1.0), "k": 0.7}
    )
    fit = pf.fit(problem)
    assert len(fit.searches) > 1
    assert fit.parameters["b"] == pytest.approx(2.0, rel=1e-6)


def test_progress_is_told_every_iteration():
    news = []
    fit = pf.fit(noisy_decay(), progress=news.append)
    first = [n for n in news if n.start == 0]
    assert [n.iteration for n in first] == list(range(1, len(first) + 1))
    assert (news[-1].start, news[-1].starts, news[-1].loss) == (1, 1, pytest.approx(fit.loss, rel=1e-6))


def test_an_interrupt_keeps_the_best_so_far():
    def stop(news):
        if news.iteration == 4:
            raise KeyboardInterrupt

    fit = pf.fit(noisy_decay(), progress=stop)
    assert (fit.status, fit.success, fit.iterations) == (pf.Status.INTERRUPTED, False, 4)
    assert np.isfinite(fit.loss)


def test_message_says_how_it_ended(van_der_pol):
    assert van_der_pol.message == pf.Status.CONVERGED.sentence()


def test_an_optimum_promises_no_further_decrease(van_der_pol):
    assert van_der_pol.certificate.gradient < 1e-9


# uncertainty


def hessian(problem, labels, centre, steps):
    """Second differences of the sum of squares / 2, by independent integration."""

    def value(point):
        named = dict(zip(labels, point, strict=True))
        initial = {n.removesuffix("(0)"): v for n, v in named.items() if n.endswith("(0)")}
        loss = problem.loss({n: v for n, v in named.items() if not n.endswith("(0)")}, initial)
        return loss * len(problem.samples.times)

    count = len(labels)
    matrix = np.zeros((count, count))
    for i in range(count):
        for j in range(i + 1):
            ei, ej = steps * np.eye(count)[i], steps * np.eye(count)[j]
            corners = [value(centre + a * ei + b * ej) for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
            mixed = corners[0] - corners[1] - corners[2] + corners[3]
            matrix[i, j] = matrix[j, i] = mixed / (4 * steps[i] * steps[j])
    return matrix


def test_covariance_is_the_inverse_hessian_of_the_loss():
    """With residuals this small Gauss-Newton and the full Hessian agree."""
    problem = noisy_decay(sd=1e-3)
    fit = pf.fit(problem)
    labels = fit.covariance_labels
    values = fit.parameters | {"x(0)": fit.initial_states["experiment 1"]["x"]}
    curvature = hessian(problem, labels, np.array([values[n] for n in labels]), np.full(len(labels), 1e-2))
    np.testing.assert_allclose(fit.covariance, fit.residual_variance * np.linalg.inv(curvature), rtol=5e-3)


@pytest.fixture(scope="module")
def repeated():
    """Fits of 40 data sets with fresh noise."""
    return [pf.fit(noisy_decay(seed=s)) for s in range(40)]


def test_standard_errors_match_the_scatter_of_the_estimates(repeated):
    scatter = np.std([f.parameters["k"] for f in repeated], ddof=1)
    claimed = np.sqrt(np.mean([f.standard_errors["k"] ** 2 for f in repeated]))
    assert 0.7 < scatter / claimed < 1.4  # a chi distribution of 39 degrees of freedom spreads by 11 %


def test_intervals_cover_the_truth_as_often_as_they_say(repeated):
    intervals = [f.intervals(0.8)["k"] for f in repeated]
    inside = sum(low < 0.7 < high for low, high in intervals)
    assert 25 <= inside <= 39  # binomial of 40 and 0.8: mean 32, standard deviation 2.5


def test_intervals_are_symmetric_around_the_estimate():
    fit = pf.fit(noisy_decay())
    low, high = fit.intervals()["k"]
    assert (low + high) / 2 == pytest.approx(fit.parameters["k"])


def test_intervals_of_a_log_parameter_are_symmetric_in_the_log():
    fit = pf.fit(noisy_decay(parameters={"k": pf.Parameter(log=True)}))
    low, high = fit.intervals()["k"]
    assert np.sqrt(low * high) == pytest.approx(fit.parameters["k"])


def test_standard_error_of_a_log_parameter_is_in_natural_units():
    plain, log = pf.fit(noisy_decay()), pf.fit(noisy_decay(parameters={"k": pf.Parameter(log=True)}))
    assert log.standard_errors["k"] == pytest.approx(plain.standard_errors["k"], rel=1e-4)


def test_intervals_stay_in_the_bounds():
    fit = pf.fit(noisy_decay(parameters={"k": (0.69, 0.73)}))
    assert fit.intervals(0.999)["k"] == pytest.approx((0.69, 0.73))


def test_intervals_use_students_factor():
    fit = pf.fit(noisy_decay())
    low, high = fit.intervals(0.95)["k"]
    assert (high - low) / 2 == pytest.approx(
        2.200985 * fit.standard_errors["k"], rel=1e-5
    )  # 11 degrees of freedom


def test_residual_variance_estimates_that_of_the_noise():
    times = np.linspace(0, 3, 400)
    fit = pf.fit(pf.Problem(DECAY, simulated(DECAY, {"k": 0.7}, {"x": 2.0}, times, sd=0.05)))
    assert fit.residual_variance == pytest.approx(0.05**2, rel=0.2)


@pytest.mark.parametrize("equation, lost", [("-k*q*x", {"k", "q"}), ("-(k + q)*x", {"k", "q"})])
def test_what_the_data_do_not_determine_has_an_infinite_standard_error(equation, lost):
    errors = pf.fit(pf.Problem(pf.Model(f"x' = {equation}"), noisy_decay().experiments)).standard_errors
    assert {n for n, e in errors.items() if np.isinf(e)} == lost


def test_text_flags_what_is_not_determined():
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x; z' = -q*z"), noisy_decay().experiments))
    rows = [
        line
        for line in str(fit).splitlines()
        if "not determined by" in line and not line.startswith("picardfit")
    ]
    assert [row.split()[0] for row in rows] == ["q", "z(0)"]


# predictions


def test_states_along_the_data_are_the_solution():
    fit = pf.fit(pf.Problem(DECAY, decay()))
    times = np.linspace(0, 3, 50)
    np.testing.assert_allclose(fit.states("experiment 1", times)["x"], 2 * np.exp(-0.7 * times), rtol=1e-7)


def test_states_beyond_the_data_are_the_solution():
    fit = pf.fit(pf.Problem(DECAY, decay()))
    times = np.array([4.0, 9.0])
    np.testing.assert_allclose(fit.states("experiment 1", times)["x"], 2 * np.exp(-0.7 * times), rtol=1e-6)


def test_predictions_inside_and_beyond_agree_with_simulate(van_der_pol):
    times = np.array([12.0, 0.0, 3.3, 3.3, 10.0, 11.0])
    run = pf.simulate(
        van_der_pol.problem.model, van_der_pol.parameters, van_der_pol.initial_states["run 1"], times
    )
    for name, values in van_der_pol.predict("run 1", times).items():
        np.testing.assert_allclose(values, run.observables[name], rtol=1e-6, atol=1e-7)


def test_predictions_beyond_the_data_see_later_jumps_of_the_input():
    model = pf.Model("x' = u - k*x", inputs=["u"])
    dose = {"u": ([0, 4.0], [0, 3])}
    fit = pf.fit(pf.Problem(model, simulated(model, {"k": 0.7}, {"x": 2.0}, inputs=dose)))
    run = pf.simulate(model, {"k": 0.7}, {"x": 2.0}, [3.5, 6.0], dose)
    np.testing.assert_allclose(fit.states("experiment 1", [3.5, 6.0])["x"], run.states["x"], rtol=1e-6)


def test_predictions_of_derived_observables():
    model = pf.Model("x' = -k*x", observables={"y": "gain*x + t"})
    run = pf.Experiment(TIMES, {"y": 6 * np.exp(-0.7 * TIMES) + TIMES})
    fit = pf.fit(pf.Problem(model, run, parameters={"gain": 3.0}))
    assert fit.predict("experiment 1", [5.0])["y"] == pytest.approx([6 * np.exp(-3.5) + 5], rel=1e-6)


def test_a_single_time_may_be_asked_for():
    fit = pf.fit(pf.Problem(DECAY, decay()))
    assert fit.predict("experiment 1", 0.0)["x"] == pytest.approx([2.0], rel=1e-9)


def test_no_times_give_empty_answers():
    assert pf.fit(pf.Problem(DECAY, decay())).states("experiment 1", [])["x"].shape == (0,)


def test_predictions_after_an_explosion_are_nan():
    times = np.linspace(0, 0.9, 10)
    fit = pf.fit(pf.Problem(pf.Model("x' = a*x^2"), pf.Experiment(times, {"x": 1 / (1 - times)})))
    assert np.isnan(fit.states("experiment 1", [1.5])["x"]).all()


# what is said about a fit


def test_other_methods_get_no_further_starts():
    fit = pf.fit(noisy_decay(), pf.GradientContractMultiplier(max_iterations=2))
    assert (fit.status, len(fit.searches)) == (pf.Status.ITERATION_LIMIT, 1)


def test_a_failed_fit_does_not_blame_the_data():
    run = pf.Experiment([0, 1, 2, 3], {"x": [1, 0.62, 0.35, 0.22]}, initial={"x": 1.0})
    problem = pf.Problem(pf.Model("x' = -a*b*x"), run, {"a": (0.1, 10), "b": (0.1, 10)})
    assert "do not determine" in pf.fit(problem).message
    assert "do not determine" not in pf.fit(problem, pf.LiftedGaussNewton(max_iterations=1)).message


def test_an_observable_without_data_is_named():
    run = pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES), "z": np.full(13, np.nan)}, initial={"z": 0.0})
    fit = pf.fit(pf.Problem(CHAIN, run, {"q": 0.5}))
    assert ("search.never_measured", "z") in [(one.code, one.subject) for one in fit.warnings]


@pytest.fixture(scope="module")
def switched():
    model = pf.Model("x' = where(t < ts, -k*x, 0)")
    data = {"x": 2 * np.exp(-0.7 * np.minimum(TIMES, 1.6))}
    return model, pf.Experiment(TIMES, data)


@pytest.mark.parametrize("start", [None, {"ts": 1.6}, {"ts": 0.9}])
def test_a_switching_time_is_estimated(switched, start):
    fit = pf.fit(pf.Problem(*switched, {"ts": (0.5, 2.5)}), start=start)
    assert fit.status is pf.Status.CONVERGED
    assert fit.parameters == pytest.approx({"ts": 1.6, "k": 0.7}, rel=1e-6)


def test_a_fixed_switching_parameter_is_no_trouble(switched):
    assert pf.fit(pf.Problem(*switched, {"ts": 1.6})).status is pf.Status.CONVERGED


def test_an_early_t0_is_the_first_warning():
    late = TIMES + 2000
    run = pf.Experiment(late, {"x": 2 * np.exp(-0.7 * TIMES)}, t0=0.0)
    fit = pf.fit(pf.Problem(DECAY, run, {"k": (0.1, 2.0)}), pf.LiftedGaussNewton(max_iterations=1))
    assert fit.message.startswith("The initial state of `experiment 1` is sought at t0 = 0")


def test_data_that_are_all_zero_are_fitted():
    fit = pf.fit(pf.Problem(pf.Model("x' = -a*x"), pf.Experiment([0, 1, 2, 3], {"x": np.zeros(4)})))
    assert (fit.success, fit.loss) == (True, 0.0)


# a fit by name


def test_repr_is_one_short_line():
    fit = pf.fit(pf.Problem(DECAY, decay()))
    assert repr(fit).startswith("Fit(success, loss=")
    assert repr(fit).endswith("k=0.7)")
    assert len(repr(fit.solution)) < 500


def test_parameters_of_an_experiment_simulate_it():
    model = pf.Model("x' = -k*x + c")
    runs = [
        pf.Experiment(TIMES, pf.simulate(model, {"k": k, "c": 0.3}, {"x": 2.0}, TIMES).observables, name)
        for name, k in (("slow", 0.4), ("fast", 1.1))
    ]
    fit = pf.fit(pf.Problem(model, runs, {"k": pf.Parameter(0, 5, local=True)}))
    assert fit.parameters_of("fast") == pytest.approx({"k": 1.1, "c": 0.3}, rel=1e-6)
    again = pf.simulate(model, fit.parameters_of("fast"), fit.initial_states["fast"], TIMES)
    assert again.observables["x"] == pytest.approx(runs[1].values[:, 0], rel=1e-6)


def test_parameters_of_an_unknown_experiment_is_an_error():
    with pytest.raises(pf.InputError, match="There is no experiment `pond`"):
        pf.fit(pf.Problem(DECAY, decay())).parameters_of("pond")


def test_unknowns_at_a_bound_have_no_error_and_a_one_sided_interval():
    fit = pf.fit(pf.Problem(DECAY, decay(), {"k": (0.8, 2.0)}))
    assert list(fit.standard_errors) == list(fit.intervals()) == ["k", "x(0)"]
    assert np.isnan(fit.standard_errors["k"])
    low, high = fit.intervals()["k"]
    assert low == 0.8
    assert low < high < 2.0
    assert fit.standard_errors["x(0)"] > 0


@pytest.mark.parametrize("name, unit", [("k", "1/h"), ("x(0)", "mg")])
def test_units_are_printed(name, unit):
    parameters, initial = {"k": pf.Parameter(0, 5, unit="1/h")}, {"x": pf.Parameter(0, 9, unit="mg")}
    text = str(pf.fit(pf.Problem(DECAY, decay(), parameters, initial)))
    assert any(line.startswith(f"{name} ") and line.endswith(unit) for line in text.splitlines())


def test_units_of_local_parameters_are_printed():
    runs = [decay(0.4, name="slow"), decay(1.1, name="fast")]
    fit = pf.fit(pf.Problem(DECAY, runs, {"k": pf.Parameter(0, 5, local=True, unit="1/h")}))
    assert str(fit).count("1/h") == 2


def test_there_is_no_unit_column_without_units():
    assert "unit" not in str(pf.fit(pf.Problem(DECAY, decay()))).splitlines()[3]


def test_one_of_a_thing_is_singular():
    text = str(pf.fit(pf.Problem(DECAY, decay(), initial={"x": 2.0})))
    assert "1 experiment, 13 measurements, 1 unknown;" in text


def test_a_failed_fit_does_not_count_its_starts():
    fit = pf.fit(noisy_decay(), pf.LiftedGaussNewton(max_iterations=1), starts=3)
    assert not fit.success
    assert "agree on this optimum" not in str(fit)


# residuals against the noise model


def test_residuals_that_contradict_the_noise_are_said():
    data = pf.Experiment(np.arange(8.0), {"x": [1, -1, 1, -1, 1, -1, 1, -1]})
    problem = pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0, 2)}, noise=pf.Noise(additive=0.01))
    fit = pf.fit(problem)
    assert len(fit.searches) > 1
    assert "search.above_noise" in [one.code for one in fit.warnings]


def test_residuals_of_the_right_size_are_not_mentioned():
    problem = noisy_decay()
    sd = np.sqrt(pf.fit(problem).residual_variance)
    fit = pf.fit(replace(problem, noise=pf.Noise(additive=float(sd))))
    assert len(fit.searches) == 2
    assert "search.above_noise" not in [one.code for one in fit.warnings]


def test_standard_errors_and_chosen_correlations_are_those_of_the_covariance():
    fit = pf.fit(pf.examples.rosenzweig_macarthur.generate(ponds=3))
    errors = np.array([fit.standard_errors[name] for name in fit.covariance_labels])
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), errors, rtol=1e-12)
    names = ("b", "prey(0)[pond 3]", "a", "pred(0)[pond 1]")
    rows = [fit.covariance_labels.index(name) for name in names]
    np.testing.assert_allclose(fit.correlation_of(names), fit.correlation[np.ix_(rows, rows)], rtol=1e-9)


def test_a_correlation_of_something_else_is_refused():
    fit = pf.fit(pf.examples.van_der_pol.generate(seed=1))
    with pytest.raises(pf.InputError, match="`nothing` is not an unknown with a covariance"):
        fit.correlation_of(["nothing"])


def test_curves_that_follow_nothing_call_for_more_starts():
    """A fast oscillation from a slow start: the only start fails to follow it, and that is told or mended."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 20, 40))
    model = pf.Model("x' = v\nv' = -w^2*x - d*v", observables=["x"])
    exact = pf.simulate(model, {"w": 5.0, "d": 0.05}, {"x": 1.0, "v": 0.0}, times, t0=0.0)
    data = {"x": exact.observables["x"] + 0.05 * rng.standard_normal(40)}
    fit = pf.fit(pf.Problem(model, pf.Experiment(times, data, t0=0.0), {"w": (0.1, 10), "d": (0, 5)}))
    followed = abs(fit.parameters["w"] - 5) < 0.1
    assert followed or (len(fit.searches) > 1 and fit.warnings[-1].code == "search.follows_little")


def test_a_table_that_begins_late_is_told():
    model = pf.Model("x' = u - k*x", inputs=["u"])
    times = np.linspace(0, 5, 12)
    one = pf.Experiment(times, {"x": 1 - np.exp(-times)}, inputs={"u": ([3, 4], [1, 2])}, initial={"x": 0.0})
    fit = pf.fit(pf.Problem(model, one, {"k": (0.1, 10)}))
    assert [one.values["first"] for one in fit.warnings if one.code == "search.late_table"] == [3]


def test_exact_data_at_unix_times_are_no_false_alarm():
    """The times themselves are rounded to 2e-7."""
    t = np.linspace(0, 5, 30)
    one = pf.Experiment(1.7e9 + t, {"x": 2 * np.exp(-0.7 * t)}, t0=1.7e9)
    fit = pf.fit(pf.Problem(pf.Model("x' = -k*x"), one, {"k": (0.1, 5)}))
    assert fit.success
    assert fit.parameters["k"] == pytest.approx(0.7, rel=1e-6)


def test_what_all_experiments_share_is_named_first_among_the_undetermined():
    times, rng = np.linspace(0, 3, 8), np.random.default_rng(0)
    model = pf.Model("x' = -a*b*x*s; s' = 0", observables={"x": "x"})
    runs = [
        pf.Experiment(times, {"x": np.exp(-times) + 0.01 * rng.standard_normal(8)}, f"e{k}")
        for k in range(10)
    ]
    fit = pf.fit(
        pf.Problem(model, runs, {"a": (0.1, 10), "b": (0.1, 10)}, initial={"x": 1.0, "s": (0.1, 10)})
    )
    assert "These data do not determine `a`, `b`, `s(0)[e0]`" in fit.message
    assert "and 4 more" in fit.message
