"""What the steps share: a page, the desk, and how a step follows changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from picardfit.studio import parts
from picardfit.studio.parts import notify, told
from picardfit.studio.progress_marks import WRONG, marks_of
from picardfit.studio.reading import in_editor

if TYPE_CHECKING:
    from picardfit.studio.charts import Palette
    from picardfit.studio.desk import Desk, Reading
    from picardfit.studio.page import Page


INPUTS = ("data", "equations", "play")  # steps at which a study is mended


class Shown:
    """What a step needs of its page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    @property
    def desk(self) -> Desk:
        return self.page.desk

    @property
    def reading(self) -> Reading:
        return self.page.desk.reading

    @property
    def palette(self) -> Palette:
        return self.page.palette

    def edit(self, change: Callable[[str], str], label: str, by: object = None, merge: bool = False) -> bool:
        """Change the problem file; says why where that is not possible."""
        return self.page.try_to(lambda: self.desk.edit(change, label, by, merge))

    def complain(self, most: int = 20) -> None:
        """What is wrong with the study, and the ways to the steps where it is mended."""
        parts.complain(map(in_editor, self.reading.mistakes), most)
        marks = marks_of(self.desk)
        elsewhere = [name for name in INPUTS if marks[name].look == WRONG and name != self.page.now]
        if self.reading.mistakes and elsewhere:
            with parts.tag("div", "row").style("margin: 4px 0 16px"):
                for name in elsewhere:
                    parts.button(f"Go to {name}", lambda n=name: self.page.show(n), "primary")

    def attempt(self, action: Callable[[], Any]) -> bool:
        return self.page.try_to(action)


__all__ = ["Shown", "notify", "told"]
