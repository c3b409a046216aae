"""One page: the rail of steps, and the step that is shown. Every tab has its own page; all share the desk."""

from __future__ import annotations

import asyncio
import gc
import importlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from nicegui import background_tasks, ui
from starlette.requests import Request

from picardfit.errors import InputError
from picardfit.studio import document, parts
from picardfit.studio.desk import Desk
from picardfit.studio.palette import DARK, LIGHT, NOTES, Palette
from picardfit.studio.progress_marks import OPEN, Mark, fit_mark, marks_of

T = TypeVar("T")
COOKIE = "picardfit-studio-look"
HEAD = (
    '<link rel="stylesheet" href="/studio-static/studio.css"><script src="/studio-static/studio.js"></script>'
)


FIRST = ("folder", "opening", "steps.table")  # what the first action needs, after the first page is there


@dataclass(frozen=True)
class Step:
    """A step of the journey; `module`: where it is drawn."""

    name: str
    title: str
    module: str


STEPS = (
    Step("data", "Data", "data"),
    Step("equations", "Equations", "equations"),
    Step("play", "Play", "play"),
    Step("check", "Check", "check"),
    Step("fit", "Fit", "fitting"),
    Step("answer", "Answer", "answer"),
    Step("keep", "Keep", "keep"),
)


class Page:
    """What one tab of a browser shows."""

    def __init__(self, desk: Desk, request: Request) -> None:
        self.desk = desk
        self.dark = request.cookies.get(COOKIE) == "dark"
        self.client = ui.context.client
        self.step: Any = None
        self.now = ""
        self._marks: dict[str, tuple[Any, Any]] = {}
        self._waits = 0

    @property
    def palette(self) -> Palette:
        return DARK if self.dark else LIGHT

    # ---- frame -----------------------------------------------------------------------------------------------------

    def build(self, name: str | None) -> None:
        """Draw the page at a step; without one, at the first that has something left to do."""
        ui.add_head_html(HEAD)
        self.darkness = ui.dark_mode(self.dark)
        ui.colors(**NOTES)
        names = [one.name for one in STEPS]
        begin = name if name in names else self._begin()
        with parts.tag("div", "frame"):
            parts.text("a", "Skip to the step", "skip", href="#step-title")
            self._rail()
            self.main = parts.tag(
                "section", "main", id="main", aria_labelledby="step-title"
            )  # within the page's main
            self.pending = parts.working("Reading …")
            self.pending.classes("pending").set_visibility(False)
        self.desk.look()
        self.desk.listeners.append(self._changed)
        self.desk.watchers.append(self._news)
        ui.timer(self.desk.settings.look_seconds, self.desk.look)
        self.client.on_delete(self._leave)
        self.client.on_connect(lambda: background_tasks.create(self._warm()))
        self.show(begin)

    def _leave(self) -> None:
        if self._changed in self.desk.listeners:
            self.desk.listeners.remove(self._changed)
            self.desk.watchers.remove(self._news)

    def _begin(self) -> str:
        text = self.desk.text
        if not document.data_files(text):
            return "data"
        written = document.equations_of(text).strip()
        return "equations" if not written else "answer" if self.desk.is_fitted else "play"

    async def _warm(self) -> None:
        """Read the folder if nobody has, and load the steps, when the page is there: none has to wait for its own."""
        if not self.desk.is_opened:
            await self.desk.read()
            await asyncio.to_thread(self._module, self.now)
            self.desk.tell()
        await asyncio.sleep(self.desk.settings.warm_seconds)
        for name in (*FIRST, *(f"steps.{one.module}" for one in STEPS)):
            await self.desk.read()  # what somebody waits for comes first
            await asyncio.to_thread(importlib.import_module, f"picardfit.studio.{name}")
        gc.freeze()  # modules stay: searching them for garbage would take longer than reading a long table

    def _module(self, name: str) -> Any:
        """Where a step is drawn."""
        step = next(one for one in STEPS if one.name == name)
        return importlib.import_module(f"picardfit.studio.steps.{step.module}")

    def _rail(self) -> None:
        with parts.tag("header", "rail"):
            parts.text("div", "picardfit studio", "brand")
            self._title = parts.field(self._title_words, self._rename, "Title of the study", "study-title")
            with parts.tag("nav", aria_label="Steps"), parts.tag("ol", "steps"):
                for k, one in enumerate(STEPS, 1):
                    with parts.tag("li"):
                        made = parts.tag("button", "step", type="button", id=f"go-{k}", title=f"Alt+{k}")
                        made.on("click", lambda _, name=one.name: self.show(name), args=[])
                        with made:
                            parts.text("span", str(k), "dot", aria_hidden="true")
                            parts.text("span", one.title)
                            note = parts.text("span", "", "note")
                        self._marks[one.name] = made, note
            with parts.tag("div", "rail-foot"):
                self._undo = parts.button("", self._guarded(self.desk.undo), "icon i-undo", "Undo", id="undo")
                self._redo = parts.button("", self._guarded(self.desk.redo), "icon i-redo", "Redo", id="redo")
                parts.button("", self._switch, "icon i-look", "Light or dark", id="look")
                parts.button("", self._ask_close, "icon i-quit", "Stop the studio", id="stop-studio")
        self.mark()

    @property
    def _title_words(self) -> str:
        return str(document.value_at(self.desk.text, "title") or self.desk.study.folder.name)

    def _rename(self, words: str) -> None:
        self.try_to(
            lambda: self.desk.edit(
                lambda t: document.with_value(t, ("title",), words.strip() or None), "title", self
            )
        )

    def _switch(self) -> None:
        self.dark = not self.dark
        self.darkness.value = self.dark
        look = "dark" if self.dark else "light"
        self.client.run_javascript(f'studioLook("{look}")')
        self._draw()

    def _ask_close(self) -> None:
        with parts.dialog("Stop the studio?") as dialog:
            parts.text(
                "p",
                f"Everything is in {self.desk.study.folder}. A fit that runs is stopped with its best so far.",
            )
            with parts.tag("div", "row").style("margin-top: 16px"):
                parts.button("Stop", lambda: self._close(dialog), "primary", id="really-stop")
                parts.button("Go on", dialog.close)

    def _close(self, dialog: ui.dialog) -> None:
        dialog.close()
        self.client.run_javascript("studioStopped()")
        self.desk.close()

    def _guarded(self, action: Callable[[], None]) -> Callable[[], bool]:
        return lambda: self.try_to(action)

    def try_to(self, action: Callable[[], Any]) -> bool:
        """Do something that bad input can prevent; says why it did."""
        try:
            action()
        except InputError as error:
            parts.notify(parts.told(error), "bad")
            return False
        return True

    # ---- steps -----------------------------------------------------------------------------------------------------

    def show(self, name: str) -> None:
        """Show a step."""
        if name == self.now:
            return
        moved = bool(self.now)
        self.now = name
        self._draw()
        if moved:
            self.client.run_javascript(f'studioStep("{name}")')

    def _draw(self) -> None:
        """Draw the step that is shown, once the folder is read; before, it would be drawn again under one's hands."""
        self.main.clear()
        with self.main:
            if self.desk.is_read:
                self.step = self._module(self.now).View(self)
                self.step.build()
            else:
                self.step = parts.Waiting(next(one.title for one in STEPS if one.name == self.now))
                if self.desk.is_opened:
                    self._changed(None)
        self.mark()

    def _changed(self, by: object) -> None:
        background_tasks.create(self._follow(by))

    async def _follow(self, by: object) -> None:
        """Follow a change of the study: read it, mark the steps, draw the step again unless it did so itself."""
        await self.wait_for(self._ready())
        if self.client.is_deleted:
            return
        self.mark()
        if isinstance(self.step, parts.Waiting):
            self._draw()
        elif by is not self.step and by is not self:
            with self.main:
                self.step.refresh()
        elif by is self.step:
            with self.main:
                self.step.followed()

    async def _ready(self) -> None:
        """Read the folder, and load what draws its tables."""
        await self.desk.read()
        for name in FIRST:
            await asyncio.to_thread(importlib.import_module, f"picardfit.studio.{name}")

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work, and say so where it takes longer than a moment."""
        task = asyncio.ensure_future(work)
        done, _ = await asyncio.wait({task}, timeout=self.desk.settings.moment)
        if done:
            return task.result()
        self._waits += 1
        self._tell_waiting()
        try:
            return await task
        finally:
            self._waits -= 1
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        if not self.client.is_deleted:
            self.pending.set_visibility(self._waits > 0)

    def _news(self) -> None:
        if self.client.is_deleted:
            return
        self._mark_work()
        if hasattr(self.step, "news"):
            with self.main:
                self.step.news()

    def mark(self) -> None:
        """Say beside every step how far it is."""
        found = marks_of(self.desk)
        for name, (made, note) in self._marks.items():
            mark = found.get(name, Mark(OPEN, ""))
            made.classes(remove="done wrong now busy", add=f"{mark.look} {'now' if name == self.now else ''}")
            made.props["aria-current"] = "step" if name == self.now else "false"
            note.text = mark.shown
        self._mark_work()
        for made, label, what in (
            (self._undo, "Undo", self.desk.study.undoes),
            (self._redo, "Redo", self.desk.study.redoes),
        ):
            made.props["title"] = f"{label}: {what}" if what else label
            made.props["aria-label"] = made.props["title"]
            made.props["disabled"] = what is None
            made.update()
        self._title.props["value"] = self._title_words
        self._title.update()

    def _mark_work(self) -> None:
        made, note = self._marks["fit"]
        busy = self.desk.fitting.busy
        made.classes(add="busy" if busy else None, remove=None if busy else "busy")
        if busy:
            note.text = "running"
        elif note.text == "running":
            note.text = fit_mark(self.desk).shown
