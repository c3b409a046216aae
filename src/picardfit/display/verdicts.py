"""Verdicts as text: what the data determine, alone and together, what a model could determine, what residuals say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from picardfit.display.text import number

if TYPE_CHECKING:
    from picardfit.evidence.residual_tests import Diagnostics
    from picardfit.inference.combinations import Combination
    from picardfit.inference.identifiability import Identifiability, Verdict
    from picardfit.inference.structural import Group, Structure

MOST_VERDICTS, MOST_COMBINATIONS = 60, 12  # lines that are printed of each kind


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
        words = "not determined by these data: any value fits as well"
    elif math.isnan(one.error):
        words = f"{number(one.value, 4)}, but no measurement is left to estimate the noise from"
    elif one.kind != "not determined":
        words = f"{one.kind}, {number(one.value, 4)} {told}"
    else:
        words = f"not determined{' within its bounds' if one.exceeds_bounds else ''} by these data ({told})"
    if one.at_bound:
        words += "; its estimate sits at a bound"
    if one.alternatives:
        words += f"; {', '.join(number(value, 4) for value in one.alternatives)} fits as well"
    return words


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
    poor = {name for name, one in found.verdicts.items() if one.kind != "determined"}
    only = [one for one in found.determined if poor.issuperset(one.names)]
    better = [one for one in found.determined if one not in only]
    for title, several in (("Determined only together:", only), ("Better determined together:", better)):
        if several:
            told = [f"  {_and(one.names)}: {combination_text(one)}" for one in several[:MOST_COMBINATIONS]]
            lines += ["", title, *told]
    for other in found.alternatives:
        values = ", ".join(f"{name} = {number(value, 4)}" for name, value in other.items())
        lines += ["", f"Another optimum fits as well (locally identifiable only): {values}"]
    return "\n".join(lines)


def group_text(group: Group) -> str:
    """Which combinations of a group of unknowns can be determined."""
    if len(group.names) == group.lost:
        return f"{', '.join(group.names)}: {'do' if group.lost > 1 else 'does'} not act on what is measured"
    found = ", ".join(one.text for one in group.determined)
    if hidden := len(group.names) - group.lost - len(group.determined):
        combinations = "one combination" if hidden == 1 else f"{hidden} combinations"
        found = f"{f'{found}, and ' if found else ''}{combinations} of them of no simple form"
    return f"{_and(group.names)}: only {found}"


def structure_text(found: Structure) -> str:
    """The verdict on structural identifiability, and how clear it is."""
    count = len(found.unknowns)
    if found.identifiable:
        lines = [f"All {count} unknowns are locally identifiable: {', '.join(found.unknowns)}."]
    else:
        fine = [name for name, verdict in found.verdicts.items() if verdict == "locally identifiable"]
        lines = [f"Of {count} unknowns only {found.rank} combinations can be determined."]
        lines += [f"  locally identifiable: {', '.join(fine) or 'none'}", "  not identifiable:"]
        lines += [f"    {group_text(group)}" for group in found.groups]
    if found.sampled_rank < found.rank:
        lines.append(
            f"The planned sampling times are too few: they determine {found.sampled_rank} combinations, "
            f"continuous measurement {found.rank}."
        )
    size = f"a factor of {found.gap:.1g}" if found.clear else f"only a factor of {found.gap:.2g}: not clear"
    agreement = f"Rank {found.rank} at {found.agreeing} of {found.points} random values"
    lines.append(f"{agreement}; the gap in the singular values is {size}.")
    return "\n".join(lines)


def diagnostics_text(found: Diagnostics) -> str:
    """What the residuals say, in one line."""
    if found.remarks:
        return " ".join(map(str, found.remarks))
    return f"residuals: {'nothing remarkable' if found.tested else 'too few to test'}."


def _and(names: tuple[str, ...]) -> str:
    """`a, b and c`, of two names or more."""
    return f"{', '.join(names[:-1])} and {names[-1]}"
