"""Pieces of HTML that the report and notebooks share, drawn by templates that escape what a user has named or typed."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from picardfit.display.text import (
    BY_PROFILE,
    ESTIMATES_HEADER,
    ESTIMATES_NUMERIC,
    EXPERIMENT_HEADER,
    PARAMETER_HEADER,
    estimate_rows,
    experiment_row,
    number,
    parameter_row,
    time_words,
)
from picardfit.display.typeset import Equation, equations_html
from picardfit.errors import InputError
from picardfit.model.parameters import Parameter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.fit import Fit
    from picardfit.model.model import Model
    from picardfit.model.noise_models import NoiseModel
    from picardfit.model.priors import Prior
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

INITIAL_STATES = "initial states"
NOISES = {
    "Noise": "normal",
    "LogNormal": "log-normal",
    "StudentT": "Student's t",
    "Laplace": "Laplace",
    "Poisson": "Poisson counts",
    "NegativeBinomial": "negative binomial counts",
    "Binomial": "binomial counts",
}


@dataclass(frozen=True)
class Paper:
    """What fits on a page; the sizes were chosen by looking at printed reports."""

    rows: int = 200  # of a table; the others are counted
    short: int = 20  # rows up to which a table is kept on one page
    folded: int = 12  # rows about single experiments beyond which they are folded
    printed: int = (
        40  # rows that are folded on a screen, and of measured values, up to which paper shows them
    )
    page: int = 5_000  # letters of a program that fill a printed page
    heavy: int = 400_000  # characters of an SVG picture from which on pixels are tried instead
    tall: float = 0.8  # height over width beyond which a picture may fill a page
    dots: int = 130  # per inch, of a picture in pixels


@cache
def environment() -> Environment:
    """The templates in display/templates; everything that is not markup already is escaped."""
    made = Environment(
        loader=PackageLoader("picardfit.display"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["unbroken"] = lambda text: text.replace("± ", "±\N{NBSP}").replace(" %", "\N{NBSP}%")
    return made


def draw(macro: str, *content: object) -> Markup:
    """Render one of the macros of templates/macros.html."""
    return getattr(environment().get_template("macros.html").module, macro)(*content)


def check_page(path: str | Path) -> None:
    """InputError for a report whose file has not the ending of a page."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError("display.report_format", str(path), page=Path(path).with_suffix(".html").name)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Iterable[int] = (),
    most: int = Paper.rows,
    more: int = 0,
    paper: Paper = Paper(),
) -> Markup:
    """Columns that are empty throughout are left out; rows beyond the first `most`, and `more` besides, are counted."""
    used = [k for k in range(len(header)) if any(row[k] for row in rows)]
    shown = [[row[k] for k in used] for row in rows[:most]]
    right = {place for place, k in enumerate(used) if k in set(numeric)}
    short = len(rows) <= paper.short
    return draw("table", [header[k] for k in used], shown, right, len(rows) - len(shown) + more, short)


def folding_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    fit: Fit,
    numeric: Sequence[int] = (),
    most: int = Paper.rows,
    paper: Paper = Paper(),
) -> Markup:
    """A table of unknowns, the first cell their name, with many values of single experiments folded by name."""
    groups: dict[str, list[Sequence[str]]] = {"": []}
    last = ""
    for row in rows:
        if row[0] != BY_PROFILE:  # such a row belongs to the one above
            own_name = row[0] in fit.parameters or row[0] in fit.derived
            name = row[0].split("[")[0] if own_name else INITIAL_STATES
            last = "" if name == row[0] else name
        groups.setdefault(last, []).append(row)
    own = groups.pop("")
    if sum(map(len, groups.values())) <= paper.folded:
        return table(header, [*own, *(row for group in groups.values() for row in group)], numeric, most)
    parts = [table(header, own, numeric, most)] if own else []
    for name, group in groups.items():
        several = (f"{len(group)} {name}", group)
        title, shown = several if name == INITIAL_STATES else _of_experiments(name, group, fit)
        printed = len(shown) <= paper.printed
        parts.append(draw("folded", title, table(header, shown, numeric, most), printed))
    return Markup("\n").join(parts)


def _of_experiments(name: str, rows: list[Sequence[str]], fit: Fit) -> tuple[str, list[Sequence[str]]]:
    """A title for the values of a quantity in single experiments, and their rows without what it says already."""
    labels = [row[0] for row in rows if row[0] != BY_PROFILE]
    values = [float(fit.derived.get(label) or fit.parameters[label]) for label in labels]
    one, unit, formula = fit.derived.get(labels[0]), fit.problem.model.unit(name), ""
    if one is not None:
        unit, formula = one.unit, f"= {one.formula}"
        rows = [[cell.removeprefix(formula).removeprefix(", ") for cell in row] for row in rows]
    span = f"{number(min(values), 4)} to {number(max(values), 4)}{f' {unit}' if unit else ''}"
    return f"{name} {formula}{' ' if formula else ''}in {len(labels)} experiments: {span}", rows


def estimate_tables(fit: Fit, most: int = Paper.rows) -> Markup:
    """The estimates; without convergence only their values."""
    rows = estimate_rows(fit)
    if not fit.status.converged:
        return folding_table(ESTIMATES_HEADER[:2], [row[:2] for row in rows], fit, (1,), most)
    return folding_table(ESTIMATES_HEADER, rows, fit, ESTIMATES_NUMERIC, most)


