"""Validation: how well the parameters of a fit predict other experiments, or each experiment those of all others.

Parameters are held. Initial states that nothing gives, and local parameters, are fitted to the new data, or have to be
given. Experiments are then independent of each other, so that each is a task of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from picardfit.checks import FrozenDict, as_mapping
from picardfit.display.hook import picture, shown
from picardfit.errors import InputError, Notice, Status
from picardfit.evidence.expected_information import expected
from picardfit.evidence.fitted_space import FittedSpace, space_of
from picardfit.evidence.goodness_of_fit import with_correlations
from picardfit.evidence.residual_tests import Diagnostics, diagnose, named_residuals
from picardfit.fit import Fit, fit
from picardfit.inference.refits import Tools, run_many, solution_of
from picardfit.model.inputs import values_at
from picardfit.model.parameters import Parameter
from picardfit.parallel.ordered_map import Work
from picardfit.problem.experiment import Experiment
from picardfit.problem.named_values import initial_states_of, labels_of, parameters_of
from picardfit.problem.problem import Problem
from picardfit.problem.serialisation import digest, problem_digest
from picardfit.search.events.starts import simulated_events
from picardfit.search.policy import SearchPolicy
from picardfit.simulation.trajectories import Run, trajectories
from picardfit.solvers.loop import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Initial = Literal["fitted", "given"] | Mapping[str, float]


@dataclass(frozen=True)
class ValidationSettings:
    """What causes a remark, and how curves are drawn."""

    doubtful: float = (
        0.01  # probability of errors this much larger than in the fit, as for tests of residuals
    )
    points: int = 201  # of a curve: enough for a smooth one


DEFAULT = ValidationSettings()


@dataclass(frozen=True)
class Score:
    """How well a curve predicts `count` measurements y, with errors e."""

    count: int
    rmse: float  # root of the mean of e^2, in the unit of y
    nrmse: float  # rmse over max(y) - min(y)
    r_squared: float  # 1 - sum e^2 / sum (y - mean)^2
    fit_percent: float  # 100 (1 - |e| / |y - mean|), as in system identification: 100 is perfect, 0 the mean


@dataclass(frozen=True)
class Prediction:
    """One experiment as the held parameters predict it."""

    problem: Problem  # of this experiment alone, with parameters held
    unknowns: np.ndarray  # (1, width): what was fitted to its data
    rows: np.ndarray  # (samples, rows) of the objective, observables first
    residuals: dict[str, np.ndarray]  # by observable, standardised
    fitted: tuple[str, ...]  # labels of what was fitted to its data
    space: FittedSpace | None  # the directions that these take

    @property
    def name(self) -> str:
        return self.problem.names[0]


@shown
@dataclass(frozen=True, eq=False)
class Validation:
    """Experiments as predicted with parameters that were not fitted to them."""

    predictions: dict[str, Prediction]  # by experiment
    scores: dict[str, dict[str, Score]]  # experiment -> observable
    overall: dict[str, Score]  # by observable, over all experiments
    diagnostics: Diagnostics  # tests of the residuals
    ratio: float  # mean square of the errors over the variance of the fit: near 1 where the model holds
    probability: float  # of so large a ratio, if the model holds and the parameters are exact
    left_out: bool  # each experiment was predicted by a fit to all others
    remarks: tuple[Notice, ...] = ()
    missing: tuple[str, ...] = ()  # experiments that an interruption left out

    @property
    def fitted(self) -> dict[str, tuple[str, ...]]:
        """experiment -> labels of initial states and local parameters that were fitted to its data."""
        return {name: one.fitted for name, one in self.predictions.items()}

    @property
    def parameters(self) -> dict[str, dict[str, float]]:
        """experiment -> the parameters that predicted it."""
        return {name: parameters_of(one.problem, one.unknowns) for name, one in self.predictions.items()}

    @property
    def initial_states(self) -> dict[str, dict[str, float]]:
        """experiment -> state -> value at t0."""
        return {n: initial_states_of(one.problem, one.unknowns)[n] for n, one in self.predictions.items()}

    def plot(self, path: str | Path | None = None) -> Figure:
        """Data and predicted curves of every experiment."""
        return picture(self, path)


def validate(found: Fit, experiments: object, initial: Initial, tools: Tools | None = None) -> Validation:
    """Predict other experiments with the parameters of a fit."""
    base, held = _base(found, initial)
    given = _experiments(experiments)
    prepared = [_prepared(base, one, held, initial) for one in given]  # refuses wrong ones before any work
    work = run_many(
        found,
        _fitted_unknowns,
        dict(enumerate(prepared)),
        {"experiments": digest([problem_digest(one) for one in prepared])},
        tools or Tools(),
        "experiments",
    )
    unknowns = {k: None if one is None else np.asarray(one, float) for k, one in work.results.items()}
    predictions = {k: _prediction(prepared[k], one) for k, one in unknowns.items()}
    known = [_measured(found.problem, one) for one in found.problem.experiments]
    again = [one.name for one in given if _measured(found.problem, one) in known]
    remarks = [Notice("inference.validation_of_fitted_data", name) for name in again]
    return _validation(found, [one.name for one in given], predictions, work, remarks)


def leave_one_out(found: Fit, initial: Initial, tools: Tools | None = None) -> Validation:
    """Predict each experiment of a fit with the parameters fitted to all others."""
    base, start = _base(found, initial)
    if len(base.experiments) < 2:
        raise InputError("inference.one_experiment_left_out")
    for one in base.experiments:
        _prepared(base, one, start, initial)
    work = run_many(
        found,
        partial(_without, base, found.method, start, initial),
        {k: k for k in range(len(base.experiments))},
        {"initial": initial if isinstance(initial, str) else dict(initial)},
        tools or Tools(),
        "experiments left out",
    )
    predictions = {}
    for k, record in work.results.items():
        held = (
            None if record is None else {name: float(value) for name, value in record["parameters"].items()}
        )
        problem = _prepared(base, base.experiments[k], held or start, initial)
        predictions[k] = _prediction(
            problem, None if record is None else np.asarray(record["unknowns"], float)
        )
    return _validation(found, list(base.names), predictions, work, [], left_out=True)


# ---- tasks ---------------------------------------------------------------------------------------------------------


def _fitted_unknowns(problem: Problem) -> np.ndarray | None:
    """The unknowns (1, width) of an experiment with held parameters, fitted to its data; None if that fails."""
    if problem.layout.count() == 0:
        return problem.layout.lower
    found = _uninterrupted(fit(problem, progress=False))
    return found.solution.unknowns if found.success and found.solution is not None else None


def _uninterrupted(found: Fit) -> Fit:
    """The fit, unless Ctrl-C stopped it: that ends the work, which keeps the experiments that are finished."""
    stopped = any(one.code == "search.unconfirmed" for one in found.warnings)
    if stopped or found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return found


def _without(
    base: Problem, method: Method, start: Mapping[str, float], initial: Initial, left_out: int
) -> dict[str, object] | None:
    """Parameters fitted to all experiments but one, and the unknowns of that one; None if a fit fails.

    The search begins at the parameters of the whole fit, so that it stays in the same optimum.
    """
    others = [one for e, one in enumerate(base.experiments) if e != left_out]
    free = {name: value for name, value in start.items() if base.parameters[name].fixed is None}
    found = _uninterrupted(
        fit(base.with_experiments(others), method, start=free, policy=SearchPolicy(most=1), progress=False)
    )
    if not found.success:
        return None
    held = {name: value for name, value in found.parameters.items() if name in base.parameters}
    unknowns = _fitted_unknowns(_prepared(base, base.experiments[left_out], held, initial))
    return None if unknowns is None else {"parameters": held, "unknowns": unknowns}


# ---- problems of one experiment ------------------------------------------------------------------------------------


def _base(found: Fit, initial: Initial) -> tuple[Problem, dict[str, float]]:
    """The problem with initial states as wanted, and the parameters to hold: those that all experiments share."""
    solution_of(found)
    if not found.success:
        raise InputError("inference.validation_of_failed_fit", ended=found.conclusion)
    problem = found.problem
    if isinstance(initial, str):
        if initial not in ("fitted", "given"):
            raise InputError("inference.validation_initial", value=initial)
    else:
        known = as_mapping(initial, "initial", "1.0")
        problem = replace(problem, initial=FrozenDict({**problem.initial, **known}))
    return problem, {name: value for name, value in found.parameters.items() if name in problem.parameters}


def _experiments(given: object) -> list[Experiment]:
    """The experiments to predict; InputError for anything else, and for one without measurements."""
    many = [given] if isinstance(given, Experiment) else list(given) if isinstance(given, Iterable) else []
    if isinstance(given, Iterable) and not many:
        raise InputError("inference.no_experiments_to_validate")
    if not many or not all(isinstance(one, Experiment) for one in many):
        raise InputError("inference.not_experiments", value=given)
    named = [one if one.name else replace(one, name=f"experiment {k}") for k, one in enumerate(many, 1)]
    for one in named:
        if one.planned is not None or not np.isfinite(one.values).any():
            raise InputError("inference.validation_without_data", one.name)
    return named


def _prepared(base: Problem, one: Experiment, held: Mapping[str, float], initial: Initial) -> Problem:
    """The problem of one experiment with parameters held; local ones stay unknown, as its initial states may."""
    parameters = {
        name: spec if spec.local and spec.fixed is None else Parameter(fixed=held[name], unit=spec.unit)
        for name, spec in base.parameters.items()
    }
    problem = replace(
        base,
        experiments=(one,),
        parameters=FrozenDict(parameters),
        truth=None,
        nominal=None,
        derived=FrozenDict(),
    )
    if problem.measurements == 0:
        known = list(base.model.observables)
        raise InputError("inference.validation_without_columns", one.name, known=known)
    if initial != "fitted" and problem.layout.count():
        raise InputError("inference.validation_unknown", one.name, names=labels_of(problem))
    if problem.layout.count() >= problem.measurements:
        raise InputError(
            "inference.validation_too_few", one.name, names=labels_of(problem), count=problem.measurements
        )
    return problem


def _measured(problem: Problem, one: Experiment) -> tuple[object, ...]:
    """Times and values of an experiment, to recognise it."""
    names = [name for name in problem.model.observables if name in one.observables]
    return tuple(one.times.tolist()), *(repr(one.observations[name].tolist()) for name in names)


def _prediction(problem: Problem, unknowns: np.ndarray | None) -> Prediction | None:
    """The experiment at these unknowns, by independent integration; None where there is no solution."""
    if unknowns is None:
        return None
    layout = problem.layout
    rows = problem.predicted_rows(layout.measured_values(unknowns), layout.initial(unknowns)[0])
    if rows is None:
        return None
    space = None
    fitted = layout.count() and problem.timed is None  # no slopes at given unknowns where events move
    if fitted and (found := expected(problem, unknowns)) is not None:
        space = space_of(problem, found.jacobian, layout.exists, found.outputs)
    residuals = named_residuals(problem, rows)[problem.names[0]]
    return Prediction(problem, unknowns, rows, residuals, tuple(labels_of(problem)), space)


# ---- scores --------------------------------------------------------------------------------------------------------


def score(measured: np.ndarray, predicted: np.ndarray) -> Score:
    """How well predictions (n,) meet measurements (n,)."""
    gaps, spread = measured - predicted, measured - measured.mean()
    squares, total = float(gaps @ gaps), float(spread @ spread)
    rmse = (squares / len(measured)) ** 0.5
    extent = float(np.ptp(measured))
    return Score(
        count=len(measured),
        rmse=rmse,
        nrmse=rmse / extent if extent > 0 else float("nan"),
        r_squared=1 - squares / total if total > 0 else float("nan"),
        fit_percent=100 * (1 - (squares / total) ** 0.5) if total > 0 else float("nan"),
    )


def _cells(one: Prediction, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Measured and predicted values of an observable, without censored ones: (n,) each."""
    column, samples = one.problem.model.observables.index(name), one.problem.samples
    there = np.isfinite(samples.data[:, column])
    if samples.limits is not None:
        there &= np.isnan(samples.limits[:, column]).all(axis=-1)
    return samples.data[there, column], one.rows[there, column]


