"""The scripts that run the paper's experiments again: what is printed, the bounds, the ledger, the tables."""

import csv
import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import paper.command as paper_command
import picardfit as pf
from compare.usage import UsageError
from paper import bounds, other_tools, printed, run, tasks, van_der_pol, verdicts
from paper.document import PLACE, TEMPLATE, document, joined
from paper.ledger import read, run_tasks
from paper.output import Spread, Table, short, spread
from paper.plan import Plan
from paper.side_by_side import descend
from paper.tasks import ALGORITHM_4, BOUND, DEFAULT, LIKELIHOOD, TOOL, Results, Task, solve_one

MODULES = list(run.EXPERIMENTS.values())
VAN_DER_POL = {"seed": 1, "eps": 0.05, "eps_is": "std"}
OFF = 1.1  # every estimate of an invented record is ten percent too large


@cache
def truth_of(problem, settings):
    """The true values of a problem; simulating the data of every task would take long."""
    return Task(problem, DEFAULT, {"seed": 0, **json.loads(settings)}).generate().truth


def invented(task):
    """A record as `solve` gives it, with known errors."""
    shape = {
        k: v for k, v in task.data.items() if k not in ("seed", "eps", "eps_is", "bounds", "samples", "u4")
    }
    truth = truth_of(task.problem, json.dumps(shape))
    if task.method == BOUND:
        return {kind: dict.fromkeys(truth["parameters"], 0.05) for kind in ("likelihood", "least squares")}
    values = {n: OFF * v for n, v in truth["parameters"].items()} | dict(task.fixed)
    found = {
        "parameters": values,
        "initial": truth["initial"],
        "loss": 1.0 + sum((v - 3) ** 2 for v in task.fixed.values()),
        "loss_at_truth": 2.0,
        "seconds": 0.1,
        "status": "CONVERGED",
        "iterations": 10,
    }
    extra = {
        ALGORITHM_4: {"marks": {}, "jump": 0.1, "slope": 0.01},
        LIKELIHOOD: {"nllh": -3.0, "nllh_at_truth": -2.0},
    }
    return found | extra.get(task.method, {})


@cache
def presented(module):
    """The tables and figures of an experiment from invented records."""
    plan = Plan(quick=True)
    return module.present(Results({task.key: invented(task) for task in module.tasks(plan)}), plan)


class TestPrinted:
    @pytest.mark.parametrize("ponds", [1, 2, 3, 4])
    def test_last_column_of_table_1_is_the_mean_of_the_others(self, ponds):
        row = dict(printed.TABLE_1[ponds])
        mean = row.pop("mean")[0]
        assert mean == pytest.approx(np.mean([are for are, _ in row.values()]), abs=0.006)

    def test_parameters_of_the_tables_are_those_of_the_models(self):
        assert {*printed.TABLE_1[1]} - {"mean"} == {*pf.examples.rosenzweig_macarthur.TRUTH}
        assert all({*row} == {*pf.examples.tumor.TRUTH} for row in printed.TABLE_2.values())

    def test_the_print_colours_23_cells_red(self):
        cells = [are for row in printed.TABLE_2.values() for are, _ in row.values()]
        assert sum(are > printed.IDENTIFIED for are in cells) == 23


