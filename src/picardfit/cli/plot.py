"""`picardfit plot`: one picture of a saved fit as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from picardfit.cli.common import HERE, AsJson, complaints, print_json
from picardfit.cli.figures import Dpi, Experiments, LogX, LogY, Size, Style, look_of
from picardfit.cli.saved import FitPath, saved_fit
from picardfit.display.gallery import PICTURES
from picardfit.errors import InputError

NAMES = ", ".join(PICTURES)


def plot(
    folder: FitPath = HERE,
    what: Annotated[str, typer.Option(help=f"The picture: {NAMES}.")] = "fit",
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write: .png, .svg or .pdf. By default WHAT.png in the current folder."
        ),
    ] = None,
    size: Size = None,
    dpi: Dpi = None,
    log_x: LogX = None,
    log_y: LogY = None,
    experiments: Experiments = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", help="A parameter to profile; may be repeated. By default all."),
    ] = None,
    level: Annotated[
        float | None, typer.Option(help="Level of bands and intervals, between 0 and 1; 0 draws no bands.")
    ] = None,
    style: Style = "screen",
    as_json: AsJson = False,
) -> None:
    """Draw a picture of a saved fit: data and curves, residuals, profiles, correlations, and others."""
    with complaints(as_json):
        from picardfit.display.gallery import NO_ESTIMATES, draw, entry
        from picardfit.display.plots.style import check_format
        from picardfit.whole_files import regular_target

        chosen, look = entry(what), look_of(style, size, dpi, log_x, log_y)
        path = out or Path(f"{what}.png")
        check_format(path)
        regular_target(path)
        if level is not None and not 0 <= level < 1:
            raise InputError("cli.level", level=level)
        result, remarks = saved_fit(folder)
        wished = 0.95 if level is None and "level" in chosen.takes else level or None
        draw(result, what, path, look, experiments=experiments, level=wished, parameters=parameter)
        if not result.status.estimated:
            said = f"{NO_ESTIMATES[0].lower()}{NO_ESTIMATES[1:]}"
            remarks.append(f"{said}; the picture shows where the search stopped.")
        if as_json:
            record = {"success": result.success, "picture": what, "remarks": remarks}
            print_json({**record, "files": [str(path)]})
        else:
            typer.echo(f"written to {path}")
            for remark in remarks:
                typer.echo(f"picardfit: {remark}", err=True)
    raise typer.Exit(0 if result.success else 1)