def _validation(
    found: Fit,
    names: list[str],
    predictions: Mapping[int, Prediction | None],
    work: Work,
    remarks: list[Notice],
    left_out: bool = False,
    settings: ValidationSettings = DEFAULT,
) -> Validation:
    """Scores and tests of all predictions."""
    good = {names[k]: one for k, one in predictions.items() if one is not None}
    lost = [names[k] for k in range(len(names)) if names[k] not in good]
    missing = [name for k, name in enumerate(names) if k not in predictions and k not in work.failures]
    if not good:
        if work.interrupted:
            raise KeyboardInterrupt
        raise InputError("inference.validation_failed", names=lost)
    remarks = [*remarks, *(Notice("inference.not_predicted", n) for n in lost if n not in missing)]
    cells = {
        name: {n: _cells(one, n) for n in one.problem.model.observables if n in one.residuals}
        for name, one in good.items()
    }
    scores = {
        name: {n: score(*pair) for n, pair in several.items() if len(pair[0])}
        for name, several in cells.items()
    }
    overall = {}
    for n in found.problem.model.observables:
        pairs = [several[n] for several in cells.values() if n in several and len(several[n][0])]
        if pairs:
            overall[n] = score(*(np.concatenate(part) for part in zip(*pairs, strict=True)))
    ratio, probability = _ratio(found, good)
    if probability < settings.doubtful:
        remarks.append(Notice("inference.validation_larger_errors", values={"ratio": ratio}))
    tests = _diagnostics(found, good)
    return Validation(
        good, scores, overall, tests, ratio, probability, left_out, tuple(remarks), tuple(missing)
    )


