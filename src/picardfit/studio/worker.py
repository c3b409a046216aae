"""What runs in a process of its own: `python -m picardfit.studio.worker fit|profile|design FOLDER [NAME ...]`.

It works on the folder as the command line does and tells what happens on standard output, one JSON record a line. An
interrupt (SIGINT) stops a fit at its next iteration with the best so far.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.cli.common import csv_text, error_record, internal_error, output_folder
from picardfit.cli.design import candidates_of
from picardfit.cli.fit import kept, run
from picardfit.cli.profiles_file import with_profiles
from picardfit.cli.saved import FIT, RESULTS
from picardfit.errors import InputError
from picardfit.evidence.curves import outputs_at, states_along
from picardfit.files.fit_file import load
from picardfit.files.problem_file import read_problem_file
from picardfit.files.toml_source import ProblemFileError
from picardfit.inference.design import design
from picardfit.parallel.progress import search_words
from picardfit.problem.json_values import plain
from picardfit.studio.saved_profiles import COLUMNS, INTERVALS, PROFILES, belonging, intervals
from picardfit.studio.settings import DEFAULT, StudioSettings
from picardfit.whole_files import make_folder, write_text

if TYPE_CHECKING:
    from picardfit.solvers.loop import Progress, Solution

LEDGER, EARLIER, CURVES = "searches.ledger", "earlier", "curves"
Tell = Callable[[Mapping[str, object]], None]


def main(arguments: Sequence[str]) -> int:
    """Do one piece of work, and tell how it ended."""
    kind, folder, *names = arguments
    out = sys.stdout
    sys.stdout = sys.stderr  # nothing else may stand between the records

    def tell(record: Mapping[str, object]) -> None:
        out.write(json.dumps(plain(dict(record), "news"), allow_nan=False) + "\n")
        out.flush()

    try:
        record = {"fit": _fit, "profile": _profile, "design": _design}[kind](Path(folder), names, tell)
    except InputError as error:
        faults = error.faults if isinstance(error, ProblemFileError) else (error,)
        tell({"kind": "failed", "errors": [error_record(one) for one in faults]})
        return 2
    except KeyboardInterrupt:
        tell({"kind": "stopped"})
        return 130
    except Exception as error:  # a bug of picardfit, told as the command line tells it
        tell({"kind": "failed", "errors": [error_record(internal_error(error))]})
        return 3
    tell({"kind": "ended", **record})
    return 0


def _fit(folder: Path, names: Sequence[str], tell: Tell) -> dict[str, object]:
    """Fit as `picardfit fit` does; with the name "continue", go on where an interrupted fit stopped."""
    file = read_problem_file(folder)
    results = output_folder(file.path.parent / RESULTS)
    ledger = results / LEDGER
    if "continue" not in names:
        ledger.unlink(missing_ok=True)
    watching = Watching(tell)
    result = run(file.with_data, file.settings, quiet=True, ledger=ledger, also=watching)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is an answer: it is written whatever comes now
    watching.flush()
    tell({"kind": "writing"})
    done = kept(result, file.settings, results, file.title)
    if result.solution is not None:
        _keep_earlier(results)
    stopped = result.status.name == "INTERRUPTED" or any(
        one.code.startswith("search.interrupted") for one in result.warnings
    )
    errors = [] if done.unwritten is None else [error_record(done.unwritten)]
    return {"success": result.success, "stopped": stopped, "errors": errors, "aside": done.aside}


def _keep_earlier(results: Path, settings: StudioSettings = DEFAULT) -> None:
    """Keep a copy of the fit, to compare later ones with; the oldest of many go."""
    folder = make_folder(results / EARLIER)
    old = sorted(folder.glob("[0-9]*.json"))
    number = int(old[-1].stem) + 1 if old and old[-1].stem.isdecimal() else 1
    write_text(folder / f"{number:04d}.json", (results / FIT).read_text(encoding="utf-8"))
    for path in old[: max(len(old) + 1 - settings.earlier, 0)]:
        path.unlink(missing_ok=True)


class Watching:
    """Tells the progress of a fit a few times a second: words, losses, and curves on their way to the data."""

    def __init__(self, tell: Tell, settings: StudioSettings = DEFAULT) -> None:
        self._tell, self._settings = tell, settings
        self._last = 0.0
        self._losses: list[tuple[int, int, float | None]] = []

    def __call__(self, progress: Progress) -> None:
        loss = progress.loss if np.isfinite(progress.loss) else None
        if not progress.candidates:
            self._losses.append((progress.start + 1, progress.iteration, loss))
        now = time.monotonic()
        if now - self._last >= self._settings.news_seconds:
            self._last = now
            solution = None if progress.solution is None else progress.solution()
            self.flush(search_words(progress), {} if solution is None else self._curves(solution))

    def flush(self, words: str = "", curves: Mapping[str, object] | None = None) -> None:
        """Tell what has gathered."""
        record: dict[str, object] = {"kind": "news", "losses": self._losses}
        record |= {"words": words} if words else {}
        record |= {CURVES: curves} if curves else {}
        self._tell(record)
        self._losses = []

    def _curves(self, solution: Solution) -> dict[str, Any]:
        """experiment -> quantity -> times and values along the path of an iteration."""
        problem, found = solution.system.problem, {}
        for e, one in enumerate(problem.experiments[: self._settings.experiments]):
            times = np.linspace(one.t0, float(one.times[-1]), self._settings.news_points)
            with np.errstate(all="ignore"):
                states = states_along(solution, e, times)
                outputs = outputs_at(solution, e, times, states)
            found[one.name] = {
                name: [times, np.nan_to_num(outputs[:, k], posinf=0.0, neginf=0.0)]
                for k, name in enumerate(problem.model.observables)
            }
            for name in set(problem.model.increments) & set(
                one.observables
            ):  # they mean something at samples only
                at, k = one.count_times(name), problem.model.observables.index(name)
                counted = outputs_at(solution, e, at, states_along(solution, e, at))[:, k]
                found[one.name][name] = [at, np.nan_to_num(counted, posinf=0.0, neginf=0.0)]
        return found


def _profile(folder: Path, names: Sequence[str], tell: Tell) -> dict[str, object]:
    """Profiles of a saved fit, added to profiles.csv as `picardfit profile` does."""
    results = folder / RESULTS
    result = load(results / FIT)
    earlier = belonging(results, result)

    def news(done: int, total: int) -> None:
        tell({"kind": "news", "done": done, "total": total})

    news(0, 2 * len(names))
    found = result.profiles(list(names), progress=news)
    write_text(results / PROFILES, with_profiles(earlier, found))
    ends = {name: one for name, one in intervals(results).items() if name in earlier.kept}
    ends |= {name: (one.estimate, *one.interval(0.95)) for name, one in found.items()}
    write_text(results / INTERVALS, csv_text(COLUMNS, [(name, *one) for name, one in ends.items()]))
    told = {
        name: {
            "values": one.values,
            "rises": one.rises,
            "estimate": one.estimate,
            "interval": [end if np.isfinite(end) else None for end in one.interval(0.95)],
            "words": str(one),
        }
        for name, one in found.items()
    }
    return {"profiles": told}


def _design(folder: Path, names: Sequence[str], tell: Tell) -> dict[str, object]:
    """Candidates ranked by what they would add, as `picardfit design` does, for the saved fit."""
    file = read_problem_file(folder)
    result = load(folder / RESULTS / FIT)
    found = design(result, candidates_of(file))
    return {"chosen": found.chosen, "words": str(found)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
