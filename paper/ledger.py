"""Run tasks over processes, with a ledger by task: a run that was stopped, or was smaller, continues where it was.

picardfit.parallel.ledger holds one piece of work whose tasks are numbered; here quick and full runs share what they
have in common, so that a line is found by the text of its task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from compare.usage import UsageError
from paper.tasks import Results, Task
from picardfit.parallel.ordered_map import processes
from picardfit.parallel.ordered_map import run_tasks as run_over
from picardfit.parallel.progress import Bar


def run_tasks(
    function: Callable[[Sequence[Task]], list[dict]],
    tasks: Sequence[Task],
    ledger: Path,
    workers: int,
    label: str,
    together: Callable[[Sequence[Task]], list[list[Task]]] = lambda tasks: [[task] for task in tasks],
) -> Results:
    """Records of all tasks; those in the ledger are not run again. Lines are written as soon as tasks are done.

    `together` cuts the tasks into pieces of work; `function` gives the records of a piece.
    """
    wanted = {task.key: task for task in tasks}
    known = {key: record for key, record in read(ledger) if key in wanted}
    missing = [task for key, task in wanted.items() if key not in known]
    if not missing:
        return Results(known)
    ledger.parent.mkdir(parents=True, exist_ok=True)
    _end_last_line(ledger)
    pieces = together(missing)
    with (
        ledger.open("a", encoding="utf-8") as file,
        closing(Bar(f"fits of {label}")) as bar,
        processes(workers) as executor,
    ):

        def write(index: int, records: list[dict]) -> None:
            for task, record in zip(pieces[index], records, strict=True):
                text = json.dumps({"task": task.key, "record": record})
                file.write(text + "\n")
                known[task.key] = json.loads(text)["record"]  # what a resumed run would read
            file.flush()

        def show(*_: object) -> None:
            bar.show(len(known), len(wanted))

        work = run_over(function, pieces, executor=executor, keep=write, progress=show)
    if work.interrupted:
        raise KeyboardInterrupt
    for index, reason in work.failures.items():
        raise UsageError(f"{pieces[index][0].key} failed ({reason}): the same command tries it again.")
    return Results(known)


def read(ledger: Path) -> Iterable[tuple[str, dict]]:
    """(task, record) of every whole line; a line that was cut off by a kill is skipped."""
    if not ledger.exists():
        return
    for line in ledger.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield entry["task"], entry["record"]


def _end_last_line(ledger: Path) -> None:
    """After a kill the last line may have no end; the next one must not be glued to it."""
    if ledger.exists() and not ledger.read_bytes().endswith(b"\n"):
        with ledger.open("a", encoding="utf-8") as file:
            file.write("\n")
