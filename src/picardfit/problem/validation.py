"""Checks of what a problem is given: experiments that match the model, initial states, parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import sympy

from picardfit.checks import as_mapping, as_number
from picardfit.errors import InputError, Key, closest
from picardfit.formulas.algebra import names, symbol
from picardfit.model.densities import COUNTS
from picardfit.model.doses import Jumps, jumps_of
from picardfit.model.model import Model
from picardfit.model.parameters import Parameter, as_parameter
from picardfit.model.scatter import Scatter
from picardfit.problem.calendar import known_unit
from picardfit.problem.dose_checks import check_covariates
from picardfit.problem.experiment import Experiment
from picardfit.problem.first_counts import check_first_counts
from picardfit.problem.initial_formulas import formula_names, initial_formula, no_parameter, spelled_out
from picardfit.problem.random_checks import typical_name
from picardfit.problem.rest import Rest

# A known value, a formula, an unknown value, or the steady state before the experiment.
InitialSpec: TypeAlias = float | sympy.Expr | Parameter | Rest

TRUTH = ("parameters", "initial")  # the groups of true values


def named_experiments(experiments: object) -> tuple[Experiment, ...]:
    """The experiments with a name each: unnamed ones are called `experiment 1` and so on."""
    given = (experiments,) if isinstance(experiments, Experiment) else experiments
    several = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    members = tuple(given) if several and isinstance(given, Iterable) else ()
    strange = [one for one in members if not isinstance(one, Experiment)]
    if not several or (strange and not isinstance(experiments, list | tuple)):
        raise InputError("problem.not_experiments", key=("experiments",), value=experiments)
    if not members:
        raise InputError("problem.no_experiments", key=("experiments",))
    if strange and isinstance(strange[0], list) and any(isinstance(one, Experiment) for one in strange[0]):
        raise InputError("problem.nested_experiments", key=("experiments",))
    if strange:
        code, key = "problem.not_an_experiment", ("experiments",)
        raise InputError(code, key=key, value=strange[0], container=experiments)
    named = tuple(
        one if one.name else replace(one, name=f"experiment {k}") for k, one in enumerate(members, 1)
    )
    seen: set[str] = set()
    for one in named:
        if one.name in seen:
            raise InputError("problem.same_name", one.name, key=("experiments", one.name))
        seen.add(one.name)
    return named


def check_experiments(
    model: Model, experiments: Sequence[Experiment], trials: Sequence[str] = (), limit: float = 1e100
) -> None:
    """InputError unless observables, inputs and initial states of the experiments are those of the model.

    Columns of the data in `trials` hold numbers of trials and are no observables.

    The largest measurement of an observable must be between 1 / `limit` and `limit`, so that squares of measurements
    and their sums neither overflow (beyond 1e154) nor vanish; times must not exceed it either.
    """
    for one in experiments:
        _check_names(model, one, trials)
        if (last := float(np.abs([one.t0, *one.times]).max())) > limit:
            raise InputError("problem.times_size", one.name, key=("data",), size=last)
        _check_unit(model, one)
        if one.rest is not None:
            _check_rest(model, one, one.rest)
    for name in model.observables:
        columns = [_measured(one, name) for one in experiments if name in one.observables]
        largest = max((float(np.nanmax(np.abs(column), initial=0.0)) for column in columns), default=0.0)
        if largest != 0 and not 1 / limit <= largest <= limit:
            word = "large" if largest > 1 else "small"
            raise InputError("problem.measured_size", name, key=("data",), size=largest, word=word)


def _measured(one: Experiment, name: str) -> np.ndarray:
    """(n,): the values of an observable; numbers where they are censored too."""
    return np.asarray(one.values[:, one.observables.index(name)])


def _check_names(model: Model, one: Experiment, trials: Sequence[str]) -> None:
    """InputError unless the model has what an experiment names, and the experiment gives what the model needs."""
    known, inputs = model.observables, model.inputs
    for name in one.observables:
        if name not in known and name not in trials:
            code, close = "problem.unknown_observable", closest(name, known)
            raise InputError(code, name, key=("data",), experiment=one.name, known=known, close=close)
    for name in one.inputs:
        if name not in inputs:
            code, close = "problem.unknown_input", closest(name, inputs)
            raise InputError(code, name, key=("inputs", name), experiment=one.name, close=close)
    for name in model.signals:
        if name not in one.inputs:
            raise InputError("problem.missing_input", name, key=("inputs", name), experiment=one.name)
    check_covariates(model, one)
    for name in one.initial:
        _check_state(model, name, f"initial of `{one.name}`")


def _check_unit(model: Model, one: Experiment) -> None:
    """InputError where dates count in another unit than the model's time."""
    if one.calendar is None:
        return
    unit = model.unit("t")
    if unit and known_unit(unit) != one.calendar.unit:
        code, key = "problem.unit_of_dates", ("units", "t")
        raise InputError(code, unit, key=key, experiment=one.name, unit=one.calendar.unit)


