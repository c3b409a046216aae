"""PEtab (versions 1 and 2) -> Problem, and results back into PEtab's tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from picardfit.errors import InputError
from picardfit.importers.petab.problem import Import, spelled, when
from picardfit.importers.petab.tables import Tables, read_tables
from picardfit.problem.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

    from picardfit.fit import Fit


@dataclass(frozen=True, eq=False)
class Imported:
    """A problem with the tables it came from."""

    tables: Tables
    problem: Problem
    places: tuple[tuple[str, str], ...]  # experiment and observable of every measurement of the table
    idle: tuple[
        str, ...
    ]  # parameters to be estimated that no formula uses: they stay at their nominal values

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to mind about the tables, in sentences."""
        return tuple(
            f"`{name}` is not estimated, because no formula uses it: use it, or set estimate to 0."
            for name in self.idle
        )

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
    tables = read_tables(path)
    try:
        imported = Imported(tables, *Import(tables).result())
    except InputError as error:
        raise InputError(f"`{Path(path).name}`: {error}") from None
    for sentence in imported.remarks:
        warnings.warn(sentence, stacklevel=3)
    return imported


def on_scale(value: float, scale: str) -> float:
    """A value in natural units on its parameterScale."""
    return float({"lin": lambda v: v, "log": np.log, "log10": np.log10}[scale](value))


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
    frame["simulation"] = [outputs[(*place, when(row))] for row, place in rows]
    return frame.drop(columns="measurement")


def simulate(imported: Imported, values: Mapping[str, float]) -> pd.DataFrame:
    """The simulation table at these parameters, by independent integration."""
    from picardfit.problem.named_values import unknowns_from
    from picardfit.simulation.trajectories import predict

    problem = imported.problem
    layout, samples = problem.layout, problem.samples
    unknowns = unknowns_from(problem, values)
    rows = predict(problem, layout.measured_values(unknowns), layout.initial(unknowns)[0])
    if rows is None:
        raise InputError("The model has no solution at these values: change them.")
    found = {}
    for time, e, row in zip(samples.times, samples.experiment, rows, strict=True):
        for name, value in zip(problem.model.observables, row, strict=False):
            found[problem.names[e], name, float(time)] = float(value)
    return simulation_table(imported, found)


def write(fit: Fit, imported: Imported, folder: str | Path) -> dict[str, Path]:
    """Write the estimates as a parameter table and the fitted curves as a simulation table, both TSV."""
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder `{folder}` cannot be made ({error.strerror}): choose another."
        ) from None
    paths = {
        "parameters": folder / f"parameters_{imported.tables.name}.tsv",
        "simulations": folder / f"simulations_{imported.tables.name}.tsv",
    }
    parameter_table(imported, fit.parameters).to_csv(paths["parameters"], sep="\t", index=False)
    simulate(imported, fit.parameters).to_csv(paths["simulations"], sep="\t", index=False)
    return paths
