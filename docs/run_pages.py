"""Run the code of the pages and compare what it prints with what they show: `python docs/run_pages.py PAGE ...`.

On a page the blocks are taken in order, in one folder and one Python namespace:

- `python`: run (as a script if it has a title); what it prints is shown in the `text` block right after it, if any.
- `console`: lines that begin with `$ ` are commands, the others what they print. `picardfit` runs, as do the few
  commands of FILES; those of NOT_RUN (installation and the like) do not, and any other is an error.
- `sh`: commands that must succeed; what they print is not looked at.
- a block with a title, such as `toml title="problem.toml"`: a file, written where the title says.
- `<!-- files: tests/importers/data -->`: the files of this folder of the repository are copied.

A line `...` in shown output stands for any lines. With `--write` the pages get what was printed; output with such a
line is left alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
FILES = ("cat", "head", "cp", "ls")
NOT_RUN = ("pip", "python3", "make", "git", "source", "dask", "sbatch")
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COPY = re.compile(r"<!-- files: (\S+) -->")
NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?")
FREE = re.compile(
    r"\d+ iterations(?: of \d+ in \d+ searches,| in) [\d.]+ s|\d+ segments|a factor of [\d.e+]+|difference of [\d.e-]+$"
)
CLOSE = 0.03  # relative difference of two numbers that count as the same
TINY = 1e-4  # numbers below this are errors of rounding


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it stands for, its text, and where that begins on the page."""

    kind: str
    title: str | None
    text: str
    begin: int


@dataclass
class Outcome:
    """What a page printed beside what it shows: (place of the text, shown, printed)."""

    pairs: list[tuple[int, str, str]] = field(default_factory=list)
    names: dict[str, object] = field(default_factory=dict)


def pages() -> list[Path]:
    """All pages with blocks."""
    return [p for p in sorted(HERE.rglob("*.md")) if FENCE.search(p.read_text(encoding="utf-8"))]


def blocks(text: str) -> list[Block]:
    return [Block(m[1], m[2], m[3], m.start(3)) for m in FENCE.finditer(text)]


def run_page(page: Path, folder: Path) -> Outcome:
    """Run all blocks of a page in a folder."""
    text = page.read_text(encoding="utf-8")
    for source in COPY.findall(text):
        shutil.copytree(ROOT / source, folder, dirs_exist_ok=True)
    found, printed = Outcome(names={"__name__": "page"}), None
    with working_in(folder):
        for block in blocks(text):
            if block.title is not None:
                Path(block.title).parent.mkdir(parents=True, exist_ok=True)
                Path(block.title).write_text(block.text, encoding="utf-8")
            if block.kind == "python" and block.title is not None:
                printed = run_script(block.title)
            elif block.kind == "python":
                printed = run_python(block.text, page, found.names)
            elif block.kind == "console":
                found.pairs.append((block.begin, block.text, run_console(block.text)))
            elif block.kind == "sh":
                run_shell(block.text)
            elif block.kind == "text" and printed is not None:
                found.pairs.append((block.begin, block.text, printed))
                printed = None
    return found


def run_python(code: str, page: Path, names: dict[str, object]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(page), "exec"), names)
    return out.getvalue()


def run_script(path: str) -> str:
    return subprocess.run([sys.executable, path], stdout=subprocess.PIPE, text=True, check=True).stdout


def run_console(text: str) -> str:
    """The block as it looks when its commands are run."""
    lines, keep = [], False
    for line in text.splitlines():
        if line.startswith("$ "):
            command = shlex.split(line[2:], comments=True)
            keep = command[0] in NOT_RUN
            lines += [line, *([] if keep else run_command(command))]
        elif keep:
            lines.append(line)
    return "\n".join(lines) + "\n"


def run_shell(text: str) -> None:
    """Commands that must succeed."""
    for line in text.splitlines():
        command = shlex.split(line, comments=True)
        if command and command[0] not in NOT_RUN:
            run_command(command, check=True)


def run_command(command: list[str], check: bool = False) -> list[str]:
    """What a command prints, as lines; with `check` it must end with code 0."""
    if command[0] in FILES:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.rstrip().splitlines()
    if command[0] != "picardfit":
        raise ValueError(f"`{command[0]}` is not among the commands that are run, or known not to be.")
    from typer.testing import CliRunner

    from picardfit.cli import app

    done = CliRunner().invoke(app, command[1:])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if check and done.exit_code != 0:
        raise ValueError(f"`{shlex.join(command)}` ended with code {done.exit_code}: {done.output}")
    return [line.rstrip() for line in done.output.rstrip().splitlines()]


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def difference(shown: str, printed: str) -> str | None:
    """The first line that is shown and not printed; numbers may differ a little, those of FREE as they like."""
    there, at, free = [line.rstrip() for line in printed.rstrip().splitlines()], 0, False
    for line in shown.rstrip().splitlines():
        if line.strip() == "...":
            free = True
            continue
        while free and at < len(there) and not same_line(line, there[at]):
            at += 1
        if at >= len(there) or not same_line(line, there[at]):
            return f"shown: {line!r}, printed: {there[at] if at < len(there) else None!r}"
        at, free = at + 1, False
    return None if free or at == len(there) else f"printed and not shown: {there[at]!r}"


def same_line(shown: str, printed: str) -> bool:
    shown, printed = (FREE.sub("", line) for line in (shown, printed))
    words = [" ".join(NUMBER.sub("#", line).replace("-", " ").split()) for line in (shown, printed)]
    numbers = [[float(x.replace(",", "")) for x in NUMBER.findall(line)] for line in (shown, printed)]
    return words[0] == words[1] and all(same_number(a, b) for a, b in zip(*numbers, strict=True))


def same_number(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * max(abs(a), abs(b)) or (abs(a) < TINY and abs(b) < TINY)


def write_outputs(page: Path, outcome: Outcome) -> None:
    """Put what was printed into the page."""
    text = page.read_text(encoding="utf-8")
    for begin, shown, printed in reversed(outcome.pairs):
        if "\n...\n" not in f"\n{shown}":
            text = text[:begin] + printed.rstrip() + "\n" + text[begin + len(shown) :]
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, help="all of them if left out")
    parser.add_argument("--write", action="store_true", help="put what is printed into the pages")
    given = parser.parse_args()
    for page in map(Path.resolve, given.pages or pages()):
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_page(page, Path(folder))
        print(page.relative_to(ROOT))
        for _, shown, printed in outcome.pairs:
            if wrong := difference(shown, printed):
                print(f"  {wrong}")
        if given.write:
            write_outputs(page, outcome)


if __name__ == "__main__":
    main()
