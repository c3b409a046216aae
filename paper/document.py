"""docs/paper.md from a run: the text of template.md with the run's tables and figures put in.

    python -m paper.document picardfit-paper docs

In the template a line `<<lorenz/lorenz_std>>` stands for a table, `<<figure lorenz/lorenz_states_std | caption>>`
for a figure, `<<run>>` for what was run, `<<verdicts>>` and `<<costs>>` for these tables of all experiments in one.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from compare.usage import UsageError
from paper.output import Table

JOINED = {"verdicts": "What had to be reached", "costs": "Processor seconds of the run"}
TEMPLATE = Path(__file__).parent / "template.md"
PLACE = re.compile(
    r"^<<(?P<figure>figure )?(?P<folder>[\w-]+)/(?P<name>\w+)(?: \| (?P<caption>.+))?>>$", re.MULTILINE
)


def document(run: Path, docs: Path, template: str) -> str:
    """The template with the tables of `run`; figures are copied to `docs`/paper."""

    def fill(found: re.Match) -> str:
        source = run / found["folder"] / f"{found['name']}.{'png' if found['figure'] else 'md'}"
        if not source.is_file():
            raise UsageError(
                f"`{source}` is not there: run `picardfit paper {found['folder']} --out {run}` first."
            )
        if not found["figure"]:
            return source.read_text(encoding="utf-8")
        (docs / "paper").mkdir(parents=True, exist_ok=True)
        shutil.copy(source, docs / "paper" / source.name)
        return f"![{found['caption']}](paper/{source.name})"

    filled = PLACE.sub(fill, template).replace("<<run>>", described(run))
    for name, title in JOINED.items():
        if f"<<{name}>>" in filled:
            filled = filled.replace(f"<<{name}>>", joined(run, name, title))
    return filled


def joined(run: Path, name: str, title: str) -> str:
    """One table of all experiments that have it."""
    rows, columns = [], ()
    for path in sorted(run.glob(f"*/{name}.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            columns, *lines = csv.reader(file)
        rows += [(path.parent.name, *map(_number, line)) for line in lines]
    if not rows:
        raise UsageError(f"`{run}` has no {name}.csv: run `python -m paper all --out {run}` first.")
    return Table(name, title, ("experiment", *columns), tuple(rows)).markdown()


def _number(text: str) -> str | float:
    """Numbers with a point as numbers, which a table rounds."""
    try:
        return float(text) if "." in text else text
    except ValueError:
        return text


def described(run: Path) -> str:
    """What was run, in one sentence."""
    settings = json.loads((run / "run.json").read_text(encoding="utf-8"))
    extent = "a quick run (`--quick`)" if settings["quick"] else "a full run"
    return (
        f"The tables and figures are those of {extent} with picardfit {settings['version']}, seed {settings['seed']}; "
        f"Algorithm 4 made at most {settings['steps']} steps."
    )


def main(
    run: Annotated[Path, typer.Argument(help="The folder that `picardfit paper all` wrote.")],
    docs: Annotated[Path, typer.Argument(help="Where paper.md goes.")],
) -> None:
    """Write paper.md."""
    text = document(run, docs, TEMPLATE.read_text(encoding="utf-8"))
    (docs / "paper.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
