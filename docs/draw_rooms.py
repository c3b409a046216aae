"""Draw the rooms of the package and who imports whom, from the imports themselves: `python docs/draw_rooms.py`.

Imports inside functions count; those for type checkers and of the display hook do not. Rooms are in the order of the
layers, so everything right of the diagonal (blue) points downwards. Left of it (red) is the exception that
import-linter allows: the façade `Fit`, whose methods hand on to the rooms above it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src" / "picardfit"
LAYERS = (  # from the bottom up; rooms of one layer do not import each other
    ("errors",),
    ("checks",),
    ("formulas",),
    ("model",),
    ("simulation",),
    ("problem",),
    ("collocation",),
    ("solvers",),
    ("evidence",),
    ("parallel",),
    ("search",),
    ("fit",),
    ("inference",),
    ("files", "importers", "exporters", "examples"),
    ("display",),
    ("cli",),
)
HOOK = "picardfit.display.hook"
HEIGHT = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def imported_rooms(path: Path) -> Iterator[str]:
    """The rooms that a module imports from."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module] if node.module != "picardfit" else [f"picardfit.{a.name}" for a in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if name != HOOK and parts[0] == "picardfit" and len(parts) > 1 and parts[1] in HEIGHT:
                yield parts[1]


def doors() -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """How many modules of a room import from another room, and the lines of each room."""
    found: Counter[tuple[str, str]] = Counter()
    lines: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in HEIGHT:
            lines[room] += path.read_text(encoding="utf-8").count("\n")
            found.update({(room, other) for other in imported_rooms(path) if other != room})
    return found, lines


def draw(target: Path) -> None:
    """Write the picture: a row for each room, with the number of its modules that import from the room of a column."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    found, lines = doors()
    rooms = [room for layer in reversed(LAYERS) for room in layer]
    figure = Figure(figsize=(9.5, 7), layout="constrained")
    panel = figure.subplots()
    for row, importer in enumerate(rooms):
        panel.add_patch(Rectangle((row - 0.5, row - 0.5), 1, 1, color="0.85"))
        for column, imported in enumerate(rooms):
            if count := found[importer, imported]:
                upward = HEIGHT[importer] < HEIGHT[imported]
                colour = "crimson" if upward else "steelblue"
                strength = 0.25 + 0.6 * min(count, 10) / 10
                panel.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=colour, alpha=strength))
                panel.text(column, row, str(count), ha="center", va="center", fontsize=8)
    panel.set(xlim=(-0.5, len(rooms) - 0.5), ylim=(len(rooms) - 0.5, -0.5), aspect="equal")
    panel.set_xticks(range(len(rooms)), rooms, rotation=60, ha="left")
    panel.set_yticks(range(len(rooms)), [f"{room}  ({lines[room]:,} lines)" for room in rooms])
    panel.xaxis.tick_top()
    panel.tick_params(length=0)
    panel.set_xlabel("modules of the room on the left that import from the room above")
    for spine in panel.spines.values():
        spine.set_visible(False)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    draw(HERE / "rooms.png")
