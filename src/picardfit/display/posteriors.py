"""Text and HTML of draws, and their section of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from picardfit.display.markup import draw, picture, table
from picardfit.display.plots.draws import plot_draws
from picardfit.display.text import columns, number
from picardfit.errors import Audience, counted
from picardfit.inference.posterior.methods import NUTS, Emcee, LaplaceDraws
from picardfit.inference.posterior.posterior import DrawsPicture, Posterior
from picardfit.inference.posterior.predictive import priors_by_label

if TYPE_CHECKING:
    from picardfit.fit import Fit

HEADER = ("", "mean", "MCSE", "sd", "2.5 %", "50 %", "97.5 %", "ESS bulk", "ESS tail", "R-hat")
COLUMNS = ("mean", "mcse", "sd", "q2.5", "q50", "q97.5", "ess_bulk", "ess_tail", "r_hat")
MOST = 40  # rows of a table


def posterior_text(one: Posterior) -> str:
    """How the draws were made, a table of the unknowns, and what speaks against them."""
    rows = summary_rows(one)
    lines = [headline(one), "", *columns([HEADER, *rows[:MOST]], left=(0,))]
    if len(rows) > MOST:
        lines.append(f"... and {len(rows) - MOST} more (posterior.summary())")
    return "\n".join([*lines, "", *verdict(one)])


def headline(one: Posterior) -> str:
    """`posterior: 4 chains of 1000 draws after 400 for warm-up, 12 s`."""
    (chains, draws), method = one.shape, one.method
    if isinstance(method, LaplaceDraws):
        made = f"{counted(draws, 'draw')} of a Gaussian at the mode, weighted; k-hat {one.khat:.2f}"
    else:
        kind = "walker" if isinstance(method, Emcee) else "chain"
        other = "" if isinstance(method, NUTS) else f" by {type(method).__name__.lower()}"
        made = f"{counted(chains, kind)} of {counted(draws, 'draw')} after {method.warmup} for warm-up{other}"
    return f"posterior: {made}, {one.seconds:.1f} s, seed {one.seed}"


def verdict(one: Posterior, audience: Audience = Audience.PYTHON) -> list[str]:
    """The warnings; without any, that nothing speaks against the draws."""
    said = [notice.sentence(audience) for notice in one.warnings]
    if one.trusted:
        exact = f"independent integrations of some draws differ by {one.error:.1e} in the log-likelihood"
        quality = "the weights can be trusted" if one.khat is not None else "the chains agree, none diverged"
        these = "the draws that there are" if one.drawn.missing else "these draws"
        said.insert(0, f"Nothing speaks against {these}: {quality}; {exact}.")
    return said


def summary_rows(one: Posterior) -> list[tuple[str, ...]]:
    """Cells of the table of unknowns."""
    found = []
    for name, row in one.summary().to_dict(orient="index").items():
        values = [row[key] for key in COLUMNS]
        cells = [
            "-" if key == "mcse" and np.isnan(value) else number(value, 4 if key != "mcse" else 2)
            for key, value in zip(COLUMNS[:6], values, strict=False)
        ]
        sizes = [f"{value:.0f}" if np.isfinite(value) else "" for value in values[6:8]]
        found.append((str(name), *cells, *sizes, f"{values[8]:.3f}" if np.isfinite(values[8]) else ""))
    return found


def posterior_html(one: Posterior) -> str:
    parts = [table(HEADER, summary_rows(one), range(1, len(HEADER)), MOST)]
    parts += [draw("paragraph", sentence) for sentence in verdict(one)]
    return str(draw("box", headline(one), parts))


def report_section(one: Posterior) -> dict[str, object]:
    """What the report shows of draws: table, warnings, prior beside posterior, chains, predictions."""
    priors = " the priors," if priors_by_label(one.problem) else ""
    captions = {
        "marginals": f"Draws of the posterior, with{priors} the estimates of the fit and 95 % intervals.",
        "forest": "Intervals of the posterior beside those of the Fisher information, in units of the estimates.",
        "trace": "The chains: they should look alike and show no trend.",
        "predictive": "Data in the bands of the posterior: dark for curves, light for new measurements.",
    }
    if one.khat is not None:  # resampled points have no order
        del captions["trace"]
    return {
        "headline": headline(one),
        "verdict": verdict(one),
        "table": table(HEADER, summary_rows(one), range(1, len(HEADER)), MOST),
        "pictures": [_picture(one, kind, caption) for kind, caption in captions.items()],
    }


def _picture(one: Posterior, kind: str, caption: str) -> Markup:
    return picture(plot_draws(DrawsPicture(one, kind)), caption)


def of_this_fit(fit: Fit, one: Posterior) -> bool:
    """Whether draws belong to a fit."""
    return one.fit is fit or one.fit.parameters == fit.parameters
