"""Section 7.2, Figure 2: a neuron at irregular times, only x1 measured; one data set as printed, and many."""

from __future__ import annotations

import numpy as np

import picardfit as pf
from paper.output import BLUE, GREY, INK, ORANGE, Picture, Table, figure, middle, spread
from paper.plan import READ, READINGS, Plan
from paper.printed import FITZHUGH_NAGUMO
from paper.tasks import ALGORITHM_4, BOUND, DEFAULT, LIKELIHOOD, Results, Task
from paper.verdicts import below_truth, verdicts
from picardfit.examples.fitzhugh_nagumo import INITIAL, TRUTH, model

TITLE = "FitzHugh–Nagumo neuron (section 7.2, Figure 2)"
NAMES = tuple(TRUTH)
SHOWN = {ALGORITHM_4: "Algorithm 4", DEFAULT: "default", LIKELIHOOD: "default, likelihood"}
FEW = 10  # data sets of Algorithm 4 with eps as the variance
# data sets of a full and of a quick run
COUNTS = {ALGORITHM_4: (20, 2), DEFAULT: (100, 15), LIKELIHOOD: (100, 15), BOUND: (1, 1)}


def tasks(plan: Plan) -> list[Task]:
    return [t for r in READINGS for e in FITZHUGH_NAGUMO for m in COUNTS for t in _tasks(plan, m, r, e)]


def present(results: Results, plan: Plan) -> list[Table | Picture]:
    return [
        _one_table(results, plan),
        *(_many_table(results, plan, reading) for reading in READINGS),
        *(_picture(results, plan, reading) for reading in READINGS),
        _loss_table(results, plan),
        _verdicts(results, plan),
    ]


def _tasks(plan: Plan, method: str, reading: str, eps: float) -> list[Task]:
    settings = {"steps": plan.steps} if method == ALGORITHM_4 else {}
    data = {"eps": eps, "eps_is": reading}
    full, quick = COUNTS[method]
    if method == ALGORITHM_4 and reading == "variance":
        full = FEW
    return [Task("fitzhugh_nagumo", method, {"seed": s, **data}, settings) for s in plan.seeds(full, quick)]


def _one_table(results: Results, plan: Plan) -> Table:
    """The first data set, as the paper shows one."""
    rows = []
    for eps, printed in FITZHUGH_NAGUMO.items():
        for name in NAMES:
            cells = [
                f"{results[_tasks(plan, method, reading, eps)[0]]['parameters'][name]:.3f}"
                for reading in READINGS
                for method in SHOWN
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
            *(f"{label} ({reading})" for reading in READINGS for label in SHOWN.values()),
        ),
        tuple(rows),
    )


def _many_table(results: Results, plan: Plan, reading: str) -> Table:
    """Errors over many data sets, where the paper shows one."""
    rows = []
    for eps, printed in FITZHUGH_NAGUMO.items():
        for k, name in enumerate(NAMES):
            sources = [_tasks(plan, method, reading, eps) for method in SHOWN]
            errors = [spread(results.errors(own, NAMES, TRUTH)[:, k]) for own in sources]
            bound = _tasks(plan, BOUND, reading, eps)
            limits = [
                middle(results.bounds(bound, NAMES, kind)[:, k]) for kind in ("likelihood", "least squares")
            ]
            off = abs(printed[name] - TRUTH[name]) / TRUTH[name]
            rows.append((f"{eps:g}", name, off, *errors, *limits))
    return Table(
        f"fitzhugh_nagumo_many_{reading}",
        f"FitzHugh–Nagumo, {READ[reading]}: relative errors, of the one estimate that is printed and over seeds",
        (
            "eps",
            "parameter",
            "paper (one data set)",
            *(f"{label} ({len(_tasks(plan, m, reading, 0.05))} data sets)" for m, label in SHOWN.items()),
            "Cramér–Rao",
            "least-squares limit",
        ),
        tuple(rows),
    )


def _loss_table(results: Results, plan: Plan) -> Table:
    """What a simulation from the estimates costs, whether Algorithm 4 came to an end, and how long it took."""
    rows = []
    for reading in READINGS:
        for eps in FITZHUGH_NAGUMO:
            for method, label in SHOWN.items():
                own = _tasks(plan, method, reading, eps)
                loss, truth = results.losses(own)
                records = [results[t] for t in own]
                steps = float(np.mean([r["iterations"] for r in records]))
                seconds = float(np.mean([r["seconds"] for r in records]))
                median = float(np.median(loss / truth))
                converged = f"{len(own) - results.unconverged(own)} of {len(own)}"
                rows.append((reading, f"{eps:g}", label, median, converged, f"{steps:.0f}", seconds))
    return Table(
        "fitzhugh_nagumo_loss",
        "FitzHugh–Nagumo: loss by simulation from the estimates over the loss at the truth (median), how many "
        "converged, mean steps, and seconds a fit",
        ("eps is", "eps", "source", "loss over truth", "converged", "steps", "s"),
        tuple(rows),
    )


def _verdicts(results: Results, plan: Plan) -> Table:
    rows = []
    for method, words in ((DEFAULT, "default: loss"), (LIKELIHOOD, "likelihood: its value")):
        own = [t for r in READINGS for e in FITZHUGH_NAGUMO for t in _tasks(plan, method, r, e)]
        rows.append(below_truth(results, f"{words} not above that at the truth (fits)", own))
    return verdicts("FitzHugh–Nagumo", rows)


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
