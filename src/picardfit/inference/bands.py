"""Bands around states and observables, in an experiment of the fit or under new inputs and from new initial states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from picardfit.checks import as_number
from picardfit.collocation.sensitivity import Sensitivity, sensitivity
from picardfit.display.hook import shown
from picardfit.errors import InputError, closest
from picardfit.evidence.fisher import Information
from picardfit.inference.bootstrap import Bootstrap, estimates
from picardfit.inference.refits import solution_of
from picardfit.model.densities import Shape
from picardfit.model.inputs import Input, as_input, values_at
from picardfit.simulation.trajectories import Run, trajectories

if TYPE_CHECKING:
    import pandas as pd

    from picardfit.fit import Fit
    from picardfit.model.model import Model


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

    def __getitem__(self, name: str) -> Band:
        """The band of an observable or state."""
        every = {**self.states, **self.observables}
        if name not in every:
            raise InputError(
                "inference.no_band", str(name), known=list(every), close=closest(str(name), every)
            )
        return every[name]

    def to_frame(self) -> pd.DataFrame:
        """A long table with the columns time, quantity, value, low, high, standard_error."""
        import pandas as pd

        rows = [
            pd.DataFrame(
                {
                    "time": self.times,
                    "quantity": name,
                    "value": band.value,
                    "low": band.low,
                    "high": band.high,
                    "standard_error": band.standard_error,
                }
            )
            for name, band in {**self.states, **self.observables}.items()
        ]
        return pd.concat(rows, ignore_index=True)


@dataclass(frozen=True)
class _Setting:
    """The run that bands are wanted of."""

    experiment: int
    times: np.ndarray  # as given
    order: np.ndarray  # that sorts them
    inputs: Mapping[str, Input]
    given: dict[int, float]  # state -> new initial value
    new: bool  # differs from the experiment of the fit


def bands(
    fit: Fit,
    found: Information,
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
    limit = fit.yardstick.errors(level)
    if bootstrap is not None:
        _check_bootstrap(fit, bootstrap)
    setting = _setting(fit, experiment, times, inputs, initial)
    if bootstrap is not None:
        groups = _by_samples(fit, setting, bootstrap, level, noise)
    else:
        groups = _by_derivatives(fit, found, setting, limit, noise)
    back = np.argsort(setting.order, kind="stable")
    model = fit.problem.model
    curves = [
        {name: Band(*(part[back, k] for part in group)) for k, name in enumerate(names)}
        for names, group in zip((model.states, model.observables), groups, strict=True)
    ]
    return Bands(setting.times, level, *curves)


def _check_bootstrap(fit: Fit, given: object, same: float = 1e-6) -> None:
    """InputError unless these are samples around this fit: of estimates that differ by a relative `same` at most."""
    if not isinstance(given, Bootstrap):
        raise InputError("inference.not_a_bootstrap", value=given)
    own = estimates(fit)
    if own.keys() != given.estimates.keys():
        raise InputError("inference.bootstrap_of_other_problem", names=list(given.estimates))
    for name, value in own.items():
        if not np.isclose(value, given.estimates[name], rtol=same, atol=0):
            raise InputError(
                "inference.bootstrap_of_other_fit", name, theirs=given.estimates[name], value=value
            )


def _setting(fit: Fit, e: int, times: np.ndarray, inputs, initial) -> _Setting:
    one, model = fit.problem.experiments[e], fit.problem.model
    if not len(times):
        raise InputError("inference.no_times")
    if times.min() < one.t0:
        raise InputError("evidence.before_t0", one.name, time=times.min(), t0=one.t0)
    for code, names, given in (
        ("inference.unknown_input", model.inputs, inputs),
        ("inference.unknown_state", model.states, initial),
    ):
        for name in given or {}:
            if name not in names:
                raise InputError(code, str(name), known=names, close=closest(str(name), names))
    signals = {**one.inputs, **{name: as_input(name, spec) for name, spec in (inputs or {}).items()}}
    given = {
        model.states.index(name): as_number(value, f"initial value of `{name}`")
        for name, value in (initial or {}).items()
    }
    return _Setting(e, times, np.argsort(times, kind="stable"), signals, given, bool(inputs or initial))


def _run(fit: Fit, setting: _Setting, unknowns: np.ndarray) -> Run:
    """The initial value problem at given unknowns (experiments, width)."""
    problem, e = fit.problem, setting.experiment
    layout, one = problem.layout, problem.experiments[e]
    start = layout.initial(unknowns)[0][e].copy()
    for state, value in setting.given.items():
        start[state] = value
    breaks = {
        *problem.model.breakpoints,
        *(b for signal in setting.inputs.values() for b in signal.breakpoints),
    }
    times = setting.times[setting.order]
    params = layout.model_values(unknowns)[e]
    return Run(one.t0, start, params, setting.inputs, times, tuple(sorted(breaks)))


def _by_derivatives(fit: Fit, information: Information, setting: _Setting, limit: float, noise: bool):
    """((value, low, high, standard error) of states, the same of observables), each (times, names)."""
    problem, unknowns, e = fit.problem, solution_of(fit).unknowns, setting.experiment
    layout, model = problem.layout, problem.model
    run = _run(fit, setting, unknowns)
    found = _as_far_as_it_goes(model, run, None if setting.new else solution_of(fit).system.mesh.knots[e])
    by_unknowns = _by_unknowns(layout, unknowns, e, setting)  # (states + parameters, width)
    inputs = _inputs(model, setting, run.times)
    values, by_state, by_parameter = model.output.linearise(run.times, found.states, run.params, inputs)
    by_outputs = by_state @ found.derivatives
    by_outputs[..., len(model.states) :] += by_parameter
    variance = fit.residual_variance
    both = []
    for value, derivative in ((found.states, found.derivatives), (values, by_outputs)):
        error = information.spread(e, derivative @ by_unknowns, variance)
        total = error
        if noise and value is values:
            total = np.sqrt(error**2 + _noise_variance(fit, setting, unknowns, run.times, found.states))
        both.append((value, value - limit * total, value + limit * total, total))
    return tuple(both)


def _as_far_as_it_goes(model: Model, run: Run, knots: np.ndarray | None) -> Sensitivity:
    """Solution and derivatives at the times of a run, NaN from where there is no solution on."""
    whole, count, failing = sensitivity(model, run, knots), 0, len(run.times)
    if whole is not None:
        return whole
    shape = (len(run.times), len(run.initial))
    states, derivatives = np.full(shape, np.nan), np.full((*shape, shape[1] + len(run.params)), np.nan)
    while failing - count > 1:  # the number of times that can be reached
        middle = (count + failing) // 2
        part = sensitivity(model, replace(run, times=run.times[:middle]), knots)
        if part is None:
            failing = middle
        else:
            count = middle
            states[:count], derivatives[:count] = part.states, part.derivatives
    return Sensitivity(states, derivatives)


def _by_unknowns(layout, unknowns: np.ndarray, e: int, setting: _Setting) -> np.ndarray:
    """Derivative of (initial state, model parameters) of one experiment by its unknowns row."""
    initial = layout.initial(unknowns)[1][e].copy()
    initial[list(setting.given)] = 0.0
    parameters = np.zeros((layout.model_parameters, layout.width))
    own = layout.free_parameters < layout.model_parameters  # the others are the noise's
    columns = layout.columns.parameters[own]
    parameters[layout.free_parameters[own], columns] = layout.slopes(unknowns)[e, columns]
    return np.concatenate([initial, parameters])


def _by_samples(fit: Fit, setting: _Setting, bootstrap: Bootstrap, level: float, noise: bool):
    """The same from the percentiles of bootstrap samples; the values are those of the fit."""
    model = fit.problem.model
    runs = [_run(fit, setting, unknowns) for unknowns in (solution_of(fit).unknowns, *bootstrap.unknowns)]
    solved = trajectories(model, runs)
    inputs = _inputs(model, setting, runs[0].times)
    empty = np.full((len(runs[0].times), len(model.states)), np.nan)
    states = np.stack([empty if s is None else s for s in solved])  # (1 + samples, times, states)
    params = np.stack([run.params for run in runs])[:, None, :]
    outputs = model.output.value(runs[0].times, states, params, inputs)
    rng = np.random.default_rng([bootstrap.seed, 1])
    both = []
    for values in (states, outputs):
        drawn = values[1:]
        if noise and values is outputs:
            spread = [
                _noise_variance(fit, setting, unknowns, runs[0].times, x)
                for unknowns, x in zip(bootstrap.unknowns, states[1:], strict=True)
            ]
            drawn = drawn + np.sqrt(spread) * rng.standard_normal(drawn.shape)
        low, high = np.nanquantile(drawn, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        both.append((values[0], low, high, np.nanstd(drawn, axis=0, ddof=1)))
    return tuple(both)


def _noise_variance(
    fit: Fit, setting: _Setting, unknowns, times: np.ndarray, states: np.ndarray
) -> np.ndarray:
    """(times, observables): variance of a measurement around its prediction; noise in logs to first order."""
    problem, model = fit.problem, fit.problem.model
    if problem.scatter is None:
        return np.full((len(times), len(model.observables)), fit.residual_variance)
    params = problem.layout.measured_values(unknowns)[setting.experiment]
    rows = problem.measurement.value(times, states, params, _inputs(model, setting, times))
    count = len(model.observables)
    outputs, levels, more = rows[:, :count], rows[:, count : 2 * count], rows[:, 2 * count :]
    if problem.scatter.common:
        return levels**2 + more**2
    found = levels**2
    for k, column in enumerate(problem.scatter.columns):
        if column.shape is Shape.LAPLACE:
            found[:, k] *= 2
        if column.shape is Shape.STUDENT:
            degrees = more[:, k] if column.degrees is None else column.degrees
            found[:, k] *= np.where(
                degrees > 2, degrees / np.maximum(degrees - 2, np.finfo(float).tiny), np.inf
            )
        if column.base is not None:
            found[:, k] *= (outputs[:, k] * np.log(column.base)) ** 2
    return found


def _inputs(model, setting: _Setting, times: np.ndarray) -> np.ndarray:
    return values_at(setting.inputs, model.inputs, times)
