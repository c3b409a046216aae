"""Section 7.1, Figure 1: loss and error of Algorithm 4 over the continuity weight, and two equal optima.

The paper's loss here is twice L_ls, by simulation from the estimates.
"""

from __future__ import annotations

import numpy as np

from paper.output import BLUE, GREEN, INK, ORANGE, Picture, Spread, Table, figure, middle, spread
from paper.plan import READ, READINGS, Plan
from paper.printed import FIGURE_1_CONTINUITY, FIGURE_1_EPS, FIGURE_1_REPETITIONS, FIGURE_1_SAMPLES, RHO_ENDS
from paper.tasks import ALGORITHM_4, BOUND, DEFAULT, LIKELIHOOD, MARKS, Results, Task
from paper.verdicts import below_truth, verdicts
from picardfit.examples.van_der_pol import REPARAMETRISED_TRUTH, TRUTH

TITLE = "Van der Pol oscillator (section 7.1, Figure 1)"
NAMES = tuple(TRUTH)
SECOND = 2  # an order at which the iteration attracts
SECOND_CONTINUITY = 5.0
FEW = (1.0, 5.0, 15.0)  # continuity weights of a quick run
FEWER = 3  # initial states of Algorithm 4 with 51 samples
RHO_EPS, RHO_DATA = 0.05, 10


def tasks(plan: Plan) -> list[Task]:
    found = []
    for reading, samples, eps in _cells(plan):
        if reading == "std":
            found += [t for w in _weights(plan) for t in _algorithm(plan, samples, eps, w)]
            found += _algorithm(plan, samples, eps, SECOND_CONTINUITY, SECOND)
        for method in (DEFAULT, LIKELIHOOD, BOUND):
            found += _tasks(plan, method, reading, samples, eps)
    return found + [t for start in RHO_ENDS for method in _rho_methods() for t in _rho(plan, method, start)]


def present(results: Results, plan: Plan) -> list[Table | Picture]:
    parts: list[Table | Picture] = []
    for reading in _readings(plan):
        for samples in FIGURE_1_SAMPLES:
            parts += [_table(results, plan, reading, samples, what) for what in ("error", "loss")]
        parts.append(_picture(results, plan, reading))
    return [*parts, _steps_table(results, plan), _rho_table(results, plan), _verdicts(results, plan)]


def _readings(plan: Plan) -> tuple[str, ...]:
    return plan.some(READINGS, ("std",))


def _levels(plan: Plan) -> tuple[float, ...]:
    return plan.some(FIGURE_1_EPS, (0.01, 0.1, 0.4))


def _weights(plan: Plan) -> tuple[float, ...]:
    return plan.some(FIGURE_1_CONTINUITY, FEW)


def _cells(plan: Plan) -> list[tuple[str, int, float]]:
    return [(r, n, e) for r in _readings(plan) for n in FIGURE_1_SAMPLES for e in _levels(plan)]


def _tasks(plan: Plan, method: str, reading: str, samples: int, eps: float, **settings) -> list[Task]:
    data = {"eps": eps, "eps_is": reading, "samples": samples}
    counts = (FIGURE_1_REPETITIONS, FIGURE_1_REPETITIONS)
    if method == ALGORITHM_4:
        counts = (FIGURE_1_REPETITIONS if samples == FIGURE_1_SAMPLES[0] else FEWER, 2)
    seeds = plan.seeds(*counts)
    return [Task("van_der_pol", method, {"seed": s, **data}, settings) for s in seeds]


def _algorithm(plan: Plan, samples: int, eps: float, weight: float, order: int = 1) -> list[Task]:
    return _tasks(plan, ALGORITHM_4, "std", samples, eps, continuity=weight, order=order, steps=plan.steps)


def _rho_methods() -> tuple[str, ...]:
    return (ALGORITHM_4, DEFAULT)


def _rho(plan: Plan, method: str, start: float) -> list[Task]:
    settings: dict = {"start": {"rho": start}}
    if method == ALGORITHM_4:
        settings |= {"order": SECOND, "steps": plan.steps}
    data = {"eps": RHO_EPS, "eps_is": "std", "reparametrised": True}
    seeds = plan.seeds(RHO_DATA, 2)
    return [Task("van_der_pol", method, {"seed": s, **data}, settings) for s in seeds]


def _columns(plan: Plan, reading: str) -> list[tuple[str, object]]:
    """Title of every column with the tasks it holds, as a function of (reading, samples, eps)."""
    first = [
        (f"Alg. 4, lambda {w:g}", lambda r, n, e, w=w: _algorithm(plan, n, e, w)) for w in _weights(plan)
    ]
    second = (
        f"Alg. 4, lambda {SECOND_CONTINUITY:g}, n = 2",
        lambda r, n, e: _algorithm(plan, n, e, SECOND_CONTINUITY, SECOND),
    )
    ours = [
        (title, lambda r, n, e, m=m: _tasks(plan, m, r, n, e))
        for title, m in (("default", DEFAULT), ("default, likelihood", LIKELIHOOD))
    ]
    return [*first, second, *ours] if reading == "std" else ours


def _error(results: Results, tasks: list[Task]) -> np.ndarray:
    """(tasks,): mean of the two relative errors."""
    return results.errors(tasks, NAMES, TRUTH).mean(axis=1)


def _bound(results: Results, plan: Plan, reading: str, samples: int, eps: float) -> Spread:
    own = _tasks(plan, BOUND, reading, samples, eps)
    return middle(results.bounds(own, NAMES).mean(axis=1))


