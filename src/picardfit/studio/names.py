"""Which parameters a problem file needs: the names in its equations, observables and initial formulas."""

from __future__ import annotations

from collections.abc import Mapping

from picardfit.errors import InputError
from picardfit.formulas.grammar import names_in_order
from picardfit.model.model import Model
from picardfit.problem.initial_formulas import plain_initial
from picardfit.studio import document


def needed_parameters(text: str) -> list[str] | None:
    """The names in order; None where the equations cannot be read."""
    content = document.plain(text)
    given, inputs = content.get("observables"), content.get("inputs") or {}
    observables = given if isinstance(given, Mapping | list) else None
    try:
        model = Model(str(content.get("equations", "")), observables, [*inputs], None, _covariates(content))
        initial = content.get("initial") or {}
        formulas = (
            [one for one in initial.values() if isinstance(one, str)] if isinstance(initial, Mapping) else []
        )
        more = [name for one in formulas for name in names_in_order(plain_initial(model.states, one))]
    except (InputError, TypeError):
        return None
    taken = {*model.states, *model.inputs, "t"}
    return list(dict.fromkeys([*model.parameters, *(name for name in more if name not in taken)]))


def states_of(text: str) -> tuple[str, ...]:
    """The states of the equations, whatever is wrong elsewhere; none where the equations cannot be read."""
    content = document.plain(text)
    inputs = content.get("inputs") or {}
    try:
        return Model(str(content.get("equations", "")), None, [*inputs], None, _covariates(content)).states
    except (InputError, TypeError):
        return ()


def completed(text: str) -> str:
    """The problem file with bounds for all parameters of its equations, where they can be read."""
    needed = needed_parameters(text)
    return text if needed is None else document.with_parameters(text, needed)


def _covariates(content: Mapping[str, object]) -> list[str]:
    data = content.get("data")
    listed = data.get("covariates") if isinstance(data, Mapping) else None
    found = [*(content.get("covariates") or []), *(listed or [])]  # type: ignore[misc]
    return [one for one in found if isinstance(one, str)]
