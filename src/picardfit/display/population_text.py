"""Population fits as plain text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from picardfit.display.text import NO_ERRORS, cell, columns, effort_words, number
from picardfit.errors import counted as count
from picardfit.problem.named_values import units_of

if TYPE_CHECKING:
    from picardfit.inference.population.answer import PopulationFit
    from picardfit.inference.population.distribution import Population
    from picardfit.inference.population.predictive_checks import PredictiveCheck
    from picardfit.inference.population.profiles import PopulationProfile
    from picardfit.inference.population.simulation import SimulatedPopulation
    from picardfit.inference.population.structures import LikelihoodRatio

TYPICAL_HEADER = ("", "typical value", "standard error", "95 % from", "to", "unit", "remark")
SPREAD_HEADER = ("varies between individuals", "sd", "CV %", "95 % from", "to", "shrinkage %", "remark")


def population_line(fit: PopulationFit, most: int = 8) -> str:
    """The one-line form of a population fit."""
    said = "success" if fit.success else "unsuccessful"
    if fit.optimum is None:
        return f"PopulationFit({said})"
    values = list(fit.parameters.items())
    shown = [f"{name}={value:.4g}" for name, value in values[:most]]
    more = ["..."] if len(values) > most else []
    first = f"{fit.marginal.name} objective={fit.population.objective:.5g}"
    return f"PopulationFit({', '.join([said, first, *shown, *more])})"


def typical_rows(fit: PopulationFit, level: float = 0.95) -> list[tuple[str, ...]]:
    """The cells under TYPICAL_HEADER."""
    errors, ends, units = fit.errors(), fit.intervals(level), units_of(fit.problem)
    rows: list[tuple[str, ...]] = []
    for name, value in fit.parameters.items():
        error, (low, high) = errors.get(name), ends.get(name, (math.nan, math.nan))
        one = fit.problem.parameters[name]
        remark = "fixed" if one.fixed is not None else "varies between individuals" if one.random else ""
        if error is not None and math.isnan(error) and fit.status.converged:
            remark = "at a bound"
        unit = one.unit or units.get(name, "")
        shown = (cell(error, 2), cell(low), cell(high)) if error is not None else ("", "", "")
        rows.append((name, number(value), *shown, unit, remark))
    for name, derived in fit.derived.items():
        low, high = derived.interval(level)
        shown = cell(derived.standard_error, 2), cell(low), cell(high)
        rows.append((name, number(derived.value), *shown, derived.unit, f"= {derived.formula}"))
    return rows


def spread_rows(fit: PopulationFit, level: float = 0.95) -> list[tuple[str, ...]]:
    """The cells under SPREAD_HEADER."""
    ends = fit.intervals(level)
    rows: list[tuple[str, ...]] = []
    for name, one in fit.population.spreads.items():
        low, high = ends[f"sd({name})"]
        remark = {"zero": "the data show none", "fixed": "fixed"}.get(one.state, "")
        one_of = fit.problem.parameters[name]
        scale = "log " if one_of.log else "logit " if one_of.logit else ""
        shrunk = number(100 * one.shrinkage, 3)
        rows.append(
            (
                f"{scale}{name}",
                number(one.sd, 4),
                number(one.cv, 3),
                number(low, 4),
                number(high, 4),
                shrunk,
                remark,
            )
        )
    return rows


def correlation_lines(fit: PopulationFit, level: float = 0.95) -> list[str]:
    """`correlation of cl and v: 0.43 (0.1 to 0.7)` for each that is estimated."""
    table, ends = fit.population.correlation, fit.population.correlation_intervals(level)
    return [
        f"correlation of {a} and {b}: {number(float(table.loc[a, b]), 3)} ({number(low, 3)} to {number(high, 3)})"
        for (a, b), (low, high) in ends.items()
    ]


def likelihood_lines(fit: PopulationFit) -> list[str]:
    """The objective, the likelihood and the criteria."""
    lines = [
        f"objective (-2 log L without constants, {fit.marginal.name}) = {fit.population.objective:.4f}",
        f"negative log-likelihood = {number(fit.nllh, 8)}, AIC {number(fit.aic, 6)}, BIC {number(fit.bic, 6)}",
    ]
    if fit.status.converged and fit.optimum is not None and fit.optimum.hessian is not None:
        errors, penalised = fit.population.errors, fit.optimum.at.study.penalty is not None
        why = "with the priors" if penalised else "as there are too few individuals for the sandwich"
        lines.append(
            "standard errors: sandwich of the individuals' gradients"
            if errors.kind == "sandwich"
            else f"standard errors: Fisher information, {why}"
        )
    if fit.optimum is not None and fit.optimum.at.study.penalty is not None:
        lines.insert(1, f"with the priors: -log posterior density = {number(fit.objective, 8)}")
    return lines


def population_fit_text(fit: PopulationFit) -> str:
    """What print(fit) shows."""
    problem, said = fit.problem, "success" if fit.success else "unsuccessful"
    lines = [
        f"picardfit: {said}. {fit.message}",
        f"{count(len(problem.experiments), 'individual')}, {count(problem.measurements, 'measurement')}, "
        f"{count(fit.estimated, 'estimated number')}; {effort_words(fit.iterations, fit.seconds)}",
    ]
    if fit.optimum is None:
        return "\n".join(lines)
    lines += ["", *columns([TYPICAL_HEADER, *typical_rows(fit)], left=(0, 5, 6))]
    lines += ["", *columns([SPREAD_HEADER, *spread_rows(fit)], left=(0, 6))]
    lines += correlation_lines(fit)
    if not fit.status.converged:
        lines.append(NO_ERRORS)
    return "\n".join([*lines, "", *likelihood_lines(fit), *search_lines(fit)])


def search_lines(fit: PopulationFit) -> list[str]:
    """How several searches ended."""
    if len(fit.searches) < 2:
        return []
    best = min(one.objective for one in fit.searches)
    hits = sum(one.objective < best + 0.1 for one in fit.searches)
    others = sorted({round(one.objective, 1) for one in fit.searches if one.objective >= best + 0.1})
    said = f"{hits} of {len(fit.searches)} searches ended at this objective"
    return [f"{said}; others at {', '.join(map(str, others[:5]))}" if others else said]


def population_text(population: Population) -> str:
    """What print(fit.population) shows."""
    rows = [
        (name, number(one.sd, 4), number(one.cv, 3), number(100 * one.shrinkage, 3))
        for name, one in population.spreads.items()
    ]
    header = ("random effect", "sd", "CV %", "shrinkage %")
    return "\n".join([f"objective {population.objective:.4f}", *columns([header, *rows], left=(0,))])


def population_profile_text(one: PopulationProfile) -> str:
    low, high = one.interval()
    ends = f"{number(low)} to {number(high)}"
    return f"{one.name} = {number(one.estimate)}, {100 * one.level:g} % interval {ends} by profile likelihood"


def check_text(one: PredictiveCheck) -> str:
    """The quantiles of the data and their bands, bin by bin."""
    header = ("time", "values", *(f"{100 * q:g} %" for q in one.quantiles))
    rows = []
    for k, time in enumerate(one.times):
        cells = [
            f"{number(value, 3)} ({number(low, 3)} to {number(high, 3)}){'' if inside else ' *'}"
            for value, low, high, inside in zip(
                one.observed[:, k], one.low[:, k], one.high[:, k], one.inside[:, k], strict=True
            )
        ]
        rows.append((number(float(time), 4), str(one.counts[k]), *cells))
    outside = int((~one.inside).sum())
    return "\n".join(
        [
            f"{one.observable}: quantiles of the data, and where {100 * one.level:g} % of {one.simulations} simulated "
            "studies have them",
            *columns([header, *rows], left=()),
            f"{outside} of {one.inside.size} quantiles lie outside (*)",
        ]
    )


def simulated_text(one: SimulatedPopulation) -> str:
    values = count(len(one.to_frame()), "measurement")
    people = count(len(one.experiments), "simulated individual")
    return f"{people} with {values}: .experiments, .individuals, .to_frame()"


def ratio_text(one: LikelihoodRatio) -> str:
    """The test in one sentence."""
    how = f"chi-squared with {count(one.freedom, 'degree')} of freedom"
    if one.boundary:
        how = f"equal mixture of chi-squared with {one.freedom - 1} and {one.freedom} degrees of freedom"
    return f"likelihood ratio {number(one.statistic, 4)}, {how}: p = {number(one.p_value, 3)}"
