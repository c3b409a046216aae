"""The line on the terminal: there with rate and remaining time, absent on a pipe."""

from __future__ import annotations

import io
from functools import partial

import pytest

import picardfit as pf
from picardfit.parallel.progress import Bar, duration
from picardfit.solvers.loop import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, seconds, before=0):
    """A bar after 30 tasks that take so many seconds each, by a clock of its own."""
    now = [100.0]
    bar = Bar("starts", stream, clock=lambda: now[0])
    for done in range(before + 1, 31):
        now[0] += seconds
        bar.show(done, 100, "best loss 0.5")
    return bar


def test_a_terminal_sees_count_rate_and_remaining_time():
    stream = Terminal()
    shown(stream, 0.5)
    assert stream.getvalue().split("\r")[-1].endswith("30 of 100 starts, 2/s, 35 s left, best loss 0.5")


def test_what_a_ledger_had_done_before_does_not_count_for_the_rate():
    stream = Terminal()
    shown(stream, 0.5, before=20)
    assert "30 of 100 starts, 2/s" in stream.getvalue()


def test_a_pipe_sees_nothing():
    stream = io.StringIO()
    shown(stream, 0.5).close()
    assert stream.getvalue() == ""


def test_quick_work_shows_nothing():
    stream = Terminal()
    shown(stream, 0.01).close()
    assert stream.getvalue() == ""


def test_the_line_is_wiped_at_the_end():
    stream = Terminal()
    shown(stream, 0.5).close()
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("seconds, words", [(7.4, "7 s"), (61, "1 min 1 s"), (7300, "2 h 1 min")])
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("start", "starts", "words"),
    [
        (0, 1, "iteration 7, loss 0.5, largest jump 1e-03 after 3 s"),
        (1, 1, "search 2, iteration 7, loss 0.5, largest jump 1e-03 after 3 s"),
        (1, 4, "search 2 of 4, iteration 7, loss 0.5, largest jump 1e-03 after 3 s"),
    ],
)
def test_a_default_fit_shows_its_searches(start, starts, words):
    stream, now = Terminal(), [100.0]
    bar = Bar("searches", stream, clock=lambda: now[0])
    now[0] += 3
    bar.show_search(Progress(start, starts, 7, 0.5, 1e-3))
    assert stream.getvalue() == f"\r\x1b[K{words}"


def test_a_fit_on_a_terminal_draws_the_line(monkeypatch):
    stream, seconds = Terminal(), iter(range(1000))
    slow = partial(Bar, stream=stream, clock=seconds.__next__)
    monkeypatch.setattr("picardfit.search.estimate.Bar", slow)
    pf.fit(pf.examples.van_der_pol.generate(1))
    assert "search 2, iteration" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
