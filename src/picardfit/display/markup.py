"""Pieces of HTML that the report and notebooks share. Everything that a user has named or typed is escaped here."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from html import escape
from math import inf, isfinite
from typing import TYPE_CHECKING

from picardfit.display.text import EXPERIMENT_HEADER, count, experiment_row, number
from picardfit.display.typeset import Equation, equations_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from picardfit.model.model import Model
    from picardfit.model.noise_models import NoiseModel
    from picardfit.model.parameters import Parameter
    from picardfit.problem.experiment import Experiment
    from picardfit.problem.problem import Problem

MOST_ROWS = 200  # of a table
SHORT = 20  # rows up to which a table stays on one page
HEAVY = 400_000  # characters of a picture from which on pixels are tried instead
TALL = 0.8  # height over width beyond which a picture may fill a page
DOTS = 130  # per inch, of a picture in pixels
NOISES = {"Noise": "normal", "LogNormal": "log-normal", "StudentT": "Student's t", "Laplace": "Laplace"}
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Iterable[int] = (),
    most: int = MOST_ROWS,
) -> str:
    """Columns that are empty throughout are left out, rows beyond the first `most` are counted."""
    used = [k for k in range(len(header)) if any(row[k] for row in rows)]
    style = {k: ' class="n"' if k in set(numeric) else "" for k in used}
    head = "".join(f"<th{style[k]}>{escape(header[k])}</th>" for k in used)
    lines = ["".join(f"<td{style[k]}>{escape(row[k])}</td>" for k in used) for row in rows[:most]]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p class='quiet'>… and {len(rows) - most} more.</p>" if len(rows) > most else ""
    kind = ' class="short"' if len(rows) <= SHORT else ""
    whole = f"<table{kind}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f'<div class="wide">{whole}</div>{more}'


def picture(figure: Figure, caption: str) -> str:
    """The figure as inline SVG with its texts as text, or as pixels where that is much smaller."""
    import matplotlib

    from picardfit.display.plots.placing import placed

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": caption}), placed(figure):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    drawn = svg.replace("<svg", f'<svg role="img" aria-label="{escape(caption)}"', 1)
    if len(drawn) > HEAVY:
        pixels = io.BytesIO()
        figure.savefig(pixels, format="png", dpi=DOTS)
        code = base64.b64encode(pixels.getvalue()).decode()
        if len(code) < len(drawn) / 2:
            drawn = f'<img alt="{escape(caption)}" src="data:image/png;base64,{code}">'
    kind = ' class="tall"' if figure.get_figheight() > TALL * figure.get_figwidth() else ""
    return f"<figure{kind}>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def equations(model: Model) -> str:
    """The equations and observables of a model, typeset; as plain text where a term is too wide for that."""
    lines = [Equation(name, formula, prime) for name, formula, prime in model.written]
    text = "\n".join(f"{one.name}{chr(39) if one.prime else ''} = {one.formula}" for one in lines)
    if not lines:
        return f"<pre>{escape(str(model))}</pre>"
    shown = [typeset(lines, text)]
    formulas = model.observable_formulas
    if all(name == right for name, right in formulas.items()):
        shown.append(f"<p>Observed: {escape(', '.join(formulas))}.</p>")
    else:
        observed = [Equation(name, right) for name, right in formulas.items()]
        text = "\n".join(f"{name} = {right}" for name, right in formulas.items())
        shown.append(f"<p>Observed:</p>{typeset(observed, text)}")
    return "\n".join(shown)


def typeset(lines: Sequence[Equation], text: str) -> str:
    """The equations as MathML, or the text if they would not fit on a page."""
    drawn = equations_html(lines)
    return f"<pre>{escape(text)}</pre>" if drawn is None else f'<div class="wide">{drawn}</div>'


def parameter_table(problem: Problem) -> str:
    """What is known of the parameters beforehand."""
    rows = [
        (
            name,
            *_belief(one),
            "one for each experiment" if one.local else "",
            "" if one.prior is None else str(one.prior),
            one.unit or problem.model.unit(name),
        )
        for name, one in problem.parameters.items()
    ]
    return table(("parameter", "from", "to", "", "", "prior", "unit"), rows, numeric=(1, 2))


def _belief(one: Parameter) -> tuple[str, str, str]:
    if one.fixed is not None:
        return "", "", f"fixed at {number(one.fixed)}"
    low = "0" if one.log and one.lower == -inf else number(one.lower) if isfinite(one.lower) else "no bound"
    high = number(one.upper) if isfinite(one.upper) else "no bound"
    return low, high, "searched in its logarithm" if one.log else ""


def experiment_table(
    experiments: Sequence[Experiment], shared: Mapping[str, object], most: int = MOST_ROWS
) -> str:
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
    return number(low) if low == high else f"estimated between {number(low)} and {number(high)}"


def words(names: Sequence[str]) -> str:
    """`a, b and c`; the first ten only."""
    shown = [*names[:10], f"{len(names) - 10} more"] if len(names) > 10 else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def counted(n: int, word: str) -> str:
    """`six parameters`, `12 parameters`."""
    return count(n, word).replace(str(n), NUMBER_WORDS[n], 1) if n < len(NUMBER_WORDS) else count(n, word)
