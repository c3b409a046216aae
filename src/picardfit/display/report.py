"""A fit as one HTML file for people: summary, equations, estimates, pictures, evidence, how to repeat it.

The page is templates/report.html; this module collects what it shows. The file needs nothing else (pictures are inline
SVG, the style is inline) and prints well on A4.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from textwrap import dedent
from typing import Any

import matplotlib
import numpy as np
import scipy
import sympy
from markupsafe import Markup

from picardfit.display import plots
from picardfit.display.markup import (
    environment,
    equations,
    experiment_table,
    noise_words,
    parameter_table,
    picture,
    table,
)
from picardfit.display.plots.style import STYLE
from picardfit.display.posteriors import of_this_fit, report_section
from picardfit.display.program import program, starts_asked
from picardfit.display.text import (
    ESTIMATES_HEADER,
    ESTIMATES_NUMERIC,
    NO_ERRORS,
    effort,
    estimate_rows,
    has_dates,
    number,
    shows_searches,
    size_words,
    statistics_lines,
    time_words,
)
from picardfit.display.verdicts import percent, summary, verdict_words
from picardfit.errors import InputError
from picardfit.evidence.certificate import Certificate, CertificateSettings
from picardfit.fit import Fit
from picardfit.inference.combinations import Combination
from picardfit.inference.identifiability import Identifiability
from picardfit.inference.posterior.posterior import Posterior
from picardfit.problem.problem import Problem
from picardfit.whole_files import write_text


@dataclass(frozen=True)
class ReportSettings:
    """How much of a fit goes into its report, and what counts as fine."""

    level: float = 0.95  # of the bands in pictures
    values: int = 200  # rows of measured values
    printed_values: int = 40  # rows of measured values up to which they are printed on paper as well
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
    content = _content(fit, title, settings)
    if posterior is not None:
        content["posterior"] = _section_of(fit, posterior)
    page = environment().get_template("report.html").render(content)
    return write_text(path, page + "\n")


def _content(fit: Fit, title: str, settings: ReportSettings) -> dict[str, object]:
    """Every variable of templates/report.html."""
    from picardfit import __version__

    problem, model = fit.problem, fit.problem.model
    found = fit.identifiability() if fit.status.converged else None
    names = (*model.states, *model.inputs, *model.observables)
    units = {"t": time_words(problem), **{name: model.unit(name) for name in names}}
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
        "equations": equations(model),
        "units": [f"{name} in {unit}" for name, unit in units.items() if unit],
        "noise": "" if problem.noise is None else noise_words(problem.noise),
        "written": dedent(model.text).strip(),
        "parameters": parameter_table(problem),
        "experiments": experiment_table(problem.experiments, problem.initial),
        "values": _values(fit, settings.values),
        "values_printed": len(problem.samples.times) <= settings.printed_values,
        "estimates": "" if fit.solution is None else _estimates(fit),
        "no_errors": NO_ERRORS,
        "statistics": [] if fit.solution is None else statistics_lines(fit),
        "drawn": min(len(problem.names), STYLE.experiments),
        "experiment_count": len(problem.names),
        "pictures": _pictures(fit, settings.level),
        "found": None if found is None else _determined(fit, found, settings.combinations),
        "posterior": None,
        "starts": _starts(fit, settings) if shows_searches(fit) else None,
        "checks": "" if fit.solution is None else _checks(fit.certificate, settings.small),
        "method": method,
        "effort": effort(fit),
        "settings": table(("setting", "value"), list(_settings(fit.method))),
        "convergence": picture(plots.plot_convergence(fit), caption) if len(fit.trace) else "",
        "program": program(fit),
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


def _estimates(fit: Fit) -> Markup:
    """The estimates; without convergence only their values."""
    rows = estimate_rows(fit)
    if not fit.status.converged:
        return table(ESTIMATES_HEADER[:2], [row[:2] for row in rows], numeric=(1,))
    return table(ESTIMATES_HEADER, rows, ESTIMATES_NUMERIC)


def _pictures(fit: Fit, level: float) -> list[Markup]:
    caption = "Dots: data. Line: fit. Dashes: what was not measured."
    if fit.status.converged:
        caption += f" Shade: where the true curve lies with {100 * level:g} % confidence, point by point."
    drawn = []
    for page in plots.pages(fit):
        drawn.append(picture(plots.plot_fit(fit, band=level, experiments=page), caption))
        caption = "More experiments, drawn in the same way."
    if fit.solution is not None:
        caption = "Data minus fit; each experiment has its own marker. Dashed: two standard deviations."
        caption += " A pattern here means that the model misses something."
        drawn.append(picture(plots.plot_residuals(fit), caption))
    return drawn


def _determined(fit: Fit, found: Identifiability, most: int) -> dict[str, object]:
    """The verdicts, combinations of unknowns, pictures of errors and correlations."""
    drawn = []
    if found.verdicts:
        caption = "How well each unknown is determined; dashed lines separate determined, weakly and not determined."
        drawn.append(picture(plots.plot_identifiability(found), caption))
    if len(fit.covariance_labels) > 1:
        caption = "Correlations of the estimates: a large square means that the errors of the two are strongly related."
        drawn.append(picture(plots.plot_correlation(fit), caption))
    return {
        "verdicts": table(("unknown", "verdict"), [(n, verdict_words(v)) for n, v in found.verdicts.items()]),
        "combinations": {
            "Directions that these data do not determine": _combinations(found.undetermined[:most]),
            "Better determined together than one by one": _combinations(found.determined[:most]),
        },
        "pictures": drawn,
    }


def _combinations(several: Iterable[Combination]) -> Markup | None:
    rows = [(one.text, percent(one.error)) for one in several]
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
        "picture": picture(plots.plot_waterfall(fit), caption),
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
