"""`picardfit compare`: other tools on the user's own problem, side by side."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from compare.table import Comparison


def compare(
    problem: Annotated[
        Path, typer.Argument(metavar="PROBLEM", help="A problem file, or a folder with a problem.toml.")
    ] = Path("problem.toml"),
    tool: Annotated[
        list[str] | None, typer.Option("--tool", "-t", help="A tool to run; all of them if left out.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the common start and of tools that draw at random.")
    ] = 0,
    budget: Annotated[float, typer.Option(min=0.1, help="Processor seconds for each tool.")] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document, for machines.")] = False,
) -> None:
    """Fit a problem with other tools too, from the same start, and show loss, parameters, time and success."""
    from compare.runner import run
    from picardfit.files.problem_file import read_problem

    found = run(read_problem(problem), tool, seed=seed, budget=budget)
    typer.echo(as_document(found) if as_json else str(found))
    if found.best is None:
        raise typer.Exit(1)


def as_document(found: Comparison) -> str:
    """The comparison as JSON; numbers that are not finite become null."""
    return json.dumps(_finite(asdict(found)), indent=2, ensure_ascii=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value
