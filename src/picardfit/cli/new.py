"""`picardfit new`: writes a folder with a problem file and data to start from."""

from __future__ import annotations

from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from picardfit.cli.common import complaints
from picardfit.errors import InputError
from picardfit.whole_files import make_folder, write_bytes


class Starter(StrEnum):
    """The starters, as `--from` takes them: folders of picardfit/examples/starters."""

    LOTKA_VOLTERRA = "lotka-volterra"
    INFLUENZA = "influenza"
    FITZHUGH_NAGUMO = "fitzhugh-nagumo"
    VAN_DER_POL = "van-der-pol"
    PHARMACOKINETICS = "pharmacokinetics"
    POPULATION = "population"


def new(
    name: Annotated[
        Path | None, typer.Argument(help="The folder to create. By default it has the name of the starter.")
    ] = None,
    starter: Annotated[Starter, typer.Option("--from", help="The starter to copy.")] = Starter.LOTKA_VOLTERRA,
) -> None:
    """Create a folder with a commented problem.toml and data, ready to fit."""
    with complaints():
        folder = name or Path(starter.value)
        written = write_starter(starter, folder)
        typer.echo(f"Written to {folder}: {', '.join(written)}")
        typer.echo(f"Next:  picardfit check {folder}\n       picardfit fit {folder}")


def write_starter(starter: Starter, folder: Path) -> list[str]:
    """Copy a starter into a folder; an existing file of the same name is an InputError. Returns the file names."""
    source = files("picardfit") / "examples" / "starters" / starter.value
    content = {one.name: one.read_bytes() for one in source.iterdir() if one.is_file()}
    content["problem.schema.json"] = (files("picardfit") / "files" / "problem.schema.json").read_bytes()
    make_folder(folder)
    taken = sorted(one for one in content if (folder / one).exists())
    if taken:
        raise InputError("cli.folder_taken", str(folder), file=taken[0])
    for one, data in content.items():
        write_bytes(folder / one, data)
    return sorted(content, key=lambda one: (one != "problem.toml", one))


def schema() -> None:
    """Print the JSON Schema of problem.toml, for editors."""
    typer.echo((files("picardfit") / "files" / "problem.schema.json").read_text(encoding="utf-8"), nl=False)
