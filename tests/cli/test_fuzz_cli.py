"""Damaged problem files, tables, ledgers and saved fits: the answer is a sentence, never a traceback or a hang."""

from __future__ import annotations

import pytest

from benchmarks.fuzz import one_case

LONGEST = 60.0  # seconds of processor time for one case, on whatever machine runs the tests


def verdicts(seeds, tmp_path, monkeypatch) -> list[str]:
    """What became of each case; a fault names its seed."""
    found = []
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.chdir(folder)
        found.append(one_case(seed, folder, LONGEST))
        assert found[-1].startswith("exit"), f"case {seed} of benchmarks/fuzz.py: {found[-1]}"
    return found


def test_some_damaged_files(tmp_path, monkeypatch):
    assert {"exit 0", "exit 2"} <= set(verdicts(range(40), tmp_path, monkeypatch))


@pytest.mark.slow
def test_many_damaged_files(tmp_path, monkeypatch):
    verdicts(range(10_000, 12_000), tmp_path, monkeypatch)
