"""The line on the terminal: there with rate and remaining time, absent on a pipe."""

from __future__ import annotations

import io

import pytest

import picardfit.parallel.progress as progress
from picardfit.parallel.progress import Bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only when told."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def shown(stream, clock, seconds, before=0):
    bar = Bar("starts", stream)
    for done in range(before + 1, 31):
        clock[0] += seconds
        bar.show(done, 100, "best loss 0.5")
    return bar


def test_a_terminal_sees_count_rate_and_remaining_time(clock):
    stream = Terminal()
    shown(stream, clock, 0.5)
    assert stream.getvalue().split("\r")[-1].endswith("30 of 100 starts, 2/s, 35 s left, best loss 0.5")


def test_what_a_ledger_had_done_before_does_not_count_for_the_rate(clock):
    stream = Terminal()
    shown(stream, clock, 0.5, before=20)
    assert "30 of 100 starts, 2/s" in stream.getvalue()


def test_a_pipe_sees_nothing(clock):
    stream = io.StringIO()
    shown(stream, clock, 0.5).close()
    assert stream.getvalue() == ""


def test_quick_work_shows_nothing(clock):
    stream = Terminal()
    shown(stream, clock, 0.01).close()
    assert stream.getvalue() == ""


def test_the_line_is_wiped_at_the_end(clock):
    stream = Terminal()
    shown(stream, clock, 0.5).close()
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("seconds, words", [(7.4, "7 s"), (61, "1 min 1 s"), (7300, "2 h 1 min")])
def test_durations_in_words(seconds, words):
    assert progress._duration(seconds) == words
