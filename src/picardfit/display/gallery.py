"""Every picture of a fit by name: what it shows, what it needs, and which wishes it takes.

`picardfit plot --what NAME`, `fit.plots(folder)` and the tables of the documentation read this table. A new picture is
one entry, and a function `plot_it(fit, path=None, *, look=..., ...)` that returns a figure. Functions are named as
text, "module:function" in `display`, so that the names can be listed before Matplotlib is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from picardfit.errors import InputError, closest

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from picardfit.display.plots.style import Look
    from picardfit.fit import Fit
    from picardfit.inference.population.answer import PopulationFit

NO_ESTIMATES = "The fit did not converge"  # title of every picture of such a fit
NEEDS: dict[
    str, Callable[[Fit], bool]
] = {  # code of the sentence if a fit does not have it -> whether it does
    "display.needs_solution": lambda fit: fit.solution is not None,
    "display.needs_convergence": lambda fit: fit.status.converged,
    "display.needs_two_unknowns": lambda fit: len(fit.covariance_labels) > 1,
    "display.needs_searches": lambda fit: len(fit.searches) > 1,
    "display.nothing_to_correlate": lambda fit: bool(fit.diagnostics.autocorrelation),
    "display.needs_trace": lambda fit: len(fit.trace) > 0,
    "display.needs_experiments": lambda fit: len(fit.problem.experiments) > 1,
    "display.not_of_populations": lambda fit: fit.problem.random is None,
    "display.needs_population": lambda fit: fit.problem.random is not None,
    "display.needs_covariates": lambda fit: any(one.covariates for one in fit.problem.experiments),
}


@dataclass(frozen=True)
class Entry:
    """One picture. `takes`: which wishes it can fulfil -> the argument of its function, "" for one of the look."""

    function: str
    words: str  # what it shows
    needs: tuple[str, ...] = ()  # keys of NEEDS
    takes: Mapping[str, str] = field(default_factory=dict)
    quick: bool = True  # drawn without asking for it where all pictures are written

    def possible(self, fit: Fit) -> bool:
        return all(NEEDS[one](fit) for one in self.needs)


AXES = {"log_x": "", "log_y": ""}
SINGLE = "display.not_of_populations"  # first among needs: a population fit lacks what the others ask for
POPULATION = ("display.needs_population", "display.needs_solution")
PICTURES: dict[str, Entry] = {
    "fit": Entry(
        "plots.curves:plot_fit",
        "data and fitted curves, a panel for each quantity and experiment",
        takes={"experiments": "experiments", "level": "band", **AXES},
    ),
    "overlay": Entry(
        "plots.overlay:plot_overlay",
        "data and fitted curves of all experiments on one axis",
        ("display.needs_experiments",),
        {"experiments": "experiments", **AXES},
    ),
    "residuals": Entry(
        "plots.residuals:plot_residuals",
        "residuals over time and over the fitted value, standardised by the noise model",
        ("display.needs_solution",),
        {"experiments": "experiments", "log_x": ""},
    ),
    "autocorrelation": Entry(
        "plots.correlograms:plot_fit_autocorrelation",
        "correlations of the residuals by lag, among themselves and with the inputs",
        (SINGLE, "display.needs_solution", "display.nothing_to_correlate"),
        {"level": "level"},
    ),
    "identifiability": Entry(
        "plots.estimates:plot_errors",
        "relative standard errors of the unknowns",
        (SINGLE, "display.needs_convergence"),
    ),
    "correlation": Entry(
        "plots.estimates:plot_correlation",
        "correlations of the estimates",
        (SINGLE, "display.needs_convergence", "display.needs_two_unknowns"),
    ),
    "profiles": Entry(
        "plots.estimates:plot_fit_profiles",
        "profile likelihoods of the parameters, which are computed first",
        (SINGLE, "display.needs_convergence"),
        {"level": "level", "parameters": "names"},
        quick=False,
    ),
    "waterfall": Entry(
        "plots.estimates:plot_waterfall", "losses of all searches", (SINGLE, "display.needs_searches")
    ),
    "convergence": Entry(
        "plots.estimates:plot_convergence", "loss and residuals by iteration", (SINGLE, "display.needs_trace")
    ),
    "individuals": Entry(
        "plots.population:plot_individuals",
        "of a population: data with the individual's and the typical curve",
        POPULATION,
        {"experiments": "experiments", **AXES},
    ),
    "observed": Entry(
        "plots.population:plot_observed",
        "of a population: data over typical and over individual predictions",
        POPULATION,
        AXES,
    ),
    "cwres": Entry(
        "plots.population:plot_cwres",
        "of a population: conditional weighted residuals over time and prediction",
        POPULATION,
        {"log_x": ""},
    ),
    "npde": Entry(
        "plots.population:plot_npde",
        "of a population: prediction distribution errors over time and prediction",
        POPULATION,
        {"log_x": ""},
    ),
    "vpc": Entry(
        "plots.predictive_check:plot_vpc",
        "of a population: visual predictive check",
        POPULATION,
        {"level": "level", **AXES},
    ),
    "pcvpc": Entry(
        "plots.predictive_check:plot_pcvpc",
        "of a population: visual predictive check, prediction-corrected",
        POPULATION,
        {"level": "level", **AXES},
    ),
    "effects": Entry(
        "plots.population:plot_effects",
        "of a population: random effects over covariates",
        (*POPULATION, "display.needs_covariates"),
    ),
}


def entry(name: str) -> Entry:
    """The picture of this name; InputError with all names for another."""
    if name not in PICTURES:
        known = list(PICTURES)
        raise InputError("display.no_such_picture", name, known=known, close=closest(name, known))
    return PICTURES[name]


def draw(
    fit: Fit, name: str, path: str | Path | None = None, look: Look | None = None, **wishes: Any
) -> Figure:
    """The picture of this name, written to `path` if given; wishes that are None count as not given.

    InputError for a wish that the picture cannot fulfil, and for a fit that lacks what the picture shows.
    """
    one = entry(name)
    given = {key: value for key, value in wishes.items() if value is not None}
    axes = {} if look is None else {key: getattr(look, key) for key in AXES}
    for wish in (*given, *(key for key, value in axes.items() if value is not None)):
        if wish not in one.takes:
            able = [other for other, its in PICTURES.items() if wish in its.takes]
            raise InputError("display.picture_takes_no", name, wish=f"--{wish.replace('_', '-')}", able=able)
    for need in one.needs:
        if not NEEDS[need](fit):
            raise InputError(need, name)
    style = import_module("picardfit.display.plots.style")
    if look is not None:
        import_module("picardfit.display.plots.axes").check_axes(fit, look, given.get("experiments"))
    module, _, function = one.function.partition(":")
    painter = getattr(import_module(f"picardfit.display.{module}"), function)
    arguments = {one.takes[wish]: value for wish, value in given.items()}
    status = fit.status
    if fit.problem.random is not None and "display.needs_population" not in one.needs:
        # the curves of the individuals, which have no bands of their own
        fit = cast("PopulationFit", fit).individual_fit
        arguments.pop("band", None)
    figure = painter(fit, None, **arguments, **({} if look is None else {"look": look}))
    if not status.estimated:
        style.add_title(figure, NO_ESTIMATES)
    if path is not None:
        style.save_figure(figure, path)
    return figure


def quick_pictures(fit: Fit) -> Iterator[str]:
    """The names of the pictures that this fit has and that need no further computation."""
    return (name for name, one in PICTURES.items() if one.quick and one.possible(fit))
