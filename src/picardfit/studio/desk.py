"""The desk at which all pages of one studio sit: the study, what reading it says, the work that runs, the last fit.

It computes nothing itself. What takes longer than a moment happens in a thread or in a process of its own.
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picardfit.cli.saved import FIT, RESULTS
from picardfit.errors import InputError, Notice
from picardfit.files.problem_file import FILE_NAME, ProblemFile, read_problem_file
from picardfit.files.sections.doses import covariate_names
from picardfit.files.sections.equations import Inputs, read_model
from picardfit.files.sections.times import read_time
from picardfit.files.time_column import TimeSettings
from picardfit.files.toml_source import ProblemFileError, Source, schema
from picardfit.studio import document
from picardfit.studio.job import Job, Phase
from picardfit.studio.settings import DEFAULT, StudioSettings
from picardfit.studio.sheet import Role, Series, Sheet, read_sheet, roles_of
from picardfit.studio.study import Study

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.model.model import Model

EMPTY = ("files.no_data", "files.no_equations", "formulas.no_equations")  # not begun yet, which is no mistake


@dataclass(frozen=True)
class Reading:
    """What reading the folder says."""

    revision: int = -1
    file: ProblemFile | None = None  # None where something is wrong or missing
    model: Model | None = None  # what the equations say, also where other parts of the file are wrong
    faults: tuple[InputError, ...] = ()
    sheet: Sheet | None = None
    roles: dict[str, Role] = field(default_factory=dict)
    times: TimeSettings = field(default_factory=TimeSettings)
    series: tuple[Series, ...] = ()  # what the table shows
    unseen: InputError | None = None  # why it shows nothing
    content: bytes | None = field(default=None, repr=False)  # of the file of the table

    @property
    def mistakes(self) -> tuple[InputError, ...]:
        """Faults that are not just parts that nobody has filled in yet."""
        return tuple(one for one in self.faults if one.code not in EMPTY)

    def about(self, *keys: str) -> list[InputError]:
        """Mistakes in these parts of the problem file."""
        return [one for one in self.mistakes if (one.place.key[:1] or ("",))[0] in keys]

    @property
    def remarks(self) -> tuple[Notice, ...]:
        problem = None if self.file is None else self.file.problem
        return () if problem is None else problem.remarks


def read_folder(study: Study, revision: int, before: Reading | None = None) -> Reading:
    """Read the problem file and its table; `before`: an earlier reading, whose table is kept if it is the same."""
    if study.content(FILE_NAME) is None:
        return Reading(revision)
    text, path = study.text, study.path(FILE_NAME)
    file: ProblemFile | None = None
    faults: tuple[InputError, ...] = ()
    try:
        _check_files(study, text)
        file = read_problem_file(path)
    except ProblemFileError as error:
        faults = error.faults
    except InputError as error:
        faults = (error,)
    model, times = (file.model, None) if file is not None else _model_alone(path)
    times = _times(path) if times is None else times
    sheet, content = _sheet(study, text, before)
    roles = {} if sheet is None else roles_of(sheet, text, None if model is None else model.observables)
    series, unseen = _series(sheet, roles, times, before)
    return Reading(revision, file, model, faults, sheet, roles, times, series, unseen, content)


def _check_files(study: Study, text: str) -> None:
    """InputError for a data file outside of the folder: a problem file that somebody sent must not read others."""
    given = document.value_at(text, "data")
    for one in given if isinstance(given, list) else [given]:
        name = one.get("file") if isinstance(one, dict) else one
        if isinstance(name, str):
            try:
                study.path(name)
            except InputError as error:
                raise error.at(key=("data",)) from None


def _sheet(study: Study, text: str, before: Reading | None) -> tuple[Sheet | None, bytes | None]:
    """The table, and the content of its file."""
    spec = document.data_of(text)
    name = spec.get("file")
    if not isinstance(name, str):
        return None, None
    try:
        path, content = study.path(name), study.content(name)
        known = None if before is None or "sheet" in spec else before.sheet
        if before is not None and known is not None and known.name == name and before.content == content:
            return known, content
        return read_sheet(path, name, spec.get("sheet")), content
    except (InputError, OSError):
        return None, None  # the faults of the problem file say why


def _series(
    sheet: Sheet | None, roles: dict[str, Role], times: TimeSettings, before: Reading | None
) -> tuple[tuple[Series, ...], InputError | None]:
    """What the table shows, or why that cannot be seen."""
    if sheet is None:
        return (), None
    if before is not None and (before.sheet, before.roles, before.times) == (sheet, roles, times):
        return before.series, before.unseen
    try:
        return tuple(sheet.series(roles, times)), None
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


def _loaded(path: Path) -> Fit:
    from picardfit.files.fit_file import (
        load,
    )  # and with it all that a fit needs: the first page need not wait for it

    return load(path)


@dataclass(eq=False)
class Desk:
    """What the pages share. `listeners` are called with the one who made a change, after every change."""

    study: Study
    settings: StudioSettings = DEFAULT
    close: Callable[[], None] = lambda: None
    listeners: list[Callable[[object], None]] = field(default_factory=list)
    watchers: list[Callable[[], None]] = field(default_factory=list)
    reading: Reading = field(default_factory=Reading)
    fitting: Job = field(init=False)
    helping: Job = field(init=False)  # profiles and designs
    profiles: dict[str, Any] = field(default_factory=dict)
    design: str = ""
    fitted_text: str = ""  # the problem file of the last fit
    _fit: tuple[float, Fit] | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.fitting, self.helping = Job(self._news), Job(self._news)
        self.reading = read_folder(self.study, self.study.revision)

    # ---- the study -------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        return self.study.text

    async def read(self) -> Reading:
        """What reading the folder says now; in a thread, because a table may be long."""
        async with self._lock:
            while self.reading.revision != self.study.revision:
                revision = self.study.revision
                self.reading = await asyncio.to_thread(read_folder, self.study, revision, self.reading)
        return self.reading

    def edit(self, change: Callable[[str], str], label: str, by: object = None, merge: bool = False) -> bool:
        """Change the problem file; whether that changed anything."""
        text = self.study.text or document.NEW.format(self.study.folder.name.replace('"', "'"))
        changed = self.study.write_text(change(text), label, merge)
        if changed:
            self.tell(by)
        return changed

    def edit_sheet(self, sheet: Sheet, label: str, by: object = None) -> None:
        """Write a changed table; a spreadsheet becomes a text table beside it."""
        name = sheet.file_name
        files: dict[str, bytes | None] = {name: sheet.content()}
        if name != sheet.name:
            text = document.with_data(self.text, file=name, sheet=None)
            files[FILE_NAME] = text.encode()
        if self.study.write(files, label):
            self.tell(by)

    def add_files(self, files: dict[str, bytes], label: str, text: str | None = None) -> None:
        """Put files into the folder, and a problem file that uses them."""
        whole: dict[str, bytes | None] = dict(files)
        if text is not None:
            whole[FILE_NAME] = text.encode()
        if self.study.write(whole, label):
            self.tell()

    def undo(self) -> None:
        self.study.undo()
        self.tell()

    def redo(self) -> None:
        self.study.redo()
        self.tell()

    def tell(self, by: object = None) -> None:
        """Tell all pages that the study has changed."""
        for listener in list(self.listeners):
            listener(by)

    def _news(self) -> None:
        for watcher in list(self.watchers):
            watcher()

    # ---- work ------------------------------------------------------------------------------------------------------

    async def fit(self, resume: bool = False) -> None:
        """Fit the folder as it is."""
        if self.fitting.busy:
            return
        text = self.text
        await self.fitting.start("fit", self.study.folder, ["continue"] if resume else [])
        if self.fitting.phase is Phase.ENDED:
            self.fitted_text, self.profiles, self.design = text, {}, ""
            self.tell(self.fitting)

    async def profile(self, names: Sequence[str]) -> None:
        """Profiles of unknowns of the last fit."""
        await self.helping.start("profile", self.study.folder, names)
        self.profiles |= self.helping.result.get("profiles", {})
        self._news()

    async def rank(self) -> None:
        """Candidates for the next experiment."""
        await self.helping.start("design", self.study.folder)
        self.design = self.helping.result.get("words", "")
        self._news()

    @property
    def resumable(self) -> bool:
        """Whether the last fit was stopped and the problem is still the same."""
        stopped = self.fitting.result.get("stopped") or self.fitting.phase is Phase.STOPPED
        same = not self.fitted_text or self.fitted_text == self.text
        return bool(stopped) and same and not self.fitting.busy

    @property
    def results(self) -> Path:
        return self.study.folder / RESULTS

    async def fitted(self) -> Fit | None:
        """The fit that was saved last; None if there is none that can be read."""
        path = self.results / FIT
        try:
            when = path.stat().st_mtime
        except OSError:
            return None
        if self._fit is None or self._fit[0] != when:
            try:
                self._fit = when, await asyncio.to_thread(_loaded, path)
            except InputError:
                return None
        return self._fit[1]

    @property
    def is_fitted(self) -> bool:
        """Whether there is a saved fit."""
        return (self.results / FIT).is_file()

    @property
    def is_stale(self) -> bool:
        """Whether the problem was changed after the last fit."""
        try:
            fit = (self.results / FIT).stat().st_mtime
            names = [FILE_NAME, document.data_of(self.text).get("file")]
            return any(
                self.study.path(str(one)).stat().st_mtime > fit for one in names if isinstance(one, str)
            )
        except (OSError, InputError):
            return False

    def predictions(self) -> dict[str, dict[str, list[float]]]:
        """experiment -> column -> numbers, from predictions.csv; empty without one."""
        try:
            with (self.results / "predictions.csv").open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
        except OSError:
            return {}
        found: dict[str, dict[str, list[float]]] = {}
        for row in rows:
            own = found.setdefault(row.pop("experiment"), {})
            row.pop("date", None)
            for name, cell in row.items():
                own.setdefault(name, []).append(float(cell) if cell else float("nan"))
        return found

    async def shutdown(self) -> None:
        """Stop what runs; a fit keeps its best so far if it can do so soon."""
        for job in (self.fitting, self.helping):
            job.stop()
            for _ in range(30):
                if not job.busy:
                    break
                await asyncio.sleep(0.1)
            job.stop(at_once=True)
