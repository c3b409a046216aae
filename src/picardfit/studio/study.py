"""A study: the problem folder on disk, with undo and redo.

The folder is the only state. Every change is written at once and whole; what was there before stays in a history of
file contents. Changes by other programs are noticed and become a step of the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from picardfit.cli.saved import PROBLEM
from picardfit.errors import InputError
from picardfit.studio.settings import DEFAULT, StudioSettings
from picardfit.whole_files import make_folder, sound_path, write_bytes

Mark = tuple[int, int, int] | None  # of a file: another one after every change; None where there is none
Files = Mapping[str, bytes | None]  # name -> content; None: there is no such file


@dataclass(frozen=True)
class Change:
    """One step of the history: what the files were before and after it."""

    label: str
    before: Files
    after: Files
    when: float

    @property
    def size(self) -> int:
        return sum(len(one or b"") for side in (self.before, self.after) for one in side.values())


class Study:
    """The files of a problem folder. `revision` counts their changes."""

    def __init__(
        self,
        folder: Path,
        settings: StudioSettings = DEFAULT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = sound_path(folder).resolve()
        self.settings, self.revision = settings, 0
        self._clock = clock
        self._past: list[Change] = []
        self._future: list[Change] = []
        self._marks: dict[str, Mark] = {}
        self._known: dict[str, bytes | None] = {PROBLEM: self._on_disk(PROBLEM)}

    # ---- files -----------------------------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        """The path of a file of this study; InputError for a name that leads out of the folder."""
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if not parts or PurePosixPath(*parts).is_absolute() or ".." in parts or ":" in parts[0]:
            raise InputError("studio.outside", name)
        path = sound_path(self.folder.joinpath(*parts))
        if not path.resolve().is_relative_to(self.folder):  # through a link
            raise InputError("studio.outside", name)
        return path

    @property
    def text(self) -> str:
        """The problem file, empty if there is none."""
        return (self.content(PROBLEM) or b"").decode("utf-8", errors="replace")

    def content(self, name: str) -> bytes | None:
        """The content of a file as it was last seen or written; None if there is none."""
        if name not in self._known:
            self._known[name] = self._on_disk(name)
        return self._known[name]

    def _on_disk(self, name: str) -> bytes | None:
        self._marks[name] = self._mark(name)
        try:
            return self.path(name).read_bytes()
        except OSError:
            return None

    def _mark(self, name: str) -> Mark:
        try:
            found = self.path(name).stat()
        except (OSError, InputError):
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def noticed(self) -> tuple[str, ...]:
        """The files that another program has changed since; its change becomes a step of the history."""
        touched = [name for name in self._known if self._mark(name) != self._marks.get(name)]
        now = {name: self._on_disk(name) for name in touched}
        changed = {name: one for name, one in now.items() if one != self._known[name]}
        if not changed:
            return ()
        self._remember("", {name: self._known[name] for name in changed}, changed, merge=False)
        self._known.update(changed)
        self.revision += 1
        return tuple(changed)

    # ---- changes ---------------------------------------------------------------------------------------------------

    def write(self, files: Files, label: str, merge: bool = False) -> bool:
        """Write or remove files; whether that changed anything. With `merge`, typing that goes on is one step."""
        self.noticed()
        changed = {name: one for name, one in files.items() if one != self.content(name)}
        if not changed:
            return False
        before = {name: self.content(name) for name in changed}
        self._apply(changed)
        self._remember(label, before, changed, merge)
        return True

    def write_text(self, text: str, label: str, merge: bool = False) -> bool:
        """Write the problem file."""
        return self.write({PROBLEM: text.encode()}, label, merge)

    def _apply(self, files: Files) -> None:
        make_folder(self.folder)
        for name, content in files.items():
            path = self.path(name)
            if content is None:
                path.unlink(missing_ok=True)
            else:
                make_folder(path.parent)
                write_bytes(path, content)
            self._known[name], self._marks[name] = content, self._mark(name)
        self.revision += 1

    def _remember(self, label: str, before: Files, after: Files, merge: bool) -> None:
        now, last = self._clock(), self._past[-1] if self._past else None
        recent = last is not None and now - last.when <= self.settings.merge_seconds
        if (
            merge
            and recent
            and last is not None
            and last.label == label
            and last.after.keys() == after.keys()
        ):
            self._past[-1] = Change(label, last.before, after, now)
        else:
            self._past.append(Change(label, before, after, now))
        self._future.clear()
        while len(self._past) > 1 and (
            len(self._past) > self.settings.history
            or sum(one.size for one in self._past) > self.settings.history_bytes
        ):
            del self._past[0]

    # ---- history ---------------------------------------------------------------------------------------------------

    @property
    def undoes(self) -> str | None:
        """What undo would take back; None if there is nothing."""
        return self._past[-1].label if self._past else None

    @property
    def redoes(self) -> str | None:
        """What redo would bring back; None if there is nothing."""
        return self._future[-1].label if self._future else None

    def undo(self) -> None:
        self.noticed()
        if self._past:
            change = self._past.pop()
            self._apply(change.before)
            self._future.append(change)

    def redo(self) -> None:
        if self.noticed() or not self._future:  # a change by another program ends the future
            return
        change = self._future.pop()
        self._apply(change.after)
        self._past.append(change)
