"""Models compared, as text, HTML and records."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from picardfit.display.markup import draw, table
from picardfit.display.text import cell, columns, count, number

if TYPE_CHECKING:
    from picardfit.inference.model_comparison import Differences, ModelComparison

HEADER = ("model", "estimated", "log-likelihood", "AIC", "AICc", "BIC", "difference", "weight")
NUMERIC = tuple(range(1, len(HEADER)))


def comparison_rows(found: ModelComparison) -> list[tuple[str, ...]]:
    """The cells under HEADER, the best model first."""
    return [
        (
            one.name,
            str(one.estimated),
            number(one.log_likelihood, 6),
            number(one.aic, 6),
            cell(one.aicc, 6) or "-",
            number(one.bic, 6),
            f"{one.difference:.2f}",
            f"{one.weight:.3f}" if one.weight >= 0.0005 else f"{one.weight:.0e}",
        )
        for one in found.candidates
    ]


def difference_words(one: Differences) -> str:
    """`equations of prey; parameters + K - b; noise`; empty where nothing differs."""
    parts = [f"equations of {', '.join(one.equations)}"] if one.equations else []
    parts += [f"observables {', '.join(one.observables)}"] if one.observables else []
    added = f" + {', '.join(one.added)}" if one.added else ""
    removed = f" - {', '.join(one.removed)}" if one.removed else ""
    parts += [f"parameters{added}{removed}"] if added or removed else []
    parts += [f"bounds, scale or prior of {', '.join(one.changed)}"] if one.changed else []
    parts += ["initial states"] if one.initial else []
    parts += ["noise"] if one.noise else []
    return "; ".join(parts)


def comparison_lines(found: ModelComparison) -> list[str]:
    """What the table means, what differs, and what to mind."""
    lines = [
        f"{count(found.measurements, 'measurement')}; differences and weights by {found.criterion}, smaller is better."
    ]
    for one in found.candidates[1:]:
        differs = difference_words(one.differs) or "nothing in equations, parameters and noise"
        lines.append(f"{one.name} differs from {found.best} in: {differs}.")
    close = [one.name for one in found.candidates[1:] if one.difference < 2]
    if close:
        lines.append(f"A difference below 2 says little: {', '.join(close)} may be as good as {found.best}.")
    return [*lines, *map(str, found.remarks)]


def comparison_text(found: ModelComparison) -> str:
    rows = columns([HEADER, *comparison_rows(found)], left=(0,))
    return "\n".join([*rows, "", *comparison_lines(found)])


def comparison_html(found: ModelComparison) -> str:
    parts = [table(HEADER, comparison_rows(found), NUMERIC)]
    parts += [draw("paragraph", line) for line in comparison_lines(found)]
    return str(draw("box", f"Best by {found.criterion}: {found.best}", parts))


def comparison_record(found: ModelComparison) -> dict[str, object]:
    """The comparison for machines."""
    return {
        "criterion": found.criterion,
        "measurements": found.measurements,
        "best": found.best,
        "models": [asdict(one) for one in found.candidates],
        "remarks": list(map(str, found.remarks)),
    }
