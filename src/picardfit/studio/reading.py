"""What reading the folder of a study says: a record that pages draw. `folder.py` makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a page begins to show before what these need is loaded
    from picardfit.errors import InputError, Notice
    from picardfit.files.problem_file import ProblemFile
    from picardfit.files.raw_tables import RawTable
    from picardfit.files.time_column import TimeSettings
    from picardfit.model.model import Model
    from picardfit.studio.known_tables import KnownTables
    from picardfit.studio.sheet import Role, Series, Sheet

FORMULA_MISSING = (  # a formula of the observables mends it, rather than another table
    "files.column_not_observed",
    "problem.unknown_observable",
)
DOSES_ASTRAY = "problem.dose_into"  # the column of doses says which state they go into
EMPTY = ("files.no_data", "files.no_equations", "formulas.no_equations")  # not begun yet, which is no mistake


@dataclass(frozen=True)
class Table:
    """A table of the study. `number`: its place in the list of data files."""

    number: int
    sheet: Sheet
    roles: Mapping[str, Role] = field(default_factory=dict)
    times: TimeSettings | None = None
    series: tuple[Series, ...] = ()  # what it shows
    unseen: InputError | None = None  # why it shows nothing
    cells: RawTable | None = field(default=None, repr=False)  # of its file


@dataclass(frozen=True)
class Reading:
    """What reading the folder says."""

    revision: int = -1
    file: ProblemFile | None = None  # None where something is wrong or missing
    model: Model | None = None  # what the equations say, also where other parts of the file are wrong
    faults: tuple[InputError, ...] = ()
    tables: tuple[Table, ...] = ()
    known: KnownTables | None = field(default=None, repr=False)

    @property
    def rows(self) -> int:
        """Of all tables."""
        return sum(len(one.sheet.rows) for one in self.tables)

    @property
    def mistakes(self) -> tuple[InputError, ...]:
        """Faults that are not just parts that nobody has filled in yet."""
        return tuple(one for one in self.faults if one.code not in EMPTY)

    def about(self, *keys: str) -> list[InputError]:
        """Mistakes in these parts of the problem file."""
        return [one for one in self.mistakes if _part(one) in keys]

    @property
    def remarks(self) -> tuple[Notice, ...]:
        problem = None if self.file is None else self.file.problem
        return () if problem is None else problem.remarks


def in_editor(error: InputError) -> InputError:
    """A mistake in the equations whose sentence counts their lines, rather than those of the file around them."""
    other, row, line = error.values.get("other_row"), error.place.row, error.place.line
    if not isinstance(other, int) or row is None or line is None:
        return error
    return error.with_values(other_row=other - (line - row))


def _part(error: InputError) -> object:
    """The part of the problem file in which a mistake is mended."""
    if error.code == DOSES_ASTRAY:
        return "data"
    return "observables" if error.code in FORMULA_MISSING else (error.place.key[:1] or ("",))[0]
