"""Run tasks over an executor, with a ledger: a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from paper.tasks import Results, Task


def run_tasks(
    function: Callable[[Task], dict], tasks: Sequence[Task], ledger: Path, workers: int, label: str
) -> Results:
    """Records of all tasks; those in the ledger are not run again. A line is written as soon as a task is done."""
    wanted = {task.key: task for task in tasks}
    known = {key: record for key, record in read(ledger) if key in wanted}
    missing = [task for key, task in wanted.items() if key not in known]
    if not missing:
        return Results(known)
    ledger.parent.mkdir(parents=True, exist_ok=True)
    _end_last_line(ledger)
    with ledger.open("a", encoding="utf-8") as file, _progress(label, len(missing)) as advance:
        for task, record in _finished(function, missing, workers):
            text = json.dumps({"task": task.key, "record": record})
            file.write(text + "\n")
            file.flush()
            known[task.key] = json.loads(text)["record"]  # what a resumed run would read
            advance()
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


def _finished(function, tasks: Sequence[Task], workers: int) -> Iterable[tuple[Task, dict]]:
    """(task, record) as they are done."""
    if workers == 1:
        for task in tasks:
            yield task, function(task)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from _over(pool, function, tasks)


def _over(pool: Executor, function, tasks: Sequence[Task]) -> Iterable[tuple[Task, dict]]:
    futures = {pool.submit(function, task): task for task in tasks}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:  # after an interrupt what has not begun is dropped
        for future in futures:
            future.cancel()


@contextmanager
def _progress(label: str, total: int):
    """A bar on a terminal, nothing on a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(label, total=total)
        yield lambda: progress.advance(bar)
