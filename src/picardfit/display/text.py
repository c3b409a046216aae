"""Plain text tables of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from picardfit.errors import counted as count
from picardfit.formulas.grammar import parse
from picardfit.formulas.printing import to_text
from picardfit.problem.named_values import units_of

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.model.model import Model
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

MOST_COLUMNS = 12  # parameters in the table of optima
EXPERIMENT_HEADER = ("experiment", "times", "from", "to", "measured", "inputs", "known at the start")
ESTIMATES_HEADER = ("", "estimate", "standard error", "95 % from", "to", "unit", "remark", "true value")

NO_ERRORS = (
    "Standard errors and intervals are not given, because the fit did not converge: the values are only where the "
    "search stopped."
)


def number(value: float, digits: int = 5) -> str:
    """A number with a few significant digits."""
    if value is None or math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.{digits}g}"


def model_text(model: Model) -> str:
    """What print(model) shows: equations, observables, and which names are what."""
    lines = {f"{name}'": formula for name, formula in model.equations.items()}
    if model.text:
        lines = {f"{n}'" if prime else n: to_text(parse(formula)) for n, formula, prime in model.written}
    shown = ["equations", *_definitions(lines)]
    groups = {"states": model.states, "parameters": model.parameters, "inputs": model.inputs}
    if all(name == formula for name, formula in model.observable_formulas.items()):
        groups["observables"] = model.observables
    else:
        shown += ["observables", *_definitions(model.observable_formulas)]
    groups["not used"] = tuple(f"{name} (only in {helper})" for name, helper in model.dropped.items())
    return "\n".join([*shown, *(f"{kind:<12}{', '.join(names)}" for kind, names in groups.items() if names)])


def _definitions(formulas: Mapping[str, str]) -> list[str]:
    width = max(map(len, formulas))
    return [f"  {name:<{width}} = {formula}" for name, formula in formulas.items()]


def problem_text(problem: Problem, most: int = 20) -> str:
    """What print(problem) shows: the model and the first experiments."""
    experiments = problem.experiments
    lines = [
        model_text(problem.model),
        f"{count(len(experiments), 'experiment')}, {problem.measurements} numbers measured:",
        *(f"  {one}" for one in experiments[:most]),
    ]
    if len(experiments) > most:
        lines.append(f"  and {len(experiments) - most} more")
    return "\n".join([*lines, *map(str, problem.remarks), f"{problem.layout.count()} unknowns"])


def size_words(problem: Problem) -> str:
    """`3 unknowns from 20 measurements in 2 experiments`."""
    return (
        f"{count(problem.layout.count(), 'unknown')} from {count(problem.measurements, 'measurement')} in "
        f"{count(len(problem.experiments), 'experiment')}"
    )


def parameter_rows(fit: Fit, level: float = 0.95) -> list[tuple[str, str, str, str, str, str]]:
    """(name, estimate, standard error, low, high, remark) for every parameter and estimated initial state."""
    errors, intervals = fit.standard_errors, fit.intervals(level)
    layout, problem = fit.problem.layout, fit.problem
    bounds, held = _bounds(fit), set(fit.certificate.at_bound)
    told, lost = fit.status.converged, set(fit.certificate.undetermined or ())
    if told and math.isfinite(fit.residual_variance):
        lost |= {name for name, one in fit.identifiability().verdicts.items() if one.kind == "not determined"}

    def row(name: str, value: float) -> tuple[str, str, str, str, str, str]:
        if name in errors and not told:
            return name, number(value), "", "", "", "at its bound" if name in held else ""
        if name in held:
            low, high = intervals.get(name, (math.nan, math.nan))
            remark = "at its bound, not determined by these data" if name in lost else "at its bound"
            return name, number(value), "", number(low), number(high), remark
        if name not in errors:
            return name, number(value), "", "", "", "fixed" if name in problem.parameters else ""
        low, high = intervals[name]
        remark = _remark(errors[name], name in lost, (low, high), bounds[name])
        return name, number(value), number(errors[name], 2), number(low), number(high), remark

    rows = [row(name, value) for name, value in fit.parameters.items()]
    for e, experiment in enumerate(problem.names):
        for column, state in enumerate(layout.initial_states):
            if layout.exists[e, column]:
                value = fit.initial_states[experiment][problem.model.states[state]]
                rows.append(row(layout.label(e, column), value))
    return rows


def estimate_rows(fit: Fit, level: float = 0.95) -> list[tuple[str, ...]]:
    """The cells under ESTIMATES_HEADER for every parameter and estimated initial state."""
    given, truth = units(fit), true_values(fit)
    return [
        (*cells, given.get(cells[0], ""), remark, number(truth[cells[0]]) if cells[0] in truth else "")
        for *cells, remark in parameter_rows(fit, level)
    ]


def units(fit: Fit) -> dict[str, str]:
    """The units that were given, under the names of `parameter_rows`."""
    return units_of(fit.problem)


def true_values(fit: Fit) -> dict[str, float]:
    """The values that made simulated data, under the names of `parameter_rows`; empty for real data."""
    problem = fit.problem
    truth: Mapping[str, Any] = problem.truth or {}
    layout, known = problem.layout, dict(truth.get("parameters", {}))
    for e, experiment in enumerate(problem.names):
        initial = truth.get("initial", {}).get(experiment, {})
        for column, state in enumerate(layout.initial_states):
            if problem.model.states[state] in initial:
                known[layout.label(e, column)] = initial[problem.model.states[state]]
    return known


def _bounds(fit: Fit) -> dict[str, tuple[float, float]]:
    """Bounds of every unknown in natural units."""
    layout = fit.problem.layout
    low, high = layout.natural(layout.lower), layout.natural(layout.upper)
    places = [(e, c) for e in range(len(low)) for c in range(layout.width) if layout.exists[e, c]]
    return {layout.label(e, c): (float(low[e, c]), float(high[e, c])) for e, c in places}


def _remark(error: float, lost: bool, interval: tuple[float, float], bounds: tuple[float, float]) -> str:
    if math.isinf(error) or lost:
        return "not determined by these data"
    return "its interval is all of its bounds" if interval == bounds else ""


def effort(fit: Fit) -> str:
    """`7 iterations in 0.02 s`; with those of searches that came before, if the only start was not the last."""
    total = sum(one.iterations for one in fit.starts)
    own = count(fit.iterations, "iteration")
    if len(fit.starts) < 2 or total == fit.iterations:
        return f"{own} in {fit.seconds:.2f} s"
    return f"{own} of {total} from {len(fit.starts)} starts in {fit.seconds:.2f} s"


def fit_text(fit: Fit, most: int = 40) -> str:
    """What print(fit) shows."""
    state = "success" if fit.success else "no success"
    problem = fit.problem
    lines = [
        f"picardfit: {state}. {fit.message}",
        f"{count(len(problem.experiments), 'experiment')}, {count(problem.measurements, 'measurement')}, "
        f"{count(problem.layout.count(), 'unknown')}; {effort(fit)}",
    ]
    if fit.solution is None:
        return "\n".join(lines)
    header = ("", "estimate", "std. error", "95 % from", "to", "")
    rows = parameter_rows(fit)
    shown: list[tuple[str, ...]] = [header, *rows[:most]]
    if given := units(fit):
        shown = [(*row[:5], given.get(row[0], "") if k else "unit", row[5]) for k, row in enumerate(shown)]
    widths = [max(len(cell) for cell in column) for column in zip(*shown, strict=True)]
    lines += ["", *("  ".join(_aligned(row, widths)).rstrip() for row in shown)]
    lines += error_lines(fit)
    if len(rows) > most:
        lines.append(f"... and {len(rows) - most} more (fit.parameters, fit.initial_states)")
    lines += ["", *statistics_lines(fit)]
    if len(fit.starts) > 1 and fit.success:
        lines.append(f"{fit.hits} of {len(fit.starts)} starts reached this optimum")
        lines += _rivals_told(fit)
    return "\n".join([*lines, "", str(fit.certificate)])


def fit_line(fit: Fit, most: int = 8) -> str:
    """The one-line form of a fit, with the first of its parameters."""
    values = list(fit.parameters.items())
    shown = [f"{name}={value:.4g}" for name, value in values[:most]]
    more = ["..."] if len(values) > most else []
    state = "success" if fit.success else "no success"
    return f"Fit({', '.join([state, f'loss={fit.loss:.4g}', *shown, *more])})"


def error_lines(fit: Fit) -> list[str]:
    """Why there are no standard errors, when there are none."""
    if not fit.status.converged:
        return [NO_ERRORS]
    if math.isfinite(fit.residual_variance):
        return []
    return [
        f"Standard errors are not defined with {_numbers(fit)}: nothing is left over to tell the noise by; measure "
        f"more, or give the noise levels."
    ]


def _numbers(fit: Fit) -> str:
    problem = fit.problem
    return f"{count(problem.measurements, 'measurement')} and {count(problem.layout.count(), 'unknown')}"


def statistics_lines(fit: Fit) -> list[str]:
    """Loss, likelihood, criteria and what the residuals say."""
    if not fit.status.converged:
        return [f"loss L_ls = {number(fit.loss, 6)}"]
    if fit.nllh is None:
        why = f"with {_numbers(fit)}" if math.isnan(fit.residual_variance) else "as all residuals are zero"
        return [
            f"loss L_ls = {number(fit.loss, 6)}",
            f"negative log-likelihood, AIC, AICc and BIC are not defined {why}",
            str(fit.diagnostics),
        ]
    lines = [f"loss L_ls = {number(fit.loss, 6)}"]
    how = ""
    if fit.problem.noise is None:
        how = " (normal noise of one variance, estimated)"
    elif fit.problem.priors is not None:
        how = f" ({number(fit.objective, 8)} with priors)"
    lines.append(f"negative log-likelihood = {number(fit.nllh, 8)}{how}")
    criteria = {"AIC": fit.aic, "AICc": fit.aicc, "BIC": fit.bic}
    if fit.problem.noise is not None:
        criteria["reduced chi-square"] = fit.reduced_chi_square
    told = [f"{name} {number(value, 6)}" for name, value in criteria.items() if value is not None]
    lines.append(", ".join(told))
    if fit.aicc is None:
        lines.append(f"AICc is not defined with {_numbers(fit)}")
    return [*lines, str(fit.diagnostics)]


def optima_text(fit: Fit, most: int = 20) -> str:
    """The optima that the starts reached, the best first, and the starts that reached none."""
    names = list(fit.parameters)[:MOST_COLUMNS]
    rows = [("optimum", "loss", "starts", *names, "")]
    for number_, one in enumerate(fit.optima[:most], 1):
        values = [number(one.parameters[name]) for name in names]
        remark = f"{', '.join(one.varying)} not determined" if one.flat else ""
        rows.append((str(number_), number(one.loss, 6), str(one.count), *values, remark))
    lines = columns(rows)
    if len(fit.optima) > most:
        lines.append(f"... and {len(fit.optima) - most} more (fit.optima)")
    lost = sum(one.cluster is None for one in fit.starts)
    if lost:
        lines.append(f"{count(lost, 'start')} reached no optimum")
    return "\n".join(lines)


def waterfall_text(fit: Fit, most: int = 40) -> str:
    """The starts that converged from the smallest loss on, then the others."""
    rows = [("", "loss", "optimum", "start", "iterations", "seconds", "status")]
    ranked = sorted(
        fit.starts, key=lambda one: (not one.status.success, math.isnan(one.loss), one.loss, one.start)
    )
    for place, one in enumerate(ranked[:most], 1):
        optimum = "-" if one.cluster is None else str(one.cluster + 1)
        status = one.status.name.lower().replace("_", " ")
        shown = (str(one.start), str(one.iterations), f"{one.seconds:.2f}", status)
        rows.append((str(place), number(one.loss, 6), optimum, *shown))
    lines = columns(rows)
    if len(ranked) > most:
        lines.append(f"... and {len(ranked) - most} more (fit.starts)")
    return "\n".join(lines)


def _rivals_told(fit: Fit) -> list[str]:
    said = []
    for one in fit.rivals[:3]:
        values = ", ".join(f"{name} = {number(value)}" for name, value in one.parameters.items())
        said.append(f"another optimum fits as well ({count(one.count, 'start')}): {values}")
    return said


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of text under each other, flush right but for the last column."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join([*(c.rjust(w) for c, w in zip(row[:-1], widths[:-1], strict=True)), row[-1]]).rstrip()
        for row in rows
    ]


def _aligned(row, widths):
    return [
        row[0].ljust(widths[0]),
        *(c.rjust(w) for c, w in zip(row[1:5], widths[1:5], strict=True)),
        *(c.ljust(w) for c, w in zip(row[5:], widths[5:], strict=True)),
    ]


def experiment_row(one: Experiment, shared: Mapping[str, object]) -> tuple[str, ...]:
    """The cells under EXPERIMENT_HEADER; `shared`: what is known of the initial states of all experiments."""
    counts = one.sampled.sum(axis=0)
    measured = ", ".join(f"{name} ({n})" for name, n in zip(one.observables, counts, strict=True))
    inputs = "; ".join(f"{name} = {signal.describe()}" for name, signal in one.inputs.items())
    initial = {**({} if one.rest else shared), **one.initial}
    known = ", ".join(
        f"{name} = {value if isinstance(value, str) else number(value)}"
        for name, value in initial.items()
        if isinstance(value, int | float | str)
    )
    times = str(len(set(one.times.tolist())))
    return one.name, times, number(one.t0), number(float(one.times[-1])), measured, inputs, known


def other_values(fit: Fit, other: Mapping[str, float]) -> list[str]:
    """`a = 1.018` for the parameters of another optimum that differ from the estimates."""
    return [
        f"{name} = {number(value, 4)}"
        for name, value in other.items()
        if not math.isclose(value, fit.parameters[name], rel_tol=1e-3)
    ]
