"""Problem: a model, experiments, what is known of parameters and initial states, checked and immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf, nan
from pathlib import Path

import numpy as np

from picardfit.checks import FrozenDict, as_mapping
from picardfit.display.hook import shown
from picardfit.errors import InputError, Notice
from picardfit.formulas.kernels import BatchedMap
from picardfit.formulas.tracing import NumericMap
from picardfit.hooks import handed_on
from picardfit.model.clock import Timed, moves, timed
from picardfit.model.derived import Derived, as_derived
from picardfit.model.doses import Jumps, jumps_of
from picardfit.model.increments import increment_columns, solved_model
from picardfit.model.inputs import Constant, check_oscillations, constant_between_breaks, values_at
from picardfit.model.measurement import Measurement, Padded, Rows, padded
from picardfit.model.model import Model
from picardfit.model.noise_models import NoiseModel
from picardfit.model.number_arrays import as_given, lost_values
from picardfit.model.parameters import Parameter
from picardfit.model.prior_terms import Priors
from picardfit.model.random_effects import RandomEffects
from picardfit.model.scatter import Scatter, bind
from picardfit.problem.columns import used_columns
from picardfit.problem.derived import derived_quantities
from picardfit.problem.dose_checks import adapted, check_doses, late_doses, reset_value, unused_covariates
from picardfit.problem.experiment import Experiment, runs
from picardfit.problem.first_counts import with_first_counts, with_gaps
from picardfit.problem.increment_samples import IncrementSamples, increment_samples
from picardfit.problem.initial_formulas import formula_names
from picardfit.problem.least_squares import LeastSquares
from picardfit.problem.likelihood import Objective, likelihood
from picardfit.problem.named_values import unknowns_from
from picardfit.problem.quantity import Quantity
from picardfit.problem.random_checks import checked_random, random_initial
from picardfit.problem.sampled_rows import sampled_rows
from picardfit.problem.samples import (
    Samples,
    nearest_measurements,
    sampled_cells,
    samples_of,
    typical_trials,
)
from picardfit.problem.state_sizes import known_sizes, measured_sizes
from picardfit.problem.unknowns import UnknownsLayout, layout_of, priors_of
from picardfit.problem.validation import (
    InitialSpec,
    all_parameters,
    check_censoring,
    check_counts,
    check_experiments,
    check_increments,
    check_nominal,
    check_positive,
    check_priors,
    check_truth,
    initial_of,
    named_experiments,
)
from picardfit.simulation.cvode import CVODE
from picardfit.simulation.trajectories import Integration, Run, trajectories

AFTER_LAST_DOSE = 1e-6  # of its span: how long an experiment goes on after a dose at its last sample


@shown
@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """A model, data, and what is known of parameters and initial states.

    `parameters`: name -> (lower, upper), pf.Parameter, or a number that fixes it; names left out are free.
    `initial`: state -> the same, or a formula text of parameters and other initial states; an experiment's own
    `initial` wins. A state without entry is unknown and estimated for each experiment.
    `truth`: the values that made the data, where they are known (simulated data).
    `noise`: how the measurements scatter, one pf.Noise (LogNormal, StudentT, Laplace; Poisson, NegativeBinomial,
    Binomial for counts) or one for each observable; then the likelihood is maximised. Without it: plain least squares.
    `nominal`: values of the parameters that came with the problem; searches do not start from them.
    `derived`: name -> formula of parameters, such as {"half_life": "log(2)*v/cl"}, or pf.Derived with a unit.
    `random`: the covariance of the parameters that vary between individuals (pf.Parameter(random=True)).

    After construction, every experiment has a name, `parameters` holds all parameters, including those of the noise and
    of initial formulas, and `initial_by_experiment` holds what is known of each initial state.
    """

    model: Model
    experiments: tuple[Experiment, ...]
    parameters: FrozenDict[str, Parameter]
    initial: FrozenDict[str, object]
    truth: Mapping[str, object] | None
    noise: NoiseModel | Mapping[str, NoiseModel] | None
    nominal: Mapping[str, float] | None
    derived: FrozenDict[str, Derived]
    random: RandomEffects | None
    scatter: Scatter | None = field(init=False, repr=False)
    initial_by_experiment: tuple[dict[str, InitialSpec], ...] = field(init=False, repr=False)

    def __init__(
        self,
        model: Model,
        experiments: Iterable[Experiment] | Experiment,
        parameters: Mapping[str, object] | None = None,
        initial: Mapping[str, object] | None = None,
        truth: Mapping[str, object] | None = None,
        noise: NoiseModel | Mapping[str, NoiseModel] | None = None,
        nominal: Mapping[str, float] | None = None,
        derived: Mapping[str, str | Derived] | None = None,
        random: RandomEffects | None = None,
    ) -> None:
        if not isinstance(model, Model):
            raise InputError("problem.not_a_model", value=model)
        named = named_experiments(experiments)
        model = adapted(model, named, initial, noise)
        scatter = None if noise is None else bind(noise, model)
        trials = () if scatter is None else scatter.trials_columns
        named = used_columns(named, (*model.observables, *trials))
        named = with_gaps(model, with_first_counts(model, named))
        check_experiments(model, named, trials)
        common = as_mapping(initial, "initial", "(0, 1)")
        each = tuple(initial_of(model, one, common) for one in named)
        check_increments(model, named)
        by_name = {one.name: specs for one, specs in zip(named, each, strict=True)}
        specs = random_initial(common) | as_mapping(parameters, "parameters", "(0, 1)")
        every = all_parameters(model, specs, by_name, scatter)
        check_doses(model, named, every, by_name)
        check_priors(every, by_name, scatter)
        check_truth(truth)
        check_nominal(nominal)
        check_censoring(model, named, scatter)
        if scatter is not None:
            check_positive(model, named, scatter)
            check_counts(model, named, scatter)
        given = as_mapping(derived, "derived", "'log(2)/k'")
        checked = {
            "model": model,
            "experiments": named,
            "parameters": FrozenDict(every),
            "initial": FrozenDict(common),
            "truth": truth,
            "noise": noise,
            "nominal": nominal,
            "derived": FrozenDict({n: as_derived(n, one) for n, one in given.items()}),
            "random": checked_random(random, every),
            "scatter": scatter,
            "initial_by_experiment": each,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if given:
            _ = self.derived_quantities  # refuse now what has no meaning

    @cached_property
    def derived_quantities(self) -> dict[str, Quantity]:
        """The derived quantities by label; those that differ between experiments as `half_life[pond 1]`."""
        return derived_quantities(self)

    @cached_property
    def samples(self) -> Samples:
        return samples_of(self.model, self.experiments, self.scatter)

    @cached_property
    def objective(self) -> Objective:
        """The misfit of the data: least squares, or a negative log-likelihood; without priors."""
        if self.scatter is None:
            return self.least_squares
        return likelihood(self.scatter, self.samples.data, self.samples.censoring, self.samples.trials)

    @cached_property
    def least_squares(self) -> LeastSquares:
        return LeastSquares(self.samples.data)

    @cached_property
    def priors(self) -> Priors | None:
        return priors_of(self)

    @cached_property
    def measurement(self) -> BatchedMap | NumericMap | Measurement:
        """The map from states to the rows of the objective; the observables are the first of them."""
        if self.scatter is None:
            return self.solved_model.output
        return self.scatter.measurement(self.solved_model, self.measured_names)

    @cached_property
    def measurement_at_samples(self) -> Rows:
        """`measurement` for all samples at once: finite in cells where nothing is sampled."""
        return sampled_rows(self.measurement, self.sampled)

    @cached_property
    def solved_model(self) -> Model:
        """The model with hidden states after its own: one for each increment, or modes and a clock for events.

        (model/increments.py, model/clock.py)
        """
        return solved_model(self.model) if self.timed is None else self.timed.fitted

    @cached_property
    def _own_measurement(self) -> BatchedMap | NumericMap | Measurement:
        """`measurement` as a map of the states that integrators have: without modes and clock."""
        if self.timed is None:
            return self.measurement
        if self.scatter is None:
            return self.model.output
        return self.scatter.measurement(self.model, self.measured_names)

    @cached_property
    def timed(self) -> Timed | None:
        """The model with modes and clock, if something happens at times that unknowns decide."""
        free = {name for name, one in self.parameters.items() if one.fixed is None}
        constant = self._constant_inputs
        return (
            timed(self.model, self._varying_inputs, constant) if moves(self.model, free, constant) else None
        )

    @property
    def _varying_inputs(self) -> list[str]:
        """Inputs of the equations that change between their breakpoints in some experiment."""
        every = [one.signals for one in self.experiments]
        return [n for n in self.model.inputs if not all(constant_between_breaks(one[n]) for one in every)]

    @property
    def _constant_inputs(self) -> list[str]:
        """Inputs of the equations that do not change within any experiment."""
        every = [one.signals for one in self.experiments]
        return [n for n in self.model.inputs if all(isinstance(one[n], Constant) for one in every)]

    @cached_property
    def clock_unit(self) -> float:
        """The unit of the clock: a typical time between two samples."""
        gaps = [np.diff(np.unique(np.append(one.times, one.t0))) for one in self.experiments]
        every = np.concatenate(gaps)
        return float(np.median(every)) if len(every) else 1.0

    def hidden_initial(self, experiment: int) -> dict[str, float]:
        """The known initial values of the hidden states: running ones 0, modes as they are at t0, the clock."""
        own, model = len(self.model.states), self.solved_model
        if self.timed is None:
            return dict.fromkeys(model.states[own:], 0.0)
        one = self.experiments[experiment]
        params = np.array([_typical(self.parameters[name]) for name in model.parameters])
        inputs = one.inputs_at(self.timed.simulated.inputs, np.array([one.t0]))[0]
        modes = self.timed.modes(one.t0, params, inputs)
        return dict(zip(model.states[own:], (*modes.tolist(), one.t0), strict=True))

    @cached_property
    def rhs(self) -> BatchedMap | NumericMap | Padded:
        """The right-hand side as a function of the parameters of model and noise."""
        return padded(self.solved_model.rhs, self.measured_names)

    @property
    def measured_names(self) -> tuple[str, ...]:
        return self.layout.names[: self.layout.measured_parameters]

    @cached_property
    def output_scale(self) -> np.ndarray:
        """(observables,): the size of variation of each observable in the data, 0 where never measured."""
        data = self.samples.data
        filled = np.where(np.isfinite(data), data, 0.0)
        count = np.maximum(np.isfinite(data).sum(axis=0), 1)
        mean = filled.sum(axis=0) / count
        spread = np.sqrt(np.where(np.isfinite(data), (filled - mean) ** 2, 0.0).sum(axis=0) / count)
        return np.asarray(np.maximum(spread, self.samples.statistics.least * np.abs(filled).max(axis=0)))

    @cached_property
    def state_sizes(self) -> np.ndarray:
        """(experiments, states): how large a state is by its data or its known initial value; 0 where nothing tells."""
        return known_sizes(self)

    @cached_property
    def measured_sizes(self) -> np.ndarray:
        """(experiments, states): how large a state is by its data; 0 where nothing tells."""
        return measured_sizes(self)

    @cached_property
    def layout(self) -> UnknownsLayout:
        return layout_of(self)

    @property
    def noise_names(self) -> tuple[str, ...]:
        """Parameters that only the noise has: names in level formulas, then estimated levels."""
        return () if self.scatter is None else (*self.scatter.names, *self.scatter.parameters)

    @property
    def initial_names(self) -> tuple[str, ...]:
        """Parameters that initial formulas use."""
        used = formula_names(self.model, self.initial_by_experiment)
        return tuple(name for name in used if name not in self.model.covariates)

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
            for name, column in zip(one.observables, one.values.T, strict=True)
            if not np.isfinite(column).any()
        )

    @property
    def remarks(self) -> tuple[Notice, ...]:
        """What was left out when the experiments were read, and priors that contradict their bounds."""
        every = [remark for one in self.experiments for remark in one.remarks]
        every += [*late_doses(self.experiments), *unused_covariates(self.model, self.experiments)]
        left_out = {str(remark): remark for remark in every}.values()
        if self.priors is None:
            return tuple(left_out)
        layout = self.layout
        lower, upper = layout.natural(layout.lower), layout.natural(layout.upper)
        return (*left_out, *self.priors.outside(lower, upper, layout.label))

    def span(self, experiment: int) -> tuple[float, float]:
        """First and last time of an experiment; a little more if a state jumps at its last sample.

        That sample shows the state after the dose, where a segment must begin.
        """
        one, jumps = self.experiments[experiment], self.jumps[experiment]
        start, last = one.t0, float(one.times[-1])
        if jumps is not None and last in jumps.times:
            last += AFTER_LAST_DOSE * (last - start)
        return start, last

    @cached_property
    def jumps(self) -> tuple[Jumps | None, ...]:
        """The jumps of the states after t0 that doses and resets cause, of each experiment; None without any.

        The states are those of the solved model.
        """
        found, states = [], self.solved_model.states
        for one, initial in zip(self.experiments, self.initial_by_experiment, strict=True):
            begin = [reset_value(s, initial.get(s, 0.0)) or 0.0 for s in states]
            every = jumps_of(states, one.doses, one.resets, np.array(begin))
            if every is not None and self.timed is not None:  # modes and the clock go on
                every.keep[:, len(self.model.states) :] = 1.0
                every.add[:, len(self.model.states) :] = 0.0
            found.append(None if every is None else every.after(one.t0))
        return tuple(found)

    def own_jumps(self, experiment: int) -> Jumps | None:
        """The jumps of the model's own states."""
        jumps = self.jumps[experiment]
        return None if jumps is None else jumps.of_first(len(self.model.states))

    def signal_breaks(self, experiment: int) -> tuple[float, ...]:
        """Times inside an experiment where the right-hand side may jump or kink."""
        start, stop = self.span(experiment)
        found = {*self.model.breaks(self.experiments[experiment].signals), *self._fixed_switches(experiment)}
        return tuple(b for b in sorted(found) if start < b < stop)

    def _fixed_switches(self, experiment: int) -> tuple[float, ...]:
        """Times at which conditions on time and fixed parameters switch the right-hand side."""
        values = [self.parameters[name].fixed for name in self.model.parameters]
        given = (nan if value is None else value for value in values)
        return self.model.switch_times(given, self.experiments[experiment].signals, self.span(experiment))

    def input_breaks(self, experiment: int) -> tuple[float, ...]:
        """Times inside an experiment where an input may jump or kink."""
        start, stop = self.span(experiment)
        signals = self.experiments[experiment].signals
        found = {b for name in self.model.inputs for b in signals[name].breakpoints}
        return tuple(sorted(b for b in found if start < b < stop))

    def breaks(self, experiment: int) -> tuple[float, ...]:
        """Times inside an experiment where the right-hand side may jump or kink, or the states jump."""
        found, jumps = self.signal_breaks(experiment), self.jumps[experiment]
        if jumps is None:
            return found
        start, stop = self.span(experiment)
        return tuple(sorted({*found, *(t for t in jumps.times.tolist() if start < t < stop)}))

    def events(self, experiment: int) -> tuple[tuple[float, ...], Jumps | None]:
        """Breaks and jumps of an experiment, as a `Run` of the solved model takes them."""
        return self.breaks(experiment), self.jumps[experiment]

    def knots(self, experiment: int) -> tuple[float, ...]:
        """Times inside an experiment that segments must not contain: its breaks, and samples of increments."""
        if self.increments is None:
            return self.breaks(experiment)
        return tuple(
            sorted({*self.breaks(experiment), *np.concatenate(self.increments.resets[experiment]).tolist()})
        )

    @cached_property
    def increments(self) -> IncrementSamples | None:
        """The samples of increments, if the model has any."""
        return increment_samples(self.model, self.experiments)

    @cached_property
    def before_knots(self) -> np.ndarray | None:
        """(samples,) bool: those that show the states before a knot at their time; None without increments.

        An increment does, for its running state is set back there; a sample at the time of a dose shows the states
        after it.
        """
        if self.increments is None:
            return None
        return ~self.samples_at_doses | self.sampled[:, increment_columns(self.model)].any(axis=1)

    @property
    def samples_at_doses(self) -> np.ndarray:
        """(samples,) bool: those at the time of a dose or reset."""
        times = [np.zeros(0) if jumps is None else jumps.times for jumps in self.jumps]
        return np.concatenate(
            [np.isin(one.times, at) for one, at in zip(self.experiments, times, strict=True)]
        )

    def since_last_sample(self, states: np.ndarray, axis: int = 0) -> np.ndarray:
        """States of the solved model at the samples, running ones since the last sample (`IncrementSamples`)."""
        return states if self.increments is None else self.increments.since_last_sample(states, axis)

    @cached_property
    def sampled(self) -> np.ndarray:
        """(samples, observables) bool: where something was measured, or will be."""
        return sampled_cells(self.model, self.experiments)

    def as_measured(self, outputs: np.ndarray) -> np.ndarray:
        """The measurements (samples, observables) that are nearest to outputs: counts are whole numbers."""
        return nearest_measurements(
            self.samples, () if self.scatter is None else self.scatter.columns, outputs
        )

    def inputs_at(self, experiment: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The inputs (k, ..., inputs) at times (k, ...), of which the i-th belong to experiment[i]."""
        names = self.solved_model.inputs
        values = np.empty((*times.shape, len(names)))
        if not names:
            return values
        for e, mine in runs(experiment):
            values[mine] = self.experiments[e].inputs_at(names, times[mine])
        return values

    def check_inputs(self) -> None:
        """InputError when an input is not finite somewhere in its experiment, or oscillates too fast."""
        _ = self._inputs_are_sound

    @cached_property
    def _inputs_are_sound(self) -> bool:
        """True, or an InputError; checked once, because formulas of large models take long to search."""
        for one in self.experiments:
            one.check_inputs(self.model.inputs)
        rates = self.model.rhs.expressions if isinstance(self.model.rhs, BatchedMap) else ()
        bounds = {name: one.range for name, one in self.parameters.items()}
        longest = max(self.experiments, key=lambda one: float(one.times[-1]) - one.t0)
        check_oscillations(rates, longest.t0, float(longest.times[-1]), bounds)
        return True

    def mean_loss(self, value: float) -> float:
        """The objective as it is reported: the paper's L_ls, divided by the number of sampling instants N_s.

        With a noise model: the negative log-likelihood with the priors, as it is.
        """
        return value / len(self.samples.times) if self.scatter is None else value

    def loss(
        self,
        parameters: Mapping[str, object],
        initial: Mapping[str, object] | None = None,
        engine: CVODE | None = None,
    ) -> float:
        """The paper's L_ls at given values, by independent integration; inf if there is no solution.

        `parameters`: {"a": 1.0}, a local one also {"a": {"pond 1": 1.0}}; `initial`: {"prey": 1.0} for all
        experiments or {"pond 1": {"prey": 1.0}}. What the problem fixes may be left out. `engine`: pf.CVODE(), an
        integrator of another package.
        """
        levels = () if self.scatter is None else tuple(self.scatter.parameters)
        outputs = self._predicted(unknowns_from(self, parameters, initial, optional=levels), engine)
        if outputs is None or not np.isfinite(g := outputs[:, : len(self.model.observables)]).all():
            return inf
        return self.least_squares.value(g) / len(self.samples.times)

    def nllh(
        self,
        parameters: Mapping[str, object],
        initial: Mapping[str, object] | None = None,
        engine: CVODE | None = None,
    ) -> float:
        """Negative log-likelihood of the data at given values, by independent integration; priors left out.

        Values and engine as for `loss`, estimated noise levels among the parameters. Without a noise model: normal
        noise with the one variance for all measurements that makes it smallest.
        """
        rows = self._predicted(unknowns_from(self, parameters, initial), engine)
        value = inf if rows is None else self.objective.nllh(rows)
        return value if np.isfinite(value) or value == -inf else inf

    def to_petab(
        self,
        folder: str | Path,
        parameters: Mapping[str, object] | None = None,
        initial: Mapping[str, object] | None = None,
    ) -> Path:
        """Write the problem as PEtab version 2 (model, tables) into a folder; the path of its YAML file.

        `parameters`, `initial`: the nominal values, as for `loss`; by default those of the problem, and where it has
        none the starts or the middle of the bounds. What PEtab cannot say is refused by name.
        """
        values = (self.nominal or {}) if parameters is None else parameters
        unknowns = unknowns_from(self, values, initial, missing="nan")
        return Path(handed_on("write_petab")(self, folder, unknowns))

    def marginal_objective(
        self, parameters: Mapping[str, object], covariance: object, marginal: object = None
    ) -> float:
        """NONMEM's objective of a problem with random effects at given values: -2 log L - n log(2 pi).

        `parameters`: typical values and noise levels; `covariance`: of the random effects, {"ka": 0.04} or a DataFrame.
        `marginal`: how the integral over the random effects is approximated, by default pf.FOCEI().
        """
        return float(handed_on("marginal_objective")(self, parameters, covariance, marginal))

    def _predicted(self, unknowns: np.ndarray, engine: CVODE | None = None) -> np.ndarray | None:
        """Rows (samples, rows) by independent integration, or None."""
        self.check_inputs()
        if engine is not None:
            engine.check()
        params, initial = self.layout.measured_values(unknowns), self.layout.initial(unknowns)[0]
        return self.predicted_rows(params, initial, integration=Integration(engine=engine))

    def predicted_rows(
        self,
        parameters: np.ndarray,
        initial: np.ndarray,
        rtol: float = 1e-10,
        integration: Integration | None = None,
    ) -> np.ndarray | None:
        """Rows (samples, rows), observables first, in the order of `samples`; None if a run fails.

        An observable needs a value only where it is sampled; where it has none elsewhere, it is 0.

        They come from integrators that are independent of the Picard operator. `parameters`: (experiments, parameters
        of model and noise); `initial`: (experiments, states).
        """
        model, own = self.solved_model, len(self.model.parameters)
        if self.timed is not None:  # integrators know the time and need no modes
            model, initial = self.model, initial[:, : len(self.model.states)]
        tasks = [
            Run(
                one.t0,
                initial[e],
                parameters[e, :own],
                one.signals,
                one.times,
                self.breaks(e),
                self.jumps[e] if self.timed is None else self.own_jumps(e),
                sizes=self.state_sizes[e, : len(model.states)],
                begun=one.rest is not None,
            )
            for e, one in enumerate(self.experiments)
        ]
        rows, solved = [], trajectories(model, tasks, rtol, None, integration or Integration())
        found = [states for states in solved if states is not None]
        if len(found) < len(tasks):
            return None
        parts = np.split(
            self.since_last_sample(np.concatenate(found)), np.cumsum([len(x) for x in found])[:-1]
        )
        sampled = np.split(self.sampled, np.cumsum([len(run.times) for run in tasks])[:-1])
        for run, states, params, cells in zip(tasks, parts, parameters, sampled, strict=True):
            inputs = values_at(run.inputs, model.inputs, run.times)
            measured = sampled_rows(self._own_measurement, cells)
            rows.append(measured.value(run.times, states, params, inputs))
        outputs = np.concatenate(rows)
        return outputs if np.isfinite(outputs[:, : len(model.observables)]).all() else None

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
            raise InputError("problem.sd_missing" if sd is None else "problem.sd_with_noise")
        if not isinstance(parameters, np.ndarray):
            parameters = unknowns_from(self, parameters, initial)
        rows = self._predicted(parameters)
        if rows is None:
            raise InputError("problem.no_solution")
        if self.scatter is not None:
            self.scatter.check_means(rows, self.sampled)
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
        return self.with_data(self.objective.sample(rows, rng, 1.0 if sd is None else sd))

    def with_experiments(self, experiments: Sequence[Experiment]) -> Problem:
        """The same problem with other experiments."""
        return replace(self, experiments=tuple(experiments))

    def with_data(self, data: np.ndarray) -> Problem:
        """The same problem with other data (samples, observables) in the order of `samples`, as they are measured.

        They are censored where these are, or would be. Where numbers of trials are not known yet, they are the median.
        """
        renewed, known = [], self.samples.censoring
        limits = None if known is None else known.applied(data)
        for e, one in enumerate(self.experiments):
            mine, columns = self.samples.experiment == e, dict(one.observations)
            for k, name in enumerate(self.model.observables):
                if name in columns:
                    lost = lost_values(columns[name])
                    columns[name] = as_given(data[mine, k], None if limits is None else limits[mine, k])
                    if lost.any():
                        columns[name] = np.where(lost, "?", columns[name].astype(object))
            for name in () if self.scatter is None else self.scatter.trials_columns:
                columns.setdefault(name, np.full(int(mine.sum()), typical_trials(self.experiments, name)))
            planned = one.planned if np.isnan(data[mine]).all() else None
            renewed.append(replace(one, observations=columns, planned=planned))
        return self.with_experiments(renewed)


def _typical(parameter: Parameter) -> float:
    """A value between the bounds: the start, the fixed value, or the middle."""
    if parameter.fixed is not None:
        return parameter.fixed
    if parameter.start is not None:
        return parameter.start
    low, high = parameter.bounds
    if np.isfinite(low) and np.isfinite(high):
        return (low + high) / 2
    return low + 1.0 if np.isfinite(low) else high - 1.0 if np.isfinite(high) else 1.0


@dataclass(frozen=True)
class Scheduled:
    """What happens at a knot whose time may move: events, or a dose or break at a fixed time."""

    knot: float  # where the mesh has it
    events: tuple[int, ...]  # that fire there, in order; the trigger of the first one decides when
    at: float | None = None  # the time of a dose or break
    before: int = 0  # samples of the experiment that show the states before it


Schedule = tuple[tuple[Scheduled, ...], ...]  # of each experiment, in order of time


@dataclass(frozen=True)
class Start:
    """Where a search begins: unknowns in internal coordinates and a table of guessed states per experiment."""

    unknowns: np.ndarray  # (experiments, width)
    tables: tuple[tuple[np.ndarray, np.ndarray], ...]  # (times (k,), states (k, states)) per experiment
    positive: np.ndarray  # (states,) bool: begins positive and can neither reach nor cross zero
    schedule: Schedule = ()  # what happens when, for problems with events

    def states(self, times: np.ndarray, experiment: int) -> np.ndarray:
        """Guessed states at given times, running ones since t0: (times, states)."""
        grid, values = self.tables[experiment]
        return np.stack([np.interp(times, grid, column) for column in values.T], axis=1)

    def at_samples(self, problem: Problem) -> np.ndarray:
        """Guessed states at the sampling instants: (samples, states)."""
        every = [self.states(one.times, e) for e, one in enumerate(problem.experiments)]
        return problem.since_last_sample(np.concatenate(every))

    def at_knots(self, problem: Problem, knots: Sequence[np.ndarray]) -> np.ndarray:
        """Guessed states at the starts of segments between the knots of each experiment: (segments, states)."""
        curves = [partial(self.states, experiment=e) for e in range(len(knots))]
        if problem.increments is None:
            return np.concatenate([curve(k[:-1]) for curve, k in zip(curves, knots, strict=True)])
        restarted = problem.increments.restarted
        return np.concatenate([restarted(e, k[:-1], curves[e]) for e, k in enumerate(knots)])
