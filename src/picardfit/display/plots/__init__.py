"""Pictures of a fit: data and curves, residuals, starts, correlations, profiles, convergence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.display.plots.correlograms import plot_autocorrelation, plot_correlogram
from picardfit.display.plots.curves import pages, plot_fit, plot_residuals
from picardfit.display.plots.estimates import (
    plot_convergence,
    plot_correlation,
    plot_identifiability,
    plot_profiles,
    plot_waterfall,
)
from picardfit.display.plots.style import save_figure
from picardfit.display.plots.validation import plot_validation
from picardfit.display.text import shows_searches
from picardfit.whole_files import make_folder

if TYPE_CHECKING:
    from picardfit.fit import Fit

__all__ = [
    "pages",
    "plot_autocorrelation",
    "plot_convergence",
    "plot_correlation",
    "plot_correlogram",
    "plot_fit",
    "plot_identifiability",
    "plot_profiles",
    "plot_residuals",
    "plot_validation",
    "plot_waterfall",
    "save_figure",
    "write_plots",
]


def write_plots(fit: Fit, folder: str | Path, ending: str = "png", band: float | None = 0.95) -> list[Path]:
    """Write every picture that a fit has into a folder, which is created if need be."""
    folder = make_folder(folder)
    pictures = {"fit": lambda path: plot_fit(fit, path, band)}
    if fit.solution is not None:
        pictures["residuals"] = lambda path: plot_residuals(fit, path)
    if fit.diagnostics.autocorrelation:
        pictures["autocorrelation"] = lambda path: plot_autocorrelation(fit.diagnostics, path)
    if fit.status.converged:
        pictures["identifiability"] = lambda path: plot_identifiability(fit.identifiability(), path)
    if len(fit.covariance_labels) > 1 and fit.status.converged:
        pictures["correlation"] = lambda path: plot_correlation(fit, path)
    if shows_searches(fit):
        pictures["waterfall"] = lambda path: plot_waterfall(fit, path)
    if len(fit.trace):
        pictures["convergence"] = lambda path: plot_convergence(fit, path)
    written = []
    for name, draw in pictures.items():
        written.append(folder / f"{name}.{ending.removeprefix('.')}")
        draw(written[-1])
    return written
