"""`picardfit design`: which experiment to make next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import HERE, AsJson, ProblemPath, complaints, print_json
from picardfit.errors import InputError

if TYPE_CHECKING:
    from picardfit.files.problem_file import ProblemFile
    from picardfit.fit import Fit
    from picardfit.inference.design import Design
    from picardfit.problem.experiment import Experiment


def design(
    problem: ProblemPath = HERE,
    criterion: Annotated[
        str,
        typer.Option(
            help="D (volume), A (mean variance), E (worst direction that can be determined) or c:formula."
        ),
    ] = "D",
    budget: Annotated[int, typer.Option(min=1, help="How many experiments to choose.")] = 1,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Fit, then rank the candidates of the problem file by what they would add."""
    with complaints(as_json):
        from picardfit.cli.fit import run
        from picardfit.files.problem_file import read_problem_file
        from picardfit.inference.design import check_criterion
        from picardfit.inference.design import design as rank

        check_criterion(criterion)
        file = read_problem_file(problem)
        candidates = _candidates(file)
        if budget > len(candidates):
            raise InputError(f"--budget {budget} is more than the {len(candidates)} candidates: lower it.")
        result = run(file.problem, file.settings, quiet or as_json)
        if result.solution is None:
            raise InputError(f"There is no fit to design for: {result.message}")
        found = rank(result, candidates, criterion=criterion, budget=budget)
        if as_json:
            print_json(_record(result, found))
        else:
            typer.echo(found)
    raise typer.Exit(0 if result.success else 1)


def _record(result: Fit, found: Design) -> dict[str, object]:
    """A design for machines; errors are relative standard errors."""
    return {
        "success": result.success,
        "criterion": found.criterion,
        "chosen": found.chosen,
        "now": {"value": found.value_before, "errors": found.before},
        "with_all_chosen": {"value": found.value_after, "errors": found.after},
        "candidates": {one.name: {"value": one.value, "errors": one.errors} for one in found.ranking},
    }


def _candidates(file: ProblemFile) -> list[Experiment]:
    from picardfit.files.sections.experiments import planned_time
    from picardfit.problem.experiment import plan

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
