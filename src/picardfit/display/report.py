"""A fit as one HTML file for people: verdict, equations, estimates, pictures, evidence, how to do it again.

The file needs nothing else (pictures are inline SVG, the style is inline) and prints well on A4. Everything that a user
has named or typed is escaped.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from html import escape
from pathlib import Path
from textwrap import dedent

import matplotlib
import numpy as np
import scipy
import sympy

from picardfit.display.markup import (
    counted,
    equations,
    experiment_table,
    noise_words,
    parameter_table,
    picture,
    table,
    words,
)
from picardfit.display.plots import (
    MOST_EXPERIMENTS,
    pages,
    plot_convergence,
    plot_correlation,
    plot_fit,
    plot_identifiability,
    plot_residuals,
    plot_waterfall,
)
from picardfit.display.recipe import recipe, starts_asked
from picardfit.display.text import (
    NO_ERRORS,
    count,
    effort,
    number,
    other_values,
    parameter_rows,
    statistics_lines,
    true_values,
    units,
)
from picardfit.display.verdicts import percent, spread, verdict_words
from picardfit.evidence.certificate import AGREES, Certificate
from picardfit.files.json_files import write_text
from picardfit.fit import Fit
from picardfit.inference.identifiability import Identifiability

LEVEL = 0.95  # of bands and intervals
MOST_VALUES, PRINTED_VALUES = 200, 40  # rows of measured values, and up to which they go to paper
MOST_OPTIMA = 12
MOST_COMBINATIONS = 12
SMALL_GRADIENT = 1e-6
SMALL_JUMP = 1e-6

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; color: #222;
       background: #fff; max-width: 54rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
p { margin: .5rem 0; }
.quiet { color: #666; font-size: .9em; }
.verdict { border-left: 5px solid #0072B2; background: #f1f7fb; padding: .7rem 1rem; margin: 1.1rem 0; }
.verdict.mind { border-color: #E69F00; background: #fdf7ea; }
.verdict.failed { border-color: #D55E00; background: #fdf1ea; }
.verdict strong { display: block; font-size: 1.1em; }
.wide { overflow-x: auto; }
summary { cursor: pointer; }
table.equations td { border: 0; padding: .3rem .5rem .3rem 0; vertical-align: middle; white-space: nowrap; }
table.equations { font-size: 1.02em; margin: .4rem 0; }
math { font-size: 1.12em; }
table { border-collapse: collapse; font-size: .93em; }
th, td { text-align: left; padding: .28rem 1.5rem .28rem 0; border-bottom: 1px solid #eee; vertical-align: top; }
th { border-bottom: 1px solid #999; font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: #f6f6f6; padding: .7rem .9rem; overflow-x: auto; font: .87em/1.45 ui-monospace, Menlo, Consolas,
      monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: .6rem 0 1.2rem; }
figure svg, figure img { max-width: 100%; height: auto; display: block; }
figcaption { color: #666; font-size: .88em; }
@media screen and (max-width: 40rem) { body { margin: 1.2rem auto; } th, td { padding-right: .9rem; }
  table:not(.equations) td:not(.n):not(:first-child) { min-width: 7.5rem; } }
@page { size: A4; margin: 16mm; }
@media print { a { color: inherit; } pre { font-size: 7.5pt; } .wide { overflow: visible; }
  figure svg, figure img { width: auto; max-height: 105mm; } figure.tall svg, figure.tall img { max-height: 235mm; }
  details::details-content { content-visibility: visible; height: auto; } summary { list-style: none; }
  details.screen { display: none; }
  body { margin: 0; max-width: none; font-size: 10.5pt; padding: 0; }
  table { font-size: .85em; } th, td { padding-right: .8rem; }
  h2 { break-after: avoid; } figure, tr, .verdict, .short { break-inside: avoid; } }
"""


def write_report(fit: Fit, path: str | Path, title: str) -> Path:
    """Write the report of a fit as one self-contained HTML file with this title."""
    found = fit.identifiability() if _is_judged(fit) else None
    sections = {
        "What was fitted": _model(fit),
        "Data": _data(fit),
        "Estimates": _estimates(fit),
        "Data and fit": _pictures(fit),
        "What the data determine": "" if found is None else _determined(fit, found),
        "Starts": _starts(fit) if len(fit.starts) > 1 else "",
        "Evidence": _evidence(fit),
        "Method": _method(fit),
        "How to do it again": _again(fit),
    }
    body = "\n".join([_head(fit, found, title), *(_section(*one) for one in sections.items() if one[1])])
    page = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
    return write_text(path, page)


