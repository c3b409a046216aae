"""`picardfit check`: validates a problem file and shows what its data can determine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, isinf
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from picardfit.cli.common import (
    HERE,
    AsJson,
    ProblemPath,
    complaints,
    console,
    print_json,
    print_table,
)
from picardfit.cli.petab import is_petab, opened
from picardfit.errors import Audience, InputError, Notice, counted

if TYPE_CHECKING:
    from picardfit.inference.analysis import Analysis
    from picardfit.inference.structural import Structure
    from picardfit.problem.problem import Problem

T = TypeVar("T")


@dataclass(frozen=True)
class CheckSettings:
    """Limits of `picardfit check`."""

    most_experiments: int = 20  # rows of the table of experiments, which fit on one screen
    most_lines: int = 100  # of the model and of the table of parameters
    most_alike: int = 10  # warnings of one kind
    most_unknowns: int = 400  # of one experiment that are examined
    # of all experiments together: states times initial states and unknowns; 107,000 of them took 3 GB
    most_derivatives: int = 30_000
    patience: float = 8.0  # seconds for each analysis; starters take one or two
    # of what PEtab's data determine, and of a likelihood with --quick: problems are large, and checked to be read
    petab_patience: float = 1.5
    samples: int = 500  # points of the parameter box at which `analyse` evaluates the model


def check(
    problem: ProblemPath = HERE,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Read the file, no analysis."),
    ] = False,
    theory: Annotated[
        bool, typer.Option("--theory", help="Also show the constants of the theorems on the Picard operator.")
    ] = False,
    patience: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds that each analysis may take; 0: any number. By default 8, of PEtab problems 1.5.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Validate a problem file; print the model, the data and what data of this kind can determine.

    PROBLEM may also be the YAML file of a PEtab problem.
    """
    with complaints(as_json):
        file = _opened(problem)
        usual = CheckSettings.petab_patience if is_petab(problem) else CheckSettings.patience
        settings = CheckSettings(patience=usual if patience is None else patience)
        examination = Examination() if quick else examine(file.problem, settings, theory)
        notices = [*file.remarks, *file.problem.remarks, *_warnings(file.problem), *examination.warnings]
        seconds = CheckSettings.petab_patience if quick else CheckSettings.patience
        value = _in_time(seconds if patience is None else patience, at_nominal, file.problem)
        if isinstance(value, Notice):
            value = None
        elif value is not None and not isfinite(value):
            notices.append(Notice("cli.nominal_not_finite"))
        warnings = _told(notices, None if as_json else CheckSettings.most_alike)
        if as_json:
            print_json(_record(file, examination, warnings) | ({} if value is None else {"nllh": value}))
        else:
            _show(file, examination, warnings, len(notices), value)


@dataclass(frozen=True)
class _File:
    """The content of a problem file or PEtab problem."""

    path: Path
    title: str
    problem: Problem
    remarks: Sequence[Notice] = ()
    ignored: Notice | None = None


def _opened(path: Path) -> _File:
    if is_petab(path):
        imported = opened(path)
        return _File(path, imported.tables.name, imported.problem, imported.remarks, imported.ignored)
    from picardfit.files.problem_file import read_problem_file

    file = read_problem_file(path)
    return _File(file.path, file.title, file.with_data)


@dataclass(frozen=True)
class Examination:
    """What the analyses of a problem found; None where one was not asked for, took too long or failed."""

    structure: Structure | None = None
    analysis: Analysis | None = None
    warnings: tuple[Notice, ...] = ()


def at_nominal(problem: Problem) -> float | None:
    """The negative log-likelihood at the nominal values; None where not every parameter has one."""
    nominal = problem.nominal or {}
    known = all(name in nominal for name, one in problem.parameters.items() if one.fixed is None)
    return problem.nllh(nominal) if nominal and known and not len(problem.layout.initial_states) else None


