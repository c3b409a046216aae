"""Fits and problems as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from picardfit.cli.common import console
from picardfit.display.text import (
    count,
    error_lines,
    number,
    other_values,
    parameter_rows,
    true_values,
    units,
)
from picardfit.errors import Audience

if TYPE_CHECKING:
    from rich.console import Console

    from picardfit.evidence.certificate import Certificate
    from picardfit.fit import Fit
    from picardfit.model.parameters import Parameter


@dataclass(frozen=True)
class Shown:
    """How much of a fit a terminal shows; the files hold everything."""

    rows: int = 60  # estimates: two screens
    alternatives: int = 3  # other optima that fit as well


def show_fit(fit: Fit, level: float = 0.95, shown: Shown = Shown()) -> None:
    """Print the estimates with intervals and verdicts, how the search ended, and the evidence for it."""
    out = console()
    out.print()
    if fit.solution is not None:
        rows = estimate_rows(fit, level)
        header = ("", "estimate", "std. error", f"{100 * level:g} % from", "to", "unit", "", "true value")
        print_table(out, header, rows[: shown.rows], numeric=(1, 2, 3, 4, 7))
        if len(rows) > shown.rows:
            out.print(f"... and {len(rows) - shown.rows} more in parameters.csv")
        for line in error_lines(fit):
            out.print(line, markup=False)
        out.print()
    out.print(fit.conclusion.sentence(Audience.COMMAND), markup=False)
    out.print(f"{count(fit.iterations, 'iteration')} in {fit.seconds:.2f} s, loss {number(fit.loss, 6)}")
    if fit.problem.noise is not None and fit.nllh is not None and fit.aic is not None:
        out.print(f"negative log-likelihood {number(fit.nllh, 6)}, AIC {number(fit.aic, 6)}")
    if len(fit.starts) > 1 and fit.success:
        out.print(f"{fit.hits} of {len(fit.starts)} starts reached this optimum")
    if fit.solution is not None:
        out.print(_second_opinion(fit.certificate))
    for other in alternatives(fit)[: shown.alternatives]:
        told = ", ".join(other_values(fit, other))
        out.print(f"\nWarning: other values fit as well: {told}", markup=False, style="yellow")
    out.print()


def _second_opinion(certificate: Certificate) -> str:
    """Whether the independent integration confirms the loss."""
    if math.isinf(certificate.reintegrated_loss):
        return "an independent integration finds no solution at these values"
    if certificate.agrees:
        return f"an independent integration gives the same loss up to a relative {certificate.mismatch:.0e}"
    return (
        f"an independent integration gives another loss, {number(certificate.reintegrated_loss, 6)}: "
        f"the path is not a solution of the equations"
    )


def estimate_rows(fit: Fit, level: float = 0.95) -> list[tuple[str, ...]]:
    """(name, estimate, standard error, from, to, unit, remark, true value), rounded by the standard error."""
    truth, given, said = true_values(fit), units(fit), verdicts(fit)
    errors, intervals = fit.standard_errors, fit.intervals(level)
    estimates = estimated_values(fit)
    rows: list[tuple[str, ...]] = []
    for name, value, error, low, high, remark in parameter_rows(fit, level):
        spread = errors.get(name, math.nan)
        if name in estimates and math.isfinite(spread) and error:
            value, error = rounded(estimates[name], spread), rounded(spread, spread)
            low, high = (rounded(end, spread) for end in intervals[name])
        true = number(truth[name]) if name in truth else ""
        rows.append((name, value, error, low, high, given.get(name, ""), remark or said.get(name, ""), true))
    return rows


def estimated_values(fit: Fit) -> dict[str, float]:
    """Parameters and estimated initial states under the names of `parameter_rows`."""
    values, layout = dict(fit.parameters), fit.problem.layout
    for e, experiment in enumerate(fit.problem.names):
        for column, state in enumerate(layout.initial_states):
            if layout.exists[e, column]:
                values[layout.label(e, column)] = fit.initial_states[experiment][
                    fit.problem.model.states[state]
                ]
    return values


def verdicts(fit: Fit) -> dict[str, str]:
    """The verdict on each unknown: whether the data determine it."""
    if fit.solution is None or not fit.status.converged:
        return {}
    return {name: one.kind for name, one in fit.identifiability().verdicts.items()}


def alternatives(fit: Fit) -> tuple[dict[str, float], ...]:
    """Parameter values far from the estimates that fit equally well, as found by the starts."""
    return fit.identifiability().alternatives if fit.success else ()


def rounded(value: float, error: float) -> str:
    """The value with the digits that its standard error justifies: two digits of the error."""
    if not (math.isfinite(value) and math.isfinite(error)) or error <= 0:
        return number(value)
    size = math.floor(math.log10(abs(value))) if value else 0
    places = max(1 - math.floor(math.log10(error)), 1 - size)  # two digits at least
    digits = max(1, min(size + 1 + places, 12))
    if -5 < size < 7 and places <= 12:
        return f"{value:.{max(places, 0)}f}" if places > 0 else f"{round(value, places):.0f}"
    return f"{value:.{digits - 1}e}"


def belief_row(name: str, one: Parameter) -> tuple[str, ...]:
    """(name, from, to, how it is searched, whether it is local, unit) of a parameter."""
    if one.fixed is not None:
        return name, "", "", f"fixed at {number(one.fixed)}", "", one.unit
    low, high = ("no bound" if math.isinf(end) else number(end) for end in one.bounds)
    return (
        name,
        low,
        high,
        "in its logarithm" if one.log else "",
        "one for each experiment" if one.local else "",
        one.unit,
    )


def print_table(
    out: Console, header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()
) -> None:
    """Print rows as a table without empty columns; numbers never wrap."""
    from rich.table import Table
    from rich.text import Text

    used = [k for k in range(len(header)) if any(row[k] for row in rows)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for k in used:
        table.add_column(
            header[k], justify="right" if k in numeric else "left", no_wrap=k in numeric, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(row[k]) for k in used))
    out.print(table)