def verdict(fit: Fit, found: Identifiability | None = None) -> tuple[str, str, list[str]]:
    """(class, headline, sentences): what the fit means in plain words."""
    if found is None and _is_judged(fit):
        found = fit.identifiability()
    bound = [] if fit.solution is None else list(fit.certificate.at_bound)
    sentences = [*_together(found)] if found is not None and fit.success else []
    if bound:
        sentences.append(f"On a bound: {words(bound)}; a bound, not the data, sets these values.")
    others = found.alternatives if found is not None and fit.success else ()
    if others:
        sentences.append(f"Other values fit as well: {words(other_values(fit, others[0]))}; see the starts.")
    if _is_judged(fit) and fit.problem.noise is None and np.isfinite(fit.residual_variance):
        size = number(fit.residual_variance**0.5, 2)
        sentences.append(f"A measurement lies typically {size} away from the fit.")
    if _is_judged(fit):
        sentences += map(str, fit.diagnostics.remarks)
    if not fit.success:
        return "failed", "The fit did not succeed.", [fit.message, *sentences]
    sentences.insert(0, f"The fit succeeded. {fit.message}")
    poor = found is not None and any(one.kind != "determined" for one in found.verdicts.values())
    mind = poor or bound or others or fit.warnings or fit.status.name != "CONVERGED"
    return "mind" if mind else "fine", determined_words(fit, found), sentences


def _is_judged(fit: Fit) -> bool:
    """Whether errors and what the data determine can be told."""
    return fit.solution is not None and fit.status.converged


def determined_words(fit: Fit, found: Identifiability) -> str:
    """`All six parameters are determined; b only to ± 38 %.`"""
    own = {name: one for name, one in found.verdicts.items() if name in fit.parameters}
    kind, judged = ("parameter", own) if own else ("initial state", dict(found.verdicts))
    total = len(judged)
    if not np.isfinite(fit.residual_variance):
        return "There are estimates but no errors: no more was measured than is unknown."
    if not total:
        return "Nothing was left to estimate."
    weak = [name for name, one in judged.items() if one.kind == "weakly"]
    lost = [name for name, one in judged.items() if one.kind == "not determined"]
    sure = total - len(lost)
    if total == 1:
        parts = [f"The {kind} {next(iter(judged))} is {'not ' if lost else ''}determined"]
    elif not lost:
        parts = [f"{f'Both {kind}s' if total == 2 else f'All {counted(total, kind)}'} are determined"]
    elif not sure:
        return f"None of the {counted(total, kind)} is determined by these data: {words(lost)}."
    else:
        few = counted(sure, "x").split()[0].capitalize()
        parts = [f"{few} of {counted(total, kind)} {'is' if sure == 1 else 'are'} determined"]
    if weak:
        told = [f"{name} only to {spread(judged[name])}" for name in weak[:4]]
        told += [f"{len(weak) - 4} more only roughly"] if len(weak) > 4 else []
        parts.append(words(told))
    if lost and total > 1:
        parts.append(f"the data do not determine {words(lost)}")
    if not weak and not lost:
        worst = max(judged, key=lambda name: judged[name].error)
        parts[0] += f" to {spread(judged[worst])}"
        parts[0] += f" or better (the least: {worst})" if total > 1 else ""
    return "; ".join(parts) + "."


def _together(found: Identifiability) -> list[str]:
    """What is determined only together, and which initial states are not."""
    poor = {name for name, one in found.verdicts.items() if one.kind == "not determined"}
    told = [c for c in found.determined if poor.issuperset(c.names)]
    if not told:
        return []
    return [f"Determined only together: {words([f'{one.text} ({percent(one.error)})' for one in told[:3]])}."]


def _head(fit: Fit, found: Identifiability | None, title: str) -> str:
    kind, headline, sentences = verdict(fit, found)
    problem = fit.problem
    summary = (
        f"{count(problem.layout.count(), 'unknown')} from {count(problem.measurements, 'measurement')} in "
        f"{count(len(problem.experiments), 'experiment')}, written on {date.today():%d %B %Y}"
    )
    text, headline = (_unbroken(escape(one)) for one in (" ".join(sentences), headline))
    return (
        f'<h1>{escape(title)}</h1>\n<p class="quiet">{summary}</p>\n'
        f'<div class="verdict {kind}"><strong>{headline}</strong>{text}</div>'
    )


def _unbroken(text: str) -> str:
    """`± 38 %` stays in one line."""
    return re.sub(r"± (\S+) %", "±\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}%", text)


