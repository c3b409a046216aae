"""Section 7.3, Table 1: predators and prey counted five times in one to four ponds, and the flat valley of a and b."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

import picardfit as pf
from paper.output import BLUE, INK, ORANGE, Picture, Spread, Table, figure, middle, short, spread
from paper.plan import READ, Plan
from paper.printed import TABLE_1, TABLE_1_EPS, TABLE_1_REPETITIONS, VALLEY
from paper.tasks import ALGORITHM_4, BOUND, DEFAULT, LIKELIHOOD, MARKS, Results, Task
from paper.verdicts import at_or_below, below_truth, row, verdicts, within_deviation, within_error
from picardfit.examples.rosenzweig_macarthur import TRUTH

TITLE = "Rosenzweig–MacArthur predator and prey (section 7.3, Table 1)"
NAMES = ("a", "b", "c", "r", "k", "K")
PONDS = tuple(TABLE_1)
MANY, SOME = 200, 50  # data sets with the widest bounds, and with the others
LONG = 40_000  # steps of Algorithm 4 where it is given more time
BOXES = {
    "implied": "bounds from a tenth to five times the truth",
    "double": "bounds from half to twice the truth",
    "narrow": "bounds of 50 % around the truth",
}
SHORT = {"implied": "wide bounds", "double": "half to twice", "narrow": "bounds of 50 %"}
FACTORS = {"implied": "implied", "double": (0.5, 2.0), "narrow": None}  # None: those of the problem
VARIANTS = (("std", "implied"), ("std", "double"), ("std", "narrow"), ("variance", "implied"))
STARTS = {
    None: "Algorithm 4",
    "near": "Algorithm 4, start within 50 %",
    "truth": "Algorithm 4, start at the truth",
    "optimum": "Algorithm 4, start at the optimum",
}
GRID = {"a": np.linspace(1.6, 5.2, 10), "b": np.linspace(0.3, 1.5, 9)}
LEVEL_95 = 5.991  # chi-square with two degrees of freedom


def tasks(plan: Plan) -> list[Task]:
    found = []
    for reading, box in VARIANTS:
        for ponds in PONDS:
            if _algorithm_runs(plan, reading, box):
                found += _algorithm(plan, reading, box, ponds, None)
            for method in (DEFAULT, LIKELIHOOD, BOUND):
                found += _tasks(plan, method, reading, box, ponds)
    for ponds in PONDS:
        for start, steps in _ways(plan):
            found += _algorithm(plan, *VARIANTS[0], ponds, start, steps)
    return found + [t for s in _valley_seeds(plan) for t in _valley_tasks(s)] + _grid(plan)


def present(results: Results, plan: Plan) -> list[Table | Picture]:
    tables = [_table(results, plan, reading, box) for reading, box in VARIANTS]
    return [
        *tables,
        _verdict(results, plan),
        _starts_table(results, plan),
        _steps_table(results, plan),
        _loss_table(results, plan),
        _verdicts(results, plan),
        _valley_table(results, plan),
        _valley(results, plan),
    ]


def _tasks(plan: Plan, method: str, reading: str, box: str, ponds: int, **settings) -> list[Task]:
    data: dict = {"eps": TABLE_1_EPS, "eps_is": reading, "ponds": ponds}
    factors = FACTORS["implied" if method == BOUND else box]  # BOUND does not depend on them
    if factors is not None:
        data["bounds"] = factors
    full, quick = (MANY, 20) if (reading, box) == VARIANTS[0] else (SOME, TABLE_1_REPETITIONS)
    if reading == "variance":
        full, quick = TABLE_1_REPETITIONS, TABLE_1_REPETITIONS
    if method == ALGORITHM_4:
        full, quick = TABLE_1_REPETITIONS, 2
    return [
        Task("rosenzweig_macarthur", method, {"seed": s, **data}, settings) for s in plan.seeds(full, quick)
    ]


def _algorithm_runs(plan: Plan, reading: str, box: str) -> bool:
    return not plan.quick or (reading, box) == VARIANTS[0]


def _ways(plan: Plan) -> list[tuple[str | None, int]]:
    """Starts and steps of Algorithm 4 that tell why it ends where it ends."""
    starts = (None, "near") if plan.quick else (None, "near", "truth", "optimum")
    long = [] if plan.quick else [("near", LONG)]
    return [*((start, plan.steps) for start in starts), *long]


def _algorithm(
    plan: Plan, reading: str, box: str, ponds: int, start: str | None, steps: int | None = None
) -> list[Task]:
    settings = {"steps": steps or plan.steps} | ({"start": start} if start else {})
    return _tasks(plan, ALGORITHM_4, reading, box, ponds, **settings)


def _table_ways(plan: Plan, reading: str, box: str) -> list[tuple[str | None, int]]:
    """Starts and steps of Algorithm 4 that a table shows."""
    if not _algorithm_runs(plan, reading, box):
        return []
    if (reading, box) != VARIANTS[0]:
        return [(None, plan.steps)]
    return [way for way in _ways(plan) if way[0] in (None, "near")]


def _label(plan: Plan, start: str | None, steps: int) -> str:
    return STARTS[start] if steps == plan.steps else f"{STARTS[start]}, {steps} steps"


def _with_mean(errors: np.ndarray) -> np.ndarray:
    """(repetitions, 6) -> (repetitions, 7): the last column is the mean."""
    return np.column_stack([errors, errors.mean(axis=1)])


def _sources(results: Results, plan: Plan, reading: str, box: str, ponds: int) -> list[tuple[str, list]]:
    """Label and seven cells of every row for one number of ponds."""
    many = _tasks(plan, DEFAULT, reading, box, ponds)
    ten = many[:TABLE_1_REPETITIONS]
    rows = [("paper", [Spread(*TABLE_1[ponds][n]) for n in (*NAMES, "mean")])]
    for start, steps in _table_ways(plan, reading, box):
        own = _algorithm(plan, reading, box, ponds, start, steps)
        rows.append((f"{_label(plan, start, steps)} ({len(own)})", _cells(results.errors(own, NAMES, TRUTH))))
    likely = _tasks(plan, LIKELIHOOD, reading, box, ponds)
    counts = (ten, many) if len(many) > len(ten) else (many,)
    rows += [(f"default ({len(own)})", _cells(results.errors(own, NAMES, TRUTH))) for own in counts]
    rows.append((f"default, likelihood ({len(likely)})", _cells(results.errors(likely, NAMES, TRUTH))))
    bound = _tasks(plan, BOUND, reading, box, ponds)
    for label, kind in (("Cramér–Rao", "likelihood"), ("least-squares limit", "least squares")):
        values = _with_mean(results.bounds(bound, NAMES, kind))
        rows.append((label, [middle(column) for column in values.T]))
        if kind == "likelihood":
            rows.append((f"{label}, mean", [Spread(float(column.mean())) for column in values.T]))
    return rows


def _cells(errors: np.ndarray) -> list[Spread]:
    return [spread(column) for column in _with_mean(errors).T]


def _table(results: Results, plan: Plan, reading: str, box: str) -> Table:
    rows = [
        (f"{ponds}", label, *cells)
        for ponds in PONDS
        for label, cells in _sources(results, plan, reading, box, ponds)
    ]
    return Table(
        f"table_1_{reading}_{box}",
        f"Table 1, {READ[reading]}, {BOXES[box]}: ARE ± standard deviation (repetitions)",
        ("ponds", "source", *NAMES, "mean"),
        tuple(rows),
    )


def _verdict(results: Results, plan: Plan) -> Table:
    """Cell by cell: whether Algorithm 4 is near the print, and whether the default method is at or below it."""
    rows = []
    for ponds in PONDS:
        every = {box: dict(_sources(results, plan, "std", box, ponds)) for box in BOXES}
        wide = every["implied"]
        algorithm = [label for label in wide if label.startswith("Algorithm") and "steps" not in label]
        for k, name in enumerate((*NAMES, "mean")):
            printed, bound = wide["paper"][k], wide["Cramér–Rao"][k]
            near = [_within(wide[label][k], printed) for label in algorithm]
            allowed = "yes" if bound.mean <= printed.mean else "no"
            ours = [_below(cells[k], printed) for sources in every.values() for cells in _large(sources)]
            rows.append((f"{ponds}", name, printed, *near, bound, allowed, *ours))
    return Table(
        "table_1_verdict",
        "Table 1 cell by cell (standard deviation): Algorithm 4 within one printed standard deviation, "
        "default method at or below the print",
        (
            "ponds",
            "parameter",
            "paper",
            STARTS[None],
            STARTS["near"],
            "Cramér–Rao",
            "bound allows the print",
            *(f"{way}, {words}" for words in SHORT.values() for way in ("default", "likelihood")),
        ),
        tuple(rows),
    )


def _large(sources: Mapping[str, list[Spread]]) -> list[list[Spread]]:
    """Cells of the default method over its many data sets: least squares, likelihood."""
    return [cells for label, cells in sources.items() if label.startswith("default")][-2:]


def _below(ours: Spread, printed: Spread) -> str:
    """Whether a mean is at or below the printed one, with its value."""
    return f"{'yes' if at_or_below(ours, printed) else 'no'} ({short(ours.mean)})"


def _within(ours: Spread, printed: Spread) -> str:
    """Whether a mean is at most one printed standard deviation from the printed one, with its value."""
    return f"{'yes' if within_deviation(ours, printed) else 'no'} ({short(ours.mean)})"


def _verdicts(results: Results, plan: Plan) -> Table:
    """Algorithm 4 against the print, the default method against the print and against the truth."""
    cells = [(ponds, k, name) for ponds in PONDS for k, name in enumerate((*NAMES, "mean"))]
    rows = []
    for start, steps in _ways(plan):
        found = {n: _cells(results.errors(_way(plan, n, start, steps), NAMES, TRUTH)) for n in PONDS}
        near = [
            (_at(n, name, found[n][k]), within_deviation(found[n][k], _print(n, name)))
            for n, k, name in cells
        ]
        what = f"{_label(plan, start, steps)}: within one printed standard deviation (cells)"
        rows.append(row(what, near))
    for box, words in BOXES.items():
        by_ponds = {n: dict(_sources(results, plan, "std", box, n)) for n in PONDS}
        for which, label in enumerate(("default", "likelihood")):
            for bound, judge, means in (
                ("Cramér–Rao", at_or_below, "median bound"),
                ("Cramér–Rao", within_error, "median bound, one standard error granted"),
                ("Cramér–Rao, mean", at_or_below, "mean bound"),
            ):
                judged = [
                    (_at(n, name, ours := _large(by_ponds[n])[which][k]), judge(ours, _print(n, name)))
                    for n, k, name in cells
                    if by_ponds[n][bound][k].mean <= _print(n, name).mean
                ]
                what = f"{label}, {words}: at or below the print where the bound allows it ({means}; cells)"
                rows.append(row(what, judged))
    for method, words in ((DEFAULT, "default: loss"), (LIKELIHOOD, "likelihood: its value")):
        own = [t for r, box in VARIANTS for n in PONDS for t in _tasks(plan, method, r, box, n)]
        rows.append(below_truth(results, f"{words} not above that at the truth (fits)", own))
    return verdicts("Table 1", rows)


def _print(ponds: int, name: str) -> Spread:
    return Spread(*TABLE_1[ponds][name])


def _at(ponds: int, name: str, ours: Spread) -> str:
    where = f"{name}, {ponds} pond{'s' if ponds > 1 else ''}"
    return f"{where}: {short(ours.mean)} against {short(_print(ponds, name).mean)}"


def _way(plan: Plan, ponds: int, start: str | None, steps: int | None = None) -> list[Task]:
    return _algorithm(plan, *VARIANTS[0], ponds, start, steps)


def _starts_table(results: Results, plan: Plan) -> Table:
    """Where Algorithm 4 ends from several starts: if it had converged, the start would not matter."""
    rows = []
    for ponds in PONDS:
        for start, steps in _ways(plan):
            own = _way(plan, ponds, start, steps)
            best = [_fixed_ponds(t) for t in own]
            loss, truth = results.losses(own)
            away = _distance(results, own, best)
            records = [results[t] for t in own]
            rows.append(
                (
                    f"{ponds}",
                    STARTS[start],
                    f"{steps}",
                    f"{sum(r['status'] == 'CONVERGED' for r in records)} of {len(own)}",
                    _cells(results.errors(own, NAMES, TRUTH))[-1],
                    spread(away),
                    spread(loss / truth),
                    spread([r["jump"] for r in records]),
                    spread([r["slope"] for r in records]),
                )
            )
        best = [_fixed_ponds(t) for t in _way(plan, ponds, None)]
        loss, truth = results.losses(best)
        row_of_default = (_cells(results.errors(best, NAMES, TRUTH))[-1], 0.0, spread(loss / truth))
        rows.append((f"{ponds}", "default", "–", f"{len(best)} of {len(best)}", *row_of_default, "–", "–"))
    return Table(
        "table_1_starts",
        "Algorithm 4 of Table 1 from several starts: how many converged, mean ARE, mean relative distance of its "
        "parameters from the least-squares optimum, loss by simulation over the loss at the truth, largest jump "
        "(in units of the state's scale) and gradient norm at the end",
        (
            "ponds",
            "source",
            "steps",
            "converged",
            "mean ARE",
            "from optimum",
            "loss over truth",
            "jump",
            "slope",
        ),
        tuple(rows),
    )


def _fixed_ponds(task: Task) -> Task:
    """The default method on the same data."""
    return replace(task, method=DEFAULT, settings={})


def _distance(results: Results, own: Sequence[Task], best: Sequence[Task]) -> np.ndarray:
    """(tasks,): mean over the parameters of |estimate - optimum| / |truth|."""
    found = [
        [abs(results[a]["parameters"][n] - results[b]["parameters"][n]) / TRUTH[n] for n in NAMES]
        for a, b in zip(own, best, strict=True)
    ]
    return np.mean(found, axis=1)


def _steps_table(results: Results, plan: Plan) -> Table:
    """Algorithm 4 on its way: mean ARE and distance from the optimum by steps."""
    rows = []
    for ponds in PONDS:
        for start, steps in _ways(plan):
            own = _way(plan, ponds, start, steps)
            marks = [m for m in MARKS if m < steps]
            if steps < max(s for one, s in _ways(plan) if one == start):
                continue
            cells = [_mark(results, own, m) for m in marks]
            blank = ["–"] * (len(_all_marks(plan)) - len(marks))
            rows.append((f"{ponds}", STARTS[start], *cells, *blank, _mark(results, own, steps)))
    return Table(
        "table_1_steps",
        "Algorithm 4 of Table 1 by steps: mean ARE (mean relative distance from the least-squares optimum)",
        ("ponds", "source", *(f"{m}" for m in _all_marks(plan)), "end"),
        tuple(rows),
    )


def _all_marks(plan: Plan) -> list[int]:
    most = max(steps for _, steps in _ways(plan))
    return [m for m in MARKS if m < most]


def _mark(results: Results, own: Sequence[Task], mark: int) -> str:
    seen = [results[t]["marks"].get(str(mark), results[t])["parameters"] for t in own]
    best = [results[_fixed_ponds(t)]["parameters"] for t in own]
    error = np.mean([abs(p[n] - TRUTH[n]) / TRUTH[n] for p in seen for n in NAMES])
    away = np.mean([abs(p[n] - b[n]) / TRUTH[n] for p, b in zip(seen, best, strict=True) for n in NAMES])
    return f"{short(error)} ({short(away)})"


def _loss_table(results: Results, plan: Plan) -> Table:
    """Losses against the loss at the truth."""
    rows = []
    for reading, box in VARIANTS:
        for ponds in PONDS:
            own = _tasks(plan, DEFAULT, reading, box, ponds)
            loss, truth = results.losses(own)
            algorithm: list = ["–", "–"]
            if _algorithm_runs(plan, reading, box):
                found = _algorithm(plan, reading, box, ponds, None)
                ours, true = results.losses(found)
                algorithm = [spread(ours / true), float(np.mean([results[t]["seconds"] for t in found]))]
            seconds = float(np.mean([results[t]["seconds"] for t in own]))
            rows.append(
                (
                    reading,
                    box,
                    f"{ponds}",
                    *algorithm,
                    spread(loss / truth),
                    float((loss / truth).max()),
                    f"{results.unconverged(own)} of {len(own)}",
                    seconds,
                )
            )
    return Table(
        "predator_prey_loss",
        "Loss of the estimates over the loss at the truth, and seconds a fit",
        (
            "eps",
            "bounds",
            "ponds",
            "Algorithm 4",
            "s",
            "default, mean",
            "default, largest",
            "not converged",
            "s",
        ),
        tuple(rows),
    )


def _valley_seeds(plan: Plan) -> list[int]:
    return plan.seeds(TABLE_1_REPETITIONS, TABLE_1_REPETITIONS)


def _fixed(seed: int, fixed: dict[str, float]) -> Task:
    data = {"seed": seed, "eps": TABLE_1_EPS, "eps_is": "std", "ponds": 4, "bounds": "implied"}
    return Task("rosenzweig_macarthur", DEFAULT, data, {}, fixed)


def _valley_tasks(seed: int) -> list[Task]:
    """The best loss with a and b free, at the truth, and at the paper's other point."""
    return [_fixed(seed, {}), _fixed(seed, {n: TRUTH[n] for n in VALLEY}), _fixed(seed, dict(VALLEY))]


