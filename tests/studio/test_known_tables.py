"""Tables that have not changed are not read again."""

from __future__ import annotations

import pytest

from picardfit.errors import InputError
from picardfit.files.measured_columns import Reading
from picardfit.studio.known_tables import KnownTables


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("time,x,y\n0,1,2\n1,3,4\n", encoding="utf-8")
    return path


def test_cells_are_read_once(table):
    known = KnownTables()
    assert known.cells(table) is known.cells(table)


def test_experiments_are_read_once_with_the_same_settings(table):
    known = KnownTables()
    first, again = known.experiments(table, Reading()), known.experiments(table, Reading())
    assert again[0] is first[0]
    only = known.experiments(table, Reading(observables=("y",)))
    assert only[0].observables == ("y",)


def test_a_file_that_was_written_again_is_read_again(table):
    known = KnownTables()
    before = known.experiments(table, Reading())
    table.write_text("time,x,y\n0,1,2\n1,3,50\n", encoding="utf-8")
    after = known.experiments(table, Reading())
    assert before[0] is not after[0]
    assert after[0].values.max() == 50


def test_a_file_that_has_gone_is_told_each_time(table):
    known = KnownTables()
    known.cells(table)
    table.unlink()
    for _ in range(2):
        with pytest.raises(InputError, match=r"x\.csv"):
            known.experiments(table, Reading())
