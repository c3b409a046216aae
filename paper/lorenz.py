"""Section 7.5, Figures 3 and 4: the chaotic Lorenz system over five noise levels.

Other tools on the same data are in other_tools.py.
"""

from __future__ import annotations

import numpy as np

import picardfit as pf
from paper import other_tools
from paper.other_tools import NAMES
from paper.output import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    Picture,
    Spread,
    Table,
    figure,
    middle,
    spread,
)
from paper.plan import READ, READINGS, Plan
from paper.printed import FIGURE_3_EPS, FIGURE_3_REPETITIONS, FIGURE_4_EPS
from paper.tasks import ALGORITHM_4, BOUND, DEFAULT, LIKELIHOOD, TOOL, Results, Task
from paper.verdicts import below_truth, verdicts
from picardfit.examples.lorenz import EXAMPLE_INITIAL, HORIZON, STATES, TRUTH, model

TITLE = "Lorenz system (section 7.5, Figures 3 and 4)"
DRAWN = {"sindy": "SINDy", "scatter": "scatter search", "fmincon": "SLSQP"}  # in Figure 4


def data_seeds(plan: Plan) -> list[int]:
    """Seeds of the data sets of a noise level."""
    return plan.seeds(FIGURE_3_REPETITIONS, FIGURE_3_REPETITIONS)


def tasks(plan: Plan) -> list[Task]:
    found = []
    for reading in READINGS:
        for eps in FIGURE_3_EPS:
            if _algorithm_runs(plan, reading, eps):
                found += _tasks(plan, ALGORITHM_4, reading, eps)
            for method in (DEFAULT, LIKELIHOOD, BOUND):
                found += _tasks(plan, method, reading, eps)
        found += [_example(plan, method, reading) for method in (ALGORITHM_4, DEFAULT)]
        found += [_example(plan, TOOL, reading, tool) for tool in DRAWN if tool in other_tools.installed()]
    return found + other_tools.all_tasks(plan)


def present(results: Results, plan: Plan) -> list[Table | Picture]:
    return [
        *(_table(results, plan, reading) for reading in READINGS),
        *(other_tools.table(results, plan, reading, _ours(plan, reading)) for reading in READINGS),
        _loss_table(results, plan),
        *(_errors(results, plan, reading) for reading in READINGS),
        *(_trajectories(results, plan, reading) for reading in READINGS),
        _verdicts(results, plan),
    ]


def _ours(plan: Plan, reading: str) -> dict[str, dict[float, list[Task]]]:
    """The default method in both ways, by noise level."""
    return {
        label: {eps: _tasks(plan, method, reading, eps) for eps in FIGURE_3_EPS}
        for label, method in (("default", DEFAULT), ("default, likelihood", LIKELIHOOD))
    }


def _verdicts(results: Results, plan: Plan) -> Table:
    rows = []
    for reading in READINGS:
        for label, own in _ours(plan, reading).items():
            rows.append(other_tools.verdict(results, plan, label, own, reading))
    for method, words in ((DEFAULT, "default: loss"), (LIKELIHOOD, "likelihood: its value")):
        own = [t for r in READINGS for e in FIGURE_3_EPS for t in _tasks(plan, method, r, e)]
        rows.append(below_truth(results, f"{words} not above that at the truth (fits)", own))
    return verdicts("Figure 3", rows)


def _algorithm_runs(plan: Plan, reading: str, eps: float) -> bool:
    return not plan.quick or reading == "std"


def _tasks(plan: Plan, method: str, reading: str, eps: float) -> list[Task]:
    settings = {"steps": plan.steps} if method == ALGORITHM_4 else {}
    data = {"eps": eps, "eps_is": reading}
    seeds = plan.seeds(FIGURE_3_REPETITIONS, 3) if method == ALGORITHM_4 else data_seeds(plan)
    return [Task("lorenz", method, {"seed": s, **data}, settings) for s in seeds]


def _example(plan: Plan, method: str, reading: str, tool: str = "") -> Task:
    """The data set of Figure 4."""
    settings: dict = {"steps": plan.steps} if method == ALGORITHM_4 else {}
    if tool:
        settings = {"tool": tool, "budget": plan.budget}
    data = {"seed": plan.seed, "eps": FIGURE_4_EPS, "eps_is": reading, "initial": list(EXAMPLE_INITIAL)}
    return Task("lorenz", method, data, settings)


def _sources(results: Results, plan: Plan, reading: str, eps: float) -> list[tuple[str, list[Spread]]]:
    """Label and a cell for each parameter, for one noise level."""
    rows = []
    for label, method in (
        ("Algorithm 4", ALGORITHM_4),
        ("default", DEFAULT),
        ("default, likelihood", LIKELIHOOD),
    ):
        if method == ALGORITHM_4 and not _algorithm_runs(plan, reading, eps):
            continue
        own = _tasks(plan, method, reading, eps)
        cells = [spread(column) for column in results.errors(own, NAMES, TRUTH).T]
        rows.append((f"{label} ({len(own)})", cells))
    bound = _tasks(plan, BOUND, reading, eps)
    for label, kind in (("Cramér–Rao", "likelihood"), ("least-squares limit", "least squares")):
        rows.append((label, [middle(column) for column in results.bounds(bound, NAMES, kind).T]))
    return [*rows, *other_tools.cells(results, plan, reading, eps)]