def examine(problem: Problem, settings: CheckSettings = CheckSettings(), theory: bool = False) -> Examination:
    """Whether data of this kind can determine the unknowns and, on request, the constants of the theory."""
    from picardfit.inference.structural import structural

    if _early_start(problem):  # the model would be integrated over a long span without data
        return Examination(warnings=(Notice("cli.not_examined_from_t0"),))
    states, unknowns = len(problem.model.states), problem.layout.exists.shape[1]
    experiments = len(problem.experiments)
    derivatives = experiments * states * (states + unknowns)
    if unknowns > settings.most_unknowns or derivatives > settings.most_derivatives:
        size = {"states": states, "unknowns": unknowns, "experiments": experiments}
        return Examination(warnings=(Notice("cli.not_examined_large", values=size),))
    structure = _in_time(settings.patience, structural, problem)
    analysis = _in_time(settings.patience, _analysis, problem, settings.samples) if theory else None
    warnings = [structure] if isinstance(structure, Notice) else _lost(structure)
    if isinstance(analysis, Notice):
        warnings.append(Notice("cli.no_constants", values={"seconds": settings.patience}))
    return Examination(
        None if isinstance(structure, Notice) else structure,
        None if isinstance(analysis, Notice) else analysis,
        tuple(warnings),
    )


def _lost(structure: Structure) -> list[Notice]:
    """What even data without noise cannot determine."""
    return [Notice("cli.undetermined", values={"group": str(group)}) for group in structure.groups]


def _in_time(seconds: float, function: Callable[..., T], *args: object) -> T | Notice:
    """What the function returns, or why there is nothing: the model cannot be integrated, or takes too long.

    The time is unlimited for 0 seconds, on systems without SIGALRM and outside the main thread.
    """
    limited = (
        seconds > 0 and hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    )
    if limited:
        before = signal.signal(signal.SIGALRM, _Alarm())
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function(*args)
    except _TimeUpError:
        return Notice("cli.not_examined_in_time", values={"seconds": seconds, "more": 10 * seconds})
    except InputError:
        return Notice("cli.not_examined")
    finally:
        if limited:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


class _TimeUpError(Exception):
    """A computation took longer than allowed."""


class _Alarm:
    """Ends a computation where our own code runs: other code may hold a lock that it would keep for ever.

    Where our code is not met for a while, it ends anywhere.
    """

    def __init__(self, tries: int = 1000, pause: float = 0.001) -> None:
        self._left, self._pause = tries, pause  # pause in seconds: a second in all

    def __call__(self, _: int, frame: FrameType | None) -> None:
        ours = frame is not None and str(frame.f_globals.get("__name__", "")).startswith("picardfit")
        if ours or not self._left:
            raise _TimeUpError
        self._left -= 1
        signal.setitimer(signal.ITIMER_REAL, self._pause)


def _analysis(problem: Problem, samples: int) -> Analysis:
    import numpy as np

    from picardfit.inference.analysis import analyse

    with np.errstate(all="ignore"):  # data of absurd size overflow; the printed numbers show it
        return analyse(problem, samples=samples)


def _warnings(problem: Problem) -> list[Notice]:
    """What counting alone shows: too few measurements, missing bounds, names that nothing uses."""
    from picardfit.search.notices import jumps_in_states

    found = _early_start(problem)
    unknowns, measured = problem.layout.count(), problem.measurements
    if measured < unknowns:
        found.append(Notice("cli.few_measurements", values={"measured": measured, "unknowns": unknowns}))
    free = {name: one for name, one in problem.parameters.items() if one.fixed is None}
    open_ended = [name for name, one in free.items() if isinf(one.upper - one.lower)]
    if open_ended:
        found.append(Notice("cli.no_bounds", values={"names": open_ended}))
    switching = [name for name in problem.model.switching_parameters if name in free]
    if switching:
        found.append(Notice("cli.switching", values={"names": switching}))
    found += [Notice("cli.jump", one.subject, one.values) for one in jumps_in_states(problem)]
    found += [Notice("cli.dropped", name, {"helper": h}) for name, h in problem.model.dropped.items()]
    found += [Notice("cli.unmeasured", name, {"experiment": one}) for one, name in problem.unmeasured]
    never = set(problem.model.observables) - {n for one in problem.experiments for n in one.observables}
    return found + [Notice("cli.not_in_data", name) for name in sorted(never)]


def _told(notices: Sequence[Notice], most: int | None) -> list[str]:
    """The sentences of warnings: of each kind the first `most`, and how many more there are."""
    kinds: dict[str, list[str]] = {}
    for one in notices:
        kinds.setdefault(one.code, []).append(one.sentence(Audience.COMMAND))
    return [line for alike in kinds.values() for line in _cut(alike, most)]