class TestBounds:
    @pytest.mark.parametrize(
        "problem",
        [
            pf.examples.van_der_pol.generate(seed=3),
            pf.examples.rosenzweig_macarthur.generate(seed=3, ponds=2),
            pf.examples.tumor.generate(seed=3, inputs=(1, 3)),
        ],
        ids=["van_der_pol", "ponds", "tumor"],
    )
    def test_sensitivities_are_finite_differences_of_the_simulation(self, problem):
        labels, _, jacobian = bounds.sensitivities(problem, 0.1)
        parameters, initial = problem.truth["parameters"], problem.truth["initial"]
        for name in problem.parameters:
            step = 1e-4 * max(abs(parameters[name]), 0.1)
            ends = [
                _outputs(problem, {**parameters, name: parameters[name] + s}, initial) for s in (step, -step)
            ]
            slope = (ends[0] - ends[1]) / (2 * step)
            assert jacobian[:, :, labels.index(name)] == pytest.approx(slope, rel=1e-4, abs=1e-5)

    def test_information_of_one_number_is_that_of_a_normal_with_mean_and_variance(self):
        g, slope, sd = 1.7, 0.6, 0.2
        variance, change = sd**2 * (1 + g**2), 2 * sd**2 * g * slope
        found = bounds.information(np.array([[g]]), np.array([[[slope]]]), sd)
        assert found[0, 0] == pytest.approx(slope**2 / variance + 0.5 * (change / variance) ** 2)

    def test_information_is_the_variance_of_the_score(self):
        rng, sd, step = np.random.default_rng(0), 0.3, 1e-4
        g, by = np.array([1.0, -0.5]), rng.standard_normal((2, 2))
        data = (1 + sd * rng.standard_normal((20_000, 1))) * g + sd * rng.standard_normal((20_000, 2))
        scores = [
            (_log_density(data, g + step * by[:, k], sd) - _log_density(data, g - step * by[:, k], sd))
            / (2 * step)
            for k in range(2)
        ]
        assert np.cov(scores) == pytest.approx(bounds.information(g[None], by[None], sd), rel=0.05, abs=0.3)

    def test_least_squares_is_never_better_than_the_bound(self):
        problem = pf.examples.rosenzweig_macarthur.generate(seed=1, ponds=3)
        found = bounds.relative_errors(problem, 0.05, 0.1)
        assert all(found["least squares"][n] >= found["likelihood"][n] for n in problem.model.parameters)

    def test_bound_is_proportional_to_the_noise(self):
        problem = pf.examples.lorenz.generate(seed=1)
        one, two = (bounds.relative_errors(problem, sd, 0.05)["least squares"]["rho"] for sd in (0.1, 0.2))
        assert two == pytest.approx(2 * one)

    def test_what_the_data_do_not_feel_has_an_infinite_bound(self):
        jacobian = np.array([[[1.0, 0.0]], [[2.0, 0.0]]])
        covariance = bounds.least_squares_covariance(np.ones((2, 1)), jacobian, 0.1)
        assert np.isinf(covariance[1, 1])
        assert np.isfinite(covariance[0, 0])


def _outputs(problem, parameters, initial):
    rows = []
    for one in problem.experiments:
        own = {s: parameters.get(f"{s}0", v) for s, v in initial[one.name].items()}
        values = {n: parameters[n] for n in problem.model.parameters}
        found = pf.simulate(problem.model, values, own, one.times, one.inputs)
        rows.append(np.stack([found.observables[n] for n in problem.model.observables], axis=-1))
    return np.concatenate(rows)


def _log_density(data, g, sd):
    from scipy.stats import multivariate_normal

    return multivariate_normal(g, sd**2 * (np.eye(2) + np.outer(g, g))).logpdf(data)