def _model(fit: Fit) -> str:
    model = fit.problem.model
    parts = [equations(model)]
    given = {name: model.unit(name) for name in ("t", *model.states, *model.inputs, *model.observables)}
    if any(given.values()):
        told = ", ".join(f"{name} in {unit}" for name, unit in given.items() if unit)
        parts.append(f"<p>Units: {escape(told)}.</p>")
    if fit.problem.noise is not None:
        parts.append(f"<p>Noise: {escape(noise_words(fit.problem.noise))}.</p>")
    if model.text.strip():
        folded = f"<pre>{escape(dedent(model.text).strip())}</pre>"
        parts.append(f"<details>\n<summary>As it was written</summary>\n{folded}\n</details>")
    return "\n".join([*parts, "<p>What was known beforehand:</p>", parameter_table(fit.problem)])


def _data(fit: Fit) -> str:
    return experiment_table(fit.problem.experiments, fit.problem.initial) + _values(fit)


def _values(fit: Fit) -> str:
    """The measured values, folded."""
    observables, samples, problem = fit.problem.model.observables, fit.problem.samples, fit.problem
    rows = [
        (
            problem.names[samples.experiment[k]],
            number(float(samples.times[k]), 7),
            *("" if np.isnan(value) else number(float(value), 7) for value in samples.data[k]),
        )
        for k in range(min(len(samples.times), MOST_VALUES))
    ]
    header = ("experiment", "time", *observables)
    more = len(samples.times) - len(rows)
    note = f"<p class='quiet'>… and {more} more rows.</p>" if more else ""
    inside = table(header, rows, numeric=range(1, len(header)))
    kind = ' class="screen"' if len(rows) > PRINTED_VALUES else ""
    return f"<details{kind}>\n<summary>The measured values</summary>\n{inside}{note}\n</details>"


def _estimates(fit: Fit) -> str:
    if fit.solution is None:
        return "<p>There are none: no solution was found.</p>"
    header = ("", "estimate", "standard error", "95 % from", "to", "unit", "remark")
    truth, given = true_values(fit), units(fit)
    rows: list[Sequence[str]] = [(*row[:5], given.get(row[0], ""), row[5]) for row in parameter_rows(fit)]
    if truth:
        header = (*header, "true value")
        rows = [(*row, number(truth[row[0]]) if row[0] in truth else "") for row in rows]
    plain = fit.problem.noise is None
    holds = "the noise is about the same for all measurements" if plain else "the noise is as assumed"
    if not fit.status.converged:
        header, rows = header[:2], [row[:2] for row in rows]
        note = f"<p>{escape(NO_ERRORS)}</p>"
        return table(header, rows, numeric=(1,)) + note + _statistics(fit)
    note = (
        "<p class='quiet'>name(0) is the state of that name at the start of an experiment. Intervals come from the "
        "curvature of the loss at the optimum (Fisher information); they hold when "
        f"{holds}.</p>"
    )
    return table(header, rows, numeric=(1, 2, 3, 4, 7)) + note + _statistics(fit)


def _statistics(fit: Fit) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in statistics_lines(fit))


def _pictures(fit: Fit) -> str:
    caption = "Dots: data. Line: fit. Dashes: what was not measured."
    if _is_judged(fit):
        caption += f" Shade: where the true curve lies with {100 * LEVEL:g} % confidence, point by point."
    names = fit.problem.names
    parts = []
    if len(names) > MOST_EXPERIMENTS:
        parts.append(
            f"<p>The first {MOST_EXPERIMENTS} of {len(names)} experiments are drawn; "
            f"<code>fit.plot(experiments=[...])</code> draws others.</p>"
        )
    for page in pages(fit):
        parts.append(picture(plot_fit(fit, band=LEVEL, experiments=page), caption))
        caption = "More experiments, drawn in the same way."
    if fit.solution is not None:
        caption = "Data minus fit; each experiment has its own shape. Dashed: two standard deviations."
        caption += " A pattern here means that the model misses something."
        parts.append(picture(plot_residuals(fit), caption))
    return "\n".join(parts)


def _determined(fit: Fit, found: Identifiability) -> str:
    """The verdicts, the directions that are open, what is determined together, pictures of errors and correlations."""
    rows = [(name, verdict_words(one)) for name, one in found.verdicts.items()]
    parts = [table(("unknown", "verdict"), rows)]
    for title, several in (
        ("Directions that these data leave open:", found.undetermined),
        ("Better determined together than one by one:", found.determined),
    ):
        if several:
            told = [(one.text, percent(one.error)) for one in several[:MOST_COMBINATIONS]]
            parts.append(f"<p>{title}</p>" + table(("combination", "relative error"), told))
    if found.verdicts:
        caption = "How well each unknown is determined; the dashed lines part determined, weakly and not determined."
        parts.append(picture(plot_identifiability(found), caption))
    if len(fit.covariance_labels) > 1:
        caption = "Correlations of the estimates: a large square means that errors in the two come together."
        parts.append(picture(plot_correlation(fit), caption))
    return "\n".join(parts)


