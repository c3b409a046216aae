"""Profiles of the derived quantities of a fit, for tables: the delta method takes a formula as a straight line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from picardfit.errors import InputError
from picardfit.inference.profile import Profile, profiles
from picardfit.inference.profile_continuation import ProfileSettings
from picardfit.inference.refits import Tools

if TYPE_CHECKING:
    from picardfit.fit import Fit


QUICK = ProfileSettings(most_points=20, retreats=4, closings=12)  # a formula may have poles nearby


@dataclass(frozen=True)
class TableProfiles:
    """Which derived quantities are profiled without being asked. All are choices.

    A profile takes about as long as the search that found the fit: 0.04 s for the starters.
    """

    most: int = 12  # quantities; of more, as with one for each of many experiments, none is profiled
    numbers: int = 500_000  # of a path times unknowns: below it, a profile takes a second at most
    level: float = 0.95  # up to which a profile is followed
    continuation: ProfileSettings = QUICK


def derived_profiles(fit: Fit, settings: TableProfiles = TableProfiles()) -> dict[str, Profile]:
    """Name -> profile of each derived quantity; those that cannot be profiled are left out."""
    wanted = [name for name, one in fit.derived.items() if not one.fixed]
    if fit.solution is None or not fit.success or not 0 < len(wanted) <= settings.most:
        return {}
    if fit.solution.path.size * fit.problem.layout.exists.shape[1] > settings.numbers:
        return {}
    found: dict[str, Profile] = {}
    for name in wanted:
        try:
            found |= profiles(
                fit, [name], settings.level, Tools(progress=False), settings=settings.continuation
            )
        except InputError:  # no freedom, or no path to start from: the delta method says what can be said
            continue
    return found
