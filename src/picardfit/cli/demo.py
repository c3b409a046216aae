"""`picardfit demo`: fits a built-in example."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from picardfit.cli.common import Verbose, complaints, output_folder


class Example(StrEnum):
    """The built-in examples, as `--example` takes them."""

    FITZHUGH_NAGUMO = "fitzhugh-nagumo"
    LORENZ = "lorenz"
    ROSENZWEIG_MACARTHUR = "rosenzweig-macarthur"
    TUMOR = "tumor"
    VAN_DER_POL = "van-der-pol"


def demo(
    example: Annotated[Example, typer.Option(help="The example to fit.")] = Example.FITZHUGH_NAGUMO,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated noise.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the report and the saved fit.")] = Path(
        "picardfit-demo"
    ),
    verbose: Verbose = False,
) -> None:
    """Fit a built-in example with simulated, noisy data and write a report."""
    with complaints():
        import picardfit.examples as problems
        from picardfit import fit
        from picardfit.cli.progress import watched
        from picardfit.cli.show import show_fit

        output_folder(out)
        problem = problems.ALL[example.value.replace("-", "_")].generate(seed=seed)
        typer.echo(f"Example {example.value}, data simulated with noise from the true values in the table.\n")
        typer.echo(problem)
        with watched(verbose=verbose) as progress:
            result = fit(problem, progress=progress)
        show_fit(result)
        report = result.report(out / "report.html", f"Example {example.value}")
        saved = result.save(out / "fit.json")
        typer.echo(f"report     {report}    (open it in a browser)")
        typer.echo(f'saved fit  {saved}    (pf.load("{saved}") reads it back)')
    if not result.success:
        raise typer.Exit(1)
