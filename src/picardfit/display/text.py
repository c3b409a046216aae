"""Models, problems and fits as plain text, and the cells of the tables that reports and commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from picardfit.errors import counted as count
from picardfit.evidence.optima import unknowns_at
from picardfit.formulas.grammar import parse, to_text
from picardfit.problem.derived import derived_values
from picardfit.problem.named_values import initial_by_label, units_of

if TYPE_CHECKING:
    from picardfit.evidence.derived import DerivedEstimate
    from picardfit.evidence.optima import Optimum
    from picardfit.fit import Fit
    from picardfit.model.model import Model
    from picardfit.model.parameters import Parameter
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

MOST_COLUMNS = 12  # parameters in the table of optima
PARAMETER_HEADER = ("parameter", "from", "to", "", "", "unit")
EXPERIMENT_HEADER = ("experiment", "times", "from", "to", "measured", "inputs", "known at the start")
ESTIMATES_HEADER = (
    "",
    "estimate",
    "standard error",
    "95 % from",
    "to",
    "also fits",
    "unit",
    "remark",
    "true value",
)
BY_PROFILE = "  by profile"  # in place of a name: another interval of the quantity above
ESTIMATES_NUMERIC = (1, 2, 3, 4, 5, 8)  # columns under it that hold numbers
ANOTHER_VALUE = "another value fits as well"
NO_ERRORS = (
    "Standard errors and intervals are not given, because the fit did not converge: the values are only where the "
    "search stopped."
)


# ---- numbers and columns -----------------------------------------------------------------------------------


def number(value: float, digits: int = 5) -> str:
    """A number with a few significant digits; `-` for NaN."""
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def cell(value: float | None, digits: int = 5) -> str:
    """A number in a table; empty for None."""
    return "" if value is None else number(value, digits)


def columns(rows: Sequence[Sequence[str]], left: Collection[int] = ()) -> list[str]:
    """Rows as lines of text with aligned columns, flush left in the columns `left` and flush right elsewhere."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if k in left else text.rjust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# ---- models and problems -----------------------------------------------------------------------------------


def model_text(model: Model) -> str:
    """What print(model) shows: equations, observables, and which names are what."""
    lines = {f"{name}'": formula for name, formula in model.equations.items()}
    if model.text:
        lines = {f"{n}'" if prime else n: to_text(parse(formula)) for n, formula, prime in model.written}
    shown = ["equations", *_definitions(lines)]
    shown += ["events", *(f"  {one.text}" for one in model.events)] if model.events else []
    groups = {"states": model.states, "parameters": model.parameters, "inputs": model.signals}
    groups |= {"covariates": model.covariates, "infused": model.infused}
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
    """What print(problem) shows: the model and the first `most` experiments."""
    experiments = problem.experiments
    lines = [
        model_text(problem.model),
        f"{count(len(experiments), 'experiment')}, {count(problem.measurements, 'measurement')}:",
        *(f"  {one}" for one in experiments[:most]),
    ]
    if len(experiments) > most:
        lines.append(f"  and {len(experiments) - most} more")
    if problem.derived:
        lines += ["derived", *_definitions({name: one.formula for name, one in problem.derived.items()})]
    return "\n".join([*lines, *map(str, problem.remarks), f"{problem.layout.count()} unknowns"])


def size_words(problem: Problem) -> str:
    """`3 unknowns from 20 measurements in 2 experiments`."""
    return (
        f"{count(problem.layout.count(), 'unknown')} from {count(problem.measurements, 'measurement')} in "
        f"{count(len(problem.experiments), 'experiment')}"
    )


def parameter_row(name: str, one: Parameter, unit: str) -> tuple[str, ...]:
    """The cells under PARAMETER_HEADER: the bounds of a parameter and how it is searched."""
    unit = one.unit or unit
    if one.fixed is not None:
        return name, "", "", f"fixed at {number(one.fixed)}", "", unit
    lower = 0.0 if one.log else -math.inf
    low, high = (
        number(end) if math.isfinite(end) else "no bound" for end in (max(lower, one.lower), one.upper)
    )
    scale = "log scale" if one.log else "logit scale" if one.logit else ""
    local = "one for each experiment" if one.local else "varies between individuals" if one.random else ""
    return name, low, high, scale, local, unit


