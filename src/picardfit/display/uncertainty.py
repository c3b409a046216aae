"""Text of what surrounds an estimate: certificate, profile, bootstrap, bands, design, analysis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.text import columns, number
from picardfit.display.verdicts import percent
from picardfit.errors import listing
from picardfit.inference.profile_continuation import End

if TYPE_CHECKING:
    from picardfit.evidence.certificate import Certificate
    from picardfit.inference.analysis import Analysis
    from picardfit.inference.bands import Bands
    from picardfit.inference.bootstrap import Bootstrap
    from picardfit.inference.design import Design
    from picardfit.inference.profile import Profile

MOST_NAMES = 12  # unknowns that are named in one line
MOST_TIMES, SIDE_BY_SIDE = 10, 3  # rows of a table of bands, and bands in one table
MOST_PARAMETERS, MOST_CANDIDATES = 12, 30  # columns and rows of a table of designs
ENDS = {  # how one side of a profile ended, unless its end was found
    End.BOUND: "the bound is reached first",
    End.AT_BOUND: "the estimate lies at its bound",
    End.OPEN: "not determined: the threshold is never reached",
    End.FAILED: "could not be followed further",
    End.INTERRUPTED: "was interrupted",
}


def certificate_text(found: Certificate) -> str:
    if not found.segments:
        return "There is no finite answer to check."
    lost = "not judged: the fit did not converge" if found.undetermined is None else _some(found.undetermined)
    return "\n".join(
        [
            f"largest |u - Pu|           {found.picard_residual:.1e} of the states' scale",
            f"largest jump at a knot     {found.largest_jump:.1e} of the states' scale",
            f"loss along the path        {found.loss:.9g}",
            f"loss, integrated by SciPy  {found.reintegrated_loss:.9g} (differs by {found.mismatch:.1e})",
            f"decrease still promised    {found.gradient:.1e} of the loss",
            f"equations as compiled      {_formulas(found.formula_error)}",
            f"at a bound                 {_some(found.at_bound)}",
            f"not determined             {lost}",
            f"mesh                       {found.segments} segments with {found.nodes} nodes",
        ]
    )


def _formulas(error: float | None) -> str:
    if error is None:
        return "not checked against their text"
    return "as written, to rounding" if error == 0 else f"differ from those written by {error:.1e}"


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return (", ".join(names[:MOST_NAMES]) or "none") + more


def profile_text(found: Profile) -> str:
    low, high = found.interval()
    lines = [
        f"{found.name}: {found.estimate:.5g}, {100 * found.level:g} % profile interval [{low:.5g}, {high:.5g}]"
    ]
    for word, end in zip(("below", "above"), found.ends, strict=True):
        if end in ENDS:
            lines.append(f"  {word}: {ENDS[end]}")
    lines += [f"  {remark}" for remark in found.remarks]
    if found.better is not None:
        lines.append(
            "  a lower objective than that of the fit was found on the way: fit again from profile.better"
        )
    return "\n".join(lines)


def bootstrap_text(found: Bootstrap) -> str:
    errors, bias, intervals = found.standard_errors, found.bias, found.intervals()
    rows: list[tuple[str, ...]] = [("", "estimate", "std. error", "bias", "95 % from", "to")]
    for name, value in found.estimates.items():
        numbers = (value, errors[name], bias[name], *intervals[name])
        rows.append((name, *(f"{number:.4g}" for number in numbers)))
    head = f"{found.kind.value} bootstrap: {len(found.unknowns)} fits"
    head += f", {found.failures} failed" if found.failures else ""
    head += f", {found.missing} not done (interrupted)" if found.missing else ""
    return "\n".join([head, *columns(rows, left=(0,))])


def bands_text(found: Bands) -> str:
    every = list({**found.states, **found.observables}.items())
    lines, first = [f"{100 * found.level:g} % bands"], found.times[:MOST_TIMES]
    when = [number(time) for time in first] if found.calendar is None else found.calendar.texts(first)
    for k in range(0, len(every), SIDE_BY_SIDE):
        some = every[k : k + SIDE_BY_SIDE]
        rows = [
            (
                "time" if found.calendar is None else "date",
                *(word for name, _ in some for word in (name, "low", "high")),
            )
        ]
        for i, time in enumerate(when):
            values = (part[i] for _, band in some for part in (band.value, band.low, band.high))
            rows.append((time, *map(number, values)))
        lines += columns(rows)
    if len(found.times) > MOST_TIMES:
        lines.append(f"... and {len(found.times) - MOST_TIMES} more times (bands.to_frame())")
    return "\n".join(lines)


def design_text(found: Design) -> str:
    shown = list(found.before)[:MOST_PARAMETERS]
    rows = [("", found.criterion, *shown), ("now", *_errors(found.value_before, found.before, shown))]
    if found.plan is None:
        rows += [
            (f"+ {one.name}", *_errors(one.value, one.errors, shown))
            for one in found.ranking[:MOST_CANDIDATES]
        ]
    rows.append(("with all chosen", *_errors(found.value_after, found.after, shown)))
    title = "Expected relative standard errors (bounds and priors count as knowledge):"
    last = f"{'sample at' if found.plan is not None else 'chosen'}: {choice_words(found)}"
    lines = [title, *columns(rows, left=(0,)), last]
    if not found.worthwhile:
        lines.append(
            "That adds next to nothing by this criterion: look for other inputs, times or observables."
        )
    return "\n".join(lines)


def choice_words(found: Design) -> str:
    """What was chosen: `0 (twice), 2` for times, or the names of experiments."""
    if found.plan is None:
        return ", ".join(found.chosen)
    often = {1: "", 2: " (twice)"}
    counts = sorted(Counter(found.times).items())
    return ", ".join(f"{time:g}{often.get(n, f' ({n} times)')}" for time, n in counts)


def _errors(value: float, errors: Mapping[str, float], shown: Sequence[str]) -> tuple[str, ...]:
    return (percent(value), *(percent(errors[name]) for name in shown))


def analysis_text(found: Analysis) -> str:
    sets = (found.on_ball, found.along_data)
    table = [
        ("", "on the ball B_a", "along the data"),
        ("a = 2 sup |x|", *(number(c.radius, 4) for c in sets)),
        ("K_x = sup |df/dx|", *(number(c.state_slope, 4) for c in sets)),
        ("K_theta = sup |df/dtheta|", *(number(c.parameter_slope, 4) for c in sets)),
        ("M = sup |f|", *(number(c.speed, 4) for c in sets)),
        ("T = min(1/K_x, a/2M)", *(number(c.segment_length, 4) for c in sets)),
        ("J, segments of length T", *(number(found.segments(c.segment_length), 4) for c in sets)),
    ]
    lines = [f"{name:<26}{ball:>16}{data:>16}" for name, ball, data in table]
    return "\n".join([*lines, "", *_analysis_sentences(found)])


def _analysis_sentences(found: Analysis) -> list[str]:
    """What the numbers of an analysis mean, one sentence a line."""
    said = [
        f"All of these are sampled estimates ({found.samples} points and a local search): lower bounds of the suprema.",
        "The Picard operator is guaranteed to contract on segments shorter than T on the ball; T along the data is "
        "what matters in practice, near the start's path and parameters.",
        f"Measured there on segments of length {number(found.segment_length, 4)}: P changes distances by a factor of "
        f"up to {number(found.contraction, 3)}; the theorem allows T K_x = "
        f"{number(found.segment_length * found.along_data.state_slope, 3)}, and P contracts where this is below 1.",
    ]
    if not np.isfinite(found.on_ball.state_slope):
        said.append("The equations are not finite everywhere on the ball: the theorem gives no T for it.")
    if found.unbounded:
        said.append(
            f"These parameters have no bounds and were varied around the start: {listing(found.unbounded)}."
        )
    return [*said, _remark_1(found)]


def _remark_1(found: Analysis) -> str:
    """What Remark 1 of the paper gives for the step sizes."""
    where = f"L_lambda,n (lambda = {found.continuity:g}, {found.unknowns} unknowns)"
    if np.isnan(found.convexity):
        why = "because there are too many unknowns or it is not finite"
        return f"Remark 1: the curvature of {where} was not measured, {why}."
    if found.convexity == 0:
        return (
            f"Remark 1: mu = 0, so {where} is not strongly convex at the start and the remark gives no step sizes "
            f"(K_L = {number(found.gradient_slope, 3)})."
        )
    return (
        f"Remark 1: {where} has mu = {number(found.convexity, 3)} and K_L = {number(found.gradient_slope, 3)} at the "
        f"start, hence alpha = {number(found.rate, 3)} and sigma = {number(found.sigma, 3)}."
    )
