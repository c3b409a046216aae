"""The saved fit that a command reads: a fit.json, a folder of results, or a problem whose results lie beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.errors import InputError
from picardfit.whole_files import sound_path

if TYPE_CHECKING:
    from picardfit.fit import Fit

FitPath = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="A folder that `picardfit fit` has worked in, its results, or a saved fit.json.",
        show_default=False,
    ),
]
RESULTS, FIT, PROBLEM = "results", "fit.json", "problem.toml"


def saved_fit(path: Path) -> tuple[Fit, list[str]]:
    """The fit that was saved last for what `path` names; and a remark if problem or data were changed since."""
    from picardfit.files.fit_file import load

    file = fit_file(path)
    problem, fit = file.parent.parent / PROBLEM, load(file)
    if not problem.is_file() or _is_of(fit, problem):
        return fit, []
    return fit, [f"{problem} or its data changed since this fit; run `picardfit fit` again."]


def _is_of(fit: Fit, path: Path) -> bool:
    """Whether a fit is of the problem that a file holds now."""
    from picardfit.files.problem_file import read_problem_file
    from picardfit.problem.serialisation import problem_digest

    try:
        return problem_digest(read_problem_file(path).with_data) == problem_digest(fit.problem)
    except InputError:  # the fit was made when the file had no fault
        return False


def with_curves(fit: Fit) -> Fit:
    """The fit; of a population, the curves of its individuals at their most probable parameters."""
    from picardfit.inference.population.answer import PopulationFit

    return fit.individual_fit if isinstance(fit, PopulationFit) else fit


def check_single(fit: Fit, command: str, path: Path) -> None:
    """InputError for a population, where a command has no meaning for one."""
    if fit.problem.random is not None:
        raise InputError("cli.not_of_populations", str(path), command=command)


def fit_file(path: Path) -> Path:
    """The fit.json that is meant: the path itself, in the folder, or in the results of the folder."""
    path = sound_path(path)
    if path.suffix == ".json":
        candidates = [path]
    else:
        folder = path if path.is_dir() else path.parent
        candidates = [folder / FIT, folder / RESULTS / FIT]
    found = [one for one in candidates if one.is_file()]
    if found:
        return max(found, key=lambda one: one.stat().st_mtime)
    if not path.exists():
        raise InputError("cli.no_such_folder", str(path))
    raise InputError("cli.no_fit", str(path))