def _table(results: Results, plan: Plan, reading: str, samples: int, what: str) -> Table:
    rows = []
    for eps in _levels(plan):
        row: list = [f"{eps:g}"]
        for _, chosen in _columns(plan, reading):
            own = chosen(reading, samples, eps)
            row.append(spread(_error(results, own) if what == "error" else 2 * results.losses(own)[0]))
        if what == "error":
            row.append(_bound(results, plan, reading, samples, eps))
        else:
            own = _tasks(plan, DEFAULT, reading, samples, eps)
            row.append(spread(2 * results.losses(own)[1]))
        rows.append(tuple(row))
    last = "Cramér–Rao" if what == "error" else "loss at the truth"
    shown = "mean ARE of theta1, theta2" if what == "error" else "loss L (twice L_ls) by simulation"
    return Table(
        f"van_der_pol_{what}_{samples}_{reading}",
        f"Van der Pol, {samples} samples, {READ[reading]}: {shown}",
        ("eps", *(title for title, _ in _columns(plan, reading)), last),
        tuple(rows),
    )


def _picture(results: Results, plan: Plan, reading: str) -> Picture:
    """As Figure 1: loss above, error below, 101 samples on the left, 51 on the right."""
    made, panels = figure(9, 6.5, 2, 2, sharex=True, sharey="row")
    levels = _levels(plan)
    for column, samples in enumerate(FIGURE_1_SAMPLES):
        above, below = panels[:, column]
        for k, (title, chosen) in enumerate(_columns(plan, reading)):
            style = _style(title, k, len(_weights(plan)))
            cells = [chosen(reading, samples, e) for e in levels]
            above.plot(levels, [2 * _finite_mean(results.losses(c)[0]) for c in cells], label=title, **style)
            below.plot(levels, [_finite_mean(_error(results, c)) for c in cells], **style)
        own = [_tasks(plan, DEFAULT, reading, samples, e) for e in levels]
        dashes = {"color": INK, "linestyle": "--", "linewidth": 1.2}
        above.plot(
            levels, [2 * np.mean(results.losses(t)[1]) for t in own], label="truth; Cramér–Rao", **dashes
        )
        below.plot(levels, [_bound(results, plan, reading, samples, e).mean for e in levels], **dashes)
        above.set_title(f"{samples} samples", loc="left", fontsize=10)
        below.set_xlabel(f"eps ({READ[reading].removeprefix('eps is the ')})")
        for panel in (above, below):
            panel.set_xscale("log")
            panel.set_yscale("log")
    panels[0, 0].set_ylabel("loss (twice L_ls)")
    panels[1, 0].set_ylabel("mean ARE")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    caption = f"Loss and parameter error over the noise, {READ[reading]}"
    return Picture(f"van_der_pol_{reading}", caption, made)


def _style(title: str, k: int, weights: int) -> dict:
    """Algorithm 4 from light to dark grey over lambda, with a marker each; the others in colour."""
    if title.startswith("default"):
        plain = {"color": BLUE, "marker": "*", "linewidth": 1.8, "ms": 7}
        return plain if title == "default" else {"color": GREEN, "marker": ".", "linewidth": 1.2, "ms": 6}
    if k < weights:
        return {
            "color": str(0.75 - 0.6 * k / max(weights - 1, 1)),
            "marker": "osD^v"[k],
            "linewidth": 1,
            "ms": 4,
        }
    return {"color": ORANGE, "marker": "P", "linewidth": 1.4, "ms": 6}


def _steps_table(results: Results, plan: Plan) -> Table:
    """Where Algorithm 4 stands after some steps: with n = 1 and a large weight it comes near and leaves again."""
    reading, samples, eps = "std", FIGURE_1_SAMPLES[0], 0.1
    marks = [m for m in MARKS if m < plan.steps]
    rows = []
    for title, chosen in _columns(plan, reading)[:-2]:
        own = chosen(reading, samples, eps)
        cells = [spread([_mark_error(results[t], m) for t in own]) for m in marks]
        rows.append((title, *cells, spread(_error(results, own))))
    return Table(
        "van_der_pol_steps",
        f"Van der Pol, {samples} samples, eps {eps:g} (standard deviation): mean ARE of Algorithm 4 by steps",
        ("", *(f"{m}" for m in marks), f"{plan.steps}, or converged"),
        tuple(rows),
    )


def _mark_error(record: dict, mark: int) -> float:
    """The mean relative error at a mark, or at the end of a run that was over before."""
    values = record["marks"].get(str(mark), record)["parameters"]
    return float(np.mean([abs(values[n] - TRUTH[n]) / TRUTH[n] for n in NAMES]))


def _rho_table(results: Results, plan: Plan) -> Table:
    """theta1 = (rho - 1)^2: which of the two optima a start leads to."""
    rows = []
    for start, printed in RHO_ENDS.items():
        ends = [
            spread([results[t]["parameters"]["rho"] for t in _rho(plan, method, start)])
            for method in _rho_methods()
        ]
        rows.append((f"{start:g}", f"{printed:g}", *ends))
    return Table(
        "van_der_pol_rho",
        f"Van der Pol with theta1 = (rho - 1)^2 (true rho {REPARAMETRISED_TRUTH['rho']:g}, equal to 0), "
        f"eps {RHO_EPS:g}: where rho ends",
        ("start", "paper", "Algorithm 4, n = 2", "default"),
        tuple(rows),
    )


def _verdicts(results: Results, plan: Plan) -> Table:
    rows = []
    for method, words in ((DEFAULT, "default: loss"), (LIKELIHOOD, "likelihood: its value")):
        own = [t for r, n, e in _cells(plan) for t in _tasks(plan, method, r, n, e)]
        rows.append(below_truth(results, f"{words} not above that at the truth (fits)", own))
    return verdicts("Van der Pol", rows)


def _finite_mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")
