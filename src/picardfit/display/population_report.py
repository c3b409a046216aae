"""A population fit as one HTML file: templates/population.html; this module collects what it shows."""

from __future__ import annotations

import platform
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, cast

from markupsafe import Markup

from picardfit import __version__
from picardfit.display.gallery import PICTURES, draw
from picardfit.display.markup import (
    check_page,
    environment,
    experiment_table,
    fitted,
    picture,
    table,
)
from picardfit.display.population_text import (
    SPREAD_HEADER,
    TYPICAL_HEADER,
    correlation_lines,
    likelihood_lines,
    search_lines,
    spread_rows,
    typical_rows,
)
from picardfit.display.text import effort_words, number
from picardfit.display.verdicts import Summary, verdict_words
from picardfit.errors import InputError, Status, counted
from picardfit.whole_files import write_text

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.inference.population.answer import PopulationFit


def write_population_report(fit: PopulationFit, path: str | Path, title: str) -> Path:
    """Write the report of a population fit as one self-contained HTML file with this title."""
    check_page(path)
    page = environment().get_template("population.html").render(_content(fit, title))
    return write_text(path, page + "\n")


def _content(fit: PopulationFit, title: str) -> dict[str, object]:
    """Every variable of templates/population.html."""
    problem = fit.problem
    words = counted(len(problem.experiments), "individual"), counted(problem.measurements, "measurement")
    shown: dict[str, object] = {
        "title": title,
        "size": f"{counted(fit.estimated, 'estimated number')} from {words[1]} of {words[0]}",
        "date": f"{date.today():%d %B %Y}",
        "verdict": population_summary(fit),
        **fitted(problem),
        "experiments": experiment_table(problem.experiments, problem.initial),
        "solved": fit.optimum is not None,
        "effort": effort_words(fit.iterations, fit.seconds),
        "seed": fit.seed,
        "versions": f"picardfit {__version__}, Python {platform.python_version()}",
    }
    return shown if fit.optimum is None else shown | _estimates(fit)


def population_summary(fit: PopulationFit) -> Summary:
    """The verdict at the top: yellow where something should be known before the estimates are used."""
    if not fit.success:
        return Summary("failed", "The fit did not succeed.", [fit.message])
    doubts = bool(fit.warnings) or fit.status is not Status.CONVERGED
    headline = f"Objective {fit.population.objective:.2f} by {fit.marginal.name}."
    return Summary("mind" if doubts else "fine", headline, [fit.message])


def _estimates(fit: PopulationFit) -> dict[str, object]:
    """Tables and pictures of a fit with a solution."""
    judged = fit.identifiability().verdicts if fit.status.converged and fit.success else {}
    return {
        "typical": table(TYPICAL_HEADER, typical_rows(fit), (1, 2, 3, 4)),
        "spread": table(SPREAD_HEADER, spread_rows(fit), (1, 2, 3, 4, 5)),
        "lines": [*correlation_lines(fit), *likelihood_lines(fit), *search_lines(fit)],
        "verdicts": table(("", "verdict"), [(n, verdict_words(v)) for n, v in judged.items()])
        if judged
        else "",
        "individuals": _individuals(fit),
        "pictures": _pictures(fit),
    }


def _individuals(fit: PopulationFit, most: int = 200) -> Markup:
    values, errors = fit.population.individuals, fit.population.individual_errors
    rows = [
        (
            str(name),
            *(f"{number(values.loc[name, one], 4)} ± {number(errors.loc[name, one], 2)}" for one in values),
        )
        for name in values.index[:most]
    ]
    header = ("individual", *values.columns)
    return table(header, rows, range(1, len(header)), most, more=len(values) - len(rows))


CAPTIONS = {
    "individuals": "Dots: data. Line: the curve of each individual at its most probable parameters. Dashes: that of "
    "the typical individual with the same doses and covariates.",
    "observed": "Measured values over predictions for the typical individual and for the individual itself.",
    "residuals": "Data minus individual curve, over the noise. Dashed: two standard deviations of the noise.",
    "cwres": "Conditional weighted residuals: standard normal where the model is right. They should show no trend.",
    "npde": "Normalised prediction distribution errors by simulation: standard normal where the model is right.",
    "vpc": "Visual predictive check: quantiles of the data should lie in the bands of simulated studies.",
    "pcvpc": "The same, corrected for predictions, so that different doses and covariates may share a bin.",
    "effects": "Random effects over covariates: a trend suggests a covariate that the model lacks.",
}


def _pictures(fit: PopulationFit) -> list[Markup]:
    """The pictures of the fit; the reason in words where one cannot be drawn."""
    found = []
    for name, caption in CAPTIONS.items():
        if not PICTURES[name].possible(cast("Fit", fit)):
            continue
        try:
            found.append(picture(draw(cast("Fit", fit), name), caption))
        except InputError as error:
            found.append(Markup("<p>{}</p>").format(str(error)))
    return found
