"""A chart on the page, whose options come from `charts.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui.elements.echart import EChart

Pairs = Sequence[Sequence[float | None]]


class Chart(EChart, component="static/studio_chart.js"):
    """A chart that a screen reader calls by its label."""

    def __init__(
        self,
        options: dict[str, Any],
        label: str,
        height: int | None = None,
        clicked: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(options, clicked)
        self._update_method = None  # the component watches its options itself
        self.props["role"], self.props["aria-label"] = "img", label
        if height is not None:
            self.style(f"height: {height}px")

    def follow(self, points: Pairs) -> None:
        """Draw the series with the key "curve" through other points."""
        self.run_method("follow", points)

    def show(self, options: dict[str, Any]) -> None:
        """Draw something else."""
        self.options.clear()
        self.options.update(options)
        self.update()
