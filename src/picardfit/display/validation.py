"""A validation as text, HTML and record."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from picardfit.display.markup import draw, picture, table
from picardfit.display.text import columns, count, number
from picardfit.display.verdicts import words
from picardfit.errors import counted

if TYPE_CHECKING:
    from picardfit.inference.validation import Score, Validation

HEADER = ("experiment", "observable", "values", "RMSE", "NRMSE", "R²", "fit")
NUMERIC = (2, 3, 4, 5, 6)
MOST_ROWS = 60  # experiments times observables that are printed


def score_rows(found: Validation) -> list[tuple[str, ...]]:
    """The cells under HEADER; after several experiments also all together."""
    rows = [
        _cells(name, observable, one)
        for name, several in found.scores.items()
        for observable, one in several.items()
    ]
    if len(found.scores) > 1:
        rows += [_cells("all", observable, one) for observable, one in found.overall.items()]
    return rows


def _cells(name: str, observable: str, one: Score) -> tuple[str, ...]:
    shares = (f"{100 * one.nrmse:.1f} %", f"{one.r_squared:.3f}", f"{one.fit_percent:.1f} %")
    told = ("-" if "nan" in text else text for text in shares)
    return name, observable, str(one.count), number(one.rmse, 3), *told


def validation_lines(found: Validation) -> list[str]:
    """How it was done, how large the errors are, and what the residuals say."""
    lines = (
        ["Each experiment is predicted by a fit to all others."]
        if found.left_out
        else ["Parameters are held."]
    )
    fitted = list(dict.fromkeys(label for labels in found.fitted.values() for label in labels))
    if fitted:
        lines[0] += f" Fitted to the data shown here: {words(fitted, 6)}."
    elif not found.left_out:
        lines[0] += " Nothing was fitted to the data shown here."
    if found.ratio == found.ratio:
        lines.append(
            f"The mean square of the errors is {number(found.ratio, 3)} times that of the fit's noise."
        )
    lines += map(str, found.remarks)
    lines.append(str(found.diagnostics).split("\n", 1)[0])
    if found.missing:
        lines.append(
            f"Interrupted before {counted(len(found.missing), 'experiment')}: {words(found.missing)}."
        )
    return lines


def validation_text(found: Validation) -> str:
    rows = score_rows(found)
    shown = columns([HEADER, *rows[:MOST_ROWS]], left=(0, 1))
    if len(rows) > MOST_ROWS:
        shown.append(f"... and {len(rows) - MOST_ROWS} more (.scores)")
    return "\n".join([*shown, "", *validation_lines(found)])


def validation_html(found: Validation) -> str:
    parts = [table(HEADER, score_rows(found), NUMERIC, MOST_ROWS)]
    parts += [draw("paragraph", line) for line in validation_lines(found)]
    parts.append(picture(found.plot(), "Dots: data. Line: prediction."))
    return str(draw("box", f"Validation on {count(len(found.scores), 'experiment')}", parts))


def validation_record(found: Validation) -> dict[str, object]:
    """The validation for machines."""
    return {
        "left_out": found.left_out,
        "scores": {n: {o: asdict(one) for o, one in several.items()} for n, several in found.scores.items()},
        "overall": {name: asdict(one) for name, one in found.overall.items()},
        "ratio": found.ratio,
        "probability": found.probability,
        "fitted": found.fitted,
        "initial_states": found.initial_states,
        "parameters": found.parameters,
        "ljung_box": {name: one.probability for name, one in found.diagnostics.autocorrelation.items()},
        "missing": found.missing,
        "remarks": [*map(str, found.remarks), *map(str, found.diagnostics.remarks)],
    }
