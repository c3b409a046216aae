"""`picardfit select`: compares models that were fitted to the same data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from picardfit.cli.common import AsJson, Quiet, complaints, console, print_json, print_table
from picardfit.cli.current import current_fit
from picardfit.cli.saved import check_single


def select(
    problems: Annotated[
        list[Path],
        typer.Argument(
            metavar="PROBLEM...", help="Problem files, folders with a problem.toml, or saved fits."
        ),
    ],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare models of the same data: AIC, AICc, BIC, weights, and what differs.

    A folder whose results hold a fit of its problem as it is now is not fitted again. Refuses fits of different data.
    """
    with complaints(as_json):
        from picardfit.display.comparison import (
            HEADER,
            NUMERIC,
            comparison_lines,
            comparison_record,
            comparison_rows,
        )
        from picardfit.inference.model_comparison import compare_models

        named = _names(problems)
        fits = {name: current_fit(path, quiet or as_json) for name, path in named.items()}
        for name, one in fits.items():
            check_single(one, "select", named[name])
        found = compare_models(fits)
        if as_json:
            print_json({"success": True, **comparison_record(found)})
        elif quiet:
            typer.echo(found.best)
        else:
            out = console()
            print_table(out, HEADER, comparison_rows(found), numeric=NUMERIC)
            out.print()
            for line in comparison_lines(found):
                out.print(line, markup=False)


def _names(paths: list[Path]) -> dict[str, Path]:
    """Short names of the models: the folder, or as much of the path as tells them apart."""
    short = [_short(path) for path in paths]
    often = Counter(short)
    return {name if often[name] == 1 else str(path): path for name, path in zip(short, paths, strict=True)}


def _short(path: Path) -> str:
    """`ponds` for ponds, ponds/problem.toml and ponds/results/fit.json."""
    folder = path.resolve()
    folder = folder if folder.is_dir() else folder.parent
    return folder.parent.name if folder.name == "results" else folder.name
