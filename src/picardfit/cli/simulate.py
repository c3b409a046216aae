"""`picardfit simulate`: data that the model predicts, to plan a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import HERE, ProblemPath, assignments, complaints, csv_text
from picardfit.cli.times import TimesText
from picardfit.errors import InputError, closest

if TYPE_CHECKING:
    import numpy as np

    from picardfit.files.problem_file import ProblemFile
    from picardfit.files.sections.experiments import Condition
    from picardfit.model.scatter import Scatter
    from picardfit.problem.calendar import Calendar
    from picardfit.problem.experiment import Experiment
    from picardfit.simulation.simulate import Simulation

ALL_DIGITS = 17  # significant digits that identify every double
PLAN = "plan"  # the experiment of a file without data and experiments


def simulate(
    problem: ProblemPath = HERE,
    times: Annotated[
        str | None,
        typer.Option(
            help="Sampling times: from:to:count (a whole number), from:to:step (0:20:0.5), or a list 0,1,2; dates "
            "where the data have dates. By default those of the data."
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="The value of a parameter or initial state, as in --set birth=0.5 or --set hare=30.",
        ),
    ] = None,
    fitted: Annotated[
        Path | None, typer.Option("--fit", help="Take the values from a saved fit.json.")
    ] = None,
    additive: Annotated[float, typer.Option(min=0, help="Standard deviation of additive noise.")] = 0.0,
    proportional: Annotated[
        float, typer.Option(min=0, help="Standard deviation of proportional noise.")
    ] = 0.0,
    own_noise: Annotated[
        bool,
        typer.Option(
            "--noise",
            help="Add the noise that the problem file declares; unknown noise levels come from --set.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise.")] = 0,
    states: Annotated[
        bool, typer.Option("--states", help="Also write states that are not observed.")
    ] = False,
    digits: Annotated[
        int, typer.Option(min=1, max=ALL_DIGITS, help="Significant digits of the simulated measurements.")
    ] = ALL_DIGITS,
    out: Annotated[
        Path | None, typer.Option(help="The CSV file to write. By default the table goes to standard output.")
    ] = None,
) -> None:
    """Simulate every experiment and write a table, with noise on request; data are not needed.

    A value comes from --set, --fit, the truth section of the file, its fixed value or its start, in this order.
    """
    with complaints():
        from picardfit.files.problem_file import read_problem_file
        from picardfit.whole_files import write_text

        file = read_problem_file(problem, needs_data=False)
        scatter = _scatter(file, additive, proportional) if own_noise else None
        chosen = _values(file, assignments(values or [], "--set"), fitted, scatter)
        study = _Study(file, chosen, scatter, additive, proportional)
        header, rows = _table(study, None if times is None else TimesText(times), seed, states)
        if digits < ALL_DIGITS:
            rows = [[name, time, *(float(f"{one:.{digits}g}") for one in row)] for name, time, *row in rows]
        text = csv_text(header, rows)
        if out is None:
            typer.echo(text, nl=False)
        else:
            typer.echo(f"written to {write_text(out, text)}")


def _scatter(file: ProblemFile, additive: float, proportional: float) -> Scatter:
    """The noise of the file, bound to its model."""
    from picardfit.model.scatter import bind

    if additive or proportional:
        raise InputError("cli.two_noises")
    if file.noise is None:
        raise InputError("cli.no_noise", str(file.path))
    return bind(file.noise, file.model)


@dataclass(frozen=True)
class _Study:
    """What to simulate: a problem file, values by name or name[experiment], and the noise to add."""

    file: ProblemFile
    values: dict[str, float]
    scatter: Scatter | None  # the noise of the file; None: additive and proportional
    additive: float
    proportional: float

    def value(self, name: str, experiment: str) -> float:
        """The value of a parameter in an experiment: given, true, fixed or the start, in this order."""
        spec = self.file.parameters.get(name)
        known = (self._given(name, experiment), getattr(spec, "fixed", None), getattr(spec, "start", None))
        for found in known:
            if found is not None:
                return found
        raise InputError("cli.no_value", name, kind="parameter", experiment=experiment)

    def initial(self, condition: Condition, name: str, experiment: str) -> float:
        """The initial value of a state: given, true, or known from the file (a formula is computed)."""
        from picardfit.checks import as_number, is_number
        from picardfit.model.parameters import Parameter

        given = self._given(name, experiment)
        if given is not None:
            return given
        spec = condition.initial.get(name, self.file.initial.get(name))
        if isinstance(spec, str):
            return self._formula(spec, experiment, condition.covariates)
        if is_number(spec):
            return as_number(spec, "initial value", name)
        if isinstance(spec, Parameter) and spec.start is not None:
            return spec.start
        raise InputError("cli.no_value", name, kind="initial state of", experiment=experiment)

    def _given(self, name: str, experiment: str) -> float | None:
        return self.values.get(f"{name}[{experiment}]", self.values.get(name))

    def _formula(self, text: str, experiment: str, covariates: Mapping[str, float]) -> float:
        import numpy as np

        from picardfit.formulas.grammar import names_in_order, parse
        from picardfit.formulas.kernels import BatchedMap

        names, nothing = names_in_order(text), np.empty(0)
        numbers = np.array([covariates[n] if n in covariates else self.value(n, experiment) for n in names])
        return float(
            BatchedMap([parse(text)], (), names, ()).value(np.array(0.0), nothing, numbers, nothing)[0]
        )


def _table(
    study: _Study, times: TimesText | None, seed: int, states: bool
) -> tuple[list[str], list[list[object]]]:
    """Header and rows of the simulated measurements of every experiment."""
    import numpy as np

    model, rng = study.file.model, np.random.default_rng(seed)
    hidden = [name for name in model.states if name not in model.observables] if states else []
    rows: list[list[object]] = []
    calendars = _calendars(study.file)
    for name, (condition, own_times) in _conditions(study.file).items():
        wanted = own_times if times is None else times.of(calendars.get(name))
        if wanted is None or len(wanted) == 0:
            raise InputError("cli.no_times")
        found, measured = _experiment(study, name, condition, wanted, rng)
        table = np.concatenate([measured, *(found.states[n][:, None] for n in hidden)], axis=1).tolist()
        calendar = calendars.get(name)
        when = found.times.tolist() if calendar is None else calendar.texts(found.times, exact=True)
        rows += [[name, time, *row] for time, row in zip(when, table, strict=True)]
    return ["experiment", "date" if calendars else "time", *model.observables, *hidden], rows


def _experiment(
    study: _Study, name: str, condition: Condition, times: np.ndarray, rng: np.random.Generator
) -> tuple[Simulation, np.ndarray]:
    """The solution of one experiment, and its measurements (times, observables) with noise."""
    import numpy as np

    from picardfit.files.sections.experiments import planned_time
    from picardfit.model.doses import jumps_of
    from picardfit.simulation.simulate import default_t0, measured_rows, noisy
    from picardfit.simulation.simulate import simulate as solve
    from picardfit.simulation.trajectories import Run

    file, scatter, model = study.file, study.scatter, study.file.model
    parameters = {p: study.value(p, name) for p in model.parameters}
    initial = {s: study.initial(condition, s, name) for s in model.states}
    with file.locating("experiments", name):
        t0 = planned_time(name, replace(condition, initial=initial), times, ())
    found = solve(
        model,
        parameters,
        initial,
        times,
        condition.inputs,
        t0,
        doses=condition.doses,
        covariates=condition.covariates,
        resets=condition.resets,
    )
    if scatter is None:
        exact = np.stack([found.observables[n] for n in model.observables], axis=-1)
        return found, noisy(rng, exact, study.additive, study.proportional)
    names = (*model.parameters, *scatter.names, *scatter.parameters)
    every = np.array([study.value(p, name) for p in names])
    path = np.stack([found.states[n] for n in model.states], axis=-1)
    again = np.array(condition.resets, float)
    start = default_t0(float(min(times)), condition.doses, again) if t0 is None else t0
    begin = np.array([initial[n] for n in model.states])
    jumps = jumps_of(model.states, condition.doses, again, begin)
    begin = begin if jumps is None else jumps.at(start, begin)
    run = Run(start, begin, every[: len(model.parameters)], condition.signals, found.times, ())
    return found, scatter.draw(measured_rows(model, scatter, run, path, names, every), rng)


def _conditions(file: ProblemFile) -> dict[str, tuple[Condition, np.ndarray | None]]:
    """Every experiment with its inputs, known initial values and times."""
    import numpy as np

    from picardfit.files.sections.experiments import Condition

    if file.problem is not None:
        return {one.name: (_condition(one), np.unique(one.times)) for one in file.problem.experiments}
    common = Condition(file.inputs, {}, file.t0, doses=file.doses)
    planned: dict[str, tuple[Condition, np.ndarray | None]] = {
        name: (one, np.array(one.times)) for name, one in file.conditions.items()
    }
    for name in (file.truth or {}).get("initial", {}):
        planned.setdefault(name, (common, None))
    return planned or {PLAN: (common, None)}


def _condition(one: Experiment) -> Condition:
    """What an experiment of the data says."""
    from picardfit.files.sections.experiments import Condition

    return Condition(
        one.inputs,
        one.initial,
        one.t0,
        doses=one.doses,
        covariates=one.covariates,
        resets=one.resets,
    )


def _calendars(file: ProblemFile) -> dict[str, Calendar]:
    """The calendar of every experiment, where all have one."""
    if file.problem is None:
        return {} if file.calendar is None else dict.fromkeys(_conditions(file), file.calendar)
    known = {one.name: one.calendar for one in file.problem.experiments if one.calendar is not None}
    return known if len(known) == len(file.problem.experiments) else {}


def _values(
    file: ProblemFile, given: dict[str, float], fitted: Path | None, scatter: Scatter | None
) -> dict[str, float]:
    """Values by name or name[experiment], the later ones of truth, fit and command line winning."""
    noise = scatter.parameters if scatter else ()
    known = list(dict.fromkeys([*file.model.parameters, *file.parameters, *file.model.states, *noise]))
    for name in given:
        if name.split("[")[0] not in known:
            raise InputError("cli.unknown_name", name, known=known, close=closest(name, known))
    sources = [] if file.truth is None else [(file.truth["parameters"], file.truth["initial"])]
    if fitted is not None:
        from picardfit.files.fit_file import load

        result = load(fitted)
        single = (
            result.problem.random is None
        )  # typical values of a population; its states are formulas of them
        sources.append((result.parameters, result.initial_states if single else {}))
    values: dict[str, float] = {}
    for parameters, initial in sources:
        values |= parameters
        values |= {f"{state}[{e}]": x for e, states in initial.items() for state, x in states.items()}
    for name in given:  # a value for all experiments wins over the values of some
        values = {key: x for key, x in values.items() if key != name and not key.startswith(f"{name}[")}
    return values | given
