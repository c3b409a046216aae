"""PEtab (versions 1 and 2) -> Problem, and results back into PEtab's tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.errors import Audience, InputError, Notice
from picardfit.importers.petab.files import read_listing
from picardfit.importers.petab.parameters import log_prior
from picardfit.importers.petab.problem import Import, spelled
from picardfit.importers.petab.tables import Tables
from picardfit.importers.petab.v1 import first_version
from picardfit.importers.petab.v2 import second_version
from picardfit.problem.likelihood import Likelihood
from picardfit.problem.problem import Problem
from picardfit.whole_files import make_folder, write_text

if TYPE_CHECKING:
    import pandas as pd

    from picardfit.fit import Fit


@dataclass(frozen=True, eq=False)
class Imported:
    """A problem with the tables it came from."""

    tables: Tables
    problem: Problem
    places: tuple[tuple[str, str], ...]  # experiment and observable of every measurement of the table
    idle: tuple[str, ...]  # parameters to be estimated that no formula uses: they keep their nominal values

    @property
    def remarks(self) -> tuple[Notice, ...]:
        """Warnings about the tables."""
        zero = [name for name, row in self.tables.parameters.items() if row.stuck_at_zero]
        without = self.tables.without_number
        left_out = [
            Notice(
                "importers.rows_without_number",
                values={"count": len(without), "file": Path(one.file).name, "line": one.line},
            )
            for one in without[:1]
        ]
        return (
            *left_out,
            *(Notice("importers.idle_parameter", name) for name in self.idle),
            *(Notice("importers.zero_on_log_scale", name) for name in zero),
        )

    @property
    def ignored(self) -> Notice | None:
        """What was not read, in one line; None where everything was."""
        if not self.tables.ignored:
            return None
        return Notice("importers.ignored_content", values={"what": ", ".join(self.tables.ignored)})

    def log_priors(self, values: Mapping[str, float]) -> dict[str, float]:
        """The logarithm of the prior density of every parameter that is estimated, cut off at its bounds.

        A parameter without a prior is uniform between its bounds.
        """
        rows = self.tables.parameters.items()
        return {spelled(name): log_prior(row, values[spelled(name)]) for name, row in rows if row.estimated}

    @property
    def scales(self) -> dict[str, str]:
        """The parameterScale of every parameter."""
        return {spelled(name): row.scale for name, row in self.tables.parameters.items()}


def read(path: str | Path) -> Problem:
    """The problem of a PEtab YAML file; `problem.nominal` are the table's nominal values."""
    return _loaded(path).problem


def load(path: str | Path) -> Imported:
    """The problem of a PEtab YAML file with its tables, which `write` needs.

    A warning names parameters that are to be estimated but that no formula uses.
    """
    return _loaded(path)


def _loaded(path: str | Path) -> Imported:
    try:
        tables = _tables(Path(path))
        imported = Imported(tables, *Import(tables).result())
    except InputError as error:
        raise error.at(file=error.place.file or str(path), audience=Audience.FILE) from None
    for remark in imported.remarks:
        warnings.warn(str(remark), stacklevel=3)
    return imported


def _tables(path: Path) -> Tables:
    """The tables that a PEtab YAML file names."""
    listed = read_listing(path)
    version = str(listed.content.get("format_version", "none"))
    match version.split(".")[0]:
        case "1":
            return first_version(listed)
        case "2":
            return second_version(listed)
    raise listed.at(InputError("importers.petab_version", version=version), "format_version")


def on_scale(value: float, scale: str) -> float:
    """A value in natural units on its parameterScale."""
    return value if scale == "lin" else float(np.log(value) if scale == "log" else np.log10(value))


def parameter_table(imported: Imported, values: Mapping[str, float]) -> pd.DataFrame:
    """The parameter table with `nominalValue` replaced by these values (linear, as PEtab has it)."""
    frame = imported.tables.frames["parameters"].copy()
    old = frame["nominalValue"] if "nominalValue" in frame else [""] * len(frame)
    names = [spelled(name.strip()) for name in frame["parameterId"]]
    frame["nominalValue"] = [
        repr(float(values[n])) if n in values else text for n, text in zip(names, old, strict=True)
    ]
    return frame


def simulation_table(imported: Imported, outputs: Mapping[tuple[str, str, float], float]) -> pd.DataFrame:
    """The measurement table with a column `simulation` in place of `measurement`.

    `outputs`: (experiment, observable, time) -> simulated value.
    """
    frame = imported.tables.frames["measurements"].copy()
    rows = zip(imported.tables.measurements, imported.places, strict=True)
    frame["simulation"] = [outputs[(*place, row.time)] for row, place in rows]
    return frame.drop(columns="measurement")


def simulate(imported: Imported, values: Mapping[str, float]) -> pd.DataFrame:
    """The simulation table at these parameters, by independent integration."""
    from picardfit.problem.named_values import unknowns_from

    problem = imported.problem
    layout, samples = problem.layout, problem.samples
    unknowns = unknowns_from(problem, values)
    rows = problem.predicted_rows(layout.measured_values(unknowns), layout.initial(unknowns)[0])
    if rows is None:
        raise InputError("importers.no_solution")
    found = {}
    for time, e, row in zip(samples.times, samples.experiment, rows, strict=True):
        for name, value in zip(problem.model.observables, row, strict=False):
            found[problem.names[e], name, float(time)] = float(value)
    return simulation_table(imported, found)


def chi_squared(imported: Imported, values: Mapping[str, float]) -> float:
    """The sum of squared residuals in units of the noise (standard deviation or scale) at these parameters."""
    from picardfit.problem.named_values import unknowns_from

    problem = imported.problem
    layout, unknowns = problem.layout, unknowns_from(problem, values)
    rows = problem.predicted_rows(layout.measured_values(unknowns), layout.initial(unknowns)[0])
    if rows is None or not isinstance(problem.objective, Likelihood):
        raise InputError("importers.no_solution")
    return float(np.nansum(problem.objective.gaps(rows) ** 2))


def write(fit: Fit, imported: Imported, folder: str | Path) -> dict[str, Path]:
    """Write the estimates as a parameter table and the fitted curves as a simulation table, both TSV."""
    folder = make_folder(folder)
    paths = {
        "parameters": folder / f"parameters_{imported.tables.name}.tsv",
        "simulations": folder / f"simulations_{imported.tables.name}.tsv",
    }
    frames = {
        "parameters": parameter_table(imported, fit.parameters),
        "simulations": simulate(imported, fit.parameters),
    }
    for kind, frame in frames.items():
        write_text(paths[kind], frame.to_csv(sep="\t", index=False))
    return paths