def _check_rest(model: Model, one: Experiment, rest: Rest) -> None:
    if model.events and rest.every is not None:
        raise InputError("problem.regimen_with_events", one.name, key=("rest",))
    for name in rest.initial:
        _check_state(model, name, f"initial of the steady state before `{one.name}`")
    if rest.after is not None:
        _check_rest(model, one, rest.after)
    for name in model.states if rest.every is None and rest.after is None else ():
        if name not in rest.initial:
            raise InputError("problem.rest_without_state", name, experiment=one.name)
    for name in model.signals:
        if name not in rest.inputs:
            raise InputError("problem.rest_without_input", name, experiment=one.name)


def _check_state(model: Model, name: str, where: str) -> None:
    if name not in model.states:
        known, close = model.states, closest(name, model.states)
        raise InputError(
            "problem.unknown_state", name, key=("initial", name), where=where, known=known, close=close
        )


def initial_of(model: Model, one: Experiment, common: Mapping[str, object]) -> dict[str, InitialSpec]:
    """What is known of each initial state of one experiment."""
    for name in common:
        _check_state(model, name, "initial")
    resolved: dict[str, InitialSpec] = {}
    for state in model.states:
        if one.rest is not None and state not in one.initial:
            resolved[state] = one.rest
            continue
        spec = one.initial.get(state, common.get(state))
        if isinstance(spec, str):
            resolved[state] = initial_formula(model, one, state, spec)
            continue
        parameter = as_parameter(state, spec, "initial")
        if parameter.random:
            resolved[state] = symbol(typical_name(state))
            continue
        resolved[state] = parameter if parameter.fixed is None else float(parameter.fixed)
    return spelled_out(one, resolved)


def all_parameters(
    model: Model,
    given: Mapping[str, object],
    initial: Mapping[str, Mapping[str, InitialSpec]],
    scatter: Scatter | None,
) -> dict[str, Parameter]:
    """The model's parameters, those of the noise, and those that only initial formulas have."""
    used = [name for name in formula_names(model, initial.values()) if name not in model.covariates]
    levels = {} if scatter is None else scatter.parameters
    in_formulas = {} if scatter is None else scatter.names
    known = list(dict.fromkeys([*model.parameters, *in_formulas, *levels, *used]))
    for name in given:
        if name not in known:
            raise _unknown_parameter(model, name, known)
    for name in used:
        if no_parameter(model, name) is not None:
            raise InputError("problem.rest_formula_uses", name)
        if name not in model.parameters and name not in given:
            raise _unknown_in_initial(name, initial, {*model.parameters, *given})
    for name, key in in_formulas.items():
        if name not in given:
            close = closest(name, {*model.parameters, *model.observables, *model.states, *given})
            level = ".".join(map(str, key[1:]))
            raise InputError("problem.unknown_in_noise", name, key=key, level=level, close=close)
    return {name: as_parameter(name, given.get(name, levels.get(name))) for name in known}


def _unknown_in_initial(
    name: str, initial: Mapping[str, Mapping[str, InitialSpec]], known: Iterable[str]
) -> InputError:
    """The error that names the first initial formula with this unknown name."""
    close = closest(name, known)
    for experiment, specs in initial.items():
        for state, spec in specs.items():
            if isinstance(spec, sympy.Expr) and name in names(spec):
                code, key = "problem.unknown_in_initial", ("initial", state)
                return InputError(code, name, key=key, state=state, experiment=experiment, close=close)
    return InputError("problem.unknown_in_rest", name, close=close)


