"""Check: what data of this kind can determine, before anything is fitted."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from nicegui import background_tasks

from picardfit.studio import parts
from picardfit.studio.steps.view import Shown

LEAD = (
    "Whether data of this kind, even without noise, can tell the unknowns apart: before anything is fitted."
)


class View(Shown):
    """The step Check: what `picardfit check` says."""

    def build(self) -> None:
        parts.head("Check", LEAD)
        self.body = parts.tag("div")
        self.refresh()

    def refresh(self) -> None:
        self.body.clear()
        with self.body:
            self.complain()
            if self.reading.file is None:
                if not self.reading.mistakes:
                    with parts.empty("Nothing to check yet", "There must be data and equations first."):
                        parts.button("Go to data", lambda: self.page.show("data"), "primary")
                return
            substance, record = self.desk.checked
            if record and substance == self.desk.substance:
                self._show(record)
                return
            parts.working("Examining the equations …")
        background_tasks.create(self._examine(self.desk.substance))

    def followed(self) -> None:
        self.refresh()

    async def _examine(self, substance: object) -> None:
        patience = str(self.desk.settings.patience)
        command = [
            sys.executable,
            "-m",
            "picardfit",
            "check",
            str(self.desk.study.folder),
            "--json",
            "--patience",
            patience,
        ]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        out, _ = await process.communicate()
        try:
            record = json.loads(out)
        except ValueError:
            record = {"errors": [{"message": out.decode(errors="replace")}]}
        self.desk.checked = substance, record
        self.page.mark()
        here = self.page.step is self and not self.page.client.is_deleted
        if here and substance == self.desk.substance:
            with self.page.main:
                self._show(record)

    def _show(self, record: dict[str, Any]) -> None:
        self.body.clear()
        with self.body:
            parts.records(record.get("errors", []))
            structure = str(record.get("structure", ""))
            if structure:
                fine = structure.startswith("All ")
                with parts.card("What can be determined"):
                    parts.say(structure.splitlines()[0], "good" if fine else "mind")
                    with parts.tag("details", open=not fine):
                        parts.text("summary", "How this was found" if fine else "What is entangled")
                        parts.text("pre", "\n".join(structure.splitlines()[1:]), "words")
            for warning in record.get("warnings", []):
                parts.say(str(warning), "mind")
            if "measurements" in record:
                with parts.card("The problem"):
                    rows = [
                        (name, str(one["times"]), f"{one['from']:g}", f"{one['to']:g}")
                        for name, one in list(record["experiments"].items())[:30]
                    ]
                    parts.text(
                        "p",
                        f"{record['measurements']:,} measurements, {record['unknowns']} unknowns",
                        "quiet",
                    )
                    parts.table(("experiment", "times", "from", "to"), rows, (1, 2, 3))
            parts.button("Go on to the fit", lambda: self.page.show("fit"), "primary", id="to-fit")
