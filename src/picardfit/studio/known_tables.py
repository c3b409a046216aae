"""Tables as they were read last: a change of the problem file does not read them again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from picardfit.files.measured_columns import Reading
from picardfit.files.raw_tables import RawTable, read_raw_table
from picardfit.files.tables import read_experiments_in
from picardfit.problem.experiment import Experiment

Mark = tuple[int, int, int] | None  # of a file: another one after every change; None where there is none


class KnownTables:
    """The cells of every file and the experiments in them, as long as neither file nor settings change."""

    def __init__(self) -> None:
        self._cells: dict[tuple[Path, str | None], tuple[Mark, RawTable]] = {}
        self._experiments: dict[Path, tuple[RawTable, Reading, Sequence[Experiment]]] = {}

    def cells(self, path: Path, sheet: str | None = None) -> RawTable:
        """The cells of a file; InputError where it is no table."""
        mark = _mark(path)
        known = self._cells.get((path, sheet))
        if known is not None and known[0] == mark:
            return known[1]
        found = read_raw_table(path, sheet)
        self._cells[path, sheet] = mark, found
        return found

    def experiments(self, path: Path, reading: Reading) -> list[Experiment]:
        """The experiments in a file, as `read_experiments_in` finds them."""
        cells = self.cells(path, reading.sheet)
        known = self._experiments.get(path)
        if known is not None and known[0] is cells and known[1] == reading:
            return list(known[2])
        found = read_experiments_in(cells, reading)
        self._experiments[path] = cells, reading, found
        return list(found)


def _mark(path: Path) -> Mark:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
