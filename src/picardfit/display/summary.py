"""What a fit means, in a headline and a few sentences, for reports and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from picardfit.display.text import count, number, other_values
from picardfit.display.verdicts import percent, spread
from picardfit.errors import Status

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.inference.identifiability import Identifiability, Verdict

NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Summary(NamedTuple):
    """`kind`: fine, mind (there is something to know) or failed."""

    kind: str
    headline: str
    sentences: list[str]


def is_judged(fit: Fit) -> bool:
    """Whether the fit converged, so that it has standard errors and verdicts."""
    return fit.solution is not None and fit.status.converged


def summary(fit: Fit, found: Identifiability | None = None) -> Summary:
    """What the fit means in plain words; `found`: its verdicts, if they are known already."""
    if found is None and is_judged(fit):
        found = fit.identifiability()
    sentences, doubts = [], bool(fit.warnings) or fit.status is not Status.CONVERGED
    if fit.success and found is not None:
        sentences += _together(found)
        doubts |= any(one.kind != "determined" for one in found.verdicts.values())
    if fit.solution is not None and fit.certificate.at_bound:
        bound = words(fit.certificate.at_bound)
        sentences.append(f"On a bound: {bound}; a bound, not the data, sets these values.")
        doubts = True
    if fit.success and found is not None and found.alternatives:
        others = words(other_values(fit, found.alternatives[0]))
        sentences.append(f"Other values fit as well: {others}; see the starts.")
        doubts = True
    if is_judged(fit):
        if fit.problem.noise is None and isfinite(fit.residual_variance):
            size = number(fit.residual_variance**0.5, 2)
            sentences.append(f"A measurement lies typically {size} away from the fit.")
        sentences += map(str, fit.diagnostics.remarks)
    if not fit.success or found is None:
        return Summary("failed", "The fit did not succeed.", [fit.message, *sentences])
    sentences.insert(0, f"The fit succeeded. {fit.message}")
    return Summary("mind" if doubts else "fine", determined_words(fit, found), sentences)


def determined_words(fit: Fit, found: Identifiability) -> str:
    """`All six parameters are determined; b only to ± 38 %.`"""
    own = {name: one for name, one in found.verdicts.items() if name in fit.parameters}
    if not isfinite(fit.residual_variance):
        return "There are estimates but no errors: no more was measured than is unknown."
    if not found.verdicts:
        return "Nothing was left to estimate."
    return _judged_words("parameter", own) if own else _judged_words("initial state", found.verdicts)


def _judged_words(kind: str, judged: Mapping[str, Verdict], most: int = 4) -> str:
    """How many unknowns of a kind are determined, and the first `most` of those that are not well determined."""
    total = len(judged)
    weak = [name for name, one in judged.items() if one.kind == "weakly"]
    lost = [name for name, one in judged.items() if one.kind == "not determined"]
    sure = total - len(lost)
    if total == 1:
        parts = [f"The {kind} {next(iter(judged))} is {'not ' if lost else ''}determined"]
    elif not sure:
        return f"None of the {_number_words(total, kind)} is determined by these data: {words(lost)}."
    elif lost:
        few = NUMBER_WORDS[sure].capitalize() if sure < len(NUMBER_WORDS) else str(sure)
        parts = [f"{few} of {_number_words(total, kind)} {'is' if sure == 1 else 'are'} determined"]
    else:
        parts = [f"{f'Both {kind}s' if total == 2 else f'All {_number_words(total, kind)}'} are determined"]
    if weak:
        told = [f"{name} only to {spread(judged[name])}" for name in weak[:most]]
        told += [f"{len(weak) - most} more only roughly"] if len(weak) > most else []
        parts.append(words(told))
    if lost and total > 1:
        parts.append(f"the data do not determine {words(lost)}")
    if not weak and not lost:
        worst = max(judged, key=lambda name: judged[name].error)
        parts[0] += f" to {spread(judged[worst])}"
        parts[0] += f" or better (the least: {worst})" if total > 1 else ""
    return "; ".join(parts) + "."


def _together(found: Identifiability, most: int = 3) -> list[str]:
    """What is determined only together: combinations of unknowns none of which is determined alone."""
    poor = {name for name, one in found.verdicts.items() if one.kind == "not determined"}
    told = [f"{one.text} ({percent(one.error)})" for one in found.determined if poor.issuperset(one.names)]
    return [f"Determined only together: {words(told[:most])}."] if told else []


def words(names: Sequence[str], most: int = 10) -> str:
    """`a, b and c`; the first `most` only."""
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _number_words(n: int, word: str) -> str:
    """`six parameters`, `12 parameters`."""
    return count(n, word).replace(str(n), NUMBER_WORDS[n], 1) if n < len(NUMBER_WORDS) else count(n, word)
