"""What the commands share: options, complaints, output for people and for machines."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 120  # of tables that no terminal shows

ProblemPath = Annotated[
    Path,
    typer.Argument(
        metavar="PROBLEM", help="A problem file, or a folder with a problem.toml.", show_default=False
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Write one JSON document to standard output, for machines.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no tables.")]
HERE = Path("problem.toml")


@contextmanager
def complaints(as_json: bool = False) -> Iterator[None]:
    """Bad input ends a command with its sentences and code 2, Ctrl-C with 130; neither with a traceback."""
    try:
        yield
    except InputError as error:
        faults = getattr(error, "faults", None)
        if as_json:
            listed = [{"file": f.file, "line": f.line, "message": f.message} for f in faults or ()]
            print_json(
                {"success": False, "errors": listed or [{"file": None, "line": None, "message": str(error)}]}
            )
        elif faults:
            typer.echo(str(error), err=True)
            typer.echo(f"picardfit: {len(faults)} error{'s' if len(faults) > 1 else ''}.", err=True)
        else:
            typer.echo(f"picardfit: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("picardfit: interrupted before there was a result.", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        raise typer.Exit(0) from None


class TimeUpError(Exception):
    """Something took longer than it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Ends what takes longer with a TimeUpError, where the system has an alarm clock and this is the main thread."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_) -> None:
        raise TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def console() -> Console:
    """Where tables go: as wide as the terminal, or wide enough for a pipe."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for `complaints`; Rich would end the program with code 1

    out = Plain(highlight=False, soft_wrap=False)
    return out if out.is_terminal else Plain(highlight=False, width=PIPE_WIDTH)


def print_json(record: Mapping[str, object]) -> None:
    from picardfit.problem.records import plain

    typer.echo(json.dumps(plain(dict(record), "the result"), indent=2, ensure_ascii=False))


def make_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"The folder `{path}` cannot be made ({reason}): choose another.") from None
    return path


def assignments(given: Sequence[str], option: str) -> dict[str, float]:
    """`a=1` texts as numbers by name."""
    values = {}
    for text in given:
        name, equals, number = text.rpartition("=")
        try:
            values[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise InputError(f"{option} {text} is not understood: write for example {option} birth=0.5.")
    return values