def _table(results: Results, plan: Plan, reading: str) -> Table:
    rows = [
        (f"{eps:g}", label, *cells)
        for eps in FIGURE_3_EPS
        for label, cells in _sources(results, plan, reading, eps)
    ]
    return Table(
        f"lorenz_{reading}",
        f"Lorenz, {READ[reading]}: ARE ± standard deviation (data sets)",
        ("eps", "source", *NAMES),
        tuple(rows),
    )


def _loss_table(results: Results, plan: Plan) -> Table:
    rows = []
    for reading in READINGS:
        for eps in FIGURE_3_EPS:
            own = _tasks(plan, DEFAULT, reading, eps)
            loss, truth = results.losses(own)
            algorithm: list = ["–", "–"]
            if _algorithm_runs(plan, reading, eps):
                found = _tasks(plan, ALGORITHM_4, reading, eps)
                ours, true = results.losses(found)
                algorithm = [spread(ours / true), float(np.mean([results[t]["seconds"] for t in found]))]
            seconds = float(np.mean([results[t]["seconds"] for t in own]))
            rows.append(
                (
                    reading,
                    f"{eps:g}",
                    *algorithm,
                    spread(loss / truth),
                    f"{(loss / truth).max():.4f}",
                    seconds,
                )
            )
    return Table(
        "lorenz_loss",
        "Lorenz: loss by simulation from the estimates over the loss at the truth, and seconds a fit",
        ("eps is", "eps", "Algorithm 4", "s", "default, mean", "default, largest", "s"),
        tuple(rows),
    )


def _errors(results: Results, plan: Plan, reading: str) -> Picture:
    """As Figure 3: a panel for each parameter."""
    made, panels = figure(10, 4.6, 1, 3, sharex=True, sharey=True)
    by_level = [
        {label.split(" (")[0]: cells for label, cells in _sources(results, plan, reading, eps)}
        for eps in FIGURE_3_EPS
    ]
    labels = list(dict.fromkeys(label for one in by_level for label in one))
    for k, (panel, name) in enumerate(zip(panels[0], NAMES, strict=True)):
        for row, label in enumerate(labels):
            values = [one[label][k].mean if label in one else np.nan for one in by_level]
            panel.plot(FIGURE_3_EPS, values, label=label, **_style(label, row))
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(name, loc="left", fontsize=10)
        panel.set_xlabel("eps")
    panels[0, 0].set_ylabel("ARE")
    handles, shown = panels[0, 0].get_legend_handles_labels()
    made.legend(handles, shown, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return Picture(
        f"lorenz_errors_{reading}", f"Errors of the Lorenz parameters over the noise, {READ[reading]}", made
    )


def _style(label: str, row: int) -> dict:
    if label.startswith("default"):
        solid = label == "default"
        return {
            "color": BLUE,
            "marker": "*" if solid else "o",
            "linewidth": 1.8,
            "alpha": 1 if solid else 0.6,
        }
    if label.startswith("Algorithm 4"):
        return {"color": ORANGE, "marker": "o", "linewidth": 1.2, "linestyle": "--"}
    if label in ("Cramér–Rao", "least-squares limit"):
        return {"color": INK, "linewidth": 1, "linestyle": "-" if label == "Cramér–Rao" else ":"}
    colour = (GREEN, PURPLE, GREY, INK)[row % 4]  # 4 colours and 11 markers repeat after 44
    return {"color": colour, "marker": "sD^vP<>Xphd"[row % 11], "linewidth": 1, "linestyle": "-."}


def _trajectories(results: Results, plan: Plan, reading: str) -> Picture:
    """As Figure 4: the three states at the largest noise, simulated from the estimates."""
    made, panels = figure(8, 6, 3, 1, sharex=True)
    times = np.linspace(0.0, HORIZON, 801)
    one = _example(plan, DEFAULT, reading).generate().experiments[0]
    truth = dict(zip(STATES, EXAMPLE_INITIAL, strict=True))
    curves = [("truth", TRUTH, truth, {"color": INK, "linestyle": ":", "linewidth": 1.2})]
    for label, method, style in (
        ("Algorithm 4", ALGORITHM_4, {"color": ORANGE, "linestyle": "--", "linewidth": 1.3}),
        ("default", DEFAULT, {"color": BLUE, "linewidth": 1.4}),
    ):
        record = results[_example(plan, method, reading)]
        curves.append((label, record["parameters"], record["initial"]["run 1"], style))
    for (tool, label), colour in zip(DRAWN.items(), (GREEN, PURPLE, GREY), strict=True):
        task = _example(plan, TOOL, reading, tool)
        if results.has(task) and results[task]["parameters"]:
            record, style = results[task], {"color": colour, "linestyle": "-.", "linewidth": 1.1}
            curves.append((label, record["parameters"], record["initial"]["run 1"], style))
    for state, panel in zip(STATES, panels[:, 0], strict=True):
        panel.plot(one.times, one.observations[state], ".", color=GREY, ms=4, label="data")
        for label, parameters, initial, style in curves:
            found = pf.simulate(model(), {n: parameters[n] for n in TRUTH}, initial, times)
            panel.plot(times, found.states[state], label=label, **style)
        panel.set_ylabel(state)
    panels[-1, 0].set_xlabel("time")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    caption = f"Lorenz at eps {FIGURE_4_EPS:g} from {EXAMPLE_INITIAL}, {READ[reading]}"
    return Picture(f"lorenz_states_{reading}", caption, made)
