"""What the commands share: options, error messages, output for people and for machines."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from picardfit.errors import Audience, InputError, counted
from picardfit.files.toml_source import ProblemFileError
from picardfit.whole_files import make_folder

if TYPE_CHECKING:
    from rich.console import Console

ProblemPath = Annotated[
    Path,
    typer.Argument(
        metavar="PROBLEM", help="A problem file, or a folder with a problem.toml.", show_default=False
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Write the result as one JSON document to standard output.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no tables.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Tell on standard error what the search does, line by line, and why."
    ),
]
HERE = Path("problem.toml")
FIGURES = {".pdf", ".png", ".svg", ".eps", ".ps", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}
TABLES = {".csv", ".tsv", ".xlsx", ".ods"}
TEXTS = {".html", ".htm", ".json", ".toml", ".yaml", ".yml", ".txt", ".py", ".xml"}
FILE_ENDINGS = FIGURES | TABLES | TEXTS  # what people name a file, and no folder
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # why standard output takes no more


@contextmanager
def complaints(as_json: bool = False) -> Iterator[None]:
    """Turns every way in which a command can fail into one line and an exit code, never a traceback.

    2: bad input; 3: an internal error, whose traceback goes to a file; 130: Ctrl-C before there was a result.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # while a fault can still be told
    except typer.Exit:
        raise
    except InputError as error:
        show_errors(error, as_json)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        _tell_interrupted()
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        raise typer.Exit(0) from None
    except Exception as error:  # a bug of picardfit: everything that users can cause is an InputError
        if _comes_from_interrupt(error):
            _tell_interrupted()
        if isinstance(error, OSError) and error.filename is None and error.errno in NO_ROOM:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # Python flushes it once more as it ends
            show_errors(InputError("cli.output_lost", reason=error.strerror), as_json=False)
            raise typer.Exit(2) from None
        show_errors(internal_error(error), as_json)
        raise typer.Exit(3) from None


def _tell_interrupted() -> NoReturn:
    typer.echo("picardfit: interrupted before there was a result.", err=True)
    raise typer.Exit(130) from None


def _comes_from_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C lies behind an error: a compiled module that it stops while it loads raises an ImportError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def show_errors(error: InputError, as_json: bool) -> None:
    """Print an error in the words of the command line, or all faults of a problem file in those of the file."""
    faults = error.faults if isinstance(error, ProblemFileError) else ()
    if as_json:
        print_json({"success": False, "errors": [error_record(one) for one in faults or (error,)]})
    elif faults:
        typer.echo(str(error), err=True)
        typer.echo(f"picardfit: {counted(len(faults), 'error')}.", err=True)
    else:
        program = "" if error.place.file else "picardfit: "
        typer.echo(f"{program}{_message(error, with_place=True)}", err=True)


def error_record(error: InputError) -> dict[str, object]:
    """An error for machines: where it is (file, line, key), what it is (code, subject), and the message."""
    place = error.place
    return {
        "file": place.file,
        "line": place.line,
        "key": list(place.key),
        "code": error.code,
        "subject": error.subject,
        "message": _message(error, with_place=False),
    }


def _message(error: InputError, with_place: bool) -> str:
    audience = Audience.FILE if error.place.audience is Audience.FILE else Audience.COMMAND
    return error.told(audience) if with_place else error.sentence(audience)


def internal_error(error: Exception) -> InputError:
    """The record of a bug; its traceback is written to a file in the current folder, or in that for temporary files."""
    from picardfit import __version__

    name = f"picardfit-error-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    text = f"picardfit {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    text += f"{' '.join(sys.argv)}\n\n{''.join(traceback.format_exception(error))}"
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:  # not writable, or full
            continue
        return InputError("cli.internal_error", type(error).__name__, path=folder / name)
    sys.stderr.write(text)
    return InputError("cli.internal_error_unwritten", type(error).__name__)


def console(pipe_width: int = 120) -> Console:
    """Standard output for tables: as wide as the terminal, or `pipe_width` characters wide on a pipe."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # for `complaints`; Rich would end the program with code 1

    out = Plain(highlight=False, soft_wrap=False)
    return out if out.is_terminal else Plain(highlight=False, width=pipe_width)


def print_json(record: Mapping[str, object]) -> None:
    from picardfit.problem.json_values import plain

    typer.echo(json.dumps(plain(dict(record), "result"), indent=2, ensure_ascii=False))


def print_table(
    out: Console, header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()
) -> None:
    """Print rows as a table without empty columns; numbers never wrap."""
    from rich.table import Table
    from rich.text import Text

    used = [k for k in range(len(header)) if any(row[k] for row in rows)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for k in used:
        justify: Literal["left", "right"] = "right" if k in numeric else "left"
        table.add_column(header[k], justify=justify, no_wrap=k in numeric, overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[k]) for k in used))
    out.print(table)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]], separator: str = ",") -> str:
    """A table as CSV: numbers with all their digits, an empty cell for None and NaN."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", delimiter=separator)
    writer.writerow(header)
    writer.writerows([["" if one != one else one for one in row] for row in rows])
    return text.getvalue()


def as_far_as_possible(paths: Iterable[Path]) -> tuple[list[Path], InputError | None]:
    """The files that could be written, and why the next could not: the result is shown all the same.

    `paths`: an iterator that writes each file when its path is asked for.
    """
    written: list[Path] = []
    try:
        for path in paths:
            written.append(path)
    except InputError as error:
        return written, error
    return written, None


def tell_unwritten(error: InputError | None, as_json: bool) -> None:
    """End the command if a file could not be written; in JSON the record of the result has said so."""
    if error is not None:
        raise typer.Exit(2) if as_json else error


def with_errors(record: Mapping[str, object], error: InputError | None) -> Mapping[str, object]:
    """The record of a result, which names the file that could not be written."""
    return record if error is None else {**record, "errors": [error_record(error)]}


def output_folder(path: Path) -> Path:
    """The folder for output files, created where it is missing; a name that looks like that of a file is refused."""
    if path.suffix.lower() in FILE_ENDINGS and not path.is_dir():
        raise InputError("cli.out_is_a_file", str(path), folder=path.with_suffix(""))
    return make_folder(path)


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
            raise InputError("cli.assignment", option, text=text)
    return values
