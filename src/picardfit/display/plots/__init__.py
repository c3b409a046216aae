"""Pictures of a fit: data and curves, residuals, starts, correlations, profiles, convergence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.display.gallery import draw, quick_pictures
from picardfit.display.plots.correlograms import plot_autocorrelation, plot_correlogram
from picardfit.display.plots.curves import experiment_figures, plot_fit
from picardfit.display.plots.estimates import (
    plot_convergence,
    plot_correlation,
    plot_identifiability,
    plot_profiles,
    plot_waterfall,
)
from picardfit.display.plots.overlay import plot_overlay
from picardfit.display.plots.predictions import plot_predictions
from picardfit.display.plots.residuals import plot_residuals
from picardfit.display.plots.style import check_format, save_figure
from picardfit.display.plots.validation import plot_validation
from picardfit.display.text import shows_searches
from picardfit.whole_files import make_folder

if TYPE_CHECKING:
    from picardfit.fit import Fit

__all__ = [
    "experiment_figures",
    "plot_autocorrelation",
    "plot_convergence",
    "plot_correlation",
    "plot_correlogram",
    "plot_fit",
    "plot_identifiability",
    "plot_overlay",
    "plot_predictions",
    "plot_profiles",
    "plot_residuals",
    "plot_validation",
    "plot_waterfall",
    "save_figure",
    "write_plots",
]


def write_plots(fit: Fit, folder: str | Path, ending: str = "png", band: float | None = 0.95) -> list[Path]:
    """Write every picture that a fit has into a folder, which is created if need be; profiles are not computed."""
    ending = check_format(f"picture.{ending.removeprefix('.')}")
    folder, written = make_folder(folder), []
    for name in quick_pictures(fit):
        if name != "waterfall" or shows_searches(fit):
            written.append(folder / f"{name}.{ending}")
            draw(fit, name, written[-1], level=band if name == "fit" else None)
    return written
