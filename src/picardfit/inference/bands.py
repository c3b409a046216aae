"""Confidence bands of states and observables, in an experiment of the fit or with other inputs and initial states."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from picardfit.checks import as_number
from picardfit.collocation.sensitivity import Sensitivity, sensitivity
from picardfit.display.hook import shown
from picardfit.errors import InputError, closest
from picardfit.evidence.fisher import quantile
from picardfit.inference.bootstrap import Bootstrap, estimates
from picardfit.inference.refits import solution_of
from picardfit.model.counts import count_variance, draw_counts
from picardfit.model.densities import COUNTS, Shape
from picardfit.model.doses import Signals
from picardfit.model.increments import differenced, with_running
from picardfit.model.inputs import Input, as_input, values_at
from picardfit.model.scatter import draw_independent
from picardfit.simulation.trajectories import Run, observed, trajectories

if TYPE_CHECKING:
    import pandas as pd

    from picardfit.fit import Fit
    from picardfit.model.model import Model
    from picardfit.problem.calendar import Calendar
from picardfit.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Band:
    """One curve with its band; arrays (times,)."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    standard_error: np.ndarray


@shown
@dataclass(frozen=True, eq=False)
class Bands:
    """States and observables of one run by name, with pointwise confidence bands."""

    times: np.ndarray
    level: float
    states: dict[str, Band]
    observables: dict[str, Band]
    calendar: Calendar | None = None  # where the data had dates

    def __getitem__(self, name: str) -> Band:
        """The band of an observable or state."""
        every = {**self.states, **self.observables}
        if name not in every:
            close = closest(str(name), every)
            raise InputError("inference.no_band", str(name), known=list(every), close=close)
        return every[name]

    def since(self, row: int) -> Bands:
        """The bands from a row on."""
        states, observables = (
            {name: Band(*(part[row:] for part in vars(one).values())) for name, one in several.items()}
            for several in (self.states, self.observables)
        )
        return Bands(self.times[row:], self.level, states, observables, self.calendar)

    def to_frame(self) -> pd.DataFrame:
        """A long table with the columns time, quantity, value, low, high, standard_error.

        Where the data had dates, a column `date` follows the time.
        """
        import pandas as pd

        curves = {**self.states, **self.observables}
        when: dict[str, np.ndarray] = {"time": self.times}
        if self.calendar is not None:
            when["date"] = self.calendar.dates(self.times)
        rows = [pd.DataFrame({**when, "quantity": name, **vars(curves[name])}) for name in curves]
        return pd.concat(rows, ignore_index=True)


def bands(
    fit: Fit,
    experiment: int,
    times: np.ndarray,
    level: float,
    noise: bool,
    inputs: Mapping[str, object] | None,
    initial: Mapping[str, float] | None,
    bootstrap: Bootstrap | None,
) -> Bands:
    """Pointwise bands at any times from t0 on.

    From the covariance of the unknowns by the delta method, or from the percentiles of a bootstrap. `noise`: bands in
    which a new measurement lies (observables only). `inputs`, `initial`: other inputs, other (known) initial states.
    """
    limit, model = fit.yardstick.errors(level), fit.problem.model
    if bootstrap is not None:
        _check_bootstrap(fit, bootstrap)
    order = np.argsort(times, kind="stable")
    prediction = _prediction(fit, experiment, times[order], inputs, initial)
    if bootstrap is None:
        curves = _by_derivatives(fit, prediction, limit, level if noise else None)
    else:
        curves = _by_samples(fit, prediction, bootstrap, level, noise)
    back = np.argsort(order, kind="stable")
    states, observables = (
        {name: Band(*(column[back, k] for column in group)) for k, name in enumerate(names)}
        for names, group in zip((model.states, model.observables), curves, strict=True)
    )
    return Bands(times, level, states, observables, fit.problem.experiments[experiment].calendar)


