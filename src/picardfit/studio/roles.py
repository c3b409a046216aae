"""What the columns of a table mean: by the problem file and by their names, and how a person changes that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from picardfit.errors import InputError
from picardfit.files.measured_columns import OBSERVABLE_NAMES, VALUE_NAMES
from picardfit.files.raw_tables import RawTable
from picardfit.files.sections.experiments import NONMEM
from picardfit.files.tables import EXPERIMENT_NAMES
from picardfit.files.time_column import time_column
from picardfit.problem.columns import find_name, plain_name
from picardfit.studio import document
from picardfit.studio.sheet import Role, Sheet

USUAL_EXPERIMENTS = ("subject", "patient", "individual", "animal", "run", "replicate", "id")


def roles_of(
    sheet: Sheet, text: str, observables: Sequence[str] | None = None, number: int = 0
) -> dict[str, Role]:
    """What each column of a data file means, by the problem file and by its name.

    `observables`: those of the model where they are known; `number`: the place of the data file in their list.
    """
    spec, top = document.data_of(text, number), replace(sheet, rows=sheet.rows[:50]).raw
    if is_nonmem(spec):
        return _nonmem_roles(sheet, spec)
    found = _measured(sheet, top, spec.get("observables"), observables)
    group = next(filter(None, (find_name(sheet.header, one) for one in EXPERIMENT_NAMES)), None)
    covariates = [*(document.value_at(text, "covariates") or []), *(spec.get("covariates") or [])]
    named = [
        (Role.TIME, spec.get("time") or _time_column(top)),
        (Role.EXPERIMENT, spec.get("experiment") or group),
    ]
    named += [(Role.COVARIATE, one) for one in covariates]
    named += [(Role.INPUT, one) for one in _input_columns(text)]
    named += [(Role.DOSE, document.dose_of(spec).get("column"))]
    for role, name in named:
        column = None if name is None else find_name(sheet.header, str(name))
        if column is not None:
            found[column] = role
    return found


def usual_experiment(sheet: Sheet) -> str | None:
    """The column that tells experiments apart by a usual name, with texts or with numbers that repeat.

    None where a column has the name that all readers know, or the columns are those of NONMEM.
    """
    top = replace(sheet, rows=sheet.rows[:1000]).raw
    if any(find_name(sheet.header, one) for one in (*EXPERIMENT_NAMES, "EVID", "DV")):
        return None
    for column in filter(None, (find_name(sheet.header, one) for one in USUAL_EXPERIMENTS)):
        cells = [row[sheet.header.index(column)] for row in sheet.rows[:1000]]
        if "" not in cells and (top.holds_names(column) or len(set(cells)) < len(cells)):
            return column
    return None


def is_nonmem(spec: Mapping[str, object]) -> bool:
    """Whether a data file is a table of NONMEM, whose columns mean what they are called."""
    return "doses" in spec or spec.get("format") == NONMEM


def _nonmem_roles(sheet: Sheet, spec: Mapping[str, object]) -> dict[str, Role]:
    fixed = {"ID": Role.EXPERIMENT, "TIME": Role.TIME, "DV": Role.MEASURED, "AMT": Role.DOSE}
    listed = spec.get("covariates")
    covariates = listed if isinstance(listed, list) else []
    return {
        column: Role.COVARIATE if column in covariates else fixed.get(column.upper(), Role.IGNORED)
        for column in sheet.header
    }


def _measured(
    sheet: Sheet, top: RawTable, listed: object, observables: Sequence[str] | None
) -> dict[str, Role]:
    """Which columns are measured: those listed, or else those of the model, or else those that hold numbers."""
    header = sheet.header
    if sheet.is_long:
        long = [find_name(header, one) for one in (*OBSERVABLE_NAMES, *VALUE_NAMES)]
        chosen = [column for column in header if column in long]
    elif isinstance(listed, list):
        wanted = {plain_name(str(one)) for one in listed}
        chosen = [column for column in header if plain_name(column) in wanted]
    else:
        chosen = [column for column in header if not top.holds_names(column)]
        known = {plain_name(one) for one in observables or ()}
        own = [column for column in chosen if plain_name(column) in known]
        chosen = own or chosen
    return {column: Role.MEASURED if column in chosen else Role.IGNORED for column in header}


def measurable(sheet: Sheet, text: str, number: int = 0) -> list[str]:
    """The columns that hold measurements, or would if the model knew them."""
    roles = roles_of(sheet, text, number=number)
    return [column for column in sheet.header if roles[column] is Role.MEASURED]


def _time_column(table: RawTable) -> str | None:
    try:
        return time_column(table)
    except InputError:
        return None


def _input_columns(text: str) -> list[str]:
    given = document.value_at(text, "inputs")
    if isinstance(given, list):
        return [str(one) for one in given]
    tables = given.values() if isinstance(given, Mapping) else ()
    return [str(one["column"]) for one in tables if isinstance(one, Mapping) and "column" in one]


def _names(sheet: Sheet, roles: Mapping[str, Role], experiment: str) -> set[str]:
    """The experiments of a table."""
    group = next((k for k, c in enumerate(sheet.header) if roles.get(c) is Role.EXPERIMENT), None)
    return {experiment} if group is None else {row[group] for row in sheet.rows}


def _experiment(sheet: Sheet, spec: Mapping[str, object]) -> str:
    """The name of the only experiment of a table without a column for it."""
    return str(spec.get("name") or Path(sheet.name).stem)


def with_role(
    sheet: Sheet,
    text: str,
    column: str,
    role: Role,
    into: str = "",
    number: int = 0,
    observables: Sequence[str] | None = None,
) -> str:
    """The problem file in which a column of a data file means something else.

    `into`: the state that doses go into; `observables`: those of the model where they are known. A column that is said
    to be measured is listed, so that the model must know it.
    """
    before = roles_of(sheet, text, observables, number)
    after = {**before, column: role}
    if role in (Role.TIME, Role.EXPERIMENT, Role.DOSE):  # there is one of each
        after |= {c: Role.IGNORED for c, one in before.items() if one is role and c != column}

    def columns(kind: Role) -> list[str]:
        return [c for c in sheet.header if after[c] is kind]

    text = document.with_data(text, number, time=next(iter(columns(Role.TIME)), None))
    group = next(iter(columns(Role.EXPERIMENT)), None)
    text = document.with_data(text, number, experiment=None if group == "experiment" else group)
    text = _with_covariates(sheet, text, columns(Role.COVARIATE), number)
    text = document.with_inputs(text, columns(Role.INPUT), sheet.header)
    text = _with_dose(sheet, text, after, into, number)
    if not sheet.is_long:
        measured = columns(Role.MEASURED)
        bare = document.with_data(text, number, observables=None)
        plain = roles_of(sheet, bare, observables, number)
        usual = [c for c, one in plain.items() if one is Role.MEASURED]
        text = document.with_data(text, number, observables=None if measured == usual else measured)
    return text


def _with_dose(sheet: Sheet, text: str, roles: Mapping[str, Role], into: str, number: int) -> str:
    """Make the doses of a column those of its experiments, in the place of others that the file gives them."""
    spec = document.data_of(text, number)
    column = next((c for c in sheet.header if roles[c] is Role.DOSE), None)
    now = document.dose_of(spec)
    if column is None:
        return document.with_data(text, number, dose=None) if now else text
    if now.get("column") != column:
        text = document.without_doses(text, _names(sheet, roles, _experiment(sheet, spec)))
    wanted = {"column": column, "into": into or now.get("into", "")}
    return text if now == wanted else document.with_data(text, number, dose=wanted)


def _with_covariates(sheet: Sheet, text: str, columns: list[str], number: int) -> str:
    """Make exactly these columns of a data file covariates; those of other files stay."""
    common = document.value_at(text, "covariates")
    if not isinstance(common, list) or len(document.data_files(text)) < 2:
        text = document.with_value(text, ("covariates",), None) if common is not None else text
        return document.with_data(text, number, covariates=columns or None)
    others = [one for one in common if find_name(sheet.header, str(one)) is None]
    return document.with_value(text, ("covariates",), [*others, *columns] or None)
