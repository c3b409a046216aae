"""The fit of a problem as it is now: the one saved beside it, or a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from picardfit.cli.common import output_folder
from picardfit.cli.saved import FIT, RESULTS

if TYPE_CHECKING:
    from picardfit.files.problem_file import ProblemFile
    from picardfit.fit import Fit


def current_fit(path: Path, quiet: bool, verbose: bool = False, out: Path | None = None) -> Fit:
    """The fit saved at `path`; of a problem there the one that its results or `out` hold, or a new one."""
    from picardfit.files.fit_file import load
    from picardfit.files.problem_file import read_problem_file

    if path.suffix == ".json":
        return load(path)
    return fit_of_file(read_problem_file(path), quiet, verbose, out)


def fit_and_folder(path: Path, out: Path | None, quiet: bool, verbose: bool = False) -> tuple[Fit, Path]:
    """The fit of what `path` names, and the folder for output files."""
    if path.suffix == ".json":
        return current_fit(path, quiet), output_folder(out or path.parent)
    from picardfit.files.problem_file import read_problem_file

    file = read_problem_file(path)
    folder = output_folder(out or file.path.parent / RESULTS)
    return fit_of_file(file, quiet, verbose, folder), folder


def fit_of_file(file: ProblemFile, quiet: bool, verbose: bool = False, out: Path | None = None) -> Fit:
    """The saved fit of a problem file as it is now, or a new one; one that Ctrl-C stopped ends the command."""
    from picardfit.cli.fit import run

    folders = [file.path.parent / RESULTS] if out is None else [out, file.path.parent / RESULTS]
    saved = _saved([folder / FIT for folder in folders], file)
    if saved is not None:
        return saved
    found = run(file.with_data, file.settings, quiet, verbose=verbose)
    if interrupted(found):
        typer.echo("picardfit: the fit was interrupted before it ended; nothing was written.", err=True)
        raise typer.Exit(130)
    return found


def interrupted(fit: Fit) -> bool:
    """Whether Ctrl-C stopped the searches before they had confirmed an optimum."""
    codes = {one.code for one in fit.warnings}
    stops = {"search.unconfirmed", "search.interrupted", "search.interrupted_with_ledger"}
    return fit.status.name == "INTERRUPTED" or not codes.isdisjoint(stops)


def _saved(paths: Sequence[Path], file: ProblemFile) -> Fit | None:
    """The first fit in these files that answers the problem as it is now; damaged files count as none."""
    from picardfit.errors import InputError
    from picardfit.files.fit_file import load

    for path in paths:
        if not path.is_file():
            continue
        try:
            fit = load(path)
        except InputError:
            continue
        if fit.success and not interrupted(fit) and _answers(fit, file):
            return fit
    return None


def _answers(fit: Fit, file: ProblemFile) -> bool:
    """Whether a fit is of the problem of the file, by the method that the file asks for."""
    from picardfit.inference.population.answer import PopulationFit
    from picardfit.inference.population.marginals import as_marginal
    from picardfit.problem.serialisation import problem_digest

    wanted = file.settings.method
    if isinstance(fit, PopulationFit):  # its file does not hold the method of the first fit
        same = fit.marginal == as_marginal(file.settings.marginal)
    else:
        same = replace(fit.method, max_iterations=wanted.max_iterations) == wanted  # type: ignore[type-var]
    return same and problem_digest(fit.problem) == problem_digest(file.with_data)