def _cut(lines: Sequence[str], most: int | None) -> list[str]:
    """The first `most` lines, and one that says how many more there are."""
    if most is None or len(lines) <= most:
        return list(lines)
    return [*lines[:most], f"... and {len(lines) - most} more"]


def _early_start(problem: Problem) -> list[Notice]:
    """A warning when an unknown initial state is sought long before the first sample."""
    import numpy as np

    from picardfit.problem.experiment import LongGap

    free = problem.layout.exists[:, : len(problem.layout.initial_states)].any(axis=1)
    for one, unknown in zip(problem.experiments, np.atleast_1d(free), strict=True):
        if unknown and LongGap().between(one.t0, one.times):
            t0, first = one.time_texts(np.array([one.t0, one.times[0]]))
            return [Notice("cli.early_start", one.name, {"t0": t0, "first": first})]
    return []


def _show(
    file: _File, examination: Examination, warnings: list[str], count: int, value: float | None
) -> None:
    from picardfit.display.text import (
        EXPERIMENT_HEADER,
        PARAMETER_HEADER,
        experiment_row,
        number,
        parameter_row,
    )

    out, problem, most = console(), file.problem, CheckSettings.most_experiments
    out.print(f"{file.title}  ({file.path})\n", markup=False, style="bold")
    lines = CheckSettings.most_lines
    for line in _cut(str(problem.model).splitlines(), lines):
        out.print(line if len(line) <= lines**2 else f"{line[: lines**2]} ...", markup=False)
    out.print()
    rows = [parameter_row(n, one, problem.model.unit(n)) for n, one in problem.parameters.items()]
    print_table(out, PARAMETER_HEADER, rows[:lines], numeric=(1, 2))
    if len(rows) > lines:
        out.print(f"... and {len(rows) - lines} more")
    out.print()
    rows = [experiment_row(one, problem.initial) for one in problem.experiments[:most]]
    print_table(out, EXPERIMENT_HEADER, rows, numeric=(1, 2, 3))
    if len(problem.experiments) > most:
        out.print(f"... and {len(problem.experiments) - most} more")
    out.print()
    out.print(f"{counted(problem.measurements, 'measurement')}, {counted(problem.layout.count(), 'unknown')}")
    if value is not None:
        out.print(f"negative log-likelihood at the nominal values: {number(value, 8)}")
    if file.ignored is not None:
        out.print(str(file.ignored), markup=False)
    if examination.structure is not None:
        out.print(f"\n{examination.structure}", markup=False)
    if examination.analysis is not None:
        out.print(f"\n{_theory(examination.analysis)}", markup=False)
    for warning in warnings:
        out.print(f"\nWarning: {warning}", markup=False, style="yellow")
    found = f", with {counted(count, 'warning')}" if warnings else ""
    out.print(f"\nThe file is in order{found}.")


def _theory(analysis: Analysis) -> str:
    from picardfit.display.text import number

    ball, data = analysis.on_ball.segment_length, analysis.along_data.segment_length
    many = analysis.segments(data)
    segments = f"{number(many, 4)} segment{'' if many == 1 else 's'}"
    return (
        f"Theory: the Picard operator is guaranteed to contract on segments shorter than T = {number(ball, 3)}; "
        f"along these data T = {number(data, 3)} is enough, {segments} in all."
    )


def _record(file: _File, examination: Examination, warnings: list[str]) -> dict[str, object]:
    problem, analysis = file.problem, examination.analysis
    record: dict[str, object] = {
        "success": True,
        "title": file.title,
        "file": str(file.path),
        "states": problem.model.states,
        "parameters": {
            n: {"lower": p.lower, "upper": p.upper, "fixed": p.fixed} for n, p in problem.parameters.items()
        },
        "inputs": problem.model.signals,
        "covariates": problem.model.covariates,
        "observables": problem.model.observables,
        "experiments": {
            one.name: {"times": len(one.times), "from": one.t0, "to": float(one.times[-1])}
            | ({} if one.calendar is None else one.calendar.record())
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
    if examination.structure is not None:
        record["structure"] = str(examination.structure)
    return record
