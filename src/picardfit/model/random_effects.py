"""RandomEffects: what is known of the distribution of the parameters that vary between individuals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from picardfit.checks import FrozenDict, as_mapping, as_number
from picardfit.errors import InputError
from picardfit.model.priors import KINDS, Prior


@dataclass(frozen=True)
class RandomEffects:
    """The covariance of the random effects, in the scale in which they are normal (log for a log parameter).

    `correlated`: groups of names whose effects are correlated, for example [("cl", "v")]; the others are independent.
    `start`: name -> variance from which the search begins, found from the data where it is not given.
    `fixed`: name -> variance that is not estimated; 0 means that the parameter does not vary.
    `priors`: name -> prior of the standard deviation, for example {"ka": pf.priors.HalfNormal(0.5)}.
    """

    correlated: tuple[tuple[str, ...], ...] = ()
    start: Mapping[str, float] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    priors: Mapping[str, Prior] = field(default_factory=dict)
    occasions: object = None  # a second level, which is refused

    def __post_init__(self) -> None:
        if self.occasions is not None:
            raise InputError("model.random_occasions", key=("random", "occasions"), value=self.occasions)
        groups = _groups(self.correlated)
        start = _variances(self.start, "start", least=0.0)
        fixed = _variances(self.fixed, "fixed")
        together = {name for group in groups for name in group}
        for name in fixed:
            if name in together:
                raise InputError("model.random_fixed_in_group", name, key=("random", "fixed", name))
            if name in start:
                raise InputError("model.random_start_and_fixed", name, key=("random", "start", name))
        priors = _priors(self.priors, fixed)
        every = {"correlated": groups, "start": start, "fixed": fixed, "priors": priors}
        for key, value in every.items():
            object.__setattr__(self, key, value)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that appears, once."""
        grouped = (name for group in self.correlated for name in group)
        return tuple(dict.fromkeys([*grouped, *self.start, *self.fixed, *self.priors]))


def _groups(given: object) -> tuple[tuple[str, ...], ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError("model.random_groups", key=("random", "correlated"), value=given)
    groups, seen = [], set()
    for one in given:
        names = () if isinstance(one, str) or not isinstance(one, Iterable) else tuple(one)
        if len(names) < 2 or not all(isinstance(name, str) for name in names):
            raise InputError("model.random_groups", key=("random", "correlated"), value=one)
        for name in names:
            if name in seen:
                raise InputError("model.random_group_twice", name, key=("random", "correlated"))
            seen.add(name)
        groups.append(names)
    return tuple(groups)


def _variances(given: object, what: str, least: float | None = None) -> FrozenDict[str, float]:
    """The variances as floats: not negative, and above `least` if that is given."""
    found = {}
    for name, value in as_mapping(given, what, '{"ka": 0.1}').items():
        number = as_number(value, "variance", name)
        if number < 0 or (least is not None and number <= least):
            raise InputError("model.random_variance", name, key=("random", what, name), value=number)
        found[name] = number
    return FrozenDict(found)


def _priors(given: object, fixed: Mapping[str, float]) -> FrozenDict[str, Prior]:
    """The priors of standard deviations, which must be estimated."""
    found = {}
    for name, prior in as_mapping(given, "priors", '{"ka": pf.priors.HalfNormal(0.5)}').items():
        if not isinstance(prior, KINDS):
            raise InputError("model.random_prior", name, key=("random", "priors", name), value=prior)
        if name in fixed:
            raise InputError("model.random_prior_and_fixed", name, key=("random", "priors", name))
        found[name] = prior
    return FrozenDict(found)
