"""The ledger: what was appended is there again, half lines are dropped, other runs are refused."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

import picardfit as pf
from picardfit.parallel.ledger import Ledger, LedgerSettings

WHO = {"problem": "abc", "seed": 3}


@pytest.fixture
def path(tmp_path):
    """A ledger of three tasks, the second of which failed."""
    path = tmp_path / "run.jsonl"
    with Ledger(path, WHO) as ledger:
        ledger.append(0, {"loss": 0.1})
        ledger.fail(1, "its worker died")
        ledger.append(2, {"loss": np.array([1 / 3, np.inf])})
    return path


def test_results_come_back_with_all_digits(path):
    assert Ledger(path, WHO).done == {0: {"loss": 0.1}, 2: {"loss": [1 / 3, "inf"]}}


def test_failed_tasks_are_not_done(path):
    ledger = Ledger(path, WHO)
    assert (ledger.failed, 1 in ledger.done) == ({1: "its worker died"}, False)


def test_a_task_that_succeeds_later_is_no_failure(path):
    with Ledger(path, WHO) as ledger:
        ledger.append(1, 7)
    ledger = Ledger(path, WHO)
    assert (ledger.failed, ledger.done[1]) == ({}, 7)


def test_every_line_is_json(path):
    kinds = [sorted(json.loads(line)) for line in path.read_text().splitlines()]
    assert kinds == [["format", "run", "version"], ["result", "task"], ["failed", "task"], ["result", "task"]]


def test_a_line_is_in_the_file_before_the_next_task(tmp_path):
    ledger = Ledger(tmp_path / "run.jsonl", WHO)
    ledger.append(0, 5)
    assert Ledger(tmp_path / "run.jsonl", WHO).done == {0: 5}


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_half_a_line_at_the_end_is_dropped(path, lost):
    path.write_bytes(path.read_bytes()[:-lost])
    with Ledger(path, WHO) as ledger:
        assert sorted(ledger.done) == [0]
        ledger.append(2, "again")
    assert Ledger(path, WHO).done == {0: {"loss": 0.1}, 2: "again"}


def test_a_damaged_result_is_found_when_it_is_asked_for(path):
    path.write_bytes(path.read_bytes().replace(b"0.1", b"\xa70."))
    ledger = Ledger(path, WHO)
    assert ledger.done.keys() & {0, 1, 2} == {0, 2}
    with pytest.raises(pf.InputError) as caught:
        ledger.result(0, dict)
    assert (caught.value.code, caught.value.values["line"]) == ("parallel.ledger_line", 2)


def test_half_a_header_is_written_again(path):
    path.write_bytes(path.read_bytes()[:10])
    with Ledger(path, WHO) as ledger:
        ledger.append(4, 1)
    assert Ledger(path, WHO).done == {4: 1}


@pytest.mark.parametrize(
    "line",
    [b"[]\n" * 2**22, b'{"task": 0, "result": [' + b"[]," * 2**22 + b"[]]}\n"],
    ids=["many short lines", "one long line"],
)
def test_hostile_ledgers_are_refused_with_little_memory(path, line):
    path.write_bytes(path.read_bytes() + line * 2)
    tracemalloc.start()
    with pytest.raises(pf.InputError) as caught:
        Ledger(path, WHO)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (caught.value.code, caught.value.values["line"]) == ("parallel.ledger_line", 5)
    assert most < 100e6


@pytest.mark.parametrize("other", [{"seed": 4}, {"problem": "abd"}, {"start": "x"}])
def test_a_ledger_of_another_run_is_refused(path, other):
    before = path.read_bytes()
    with pytest.raises(pf.InputError, match=f"another run, which differs in `{next(iter(other))}`"):
        Ledger(path, WHO | other)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["t,x\n0,1\n", '{"format": "other"}\n', "precious notes", "[1]\n"])
def test_other_files_are_left_alone(tmp_path, text):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(pf.InputError, match="not a ledger"):
        Ledger(path, WHO)
    assert path.read_text() == text


def test_a_damaged_line_in_the_middle_is_named(path):
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:5], *lines[2:]]) + "\n")
    with pytest.raises(pf.InputError, match="Line 2 of the ledger"):
        Ledger(path, WHO)


def test_a_ledger_of_a_later_version_is_refused(path):
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(pf.InputError, match="another version"):
        Ledger(path, WHO)


def test_a_folder_is_no_ledger(tmp_path):
    with pytest.raises(pf.InputError, match="is a folder"):
        Ledger(tmp_path, WHO)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(pf.InputError, match="does not exist"):
        Ledger(tmp_path / "nowhere" / "run.jsonl", WHO)


def test_a_ledger_beyond_the_limit_is_not_read(path):
    with pytest.raises(pf.InputError) as caught:
        Ledger(path, WHO, LedgerSettings(most_bytes=100))
    assert caught.value.code == "parallel.ledger_too_large"


@pytest.mark.parametrize("line", ['{"task": true, "result": 1}', '{"task": "3"}', "7", "[]", "[" * 100_000])
def test_a_line_of_another_kind_is_named(path, line):
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, line, *rest]) + "\n")
    with pytest.raises(pf.InputError) as caught:
        Ledger(path, WHO)
    assert (caught.value.code, caught.value.values["line"]) == ("parallel.ledger_line", 2)


def test_a_result_that_cannot_be_decoded_is_named(path):
    with pytest.raises(pf.InputError) as caught:
        Ledger(path, WHO).result(2, lambda found: found["value"])
    assert (caught.value.code, caught.value.values["line"]) == ("parallel.ledger_line", 4)