def sampled_bands(
    fit: Fit,
    experiment: int,
    times: np.ndarray,
    many_unknowns: np.ndarray,
    level: float,
    noise: bool,
    inputs: Mapping[str, object] | None,
    initial: Mapping[str, float] | None,
    seed: int,
) -> Bands:
    """Pointwise percentiles over draws of the unknowns (draws, experiments, width), around their medians.

    `noise`: those of new measurements, drawn from the noise model. Draws without a solution up to a time are left out
    there.
    """
    quantile(level, np.inf)  # refuses a level that is not between 0 and 1
    model, order = fit.problem.model, np.argsort(times, kind="stable")
    prediction = _prediction(fit, experiment, times[order], inputs, initial)
    states, outputs = _drawn_curves(prediction, many_unknowns)
    if noise:
        rng = np.random.default_rng([seed, 1])
        pairs = zip(many_unknowns, states, outputs, strict=True)
        outputs = np.stack([_drawn_measurements(fit, prediction, *one, rng) for one in pairs])
    back, found = np.argsort(order, kind="stable"), []
    for names, values in ((model.states, states), (model.observables, outputs)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # times that no draw reaches stay NaN
            low, middle, high = np.nanquantile(values, [0.5 - level / 2, 0.5, 0.5 + level / 2], axis=0)
            error = np.nanstd(values, axis=0, ddof=1)
        curves = (middle, low, high, error)
        found.append({name: Band(*(one[back, k] for one in curves)) for k, name in enumerate(names)})
    return Bands(times, level, found[0], found[1], fit.problem.experiments[experiment].calendar)


def _drawn_curves(prediction: _Prediction, many_unknowns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States (draws, times, states) and observables (draws, times, observables), NaN without a solution."""
    model = prediction.problem.model
    runs = [prediction.run(unknowns) for unknowns in many_unknowns]
    empty = np.full((len(prediction.times), len(model.states)), np.nan)
    states = np.stack([empty if found is None else found for found in trajectories(model, runs)])
    return states, np.stack([observed(model, run, x) for run, x in zip(runs, states, strict=True)])


def _drawn_measurements(
    fit: Fit,
    prediction: _Prediction,
    unknowns: np.ndarray,
    states: np.ndarray,
    outputs: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """(times, observables): measurements drawn from the noise model at one set of unknowns."""
    problem = fit.problem
    assert problem.scatter is not None
    rows = _rows(fit, prediction, unknowns, with_running(problem.model, states, outputs))
    if problem.scatter.common:
        return problem.scatter.draw(rows, rng)
    trials = np.array([_typical_trials(problem, k) for k in range(outputs.shape[1])])
    return draw_independent(problem.scatter.columns, rows, rng, np.tile(trials, (len(rows), 1)))


def _check_bootstrap(fit: Fit, given: object, same: float = 1e-6) -> None:
    """InputError unless these samples were drawn around this fit: its estimates agree up to a relative `same`."""
    if not isinstance(given, Bootstrap):
        raise InputError("inference.not_a_bootstrap", value=given)
    own = estimates(fit)
    if own.keys() != given.estimates.keys():
        raise InputError("inference.bootstrap_of_other_problem", names=list(given.estimates))
    for name, value in own.items():
        if not np.isclose(value, given.estimates[name], rtol=same, atol=0):
            theirs = given.estimates[name]
            raise InputError("inference.bootstrap_of_other_fit", name, theirs=theirs, value=value)


@dataclass(frozen=True)
class _Prediction:
    """The experiment, with other inputs or initial states if so wanted, that bands are computed for."""

    problem: Problem
    experiment: int
    times: np.ndarray  # ascending
    signals: Mapping[str, Input]
    initial: dict[int, float]  # state -> new initial value
    changed: bool  # from the experiment of the fit

    @property
    def inputs(self) -> np.ndarray:
        """(times, inputs)."""
        return values_at(self.signals, self.problem.model.inputs, self.times)

    def run(self, unknowns: np.ndarray) -> Run:
        """The initial value problem at given unknowns (experiments, width)."""
        layout, e = self.problem.layout, self.experiment
        own = len(self.problem.model.states)
        start = layout.before_doses(unknowns)[0][e, :own].copy()
        for state, value in self.initial.items():
            start[state] = value
        start = start if layout.dosed is None else start + layout.dosed[e, :own]
        t0, breaks = self.problem.experiments[e].t0, self.problem.model.breaks(self.signals)
        params, jumps = layout.model_values(unknowns)[e], self.problem.jumps[e]
        jumps = None if jumps is None else jumps.of_first(own)
        return Run(t0, start, params, self.signals, self.times, breaks, jumps)

    def by_unknowns(self, unknowns: np.ndarray) -> np.ndarray:
        """(states + parameters, width): derivative of the initial state and the model parameters by the unknowns."""
        layout, e = self.problem.layout, self.experiment
        initial = layout.initial(unknowns)[1][e, : len(self.problem.model.states)].copy()
        initial[list(self.initial)] = 0.0
        parameters = np.zeros((layout.model_parameters, layout.width))
        own = layout.free_parameters < layout.model_parameters  # the others are the noise's
        columns = layout.columns.parameters[own]
        parameters[layout.free_parameters[own], columns] = layout.slopes(unknowns)[e, columns]
        return np.concatenate([initial, parameters])


def _prediction(fit: Fit, e: int, times: np.ndarray, inputs, initial) -> _Prediction:
    one, model = fit.problem.experiments[e], fit.problem.model
    if not len(times):
        raise InputError("inference.no_times")
    if times[0] < one.t0:
        early, t0 = one.time_texts(np.array([times[0], one.t0]))
        raise InputError("evidence.before_t0", one.name, time=early, t0=t0)
    for code, names, given in (
        ("inference.unknown_input", model.inputs, inputs),
        ("inference.unknown_state", model.states, initial),
    ):
        for name in given or {}:
            if name not in names:
                raise InputError(code, str(name), known=names, close=closest(str(name), names))
    signals = Signals(
        {**one.signals, **{name: as_input(name, spec) for name, spec in (inputs or {}).items()}}
    )
    start = {
        model.states.index(name): as_number(value, "initial value", name)
        for name, value in (initial or {}).items()
    }
    return _Prediction(fit.problem, e, times, signals, start, bool(inputs or initial))


Curves = tuple[
    np.ndarray, np.ndarray, np.ndarray, np.ndarray
]  # value, low, high, standard error: (times, names)


def _by_derivatives(fit: Fit, prediction: _Prediction, limit: float, level: float | None) -> list[Curves]:
    """The bands of states and of observables: `limit` standard errors wide, by the delta method.

    `level`: of new measurements, whose noise is added to the bands of observables.
    """
    solution, model, e = solution_of(fit), fit.problem.model, prediction.experiment
    run = prediction.run(solution.unknowns)
    knots = None if prediction.changed else solution.system.mesh.knots[e]
    found = _as_far_as_it_goes(model, run, knots)
    by_unknowns = prediction.by_unknowns(solution.unknowns)
    values, by_state, by_parameter = model.output.linearise(
        run.times, found.states, run.params, prediction.inputs
    )
    with np.errstate(invalid="ignore"):  # an observable such as x/t has no band where t = 0
        by_outputs = by_state @ found.derivatives
    by_outputs[..., len(model.states) :] += by_parameter
    if model.increments:
        first = _linearised_start(prediction, run)
        values = differenced(model, run.times, values, first[0])
        by_outputs = differenced(model, run.times, by_outputs, first[1])
    both = []
    for value, derivative in ((found.states, found.derivatives), (values, by_outputs)):
        error = fit.information.spread(e, derivative @ by_unknowns, fit.residual_variance)
        half = limit * error
        if level is not None and value is values:
            every = with_running(model, found.states, values)
            variance, reach = _noise_sizes(fit, prediction, solution.unknowns, every, level, limit)
            error, half = np.sqrt(error**2 + variance), np.hypot(half, reach)
        ends = (value - half, value + half)
        both.append((value, *(_possible(fit.problem, value, half) if value is values else ends), error))
    return both


def _linearised_start(prediction: _Prediction, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Formulas of the observables at t0, and their derivatives by [initial states | model parameters]."""
    model, begin = prediction.problem.model, np.array([run.t0])
    inputs = values_at(prediction.signals, model.inputs, begin)
    values, by_state, by_parameter = model.output.linearise(begin, run.initial[None], run.params, inputs)
    return values[0], np.concatenate([by_state[0], by_parameter[0]], axis=-1)


def _possible(problem: Problem, value: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bands of observables or measurements (times, observables) around values, `half` as wide, that these can have.

    Counts are not negative, fractions at most 1, and noise in logs gives a factor in place of a difference.
    """
    low, high = value - half, value + half
    for k, column in enumerate(() if problem.scatter is None else problem.scatter.columns):
        if column.shape in COUNTS:
            low[:, k] = np.maximum(low[:, k], 0.0)
        if column.shape is Shape.BINOMIAL:
            high[:, k] = np.minimum(high[:, k], 1.0)
        if column.base is not None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                factor = np.exp(half[:, k] / np.abs(value[:, k]))
            there = value[:, k] > 0
            low[there, k], high[there, k] = (value[:, k] / factor)[there], (value[:, k] * factor)[there]
    return low, high


def _as_far_as_it_goes(model: Model, run: Run, knots: np.ndarray | None) -> Sensitivity:
    """Solution and derivatives at the times of a run, NaN at the times that the solution does not reach."""
    whole = sensitivity(model, run, knots)
    if whole is not None:
        return whole
    shape = (len(run.times), len(run.initial))
    states, derivatives = np.full(shape, np.nan), np.full((*shape, shape[1] + len(run.params)), np.nan)
    count, failing = 0, len(run.times)
    while failing - count > 1:  # bisection of the number of times that can be reached
        middle = (count + failing) // 2
        found = sensitivity(model, replace(run, times=run.times[:middle]), knots)
        if found is None:
            failing = middle
        else:
            count = middle
            states[:count], derivatives[:count] = found.states, found.derivatives
    return Sensitivity(states, derivatives)


def _by_samples(
    fit: Fit, prediction: _Prediction, bootstrap: Bootstrap, level: float, noise: bool
) -> list[Curves]:
    """The bands of states and of observables: percentiles of bootstrap samples around the values of the fit."""
    model = fit.problem.model
    every = np.stack([solution_of(fit).unknowns, *bootstrap.unknowns])
    states, outputs = _drawn_curves(prediction, every)  # of the fit, then of the samples
    rng = np.random.default_rng([bootstrap.seed, 1])
    both = []
    for values in (states, outputs):
        drawn = values[1:]
        if noise and values is outputs:
            drawn = np.stack(
                [
                    _new_measurements(fit, prediction, unknowns, with_running(model, x, y), y, rng)
                    for unknowns, x, y in zip(bootstrap.unknowns, states[1:], drawn, strict=True)
                ]
            )
        low, high = np.nanquantile(drawn, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        both.append((values[0], low, high, np.nanstd(drawn, axis=0, ddof=1)))
    return both


def _new_measurements(
    fit: Fit,
    prediction: _Prediction,
    unknowns: np.ndarray,
    states: np.ndarray,
    outputs: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """(times, observables): measurements around outputs, counts from their distribution, others with normal noise."""
    variance, _ = _noise_sizes(fit, prediction, unknowns, states)
    noise, problem = np.sqrt(variance) * rng.standard_normal(outputs.shape), fit.problem
    drawn = outputs + noise
    for k, column in enumerate(() if problem.scatter is None else problem.scatter.columns):
        if column.base is not None:
            there = outputs[:, k] > 0
            drawn[there, k] = outputs[there, k] * np.exp(noise[there, k] / outputs[there, k])
        if column.shape in COUNTS:
            rows = _rows(fit, prediction, unknowns, states)
            trials, level = _typical_trials(problem, k), rows[:, outputs.shape[1] + k]
            drawn[:, k] = (
                draw_counts(column.shape, outputs[:, k], level, np.full(len(level), trials), rng) / trials
            )
    return drawn


def _typical_trials(problem: Problem, k: int) -> float:
    """The median number of trials of a binomial count; 1 for others."""
    trials = problem.samples.trials
    if trials is None or not np.isfinite(trials[:, k]).any():
        return 1.0
    return float(np.nanmedian(trials[:, k]))


def _rows(fit: Fit, prediction: _Prediction, unknowns: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(times, rows): observables and noise levels at states (times, states), running ones included."""
    params = fit.problem.layout.measured_values(unknowns)[prediction.experiment]
    return fit.problem.measurement.value(prediction.times, states, params, prediction.inputs)


def _noise_sizes(
    fit: Fit,
    prediction: _Prediction,
    unknowns: np.ndarray,
    states: np.ndarray,
    level: float = 0.95,
    limit: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """(times, observables) twice: variance of a measurement around its prediction, and how far it reaches.

    That far from its prediction lies a part `level` of the measurements: `limit` standard deviations for normal noise,
    the quantile of their distribution for Student's t and Laplace. Noise in logs to first order.
    """
    from scipy.special import stdtrit

    problem, times, count = fit.problem, prediction.times, len(fit.problem.model.observables)
    if problem.scatter is None:
        found = np.full((len(times), count), fit.residual_variance)
        return found, limit * np.sqrt(found)
    rows = _rows(fit, prediction, unknowns, states)
    outputs, levels, more = rows[:, :count], rows[:, count : 2 * count], rows[:, 2 * count :]
    if problem.scatter.common:
        found = levels**2 + more**2
        return found, limit * np.sqrt(found)
    found, reach = levels**2, limit * np.abs(levels)
    for k, column in enumerate(problem.scatter.columns):
        if column.shape is Shape.LAPLACE:
            found[:, k] *= 2
            reach[:, k] = -np.log1p(-level) * np.abs(levels[:, k])
        if column.shape is Shape.STUDENT:
            degrees = more[:, k] if column.degrees is None else np.full(len(times), column.degrees)
            spare = np.maximum(degrees - 2, np.finfo(float).tiny)
            found[:, k] *= np.where(degrees > 2, degrees / spare, np.inf)
            reach[:, k] = stdtrit(degrees, 0.5 + level / 2) * np.abs(levels[:, k])
        if column.base is not None:
            found[:, k] *= (outputs[:, k] * np.log(column.base)) ** 2
            reach[:, k] *= np.abs(outputs[:, k]) * np.log(column.base)
        if column.shape in COUNTS:
            trials = np.full(len(found), _typical_trials(problem, k))
            found[:, k] = np.maximum(count_variance(column.shape, outputs[:, k], levels[:, k], trials), 0.0)
            reach[:, k] = limit * np.sqrt(found[:, k])
    return found, reach
