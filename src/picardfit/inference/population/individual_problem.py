"""The problem of the individuals: the same model and data, where every random parameter has a value of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from picardfit.checks import FrozenDict
from picardfit.errors import InputError
from picardfit.model.densities import Shape
from picardfit.problem.problem import Problem


def individual_problem(problem: Problem) -> Problem:
    """The problem with local parameters in place of random ones; InputError where a population makes no sense.

    Its unknowns are the columns [random | shared], and those of an individual are theta + eta.
    """
    check_population(problem)
    return _with_parameters(problem, local=True)


def pooled_problem(problem: Problem) -> Problem:
    """The problem without random effects: all individuals have the typical values."""
    return _with_parameters(problem, local=False)


def _with_parameters(problem: Problem, local: bool) -> Problem:
    parameters = FrozenDict(
        {
            name: replace(one, random=False, local=local and one.random, prior=None if local else one.prior)
            if one.random or local
            else one
            for name, one in problem.parameters.items()
        }
    )
    return replace(problem, parameters=parameters, random=None)


def check_population(problem: Problem) -> None:
    """InputError unless a marginal likelihood is defined: random effects, individuals, data, and normal noise."""
    if problem.random is None:
        raise InputError("inference.population_without_random")
    if len(problem.experiments) < 2:
        raise InputError("inference.population_of_one", problem.names[0])
    if problem.scatter is None:
        raise InputError("inference.population_without_noise", key=("noise",))
    columns = problem.scatter.columns
    if problem.scatter.common or any(one.shape is not Shape.NORMAL for one in columns):
        raise InputError("inference.population_noise", key=("noise",))
    _check_unknowns(problem)
    for one in problem.experiments:
        if any(remark.code == "files.nonmem_divided" for remark in one.remarks):
            raise InputError("inference.population_divided", one.name, key=("experiments", one.name))
    measured = np.isfinite(problem.samples.data).any(axis=1)
    for e, name in enumerate(problem.names):
        if not measured[problem.samples.experiment == e].any():
            raise InputError("inference.population_no_data", name, key=("experiments", name))


def _check_unknowns(problem: Problem) -> None:
    """InputError where an unknown of one experiment has no distribution."""
    for name, one in problem.parameters.items():
        if one.local and one.fixed is None:
            raise InputError("inference.population_local", name, key=("parameters", name))
    layout = problem.layout
    for column, state in enumerate(layout.initial_states):
        unknown = np.flatnonzero(layout.exists[:, column])
        name, where = layout.states[int(state)], layout.experiments[int(unknown[0])]
        raise InputError("inference.population_initial", name, key=("initial", name), experiment=where)
