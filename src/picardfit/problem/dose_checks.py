"""Doses and covariates of experiments against a model: what it must know of them, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from picardfit.errors import InputError, Notice, closest
from picardfit.formulas.algebra import names
from picardfit.formulas.grammar import parse
from picardfit.model.doses import Doses, infused_states
from picardfit.model.inputs import Constant
from picardfit.model.model import Model
from picardfit.model.noise_models import NoiseModel
from picardfit.model.parameters import Parameter
from picardfit.model.scatter import bind
from picardfit.problem.dose_signs import not_negative
from picardfit.problem.experiment import Experiment
from picardfit.problem.initial_formulas import plain_initial
from picardfit.problem.rest import Rest
from picardfit.problem.sample_rows import dose_name


def adapted(
    model: Model,
    experiments: Sequence[Experiment],
    initial: Mapping[str, object] | None,
    noise: NoiseModel | Mapping[str, NoiseModel] | None,
) -> Model:
    """The model with the inputs that the experiments bring: covariates that formulas use, and infusions."""
    given = [n for n in _given(experiments) if n in _used(model, experiments, initial, noise)]
    for one in experiments:
        for name in given:
            if name in one.covariates and name in one.inputs:
                raise InputError(
                    "problem.covariate_and_input", name, key=("covariates",), experiment=one.name
                )
    for name in given:
        if name in (*model.states, "t"):
            raise InputError("problem.covariate_is_state", name, key=("covariates",))
    for one in experiments:
        for dose in _every_dose(one):
            if dose.into not in model.states:
                close, known = closest(dose.into, model.states), model.states
                raise InputError(
                    "problem.dose_into",
                    dose.into,
                    key=("doses",),
                    experiment=one.name,
                    known=known,
                    close=close,
                )
    infused = infused_states(dose for one in experiments for dose in _every_dose(one))
    return model.with_covariates(given).with_infusions(infused)


def _given(experiments: Iterable[Experiment]) -> dict[str, None]:
    return dict.fromkeys(name for one in experiments for name in one.covariates)


def _every_dose(one: Experiment) -> tuple[Doses, ...]:
    return one.doses if one.rest is None else (*one.doses, *one.rest.doses)


def _used(
    model: Model,
    experiments: Sequence[Experiment],
    initial: Mapping[str, object] | None,
    noise: NoiseModel | Mapping[str, NoiseModel] | None,
) -> set[str]:
    """Names that occur in any formula; without covariates nobody asks."""
    if not _given(experiments):
        return set()
    tables = [initial if isinstance(initial, Mapping) else {}, *(one.initial for one in experiments)]
    tables += [one.rest.initial for one in experiments if one.rest is not None]
    texts = {spec for table in tables for spec in table.values() if isinstance(spec, str)}
    in_initial = set().union(*(names(parse(plain_initial(model.states, text))) for text in texts))
    in_noise = set() if noise is None else set(bind(noise, model).names)
    return {*model.states, *model.parameters, *model.inputs, *in_initial, *in_noise}


def check_covariates(model: Model, one: Experiment) -> None:
    """InputError unless an experiment gives every covariate of the model."""
    for name in model.covariates:
        if name not in one.signals:
            others = one.signals.keys() - {*model.covariates, *model.inputs}
            raise InputError(
                "problem.missing_covariate",
                name,
                key=("covariates", name),
                experiment=one.name,
                close=closest(name, sorted(others)),
            )
        if not isinstance(one.signals[name], Constant):
            raise InputError("problem.covariate_varies", name, key=("covariates", name), experiment=one.name)


def covariates_of(model: Model, one: Experiment) -> dict[str, float]:
    """The values of the model's covariates in an experiment."""
    signals = ((name, one.signals[name]) for name in model.covariates)
    return {name: source.value for name, source in signals if isinstance(source, Constant)}


def check_doses(
    model: Model,
    experiments: Sequence[Experiment],
    parameters: Mapping[str, Parameter],
    initial: Mapping[str, Mapping[str, object]],
) -> None:
    """InputError for a dose that takes something from a state that cannot be negative, or a reset to the unknown."""
    for one in experiments:
        for dose in _every_dose(one):
            if (dose.amounts < 0).any() and dose.into in not_negative(
                model, experiments, parameters, initial
            ):
                which = int(np.argmin(dose.amounts))
                said = {"experiment": one.name, "amount": float(dose.amounts[which])}
                error = InputError("problem.negative_dose", dose.into, key=("doses",)).with_values(**said)
                if one.lines is not None:
                    error = one.lines.at(error, dose_name(dose.into), float(dose.times[which]))
                raise error
        unknown = [s for s in model.states if reset_value(s, initial[one.name][s]) is None]
        if one.resets and unknown:
            raise InputError("problem.reset_to_unknown", unknown[0], key=("resets",), experiment=one.name)


def reset_value(state: str, initial: object) -> float | None:
    """What a reset sets a state to: its known initial value, or what it was before a regimen; None if not known."""
    if isinstance(initial, Rest) and initial.every is not None:
        initial = initial.initial.get(state, 0.0)
    return initial if isinstance(initial, float) else None


def late_doses(experiments: Iterable[Experiment]) -> list[Notice]:
    """The remark that doses come after the last sample of their experiment, where no measurement feels them."""
    late = [one.name for one in experiments if any(dose.times[-1] > one.times[-1] for dose in one.doses)]
    return [Notice("problem.late_doses", late[0], {"experiments": late})] if late else []


def unused_covariates(model: Model, experiments: Sequence[Experiment]) -> list[Notice]:
    """The remark that covariates of the experiments occur in no formula."""
    unused = [name for name in _given(experiments) if name not in model.covariates]
    return [Notice("problem.unused_covariates", unused[0], {"names": unused})] if unused else []
