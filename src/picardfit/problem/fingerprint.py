"""Short texts that tell one problem from another, for ledgers."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from picardfit.errors import InputError
from picardfit.problem.problem import Problem
from picardfit.problem.records import plain
from picardfit.problem.serialisation import problem_record


def digest(content: object) -> str:
    """The same text for the same numbers, texts, lists and mappings."""
    text = json.dumps(plain(content, "the problem"), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def problem_digest(problem: Problem) -> str:
    """Of what defines a problem: its formulas and data, or samples of its functions where there are no formulas."""
    try:
        return digest(problem_record(problem))
    except InputError:
        return digest(_samples(problem))


def _samples(problem: Problem) -> list[object]:
    """Names, bounds, data and inputs, and the equations at a few points, to ten digits."""
    model, samples, layout = problem.model, problem.samples, problem.layout
    rng = np.random.default_rng(0)
    x, p, u = (
        rng.uniform(0.1, 2.0, (16, len(group))) for group in (model.states, model.parameters, model.inputs)
    )
    inputs = problem.inputs_at(samples.experiment, samples.times)
    values = [part.value(rng.uniform(size=16), x, p, u) for part in (model.rhs, model.output)]
    rounded = [np.char.mod("%.9e", a).tolist() for a in (*values, inputs)]
    arrays = [samples.times, samples.data, layout.lower, layout.upper, layout.base, layout.known]
    named = [problem.names, model.states, model.parameters, model.inputs, model.observables]
    return [*named, *rounded, *arrays]