def _unknown_parameter(model: Model, name: str, known: Sequence[str]) -> InputError:
    """Why a name may not be in `parameters`."""
    key = ("parameters", name)
    if name in model.dropped:
        return InputError("problem.parameter_of_unused_helper", name, key=key, helper=model.dropped[name])
    if name in model.states:
        return InputError("problem.parameter_is_state", name, key=key, known=known)
    if name in model.covariates:
        return InputError("problem.parameter_is_covariate", name, key=key)
    if name in model.inputs:
        return InputError("problem.parameter_is_input", name, key=key, known=known)
    return InputError("problem.unknown_parameter", name, key=key, known=known, close=closest(name, known))


def check_priors(
    parameters: Mapping[str, Parameter],
    initial: Mapping[str, Mapping[str, InitialSpec]],
    scatter: Scatter | None,
) -> None:
    """Priors need a noise model, which says how much the data weigh against them."""
    if scatter is not None:
        return
    groups = [("parameters", "", parameters), *(("initial", name, one) for name, one in initial.items())]
    for section, experiment, group in groups:
        for name, one in group.items():
            if isinstance(one, Parameter) and one.prior is not None:
                key = (section, name)
                raise InputError("problem.prior_without_noise", name, key=key, experiment=experiment)


def check_truth(truth: object) -> None:
    """InputError unless `truth` is {"parameters": numbers by name, "initial": numbers by experiment and state}."""
    groups = as_mapping(truth, "truth")
    for group in groups:
        if group not in TRUTH:
            raise InputError("problem.truth_group", group, key=("truth", group), known=TRUTH)
    _check_numbers(("truth", "parameters"), as_mapping(groups.get("parameters"), "truth.parameters"))
    for experiment, states in as_mapping(groups.get("initial"), "truth.initial").items():
        _check_numbers(("truth", "initial", experiment), as_mapping(states, f"truth.initial.{experiment}"))


def check_nominal(nominal: object) -> None:
    """InputError unless `nominal` holds numbers by name."""
    _check_numbers(("nominal",), as_mapping(nominal, "nominal"))