def _grid(plan: Plan) -> list[Task]:
    """A map of the best loss over a and b for one data set."""
    return [_fixed(plan.seed, {"a": float(a), "b": float(b)}) for b in GRID["b"] for a in GRID["a"]]


def _valley_table(results: Results, plan: Plan) -> Table:
    rows = []
    for seed in _valley_seeds(plan):
        records = [results[t] for t in _valley_tasks(seed)]
        free, true, other = (record["loss"] for record in records)
        best = records[0]["parameters"]
        unit = _noise_unit(_valley_tasks(seed)[0].generate(), free)
        rises = [f"{(loss - free) / unit:.1f}" for loss in (true, other)]
        rows.append((f"{seed}", f"{best['a']:.2f}", f"{best['b']:.2f}", f"{free:.5f}", *rises))
    point = f"a = {VALLEY['a']:g}, b = {VALLEY['b']:g}"
    return Table(
        "valley",
        "Four ponds, eps 0.05 (standard deviation): by how many units of the noise the best loss rises with a and b "
        f"held (95 %: {LEVEL_95:.1f})",
        ("seed", "a", "b", "loss, both free", "rise at the true a, b", f"rise at {point}"),
        tuple(rows),
    )


def _noise_unit(problem: pf.Problem, loss: float) -> float:
    """The loss that the sum of squares gains when it grows by one variance of the noise, estimated from the fit."""
    return loss / (problem.measurements - problem.layout.count())


