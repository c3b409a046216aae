"""`picardfit petab`: fit a PEtab problem."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from picardfit.cli.common import AsJson, Quiet, complaints
from picardfit.cli.fit import MaxIterations, Out, Report, Seed, Starts, Workers


def petab(
    path: Annotated[Path, typer.Argument(help="The YAML file of a PEtab problem.")],
    out: Out = None,
    starts: Starts = None,
    seed: Seed = None,
    workers: Workers = None,
    max_iterations: MaxIterations = None,
    report: Report = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a PEtab problem as `picardfit fit` does a problem file."""
    with complaints(as_json):
        from picardfit.cli.fit import changed, deliver, run
        from picardfit.importers.petab import read
        from picardfit.sections.settings import FitSettings

        problem = read(path)
        settings = changed(FitSettings(), starts, seed, workers, max_iterations)
        result = run(problem, settings, quiet or as_json)
        deliver(result, path.stem, out or path.parent / "results", settings.level, report, as_json, quiet)
    raise typer.Exit(0 if result.success else 1)