def _starts(fit: Fit) -> str:
    names = list(fit.parameters)[:8]
    rows = [
        (str(k), number(one.loss, 6), str(one.count), *(number(one.parameters[name], 4) for name in names))
        for k, one in enumerate(fit.optima[:MOST_OPTIMA], 1)
    ]
    parts = [f"<p>{fit.hits} of {len(fit.starts)} starts reached the loss of this fit.</p>"]
    if rows:
        parts.append(table(("optimum", "loss", "starts", *names), rows, numeric=range(1, 3 + len(names))))
    if len(fit.optima) > len(rows):
        parts.append(f"<p class='quiet'>… and {len(fit.optima) - len(rows)} more optima.</p>")
    caption = (
        "The starts in order of their loss. A long first step means that the best optimum is easy to find."
    )
    parts.append(picture(plot_waterfall(fit), caption))
    return "\n".join(parts)


def _evidence(fit: Fit) -> str:
    if fit.solution is None:
        return "<p>There is no solution to check.</p>"
    intro = (
        "<p>The answer was checked from scratch. The initial values and parameters were given to SciPy's integrators, "
        "which know nothing of the path that the method found.</p>"
    )
    return intro + table(("check", "result", ""), _checks(fit.certificate), (1,))


def _checks(certificate: Certificate) -> list[tuple[str, str, str]]:
    def mark(fine: bool) -> str:
        return "fine" if fine else "mind this"

    jump, gradient = certificate.largest_jump, certificate.gradient
    return [
        ("loss along the path", f"{certificate.loss:.9g}", ""),
        ("loss by independent integration", f"{certificate.reintegrated_loss:.9g}", ""),
        ("their relative difference", f"{certificate.mismatch:.1e}", mark(certificate.mismatch <= AGREES)),
        (
            "largest distance of the path from its Picard image",
            f"{certificate.picard_residual:.1e}",
            mark(certificate.picard_residual <= SMALL_JUMP),
        ),
        ("largest jump between segments", f"{jump:.1e}", mark(jump <= SMALL_JUMP)),
        (
            "decrease of the loss still promised by the slope",
            f"{gradient:.1e}",
            mark(gradient <= SMALL_GRADIENT),
        ),
        ("mesh", f"{certificate.segments} × {certificate.nodes}", "segments × nodes"),
    ]


def _method(fit: Fit) -> str:
    rows = list(_settings(fit.method))
    took = effort(fit)
    settings = f"<details>\n<summary>Settings</summary>\n{table(('setting', 'value'), rows)}\n</details>"
    parts = [f"<p>{escape(type(fit.method).__name__)}, {took}.</p>", settings]
    if len(fit.trace):
        caption = "How the search went: the loss may rise while the jumps between segments are closed."
        parts.append(picture(plot_convergence(fit), caption))
    return "\n".join(parts)


def _settings(record: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, value) of every setting of a method; of a record inside it only those that differ from the usual ones."""
    for one in fields(record):
        value = getattr(record, one.name)
        if is_dataclass(one.default):
            yield from _settings(value, f"{prefix}{one.name}.")
        elif not prefix or value != one.default:
            yield prefix + one.name, value.value if isinstance(value, Enum) else str(value)


def _again(fit: Fit) -> str:
    from picardfit import __version__

    parts = []
    if (code := recipe(fit)) is not None:
        parts.append("<p>This program makes the same fit from the same data:</p>")
        parts.append(f"<details>\n<summary>The program</summary>\n<pre>{escape(code)}</pre>\n</details>")
    else:
        call = (
            f"fit = pf.fit(problem, pf.{type(fit.method).__name__}(...), {starts_asked(fit)}seed={fit.seed})"
        )
        parts.append(f"<p>The call, with the problem as above:</p>\n<pre>{escape(call)}</pre>")
    keep = 'fit.save("fit.json")          # the whole fit with its problem\n'
    keep += 'fit = pf.load("fit.json")     # later: the same fit, nothing is computed again'
    known = {
        "picardfit": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "SymPy": sympy.__version__,
        "Matplotlib": matplotlib.__version__,
    }
    versions = ", ".join(f"{name} {version}" for name, version in known.items())
    parts.append(f"<pre>{escape(keep)}</pre>")
    parts.append(f"<p class='quiet'>Seed {fit.seed}. {escape(versions)}; {escape(platform.platform())}</p>")
    return "\n".join(parts)


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"
