"""`picardfit fit` of a problem with random effects: what it prints and the files it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.cli.common import console, csv_text, print_table
from picardfit.errors import Audience
from picardfit.whole_files import make_folder, write_text

if TYPE_CHECKING:
    from picardfit.inference.population.answer import PopulationFit

COLUMNS = ("name", "estimate", "standard_error", "lower", "upper", "unit", "remark")


def show_population(fit: PopulationFit, level: float = 0.95) -> None:
    """Print typical values and spreads, and how the search ended."""
    from picardfit.display.population_text import (
        SPREAD_HEADER,
        TYPICAL_HEADER,
        correlation_lines,
        likelihood_lines,
        search_lines,
        spread_rows,
        typical_rows,
    )

    out = console()
    out.print()
    if fit.optimum is not None:
        ends = f"{100 * level:g} % from"
        typical = [ends if one == "95 % from" else one for one in TYPICAL_HEADER]
        spread = [ends if one == "95 % from" else one for one in SPREAD_HEADER]
        print_table(out, typical, typical_rows(fit, level), numeric=(1, 2, 3, 4))
        out.print()
        print_table(out, spread, spread_rows(fit, level), numeric=(1, 2, 3, 4, 5))
        for line in correlation_lines(fit, level):
            out.print(line, markup=False)
        out.print()
    out.print(fit.conclusion.sentence(Audience.COMMAND), markup=False)
    if fit.optimum is not None:
        for line in (*likelihood_lines(fit), *search_lines(fit)):
            out.print(line, markup=False)
    out.print()


def population_record(
    fit: PopulationFit, level: float, title: str, written: Sequence[Path]
) -> dict[str, object]:
    """The fit as JSON, with its title and the files that were written."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in _rows(fit, level)]
    found = None if fit.optimum is None else fit.population
    return {
        "success": fit.success,
        "status": fit.status.name,
        "message": fit.conclusion.sentence(Audience.COMMAND),
        "marginal": fit.marginal.name,
        "objective": None if found is None else found.objective,
        "nllh": fit.nllh,
        "aic": fit.aic,
        "bic": fit.bic,
        "iterations": fit.iterations,
        "seconds": fit.seconds,
        "level": level,
        "estimates": {str(row.pop("name")): row for row in rows},
        "covariance": None if found is None else found.covariance.to_dict(),
        "shrinkage": None if found is None else found.shrinkage.to_dict(),
        "title": title,
        "files": [str(path) for path in written],
    }


def write_population(
    fit: PopulationFit, folder: Path, report: bool = True, level: float = 0.95, title: str = "Report"
) -> Iterator[Path]:
    """Write fit.json, parameters.csv, individuals.csv, predictions.csv and report.html, each when it is asked for."""
    make_folder(folder)
    yield fit.save(folder / "fit.json")
    yield write_text(folder / "parameters.csv", csv_text(COLUMNS, _rows(fit, level)))
    if fit.optimum is None:
        return
    yield write_text(folder / "individuals.csv", csv_text(*_individuals(fit)))
    yield write_text(folder / "predictions.csv", csv_text(*_predictions(fit)))
    if report:
        yield fit.report(folder / "report.html", title)


def _rows(fit: PopulationFit, level: float) -> list[tuple[object, ...]]:
    """Parameters, then spreads sd(...), then derived quantities, under COLUMNS."""
    errors, ends = fit.errors(), fit.intervals(level)
    rows: list[tuple[object, ...]] = []
    for name, value in fit.parameters.items():
        one = fit.problem.parameters[name]
        remark = "fixed" if one.fixed is not None else "typical value" if one.random else ""
        rows.append((name, value, errors.get(name), *ends.get(name, (None, None)), one.unit, remark))
    spreads = {} if fit.optimum is None else fit.population.spreads
    for name, spread in spreads.items():
        label = f"sd({name})"
        rows.append(
            (
                label,
                spread.sd,
                errors[label],
                *ends[label],
                "",
                "" if spread.state == "estimated" else spread.state,
            )
        )
    for name, derived in fit.derived.items():
        ends_of = derived.interval(level)
        rows.append((name, derived.value, derived.standard_error, *ends_of, derived.unit, "derived"))
    return rows


def _individuals(fit: PopulationFit) -> tuple[list[str], list[list[object]]]:
    """The random parameters of each individual with their conditional standard deviations."""
    values, errors = fit.population.individuals, fit.population.individual_errors
    header = ["individual", *(one for name in values for one in (name, f"{name}_sd"))]
    rows: list[list[object]] = []
    for name in values.index:
        cells = [cell for one in values for cell in (values.loc[name, one], errors.loc[name, one])]
        rows.append([name, *map(float, cells)])
    return header, rows


def _predictions(fit: PopulationFit) -> tuple[list[str], list[list[object]]]:
    """Observables of every individual at its samples: measured, by its own and by the typical parameters."""
    names = fit.problem.model.observables
    rows: list[list[object]] = []
    for one in fit.problem.experiments:
        own, typical = fit.predict(one.name, one.times), fit.predict(one.name, one.times, typical=True)
        measured = {name: one.values[:, k] for k, name in enumerate(one.observables)}
        for k, time in enumerate(one.times.tolist()):
            cells = [
                float(source[name][k]) if name in source else float("nan")
                for name in names
                for source in (measured, own, typical)
            ]
            rows.append([one.name, time, *cells])
    header = [f"{name}{end}" for name in names for end in ("_measured", "_individual", "_typical")]
    return ["individual", "time", *header], rows