class TestTasks:
    @pytest.mark.parametrize("quick", [True, False])
    @pytest.mark.parametrize("module", MODULES)
    def test_a_key_names_one_task_and_survives_json(self, module, quick):
        every = module.tasks(Plan(quick=quick))
        named = {task.key: task for task in every}
        assert all(named[task.key] == task for task in every)
        assert all(json.loads(key) for key in named)

    def test_algorithm_4_has_the_settings_of_the_paper(self):
        method = tasks.algorithm_4(Task("tumor", ALGORITHM_4, {}), 10)
        assert (method.continuity, method.order, method.segment_length, method.sigma) == (2.0, 2, 0.1, 0.5)

    def test_algorithm_4_is_that_of_pf_fit(self):
        task = Task("van_der_pol", ALGORITHM_4, VAN_DER_POL, {"steps": 350, "continuity": 1.0})
        record, fit = solve_one(task), pf.fit(task.generate(), tasks.algorithm_4(task, 350))
        assert record["parameters"] == pytest.approx(fit.parameters)
        assert record["iterations"] == fit.iterations == 350
        assert record["loss"] == pytest.approx(fit.certificate.reintegrated_loss)
        assert record["marks"]["300"]["iterations"] == 300

    def test_default_method_ends_below_the_truth(self):
        record = solve_one(Task("van_der_pol", DEFAULT, VAN_DER_POL))
        assert record["status"] == "CONVERGED"
        assert record["loss"] < record["loss_at_truth"]

    def test_fixed_parameters_stay(self):
        data = {"seed": 0, "eps": 0.05, "eps_is": "std", "ponds": 2, "bounds": "implied"}
        record = solve_one(Task("rosenzweig_macarthur", DEFAULT, data, {}, {"a": 3.65}))
        assert record["parameters"]["a"] == 3.65

    def test_near_starts_lie_within_half_of_the_truth_and_depend_on_the_seed(self):
        one, two = (
            Task("lorenz", ALGORITHM_4, {"seed": s, "eps": 0.1}, {"start": "near", "steps": 1})
            for s in (0, 1)
        )
        first, second = (tasks.start_of(t, t.generate())[0] for t in (one, two))
        truth = pf.examples.lorenz.TRUTH
        assert all(0.5 <= first[n] / truth[n] <= 1.5 for n in truth)
        assert first != second


class TestSideBySide:
    @pytest.mark.parametrize(
        ("problem", "data", "settings"),
        [
            ("van_der_pol", {"samples": 51}, {"order": 1, "continuity": 5.0}),
            ("fitzhugh_nagumo", {}, {}),
            ("rosenzweig_macarthur", {"ponds": 2, "bounds": "implied"}, {}),
            ("tumor", {"inputs": [1, 3], "bounds": "implied"}, {}),
            ("lorenz", {}, {}),
        ],
    )
    def test_data_sets_side_by_side_go_where_each_goes_alone(self, problem, data, settings):
        every = [
            Task(
                problem,
                ALGORITHM_4,
                {"seed": s, "eps": e, "eps_is": "std", **data},
                {"steps": 25, **settings},
            )
            for s, e in ((0, 0.05), (1, 0.1), (2, 0.2))
        ]
        found = tasks.solve(every)
        for task, record in zip(every, found, strict=True):
            fit = pf.fit(task.generate(), tasks.algorithm_4(task, 25))
            assert record["parameters"] == pytest.approx(fit.parameters, rel=1e-9)
            assert record["iterations"] == fit.iterations

    def test_a_data_set_that_is_done_leaves_the_others(self):
        easy = Task("van_der_pol", ALGORITHM_4, VAN_DER_POL, {"steps": 40, "order": 2})
        states = [_begun(easy), _begun(replace(easy, data={**VAN_DER_POL, "seed": 2}))]
        loose = replace(states[0].setting, scheme=replace(states[0].setting.scheme, tolerance=0.3))
        ends = descend([replace(states[0], setting=loose), states[1]], 40, lambda *_: None, ())
        assert {end.status for end in ends} <= {None, pf.Status.CONVERGED}
        assert min(end.iterations for end in ends) < 40

    def test_pieces_hold_data_sets_of_one_shape(self):
        every = run.EXPERIMENTS["predator-prey"].tasks(Plan(quick=True))
        pieces = tasks.together(every)
        assert sorted(t.key for piece in pieces for t in piece) == sorted(t.key for t in every)
        for piece in pieces:
            assert len({(t.data["ponds"], t.settings.get("steps")) for t in piece}) == 1
            assert len(piece) == 1 or piece[0].method == ALGORITHM_4

    def test_likelihood_ends_at_or_below_the_truth(self):
        record = solve_one(Task("van_der_pol", LIKELIHOOD, VAN_DER_POL))
        assert record["nllh"] < record["nllh_at_truth"]


def _begun(task):
    problem = task.generate()
    given = tasks.unknowns_from(problem, None, None, missing="nan")
    return tasks.algorithm_4(task, 40).init(problem, tasks.make_start(problem, given, None))


