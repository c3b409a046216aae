"""A fit as one HTML file for people: verdict, equations, estimates, pictures, evidence, how to do it again.

The file needs nothing else (pictures are inline SVG, the style is inline) and prints well on A4. Everything that a user
has named or typed is escaped.
"""

from __future__ import annotations

import io
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import date
from enum import Enum
from html import escape
from math import inf, isfinite
from pathlib import Path

import matplotlib
import numpy as np
import scipy
from matplotlib.figure import Figure

from picardfit.certificate import AGREES, Certificate
from picardfit.data import Experiment
from picardfit.plots import plot_convergence, plot_fit, plot_residuals
from picardfit.records import write_text
from picardfit.result import Fit
from picardfit.tables import count, number, parameter_rows, statistics_lines, true_values, units

MOST_ROWS = 200  # of a table
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
table { border-collapse: collapse; font-size: .93em; }
th, td { text-align: left; padding: .28rem 1.5rem .28rem 0; border-bottom: 1px solid #eee; vertical-align: top; }
th { border-bottom: 1px solid #999; font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: #f6f6f6; padding: .7rem .9rem; overflow-x: auto; font: .87em/1.45 ui-monospace, Menlo, Consolas,
      monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: .6rem 0 1.2rem; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: #666; font-size: .88em; }
@page { size: A4; margin: 16mm; }
@media print { body { margin: 0; max-width: none; font-size: 10.5pt; padding: 0; }
  table { font-size: .85em; } th, td { padding-right: .8rem; }
  h2 { break-after: avoid; } figure, tr, .verdict { break-inside: avoid; } }
"""


def write_report(fit: Fit, path: str | Path) -> Path:
    """Write the report of a fit as one self-contained HTML file."""
    body = "\n".join(
        [
            _head(fit),
            _section("What was fitted", _model(fit)),
            _section("Data", _data(fit)),
            _section("Estimates", _estimates(fit)),
            _section("Data and fit", _pictures(fit)),
            _section("Evidence", _evidence(fit)),
            _section("Method", _method(fit)),
            _section("How to do it again", _again(fit)),
        ]
    )
    page = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>picardfit: report of a fit</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
    return write_text(path, page)


def verdict(fit: Fit) -> tuple[str, str, list[str]]:
    """(class, headline, sentences): what the fit means in plain words."""
    rows = parameter_rows(fit) if fit.solution is not None else []
    lost = [row[0] for row in rows if "not determined" in row[5]]
    bound = list(fit.certificate.at_bound) if fit.certificate else []
    sentences = [fit.message]
    if fit.solution is not None and fit.problem.noise is None and np.isfinite(fit.residual_variance):
        sentences.append(
            f"A measurement lies typically {number(fit.residual_variance**0.5, 2)} away from the fit."
        )
    if lost and fit.success:
        sentences.append(f"The data do not determine {_words(lost)}: other values fit about as well.")
    if bound:
        sentences.append(f"On a bound: {_words(bound)}; there is no interval for what a bound holds.")
    if not fit.success:
        return "failed", "The fit did not succeed.", sentences
    if lost or bound or fit.warnings or fit.status.name != "CONVERGED":
        return "mind", "The fit succeeded, with something to mind.", sentences
    return "fine", "The fit succeeded.", sentences


def _head(fit: Fit) -> str:
    kind, headline, sentences = verdict(fit)
    problem = fit.problem
    summary = (
        f"{count(problem.unknowns.count(), 'unknown')} from {count(problem.measurements, 'measurement')} in "
        f"{count(len(problem.experiments), 'experiment')}, written on {date.today():%d %B %Y}"
    )
    text = " ".join(escape(one) for one in sentences)
    return (
        f'<h1>Report of a fit</h1>\n<p class="quiet">{summary}</p>\n'
        f'<div class="verdict {kind}"><strong>{headline}</strong>{text}</div>'
    )


def _model(fit: Fit) -> str:
    model = fit.problem.model
    text = model.text.strip() or "\n".join(f"{state}' = {right}" for state, right in model.equations.items())
    shown = [f"<pre>{escape(text)}</pre>"]
    formulas = model.observable_formulas
    if all(name == right for name, right in formulas.items()):
        shown.append(f"<p>Observed: {escape(', '.join(formulas))}.</p>")
    else:
        lines = "\n".join(f"{name} = {right}" for name, right in formulas.items())
        shown.append(f"<p>Observables:</p><pre>{escape(lines)}</pre>")
    rows = [
        (
            name,
            *_belief(p.lower, p.upper, p.log, p.fixed),
            "one for each experiment" if p.local else "",
            p.unit,
        )
        for name, p in fit.problem.parameters.items()
    ]
    table = _table(("parameter", "from", "to", "", "", "unit"), rows, numeric=(1, 2))
    return "\n".join([*shown, "<p>What was known beforehand:</p>", table])


def _belief(lower: float, upper: float, log: bool, fixed: float | None) -> tuple[str, str, str]:
    if fixed is not None:
        return "", "", f"fixed at {number(fixed)}"
    low = "0" if log and lower == -inf else number(lower) if isfinite(lower) else "no bound"
    return low, number(upper) if isfinite(upper) else "no bound", "searched in its logarithm" if log else ""


def _data(fit: Fit) -> str:
    rows = [_experiment_row(one) for one in fit.problem.experiments]
    return _table(
        ("experiment", "times", "from", "to", "measured", "inputs", "known at the start"), rows, (1, 2, 3)
    )


def _experiment_row(one: Experiment) -> tuple[str, ...]:
    counts = np.isfinite(one.values).sum(axis=0)
    measured = ", ".join(f"{name} ({count})" for name, count in zip(one.observables, counts, strict=True))
    inputs = "; ".join(f"{name} = {signal.describe()}" for name, signal in one.inputs.items())
    initial = ", ".join(f"{k} = {v}" for k, v in one.initial.items() if isinstance(v, float | str))
    distinct = len(np.unique(one.times))
    return one.name, str(distinct), number(one.t0), number(float(one.times[-1])), measured, inputs, initial


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
    note = (
        "<p class='quiet'>name(0) is the state of that name at the start of an experiment. Intervals come from the "
        "curvature of the loss at the optimum (Fisher information); they hold when "
        f"{holds}.</p>"
    )
    statistics = "".join(f"<p>{escape(line)}</p>" for line in statistics_lines(fit))
    return _table(header, rows, numeric=(1, 2, 3, 4, 7)) + note + statistics


def _pictures(fit: Fit) -> str:
    parts = [_figure(plot_fit(fit), "Dots: data. Line: fit. Dashes: what was not measured.")]
    if fit.solution is not None:
        caption = "Data minus fit; each experiment has its own shape. Dashed: two standard deviations."
        parts.append(
            _figure(plot_residuals(fit), caption + " A pattern here means that the model misses something.")
        )
    return "\n".join(parts)


def _evidence(fit: Fit) -> str:
    certificate = fit.certificate
    if certificate is None:
        return "<p>There is no solution to check.</p>"
    intro = (
        "<p>The answer was checked from scratch. The initial values and parameters were given to SciPy's integrators, "
        "which know nothing of the path that the method found.</p>"
    )
    return intro + _table(("check", "result", ""), _checks(certificate), (1,))


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
    rows = [(one.name, _setting(getattr(fit.method, one.name))) for one in fields(fit.method)]
    took = f"{count(fit.iterations, 'iteration')} in {fit.seconds:.2f} s"
    if len(fit.starts) > 1 and fit.success:
        took += f"; {fit.hits} of {len(fit.starts)} starts reached this loss"
    settings = f"<details>\n<summary>Settings</summary>\n{_table(('setting', 'value'), rows)}\n</details>"
    parts = [f"<p>{escape(type(fit.method).__name__)}, {took}.</p>", settings]
    if len(fit.trace):
        caption = "How the search went: the loss may rise while the jumps between segments are closed."
        parts.append(_figure(plot_convergence(fit), caption))
    return "\n".join(parts)


def _setting(value: object) -> str:
    return value.value if isinstance(value, Enum) else str(value)


def _again(fit: Fit) -> str:
    from picardfit import __version__

    name = type(fit.method).__name__
    code = (
        f"import picardfit as pf\n\nfit = pf.fit(problem, pf.{name}(...), starts={len(fit.starts)}, seed={fit.seed})\n"
        f'fit.save("fit.json")          # the whole fit with its problem\n'
        f'fit = pf.load("fit.json")     # later: the same fit, nothing is computed again'
    )
    versions = ", ".join(
        f"{name} {version}"
        for name, version in (
            ("picardfit", __version__),
            ("Python", platform.python_version()),
            ("NumPy", np.__version__),
            ("SciPy", scipy.__version__),
        )
    )
    return f"<pre>{escape(code)}</pre>\n<p class='quiet'>{escape(versions)}</p>"


# ---- pieces of HTML ----------------------------------------------------------------------------------------


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Iterable[int] = ()) -> str:
    """Cells are escaped here; columns that are empty throughout are left out."""
    used = [k for k in range(len(header)) if any(row[k] for row in rows)]
    style = {k: ' class="n"' if k in set(numeric) else "" for k in used}
    head = "".join(f"<th{style[k]}>{escape(header[k])}</th>" for k in used)
    lines = ["".join(f"<td{style[k]}>{escape(row[k])}</td>" for k in used) for row in rows[:MOST_ROWS]]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p class='quiet'>… and {len(rows) - MOST_ROWS} more.</p>" if len(rows) > MOST_ROWS else ""
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f'<div class="wide">{table}</div>{more}'


def _figure(figure: Figure, caption: str) -> str:
    """The figure as inline SVG with its texts as text."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": caption}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(caption)}"', 1)
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _words(names: Sequence[str]) -> str:
    """`a, b and c`; the first ten only."""
    shown = [*names[:10], f"{len(names) - 10} more"] if len(names) > 10 else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