def _check_numbers(key: Key, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        try:
            as_number(value, "value", name)
        except InputError as error:
            raise error.at(key=(*key, name)) from None


def check_positive(model: Model, experiments: Sequence[Experiment], scatter: Scatter) -> None:
    """Measurements whose noise acts on the logarithm must be positive."""
    log = [name for name, c in zip(model.observables, scatter.columns, strict=True) if c.base is not None]
    for one in experiments:
        for name in (n for n in log if n in one.observables):
            exact = _exact(one, name)
            for row in np.flatnonzero(exact & (_measured(one, name) <= 0)):
                raise _of_sample("problem.not_positive", one, name, row)
            if one.limits is None:
                continue
            high = one.limits[:, one.observables.index(name), 1]
            for row in np.flatnonzero(~exact & (high <= 0)):
                raise _of_sample("problem.limit_not_positive", one, name, row, limit=float(high[row]))


def _of_sample(
    code: str,
    one: Experiment,
    name: str,
    row: int | np.integer,
    key: Key = ("data",),
    subject: str = "",
    **values: object,
) -> InputError:
    """An error about the measurement of an observable in a row, with its time and its line in a table."""
    (time,) = one.time_texts(one.times[row : row + 1])
    time = f"t = {time}" if one.calendar is None else time
    error = InputError(code, subject or name, key=key).with_values(experiment=one.name, time=time, **values)
    return one.located(error, name, int(row))


def _exact(one: Experiment, name: str) -> np.ndarray:
    """(n,) bool: which values of an observable are not censored."""
    if one.limits is None:
        return np.ones(len(one.times), bool)
    return np.asarray(np.isnan(one.limits[:, one.observables.index(name), 0]))


def check_censoring(model: Model, experiments: Sequence[Experiment], scatter: Scatter | None) -> None:
    """Censored values need a noise model, one that has a probability of lying beyond a limit."""
    for one in experiments:
        for name in one.observables if one.limits is not None else ():
            for row in np.flatnonzero(~_exact(one, name))[:1]:
                if (fault := _censored_fault(model, name, scatter)) is not None:
                    code, section = fault
                    raise _of_sample(code, one, name, row, (section,))


def _censored_fault(model: Model, name: str, scatter: Scatter | None) -> tuple[str, str] | None:
    """Why an observable may not be censored, and which section of a problem file decides that."""
    if scatter is None:
        return "problem.censored_without_noise", "noise"
    if name not in model.observables:
        return "problem.censored_trials", "data"
    if scatter.columns[model.observables.index(name)].shape in COUNTS:
        return "problem.censored_counts", "data"
    return ("problem.censored_common", "noise") if scatter.common else None


def check_increments(model: Model, experiments: Sequence[Experiment]) -> None:
    """Increments count from t0 on, so they are zero then, and no steady state before an experiment is known for them.

    They are changes that the equations cause: no dose at once or reset after t0 may change their formula. A dose comes
    before a sample at its time but after an increment that ends there, so no row may hold both.
    """
    for one in experiments if model.increments else ():
        if one.rest is not None:
            raise InputError("problem.increment_after_rest", model.increments[0], experiment=one.name)
        check_first_counts(model, one)
        jumps = jumps_of(model.states, one.doses, one.resets)
        inside = (
            None if jumps is None else jumps.part((jumps.times > one.t0) & (jumps.times <= one.times[-1]))
        )
        if inside is not None:
            _check_increments_of_dosed(model, one, inside)


def _check_increments_of_dosed(model: Model, one: Experiment, jumps: Jumps) -> None:
    if any(one.t0 < time <= one.times[-1] for time in one.resets):
        raise InputError("problem.increment_with_reset", model.increments[0], experiment=one.name)
    dosed = [s for s, amounts in zip(model.states, jumps.add.T, strict=True) if amounts.any()]
    wrt_x, _ = model.output.jacobian_pattern
    for name in model.increments:
        shown = wrt_x[model.observables.index(name)]
        for state in dosed:
            if shown[model.states.index(state)]:
                raise InputError("problem.increment_of_dosed", name, experiment=one.name, state=state)
    changes = np.array([name in model.increments for name in one.observables])
    others = np.array([name in model.observables for name in one.observables]) & ~changes
    mixed = one.sampled[:, changes].any(axis=1) & one.sampled[:, others].any(axis=1)
    for row in np.flatnonzero(mixed & np.isin(one.times, jumps.times)):
        (time,) = one.time_texts(one.times[row : row + 1])
        raise InputError("problem.increment_beside_dose", time, experiment=one.name)


def check_counts(model: Model, experiments: Sequence[Experiment], scatter: Scatter) -> None:
    """Counts are whole numbers of at least 0, and binomial ones at most their trials."""
    for one in experiments:
        for name, column in zip(model.observables, scatter.columns, strict=True):
            if column.shape not in COUNTS or name not in one.observables:
                continue
            values = _measured(one, name)
            _check_whole(one, name, values)
            if column.trials is None or not np.isfinite(values).any():
                continue
            trials = np.full(len(values), float(column.trials) if isinstance(column.trials, int) else np.nan)
            if isinstance(column.trials, str):
                if column.trials not in one.observables:
                    code, key = "problem.no_trials", ("noise", "trials")
                    raise InputError(code, column.trials, key=key, experiment=one.name, observable=name)
                trials = _measured(one, column.trials)
                _check_whole(one, column.trials, trials)
            _check_trials(one, name, str(column.trials), values, trials)


def _check_trials(one: Experiment, name: str, column: str, values: np.ndarray, trials: np.ndarray) -> None:
    """Every count has at least one trial, and at most as many successes as trials."""
    counted = np.isfinite(values)
    for row in np.flatnonzero(counted & ~(trials > 0)):
        raise _of_sample("problem.trials_missing", one, name, row, subject=column, observable=name)
    for row in np.flatnonzero(counted & (values > trials)):
        found, most = float(values[row]), float(trials[row])
        raise _of_sample("problem.more_than_trials", one, name, row, value=found, trials=most)


def _check_whole(one: Experiment, name: str, values: np.ndarray) -> None:
    for row in np.flatnonzero(np.isfinite(values) & ((values < 0) | (values != np.round(values)))):
        raise _of_sample("problem.not_a_count", one, name, row, value=float(values[row]))
