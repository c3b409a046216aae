"""The commands of `picardfit`, in the order in which `picardfit --help` shows them."""

from __future__ import annotations

from typing import Annotated

import typer

from picardfit.cli.check import check
from picardfit.cli.demo import demo
from picardfit.cli.design import design
from picardfit.cli.export import export
from picardfit.cli.fit import fit
from picardfit.cli.new import new, schema
from picardfit.cli.option_errors import Command
from picardfit.cli.petab import petab
from picardfit.cli.plot import plot
from picardfit.cli.predict import predict
from picardfit.cli.profile import profile
from picardfit.cli.sample import sample
from picardfit.cli.select import select
from picardfit.cli.simulate import simulate
from picardfit.cli.studio import studio
from picardfit.cli.validate import validate

EXIT_CODES = (
    "Exit codes: 0 converged or nothing wrong, 1 did not converge, 2 bad input, 3 internal error (a bug), "
    "130 interrupted before any result."
)

app = typer.Typer(
    name="picardfit",
    help="Estimate parameters of ODE models from poor data.",
    epilog=f"Begin with: picardfit new, then picardfit fit in the new folder. {EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from picardfit import __version__

        typer.echo(f"picardfit {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Estimate parameters of ODE models from poor data."""


app.command(cls=Command, epilog="Example: picardfit demo --example lorenz")(demo)
app.command(cls=Command, epilog="Example: picardfit new ponds --from lotka-volterra")(new)
app.command(cls=Command, epilog="Example: picardfit check ponds")(check)
app.command(cls=Command, epilog="Example: picardfit fit ponds --starts 20 --out results")(fit)
app.command(
    cls=Command, epilog="Example: picardfit plot ponds --what residuals --style print --out residuals.pdf"
)(plot)
app.command(
    cls=Command,
    epilog="Example: picardfit predict ponds --times 0:40:0.5 --noise --out future.csv --out future.pdf",
)(predict)
app.command(
    cls=Command,
    epilog="Example: picardfit simulate ponds --times 0:20:41 --additive 0.5 --set birth=0.5 > plan.csv",
)(simulate)
app.command(cls=Command, epilog="Example: picardfit profile ponds -p birth -p death")(profile)
app.command(cls=Command, epilog="Example: picardfit sample ponds --draws 2000 --seed 1")(sample)
app.command(cls=Command, epilog="Example: picardfit select ponds-II ponds-III")(select)
app.command(cls=Command, epilog="Example: picardfit validate motors --data third.csv")(validate)
app.command(cls=Command, epilog="Example: picardfit design ponds --criterion A --budget 2")(design)
app.command(cls=Command, epilog="Example: picardfit export ponds --out model.xml")(export)
app.command(cls=Command, epilog="Example: picardfit petab model.yaml --starts 100")(petab)
app.command(cls=Command, epilog="Example: picardfit studio ponds")(studio)
app.command(cls=Command, hidden=True, epilog="Example: picardfit schema > problem.schema.json")(schema)
