"""Keep: the folder, its problem file, downloads, and the same as Python and as commands."""

from __future__ import annotations

import asyncio
import io
import shlex
import zipfile
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nicegui import background_tasks, ui

from picardfit.display.gallery import PICTURES, draw
from picardfit.display.program import program
from picardfit.errors import InputError
from picardfit.exporters.formats import FORMATS, export
from picardfit.studio import parts
from picardfit.studio.saved_profiles import outdated
from picardfit.studio.steps.view import Shown

if TYPE_CHECKING:
    from picardfit.fit import Fit

LEAD = "Everything is an ordinary folder, which the command line, Python and your colleagues can use."
TABLES = ("parameters.csv", "predictions.csv", "profiles.csv", "individuals.csv")
PICTURE_FORMATS = ("png", "svg", "pdf")


class View(Shown):
    """The step Keep."""

    typed: str | None = None
    shown = ""  # the text that somebody began to change

    def build(self) -> None:
        parts.head("Keep", LEAD)
        self.body = parts.tag("div")
        self.refresh()

    def refresh(self) -> None:
        self.body.clear()
        with self.body:
            self._folder()
            if self.desk.is_fitted:
                self.downloads = parts.tag("div")
                with self.downloads:
                    parts.working("Opening the fit …")
                background_tasks.create(self._open())
            with parts.tag("div", "two"):
                self._commands()
                with parts.card("As Python"):
                    self.python = parts.text("pre", self._python(None), "code", id="as-python", tabindex="0")
            self._file()

    def followed(self) -> None:
        self.refresh()

    async def _open(self) -> None:
        fit = await self.desk.fitted()
        if self.page.client.is_deleted or self.page.step is not self:
            return
        with self.page.main:
            self.downloads.clear()
            with self.downloads:
                if fit is not None:
                    self._results(fit)
            self.python.text = self._python(fit)

    # ---- folder ----------------------------------------------------------------------------------------------------

    def _folder(self) -> None:
        folder = self.desk.study.folder
        with parts.card("The folder"), parts.tag("div", "row spread"):
            parts.text("code", str(folder)).style("font: 400 14px var(--mono); overflow-wrap: anywhere")
            parts.button("Download all as ZIP", self._zip, "small", id="download-zip")

    async def _zip(self) -> None:
        folder, fit = self.desk.study.folder, await self.desk.fitted()
        old = () if fit is None else await asyncio.to_thread(outdated, self.desk.results, fit)
        without = [self.desk.results / name for name in old]
        ui.download.content(await asyncio.to_thread(zipped, folder, without), f"{folder.name}.zip")

    def _commands(self) -> None:
        folder = shlex.quote(str(self.desk.study.folder))
        lines = [f"picardfit check {folder}", f"picardfit fit {folder}"]
        if self.desk.is_fitted:
            lines += [f"picardfit plot {folder} --out fit.pdf", f"picardfit profile {folder}"]
            file = self.reading.file
            problem = None if file is None else file.problem
            if problem is not None and problem.noise is not None and problem.random is None:
                lines += [f"picardfit sample {folder}"]
        with parts.card("As commands"):
            parts.text("pre", "\n".join(lines), "code", id="as-command", tabindex="0")

    def _python(self, fit: Fit | None) -> str:
        written = None if fit is None or fit.problem.random is not None else program(fit)
        if written is not None:
            return written
        lines = ["import picardfit as pf", "", f"problem = pf.read_problem({str(self.desk.study.folder)!r})"]
        return "\n".join([*lines, "fit = pf.fit(problem)", "print(fit)"])

    # ---- downloads -------------------------------------------------------------------------------------------------

    def _results(self, fit: Fit) -> None:
        results = self.desk.results
        old = outdated(results, fit)
        with parts.card("Report and tables"), parts.tag("div", "row"):
            if (results / "report.html").is_file():
                parts.button(
                    "Report (HTML)",
                    lambda: self._send(results / "report.html"),
                    "primary",
                    id="download-report",
                )
            for name in TABLES:
                if (results / name).is_file() and name not in old:
                    parts.button(name, lambda n=name: self._send(results / n), "small")
            parts.button("fit.json", lambda: self._send(results / "fit.json"), "small")
        possible = [name for name, one in PICTURES.items() if one.possible(fit) and one.quick]
        with parts.tag("div", "two"):
            with parts.card("Pictures"):
                self.wanted: dict[str, str] = {"what": possible[0] if possible else "fit", "as": "png"}
                with parts.tag("div", "row"):
                    parts.choice(possible, self.wanted["what"], self._want, "Picture")
                    parts.choice(PICTURE_FORMATS, "png", lambda v: self.wanted.update({"as": v}), "Format")
                    parts.button(
                        "Download",
                        lambda: self._picture(fit),
                        "small",
                        "Download the picture",
                        id="download-picture",
                    )
                words = PICTURES[self.wanted["what"]].words
                self.described = parts.text("p", words, "quiet", aria_live="polite").style("margin-top: 8px")
            with parts.card("The model for other programs"):
                self.model = {"as": "python"}
                with parts.tag("div", "row"):
                    parts.choice(list(FORMATS), "python", lambda v: self.model.update({"as": v}), "Program")
                    parts.button(
                        "Download",
                        lambda: self._export(fit),
                        "small",
                        "Download the model",
                        id="download-model",
                    )

    def _send(self, path: Path) -> None:
        if path.is_file():
            ui.download.content(path.read_bytes(), path.name)

    def _want(self, what: str) -> None:
        self.wanted["what"] = what
        self.described.text = PICTURES[what].words

    async def _picture(self, fit: Fit) -> None:
        what, ending = self.wanted["what"], self.wanted["as"]

        def made(folder: str) -> bytes:
            path = Path(folder) / f"{what}.{ending}"
            draw(fit, what, path)
            return path.read_bytes()

        await self._download(made, f"{what}.{ending}")

    async def _export(self, fit: Fit) -> None:
        kind = self.model["as"]
        name = f"model{FORMATS[kind].endings[0]}"

        def made(folder: str) -> bytes:
            paths = export(fit, Path(folder) / name, kind).paths
            return paths[0].read_bytes() if len(paths) == 1 else zipped(Path(folder))

        await self._download(made, name if FORMATS[kind].also is None else f"model-{kind}.zip")

    async def _download(self, made: Any, name: str) -> None:
        with TemporaryDirectory() as folder:
            try:
                content = await asyncio.to_thread(made, folder)
            except InputError as error:
                parts.notify(parts.told(error), "bad")
                return
        ui.download.content(content, name)

    # ---- the file --------------------------------------------------------------------------------------------------

    def _file(self) -> None:
        """The problem file as it is, to be read and, by those who know it, to be edited."""
        with parts.card(
            "problem.toml", "The whole problem as text. What you change here, the other steps show."
        ):
            parts.complain(self.reading.mistakes, 20)
            if self.typed is None:
                self.shown = self.desk.text
            elif self.shown != self.desk.text:
                parts.say(parts.told(InputError("studio.typed_over")), "mind")
            box = parts.typed(
                "textarea",
                self.shown if self.typed is None else self.typed,
                "in wide mono",
                rows=22,
                aria_label="problem.toml",
                spellcheck="false",
                id="problem-text",
            )
            box.on("input", lambda e: setattr(self, "typed", e.args), js_handler=parts.VALUE)
            with parts.tag("div", "row").style("margin-top: 10px"):
                parts.button("Save", self._save, "primary", "Save problem.toml", id="save-text")
                if self.typed is not None:
                    parts.button("Drop what is typed", self._drop, "small", id="drop-text")

    def _save(self) -> None:
        text, self.typed = self.typed, None
        if text is not None:
            self.attempt(lambda: self.desk.add_files({}, "problem.toml", text))
            parts.notify("Saved", "good")

    def _drop(self) -> None:
        self.typed = None
        self.refresh()


def zipped(folder: Path, without: Collection[Path] = ()) -> bytes:
    """All files of a folder as a ZIP archive, but for some."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path in without or path.name == "searches.ledger":
                continue
            if path.is_file() and not path.is_symlink():
                archive.write(path, path.relative_to(folder))
    return out.getvalue()
