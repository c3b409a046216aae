"""What is known of the state before an experiment: a steady state, and initial values as users write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from picardfit.checks import as_mapping, as_number, is_number
from picardfit.errors import InputError, concerning
from picardfit.formulas.grammar import parse
from picardfit.model.doses import Doses, as_doses
from picardfit.model.inputs import Constant, as_input
from picardfit.model.parameters import Parameter, as_parameter

InitialValue = float | str | Parameter  # a known value, a formula of parameters, or an unknown one


@dataclass(frozen=True, eq=False, init=False)
class Rest:
    """The system was in a steady state before an experiment, under constant inputs.

    `inputs`: input -> number; `initial`: state -> number or formula of parameters, from which the steady state was
    reached. States in the experiment's own `initial` are reset when the experiment begins, the others keep their
    steady values.
    `doses`, `every`: the steady state is that of a regimen, which repeats these doses with this period; their times
    count from the beginning of a period, and the experiment begins with one. States without `initial` came from 0.
    `after`: the steady state before this one, from which states without `initial` came.
    """

    inputs: dict[str, Constant]
    initial: dict[str, float | str]
    doses: tuple[Doses, ...]
    every: float | None
    after: Rest | None

    def __init__(
        self,
        inputs: Mapping[str, object] | None = None,
        initial: Mapping[str, object] | None = None,
        doses: Doses | Iterable[Doses] | None = None,
        every: float | None = None,
        after: Rest | None = None,
    ) -> None:
        constants, values = _constant_inputs(inputs), _known_values(initial)
        regimen = as_doses(doses)
        if bool(regimen) != (every is not None):
            raise InputError("problem.rest_period", key=("rest",))
        period = None if every is None else as_number(every, "period `every`")
        if period is not None and not period > 0:
            raise InputError("problem.rest_period_sign", key=("rest",), value=period)
        for one in regimen:
            if period is not None and not (one.times[0] >= 0 and one.times[-1] < period):
                raise InputError("problem.rest_dose_time", one.into, key=("rest",), every=period)
        if not isinstance(after, Rest | None):
            raise InputError("problem.not_a_rest", value=after)
        checked = {
            "inputs": constants,
            "initial": values,
            "doses": regimen,
            "every": period,
            "after": after,
        }
        for attribute, given in checked.items():
            object.__setattr__(self, attribute, given)

    def value_of(self, name: str, covariates: Mapping[str, float]) -> float:
        """The value of an input of the model before an experiment with these covariates."""
        return self.inputs[name].value if name in self.inputs else covariates.get(name, 0.0)


def _constant_inputs(inputs: Mapping[str, object] | None) -> dict[str, Constant]:
    constants: dict[str, Constant] = {}
    for name, spec in as_mapping(inputs, "inputs").items():
        source = as_input(name, spec)
        if not isinstance(source, Constant):
            raise InputError("problem.rest_input_varies", name, key=("inputs", name))
        constants[name] = source
    return constants


def _known_values(initial: Mapping[str, object] | None) -> dict[str, float | str]:
    values: dict[str, float | str] = {}
    for name, spec in as_mapping(initial, "initial").items():
        value = initial_value(name, spec)
        if isinstance(value, Parameter):
            raise InputError("problem.rest_initial_unknown", name, key=("initial", name))
        values[name] = value
    return values


def initial_value(name: str, spec: object) -> InitialValue:
    """A known initial value, the text of a formula, or the Parameter of an unknown one."""
    if is_number(spec):
        return as_number(spec, "initial value", name)
    if isinstance(spec, str):
        with concerning("model.in_initial", name, key=("initial", name)):
            parse(spec)
        return spec
    parameter = as_parameter(name, spec, "initial")
    return parameter if parameter.fixed is None else parameter.fixed