def experiment_row(one: Experiment, shared: Mapping[str, object]) -> tuple[str, ...]:
    """The cells under EXPERIMENT_HEADER; `shared`: what is known of the initial states of all experiments."""
    counts = one.sampled.sum(axis=0)
    measured = ", ".join(f"{name} ({n})" for name, n in zip(one.observables, counts, strict=True))
    given = [f"{name} = {signal.describe()}" for name, signal in one.inputs.items()]
    given += [f"{name} = {number(value)}" for name, value in one.covariates.items()]
    given += [dose.describe(one.time_texts(dose.times[[0, -1]])) for dose in one.doses]
    given += [f"reset at {time}" for time in one.time_texts(np.array(one.resets, float))]
    inputs = "; ".join(given)
    initial = {**({} if one.rest else shared), **one.initial}
    known = ", ".join(
        f"{name} = {value if isinstance(value, str) else number(value)}"
        for name, value in initial.items()
        if isinstance(value, int | float | str)
    )
    times = str(len(set(one.times.tolist())))
    begin, end = one.time_texts(np.array([one.t0, one.times[-1]]), 5)
    return one.name, times, begin, end, measured, inputs, known


def has_dates(problem: Problem) -> bool:
    """Whether all experiments have dates."""
    return all(one.calendar is not None for one in problem.experiments)


def time_words(problem: Problem) -> str:
    """How time counts: `h`, or `d since 2021-03-04` where the data have dates; empty where nobody says."""
    calendars = {one.calendar: None for one in problem.experiments if one.calendar is not None}
    if not calendars:
        return problem.model.unit("t")
    unit, *_ = (one.unit for one in calendars)
    origins = [one.text(0.0) for one in calendars]
    return f"{unit} since {origins[0] if len(origins) == 1 else 'a date of each experiment'}"


# ---- estimates ---------------------------------------------------------------------------------------------


class Estimate(NamedTuple):
    """What tables show of a parameter or an estimated initial state; None where there is nothing to show."""

    name: str
    value: float
    error: float | None
    low: float | None
    high: float | None
    rival: float | None  # its value in another optimum that fits as well, if that differs
    unit: str
    remark: str
    profiled: tuple[float, float] | None = None  # its interval by profile, of a derived quantity


def estimates(fit: Fit, level: float = 0.95) -> list[Estimate]:
    """Every parameter and estimated initial state of a fit that has a solution, with intervals of this level."""
    errors, intervals, bounds = fit.standard_errors, fit.intervals(level), _bounds(fit.problem)
    at_bound, lost = fit.certificate.at_bound, set(fit.certificate.undetermined or ())
    if fit.status.converged and math.isfinite(fit.residual_variance):
        lost |= set(fit.identifiability().not_determined)
    units, values, others = units_of(fit.problem), dict(fit.parameters), _other_values(fit)
    for name, experiment, state in _estimated_initial(fit.problem):
        values[name] = fit.initial_states[experiment][state]

    found = []
    for name, value in values.items():
        error, (low, high), remark = errors.get(name), intervals.get(name, (None, None)), ""
        if name not in errors:
            remark = "fixed" if name in fit.problem.parameters else ""
        elif name in at_bound:
            error, remark = None, "at its bound" + (", not determined by these data" if name in lost else "")
        elif error == math.inf or name in lost:
            remark = "not determined by these data"
        elif (low, high) == bounds[name]:
            remark = "its interval spans its bounds"
        elif name in others:
            remark = ANOTHER_VALUE
        if not fit.status.converged:
            error = low = high = None
        found.append(Estimate(name, value, error, low, high, others.get(name), units.get(name, ""), remark))
    profiled = {name: one.interval(level) for name, one in fit.derived_profiles.items() if level <= one.level}
    elsewhere = _derived_elsewhere(fit)
    return [
        *found,
        *(_derived(one, level, profiled.get(n), elsewhere.get(n)) for n, one in fit.derived.items()),
    ]


