"""Reading the folder of a study: the problem file, its tables, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from picardfit.errors import InputError
from picardfit.files.problem_file import FILE_NAME, ProblemFile, read_problem_file
from picardfit.files.sections.doses import covariate_names
from picardfit.files.sections.equations import Inputs, read_model
from picardfit.files.sections.times import read_time
from picardfit.files.time_column import TimeSettings
from picardfit.files.toml_source import ProblemFileError, Source, schema
from picardfit.model.model import Model
from picardfit.studio import document
from picardfit.studio.known_tables import KnownTables
from picardfit.studio.reading import Reading, Table
from picardfit.studio.roles import roles_of
from picardfit.studio.sheet import Role, Series, Sheet, sheet_of
from picardfit.studio.study import Study


def read_folder(study: Study, revision: int, before: Reading | None = None) -> Reading:
    """Read the problem file and its tables; tables that are the same as `before` are not read again."""
    if study.content(FILE_NAME) is None:
        return Reading(revision)
    text, path = study.text, study.path(FILE_NAME)
    file: ProblemFile | None = None
    faults: tuple[InputError, ...] = ()
    known = before.known if before is not None and before.known is not None else KnownTables()
    try:
        _check_files(study, text)
        file = read_problem_file(path, reader=known.experiments)
    except ProblemFileError as error:
        faults = error.faults
    except InputError as error:
        faults = (error,)
    model, times = (file.model, None) if file is not None else _model_alone(path)
    times = _times(path) if times is None else times
    observables = None if model is None else model.observables
    shown = {} if before is None else {one.number: one for one in before.tables}
    found = [
        _table(study, text, number, spec, observables, times, known, shown.get(number))
        for number, spec in enumerate(document.data_files(text))
    ]
    return Reading(revision, file, model, faults, tuple(one for one in found if one is not None), known)


def _check_files(study: Study, text: str) -> None:
    """InputError for a data file outside of the folder: a problem file that somebody sent must not read others."""
    for spec in document.data_files(text):
        name = spec.get("file")
        if isinstance(name, str):
            try:
                study.path(name)
            except InputError as error:
                raise error.at(key=("data",)) from None


def _table(
    study: Study,
    text: str,
    number: int,
    spec: dict[str, Any],
    observables: tuple[str, ...] | None,
    times: TimeSettings,
    known: KnownTables,
    before: Table | None,
) -> Table | None:
    """A table as it is shown; None where its file cannot be read, which the faults of the problem file explain."""
    name = spec.get("file")
    if not isinstance(name, str):
        return None
    try:
        cells = known.cells(study.path(name), spec.get("sheet"))
    except InputError:
        return None
    same = before is not None and before.cells is cells and before.sheet.name == name
    sheet = before.sheet if before is not None and same else sheet_of(cells, name, study.content(name) or b"")
    roles = roles_of(sheet, text, observables, number)
    if before is not None and (before.sheet, before.roles, before.times) == (sheet, roles, times):
        return before
    series, unseen = _series(sheet, roles, times, spec.get("name"))
    if unseen is not None and unseen.place.line is not None:  # counted from the first row of the sheet
        unseen = unseen.at(line=int(cells.numbering[unseen.place.line - 1]))
    return Table(number, sheet, roles, times, series, unseen, cells)


def _series(
    sheet: Sheet, roles: dict[str, Role], times: TimeSettings, name: object
) -> tuple[tuple[Series, ...], InputError | None]:
    """What the table shows, or why that cannot be seen."""
    try:
        return tuple(sheet.series(roles, times, str(name or Path(sheet.name).stem))), None
    except InputError as error:
        return (), error


def _model_alone(path: Path) -> tuple[Model | None, TimeSettings | None]:
    """The model and the settings of time of a file that is wrong elsewhere."""
    try:
        source = Source(path)
        content = source.known((), source.content, schema()["properties"])
        times = read_time(source, content)
        inputs = Inputs.of(source, content, times.calendar)
        return read_model(source, content, inputs, times.unit, covariate_names(source, content)), times
    except InputError:
        return None, None


def _times(path: Path) -> TimeSettings:
    try:
        source = Source(path)
        return read_time(source, source.content)
    except InputError:
        return TimeSettings()
