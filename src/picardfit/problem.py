"""Problem: a model, experiments, what is known of parameters and initial states, checked and immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np
import sympy

from picardfit.data import Experiment, Rest, runs
from picardfit.errors import InputError, did_you_mean, listing, type_words
from picardfit.expressions import BatchedMap, names, parse
from picardfit.integration import predict
from picardfit.measurement import Measurement, Padded, padded
from picardfit.model import Model
from picardfit.noise import LeastSquares, Objective
from picardfit.noise_models import NoiseModel, Scatter, bind
from picardfit.parameters import Parameter, as_parameter, to_internal
from picardfit.priors import Priors
from picardfit.readonly import ReadOnly
from picardfit.tracing import NumericMap
from picardfit.unknowns import Rests, Unknowns
from picardfit.values import border_from

LARGEST = 1e100  # size of a measurement, and the inverse of the smallest


@dataclass(frozen=True)
class Samples:
    """All sampling instants of all experiments, in order of experiment and time."""

    times: np.ndarray  # (samples,)
    experiment: np.ndarray  # (samples,)
    data: np.ndarray  # (samples, observables), NaN where not measured


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be estimated from what.

    `parameters`: name -> (lower, upper), pf.Parameter, or a number that fixes it; names left out are free.
    `initial`: state -> the same, or a formula text of parameters; an experiment's own `initial` wins. A state
    without entry is unknown and estimated for each experiment.
    `truth`: the values that made the data, where they are known (simulated data).
    `noise`: how the measurements scatter, one pf.Noise (LogNormal, StudentT, Laplace) or one for each observable; then
    the likelihood is maximised. Without it: plain least squares.
    `nominal`: values of the parameters that came with the problem; nothing starts from them.
    """

    model: Model
    experiments: Sequence[Experiment] | Experiment
    parameters: Mapping[str, object] | None = None
    initial: Mapping[str, object] | None = None
    truth: Mapping[str, object] | None = None
    noise: NoiseModel | Mapping[str, NoiseModel] | None = None
    scatter: Scatter | None = field(init=False, repr=False)
    nominal: Mapping[str, float] | None = None
    initial_by_experiment: tuple[dict, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise InputError(
                f"The first argument of Problem is {type_words(self.model)}: pass a pf.Model(...) there."
            )
        experiments = _named(self.experiments)
        _check_experiments(self.model, experiments)
        common = _mapping(self.initial, "initial")
        initial = tuple(_initial_of(self.model, e, common) for e in experiments)
        scatter = None if self.noise is None else bind(self.noise, self.model)
        given = _mapping(self.parameters, "parameters")
        parameters = _all_parameters(
            self.model, given, dict(zip((e.name for e in experiments), initial, strict=True)), scatter
        )
        _check_priors(parameters, initial, scatter)
        if scatter is not None:
            _check_positive(self.model, experiments, scatter)
        for name, value in (
            ("scatter", scatter),
            ("experiments", experiments),
            ("parameters", ReadOnly(parameters)),
            ("initial", ReadOnly(common)),
            ("initial_by_experiment", initial),
        ):
            object.__setattr__(self, name, value)

    @cached_property
    def samples(self) -> Samples:
        outputs = self.model.observables
        columns, rows, owner = [], [], []
        for e, one in enumerate(self.experiments):
            block = np.full((len(one.times), len(outputs)), np.nan)
            for k, name in enumerate(one.observables):
                block[:, outputs.index(name)] = one.values[:, k]
            columns.append(block)
            rows.append(one.times)
            owner.append(np.full(len(one.times), e))
        return Samples(np.concatenate(rows), np.concatenate(owner), np.concatenate(columns))

    @cached_property
    def objective(self) -> Objective:
        """What the data cost: least squares, or a negative log-likelihood; priors come on top."""
        if self.scatter is None:
            return self.least_squares
        return self.scatter.objective(self.samples.data)

    @cached_property
    def least_squares(self) -> LeastSquares:
        return LeastSquares(self.samples.data)

    @cached_property
    def priors(self) -> Priors | None:
        return _priors(self)

    @cached_property
    def measurement(self) -> BatchedMap | NumericMap | Measurement:
        """The map from states to the rows of the objective; the observables are the first of them."""
        if self.scatter is None:
            return self.model.output
        return self.scatter.measurement(self.model, self._measured_names)

    @cached_property
    def rhs(self) -> BatchedMap | NumericMap | Padded:
        """The right-hand side as a function of the parameters of model and noise."""
        return padded(self.model.rhs, self._measured_names)

    @property
    def _measured_names(self) -> tuple[str, ...]:
        return self.unknowns.names[: self.unknowns.measured_parameters]

    @cached_property
    def output_scale(self) -> np.ndarray:
        """(observables,): the size of variation of each observable in the data, 0 where never measured."""
        data = self.samples.data
        filled = np.where(np.isfinite(data), data, 0.0)
        count = np.maximum(np.isfinite(data).sum(axis=0), 1)
        mean = filled.sum(axis=0) / count
        spread = np.sqrt(np.where(np.isfinite(data), (filled - mean) ** 2, 0.0).sum(axis=0) / count)
        return np.maximum(spread, 1e-2 * np.abs(filled).max(axis=0))

    @cached_property
    def unknowns(self) -> Unknowns:
        return _unknowns(self)

    @property
    def noise_names(self) -> tuple[str, ...]:
        """Parameters that only the noise has: names in level formulas, then estimated levels."""
        return () if self.scatter is None else (*self.scatter.names, *self.scatter.parameters)

    @property
    def initial_names(self) -> tuple[str, ...]:
        """Parameters that initial formulas use."""
        return tuple(_formula_names(self.initial_by_experiment))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the experiments."""
        return tuple(e.name for e in self.experiments)

    @property
    def measurements(self) -> int:
        """How many numbers were measured."""
        return int(np.isfinite(self.samples.data).sum())

    @property
    def unmeasured(self) -> tuple[tuple[str, str], ...]:
        """(experiment, observable) of every column of an experiment that holds no number."""
        return tuple(
            (one.name, name)
            for one in self.experiments
            for name, column in one.observations.items()
            if not np.isfinite(column).any()
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was left out when the experiments were read."""
        return tuple(dict.fromkeys(remark for one in self.experiments for remark in one.remarks))

    def span(self, experiment: int) -> tuple[float, float]:
        """First and last time of an experiment."""
        one = self.experiments[experiment]
        return one.t0, float(one.times[-1])

    def breaks(self, experiment: int) -> tuple[float, ...]:
        """Times inside an experiment where the right-hand side may jump or kink."""
        one = self.experiments[experiment]
        start, stop = self.span(experiment)
        return tuple(b for b in self.model.breaks(one.inputs) if start < b < stop)

    def inputs_at(self, experiment: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The inputs (k, ..., inputs) at times (k, ...), of which the i-th belong to experiment[i]."""
        values = np.empty((*times.shape, len(self.model.inputs)))
        if not self.model.inputs:
            return values
        for e, mine in runs(experiment):
            values[mine] = self.experiments[e].inputs_at(self.model.inputs, times[mine])
        return values

    def check_inputs(self) -> None:
        """InputError when an input is not finite somewhere in its experiment."""
        for one in self.experiments:
            one.check_inputs(self.model.inputs)

    def mean_loss(self, value: float) -> float:
        """The objective as it is reported: the paper's L_ls, divided by the number of sampling instants N_s.

        With a noise model: the negative log-likelihood with the priors, as it is.
        """
        return value / len(self.samples.times) if self.scatter is None else value

    def loss(self, parameters: Mapping[str, object], initial: Mapping[str, object] | None = None) -> float:
        """The paper's L_ls at given values, by independent integration; inf if there is no solution.

        `parameters`: {"a": 1.0}, a local one also {"a": {"pond 1": 1.0}}; `initial`: {"prey": 1.0} for all
        experiments or {"pond 1": {"prey": 1.0}}. What the problem fixes may be left out.
        """
        levels = () if self.scatter is None else tuple(self.scatter.parameters)
        outputs = self._predicted(border_from(self, parameters, initial, optional=levels))
        if outputs is None or not np.isfinite(g := outputs[:, : len(self.model.observables)]).all():
            return inf
        return self.least_squares.value(g) / len(self.samples.times)

    def nllh(self, parameters: Mapping[str, object], initial: Mapping[str, object] | None = None) -> float:
        """Negative log-likelihood of the data at given values, by independent integration; priors left out.

        Values as for `loss`, estimated noise levels among the parameters. Without a noise model: normal noise with the
        one variance for all measurements that makes it smallest.
        """
        rows = self._predicted(border_from(self, parameters, initial))
        value = inf if rows is None else self.objective.nllh(rows)
        return value if np.isfinite(value) or value == -inf else inf

    def _predicted(self, border: np.ndarray) -> np.ndarray | None:
        """Rows (samples, rows) by independent integration, or None."""
        self.check_inputs()
        return predict(self, self.unknowns.measured_values(border), self.unknowns.initial(border)[0])

    def simulate_data(
        self,
        parameters: Mapping[str, object] | np.ndarray,
        initial: Mapping[str, object] | None = None,
        *,
        seed: int | np.random.Generator = 0,
        sd: float | None = None,
    ) -> Problem:
        """The same problem with new data, drawn from the noise model at given values; gaps stay gaps.

        `parameters` may also be an array of unknowns (experiments, width). Without a noise model the noise is normal
        with standard deviation `sd`.
        """
        if (sd is None) == (self.scatter is None):
            raise InputError(
                "This problem has no noise model: pass sd=..., the standard deviation of the new data."
                if sd is None
                else "This problem has a noise model: leave sd out."
            )
        is_border = isinstance(parameters, np.ndarray)
        rows = self._predicted(parameters if is_border else border_from(self, parameters, initial))
        if rows is None:
            raise InputError("The equations have no solution at these values: choose others.")
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        return self.with_data(self.objective.sample(rows, rng, sd))

    def with_experiments(self, experiments: Sequence[Experiment]) -> Problem:
        """The same problem with other experiments."""
        return replace(self, experiments=experiments)

    def with_data(self, data: np.ndarray) -> Problem:
        """The same problem with other data (samples, observables) in the order of `samples`."""
        renewed = []
        for e, one in enumerate(self.experiments):
            block = data[self.samples.experiment == e]
            columns = {n: block[:, self.model.observables.index(n)] for n in one.observables}
            renewed.append(replace(one, observations=columns))
        return self.with_experiments(renewed)

    def _repr_html_(self) -> str:
        from picardfit.notebook import problem_html

        return problem_html(self)

    def __str__(self) -> str:
        count = len(self.experiments)
        what = "1 experiment" if count == 1 else f"{count} experiments"
        lines = [str(self.model), f"{what}, {self.measurements} numbers measured:"]
        lines += [f"  {one}" for one in self.experiments[:20]]
        if len(self.experiments) > 20:
            lines.append(f"  and {len(self.experiments) - 20} more")
        lines += self.remarks
        return "\n".join([*lines, f"{self.unknowns.count()} unknowns"])


def _named(experiments: object) -> tuple[Experiment, ...]:
    """The experiments with a name each: unnamed ones are called `experiment 1` and so on."""
    many = (experiments,) if isinstance(experiments, Experiment) else experiments
    if isinstance(many, str | Mapping) or not isinstance(many, Iterable):
        raise InputError(
            f"The experiments are given as {type_words(experiments)}: pass pf.Experiment(...) objects, or the "
            f"list from pf.read_table for a file."
        )
    many = tuple(many)
    if not many:
        raise InputError("There is no experiment: pass at least one pf.Experiment with data.")
    for one in many:
        if not isinstance(one, Experiment):
            raise InputError(
                f"{one!r} in {type_words(experiments)} is not an experiment: pass pf.Experiment(...) objects or the "
                f"list from pf.read_table(...)."
            )
    named = tuple(one if one.name else replace(one, name=f"experiment {k}") for k, one in enumerate(many, 1))
    seen: set[str] = set()
    for one in named:
        if one.name in seen:
            raise InputError(f"Two experiments are called `{one.name}`: give each its own name.")
        seen.add(one.name)
    return named


def _mapping(given: object, what: str) -> dict[str, object]:
    """`given` as a dictionary; None is empty."""
    if not isinstance(given, Mapping | None):
        raise InputError(f"`{what}` is {type_words(given)}: write names and bounds as {{'name': (0, 1)}}.")
    return dict(given or {})


def _check_experiments(model: Model, experiments: Sequence[Experiment]) -> None:
    for one in experiments:
        for name in one.observables:
            if name not in model.observables:
                raise InputError(
                    f"`{name}` is measured in `{one.name}` but is not an observable of the model "
                    f"({listing(model.observables)}): rename it, add it to the model's observables, or leave it out "
                    f"of a table by pf.read_table(..., observables=[...])."
                    + did_you_mean(name, model.observables)
                )
        for name in one.inputs:
            if name not in model.inputs:
                raise InputError(
                    f"`{one.name}` gives an input `{name}` which the model does not have: "
                    f"add it to inputs=[...] of the model or remove it." + did_you_mean(name, model.inputs)
                )
        for name in model.inputs:
            if name not in one.inputs:
                raise InputError(
                    f"`{one.name}` does not say what the input `{name}` was: "
                    f'add inputs={{"{name}": ...}} (a number, a formula in t or a table).'
                )
        for name in one.initial:
            _check_state(model, name, f"initial of `{one.name}`")
        if one.rest is not None:
            _check_rest(model, one)
    for name in model.observables:
        _check_size(name, experiments)


def _check_rest(model: Model, one: Experiment) -> None:
    for name in one.rest.initial:
        _check_state(model, name, f"initial of the rest before `{one.name}`")
    for name in model.states:
        if name not in one.rest.initial:
            raise InputError(
                f"The rest before `{one.name}` does not say where `{name}` started: add it to initial of pf.Rest."
            )
    for name in model.inputs:
        if name not in one.rest.inputs:
            raise InputError(
                f"The rest before `{one.name}` does not say what the input `{name}` was: add it to inputs of pf.Rest."
            )


def _check_size(name: str, experiments: Sequence[Experiment]) -> None:
    """Numbers whose squares leave the range of floating point cannot be fitted."""
    sizes = [
        np.nanmax(np.abs(one.observations[name]), initial=0.0)
        for one in experiments
        if name in one.observables
    ]
    largest = max(sizes, default=0.0)
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise InputError(
            f"The values of `{name}` reach {largest:.3g}, too {'large' if largest > 1 else 'small'} to be squared: "
            f"measure it in another unit."
        )


def _check_state(model: Model, name: str, where: str) -> None:
    if name not in model.states:
        raise InputError(
            f"`{name}` in {where} is not a state of the model ({listing(model.states)}): rename or remove it."
            + did_you_mean(name, model.states)
        )


def _initial_of(model: Model, one: Experiment, common: dict) -> dict[str, object]:
    """state -> float (known) | sympy expression | Parameter (free) | Rest (from it), for one experiment."""
    for name in common:
        _check_state(model, name, "initial")
    resolved: dict[str, object] = {}
    for state in model.states:
        if one.rest is not None and state not in one.initial:
            resolved[state] = one.rest
            continue
        spec = one.initial.get(state, common.get(state))
        if isinstance(spec, str):
            resolved[state] = _initial_formula(model, one, state, spec)
            continue
        spec = as_parameter(f"{state}(0)", spec)
        resolved[state] = spec if spec.fixed is None else float(spec.fixed)
    return resolved


def _initial_formula(model: Model, one: Experiment, state: str, text: str) -> sympy.Expr:
    where = f"The initial formula of `{state}` in `{one.name}`"
    expression = parse(text, where)
    for name in sorted(names(expression)):
        if name in model.states or name in model.inputs or name == "t":
            kind = "the time" if name == "t" else "a state" if name in model.states else "an input"
            raise InputError(
                f"{where}, `{text}`, uses {kind} `{name}`: only parameters may stand there, write one for it."
            )
    return expression


def _formula_names(initial: Iterable[dict]) -> list[str]:
    """Names used by initial formulas, in order of appearance."""
    found: dict[str, None] = {}
    for one in initial:
        rests = {id(spec): spec for spec in one.values() if isinstance(spec, Rest)}
        before = [parse(s) for rest in rests.values() for s in rest.initial.values() if isinstance(s, str)]
        for spec in (*one.values(), *before):
            if not isinstance(spec, float | Parameter | Rest):
                found.update(dict.fromkeys(sorted(names(spec))))
    return list(found)


def _all_parameters(
    model: Model, given: dict, initial: Mapping[str, dict], scatter: Scatter | None
) -> dict[str, Parameter]:
    """The model's parameters, those of the noise, and those that only initial formulas have."""
    used = _formula_names(initial.values())
    levels = {} if scatter is None else scatter.parameters
    in_formulas = () if scatter is None else scatter.names
    known = list(dict.fromkeys([*model.parameters, *in_formulas, *levels, *used]))
    for name in given:
        if name not in known:
            raise InputError(_unknown_parameter(model, str(name), known))
    for name in used:
        if name in model.states or name in model.inputs or name == "t":
            raise InputError(
                f"The formula of a rest uses `{name}`: only parameters may stand there, write one for it."
            )
        if name not in model.parameters and name not in given:
            raise InputError(
                f"{_user(name, initial)} uses `{name}`, which is not a parameter: "
                f"add it to parameters={{...}} with its bounds."
                + did_you_mean(name, {*model.parameters, *given})
            )
    for name in in_formulas:
        if name not in given:
            raise InputError(
                f"A noise level uses `{name}`, which is not a name of the model: correct it, or add it to "
                f"parameters={{...}} with its bounds."
                + did_you_mean(name, {*model.parameters, *model.observables, *model.states, *given})
            )
    return {name: as_parameter(name, given.get(name, levels.get(name))) for name in known}


def _user(name: str, initial: Mapping[str, dict]) -> str:
    """The first initial formula that uses a name, in words."""
    for experiment, specs in initial.items():
        for state, spec in specs.items():
            if isinstance(spec, sympy.Expr) and name in names(spec):
                return f"The initial formula of `{state}` in `{experiment}`"
    return "The initial formula of a rest"


def _unknown_parameter(model: Model, name: str, known: list[str]) -> str:
    """Why a name has no place in `parameters`."""
    if name in model.dropped:
        helper = model.dropped[name]
        return (
            f"`{name}` in parameters stands only in `{helper} = ...`, which no equation uses: "
            f"use `{helper}`, or remove both."
        )
    kind = "not a parameter of the model"
    if name in model.states:
        kind = "a state: give its bounds in initial="
    elif name in model.inputs:
        kind = "an input: give it in inputs= of the experiments"
    return f"`{name}` in parameters is {kind} (parameters: {listing(known)})." + did_you_mean(name, known)


def _check_priors(parameters: dict[str, Parameter], initial: Sequence[dict], scatter: Scatter | None) -> None:
    if scatter is not None:
        return
    every = [*parameters.items(), *(item for one in initial for item in one.items())]
    for name, one in every:
        if isinstance(one, Parameter) and one.prior is not None:
            raise InputError(
                f"`{name}` has a prior, but without a noise model nothing says how much the data weigh against it: "
                f"pass noise=pf.Noise(...) to the problem."
            )


def _check_positive(model: Model, experiments: Sequence[Experiment], scatter: Scatter) -> None:
    """Logarithms of measurements need positive ones."""
    log = [name for name, c in zip(model.observables, scatter.columns, strict=True) if c.base is not None]
    for one in experiments:
        for name in (n for n in log if n in one.observables):
            if (one.observations[name] <= 0).any():
                raise InputError(
                    f"`{name}` is not positive at some time of `{one.name}`, but its noise acts on the logarithm: "
                    f"blank these values, or give `{name}` additive noise."
                )


def _priors(problem: Problem) -> Priors | None:
    unknowns, initial = problem.unknowns, problem.initial_by_experiment
    states = len(unknowns.initial_states)
    entries = []
    for e, c in np.argwhere(unknowns.exists):
        if c >= unknowns.local and e > 0:
            continue
        if c < states:
            spec = initial[e][unknowns.states[unknowns.initial_states[c]]]
        else:
            which = np.concatenate([unknowns.local_parameters, unknowns.global_parameters])[c - states]
            spec = problem.parameters[unknowns.names[which]]
        if spec.prior is not None:
            entries.append((int(e), int(c), bool(unknowns.log[e, c]), spec.prior))
    return Priors(unknowns.lower.shape, tuple(entries)) if entries else None


def _unknowns(problem: Problem) -> Unknowns:
    model, parameters, initial = problem.model, problem.parameters, problem.initial_by_experiment
    order = list(parameters)
    rows = len(initial)
    free = [s for s in model.states if any(isinstance(one[s], Parameter) for one in initial)]
    local = [n for n in order if parameters[n].fixed is None and parameters[n].local]
    shared = [n for n in order if parameters[n].fixed is None and not parameters[n].local]
    columns: list[list[Parameter | None]] = [
        [*(one[s] if isinstance(one[s], Parameter) else None for s in free)]
        + [parameters[n] for n in (*local, *shared)]
        for one in initial
    ]
    log = np.array([[bool(c and c.log) for c in row] for row in columns], bool).reshape(rows, -1)
    bounds = np.array([[c.bounds if c else (0.0, 0.0) for c in row] for row in columns], float).reshape(
        rows, -1, 2
    )
    start = [[np.nan if c is None or c.start is None else c.start for c in row] for row in columns]
    before = [_before(one) for one in problem.experiments]
    formulas, (formula_of, rest_formula_of) = _formulas(model, order, initial, before)
    known = [[one[s] if isinstance(one[s], float) else 0.0 for s in model.states] for one in initial]
    index = {name: k for k, name in enumerate(order)}
    return Unknowns(
        experiments=problem.names,
        states=model.states,
        names=tuple(order),
        model_parameters=len(model.parameters),
        measured_parameters=len({*model.parameters, *problem.noise_names}),
        base=np.tile([0.0 if p.fixed is None else p.fixed for p in parameters.values()], (rows, 1)),
        known=np.array(known, float),
        initial_states=np.array([model.states.index(s) for s in free], int),
        local_parameters=np.array([index[n] for n in local], int),
        global_parameters=np.array([index[n] for n in shared], int),
        lower=to_internal(bounds[..., 0], log),
        upper=to_internal(bounds[..., 1], log),
        log=log,
        start=to_internal(np.array(start, float).reshape(rows, -1), log),
        formulas=formulas,
        formula_of=formula_of,
        rests=_rests(problem, before, rest_formula_of),
    )


def _before(one: Experiment) -> dict[str, object]:
    """state -> number or expression at the start of the rest before an experiment; empty without one."""
    specs = {} if one.rest is None else one.rest.initial
    return {n: parse(s, f"Initial state of `{n}`") if isinstance(s, str) else s for n, s in specs.items()}


def _rests(problem: Problem, before: Sequence[dict], formula_of: np.ndarray) -> Rests | None:
    model, experiments = problem.model, problem.experiments
    if all(one.rest is None for one in experiments):
        return None
    known = [
        [float(s) if isinstance(s := one.get(n), float) else 0.0 for n in model.states] for one in before
    ]
    inputs = [
        [0.0 if one.rest is None else one.rest.inputs[n].value for n in model.inputs] for one in experiments
    ]
    return Rests(
        rhs=model.rhs,
        times=np.array([one.t0 for one in experiments]),
        inputs=np.array(inputs, float).reshape(len(experiments), -1),
        known=np.array(known, float),
        formula_of=formula_of,
        kept=np.array(
            [[isinstance(one[n], Rest) for n in model.states] for one in problem.initial_by_experiment]
        ),
    )


def _formulas(
    model: Model, order: list[str], *starts: Sequence[dict]
) -> tuple[BatchedMap | None, list[np.ndarray]]:
    """Distinct initial formulas as one batched map, and which one each (experiment, state) of each table uses."""
    distinct: dict[object, int] = {}
    tables = [np.full((len(initial), len(model.states)), -1) for initial in starts]
    for initial, formula_of in zip(starts, tables, strict=True):
        for e, one in enumerate(initial):
            for s, state in enumerate(model.states):
                if isinstance(spec := one.get(state), sympy.Expr):
                    formula_of[e, s] = distinct.setdefault(spec, len(distinct))
    if not distinct:
        return None, tables
    return BatchedMap(list(distinct), states=(), parameters=tuple(order), inputs=()), tables
