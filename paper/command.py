"""`make paper`, or `python -m paper tumor --quick` from the root of a clone: run the experiments of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from compare.usage import UsageError
from paper.plan import Plan
from paper.run import run as run_experiments
from picardfit.errors import InputError


class Name(StrEnum):
    """The experiments, as the command takes them."""

    VAN_DER_POL = "van-der-pol"
    FITZHUGH_NAGUMO = "fitzhugh-nagumo"
    PREDATOR_PREY = "predator-prey"
    TUMOR = "tumor"
    LORENZ = "lorenz"
    ALL = "all"


def run(names: Sequence[str], quick: bool, seed: int, out: Path, workers: int) -> list[Path]:
    """Run experiments and write tables and figures below `out`; returns the page of each experiment.

    A run that was stopped continues where it was when it is started again with the same folder.
    """
    known = [name.value for name in Name if name is not Name.ALL]
    for name in names:
        if name not in [*known, Name.ALL.value]:
            raise UsageError(f"There is no experiment `{name}`: choose among {', '.join(known)} and all.")
    if workers < 1:
        raise UsageError(f"workers = {workers} is too few: give at least 1.")
    if seed < 0:
        raise UsageError(f"seed = {seed} is negative: give 0 or a positive number.")
    chosen = known if Name.ALL.value in names else list(dict.fromkeys(names))
    return run_experiments(chosen, Plan(quick=quick, seed=seed), Path(out), workers, typer.echo)


def paper(
    names: Annotated[
        list[Name] | None,
        typer.Argument(help="Which experiments, or all: 75 minutes of one core without --quick."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer data sets and steps: ten minutes on two cores.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first data set.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and ledgers.")] = Path(
        "picardfit-paper"
    ),
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Run the numerical experiments of the paper again and write every table and figure.

    Example: python -m paper tumor --quick
    """
    try:
        if not names and not quick:
            raise UsageError(
                "No experiment is named: write `python -m paper all --quick` for ten minutes, or "
                "`python -m paper all` for the full run, 75 minutes of one core."
            )
        pages = run([name.value for name in names or [Name.ALL]], quick, seed, out, workers)
    except (InputError, UsageError) as error:
        typer.echo(f"paper: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("Stopped: the same command continues from here.", err=True)
        raise typer.Exit(130) from None
    for page in pages:
        typer.echo(page)
