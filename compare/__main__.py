"""`python -m compare problem.toml` from the root of a checkout: other tools on a problem of your own."""

import typer

from compare.command import compare
from compare.usage import UsageError
from picardfit.errors import InputError

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(compare)

if __name__ == "__main__":
    try:
        app(prog_name="python -m compare")
    except (InputError, UsageError) as error:
        typer.echo(f"compare: {error}", err=True)
        raise SystemExit(2) from None
