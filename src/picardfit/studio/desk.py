"""The desk at which all pages of one studio sit: the study, what reading it says, the work that runs, the last fit.

It computes nothing itself. What takes longer than a moment happens in a thread or in a process of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picardfit.cli.saved import FIT, PROBLEM, RESULTS
from picardfit.errors import InputError
from picardfit.studio import document
from picardfit.studio.job import Job, Phase
from picardfit.studio.reading import Reading
from picardfit.studio.settings import DEFAULT, StudioSettings
from picardfit.studio.study import Study

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.studio.predicted import Predictions
    from picardfit.studio.sheet import Sheet


ASIDE = ("candidates", "title", "description")  # entries of a problem file that no fit depends on


def _read(study: Study, revision: int, before: Reading) -> Reading:
    from picardfit.studio.folder import (
        read_folder,  # and with it all of picardfit: the first page need not wait
    )

    return read_folder(study, revision, before)


def _loaded(path: Path) -> Fit:
    from picardfit.files.fit_file import load

    return load(path)


def _predicted(path: Path, points: int) -> Predictions:
    from picardfit.studio.predicted import read_predictions

    return read_predictions(path, points)


def _profiles(results: Path, fit: Fit) -> dict[str, Any]:
    from picardfit.studio.saved_profiles import records

    return records(results, fit)


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
    checked: tuple[object, dict[str, Any]] = (None, {})  # a substance, and what `picardfit check` says of it
    _of_fit: tuple[float, object] | None = None  # the time of a fit, and the substance that it is of
    _fit: tuple[float, Fit] | None = None
    _predictions: tuple[float, Predictions] | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.fitting, self.helping = Job(self._news), Job(self._news)
        if self.study.content(PROBLEM) is None:  # there is nothing to read
            self.reading = Reading(self.study.revision)

    # ---- the study -------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        return self.study.text

    @property
    def is_opened(self) -> bool:
        """Whether the folder has been read at all."""
        return self.reading.revision >= 0

    @property
    def is_read(self) -> bool:
        """Whether the folder has been read as it is now."""
        return self.reading.revision == self.study.revision

    async def read(self) -> Reading:
        """What reading the folder says now; in a thread, because a table may be long."""
        async with self._lock:
            while self.reading.revision != self.study.revision:
                revision = self.study.revision
                self.reading = await asyncio.to_thread(_read, self.study, revision, self.reading)
        return self.reading

    def look(self) -> tuple[str, ...]:
        """The files that another program has changed since somebody looked; all pages are told."""
        changed = self.study.noticed()
        if changed:
            self.tell()
        return changed

    def edit(self, change: Callable[[str], str], label: str, by: object = None, merge: bool = False) -> bool:
        """Change the problem file; whether that changed anything."""
        self.look()
        text = self.study.text or document.new(self.study.folder.name)
        changed = self.study.write_text(change(text), label, merge)
        if changed:
            self.tell(by)
        return changed

    def edit_sheet(self, number: int, sheet: Sheet, label: str, by: object = None) -> None:
        """Write a changed data file; a spreadsheet becomes a text table beside it."""
        if sheet.name in self.look():
            raise InputError("studio.changed_elsewhere", sheet.name)
        name = sheet.file_name
        files: dict[str, bytes | None] = {name: sheet.content()}
        if name != sheet.name:
            text = document.with_data(self.text, number, file=name, sheet=None)
            files[PROBLEM] = text.encode()
        if self.study.write(files, label):
            self.tell(by)

    def add_files(self, files: dict[str, bytes], label: str, text: str | None = None) -> None:
        """Put files into the folder, and a problem file that uses them."""
        whole: dict[str, bytes | None] = dict(files)
        if text is not None:
            whole[PROBLEM] = text.encode()
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
        self.look()
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

    async def open_profiles(self, fit: Fit) -> None:
        """The profiles in the folder that belong to the fit, also those of another program or day."""
        if not self.helping.busy:
            self.profiles = await asyncio.to_thread(_profiles, self.results, fit)

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
    def substance(self) -> object:
        """What check and fit depend on: the problem file without names and plans, and when its tables changed."""
        content = {name: one for name, one in document.plain(self.text).items() if name not in ASIDE}
        return content, [self._changed(one) for one in self._tables]

    @property
    def is_stale(self) -> bool:
        """Whether the problem was changed after the last fit; plans are no change as long as the studio runs."""
        try:
            fit = (self.results / FIT).stat().st_mtime
        except OSError:
            return False
        if all(self._changed(one) <= fit for one in [PROBLEM, *self._tables]):
            self._of_fit = fit, self.substance
            return False
        return self._of_fit != (fit, self.substance)

    @property
    def _tables(self) -> list[str]:
        names = (one.get("file") for one in document.data_files(self.text))
        return [one for one in names if isinstance(one, str)]

    def _changed(self, name: str) -> float:
        """When a file was changed; 0 where there is none."""
        try:
            return self.study.path(name).stat().st_mtime
        except (OSError, InputError):
            return 0.0

    async def predictions(self) -> Predictions:
        """experiment -> column -> numbers, from predictions.csv; empty without one."""
        path = self.results / "predictions.csv"
        try:
            when = path.stat().st_mtime
        except OSError:
            return {}
        if self._predictions is None or self._predictions[0] != when:
            self._predictions = when, await asyncio.to_thread(_predicted, path, self.settings.points)
        return self._predictions[1]

    async def shutdown(self) -> None:
        """Stop what runs; a fit keeps its best so far if it can do so soon."""
        for job in (self.fitting, self.helping):
            job.stop()
            for _ in range(30):
                if not job.busy:
                    break
                await asyncio.sleep(0.1)
            job.stop(at_once=True)
