"""`picardfit check`: what a problem file says, and what its data can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import (
    HERE,
    AsJson,
    ProblemPath,
    TimeUpError,
    at_most,
    complaints,
    console,
    print_json,
)
from picardfit.cli.petab import is_petab, opened
from picardfit.errors import InputError, Notice

if TYPE_CHECKING:
    from picardfit.inference.analysis import Analysis
    from picardfit.inference.structural import Structure
    from picardfit.problem.problem import Problem

MOST_SHOWN = 20  # experiments
PATIENCE = 20.0  # seconds that an examination may take


def check(
    problem: ProblemPath = HERE,
    quick: Annotated[bool, typer.Option("--quick", help="Only read the file: no analysis.")] = False,
    as_json: AsJson = False,
) -> None:
    """Validate a problem file; show model, data, what they can determine and the theory's segment length T.

    The YAML file of a PEtab problem will do as well.
    """
    with complaints(as_json):
        file = _opened(problem)
        warnings = [*map(str, file.remarks), *map(str, file.problem.remarks), *_warnings(file.problem)]
        structure = analysis = None
        if not quick:
            early = bool(_early_start(file.problem))  # then everything would be integrated over a long void
            structure = None if early else _in_time(_structure, file.problem)
            analysis = None if early else _in_time(_analysis, file.problem)
            if structure is None:
                warnings.append(
                    "What the data can determine was not examined: the model is too slow, or not finite."
                )
            else:
                warnings += _undetermined(structure)
        if as_json:
            print_json(_record(file, structure, analysis, warnings))
        else:
            _show(file, structure, analysis, warnings)


@dataclass(frozen=True)
class _File:
    """What is shown of a file."""

    path: Path
    title: str
    problem: Problem
    remarks: tuple[Notice, ...] = ()


def _opened(path: Path) -> _File:
    if is_petab(path):
        imported = opened(path)
        return _File(path, imported.tables.name, imported.problem, imported.remarks)
    from picardfit.files.problem_file import read_problem_file

    file = read_problem_file(path)
    return _File(file.path, file.title, file.problem)


def _in_time(function: Callable, problem: Problem) -> object | None:
    """What the function finds; None where the model cannot be evaluated, or takes too long."""
    try:
        with at_most(PATIENCE):
            return function(problem)
    except (InputError, TimeUpError):
        return None


def _structure(problem: Problem) -> Structure:
    from picardfit.inference.structural import structural

    return structural(problem)


def _analysis(problem: Problem) -> Analysis:
    import numpy as np

    from picardfit.inference.analysis import analyse

    with np.errstate(all="ignore"):  # data of absurd size overflow; the numbers then say so
        return analyse(problem, samples=500)


def _warnings(problem: Problem) -> list[str]:
    """What will go wrong or stay unknown, as far as counting can tell."""
    from picardfit.errors import listing

    said = _early_start(problem)
    unknowns, measured = problem.layout.count(), problem.measurements
    if measured < unknowns:
        said.append(
            f"There are fewer measurements ({measured}) than unknowns ({unknowns}): not all can be determined."
        )
    open_ended = [
        name for name, one in problem.parameters.items() if one.fixed is None and isinf(one.upper - one.lower)
    ]
    if open_ended:
        said.append(f"Bounds are missing for {listing(open_ended)}: starts are easier to find inside bounds.")
    switching = [n for n in problem.model.switching_parameters if problem.parameters[n].fixed is None]
    if switching:
        said.append(
            f"{listing(switching)} only decide when something switches and cannot be searched: try starts."
        )
    said += [
        f"`{name}` is not estimated: it stands only in `{helper} = ...`, which no equation uses."
        for name, helper in problem.model.dropped.items()
    ]
    said += [f"`{name}` was never measured in `{experiment}`." for experiment, name in problem.unmeasured]
    never = set(problem.model.observables) - {n for one in problem.experiments for n in one.observables}
    return said + [f"The observable `{name}` is in no data file." for name in sorted(never)]


def _early_start(problem: Problem) -> list[str]:
    """A warning when an unknown initial state is sought long before the first sample."""
    from picardfit.problem.experiment import LongGap

    free = problem.layout.exists[:, : len(problem.layout.initial_states)].any(axis=1)
    for one, unknown in zip(problem.experiments, free, strict=True):
        if unknown and LongGap().between(one.t0, one.times):
            return [
                f"The initial state of `{one.name}` is sought at {one.t0:g}, long before the first sample at "
                f'{one.times[0]:g}: write t0 = "first" unless that is meant.'
            ]
    return []


def _undetermined(structure: Structure) -> list[str]:
    """What no data of this kind could determine."""
    return [f"Not determined whatever the noise: {group}." for group in structure.groups]


def _show(file: _File, structure: Structure | None, analysis: Analysis | None, warnings: list[str]) -> None:
    from picardfit.cli.show import belief_row, print_table
    from picardfit.display.text import EXPERIMENT_HEADER, count, experiment_row

    out, problem = console(), file.problem
    out.print(f"{file.title}  ({file.path})\n", markup=False, style="bold")
    out.print(str(problem.model), markup=False)
    out.print()
    header = ("parameter", "from", "to", "", "", "unit")
    print_table(out, header, [belief_row(n, p) for n, p in problem.parameters.items()], numeric=(1, 2))
    out.print()
    rows = [experiment_row(one, problem.initial) for one in problem.experiments[:MOST_SHOWN]]
    print_table(out, EXPERIMENT_HEADER, rows, numeric=(1, 2, 3))
    if len(problem.experiments) > MOST_SHOWN:
        out.print(f"... and {len(problem.experiments) - MOST_SHOWN} more")
    out.print()
    out.print(f"{count(problem.measurements, 'measurement')}, {count(problem.layout.count(), 'unknown')}")
    if structure is not None:
        out.print(f"\n{structure}", markup=False)
    if analysis is not None:
        out.print(f"\n{_theory(analysis)}", markup=False)
    for warning in warnings:
        out.print(f"\nMind: {warning}", markup=False, style="yellow")
    out.print(
        "\nThe file is in order." if not warnings else "\nThe file is in order, with something to mind."
    )


def _theory(analysis: Analysis) -> str:
    from picardfit.display.text import number

    ball, data = analysis.on_ball.segment_length, analysis.along_data.segment_length
    return (
        f"Theory: the Picard operator surely contracts on segments shorter than T = {number(ball, 3)}; "
        f"along these data T = {number(data, 3)} will do, {number(analysis.segments(data), 4)} segments in all."
    )


def _record(file: _File, structure: Structure | None, analysis: Analysis | None, warnings: list[str]) -> dict:
    problem = file.problem
    record = {
        "success": True,
        "title": file.title,
        "file": str(file.path),
        "states": problem.model.states,
        "parameters": {
            n: {"lower": p.lower, "upper": p.upper, "fixed": p.fixed} for n, p in problem.parameters.items()
        },
        "inputs": problem.model.inputs,
        "observables": problem.model.observables,
        "experiments": {
            one.name: {"times": len(one.times), "from": one.t0, "to": float(one.times[-1])}
            for one in problem.experiments
        },
        "measurements": problem.measurements,
        "unknowns": problem.layout.count(),
        "warnings": warnings,
    }
    if analysis is not None:
        record["segment_length"] = {
            "on_ball": analysis.on_ball.segment_length,
            "along_data": analysis.along_data.segment_length,
        }
    if structure is not None:
        record["structure"] = str(structure)
    return record
