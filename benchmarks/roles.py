"""Four people with raw tables, each from there to a report, a figure, a prediction and an exported model.

    python benchmarks/roles.py [--second] [--only ecologist] [--keep FOLDER] [--seed 1]

An ecologist (dates in a spreadsheet), a pharmacologist (doses, values below a limit) and a control engineer (three
motors, of which the third validates) work on the command line, a neuroscientist (a recording of 10,000 rows) in a
notebook, whose cells count as commands. Nobody may need more than five commands or two minutes of the processor. Tables
are made from known truth (role_tables.py); every estimate must lie within four standard errors of it, what the fit
predicts beyond the data too, and the exported model must agree with the fit. The exit code is 1 if any check fails.

`--second`: four others, on the command line: an epidemiologist (weekly counts, German dates, lost reports), a
biochemist (a plate reader that saturates and errs), a building engineer (a thermostat that switches by itself,
validated on two more days), a forester (decimal commas, years, a top for each of twelve plots).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import picardfit as pf
from role_tables import Study, drug, lakes, motors, neuron
from role_tables_second import plate, room, towns, trees


@dataclass(frozen=True)
class Limits:
    """What a role may take, and how far its numbers may be from the truth."""

    commands: int = 5
    seconds: float = 120.0  # of the processor, of all commands together
    errors: float = 4.0  # standard errors
    export: float = 1e-6  # largest difference, relative to the largest value of an observable
    rows: int = 500  # of a recording over which the exported model is simulated: it stops at each
    report: float = 5.0  # megabytes
    explained: float = 0.9  # least R² of the validation


@dataclass(frozen=True)
class Role:
    """A person: how the raw table is made, and what is typed."""

    make: Callable[[Path, np.random.Generator], Study]
    commands: tuple[str, ...]
    notebook: bool = False


PAPER = "plot . --style print --out figure.pdf"
ROLES = {
    "ecologist": Role(
        lakes,
        (
            "check .",
            "fit .",
            PAPER,
            "predict . --times 2021-09-20:2021-11-01:7 --out prediction.csv --out prediction.png",
            "export results/fit.json --out model.py",
        ),
    ),
    "pharmacologist": Role(
        drug,
        (
            "fit .",
            "profile results/fit.json -p ka",
            PAPER,
            "predict . --times 61:96:36 --out prediction.csv --out prediction.png",
            "export results/fit.json --out model.py",
        ),
    ),
    "neuroscientist": Role(
        neuron,
        (
            "import picardfit as pf; fit = pf.fit(pf.read_problem('.')); fit",
            "fit.save('fit.json'), fit.report('report.html', 'A neuron')",
            "fit.plot('figure.pdf', band=0.95)",
            "bands = fit.predict('recording', range(100, 121), bands=True); bands",
            "fit.export('model.py')",
        ),
        notebook=True,
    ),
    "control engineer": Role(
        motors,
        (
            "fit .",
            "validate . --data third.csv --json",
            PAPER,
            "predict . --times 8:12:41 --out prediction.csv --out prediction.png",
            "export results/fit.json --out model.py",
        ),
    ),
}
EXPORT = "export results/fit.json --out model.py"
SECOND = {
    "epidemiologist": Role(
        towns,
        (
            "check .",
            "fit .",
            PAPER,
            "predict . --times 2024-03-11:2024-05-06:7 --noise --out prediction.csv --out prediction.png",
            EXPORT,
        ),
    ),
    "biochemist": Role(
        plate,
        (
            "fit .",
            "profile results/fit.json -p Ki -p efficiency",
            "plot . --what profiles --style print --out figure.pdf",
            "predict . --times 0:120:61 --out prediction.csv --out prediction.png",
            EXPORT,
        ),
    ),
    "building engineer": Role(
        room,
        (
            "fit .",
            "validate . --data other.tsv --json",
            PAPER,
            "predict . --times 48:60:121 --out prediction.csv --out prediction.png",
            EXPORT,
        ),
    ),
    "forester": Role(
        trees,
        (
            "fit .",
            "plot . --what overlay --out overlay.svg",
            PAPER,
            "predict . --times 2010:2060:51 --out prediction.csv --out prediction.png",
            EXPORT,
        ),
    ),
}


@dataclass(frozen=True)
class Played:
    """What a role took and left in its folder."""

    study: Study
    clock: tuple[float, ...]  # seconds on the clock, of each command
    processor: float  # seconds of the processor, of all
    output: tuple[str, ...]  # of each command

    @property
    def fit(self) -> pf.Fit:
        return pf.load(self._one_of("results/fit.json", "fit.json"))

    @property
    def report(self) -> Path:
        return self._one_of("results/report.html", "report.html")

    def _one_of(self, *names: str) -> Path:
        return next(path for name in names if (path := self.study.folder / name).exists())


def play(role: Role, folder: Path, seed: int) -> Played:
    """Make the raw table in a folder, and work as the person does."""
    study = role.make(folder, np.random.default_rng(seed))
    run = _cells if role.notebook else _commands
    before = _processor()
    clock, output = zip(*run(folder, role.commands), strict=True)
    return Played(study, clock, _processor() - before, output)


def _processor() -> float:
    """Seconds of the processor that ended child processes have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _commands(folder: Path, commands: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Run commands of `picardfit` in a folder, each in a process of its own."""
    for one in commands:
        began = time.perf_counter()
        line = [sys.executable, "-m", "picardfit", *one.split()]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"picardfit {one}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        yield time.perf_counter() - began, done.stdout


def _cells(folder: Path, cells: Sequence[str]) -> Iterator[tuple[float, str]]:
    """Run the cells of a notebook; its kernel starts with the first one."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    client = NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}})
    began = time.perf_counter()
    with client.setup_kernel():
        for index, cell in enumerate(book.cells):
            client.execute_cell(cell, index)
            shown = [dict(one.get("data", {})) for one in cell["outputs"]]
            yield time.perf_counter() - began, "".join(one.get("text/html", "") for one in shown)
            began = time.perf_counter()


# ---- what must be true ---------------------------------------------------------------------------------------------


def failures(played: Played, limits: Limits = Limits()) -> Iterator[str]:
    """What is wrong, in words; nothing if all is well."""
    if len(played.clock) > limits.commands or played.processor > limits.seconds:
        yield f"{len(played.clock)} commands in {played.processor:.0f} s"
    yield from _wrong_numbers(played, limits)
    size = played.report.stat().st_size / 1e6
    if size > limits.report:
        yield f"the report has {size:.1f} MB"
    if not (played.study.folder / "figure.pdf").read_bytes().startswith(b"%PDF"):
        yield "figure.pdf is none"


def _wrong_numbers(played: Played, limits: Limits) -> Iterator[str]:
    """Estimates, predictions and an exported model that are not what they should be."""
    fit, study = played.fit, played.study
    if not fit.success:
        yield fit.message
    far = {f"the estimate of {name}": one for name, one in deviations(fit, study).items()}
    far["a prediction"] = prediction_error(fit, study)
    for what, error in far.items():
        if not abs(error) <= limits.errors:
            yield f"{what} is {error:.1f} standard errors from the truth"
    difference = export_error(fit, study.folder / "model.py", limits.rows)
    if not difference <= limits.export:
        yield f"the exported model differs by {difference:.0e}"
    for name, explained in validated(played).items():
        if not explained >= limits.explained:
            yield f"the validation explains {explained:.2f} of the variation of {name}"


def validated(played: Played) -> dict[str, float]:
    """Observable -> R² of the prediction of data that were not fitted, where the role validates."""
    records = [json.loads(one) for one in played.output if one.startswith("{")]
    return {name: score["r_squared"] for one in records for name, score in one["overall"].items()}


def deviations(fit: pf.Fit, study: Study) -> dict[str, float]:
    """Unknown -> distance of the estimate from the truth, in standard errors."""
    found = {n: (fit.parameters[n] - v) / fit.standard_errors[n] for n, v in study.truth.items()}
    for experiment, states in study.initial.items():
        for state, value in states.items():
            label = f"{state}(0)" + (f"[{experiment}]" if len(fit.problem.names) > 1 else "")
            estimate = fit.initial_states[experiment][state]
            found[label] = (estimate - value) / fit.standard_errors[label]
    return found


def prediction_error(fit: pf.Fit, study: Study) -> float:
    """The largest distance of a prediction after the data from the true curve, in standard errors."""
    worst, model = 0.0, fit.problem.model
    for one in fit.problem.experiments:
        times = one.times[-1] + np.linspace(0.05, 0.2, 5) * (one.times[-1] - one.t0)
        bands = fit.predict(one.name, times, bands=True, level=0.95)
        known = fit.parameters | study.truth
        parameters = {
            n: known[f"{n}[{one.name}]" if f"{n}[{one.name}]" in known else n] for n in model.parameters
        }
        initial = {**fit.initial_states[one.name], **study.initial.get(one.name, {})}
        true = pf.simulate(
            model,
            parameters,
            initial,
            times,
            {n: v for n, v in one.inputs.items() if n in model.signals},
            one.t0,
            doses=one.doses,
            covariates=one.covariates,
        )
        for name in model.observables:
            band = bands[name]
            error = (band.high - band.low) / (2 * 1.96)
            distance = np.abs(true.observables[name] - (band.high + band.low) / 2)
            worst = max(worst, float(np.max(distance / np.maximum(error, 1e-9 * np.abs(band.high).max()))))
    return worst


def export_error(fit: pf.Fit, path: Path, rows: int = Limits.rows) -> float:
    """The largest difference of the exported model from the fit, relative to the largest value of an observable.

    Up to the last sample, or to this row of long recordings.
    """
    spec = importlib.util.spec_from_file_location("exported", path)
    if spec is None or spec.loader is None:
        return np.inf
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    worst = 0.0
    for one in fit.problem.experiments:
        times = np.linspace(one.t0, one.times[: rows + 1][-1], 101)
        ours, theirs = fit.predict(one.name, times), module.simulate(one.name, times)
        for name, values in ours.items():
            worst = max(worst, float(np.abs(theirs[name] - values).max() / np.abs(values).max()))
    return worst


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    given.add_argument("--second", action="store_true", help="four other roles")
    given.add_argument("--only", choices=[*ROLES, *SECOND], action="append")
    given.add_argument("--keep", type=Path, help="a folder that keeps the tables and what was made of them")
    given.add_argument("--seed", type=int, default=1)
    options = given.parse_args()
    rows, wrong = [], []
    every = SECOND if options.second else ROLES
    for name in options.only or every:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) if options.keep is None else options.keep / name
            folder.mkdir(parents=True, exist_ok=True)
            played = play((ROLES | SECOND)[name], folder, options.seed)
            found = list(failures(played))
            wrong += [f"{name}: {one}" for one in found]
            errors = [abs(one) for one in deviations(played.fit, played.study).values()]
            row = {"role": name, "commands": len(played.clock), "processor, s": round(played.processor, 1)}
            row |= {"clock, s": " + ".join(f"{one:.0f}" for one in played.clock)}
            row |= {"largest error of an estimate": f"{max(errors):.1f} s.e. of {len(errors)}"}
            row |= {"of a prediction": f"{prediction_error(played.fit, played.study):.1f} s.e."}
            row |= {"export differs": f"{export_error(played.fit, folder / 'model.py'):.0e}"}
            row |= {"report, MB": round(played.report.stat().st_size / 1e6, 2)}
            rows.append(row)
    print(pd.DataFrame(rows).to_string(index=False))
    print("\n".join(wrong) or "all checks passed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
