"""Times of a planned experiment, as a person types them."""

from __future__ import annotations

import numpy as np

from picardfit.cli.times import TimesText
from picardfit.errors import InputError
from picardfit.problem.experiment import Experiment
from picardfit.studio.settings import DEFAULT, StudioSettings


def candidate_times(words: str, one: Experiment, settings: StudioSettings = DEFAULT) -> list[float]:
    """The times of a candidate like this experiment; InputError unless they increase, or if they are too many."""
    times = TimesText(words).of(one)
    if len(times) > settings.candidate_times:
        raise InputError("studio.many_times", words, count=len(times), most=settings.candidate_times)
    if times[0] < one.t0 or (np.diff(times) <= 0).any():
        raise InputError("studio.times_backwards", words, begin=one.t0)
    return [float(f"{t:.8g}") for t in times]


def horizon(words: str, begin: float, last: float) -> float | None:
    """Until when curves are drawn; None, which is the end of the data, where nothing is typed."""
    if not words.strip():
        return None
    try:
        until = float(words.replace(",", "."))
    except ValueError:
        until = np.nan
    if not begin < until < np.inf:
        raise InputError("studio.until", words, begin=begin, last=last)
    return until
