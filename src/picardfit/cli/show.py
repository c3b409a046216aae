"""Fits and problems as tables on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from picardfit.cli.common import console, print_table
from picardfit.display.text import (
    ESTIMATES_NUMERIC,
    Estimate,
    agreement,
    cell,
    count,
    error_lines,
    estimates,
    number,
    other_values,
    profile_row,
    true_values,
)
from picardfit.errors import Audience

if TYPE_CHECKING:
    from picardfit.evidence.certificate import Certificate
    from picardfit.fit import Fit


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
        rows = estimate_cells(fit, level)
        header = (
            "",
            "estimate",
            "std. error",
            f"{100 * level:g} % from",
            "to",
            "also fits",
            "unit",
            "",
            "true value",
        )
        print_table(out, header, rows[: shown.rows], numeric=ESTIMATES_NUMERIC)
        if len(rows) > shown.rows:
            out.print(f"... and {len(rows) - shown.rows} more in parameters.csv")
        for line in error_lines(fit):
            out.print(line, markup=False)
        out.print()
    out.print(fit.conclusion.sentence(Audience.COMMAND), markup=False)
    out.print(f"{count(fit.iterations, 'iteration')} in {fit.seconds:.2f} s, loss {number(fit.loss, 6)}")
    if fit.status.converged and fit.nllh is not None:
        criteria = {"AIC": fit.aic, "AICc": fit.aicc, "BIC": fit.bic}
        values = [f"{name} {number(value, 6)}" for name, value in criteria.items() if value is not None]
        out.print(", ".join([f"negative log-likelihood {number(fit.nllh, 6)}", *values]))
    if len(fit.searches) > 1 and fit.success:
        out.print(agreement(fit))
    if fit.solution is not None:
        out.print(_second_opinion(fit.certificate))
    for remark in fit.diagnostics.remarks if fit.status.converged else ():
        out.print(remark.sentence(Audience.COMMAND), markup=False)
    for other in alternatives(fit)[: shown.alternatives]:
        told = ", ".join(other_values(fit, other))
        out.print(f"\nWarning: other values fit as well: {told}", markup=False, style="yellow")
    out.print()


def _second_opinion(certificate: Certificate) -> str:
    """Whether the independent integration confirms the loss."""
    if math.isinf(certificate.reintegrated_loss):
        return "an independent integration gives no finite loss at these values"
    if certificate.agrees:
        return f"an independent integration gives the same loss, to a relative difference of {certificate.mismatch:.0e}"
    return (
        f"an independent integration gives another loss, {number(certificate.reintegrated_loss, 6)}: "
        f"the path is not a solution of the equations"
    )


def estimate_cells(fit: Fit, level: float) -> list[tuple[str, ...]]:
    """(name, estimate, error, from, to, in another optimum, unit, remark, true value), rounded by the error."""
    truth, rows = true_values(fit.problem), []
    for one, remark in remarked(fit, level):
        written: Callable[[float], str] = number
        numbers = [number(one.value), cell(one.error, 2), cell(one.low), cell(one.high)]
        if one.error is not None and math.isfinite(one.error):
            ends = (one.value, one.error, one.low, one.high)
            written = partial(rounded, error=one.error)
            numbers = [written(value) for value in ends if value is not None]
        rows.append((one.name, *numbers, cell(one.rival), one.unit, remark, cell(truth.get(one.name))))
        rows += [(*row, "") for row in profile_row(one, written)]
    return rows


def remarked(fit: Fit, level: float) -> list[tuple[Estimate, str]]:
    """Every estimate with its remark: the verdict on it where there is nothing else to say."""
    judged = fit.identifiability().verdicts if fit.status.converged else {}
    found = []
    for one in estimates(fit, level):
        verdict = judged[one.name].kind if one.name in judged else ""
        found.append((one, one.remark or verdict))
    return found


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
