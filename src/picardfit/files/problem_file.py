"""problem.toml -> Problem: model, data, what is known beforehand, and how to fit.

All faults of a file are collected and raised together, each with its line. The keys are those of problem.schema.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from picardfit.errors import Audience, InputError
from picardfit.files.sections.doses import covariate_names, read_doses
from picardfit.files.sections.equations import Inputs, read_model
from picardfit.files.sections.experiments import (
    Condition,
    TableReader,
    read_conditions,
    read_experiments,
    read_t0,
    with_other_data,
)
from picardfit.files.sections.noise import read_noise, trials_columns
from picardfit.files.sections.parameters import read_derived, read_initial, read_parameters
from picardfit.files.sections.random import read_marginal, read_random
from picardfit.files.sections.settings import FitSettings, read_settings, read_truth
from picardfit.files.sections.times import read_time
from picardfit.files.tables import read_experiments_in
from picardfit.files.time_column import TimeSettings
from picardfit.files.toml_source import Source, schema
from picardfit.inference.population.individual_problem import check_population
from picardfit.model.doses import Doses
from picardfit.model.inputs import Input
from picardfit.model.model import Model
from picardfit.model.noise_models import NoiseModel
from picardfit.model.parameters import Parameter
from picardfit.problem.calendar import Calendar
from picardfit.problem.experiment import Experiment, FittingName
from picardfit.problem.named_values import start_values
from picardfit.problem.problem import Problem
from picardfit.whole_files import sound_path

FILE_NAME = "problem.toml"
TABLES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".xls", ".xlsx", ".ods")
MODELS = (".xml", ".sbml", ".ant")  # endings of SBML and Antimony


@dataclass(frozen=True)
class ProblemFile:
    """The content of a problem file; `problem` is None if the file names no data (a plan)."""

    path: Path
    title: str
    model: Model
    parameters: dict[str, Parameter]
    initial: dict[str, object]
    inputs: dict[str, Input]  # those with a value for all experiments
    t0: float | str | date | None  # "first": the first sampling time
    doses: tuple[Doses, ...]  # of all experiments without doses of their own
    noise: NoiseModel | dict[str, NoiseModel] | None
    problem: Problem | None
    settings: FitSettings
    conditions: dict[str, Condition]
    candidates: dict[str, Condition]
    truth: dict[str, dict] | None
    calendar: Calendar | None  # that of a date as the origin of time
    source: Source = field(repr=False)

    @property
    def with_data(self) -> Problem:
        """The problem; an InputError when the file names no data."""
        if self.problem is None:
            raise self.source.located(InputError("files.no_data"))
        return self.problem

    @contextmanager
    def locating(self, *key: str | int) -> Iterator[None]:
        """Give an InputError about the entry `key`, raised inside, the line of that entry."""
        try:
            yield
        except InputError as error:
            raise self.source.located(error, key) from None


def read_problem(path: str | Path) -> Problem:
    """The problem that a problem.toml describes (or the one in a folder); all its faults are one InputError."""
    return read_problem_file(path).with_data


def read_other_data(path: str | Path, data: Sequence[Path]) -> tuple[Experiment, ...]:
    """The experiments in other files, read as those of a problem file, whose inputs, initial states and t0 they get."""
    problem = read_problem_file(path, data=data).with_data
    return problem.experiments


def read_problem_file(
    path: str | Path,
    needs_data: bool = True,
    data: Sequence[Path] | None = None,
    reader: TableReader = read_experiments_in,
) -> ProblemFile:
    """The content of a problem file; without `needs_data`, as for a simulation, it may name no data and no unknowns.

    `data`: files that replace those of the problem file, with the settings of its first one. `reader`: what reads a
    table, for somebody who has read it before.
    """
    path = sound_path(path)
    _check_kind(path)
    source = Source(path / FILE_NAME if path.is_dir() else path)
    content = source.known((), source.content, schema()["properties"])
    if data is not None:
        content = with_other_data(content, data)
    times = read_time(source, content)
    here = _circumstances(source, content, times)
    noise = read_noise(source, content, here.model)
    known = None if here.model is None else (*here.model.observables, *trials_columns(noise))
    experiments = read_experiments(
        source,
        content,
        here.common,
        here.inputs,
        here.conditions,
        known,
        needs_data,
        times,
        data is not None,
        reader,
    )
    parameters = read_parameters(source, content, here.model, here.all_initial)
    truth = read_truth(source, content, here.model, parameters, [one.name for one in experiments])
    beliefs = {"parameters": parameters, "initial": here.initial, "truth": truth, "noise": noise}
    beliefs |= {
        "derived": read_derived(source, content.get("derived")),
        "random": read_random(source, content),
    }
    settings = read_settings(source, content, here.model, parameters)
    settings = replace(settings, marginal=read_marginal(source, content))
    title = source.text(("title",), content.get("title")) or source.path.parent.resolve().name
    if len(title) > (most := FittingName().most):
        source.fault(("title",), "files.long_title", length=len(title), most=most)
    source.text(("description",), content.get("description"))
    source.finish()
    assert here.model is not None  # without a model there are faults
    problem = None
    if experiments:
        problem = _problem(source, here.model, experiments, needs_data, beliefs, settings)
    return ProblemFile(
        path=source.path,
        title=title,
        model=here.model,
        parameters=parameters,
        initial=here.initial,
        inputs=here.inputs.values,
        t0=here.common.t0,
        doses=here.common.doses,
        noise=noise,
        problem=problem,
        settings=settings,
        conditions=here.conditions,
        candidates=here.candidates,
        truth=truth,
        calendar=times.calendar,
        source=source,
    )


@dataclass(frozen=True)
class _Circumstances:
    """The model of a file, and under which conditions experiments were or may be done."""

    model: Model | None
    inputs: Inputs
    initial: dict[str, object]  # of states, and of parameters that formulas of initial states use
    common: Condition  # of all experiments
    conditions: dict[str, Condition]
    candidates: dict[str, Condition]

    @property
    def all_initial(self) -> dict[tuple[str | int, ...], Mapping[str, object]]:
        """Every section of initial states by its key."""
        return {
            ("initial",): self.initial,
            **{("experiments", name, "initial"): one.initial for name, one in self.conditions.items()},
            **{("candidates", name, "initial"): one.initial for name, one in self.candidates.items()},
        }


def _circumstances(source: Source, content: dict[str, Any], times: TimeSettings) -> _Circumstances:
    calendar = times.calendar
    inputs = Inputs.of(source, content, calendar)
    model = read_model(source, content, inputs, times.unit, covariate_names(source, content))
    initial = read_initial(source, ("initial",), content.get("initial"), model)
    t0 = read_t0(source, ("t0",), content.get("t0"), calendar)
    states = initial if model is None else {s: one for s, one in initial.items() if s in model.states}
    doses = read_doses(source, ("doses",), content.get("doses"), calendar)
    common = Condition(inputs.values, states, t0, doses=doses)
    conditions, candidates = (
        read_conditions(source, section, content, common, inputs, model, calendar)
        for section in ("experiments", "candidates")
    )
    return _Circumstances(model, inputs, initial, common, conditions, candidates)


def _check_kind(path: Path) -> None:
    """InputError for a file whose ending shows that it is no problem file."""
    kind, code = path.suffix.lower(), ""
    if kind in (".yaml", ".yml"):
        code = "files.petab_not_toml"
    elif kind in TABLES and path.is_file():
        code = "files.table_not_toml"
    elif kind == ".json" and path.is_file():
        code = "files.json_not_toml"
    elif kind in MODELS and path.is_file():
        code = "files.model_not_toml"
    if code:
        raise InputError(code, str(path), name=path.name).at(file=str(path), audience=Audience.FILE)


def _problem(
    source: Source,
    model: Model,
    experiments: list[Experiment],
    needs_unknowns: bool,
    beliefs: dict[str, Any],
    settings: FitSettings,
) -> Problem | None:
    """The problem, with the starting values of the settings checked; all faults are raised together."""
    problem = _made(source, model, experiments, needs_unknowns, beliefs)
    source.finish()
    source.attempt(("fit", "start"), start_values, problem, settings.start)
    source.attempt(("fit", "start_initial"), start_values, problem, None, settings.start_initial)
    source.finish()
    return problem


def _made(
    source: Source, model: Model, experiments: list[Experiment], needs_unknowns: bool, beliefs: dict[str, Any]
) -> Problem | None:
    try:
        problem = Problem(model, experiments, **beliefs)
        problem.check_inputs()
        if problem.random is not None and needs_unknowns:
            check_population(problem)
    except InputError as error:
        source.complain(error)
        return None
    if needs_unknowns and problem.layout.count() == 0:
        source.fault(("parameters",), "files.all_fixed")
    return problem
