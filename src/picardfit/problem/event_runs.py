"""Runs of experiments whose model has events or switching times, as integrators with event location take them."""

from __future__ import annotations

import numpy as np

from picardfit.model.clock import Timed
from picardfit.problem.problem import Problem
from picardfit.simulation.trajectories import Run


def timed_model(problem: Problem) -> Timed:
    """The model with modes and clock, which only problems with events or switching times have."""
    assert problem.timed is not None
    return problem.timed


def event_run(problem: Problem, e: int, unknowns: np.ndarray, times: np.ndarray | None = None) -> Run:
    """The run of the simulated model of experiment e at these unknowns; `times`: by default its samples."""
    timed, one = timed_model(problem), problem.experiments[e]
    layout, model, own = problem.layout, timed.simulated, len(problem.model.states)
    params = layout.model_values(unknowns)[e]
    begin = np.array(layout.initial(unknowns)[0][e, : len(model.states)])
    inputs = one.inputs_at(model.inputs, np.array([one.t0]))[0]
    begin[own:] = timed.modes(one.t0, params, inputs)
    jumps = problem.jumps[e]
    return Run(
        one.t0,
        begin,
        params,
        one.signals,
        one.times if times is None else times,
        problem.input_breaks(e),
        None if jumps is None else jumps.of_first(len(model.states)),
        begun=one.rest is not None,
    )
