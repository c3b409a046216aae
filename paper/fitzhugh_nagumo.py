"""Section 7.2, Figure 2: a neuron at irregular times, only x1 measured; one data set as printed, and many."""

from __future__ import annotations

import numpy as np

import picardfit as pf
from paper.output import BLUE, GREY, INK, ORANGE, Picture, Table, figure, middle, spread
from paper.plan import READ, READINGS, Plan
from paper.printed import FITZHUGH_NAGUMO
from paper.tasks import ALGORITHM_4, BOUND, DEFAULT, Results, Task
from picardfit.problems.fitzhugh_nagumo import INITIAL, TRUTH, model

TITLE = "FitzHugh–Nagumo neuron (section 7.2, Figure 2)"
NAMES = tuple(TRUTH)
COUNTS = {ALGORITHM_4: (20, 2), DEFAULT: (100, 40), BOUND: (1, 1)}  # data sets of a full and of a quick run


def tasks(plan: Plan) -> list[Task]:
    return [t for r in READINGS for e in FITZHUGH_NAGUMO for m in COUNTS for t in _tasks(plan, m, r, e)]


def present(results: Results, plan: Plan) -> list[Table | Picture]:
    return [
        _one_table(results, plan),
        *(_many_table(results, plan, reading) for reading in READINGS),
        *(_picture(results, plan, reading) for reading in READINGS),
    ]


def _tasks(plan: Plan, method: str, reading: str, eps: float) -> list[Task]:
    settings = {"steps": plan.steps} if method == ALGORITHM_4 else {}
    data = {"eps": eps, "eps_is": reading}
    return [
        Task("fitzhugh_nagumo", method, {"seed": s, **data}, settings) for s in plan.seeds(*COUNTS[method])
    ]


def _one_table(results: Results, plan: Plan) -> Table:
    """The first data set, as the paper shows one."""
    rows = []
    for eps, printed in FITZHUGH_NAGUMO.items():
        for name in NAMES:
            cells = [
                f"{results[_tasks(plan, method, reading, eps)[0]]['parameters'][name]:.3f}"
                for reading in READINGS
                for method in (ALGORITHM_4, DEFAULT)
            ]
            rows.append((f"{eps:g}", name, f"{TRUTH[name]:g}", f"{printed[name]:g}", *cells))
    return Table(
        "fitzhugh_nagumo_one",
        f"FitzHugh–Nagumo, one data set (seed {plan.seed}): estimates",
        (
            "eps",
            "parameter",
            "truth",
            "paper",
            "Algorithm 4 (std)",
            "default (std)",
            "Algorithm 4 (variance)",
            "default (variance)",
        ),
        tuple(rows),
    )


def _many_table(results: Results, plan: Plan, reading: str) -> Table:
    """Errors over many data sets, where the paper shows one."""
    rows = []
    for eps, printed in FITZHUGH_NAGUMO.items():
        for k, name in enumerate(NAMES):
            sources = [_tasks(plan, method, reading, eps) for method in (ALGORITHM_4, DEFAULT)]
            errors = [spread(results.errors(own, NAMES, TRUTH)[:, k]) for own in sources]
            bound = _tasks(plan, BOUND, reading, eps)
            limits = [
                middle(results.bounds(bound, NAMES, kind)[:, k]) for kind in ("likelihood", "least squares")
            ]
            off = abs(printed[name] - TRUTH[name]) / TRUTH[name]
            rows.append((f"{eps:g}", name, off, *errors, *limits))
    counts = [len(_tasks(plan, m, reading, 0.05)) for m in (ALGORITHM_4, DEFAULT)]
    return Table(
        f"fitzhugh_nagumo_many_{reading}",
        f"FitzHugh–Nagumo, {READ[reading]}: relative errors, of the one estimate that is printed and over seeds",
        (
            "eps",
            "parameter",
            "paper (one data set)",
            f"Algorithm 4 ({counts[0]} data sets)",
            f"default ({counts[1]} data sets)",
            "Cramér–Rao",
            "least-squares limit",
        ),
        tuple(rows),
    )


def _picture(results: Results, plan: Plan, reading: str) -> Picture:
    """As Figure 2: data and the simulation from the estimates."""
    made, panels = figure(10, 3.6, 1, 2, sharey=True)
    times = np.linspace(0.0, 4.8, 1201)
    for panel, eps in zip(panels[0], FITZHUGH_NAGUMO, strict=True):
        first = _tasks(plan, DEFAULT, reading, eps)[0]
        one = first.generate().experiments[0]
        panel.plot(one.times, one.observations["y"], ".", color=GREY, ms=4, label="data")
        curves = (
            ("truth", TRUTH, INITIAL, {"color": INK, "linewidth": 1, "linestyle": ":"}),
            *(
                (label, results[t]["parameters"], results[t]["initial"]["neuron"], style)
                for label, t, style in (
                    (
                        "Algorithm 4",
                        _tasks(plan, ALGORITHM_4, reading, eps)[0],
                        {"color": ORANGE, "linestyle": "--", "linewidth": 1.4},
                    ),
                    ("default", first, {"color": BLUE, "linewidth": 1.4}),
                )
            ),
        )
        for label, parameters, initial, style in curves:
            found = pf.simulate(model(), {n: parameters[n] for n in NAMES}, initial, times)
            panel.plot(times, found.observables["y"], label=label, **style)
        panel.set_title(f"eps = {eps:g}", loc="left", fontsize=10)
        panel.set_xlabel("time")
    panels[0, 0].set_ylabel("x1")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return Picture(
        f"fitzhugh_nagumo_{reading}", f"Data and simulations from the estimates, {READ[reading]}", made
    )