def _derived(
    one: DerivedEstimate,
    level: float,
    profiled: tuple[float, float] | None = None,
    rival: float | None = None,
) -> Estimate:
    """What tables show of a derived quantity; `profiled`: its interval by profile, `rival`: another value that fits."""
    remark = f"= {one.formula}"
    if one.fixed or math.isnan(one.standard_error):
        error = low = high = None
    else:
        error, (low, high) = one.standard_error, one.interval(level)
    if one.at_bound:
        remark += (
            f", with {', '.join(one.at_bound)} at {'its bound' if len(one.at_bound) == 1 else 'their bounds'}"
        )
    if not math.isfinite(one.value):
        error = None
        remark += ", which is no finite number at the estimates"
    elif error == math.inf:
        remark += ", not determined by these data"
    known = None if profiled is None or any(map(math.isnan, profiled)) else profiled
    if rival is not None:
        remark += f", {ANOTHER_VALUE}"
    return Estimate(one.name, one.value, error, low, high, rival, one.unit, remark, known)


def derived_text(one: DerivedEstimate) -> str:
    """`half_life = 6.93 ± 0.21 h, 95 % from 6.5 to 7.4 (log(2)*v/cl)`."""
    shown = _derived(one, 0.95)
    told = f"{one.name} = {number(one.value)}"
    if shown.error is not None and shown.low is not None and shown.high is not None:
        told += f" ± {number(shown.error, 2)}{f' {one.unit}' if one.unit else ''}"
        return f"{told}, 95 % from {number(shown.low)} to {number(shown.high)} ({shown.remark[2:]})"
    return f"{told}{f' {one.unit}' if one.unit else ''} ({shown.remark[2:]})"


def derived_table(found: Mapping[str, DerivedEstimate]) -> str:
    """A row for every derived quantity, with its interval and formula."""
    rows = [_cells(_derived(one, 0.95)) for one in found.values()]
    shown = [("", "estimate", "std. error", "95 % from", "to", "", "unit", "formula"), *rows]
    used = [k for k in range(len(shown[0])) if k == 0 or any(row[k] for row in rows)]
    left = [used.index(k) for k in (0, 6, 7) if k in used]
    return "\n".join(columns([[row[k] for k in used] for row in shown], left))


def _other_values(fit: Fit) -> dict[str, float]:
    """Unknowns that differ in the first other optimum that fits as well."""
    if not (fit.success and fit.rivals):
        return {}
    here = fit.parameters | initial_by_label(fit.problem, fit.solution.unknowns if fit.solution else None)
    other = fit.rivals[0].parameters | fit.rivals[0].initial
    return {name: value for name, value in other.items() if name in here and differs(value, here[name])}


def _derived_elsewhere(fit: Fit) -> dict[str, float]:
    """Derived quantities that differ in the first other optimum that fits as well."""
    if not (fit.success and fit.rivals and fit.derived):
        return {}
    values = derived_values(fit.problem, unknowns_at(fit.problem, fit.rivals[0]))
    return {name: value for name, value in values.items() if differs(value, fit.derived[name].value)}


def differs(value: float, estimate: float) -> bool:
    """Whether a value of another optimum is another one in print."""
    return not math.isclose(value, estimate, rel_tol=1e-3)


def _estimated_initial(problem: Problem) -> Iterator[tuple[str, str, str]]:
    """(label, experiment, state) of every estimated initial state."""
    layout = problem.layout
    for e, column in np.argwhere(layout.exists[:, : len(layout.initial_states)]):
        yield layout.label(e, column), problem.names[e], layout.states[layout.initial_states[column]]


def _bounds(problem: Problem) -> dict[str, tuple[float, float]]:
    """Bounds of every unknown in natural units."""
    layout = problem.layout
    low, high = layout.natural(layout.lower), layout.natural(layout.upper)
    return {layout.label(e, c): (low[e, c], high[e, c]) for e, c in np.argwhere(layout.exists)}


def true_values(problem: Problem) -> dict[str, float]:
    """The values that made simulated data, by label; empty for real data."""
    truth: Mapping[str, Any] = problem.truth or {}
    known, initial = dict(truth.get("parameters", {})), truth.get("initial", {})
    for name, experiment, state in _estimated_initial(problem):
        if state in initial.get(experiment, {}):
            known[name] = initial[experiment][state]
    return known


def probability(value: float, least: float = 1e-3) -> str:
    """A probability with two digits, or that it is nearly 0 or 1, where more digits mean nothing."""
    if value < least:
        return f"< {least:g}"
    return f"> {1 - least:g}" if value > 1 - least else number(value, 2)


