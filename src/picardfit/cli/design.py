"""`picardfit design`: which experiment to make next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import HERE, ProblemPath, Quiet, complaints
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.data import Experiment
    from picardfit.problem_file import ProblemFile


def design(
    problem: ProblemPath = HERE,
    criterion: Annotated[
        str, typer.Option(help="D (volume), A (mean variance), E (worst direction) or c:formula.")
    ] = "D",
    budget: Annotated[int, typer.Option(min=1, help="How many experiments to choose.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Fit, then rank the candidates of the problem file by what they would add."""
    with complaints():
        from picardfit.cli.fit import run
        from picardfit.experiment_design import design as rank
        from picardfit.problem_file import read_problem_file

        file = read_problem_file(problem)
        candidates = _candidates(file)
        result = run(file.problem, file.settings, quiet)
        if result.solution is None:
            raise InputError(f"There is no fit to design for: {result.message}")
        typer.echo(rank(result, candidates, criterion=criterion, budget=budget))
    raise typer.Exit(0 if result.success else 1)


def _candidates(file: ProblemFile) -> list[Experiment]:
    from picardfit.data import plan
    from picardfit.sections.experiments import planned_time

    if not file.candidates:
        raise InputError(
            f"There are no candidates in {file.path}: add a section such as [candidates.long] with times = [0, 5, 10]."
        )
    measured = [time for one in file.problem.experiments for time in one.times]
    plans = []
    for name, one in file.candidates.items():
        if not one.times:
            raise InputError(
                f"The candidate `{name}` has no times: add times = [...] to [candidates.'{name}']."
            )
        observables = one.observables or file.model.observables
        plans.append(
            plan(
                one.times,
                observables=observables,
                inputs=one.inputs,
                initial=one.initial,
                name=name,
                t0=planned_time(name, one, one.times, measured),
            )
        )
    return plans
