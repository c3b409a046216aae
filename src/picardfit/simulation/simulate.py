"""simulate(): the solution of a model at given values; and the paper's noise, to make data from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from picardfit.checks import as_mapping, as_number
from picardfit.errors import InputError, closest
from picardfit.model.doses import Doses, Signals, as_doses, infused_states, infusion_rates, jumps_of
from picardfit.model.increments import solved_model, with_running
from picardfit.model.inputs import as_input, check_finite, values_at
from picardfit.model.model import Model
from picardfit.model.noise_models import NoiseModel
from picardfit.model.number_arrays import number_array
from picardfit.model.scatter import Scatter, bind
from picardfit.simulation.event_location import integrate
from picardfit.simulation.nonfinite import nonfinite_in_run
from picardfit.simulation.trajectories import Run, last_time, observed, trajectories

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Simulation:
    """States and observables by name, each (times,), in the order in which the times were given."""

    times: np.ndarray
    states: dict[str, np.ndarray]
    observables: dict[str, np.ndarray]

    def to_frame(self) -> pd.DataFrame:
        """A table with the columns time, states, and the observables that are no states."""
        import pandas as pd

        others = {name: values for name, values in self.observables.items() if name not in self.states}
        return pd.DataFrame({"time": self.times} | self.states | others)


def simulate(
    model: Model,
    parameters: Mapping[str, float],
    initial: Mapping[str, float],
    times: Iterable[float],
    inputs: Mapping[str, object] | None = None,
    t0: float | None = None,
    noise: NoiseModel | Mapping[str, NoiseModel] | None = None,
    seed: int = 0,
    doses: Doses | Iterable[Doses] | None = None,
    covariates: Mapping[str, float] | None = None,
    resets: Iterable[float] = (),
) -> Simulation:
    """Solve the model from the initial state at t0 (0, or the first time if that is earlier) up to the times.

    `parameters` must hold every parameter of the model, and may hold those of initial formulas or of the noise, as
    `fit.parameters_of` gives them. Accuracy is about 1e-9 relative. A solution that does not exist up to the last time
    is an InputError. An increment is the change since the last earlier of the times, the first since t0.
    With `noise` the observables are measurements, drawn with `seed`; its levels must be known
    (numbers, or formulas of the model's names). `doses` are added to the states as in `pf.Experiment`, those at t0 to
    the initial state; the states at the time of a dose are those after it. At `resets` all states return to `initial`.
    """
    if not isinstance(model, Model):
        raise InputError("simulation.not_a_model", value=model)
    given = as_doses(doses)
    model = _with_inputs(model, given, as_mapping(covariates, "covariates", "70.0"))
    constants = as_mapping(covariates, "covariates", "70.0")
    signals = as_mapping(inputs, "inputs") | {n: v for n, v in constants.items() if n in model.covariates}
    run, order = _checked_run(model, parameters, initial, times, signals, t0, given, resets)
    states = trajectories(model, [run])[0]
    if states is None:
        raise _no_solution(model, run)
    outputs = observed(model, run, states) if noise is None else _measured(model, run, states, noise, seed)
    back = np.argsort(order, kind="stable")
    return Simulation(
        times=run.times[back],
        states={name: states[back, k] for k, name in enumerate(model.states)},
        observables={name: outputs[back, k] for k, name in enumerate(model.observables)},
    )


def _no_solution(model: Model, run: Run) -> InputError:
    """Why a run has no solution up to its last time."""
    trouble = integrate(model, run).trouble if model.events else None
    if trouble is not None:
        event = model.events[trouble.event].condition
        return InputError(trouble.code, event, key=("equations",), time=trouble.time)
    reached = last_time(model, run)
    found = nonfinite_in_run(model, run, reached)
    if found is not None:
        values: dict[str, Any] = found.record()
        return InputError("simulation.nonfinite_run", found.subject, **values)
    exploded = reached < run.times[-1]
    return InputError("simulation.explosion" if exploded else "simulation.no_solution", reached=reached)


def _measured(model: Model, run: Run, states: np.ndarray, noise, seed: int) -> np.ndarray:
    """(k, observables): measurements of a run."""
    scatter = bind(noise, model)
    unknown = (*scatter.names, *scatter.parameters)
    if unknown:
        raise InputError("simulation.unknown_noise_level", unknown[0], key=("noise",))
    rows = measured_rows(model, scatter, run, states, model.parameters, run.params)
    return scatter.draw(rows, np.random.default_rng(seed))


def measured_rows(
    model: Model, scatter: Scatter, run: Run, states: np.ndarray, names: Sequence[str], params: np.ndarray
) -> np.ndarray:
    """(times, rows): observables and noise levels of a run, as functions of the parameters of these names."""
    inputs = values_at(run.inputs, model.inputs, run.times)
    every = with_running(model, states, observed(model, run, states)) if model.increments else states
    return scatter.measurement(solved_model(model), names).value(run.times, every, params, inputs)


def noisy(
    rng: np.random.Generator, outputs: np.ndarray, additive_sd: float, proportional_sd: float
) -> np.ndarray:
    """y_i = (1 + n_i) g_i + m_i for outputs g (k, outputs), as in section 7 of the paper.

    One n_i per sampling instant is shared by all outputs, m_i is drawn for each; both are normal with mean 0.
    """
    outputs = np.asarray(outputs, float)
    common = proportional_sd * rng.standard_normal((len(outputs), 1))
    return (1.0 + common) * outputs + additive_sd * rng.standard_normal(outputs.shape)


def _with_inputs(model: Model, doses: Sequence[Doses], covariates: Mapping[str, object]) -> Model:
    """The model with the covariates that it uses and the infusions; InputError for a dose into no state of it."""
    for one in doses:
        if one.into not in model.states:
            known, close = model.states, closest(one.into, model.states)
            raise InputError("simulation.dose_into", one.into, key=("doses",), known=known, close=close)
    used = [name for name in covariates if name in (*model.parameters, *model.inputs)]
    return model.with_covariates(used).with_infusions(infused_states(doses))


def _checked_run(
    model: Model, parameters, initial, times, inputs, t0, doses: Sequence[Doses], resets
) -> tuple[Run, np.ndarray]:
    """The run with its times sorted, and the order that sorted them."""
    wanted = number_array(times, "times")
    if len(wanted) == 0:
        raise InputError("simulation.no_times")
    first = float(wanted.min())
    again = np.unique(number_array(resets, "resets"))
    events = _events(doses, again)
    start = default_t0(first, doses, again) if t0 is None else as_number(t0, "initial time t0")
    if events and min(events) < start:
        raise InputError("simulation.early_dose", key=("doses",), t0=start, time=min(events))
    if start > first:
        raise InputError("simulation.late_start", key=("t0",), t0=start, first=first)
    params = _complete("parameter", model.parameters, _of_model(model, parameters), "parameters")
    states = _complete("state", model.states, initial, "initial")
    sources = {name: as_input(name, spec) for name, spec in as_mapping(inputs, "inputs").items()}
    _complete_names("input", (*model.signals, *model.covariates), sources, "inputs")
    sources = Signals({**sources, **infusion_rates(doses)})
    order = np.argsort(wanted, kind="stable")
    check_finite(sources, model.inputs, start, wanted[order])
    jumps, breaks, sizes = jumps_of(model.states, doses, again, states), model.breaks(sources), np.abs(states)
    if jumps is None:
        return Run(start, states, params, sources, wanted[order], breaks, sizes=sizes), order
    begin = jumps.at(start, states)
    run = Run(start, begin, params, sources, wanted[order], breaks, jumps.after(start), sizes)
    return run, order


def default_t0(first: float, doses: Sequence[Doses], resets: np.ndarray) -> float:
    """When the initial state holds unless a user says it: at 0, or at the first sample, dose or reset if earlier."""
    return min([0.0, first, *_events(doses, resets)])


def _events(doses: Sequence[Doses], resets: np.ndarray) -> list[float]:
    """The first times of the doses and of the resets, which ascend."""
    return [*(float(one.times[0]) for one in doses), *resets[:1].tolist()]


def _of_model(model: Model, parameters: Mapping[str, float]) -> Mapping[str, float]:
    """The parameters without those that only a problem's initial formulas or noise use, if none is missing."""
    if not isinstance(parameters, Mapping) or not set(model.parameters) <= set(parameters):
        return parameters
    own = (*model.parameters, *model.states, *model.inputs)
    return {name: value for name, value in parameters.items() if name in own}


def _complete(kind: str, names: tuple[str, ...], given: Mapping[str, float], argument: str) -> np.ndarray:
    """The values of all names in order."""
    values = as_mapping(given, argument, "1.0")
    _complete_names(kind, names, values, argument)
    return np.array([as_number(values[name], "value", name) for name in names], float)


def _complete_names(kind: str, names: tuple[str, ...], given: Mapping[str, object], argument: str) -> None:
    for name in given:
        if name not in names:
            values = {"argument": argument, "kind": kind, "known": names, "close": closest(str(name), names)}
            key = (argument, str(name))
            raise InputError("simulation.unknown_name", str(name), key=key).with_values(**values)
    for name in names:
        if name not in given:
            raise InputError("simulation.no_value", name, key=(argument,), kind=kind, argument=argument)
