"""Verdicts as text: what a fit means, what the data determine, what a model could determine, what residuals say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from picardfit.display.text import columns, number, other_values, probability
from picardfit.errors import Status, counted
from picardfit.inference.identifiability import Determination, Identifiability, Verdict
from picardfit.inference.structural import Group, LocalIdentifiability, Structure

if TYPE_CHECKING:
    from picardfit.evidence.correlations import Correlogram
    from picardfit.evidence.residual_tests import Diagnostics
    from picardfit.fit import Fit
    from picardfit.inference.combinations import Combination

TESTS_HEADER = ("test", "statistic", "degrees", "probability")
MOST_VERDICTS, MOST_COMBINATIONS = 60, 12  # lines that are printed of each kind
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def percent(error: float) -> str:
    """A relative standard error in words: `± 12 %`."""
    if math.isnan(error):
        return "± ?"
    if math.isinf(error):
        return "± any amount"
    shown = 100 * error
    if shown > 1000:
        return "± over 1000 %"
    return f"± {shown:.2g} %" if round(shown) < 100 else f"± {shown:.0f} %"


def spread(one: Verdict) -> str:
    """The standard error of an unknown: `± 38 %`, or `± 0.2` where the unknown may be zero."""
    return percent(one.error) if one.relative else f"± {number(one.error * one.unit, 2)}"


def verdict_words(one: Verdict) -> str:
    """What the data say about one unknown, without its name."""
    told = spread(one)
    if one.state_size is not None:
        told += f" (its state reaches {number(one.state_size, 2)})"
    if math.isinf(one.error):
        said = "not determined by these data: any value fits as well"
    elif math.isnan(one.error):
        said = f"{number(one.value, 4)}, but no measurement is left to estimate the noise from"
    elif one.kind is not Determination.NONE:
        said = f"{'locally ' if one.alternatives else ''}{one.kind}, {number(one.value, 4)} {told}"
    else:
        said = f"not determined{' within its bounds' if one.exceeds_bounds else ''} by these data ({told})"
    if one.at_bound:
        said += "; its estimate lies at a bound"
    if one.alternatives:
        verb = "fits" if len(one.alternatives) == 1 else "fit"
        said += f"; {', '.join(number(value, 4) for value in one.alternatives)} {verb} as well"
    return said


def verdict_text(one: Verdict) -> str:
    return f"{one.name}: {verdict_words(one)}"


def combination_text(one: Combination) -> str:
    return f"{one.text} {percent(one.error)}"


def identifiability_text(found: Identifiability) -> str:
    """The verdicts, then the directions and combinations, then other optima."""
    lines = [verdict_text(one) for one in found.verdicts.values()]
    if len(lines) > MOST_VERDICTS:
        lines = [*lines[:MOST_VERDICTS], f"... and {len(lines) - MOST_VERDICTS} more (.verdicts)"]
    if found.undetermined:
        lines += ["", "Directions these data do not determine:"]
        lines += [f"  {one.text}: {percent(one.error)}" for one in found.undetermined[:MOST_COMBINATIONS]]
    poor = {name for name, one in found.verdicts.items() if one.kind is not Determination.DETERMINED}
    only = [one for one in found.determined if poor.issuperset(one.names)]
    better = [one for one in found.determined if one not in only]
    for title, several in (("Determined only together:", only), ("Better determined together:", better)):
        if several:
            told = [
                f"  {words(one.names, len(one.names))}: {combination_text(one)}"
                for one in several[:MOST_COMBINATIONS]
            ]
            lines += ["", title, *told]
    for other in found.alternatives:
        values = ", ".join(f"{name} = {number(value, 4)}" for name, value in other.items())
        lines += ["", f"Another optimum fits as well (locally identifiable only): {values}"]
    return "\n".join(lines)


def group_text(group: Group) -> str:
    """Which combinations of a group of unknowns can be determined."""
    if len(group.names) == group.lost:
        return f"{', '.join(group.names)}: {'do' if group.lost > 1 else 'does'} not affect what is measured"
    found = ", ".join(one.text for one in group.determined)
    if hidden := len(group.names) - group.lost - len(group.determined):
        combinations = "one combination" if hidden == 1 else f"{hidden} combinations"
        found = f"{f'{found}, and ' if found else ''}{combinations} of them without a simple form"
    return f"{words(group.names, len(group.names))}: only {found}"


def structure_text(found: Structure) -> str:
    """The verdict on structural identifiability, and how clear it is."""
    count = len(found.unknowns)
    if found.identifiable:
        lines = [f"All {count} unknowns are locally identifiable: {', '.join(found.unknowns)}."]
    else:
        fine = [name for name, verdict in found.verdicts.items() if verdict is LocalIdentifiability.YES]
        lines = [f"Of {count} unknowns only {counted(found.rank, 'combination')} can be determined."]
        lines += [f"  locally identifiable: {', '.join(fine) or 'none'}", "  not identifiable:"]
        lines += [f"    {group_text(group)}" for group in found.groups]
    if found.sampled_rank < found.rank:
        lines.append(
            f"The planned sampling times are too few: they determine {counted(found.sampled_rank, 'combination')}, "
            f"continuous measurement {found.rank}."
        )
    size = f"a factor of {found.gap:.1g}" if found.clear else f"only a factor of {found.gap:.2g}: not clear"
    agreement = f"Rank {found.rank} at {found.agreeing} of {found.points} random values"
    lines.append(f"{agreement}; the gap in the singular values is {size}.")
    return "\n".join(lines)


def diagnostics_text(found: Diagnostics) -> str:
    """What the residuals say, in one line; then the tests."""
    line = " ".join(map(str, found.remarks)) if found.remarks else f"residuals: {_unremarkable(found)}."
    rows = tests_rows(found)
    if not rows:
        return line
    lines = [line, "", *columns([TESTS_HEADER, *rows], left=(0,))]
    if found.irregular and found.autocorrelation:
        lines.append(f"Times are irregular in {words(found.irregular, 3)}: a lag counts samples, not time.")
    return "\n".join(lines)


def _unremarkable(found: Diagnostics) -> str:
    """What is said of residuals that cause no remark."""
    if not found.tested:
        return "too few to test"
    if found.notable is None:
        return "nothing remarkable"
    tests = found.probabilities
    least = f"the least of {len(tests)} probabilities is {probability(tests[found.notable])}"
    return f"no clear sign of a misfit; {least} ({found.notable})"


def tests_rows(found: Diagnostics) -> list[tuple[str, str, str, str]]:
    """The cells under TESTS_HEADER: every test of the residuals that could be made; none of residuals of rounding."""
    correlograms, rows = found.correlograms, []
    for test, chance in found.probabilities.items():
        one = correlograms.get(test)
        cells = ("", "") if one is None else (number(one.statistic, 4), str(one.freedom))
        rows.append((test, *cells, probability(chance)))
    return rows


def correlogram_text(one: Correlogram, level: float = 0.95) -> str:
    """The correlations by lag, with the band in which they lie if the model is right."""
    low, high = one.band(level)
    rows = [("lag", "correlation", f"{100 * level:g} % from", "to", "")]
    for k, value, below, above in zip(one.lags, one.values, low, high, strict=True):
        cells = (f"{value:.3f}", f"{below:.3f}", f"{above:.3f}")
        rows.append((str(k), *cells, "" if below <= value <= above else "outside"))
    told = f"statistic {number(one.statistic, 4)} with {one.freedom} degrees of freedom, "
    return "\n".join([*columns(rows, left=(4,)), f"{told}probability {probability(one.probability)}"])


class Summary(NamedTuple):
    """`kind`: fine, mind (there is something to know) or failed."""

    kind: str
    headline: str
    sentences: list[str]


def summary(fit: Fit, found: Identifiability | None = None) -> Summary:
    """What the fit means in plain words; `found`: its verdicts, if they are known already."""
    if found is None and fit.status.converged:
        found = fit.identifiability()
    sentences, doubts = [], bool(fit.warnings) or fit.status is not Status.CONVERGED
    if fit.success and found is not None:
        sentences += _together(found)
        doubts |= any(one.kind is not Determination.DETERMINED for one in found.verdicts.values())
    if fit.solution is not None and fit.certificate.at_bound:
        bound = words(fit.certificate.at_bound)
        sentences.append(f"At a bound: {bound}; the bounds, not the data, set these values.")
        doubts = True
    if fit.success and found is not None and found.alternatives:
        others = words(other_values(fit, found.alternatives[0]))
        sentences.append(f"Other values fit as well: {others}; see the searches.")
        doubts = True
    if fit.status.converged:
        if fit.problem.noise is None and math.isfinite(fit.residual_variance):
            size = number(fit.residual_variance**0.5, 2)
            sentences.append(f"Measurements typically lie {size} away from the fit.")
        sentences += map(str, fit.diagnostics.remarks)
    if not fit.success or found is None:
        return Summary("failed", "The fit did not succeed.", [fit.message, *sentences])
    sentences.insert(0, f"The fit succeeded. {fit.message}")
    return Summary("mind" if doubts else "fine", determined_words(fit, found), sentences)


def determined_words(fit: Fit, found: Identifiability) -> str:
    """`All six parameters are determined; b only to ± 38 %.`"""
    own = {name: one for name, one in found.verdicts.items() if name in fit.parameters}
    if not math.isfinite(fit.residual_variance):
        return "There are estimates but no standard errors: there are no more measurements than unknowns."
    if not found.verdicts:
        return "Nothing was left to estimate."
    return _judged_words("parameter", own) if own else _judged_words("initial state", found.verdicts)


def _judged_words(kind: str, judged: Mapping[str, Verdict], most: int = 4) -> str:
    """How many unknowns of a kind are determined, and the first `most` of those that are not well determined."""
    total = len(judged)
    weak = [name for name, one in judged.items() if one.kind is Determination.WEAK]
    lost = [name for name, one in judged.items() if one.kind is Determination.NONE]
    sure = total - len(lost)
    if total == 1:
        parts = [f"The {kind} {next(iter(judged))} is {'not ' if lost else ''}determined"]
    elif not sure:
        return f"None of the {_numeral(total)} {kind}s is determined by these data: {words(lost)}."
    elif lost:
        few, verb = _numeral(sure).capitalize(), "is" if sure == 1 else "are"
        parts = [f"{few} of {_numeral(total)} {kind}s {verb} determined"]
    else:
        parts = [f"{'Both' if total == 2 else f'All {_numeral(total)}'} {kind}s are determined"]
    if weak:
        told = [f"{name} only to {spread(judged[name])}" for name in weak[:most]]
        told += [f"{len(weak) - most} more only roughly"] if len(weak) > most else []
        parts.append(words(told))
    if lost and total > 1:
        parts.append(f"the data do not determine {words(lost)}")
    if not weak and not lost:
        worst = max(judged, key=lambda name: judged[name].error)
        parts[0] += f" to {spread(judged[worst])}"
        parts[0] += f" or better (least certain: {worst})" if total > 1 else ""
    if several := [name for name, one in judged.items() if one.alternatives]:
        parts.append(
            f"but only near this optimum: other values of {words(several, most)} fit the data as well"
        )
    return "; ".join(parts) + "."


def _together(found: Identifiability, most: int = 3) -> list[str]:
    """What is determined only together: combinations of unknowns none of which is determined alone."""
    poor = set(found.not_determined)
    told = [f"{one.text} ({percent(one.error)})" for one in found.determined if poor.issuperset(one.names)]
    return [f"Determined only together: {words(told[:most])}."] if told else []


def words(names: Sequence[str], most: int = 10) -> str:
    """`a, b and c`; the first `most` only."""
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _numeral(n: int) -> str:
    """`six`, `12`."""
    return NUMBER_WORDS[n] if n < len(NUMBER_WORDS) else str(n)