def _ratio(found: Fit, good: Mapping[str, Prediction]) -> tuple[float, float]:
    """Mean square of the errors over the variance that the fit gives them, and the probability of a larger one.

    The variance of least squares is itself estimated (Fisher's F); with a noise model the standardised residuals have
    variance 1 (chi-square).
    """
    from scipy.special import chdtrc, fdtrc

    freedom = sum(one.problem.measurements - len(one.fitted) for one in good.values())
    if found.problem.noise is None:
        squares = sum(2 * one.problem.least_squares.value(one.rows) for one in good.values())
        squares = squares / found.residual_variance if found.residual_variance > 0 else np.nan
        own = found.problem.measurements - found.problem.layout.count()
        ratio = squares / freedom
        return ratio, float(fdtrc(freedom, own, ratio)) if np.isfinite(ratio) and own > 0 else float("nan")
    squares = sum(float(np.nansum(r**2)) for one in good.values() for r in one.residuals.values())
    return squares / freedom, float(chdtrc(freedom, squares))


def _diagnostics(found: Fit, good: Mapping[str, Prediction]) -> Diagnostics:
    """Tests of the residuals of all experiments, in units of the noise of the fit."""
    unit = dict.fromkeys(good, 1.0)
    if found.problem.noise is None and found.residual_variance > 0:
        unit = {
            name: (
                2
                * one.problem.least_squares.value(one.rows)
                / one.problem.measurements
                / found.residual_variance
            )
            ** 0.5
            for name, one in good.items()
        }
    residuals = {name: {n: unit[name] * r for n, r in one.residuals.items()} for name, one in good.items()}
    whole = found.problem.with_experiments([one.problem.experiments[0] for one in good.values()])
    spaces = [one.space for one in good.values()]
    return with_correlations(diagnose(residuals, None), whole, residuals, _joined(whole, spaces))


