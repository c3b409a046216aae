"""What notebooks show of models, problems and results: their `_repr_html_`.

No colours of the page are set, so that light and dark themes both work, and nothing is fetched or run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from picardfit.display.markup import (
    draw,
    equations,
    estimate_tables,
    experiment_table,
    noise_words,
    parameter_table,
    picture,
    table,
)
from picardfit.display.text import error_lines, size_words
from picardfit.display.uncertainty import choice_words
from picardfit.display.verdicts import summary, verdict_words, words

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.inference.design import Design
    from picardfit.inference.identifiability import Identifiability
    from picardfit.inference.profile import Profile
    from picardfit.model.model import Model
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem


def model_html(model: Model) -> str:
    groups = {"states": model.states, "parameters": model.parameters, "inputs": model.signals}
    groups |= {"covariates": model.covariates, "infused": model.infused}
    rows = [
        (kind, ", ".join(f"{name} ({unit})" if (unit := model.unit(name)) else name for name in names))
        for kind, names in groups.items()
        if names
    ]
    return _box("Model", [equations(model), table(("", "names"), rows)])


def problem_html(problem: Problem, most: int = 10) -> str:
    """The problem with the first `most` of its experiments."""
    noise = "least squares" if problem.noise is None else f"noise: {noise_words(problem.noise)}"
    return _box(
        "Problem",
        [
            draw("paragraph", f"{size_words(problem)}; {noise}", "quiet"),
            equations(problem.model),
            parameter_table(problem),
            experiment_table(problem.experiments, problem.initial, most),
        ],
    )


def experiment_html(one: Experiment) -> str:
    return _box("Experiment", [experiment_table([one], {})])


def fit_html(fit: Fit, most: int = 40) -> str:
    """Summary, the first `most` estimates, the curves over the data; residuals and the whole text are folded."""
    told = summary(fit)
    parts = [draw("paragraph", " ".join(told.sentences))]
    if fit.solution is not None:
        parts.append(estimate_tables(fit, most))
        parts += [draw("paragraph", line) for line in error_lines(fit)]
        band = 0.95 if fit.status.converged else None
        shades = ", with 95 % confidence bands" if band else ""
        parts.append(picture(fit.plot(band=band), f"Data and fit{shades}"))
        residuals = picture(fit.plot_residuals(), "Residuals over time and over the fitted value")
        parts.append(draw("folded", "Residuals", residuals))
    parts.append(draw("folded", "All that print(fit) shows", draw("text", str(fit))))
    return _box(told.headline, parts)


def profile_html(profile: Profile) -> str:
    return _box(
        "Profile", [draw("text", str(profile)), picture(profile.plot(), f"Profile of {profile.name}")]
    )


def identifiability_html(found: Identifiability, most: int = 40) -> str:
    """The first `most` verdicts; combinations are folded."""
    rows = [(name, verdict_words(one)) for name, one in found.verdicts.items()]
    lost = found.not_determined
    told = f"The data do not determine {words(lost)}." if lost else "The data determine every unknown."
    parts = [
        table(("unknown", "verdict"), rows, most=most),
        draw("folded", "Combinations and directions", draw("text", str(found))),
    ]
    return _box(told, parts)


def design_html(design: Design) -> str:
    title = f"{'Sample at' if design.plan is not None else 'Chosen:'} {choice_words(design)}"
    return _box(title, [draw("text", str(design))])


def plain_html(shown: object) -> str:
    """A box with the plain text of a record, titled with the name of its class."""
    return _box(type(shown).__name__, [draw("text", str(shown))])


def _box(title: str, parts: list[Markup]) -> str:
    return str(draw("box", title, parts))
