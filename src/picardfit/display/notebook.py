"""What notebooks show of models, problems and results: their `_repr_html_`.

No colours of the page are set, so that light and dark themes both work, and nothing is fetched or run.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from picardfit.display.markup import (
    equations,
    experiment_table,
    noise_words,
    parameter_table,
    picture,
    table,
    words,
)
from picardfit.display.text import count, error_lines, number, parameter_rows, true_values, units
from picardfit.display.uncertainty import choice_words
from picardfit.display.verdicts import verdict_words

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.inference.design import Design
    from picardfit.inference.identifiability import Identifiability
    from picardfit.inference.profile import Profile
    from picardfit.model.model import Model
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

MOST_EXPERIMENTS, MOST_ROWS = 10, 40  # shown of each table
STYLE = """<style>
.picardfit table { border-collapse: collapse; margin: .3rem 0; }
.picardfit th, .picardfit td { text-align: left; padding: .15rem .9rem .15rem 0; }
.picardfit td.n, .picardfit th.n { text-align: right; font-variant-numeric: tabular-nums; }
.picardfit figure { margin: .4rem 0; max-width: 44rem; }
.picardfit figure svg { max-width: 100%; height: auto; background: #fff; }
.picardfit .quiet, .picardfit figcaption { opacity: .7; font-size: .9em; }
.picardfit summary { cursor: pointer; }
</style>"""


def model_html(model: Model) -> str:
    groups = {"states": model.states, "parameters": model.parameters, "inputs": model.inputs}
    rows = [
        (kind, ", ".join(f"{name} ({unit})" if (unit := model.unit(name)) else name for name in names))
        for kind, names in groups.items()
        if names
    ]
    return _box("Model", [equations(model), table(("", "names"), rows)])


def problem_html(problem: Problem) -> str:
    size = (
        f"{count(problem.layout.count(), 'unknown')} from {count(problem.measurements, 'measurement')} in "
        f"{count(len(problem.experiments), 'experiment')}"
    )
    noise = "least squares" if problem.noise is None else f"noise: {noise_words(problem.noise)}"
    return _box(
        "Problem",
        [
            _quiet(f"{size}; {noise}"),
            equations(problem.model),
            parameter_table(problem),
            experiment_table(problem.experiments, problem.initial, MOST_EXPERIMENTS),
        ],
    )


def experiment_html(one: Experiment) -> str:
    return _box("Experiment", [experiment_table([one], {})])


def fit_html(fit: Fit) -> str:
    """Verdict, estimates, statistics; the whole text is folded."""
    from picardfit.display.report import verdict

    _, headline, sentences = verdict(fit)
    parts = [f"<p>{escape(' '.join(sentences))}</p>"]
    if fit.solution is not None:
        header = ("", "estimate", "standard error", "95 % from", "to", "unit", "remark", "true value")
        given, truth = units(fit), true_values(fit)
        rows = [
            (*row[:5], given.get(row[0], ""), row[5], number(truth[row[0]]) if row[0] in truth else "")
            for row in parameter_rows(fit)
        ]
        parts.append(table(header, rows, (1, 2, 3, 4, 7), MOST_ROWS))
        parts += [f"<p>{escape(line)}</p>" for line in error_lines(fit)]
    parts.append(_folded("All that print(fit) shows", str(fit)))
    return _box(headline, parts)


def profile_html(profile: Profile) -> str:
    return _box("Profile", [_text(str(profile)), picture(profile.plot(), f"Profile of {profile.name}")])


def identifiability_html(found: Identifiability) -> str:
    rows = [(name, verdict_words(one)) for name, one in found.verdicts.items()]
    lost = [name for name, one in found.verdicts.items() if one.kind == "not determined"]
    told = f"The data do not determine {words(lost)}." if lost else "The data determine every unknown."
    parts = [
        table(("unknown", "verdict"), rows, most=MOST_ROWS),
        _folded("Combinations and directions", str(found)),
    ]
    return _box(told, parts)


def design_html(design: Design) -> str:
    title = f"{'Sample at' if design.plan is not None else 'Chosen:'} {choice_words(design)}"
    return _box(title, [_text(str(design))])


def text_html(title: str, shown: object) -> str:
    """A box with the plain text of a result."""
    return _box(title, [_text(str(shown))])


def plain_html(shown: object) -> str:
    """A box with the plain text of a record, titled with the name of its class."""
    return text_html(type(shown).__name__, shown)


def _box(title: str, parts: list[str]) -> str:
    inside = "\n".join(parts)
    return f'{STYLE}\n<div class="picardfit">\n<p><strong>{escape(title)}</strong></p>\n{inside}\n</div>'


def _quiet(text: str) -> str:
    return f'<p class="quiet">{escape(text)}</p>'


def _text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _folded(title: str, text: str) -> str:
    return f"<details>\n<summary>{escape(title)}</summary>\n{_text(text)}\n</details>"