def estimate_rows(fit: Fit, level: float = 0.95) -> list[tuple[str, ...]]:
    """The cells under ESTIMATES_HEADER for every parameter and estimated initial state."""
    truth = true_values(fit.problem)
    found = []
    for one in estimates(fit, level):
        found += [(*_cells(one), cell(truth.get(one.name))), *((*row, "") for row in profile_row(one))]
    return found


def profile_row(one: Estimate, written: Callable[[float], str] = number) -> list[tuple[str, ...]]:
    """The cells of the row below that of a derived quantity, with its interval by profile; no row without one.

    `written`: how its numbers are written.
    """
    if one.profiled is None:
        return []
    return [(BY_PROFILE, "", "", *map(written, one.profiled), "", "", "")]


def _cells(one: Estimate) -> tuple[str, ...]:
    numbers = (number(one.value), cell(one.error, 2), cell(one.low), cell(one.high), cell(one.rival))
    return (one.name, *numbers, one.unit, one.remark)


def other_values(fit: Fit, other: Mapping[str, float]) -> list[str]:
    """`a = 1.018` for the parameters of another optimum that differ from the estimates."""
    return [
        f"{name} = {number(value, 4)}"
        for name, value in other.items()
        if differs(value, fit.parameters[name])
    ]


# ---- fits --------------------------------------------------------------------------------------------------


def shows_searches(fit: Fit) -> bool:
    """Whether reports show every search: where several were asked for, or where they did not all agree."""
    return len(fit.searches) > 1 and (fit.asked > 1 or fit.hits < len(fit.searches))


def agreement(fit: Fit) -> str:
    """`2 of 3 searches agree on this optimum`, and how many of the starting points may lead to optima not found."""
    verb = "found" if fit.hits == 1 else "agree on"
    agreed = f"{fit.hits} of {len(fit.searches)} searches {verb} this optimum"
    share = fit.unseen_share
    if share == 1:  # too few searches agree for an estimate
        return f"{agreed}; no optimum was found twice, so that more starting points may lead to others"
    return (
        f"{agreed}; about {100 * share:.0f} % of the starting points may lead to others not found yet"
        if share
        else agreed
    )


def _told(fit: Fit, other: Optimum) -> str:
    """The parameters of an optimum that has no column of its own in the table."""
    return "" if other is fit.rivals[0] else f": {', '.join(other_values(fit, other.parameters))}"


def effort(fit: Fit) -> str:
    """`7 iterations in 0.02 s`; after several searches also how many iterations all of them took."""
    total = sum(one.iterations for one in fit.searches)
    own = count(fit.iterations, "iteration")
    if len(fit.searches) < 2 or total == fit.iterations:
        return effort_words(fit.iterations, fit.seconds)
    return f"{own} of {total} in {len(fit.searches)} searches, {fit.seconds:.2f} s"


def effort_words(iterations: int, seconds: float) -> str:
    """`7 iterations in 0.02 s`."""
    return f"{count(iterations, 'iteration')} in {seconds:.2f} s"


def fit_text(fit: Fit, most: int = 40) -> str:
    """What print(fit) shows, with the first `most` estimates."""
    problem = fit.problem
    lines = [
        f"picardfit: {_success(fit)}. {fit.message}",
        f"{count(len(problem.experiments), 'experiment')}, {count(problem.measurements, 'measurement')}, "
        f"{count(problem.layout.count(), 'unknown')}; {effort(fit)}",
    ]
    if fit.solution is None:
        return "\n".join(lines)
    rows = [row for one in estimates(fit) for row in (_cells(one), *profile_row(one))]
    shown = [("", "estimate", "std. error", "95 % from", "to", "also fits", "unit", ""), *rows[:most]]
    used = [k for k in range(len(shown[0])) if k not in (5, 6) or any(row[k] for row in rows)]
    shown = [tuple(row[k] for k in used) for row in shown]
    lines += ["", *columns(shown, left=[used.index(k) for k in (0, 6, 7) if k in used]), *error_lines(fit)]
    if len(rows) > most:
        lines.append(f"... and {len(rows) - most} more (fit.parameters, fit.initial_states)")
    lines += ["", *statistics_lines(fit)]
    if len(fit.searches) > 1 and fit.success:
        lines.append(agreement(fit))
        lines += [
            f"{one.count} found another one that fits as well (objective {number(one.loss, 6)}, here "
            f"{number(fit.optima[0].loss, 6)}){_told(fit, one)}"
            for one in fit.rivals[:3]
        ]
    return "\n".join([*lines, "", str(fit.certificate)])


