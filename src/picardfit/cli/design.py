"""`picardfit design`: ranks planned experiments by what they would add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import HERE, AsJson, ProblemPath, Verbose, complaints, print_json
from picardfit.cli.current import fit_of_file
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
            help="D (volume of the confidence region), A (mean variance), E (worst determined direction) or c:formula."
        ),
    ] = "D",
    budget: Annotated[int, typer.Option(min=1, help="How many experiments to choose.")] = 1,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    verbose: Verbose = False,
) -> None:
    """Fit the problem, then rank the candidates in its file by how much they would add to what is known."""
    with complaints(as_json):
        from picardfit.files.problem_file import read_problem_file
        from picardfit.inference.design import check_criterion
        from picardfit.inference.design import design as rank

        check_criterion(criterion)
        file = read_problem_file(problem)
        candidates = candidates_of(file)
        if budget > len(candidates):
            raise InputError("cli.budget", budget=budget, candidates=len(candidates))
        result = fit_of_file(file, quiet or as_json, verbose)
        if result.solution is None:
            raise InputError("cli.nothing_to_design_for", ended=result.conclusion)
        found = rank(result, candidates, criterion=criterion, budget=budget)
        if as_json:
            print_json(_record(result, found))
        else:
            typer.echo(found)
    raise typer.Exit(0 if result.success else 1)


def _record(result: Fit, found: Design) -> dict[str, object]:
    """The design as JSON; errors are relative standard errors."""
    return {
        "success": result.success,
        "criterion": found.criterion,
        "chosen": found.chosen,
        "now": {"value": found.value_before, "errors": found.before},
        "with_all_chosen": {"value": found.value_after, "errors": found.after},
        "candidates": {one.name: {"value": one.value, "errors": one.errors} for one in found.ranking},
    }


def candidates_of(file: ProblemFile) -> list[Experiment]:
    """The candidates of the file as planned experiments."""
    from picardfit.files.sections.experiments import planned_time
    from picardfit.problem.experiment import plan

    if not file.candidates:
        raise InputError("cli.no_candidates", str(file.path))
    measured = [time for one in file.with_data.experiments for time in one.times]
    plans = []
    for name, one in file.candidates.items():
        with file.locating("candidates", name):
            if not one.times:
                raise InputError("cli.candidate_without_times", name, key=("candidates", name))
            t0 = planned_time(name, one, one.times, measured)
            observables = one.observables or file.model.observables
            given = one.inputs, one.initial, t0
            plans.append(
                plan(one.times, observables, name, *given, doses=one.doses, covariates=one.covariates)
            )
    return plans
