"""A fit as one HTML file for people: summary, equations, estimates, pictures, evidence, how to repeat it.

The page is templates/report.html; this module collects what it shows. The file needs nothing else (pictures are inline
SVG, the style is inline) and prints well on A4.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import scipy
import sympy
from markupsafe import Markup

from picardfit.display import plots
from picardfit.display.markup import (
    Paper,
    check_page,
    draw,
    environment,
    estimate_tables,
    experiment_table,
    fitted,
    folding_table,
    picture,
    table,
)
from picardfit.display.plots.choice import Choice, chosen
from picardfit.display.plots.curves import experiment_figures
from picardfit.display.plots.style import MARKERS, REPORT
from picardfit.display.posteriors import of_this_fit, report_section
from picardfit.display.program import program, starts_asked
from picardfit.display.text import (
    NO_ERRORS,
    effort,
    has_dates,
    number,
    shows_searches,
    size_words,
    statistics_lines,
)
from picardfit.display.verdicts import TESTS_HEADER, percent, summary, tests_rows, verdict_words
from picardfit.errors import InputError
from picardfit.evidence.certificate import Certificate, CertificateSettings
from picardfit.fit import Fit
from picardfit.inference.combinations import Combination
from picardfit.inference.identifiability import Identifiability
from picardfit.inference.posterior.posterior import Posterior
from picardfit.model.densities import COUNTS
from picardfit.problem.problem import Problem
from picardfit.whole_files import write_text


@dataclass(frozen=True)
class ReportSettings:
    """How much of a fit goes into its report, and what counts as fine."""

    level: float = 0.95  # of the bands in pictures
    values: int = 200  # rows of measured values
    open_rows: int = 20  # rows of a table of experiments up to which it is not folded
    together: int = 3  # experiments from which on one picture shows all of them on one axis
    optima: int = 12  # rows in the table of starts
    optimum_parameters: int = 8  # columns in the table of starts
    combinations: int = 12  # of unknowns, in each table
    small: float = 1e-6  # relative jump, Picard residual and promised decrease below which a check is passed


def write_report(
    fit: Fit,
    path: str | Path,
    title: str,
    settings: ReportSettings = ReportSettings(),
    posterior: Posterior | None = None,
) -> Path:
    """Write the report of a fit, with draws of its posterior if given, as one self-contained HTML file."""
    check_page(path)
    content = _content(fit, title, settings)
    if posterior is not None:
        content["posterior"] = _section_of(fit, posterior)
    page = environment().get_template("report.html").render(content)
    return write_text(path, page + "\n")


def _content(fit: Fit, title: str, settings: ReportSettings) -> dict[str, object]:
    """Every variable of templates/report.html."""
    from picardfit import __version__

    problem = fit.problem
    found = fit.identifiability() if fit.status.converged else None
    method = type(fit.method).__name__
    known = {"NumPy": np, "SciPy": scipy, "SymPy": sympy, "Matplotlib": matplotlib}
    versions = {"picardfit": __version__, "Python": platform.python_version()}
    versions |= {name: module.__version__ for name, module in known.items()}
    caption = "How the search went: the loss may rise while the jumps between segments are closed."
    return {
        "title": title,
        "size": size_words(problem),
        "date": f"{date.today():%d %B %Y}",
        "verdict": summary(fit, found),
        "solved": fit.solution is not None,
        "judged": fit.status.converged,
        "begins": len(fit.problem.layout.initial_states) > 0,
        **fitted(problem),
        "experiments": _experiments(problem, settings),
        "values": _values(fit, settings.values),
        "values_printed": len(problem.samples.times) <= Paper.printed,
        "estimates": "" if fit.solution is None else estimate_tables(fit),
        "no_errors": NO_ERRORS,
        "statistics": [] if fit.solution is None else statistics_lines(fit),
        "pictures": _pictures(fit, settings),
        "found": None if found is None else _determined(fit, found, settings.combinations),
        "posterior": None,
        "starts": _starts(fit, settings) if shows_searches(fit) else None,
        "checks": "" if fit.solution is None else _checks(fit.certificate, settings.small),
        "method": method,
        "effort": effort(fit),
        "settings": table(("setting", "value"), list(_settings(fit.method))),
        "convergence": picture(plots.plot_convergence(fit, look=REPORT), caption) if len(fit.trace) else "",
        "program": (repeated := program(fit)),
        "program_printed": len(repeated or "") <= Paper.page,
        "call": f"fit = pf.fit(problem, pf.{method}(...), {starts_asked(fit)}seed={fit.seed})",
        "seed": fit.seed,
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "platform": platform.platform(),
    }


def _section_of(fit: Fit, posterior: object) -> dict[str, object]:
    """The section of the draws; InputError if they are not draws, or of another fit."""
    if not isinstance(posterior, Posterior):
        raise InputError("display.not_a_posterior", value=posterior)
    if not of_this_fit(fit, posterior):
        raise InputError("display.posterior_of_other_fit")
    return report_section(posterior)


def _values(fit: Fit, most: int) -> Markup:
    """The measured values."""
    samples, names = fit.problem.samples, fit.problem.names
    header = ("experiment", "date" if has_dates(fit.problem) else "time", *fit.problem.model.observables)
    times = [text for one in fit.problem.experiments for text in one.time_texts(one.times, 7)]
    given = _given(fit.problem)
    rows = [
        (
            names[samples.experiment[k]],
            times[k],
            *(
                one if isinstance(one, str) else "" if np.isnan(one) else number(float(one), 7)
                for one in given[k]
            ),
        )
        for k in range(min(len(samples.times), most))
    ]
    return table(header, rows, range(1, len(header)), most, more=len(samples.times) - len(rows))


def _given(problem: Problem) -> np.ndarray:
    """(samples, observables): measured values as they were given, texts where they are censored."""
    table = np.full(problem.samples.data.shape, np.nan, dtype=object)
    for e, one in enumerate(problem.experiments):
        for name, column in one.observations.items():
            if name in problem.model.observables:
                table[problem.samples.experiment == e, problem.model.observables.index(name)] = column
    return table


def _experiments(problem: Problem, settings: ReportSettings) -> Markup:
    """The table of the experiments; a long one is folded, and a very long one is not printed on paper."""
    drawn, count = experiment_table(problem.experiments, problem.initial), len(problem.experiments)
    if count <= settings.open_rows:
        return drawn
    return draw("folded", f"The {count} experiments", drawn, count <= Paper.printed)


def _pictures(fit: Fit, settings: ReportSettings) -> dict[str, object]:
    """The curves of the experiments with the words about them, then all experiments together, then the residuals."""
    choice = chosen(fit)
    figures = experiment_figures(fit, choice, settings.level)
    curves = [
        picture(one, f"Data and fit of {n}", told=False) for one, n in zip(figures, choice.names, strict=True)
    ]
    others = []
    if len(fit.problem.names) >= settings.together:
        told = "All experiments on one axis, to compare them."
        others.append(picture(plots.plot_overlay(fit, look=REPORT), told + _coloured(fit)))
    if fit.solution is not None:
        others.append(picture(plots.plot_residuals(fit, look=REPORT), _residuals_words(fit)))
    tests = tests_rows(fit.diagnostics) if fit.status.converged else []
    if tests and fit.diagnostics.autocorrelation:
        told = "Correlations of the residuals by lag, among themselves and with inputs before. "
        told += "Outside the shade, the model or its noise misses something."
        others.append(picture(plots.plot_autocorrelation(fit.diagnostics, look=REPORT), told))
    return {
        "tests": table(TESTS_HEADER, tests, (1, 2, 3)) if tests else "",
        "chosen": _choice_words(choice),
        "legend": _curve_words(fit, settings.level),
        "curves": curves,
        "others": others,
    }


def _choice_words(choice: Choice) -> str:
    """Which experiments are drawn, where that is not all of them."""
    if not choice.words:
        return ""
    return f"Drawn are {choice.words}." if choice.worst else f"{choice.words}."


def _curve_words(fit: Fit, level: float) -> str:
    """What dots, lines and shades mean."""
    experiments = fit.problem.experiments
    told = ["Dots: data. Line: fit. Dashes: what was not measured."]
    if fit.problem.samples.limits is not None:
        told.append("Triangles: censored values, at their limit and pointing to where they lie.")
    if fit.status.converged:
        told.append(f"Shade: where the true curve lies with {100 * level:g} % confidence, point by point.")
    if any(one.doses for one in experiments):
        told.append("Doses stand below the curves: amounts, as wide as an infusion lasts.")
    if any(one.resets for one in experiments):
        told.append("Dotted: resets.")
    return " ".join(told)


def _coloured(fit: Fit) -> str:
    return " Colours and names mark those that fit worst." if len(fit.problem.names) > len(MARKERS) else ""


def _residuals_words(fit: Fit) -> str:
    """What the picture of the residuals shows; with a noise model they are standardised by it."""
    if fit.problem.noise is None:
        told = "Data minus fit. Dashed: two standard deviations."
    else:
        told = "Residuals, standardised by the noise model: standard normal if it is right. Dashed: ± 2."
        if fit.problem.samples.limits is not None or _counts(fit.problem):
            told += " Counts and censored values are drawn at random within what their probabilities allow."
    return f"{told} A pattern means that the model misses something.{_coloured(fit)}"


def _counts(problem: Problem) -> bool:
    return problem.scatter is not None and any(one.shape in COUNTS for one in problem.scatter.columns)


def _determined(fit: Fit, found: Identifiability, most: int) -> dict[str, object]:
    """The verdicts, combinations of unknowns, pictures of errors and correlations."""
    drawn = []
    if found.verdicts:
        caption = "How well each unknown is determined; dashed lines separate determined, weakly and not determined."
        drawn.append(picture(plots.plot_identifiability(found, look=REPORT), caption))
    if len(fit.covariance_labels) > 1:
        caption = "Correlations of the estimates: a large square means that the errors of the two are strongly related."
        drawn.append(picture(plots.plot_correlation(fit, look=REPORT), caption))
    return {
        "verdicts": folding_table(
            ("unknown", "verdict"), [(n, verdict_words(v)) for n, v in found.verdicts.items()], fit
        ),
        "combinations": {
            "Directions that these data do not determine": combination_table(found.undetermined[:most]),
            "Better determined together than one by one": combination_table(found.determined[:most]),
        },
        "pictures": drawn,
    }


def combination_table(several: Iterable[Combination], most: int = 6) -> Markup | None:
    """Combinations of unknowns, each with its `most` largest terms, and their errors; None if there are none."""
    rows = []
    for one in several:
        largest = sorted(one.weights, key=lambda name: -abs(one.weights[name]))[:most]
        part = replace(one, weights={name: w for name, w in one.weights.items() if name in largest})
        more = len(one.weights) - len(largest)
        rows.append((part.text + (f" and {more} more" if more else ""), percent(one.error)))
    return table(("combination", "relative error"), rows) if rows else None


def _starts(fit: Fit, settings: ReportSettings) -> dict[str, object]:
    names = list(fit.parameters)[: settings.optimum_parameters]
    rows = [
        (str(k), number(one.loss, 6), str(one.count), *(number(one.parameters[name], 4) for name in names))
        for k, one in enumerate(fit.optima, 1)
    ]
    header = ("optimum", "loss", "searches", *names)
    caption = "The searches in order of loss. A wide first step means that the best optimum is easy to find."
    return {
        "hits": fit.hits,
        "count": len(fit.searches),
        "optima": table(header, rows, range(1, len(header)), settings.optima) if rows else "",
        "picture": picture(plots.plot_waterfall(fit, look=REPORT), caption),
    }


def _checks(certificate: Certificate, small: float) -> Markup:
    def marked(what: str, value: float, limit: float) -> tuple[str, str, str]:
        return what, f"{value:.1e}", "fine" if value <= limit else "look into this"

    rows = [
        ("loss along the path", f"{certificate.loss:.9g}", ""),
        ("loss by independent integration", f"{certificate.reintegrated_loss:.9g}", ""),
        marked("their relative difference", certificate.mismatch, CertificateSettings.agreement),
        marked("largest distance of the path from its Picard image", certificate.picard_residual, small),
        marked("largest jump between segments", certificate.largest_jump, small),
        marked("decrease of the loss still promised by the gradient", certificate.gradient, small),
        ("mesh", f"{certificate.segments} × {certificate.nodes}", "segments × nodes"),
    ]
    return table(("check", "result", ""), rows, numeric=(1,))


def _settings(record: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, value) of every setting of a method; of a record inside it only those that differ from the defaults."""
    for one in fields(record):
        value = getattr(record, one.name)
        if is_dataclass(one.default):
            yield from _settings(value, f"{prefix}{one.name}.")
        elif not prefix or value != one.default:
            yield prefix + one.name, str(value.value) if isinstance(value, Enum) else str(value)
