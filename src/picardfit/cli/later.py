"""Commands that live elsewhere and are loaded only when they are called.

A command is a function in a module, with its options as Typer reads them from a signature. To register one, add it to
LATER.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import typer

from picardfit.cli.common import complaints
from picardfit.errors import InputError


@dataclass(frozen=True)
class Later:
    """Where a command lives and what `picardfit --help` says about it."""

    module: str
    function: str
    help: str
    example: str
    missing: str  # what to do when the module is not there


LATER = {
    "compare": Later(
        "picardfit.compare.command",
        "compare",
        "Fit a problem with other tools too and show them side by side.",
        "picardfit compare ponds",
        "install a version that has it, with pip install 'picardfit[compare]'",
    ),
    "paper": Later(
        "picardfit.paper_command",
        "paper",
        "Run the numerical experiments of the paper.",
        "picardfit paper lorenz --quick",
        "run it in a checkout of the repository",
    ),
}


def forward(name: str) -> Callable[[typer.Context], None]:
    """A command that hands its arguments to the one registered under this name."""

    def command(context: typer.Context) -> None:
        with complaints():
            function = _load(name)
            inner = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            inner.command(name, epilog=f"Example: {LATER[name].example}")(function)
            inner(args=context.args, prog_name=f"picardfit {name}")

    return command


def _load(name: str) -> Callable:
    where = LATER[name]
    parts = where.module.split(".")
    if any(find_spec(".".join(parts[: k + 1])) is None for k in range(len(parts))):
        raise InputError(f"`picardfit {name}` is not part of this installation: {where.missing}.")
    return getattr(import_module(where.module), where.function)
