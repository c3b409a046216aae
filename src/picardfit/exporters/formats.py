"""Fits as files of other programs: SciPy, CasADi, SBML, Antimony, Modelica, Stan.

`content.py` says what a fit holds for any of them; each format is one module. Formulas are written by the one walk of
formulas/translation.py, with a table of words for each language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.errors import InputError, closest
from picardfit.exporters.content import Content, content
from picardfit.exporters.modelica import modelica_model
from picardfit.exporters.python import casadi_program, scipy_program
from picardfit.exporters.sbml import antimony_model, sbml_model
from picardfit.exporters.stan import stan_program
from picardfit.exporters.stan_data import stan_files
from picardfit.whole_files import regular_target, write_text

if TYPE_CHECKING:
    from picardfit.fit import Fit


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    endings: tuple[str, ...]  # of the names of such files
    write: Callable[[Content, Path, str], str]  # content, path and version of picardfit -> text
    several: bool = True  # whether one file holds all experiments
    also: Callable[[Content], dict[str, str]] | None = None  # further files beside it, by ending


FORMATS = {
    "casadi": Format(("_casadi.py",), casadi_program),
    "python": Format((".py",), scipy_program),
    "sbml": Format((".xml", ".sbml"), sbml_model, several=False),
    "antimony": Format((".ant",), antimony_model, several=False),
    "modelica": Format((".mo",), modelica_model, several=False),
    "stan": Format((".stan",), stan_program, also=stan_files),
}


@dataclass(frozen=True)
class Exported:
    """What was written."""

    paths: tuple[Path, ...]  # the first is the one that was asked for
    format: str
    experiments: tuple[str, ...]
    others: tuple[str, ...]  # experiments of the fit that are not in the file


def export(fit: Fit, path: str | Path, format: str | None = None, experiment: str | None = None) -> Exported:
    """Write a fit for another program. The ending of the path says for which, unless `format` does.

    `experiment`: the one to write; by default all of them, or the first where a file holds only one.
    """
    from picardfit import __version__

    target = Path(path)
    kind = format_of(target, format)
    regular_target(target)  # an impossible path is refused before anything is computed
    chosen = FORMATS[kind]
    if experiment is None and not chosen.several:
        experiment = fit.problem.names[0]
    said = content(fit, experiment)
    texts = {target: chosen.write(said, target, __version__)}
    if chosen.also is not None:
        texts |= {target.with_suffix(ending): text for ending, text in chosen.also(said).items()}
    paths = tuple(write_text(one, text) for one, text in texts.items())
    return Exported(paths, kind, tuple(one.name for one in said.courses), said.others)


def format_of(path: Path, format: str | None = None) -> str:
    """The name of the format of a file."""
    known = list(FORMATS)
    if format is not None:
        if format not in FORMATS:
            raise InputError(
                "exporters.unknown_format", str(format), known=known, close=closest(str(format), known)
            )
        return format
    for name, one in FORMATS.items():
        if path.name.lower().endswith(one.endings):
            return name
    endings = [ending for one in FORMATS.values() for ending in one.endings]
    code = "exporters.unknown_ending" if path.suffix else "exporters.no_ending"
    raise InputError(code, path.suffix or path.name, known=endings)
