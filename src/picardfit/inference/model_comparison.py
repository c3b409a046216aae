"""Models compared by information criteria: how well each explains the same data, and what its unknowns cost.

AIC = 2 k - 2 log L estimates, up to a constant, twice the information lost when a model stands for the truth; AICc
corrects it for few measurements. exp(-difference / 2), normalised, are Akaike's weights. All compare likelihoods of the
same data: densities of the measured numbers themselves, whatever noise each model assumes. Least squares count as
normal noise of one variance, which is one of the estimated numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, inf
from typing import TYPE_CHECKING

import numpy as np

from picardfit.display.hook import shown
from picardfit.errors import InputError, Notice
from picardfit.evidence.goodness_of_fit import criteria
from picardfit.fit import Fit
from picardfit.model.densities import COUNTS
from picardfit.problem.experiment import Experiment
from picardfit.problem.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

Column = tuple[tuple[object, ...], ...]  # what was measured of one observable: (time, value), in order


@dataclass(frozen=True)
class Differences:
    """What is different in another model; names of states, observables and parameters."""

    equations: tuple[str, ...] = ()
    observables: tuple[str, ...] = ()
    added: tuple[str, ...] = ()  # parameters that it estimates in addition
    removed: tuple[str, ...] = ()  # parameters that it does not estimate
    changed: tuple[str, ...] = ()  # parameters with other bounds, scale or prior
    initial: bool = False
    noise: bool = False


@dataclass(frozen=True)
class Candidate:
    """A model among others; differences are to the best one."""

    name: str
    log_likelihood: float
    estimated: int  # numbers that were estimated, the variance of least squares among them
    aic: float
    aicc: float | None  # None where there are hardly more measurements than estimated numbers
    bic: float
    difference: float  # of the criterion of the comparison
    weight: float  # Akaike's: the probability that this model is the best of these, by the criterion
    differs: Differences  # from the best one


@shown
@dataclass(frozen=True)
class ModelComparison:
    """Models fitted to the same data, the best first, by `criterion`: AICc, or AIC where one has no AICc."""

    candidates: tuple[Candidate, ...]
    criterion: str
    measurements: int
    remarks: tuple[Notice, ...] = ()

    @property
    def best(self) -> str:
        return self.candidates[0].name

    def __getitem__(self, name: str) -> Candidate:
        for one in self.candidates:
            if one.name == name:
                return one
        raise KeyError(name)

    def to_frame(self) -> pd.DataFrame:
        """A row for each model, the best first."""
        import pandas as pd

        rows = [
            {key: value for key, value in vars(one).items() if key != "differs"} for one in self.candidates
        ]
        return pd.DataFrame(rows).set_index("name")


def compare_models(fits: Mapping[str, Fit] | Iterable[Fit]) -> ModelComparison:
    """Compare fits of different models to the same data by AIC, AICc, BIC and Akaike's weights.

    `fits`: name -> fit, or several fits, which are then called model 1, model 2. An InputError says why a comparison
    would mean nothing: other data, a fit that failed, counts beside densities.
    """
    named = _named(fits)
    for name, fit in named.items():
        _check_fit(name, fit)
    (first, reference), *others = named.items()
    for name, fit in others:
        _check_same_data(first, reference.problem, name, fit.problem)
        _check_same_measure(first, reference.problem, name, fit.problem)
    criterion = "AIC" if any(fit.aicc is None for fit in named.values()) else "AICc"
    scores = {name: _score(fit, criterion) for name, fit in named.items()}
    order = sorted(named, key=scores.__getitem__)
    least = scores[order[0]]
    total = sum(exp(-0.5 * (score - least)) for score in scores.values())
    best = named[order[0]].problem
    candidates = [
        _candidate(name, named[name], scores[name] - least, total, differences(best, named[name].problem))
        for name in order
    ]
    return ModelComparison(tuple(candidates), criterion, reference.problem.measurements, _remarks(named))


def _candidate(name: str, fit: Fit, difference: float, total: float, differs: Differences) -> Candidate:
    nllh = fit.nllh
    assert nllh is not None, "checked before"
    found = criteria(fit.problem, nllh)
    return Candidate(
        name,
        -nllh,
        found.estimated,
        found.aic,
        found.aicc,
        found.bic,
        difference,
        exp(-0.5 * difference) / total,
        differs,
    )


def _score(fit: Fit, criterion: str) -> float:
    found = fit.aicc if criterion == "AICc" else fit.aic
    return inf if found is None else found


# ---- what may be compared ------------------------------------------------------------------------------------------


def _named(fits: object) -> dict[str, Fit]:
    if isinstance(fits, Fit | str) or not isinstance(fits, Iterable):
        raise InputError("inference.not_fits", value=fits)
    named = dict(fits) if isinstance(fits, Mapping) else {f"model {k}": one for k, one in enumerate(fits, 1)}
    for name, fit in named.items():
        if not isinstance(fit, Fit):
            raise InputError("inference.not_a_fit", str(name), value=fit)
    if len(named) < 2:
        raise InputError("inference.one_model", count=len(named))
    return {str(name): fit for name, fit in named.items()}


def _check_fit(name: str, fit: Fit) -> None:
    """InputError unless a fit has a likelihood at its maximum."""
    if not fit.success:
        raise InputError("inference.compare_failed_fit", name, ended=fit.conclusion)
    if fit.log_likelihood is None:
        raise InputError("inference.compare_without_likelihood", name)


def _check_same_data(first: str, one: Problem, second: str, other: Problem) -> None:
    """InputError unless both were fitted to the same numbers at the same times, whatever their names."""
    if one.measurements != other.measurements:
        mine, theirs = one.measurements, other.measurements
        raise InputError("inference.other_measurements", second, other=first, mine=mine, theirs=theirs)
    known, given = (Counter(_measured(p, e) for e in p.experiments) for p in (one, other))
    if known == given:
        return
    for experiment in other.experiments:
        if _measured(other, experiment) not in known:
            raise InputError("inference.other_data", second, other=first, experiment=experiment.name)
    raise InputError("inference.other_data", second, other=first, experiment=other.names[0])


def _measured(problem: Problem, one: Experiment) -> tuple[Column, ...]:
    """What was measured in an experiment; the names of the observables do not matter."""
    columns = []
    for column in (one.observations[name] for name in problem.model.observables if name in one.observations):
        cells = zip(one.times.tolist(), np.asarray(column, object).tolist(), strict=True)
        columns.append(tuple((time, cell) for time, cell in cells if not _missing(cell)))
    return tuple(sorted((column for column in columns if column), key=repr))


def _missing(cell: object) -> bool:
    return isinstance(cell, float) and cell != cell


def _check_same_measure(first: str, one: Problem, second: str, other: Problem) -> None:
    """InputError where one likelihood is a probability of counts and the other a density: they have no common unit."""
    mine, theirs = _counting(one), _counting(other)
    if mine != theirs:
        counting, continuous = (first, second) if mine else (second, first)
        raise InputError("inference.counts_and_densities", counting, other=continuous)


def _counting(problem: Problem) -> int:
    """How many observables have a likelihood of counts."""
    return 0 if problem.scatter is None else sum(one.shape in COUNTS for one in problem.scatter.columns)


def _remarks(named: Mapping[str, Fit]) -> tuple[Notice, ...]:
    found = []
    for name, fit in named.items():
        if fit.problem.priors is not None:
            found.append(Notice("inference.compared_with_priors", name))
        if fit.certificate.at_bound:
            found.append(Notice("inference.compared_at_bound", name, {"names": fit.certificate.at_bound}))
        if fit.aicc is None:
            found.append(Notice("inference.compared_without_aicc", name))
    return tuple(found)


# ---- what differs --------------------------------------------------------------------------------------------------


def differences(best: Problem, other: Problem) -> Differences:
    """How another problem differs from the best one."""
    free = [
        {n for n, p in one.parameters.items() if p.fixed is None and n not in one.noise_names}
        for one in (best, other)
    ]
    common = free[0] & free[1]
    return Differences(
        equations=_changed(best.model.equations, other.model.equations),
        observables=_changed(best.model.observable_formulas, other.model.observable_formulas),
        added=tuple(sorted(free[1] - free[0])),
        removed=tuple(sorted(free[0] - free[1])),
        changed=tuple(sorted(n for n in common if best.parameters[n] != other.parameters[n])),
        initial=best.initial_by_experiment != other.initial_by_experiment,
        noise=best.noise != other.noise,
    )


def _changed(mine: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name))
