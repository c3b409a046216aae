"""Which of many experiments are drawn: those that fit worst, and typical ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.plots.style import STYLE
from picardfit.errors import InputError, counted
from picardfit.problem.named_values import experiment_index

if TYPE_CHECKING:
    from picardfit.fit import Fit


@dataclass(frozen=True)
class Choice:
    """The experiments of a picture, in the order in which they are drawn."""

    names: tuple[str, ...]
    total: int  # of which these were chosen
    worst: int = (
        0  # how many of them, the first ones, were chosen for their misfit; 0: all or the first are drawn
    )

    @property
    def words(self) -> str:
        """What was chosen, and how; empty if everything is drawn."""
        drawn = len(self.names)
        if drawn == self.total:
            return ""
        if not self.worst:
            return f"{self.total - drawn} more experiments not drawn"
        typical = counted(drawn - self.worst, "typical one")
        return (
            f"{drawn} of {self.total} experiments: the {self.worst} that fit worst, the worst first, then {typical}, "
            f"whose misfit is next to the median"
        )


def misfits(fit: Fit) -> dict[str, float]:
    """The root mean square of the standardised residuals of every experiment: 1 for noise as assumed, NaN without."""
    found = {}
    for name in fit.problem.names:
        several = [values[np.isfinite(values)] for values in fit.residuals.get(name, {}).values()]
        every = np.concatenate([np.zeros(0), *several])
        found[name] = float(np.sqrt(np.mean(every**2))) if len(every) else np.nan
    return found


def chosen(fit: Fit, wanted: Iterable[str] | None = None, most: int = STYLE.experiments) -> Choice:
    """At most `most` experiments: of all of them the worst and as many typical ones, of those `wanted` the first."""
    if wanted is not None:
        names = _known(fit, wanted)
        return Choice(tuple(names[:most]), len(names))
    names, sizes = list(fit.problem.names), misfits(fit)
    ranked = sorted((n for n in names if np.isfinite(sizes[n])), key=lambda n: -sizes[n])
    if len(names) <= most or len(ranked) < most:
        return Choice(tuple(names[:most]), len(names))
    worst = ranked[: (most + 1) // 2]
    middle = float(np.median([sizes[n] for n in ranked]))
    typical = sorted(ranked[len(worst) :], key=lambda n: abs(sizes[n] - middle))[: most - len(worst)]
    return Choice((*worst, *typical), len(names), len(worst))


def _known(fit: Fit, names: Iterable[str]) -> list[str]:
    """The names, in their order; InputError for one that is not there."""
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise InputError("display.no_experiments")
    for name in wanted:
        experiment_index(fit.problem, name)
    return wanted
