"""Derived: a quantity that follows from the parameters, as a formula with its unit."""

from __future__ import annotations

from dataclasses import dataclass

from picardfit.errors import InputError


@dataclass(frozen=True)
class Derived:
    """A formula of parameters, initial states `x(0)`, noise levels, covariates and other derived quantities.

    `unit`: printed, never computed with.
    """

    formula: str
    unit: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.formula, str):
            raise InputError("model.derived_not_text", value=self.formula)
        if not isinstance(self.unit, str):
            raise InputError("model.parameter_unit", value=self.unit)


def as_derived(name: str, spec: object) -> Derived:
    """The quantity that `spec` describes: a text, or a Derived."""
    if isinstance(spec, Derived):
        return spec
    if not isinstance(spec, str):
        raise InputError("model.not_derived", name, key=("derived", name), value=spec)
    return Derived(spec)