def _valley(results: Results, plan: Plan) -> Picture:
    """The rise of the sum of squares over a and b, in units of the noise variance; all others are refitted."""
    free = _valley_tasks(plan.seed)[0]
    best = results[free]
    unit = _noise_unit(free.generate(), best["loss"])
    losses = np.array([results[t]["loss"] for t in _grid(plan)]).reshape(len(GRID["b"]), len(GRID["a"]))
    rise = (losses - best["loss"]) / unit
    made, panels = figure(6.2, 4.4)
    panel = panels[0, 0]
    shades = panel.contourf(
        GRID["a"],
        GRID["b"],
        np.minimum(rise, 50),
        levels=[0, 2, LEVEL_95, 10, 20, 50],
        cmap="Greys",
        alpha=0.8,
    )
    panel.contour(GRID["a"], GRID["b"], rise, levels=[LEVEL_95], colors=INK, linewidths=1.5)
    for label, (a, b), marker, colour in (
        ("truth", (TRUTH["a"], TRUTH["b"]), "*", BLUE),
        ("estimate", (best["parameters"]["a"], best["parameters"]["b"]), "o", ORANGE),
        ("the paper's other point", (VALLEY["a"], VALLEY["b"]), "s", "white"),
    ):
        panel.plot(a, b, marker, color=colour, ms=11, mec=INK, label=label, linestyle="none")
    panel.set_xlabel("a")
    panel.set_ylabel("b")
    panel.legend(fontsize=8, loc="upper left")
    made.colorbar(shades, ax=panel, label="rise of the loss in units of the noise")
    return Picture("valley", "The valley of a and b: inside the line every pair fits at 95 %", made)