class TestVerdicts:
    def test_at_or_below_is_judged_as_printed(self):
        printed_cell = Spread(0.13, 0.11)
        assert verdicts.at_or_below(Spread(0.1349), printed_cell)
        assert not verdicts.at_or_below(Spread(0.1351), printed_cell)
        assert verdicts.within_error(Spread(0.15, 0.1, 26), printed_cell)
        assert not verdicts.within_error(Spread(0.16, 0.1, 26), printed_cell)

    def test_within_one_printed_deviation_on_both_sides(self):
        cell = Spread(0.2, 0.05)
        assert [verdicts.within_deviation(Spread(m), cell) for m in (0.14, 0.15, 0.25, 0.26)] == [
            False,
            True,
            True,
            False,
        ]

    def test_a_loss_above_the_truth_is_named(self):
        good, bad = (Task("lorenz", DEFAULT, {"seed": s, "eps": 0.1, "eps_is": "std"}) for s in (0, 1))
        results = Results(
            {good.key: {"loss": 1.0, "loss_at_truth": 1.0}, bad.key: {"loss": 2.0, "loss_at_truth": 1.0}}
        )
        _, holds, of, where = verdicts.below_truth(results, "loss", [good, bad])
        assert (holds, of) == (1, 2)
        assert where.startswith("seed 1")

    def test_many_exceptions_are_counted(self):
        _, holds, of, where = verdicts.row("x", [(f"cell {k}", False) for k in range(9)])
        assert (holds, of) == (0, 9)
        assert where.endswith("and 3 more")

    def test_a_better_tool_is_found(self):
        plan, ours = Plan(quick=True), []
        records = {}
        for seed in range(3):
            task = Task("lorenz", DEFAULT, {"seed": seed, "eps": 0.05, "eps_is": "std"})
            ours.append(task)
            truth = pf.examples.lorenz.TRUTH
            records[task.key] = {"parameters": {n: (1.2 + 0.01 * seed) * v for n, v in truth.items()}}
            for tool, factor in (("casadi", 1.1), ("genetic", 1.5)):
                own = other_tools.tasks_of(plan, tool, "std", 0.05)[seed]
                records[own.key] = {"parameters": {n: factor * v for n, v in truth.items()}}
        _, holds, of, where = other_tools.verdict(Results(records), plan, "default", {0.05: ours}, "std")
        assert (holds, of) == (3, 6)
        assert "casadi" in where
        assert "genetic" not in where

    @pytest.mark.parametrize("module", MODULES)
    def test_every_experiment_has_verdicts(self, module, tmp_path):
        table = next(part for part in presented(module) if part.name == "verdicts")
        (tmp_path / "x").mkdir()
        table.write(tmp_path / "x")
        found = verdicts.read(tmp_path)
        assert len(found) == len(table.rows) >= 2
        assert all(holds <= of for _, _, holds, of, _ in found)