def picture(figure: Figure, caption: str, told: bool = True, paper: Paper = Paper()) -> Markup:
    """The figure as inline SVG with its texts as text, or as pixels where that is much smaller.

    Without `told` the caption is for those who cannot see the picture only.
    """
    import matplotlib

    from picardfit.display.plots.style import placed

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": caption}), placed(figure, figure.dpi):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    drawn = Markup('<svg role="img" aria-label="{}"').format(caption) + Markup(svg.removeprefix("<svg"))
    if len(drawn) > paper.heavy:
        pixels = io.BytesIO()
        figure.savefig(pixels, format="png", dpi=paper.dots)
        code = base64.b64encode(pixels.getvalue()).decode()
        if len(code) < len(drawn) / 2:
            drawn = Markup('<img alt="{}" src="data:image/png;base64,{}">').format(caption, code)
    tall = figure.get_figheight() > paper.tall * figure.get_figwidth()
    return draw("figure", drawn, caption if told else "", tall)


def equations(model: Model) -> Markup:
    """The equations and observables of a model, typeset; as plain text where a term is too wide for that."""
    if not model.written:
        return draw("text", str(model))
    formulas = model.observable_formulas
    if all(name == right for name, right in formulas.items()):
        observed = draw("paragraph", f"Observed: {', '.join(formulas)}.")
    else:
        several = [(name, right, False) for name, right in formulas.items()]
        observed = draw("paragraph", "Observed:") + typeset(several)
    return typeset(model.written) + "\n" + observed


def typeset(lines: Sequence[Equation]) -> Markup:
    """The equations as MathML, or as text if they would not fit on a page."""
    drawn = equations_html(lines)
    if drawn is not None:
        return Markup('<div class="wide">{}</div>').format(Markup(drawn))
    return draw("text", "\n".join(f"{name}{chr(39) * prime} = {formula}" for name, formula, prime in lines))


def fitted(problem: Problem) -> dict[str, object]:
    """The variables of templates/base.html that say what was fitted."""
    model = problem.model
    names = (*model.states, *model.inputs, *model.observables)
    units = {"t": time_words(problem), **{name: model.unit(name) for name in names}}
    return {
        "equations": equations(model),
        "units": [f"{name} in {unit}" for name, unit in units.items() if unit],
        "noise": "" if problem.noise is None else noise_words(problem.noise),
        "written": dedent(model.text).strip(),
        "parameters": parameter_table(problem),
    }


def parameter_table(problem: Problem) -> Markup:
    """Bounds, scales and priors of the parameters, and of the initial states that have any."""
    rows, unit_of = [], problem.model.unit
    given = [(name, one, unit_of(name)) for name, one in problem.parameters.items()]
    given += [(name, one, unit_of(state)) for name, state, one in _initial_parameters(problem)]
    for name, one, unit in given:
        *known, unit = parameter_row(name, one, unit)
        rows.append((*known, "" if one.prior is None else prior_words(one.prior), unit))
    return table((*PARAMETER_HEADER[:-1], "prior", "unit"), rows, numeric=(1, 2))


def _initial_parameters(problem: Problem) -> list[tuple[str, str, Parameter]]:
    """Label, state and what is known of each unknown initial state; one row where all experiments say the same."""
    found = []
    for state in problem.model.states:
        every = [
            (one.name, each[state])
            for one, each in zip(problem.experiments, problem.initial_by_experiment, strict=True)
        ]
        some = [(name, one) for name, one in every if isinstance(one, Parameter)]
        if any(one != some[0][1] for _, one in some):
            found += [(f"{state}(0)[{name}]", state, one) for name, one in some if _says(one)]
        elif some and _says(some[0][1]):
            found.append((f"{state}(0)", state, some[0][1]))
    return found


def _says(one: Parameter) -> bool:
    return one.prior is not None or math.isfinite(one.lower) or math.isfinite(one.upper)


def prior_words(prior: Prior) -> str:
    """`Normal(mean=1, sd=0.5)`; the base of a logarithm only where there is one."""
    given = {one.name: getattr(prior, one.name) for one in fields(prior)}
    told = ", ".join(f"{name}={number(value)}" for name, value in given.items() if value is not None)
    return f"{type(prior).__name__}({told})"


def experiment_table(
    experiments: Sequence[Experiment], shared: Mapping[str, object], most: int = Paper.rows
) -> Markup:
    """What was measured when, under which inputs and from which initial states; `shared`: those of all experiments."""
    return table(EXPERIMENT_HEADER, [experiment_row(one, shared) for one in experiments], (1, 2, 3), most)


def noise_words(noise: NoiseModel | Mapping[str, NoiseModel]) -> str:
    """`normal, additive 0.1, proportional estimated between 0.01 and 1`."""
    if isinstance(noise, Mapping):
        return "; ".join(f"{name}: {noise_words(one)}" for name, one in noise.items())
    levels = {one.name: getattr(noise, one.name) for one in fields(noise)}
    common = levels.pop("common", False)
    given = [one.name for one in fields(noise) if one.name in levels and levels[one.name] != one.default]
    told = [NOISES[type(noise).__name__], *(f"{name} {_level(levels[name])}" for name in given)]
    return ", ".join([*told, "one common factor at each time"] if common else told)


def _level(level: object) -> str:
    if isinstance(level, Mapping):
        return "(" + ", ".join(f"{name}: {_level(one)}" for name, one in level.items()) + ")"
    if isinstance(level, str):
        return level
    low, high = level if isinstance(level, tuple) else getattr(level, "bounds", (level, level))
    if low == high:
        return number(low)
    return (
        f"estimated above {number(low)}"
        if high == math.inf
        else f"estimated between {number(low)} and {number(high)}"
    )
