"""The command line: `picardfit demo` and `picardfit --version`.

What a command needs is imported inside it, so that `picardfit --help` answers at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from picardfit.result import Fit

app = typer.Typer(
    name="picardfit",
    help="Parameters of ODE models from poor data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Example(StrEnum):
    """The built-in examples, as `--example` takes them."""

    FITZHUGH_NAGUMO = "fitzhugh-nagumo"
    LORENZ = "lorenz"
    ROSENZWEIG_MACARTHUR = "rosenzweig-macarthur"
    TUMOR = "tumor"
    VAN_DER_POL = "van-der-pol"


def _show_version(wanted: bool) -> None:
    if wanted:
        from picardfit import __version__

        typer.echo(f"picardfit {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Parameters of ODE models from poor data."""


@app.command()
def demo(
    example: Annotated[Example, typer.Option(help="Which example to fit.")] = Example.FITZHUGH_NAGUMO,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated noise.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the report and the saved fit.")] = Path(
        "picardfit-demo"
    ),
) -> None:
    """Fit a built-in example with simulated, noisy data and write a report about it."""
    with _complaints():
        from picardfit import fit, problems

        _make_folder(out)
        problem = problems.ALL[example.value.replace("-", "_")].generate(seed=seed)
        typer.echo(f"Example {example.value}, data simulated with noise from the true values in the table.\n")
        typer.echo(problem)
        result = fit(problem)
        _print_table(result)
        report, saved = result.report(out / "report.html"), result.save(out / "fit.json")
        typer.echo(f"report     {report}    (open it in a browser)")
        typer.echo(f'saved fit  {saved}    (pf.load("{saved}") reads it back)')
    if not result.success:
        raise typer.Exit(1)


@contextmanager
def _complaints() -> Iterator[None]:
    """Bad input ends a command with one sentence and code 2, never with a traceback."""
    from picardfit.errors import InputError

    try:
        yield
    except InputError as error:
        typer.echo(f"picardfit: {error}", err=True)
        raise typer.Exit(2) from None


def _make_folder(path: Path) -> None:
    from picardfit.errors import InputError

    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder `{path}` cannot be made ({error.strerror}): choose another.") from None


def _print_table(fit: Fit) -> None:
    """The estimates with their intervals, and the true values where the data are simulated."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from picardfit.tables import count, number, parameter_rows, true_values, units

    console = Console()
    console.print()
    if fit.solution is not None:
        truth = true_values(fit)
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
        given = units(fit)
        titles = ("", "estimate", "std. error", "95 % from", "to")
        for title in (*titles, "unit" if given else "", "", "true value" if truth else ""):
            table.add_column(title, justify="right" if title else "left", no_wrap=bool(title))
        for row in parameter_rows(fit):
            true = number(truth[row[0]]) if row[0] in truth else ""
            cells = (*row[:5], given.get(row[0], ""), row[5], true)
            table.add_row(*(Text(cell) for cell in cells))
        console.print(table)
        console.print()
    console.print(Text(fit.message))
    console.print(
        f"{count(fit.iterations, 'iteration')} in {fit.seconds:.2f} s, loss {number(fit.loss, 6)}",
        highlight=False,
    )
    if fit.certificate is not None:
        again = (
            f"an independent integration gives the same loss up to a relative {fit.certificate.mismatch:.0e}"
        )
        console.print(again, highlight=False)
    console.print()
