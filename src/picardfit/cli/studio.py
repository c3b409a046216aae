"""`picardfit studio`: a page in the browser from a table and equations to a report."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from picardfit.cli.common import complaints
from picardfit.cli.saved import PROBLEM
from picardfit.errors import InputError

STUDY = "study"  # the folder of a new study


def studio(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="The folder of the study: one with a problem.toml, or an empty or new one. By default the current "
            "folder if it has a problem.toml, else the folder `study`.",
            show_default=False,
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or only print the address.")
    ] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at; 0: any free one.")] = 0,
) -> None:
    """Open a study in the browser: data, equations, sliders, fit, answer, report.

    Everything done there is an ordinary problem folder. The page is for this machine and for the printed address only.
    Stop with Ctrl-C, or on the page.
    """
    with complaints():
        if find_spec("nicegui") is None or find_spec("tomlkit") is None:
            raise InputError("studio.missing")
        chosen = folder_of(folder)
        from picardfit.studio.server import serve

        serve(chosen, browser, port, lambda address: _told(chosen, address))


def folder_of(given: Path | None) -> Path:
    """The folder of the study; InputError for a file that is no problem file."""
    if given is None:
        return Path() if Path(PROBLEM).is_file() else _new_folder()
    if given.is_file() and given.name == PROBLEM:
        return given.parent
    if given.exists() and not given.is_dir():
        raise InputError("studio.not_a_study", str(given))
    return given


def _new_folder() -> Path:
    """`study`, which a later call opens again, or `study-2` where that holds something else.

    It is made when there is something to keep.
    """
    number, folder = 1, Path(STUDY)
    while folder.exists() and not _may_be_a_study(folder):
        number += 1
        folder = Path(f"{STUDY}-{number}")
    return folder


def _may_be_a_study(folder: Path) -> bool:
    return folder.is_dir() and ((folder / PROBLEM).is_file() or not any(folder.iterdir()))


def _told(folder: Path, address: str) -> None:
    typer.echo(f"The study is in {folder.resolve()}")
    typer.echo(f"Open {address}")
    typer.echo("Stop with Ctrl-C.")