def fit_line(fit: Fit, most: int = 8) -> str:
    """The one-line form of a fit, with the first `most` of its parameters."""
    values = list(fit.parameters.items())
    shown = [f"{name}={value:.4g}" for name, value in values[:most]]
    more = ["..."] if len(values) > most else []
    return f"Fit({', '.join([_success(fit), f'loss={fit.loss:.4g}', *shown, *more])})"


def _success(fit: Fit) -> str:
    return "success" if fit.success else "unsuccessful"


def error_lines(fit: Fit) -> list[str]:
    """Why there are no standard errors, when there are none."""
    if not fit.status.converged:
        return [NO_ERRORS]
    if math.isfinite(fit.residual_variance):
        return []
    return [
        f"Standard errors are not defined with {_numbers(fit)}: no data are left to estimate the noise from; "
        f"measure more, or give the noise levels."
    ]


def _numbers(fit: Fit) -> str:
    problem = fit.problem
    return f"{count(problem.measurements, 'measurement')} and {count(problem.layout.count(), 'unknown')}"


def statistics_lines(fit: Fit) -> list[str]:
    """Loss, likelihood, information criteria and what the residuals say."""
    lines = [f"loss L_ls = {number(fit.loss, 6)}"]
    if not fit.status.converged:
        return lines
    if fit.nllh is None:
        why = f"with {_numbers(fit)}" if math.isnan(fit.residual_variance) else "as all residuals are zero"
        lines.append(f"negative log-likelihood, AIC, AICc and BIC are not defined {why}")
        return [*lines, verdict_line(fit)]
    how = ""
    if fit.problem.noise is None:
        how = " (normal noise of one variance, estimated)"
    elif fit.problem.priors is not None:
        how = f" ({number(fit.objective, 8)} with priors)"
    lines.append(f"negative log-likelihood = {number(fit.nllh, 8)}{how}")
    criteria = {
        "AIC": fit.aic,
        "AICc": fit.aicc,
        "BIC": fit.bic,
        "reduced chi-square": fit.reduced_chi_square,
    }
    lines.append(
        ", ".join(f"{name} {number(value, 6)}" for name, value in criteria.items() if value is not None)
    )
    if fit.aicc is None:
        lines.append(f"AICc is not defined with {_numbers(fit)}")
    return [*lines, verdict_line(fit)]


def verdict_line(fit: Fit) -> str:
    """What the residuals say, in one line."""
    return str(fit.diagnostics).split("\n", 1)[0]


# ---- starts ------------------------------------------------------------------------------------------------


def optima_text(fit: Fit, most: int = 20) -> str:
    """The optima that the starts reached, the best first, and how many starts reached none."""
    names = list(fit.parameters)[:MOST_COLUMNS]
    rows = [("optimum", "loss", "starts", *names, "")]
    for place, one in enumerate(fit.optima[:most], 1):
        values = [number(one.parameters[name]) for name in names]
        remark = f"{', '.join(one.varying)} not determined" if one.flat else ""
        rows.append((str(place), number(one.loss, 6), str(one.count), *values, remark))
    lines = columns(rows, left=(3 + len(names),))
    if len(fit.optima) > most:
        lines.append(f"... and {len(fit.optima) - most} more (fit.optima)")
    if lost := sum(one.cluster is None for one in fit.searches):
        lines.append(f"{count(lost, 'start')} reached no optimum")
    return "\n".join(lines)


def waterfall_text(fit: Fit, most: int = 40) -> str:
    """The starts by ascending loss, those that converged before the others."""
    rows = [("", "loss", "optimum", "start", "iterations", "seconds", "status")]
    ranked = sorted(
        fit.searches, key=lambda one: (not one.status.success, math.isnan(one.loss), one.loss, one.start)
    )
    for place, one in enumerate(ranked[:most], 1):
        optimum = "-" if one.cluster is None else str(one.cluster + 1)
        status = one.status.name.lower().replace("_", " ")
        shown = (str(one.start), str(one.iterations), f"{one.seconds:.2f}", status)
        rows.append((str(place), number(one.loss, 6), optimum, *shown))
    lines = columns(rows, left=(6,))
    if len(ranked) > most:
        lines.append(f"... and {len(ranked) - most} more (fit.searches)")
    return "\n".join(lines)