def _joined(problem: Problem, spaces: list[FittedSpace | None]) -> FittedSpace:
    """The directions of experiments that share none."""
    own, shared = [], []
    for one, space in zip(problem.experiments, spaces, strict=True):
        empty = np.zeros((len(one.times), len(problem.model.observables), 0))
        own.append(empty if space is None else np.concatenate([space.own[0], space.shared[0]], axis=2))
        shared.append(empty)
    return FittedSpace(tuple(own), tuple(shared))


# ---- curves --------------------------------------------------------------------------------------------------------


def curve(one: Prediction, points: int = DEFAULT.points) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times and predicted observables along the experiment; increments are left out, as they belong to samples.

    Both sides of events, where a curve jumps or has a peak, are among the times.
    """
    problem, experiment = one.problem, one.problem.experiments[0]
    model, layout, last = problem.model, problem.layout, experiment.times[-1]
    runs = [] if problem.timed is None else simulated_events(problem, one.unknowns)
    happened = np.array([each.time for run in runs for each in run.happenings if each.time <= last])
    before = np.nextafter(happened, experiment.t0)
    even = np.linspace(experiment.t0, last, points)
    times = np.unique(np.concatenate([even, experiment.times, happened, before]))
    params = layout.model_values(one.unknowns)[0]
    start = layout.initial(one.unknowns)[0][0]
    run = Run(experiment.t0, start, params, experiment.signals, times, *problem.events(0))
    states = trajectories(problem.solved_model, [run])[0]
    if states is None:
        return times, {}
    inputs = values_at(experiment.signals, model.inputs, times)
    values = model.output.value(times, states[:, : len(model.states)], params, inputs)
    return times, {n: values[:, k] for k, n in enumerate(model.observables) if n not in model.increments}