class TestLedger:
    def test_what_is_done_is_not_done_again(self, tmp_path):
        every = [Task("lorenz", DEFAULT, {"seed": s}) for s in range(4)]
        calls = []

        def count(piece):
            calls.extend(task.data["seed"] for task in piece)
            return [{"value": task.data["seed"]} for task in piece]

        run_tasks(count, every[:2], tmp_path / "ledger.jsonl", 1, "test")
        found = run_tasks(count, every, tmp_path / "ledger.jsonl", 1, "test")
        assert calls == [0, 1, 2, 3]
        assert [found[t]["value"] for t in every] == [0, 1, 2, 3]

    def test_a_line_cut_off_by_a_kill_is_run_again(self, tmp_path):
        task, path = Task("lorenz", DEFAULT, {"seed": 0}), tmp_path / "ledger.jsonl"
        run_tasks(lambda _: [{"value": 1}], [task], path, 1, "test")
        path.write_text(path.read_text()[:-10])
        found = run_tasks(lambda _: [{"value": 2}], [task], path, 1, "test")
        assert found[task]["value"] == 2
        assert [record["value"] for _, record in read(path)] == [2]

    def test_a_task_that_fails_is_named_and_the_others_are_kept(self, tmp_path):
        every = [Task("lorenz", DEFAULT, {"seed": s}) for s in range(3)]

        def fragile(piece):
            return [{"value": 1 / task.data["seed"]} for task in piece]

        with pytest.raises(UsageError, match=r"seed.*0.*ZeroDivisionError"):
            run_tasks(fragile, every, tmp_path / "ledger.jsonl", 1, "test")
        assert len(list(read(tmp_path / "ledger.jsonl"))) == 2

    def test_an_interrupt_keeps_what_is_done(self, tmp_path):
        every = [Task("lorenz", DEFAULT, {"seed": s}) for s in range(3)]

        def stopped(piece):
            if piece[0].data["seed"] == 1:
                raise KeyboardInterrupt
            return [{"value": 1}]

        with pytest.raises(KeyboardInterrupt):
            run_tasks(stopped, every, tmp_path / "ledger.jsonl", 1, "test")
        assert len(list(read(tmp_path / "ledger.jsonl"))) == 1

    def test_processes_give_the_same_records(self, tmp_path):
        every = [Task("van_der_pol", BOUND, {**VAN_DER_POL, "seed": s}) for s in range(3)]
        one = run_tasks(tasks.solve, every, tmp_path / "one.jsonl", 1, "test")
        two = run_tasks(tasks.solve, every, tmp_path / "two.jsonl", 2, "test")
        assert all(one[t] == two[t] for t in every)


class TestOutput:
    def test_a_table_is_written_as_markdown_and_csv(self, tmp_path):
        Table("t", "Title", ("x", "y"), (("a", Spread(0.25, 0.125)), ("b", Spread(1.0)))).write(tmp_path)
        assert "| a | 0.25 ± 0.12 |" in (tmp_path / "t.md").read_text()
        rows = list(csv.reader((tmp_path / "t.csv").open()))
        assert rows == [["x", "y", "y sd"], ["a", "0.25", "0.125"], ["b", "1.0", "nan"]]

    def test_lost_repetitions_are_counted(self):
        found = spread([0.1, np.inf, 0.3])
        assert (found.mean, found.count, found.mark) == (pytest.approx(0.2), 2, "(1 lost)")

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.126, "0.13"), (0.0421, "0.042"), (12.34, "12.34"), (1645.4, "2e+03"), (np.inf, "∞")],
    )
    def test_short_numbers(self, value, text):
        assert short(value) == text


class TestPresentation:
    @pytest.mark.parametrize("module", MODULES)
    def test_tables_show_the_errors_of_the_records(self, module):
        parts = presented(module)
        cells = [
            c for p in parts if isinstance(p, Table) for row in p.rows for c in row if isinstance(c, Spread)
        ]
        errors = [c for c in cells if c.mean == pytest.approx(OFF - 1) and c.sd < 1e-9]
        assert len(errors) >= 4

    def test_other_tools_become_rows_of_the_lorenz_table(self, monkeypatch):
        monkeypatch.setattr(other_tools, "installed", lambda: ["casadi", "genetic"])
        plan, module = Plan(quick=True), run.EXPERIMENTS["lorenz"]
        results = Results({task.key: invented(task) for task in module.tasks(plan)})
        parts = {part.name: part for part in module.present(results, plan)}
        labels = [row[1] for row in parts["lorenz_std"].rows]
        assert labels.count("casadi (3)") == labels.count("genetic (3)") == len(other_tools.QUICK_EPS)
        lines = {row[0]: row for row in parts["lorenz_tools_std"].rows}
        assert lines["casadi"][2] == "0.10 ± 0.00 (3)"
        assert lines["casadi"][-2] == "6 of 6"

    def test_a_tool_that_is_not_there_is_left_out(self, monkeypatch):
        monkeypatch.setattr(other_tools, "installed", list)
        plan, module = Plan(quick=True), run.EXPERIMENTS["lorenz"]
        every = module.tasks(plan)
        assert TOOL not in {task.method for task in every}
        parts = module.present(Results({task.key: invented(task) for task in every}), plan)
        assert all(part.name for part in parts)

    def test_loss_of_van_der_pol_is_twice_that_of_the_package(self):
        table = next(p for p in presented(van_der_pol) if p.name == "van_der_pol_loss_101_std")
        assert {cell.mean for row in table.rows for cell in row[1:-1]} == {2.0}


