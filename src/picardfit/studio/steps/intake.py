"""The ways in: drop or choose files, paste cells, begin with a starter."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from nicegui import events, ui

from picardfit.cli.new import Starter
from picardfit.errors import InputError
from picardfit.studio import document, parts

if TYPE_CHECKING:
    from picardfit.studio.page import Page

EMPTY = "empty"  # chosen where a person wants to begin anew
REJECTED = "(several) => emit(several.map((one) => [one.failedPropValidation, one.file.name]))"
STARTERS = {
    Starter.LOTKA_VOLTERRA: "Lynx and hare (predator and prey)",
    Starter.INFLUENZA: "Influenza in a boarding school (SIR)",
    Starter.FITZHUGH_NAGUMO: "Nerve cell (a hidden state)",
    Starter.VAN_DER_POL: "Oscillator (two runs)",
    Starter.PHARMACOKINETICS: "Infusion in three patients",
    Starter.POPULATION: "Theophylline (a population)",
}


def _opening() -> ModuleType:
    """What reads files of all kinds: it loads much, so the first page does not wait for it."""
    return importlib.import_module("picardfit.studio.opening")


def uploader(page: Page, accepts: str, adds: bool = False) -> ui.upload:
    """A hidden uploader; `choose` and `dropping` open it. `adds`: tables come beside those that are there."""
    settings = page.desk.settings

    async def take(event: events.MultiUploadEventArguments) -> None:
        try:
            files = {one.name: await one.read() for one in event.files}
            text = page.desk.text or document.new(page.desk.study.folder.name)
            kept, changed = await page.wait_for(
                asyncio.to_thread(lambda: _opening().opened(files, text, adds=adds))
            )
            page.desk.add_files(kept, f"open {', '.join(kept) or next(iter(files))}", changed)
            parts.notify(f"Opened {', '.join(files)}", "good")
        except InputError as error:
            parts.notify(parts.told(error), "bad")
        if not made.is_deleted:  # nobody has gone to another step meanwhile
            made.reset()

    def refuse(event: events.GenericEventArguments) -> None:
        most = settings.upload_bytes // 1_000_000
        for kind, name in event.args:
            code = "studio.too_large" if kind == "max-file-size" else "studio.what_is_it"
            parts.notify(parts.told(InputError(code, name, most=most)), "bad")

    made = ui.upload(
        multiple=True,
        auto_upload=True,
        max_file_size=settings.upload_bytes,
        on_multi_upload=take,
    )
    made.on("rejected", refuse, js_handler=REJECTED)
    made.props(f'accept="{accepts}" aria-hidden="true"').style("display: none")
    return made


def choose(made: ui.upload) -> Callable[[], object]:
    """What a button does to choose files."""
    return lambda: made.run_method("pickFiles")


def dropping(area: ui.element, made: ui.upload) -> None:
    """Let an area take files that are dropped on it."""
    area.on("dragover", js_handler="(e) => { e.preventDefault(); e.currentTarget.classList.add('over'); }")
    area.on("dragleave", js_handler="(e) => e.currentTarget.classList.remove('over')")
    add = f"getElement({made.id}).$refs.qRef.addFiles(e.dataTransfer.files)"
    area.on(
        "drop",
        js_handler=f"(e) => {{ e.preventDefault(); e.currentTarget.classList.remove('over'); {add}; }}",
    )


def paste(page: Page) -> None:
    """Ask for cells of a spreadsheet."""
    with parts.dialog("Paste a table") as dialog:
        parts.text(
            "p",
            "Copy the cells in your spreadsheet, the names of the columns in their first row, and paste them here.",
            "quiet",
        )
        box = parts.typed(
            "textarea",
            "",
            "in wide mono",
            rows=12,
            aria_label="Cells",
            placeholder="time\tprey\tpredator\n0\t30\t4\n1\t47.2\t6.1",
            id="paste-cells",
        )
        content = {"text": ""}
        box.on("input", lambda e: content.update(text=e.args), js_handler=parts.VALUE)
        complaint = parts.tag("div")

        async def take() -> None:
            complaint.clear()
            try:
                text = page.desk.text or document.new(page.desk.study.folder.name)
                files, changed = await page.wait_for(
                    asyncio.to_thread(lambda: _opening().pasted(content["text"], text))
                )
                page.desk.add_files(files, "paste a table", changed)
                dialog.close()
            except InputError as error:
                with complaint:
                    parts.say(parts.told(error), "bad")

        with parts.tag("div", "row").style("margin-top: 12px"):
            parts.button("Use this table", take, "primary", id="paste-take")
            parts.button("Cancel", dialog.close)


def starters(page: Page) -> None:
    """A list of starters; one that is chosen replaces problem and data, which undo brings back."""

    async def take(name: str) -> None:
        if name == EMPTY:
            text = document.new(page.desk.study.folder.name)
            page.try_to(lambda: page.desk.add_files({}, "begin anew", text))
        elif name:
            files, text = await page.wait_for(asyncio.to_thread(lambda: _opening().starter(name)))
            page.try_to(lambda: page.desk.add_files(files, f"starter {name}", text))

    options = {"": "Begin with a starter …", **{one.value: words for one, words in STARTERS.items()}}
    if page.desk.text:
        options[EMPTY] = "An empty study"
    made = parts.choice(options, "", take, "Begin with a starter", "starter")
    made.style("max-width: 260px").mark("starters")
