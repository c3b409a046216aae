"""What can go wrong: bad input raises InputError, a numerical failure is a Status with a sentence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from enum import Enum
from numbers import Integral, Real
from pathlib import Path


class InputError(ValueError):
    """Bad input. The message names the offending thing and the remedy, in one sentence."""


class Status(Enum):
    """How a fit ended; the value is the sentence shown to the user."""

    CONVERGED = "Converged: this optimum passed every check."
    CONVERGED_AT_BOUND = (
        "Converged with unknowns at their bounds: widen those bounds if they are not meant to act."
    )
    APPROXIMATE = (
        "The method stopped by its own rule, but not at the least-squares optimum (see the certificate): lower its "
        "tolerance, raise its order, or use the default method."
    )
    INACCURATE = (
        "The search converged, but an independent integration does not reproduce the loss: "
        "the model is very sensitive here (chaotic or stiff); shorten the horizon or add data before trusting it."
    )
    UNDECIDED = (
        "Converged, but some parameters only decide when something switches and could not be searched: "
        "try several starts."
    )
    STALLED = (
        "No further step lowers the loss although the optimality conditions are not met: "
        "try more starts, or narrower bounds."
    )
    ITERATION_LIMIT = (
        "The iteration limit was reached before convergence: raise max_iterations or try more starts."
    )
    NOT_FINITE = (
        "No path can be computed at the starting values: the model is not finite there (overflow, division by zero or "
        "a NaN) or changes too fast; give a start or bounds where the equations can be evaluated."
    )
    DIVERGED = "The iteration diverged: shorten the horizon or the segments, lower the rate, or use the default method."
    FAILED = "The computation itself broke down with an error: the message repeats what it said."
    INTERRUPTED = "Interrupted: the best values found so far are returned."

    @property
    def success(self) -> bool:
        return self in (Status.CONVERGED, Status.CONVERGED_AT_BOUND)

    @property
    def converged(self) -> bool:
        """Whether the search came to an end that passed the checks, so that the curvature there tells of errors."""
        return self.success or self is Status.UNDECIDED


def inside(where: str, error: InputError) -> InputError:
    """The same complaint about a part of something: 'Experiment `pond`: entry 2 of `prey` is inf: ...'."""
    first, _, rest = str(error).partition(" ")
    first = first.lower() if first.isalpha() and first == first.capitalize() else first
    return InputError(f"{where}: {first} {rest}")


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """' Did you mean `prey`?' when a known name is close, else an empty string.

    Upper and lower case, blanks, underscores and hyphens make no difference.
    """
    by_letters: dict[str, list[str]] = {}
    for one in known:
        by_letters.setdefault(_letters(one), []).append(one)
    close = difflib.get_close_matches(_letters(name), by_letters, n=1, cutoff=cutoff)
    if not close:
        return ""
    best = difflib.get_close_matches(name.strip(), by_letters[close[0]], n=1, cutoff=0.0)
    return f" Did you mean `{best[0]}`?"


def did_you_mean_file(path: Path) -> str:
    """The same for a file that is not there: a file of its folder with nearly that name, whatever its ending."""
    files = [one.name for one in path.parent.iterdir() if one.is_file()] if path.parent.is_dir() else []
    by_stem: dict[str, list[str]] = {}
    for one in sorted(files):
        by_stem.setdefault(_letters(Path(one).stem), []).append(one)
    close = difflib.get_close_matches(_letters(path.stem), by_stem, n=1, cutoff=0.65)
    return did_you_mean(path.name, by_stem[close[0]], cutoff=0.0) if close else ""


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()


def type_words(value: object) -> str:
    """`an Experiment`, `a list`: what kind of thing a value is."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def counted(number: int, word: str) -> str:
    """`1 value`, `2 values`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def listing(names: Iterable[str]) -> str:
    """The names in backticks, separated by commas, for error messages."""
    return ", ".join(f"`{n}`" for n in names) or "none"


def check_positive(settings: object, whole: tuple[str, ...] = (), real: tuple[str, ...] = ()) -> None:
    """Check that fields of a settings dataclass are positive numbers."""
    for name in (*whole, *real):
        value = getattr(settings, name)
        kind = Integral if name in whole else Real
        if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:
            what = "a positive whole number" if name in whole else "a positive number"
            usual = getattr(type(settings), name, None)
            example = f"{usual:g}" if isinstance(usual, Real) and usual > 0 else "1"
            raise InputError(f"{name} = {value!r} is not {what}: write for example {name}={example}.")