class TestDocument:
    def run(self, folder):
        (folder / "lorenz").mkdir()
        (folder / "run.json").write_text(
            json.dumps({"version": "1", "quick": True, "seed": 4, "steps": 3000})
        )
        Table("t", "Title", ("x",), (("a",),)).write(folder / "lorenz")
        (folder / "lorenz" / "p.png").write_bytes(b"picture")
        return folder

    def test_tables_and_figures_stand_where_the_template_wants_them(self, tmp_path):
        run_folder, docs = self.run(tmp_path), tmp_path / "docs"
        text = document(run_folder, docs, "<<run>>\n<<lorenz/t>>\n<<figure lorenz/p | A caption>>\nEnd")
        assert "quick run" in text
        assert "seed 4" in text
        assert "| a |" in text
        assert text.endswith("![A caption](paper/p.png)\nEnd")
        assert (docs / "paper" / "p.png").read_bytes() == b"picture"

    def test_tables_of_all_experiments_are_joined(self, tmp_path):
        for name in ("lorenz", "tumor"):
            (tmp_path / name).mkdir()
            Table("costs", "C", ("method", "seconds a fit"), ((f"default of {name}", 0.12345),)).write(
                tmp_path / name
            )
        text = joined(tmp_path, "costs", "Title")
        assert "| lorenz | default of lorenz | 0.12 |" in text
        assert "| tumor | default of tumor | 0.12 |" in text
        with pytest.raises(UsageError, match="verdicts"):
            joined(tmp_path, "verdicts", "Title")

    def test_what_was_not_run_is_named(self, tmp_path):
        with pytest.raises(UsageError, match=r"missing\.md"):
            document(self.run(tmp_path), tmp_path, "<<lorenz/missing>>")

    @pytest.mark.parametrize("module", MODULES)
    def test_the_template_asks_only_for_what_the_experiments_give(self, module):
        given = {part.name for part in presented(module)}
        folder = next(name for name, one in run.EXPERIMENTS.items() if one is module)
        asked = {m["name"] for m in PLACE.finditer(TEMPLATE.read_text()) if m["folder"] == folder}
        assert asked <= given
        assert asked


class TestCommand:
    def app(self):
        made = typer.Typer()
        made.command()(paper_command.paper)
        return made

    def test_writes_tables_figures_and_a_page(self, tmp_path, monkeypatch):
        monkeypatch.setattr(run, "solve", lambda piece: [invented(task) for task in piece])
        options = ["fitzhugh-nagumo", "--quick", "--workers", "1", "--out", str(tmp_path)]
        result = CliRunner().invoke(self.app(), options)
        assert result.exit_code == 0
        folder = tmp_path / "fitzhugh-nagumo"
        assert str(folder / "index.md") in result.output.replace("\n", "")
        assert re.match(r"fitzhugh-nagumo: \d+ fits and bounds\nfitzhugh-nagumo: tables", result.stdout)
        for name in ("fitzhugh_nagumo_one.md", "fitzhugh_nagumo_one.csv", "fitzhugh_nagumo_std.png"):
            assert (folder / name).stat().st_size > 100

    @pytest.mark.parametrize(
        ("arguments", "culprit"),
        [((["pendulum"], 0, 1), "pendulum"), ((["tumor"], -1, 1), "seed"), ((["tumor"], 0, 0), "workers")],
    )
    def test_bad_arguments(self, tmp_path, arguments, culprit):
        names, seed, workers = arguments
        with pytest.raises(UsageError, match=culprit):
            paper_command.run(names, True, seed, tmp_path, workers)

    def test_names_of_the_command_are_those_of_the_scripts(self):
        assert [n.value for n in paper_command.Name][:-1] == list(run.EXPERIMENTS)
