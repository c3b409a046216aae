"""The answer of a population: typical values, how they vary between individuals, and pictures on demand."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nicegui import background_tasks

from picardfit.display.gallery import PICTURES, draw
from picardfit.display.population_report import CAPTIONS, population_summary
from picardfit.display.population_text import (
    SPREAD_HEADER,
    TYPICAL_HEADER,
    correlation_lines,
    likelihood_lines,
    spread_rows,
    typical_rows,
)
from picardfit.errors import InputError
from picardfit.studio import parts

if TYPE_CHECKING:
    from picardfit.studio.steps.answer import View

KINDS = {"fine": "good", "mind": "mind", "failed": "bad"}


class Population:
    """The cards of a population fit."""

    def __init__(self, view: View, fit: Any) -> None:
        self.view, self.fit = view, fit
        told = population_summary(fit)
        with parts.card():
            parts.text("p", told.headline, "headline", id="headline")
            with parts.tag("div").style("margin-top: 14px"):
                for words in told.sentences:
                    parts.say(words, KINDS[told.kind])
        if fit.optimum is None:
            return
        with parts.card("Typical values"):
            parts.table(TYPICAL_HEADER, typical_rows(fit), (1, 2, 3, 4), "Typical values")
        with parts.card("Between individuals"):
            parts.table(SPREAD_HEADER, spread_rows(fit), (1, 2, 3, 4, 5), "Spread between individuals")
            for line in [*correlation_lines(fit), *likelihood_lines(fit)]:
                parts.text("p", line, "quiet")
        self.possible = [name for name in CAPTIONS if PICTURES[name].possible(fit)]
        with parts.card("Pictures"):
            with parts.tag("div", "row").style("margin-bottom: 10px"):
                self.buttons = {
                    name: parts.button(name, lambda n=name: self._show(n), "small") for name in self.possible
                }
            self.place = parts.tag("div")
        if self.possible:
            self._show(self.possible[0])

    def _show(self, name: str) -> None:
        for other, made in self.buttons.items():
            made.classes(add="on" if other == name else None, remove=None if other == name else "on")
        self.place.clear()
        with self.place:
            parts.working("Drawing …")
        background_tasks.create(self._draw(name))

    async def _draw(self, name: str) -> None:
        """Draw a picture in a thread: some simulate hundreds of studies."""
        told, content = "", b""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "picture.svg"
            try:
                await asyncio.to_thread(draw, self.fit, name, path)
                content = path.read_bytes()
            except InputError as error:
                told = parts.told(error)
        if self.view.page.client.is_deleted or self.view.page.step is not self.view:
            return
        self.place.clear()
        with self.place:
            if told:
                parts.say(told, "mind")
                return
            source = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
            parts.tag("img", "picture", src=source, alt=CAPTIONS[name])
            parts.text("p", CAPTIONS[name], "quiet").style("margin-top: 8px")
