"""The line on the terminal: there with rate and remaining time, absent on a pipe."""

from __future__ import annotations

import io
from functools import partial

import pytest

import picardfit as pf
from picardfit.parallel.progress import Bar, duration
from picardfit.solvers.loop import Progress
from wells import rescued


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


WHERE = "iteration 7, loss 0.5, largest jump 1e-03"


@pytest.mark.parametrize(
    ("news", "words"),
    [
        (Progress(0, 1, 7, 0.5, 1e-3), f"{WHERE} after 3 s"),
        (Progress(0, 1, 7, 0.5, 1e-3, (2, 3)), f"continuity stage 2 of 3, {WHERE} after 3 s"),
        (Progress(1, 1, 7, 0.5, 1e-3, done=1), f"search 2, {WHERE}; 1 search done after 3 s"),
        (Progress(1, 4, 7, 0.5, 1e-3, done=2), f"search 2 of 4, {WHERE}; 2 searches done after 3 s"),
        (
            Progress(8, 1, 7, 0.5, 0.0, done=3, candidates=True),
            "simulated candidates, step 7, best loss 0.5; 3 searches done after 3 s",
        ),
    ],
)
def test_a_default_fit_shows_its_searches(news, words):
    stream, now = Terminal(), [100.0]
    bar = Bar("searches", stream, clock=lambda: now[0])
    now[0] += 3
    bar.show_search(news)
    assert stream.getvalue() == f"\r\x1b[K{words}"


def reports_of(problem, **settings):
    """What a fit reports as it goes on."""
    reports = []
    pf.fit(problem, progress=reports.append, **settings)
    return reports


def test_a_fit_reports_its_stages_of_continuity_in_their_order():
    reports = reports_of(pf.examples.van_der_pol.generate(1), policy=pf.SearchPolicy(most=1))
    stages = [one.stage for one in reports]
    assert stages == sorted(stages)
    assert {stages[0], stages[-1]} == {(1, 3), (3, 3)}


def test_a_fit_reports_how_many_searches_are_done():
    reports = reports_of(pf.examples.van_der_pol.generate(1))
    assert {one.start: one.done for one in reports} == {0: 0, 1: 1}


def test_a_fit_reports_its_simulated_candidates():
    reports = []
    rescued(progress=reports.append)
    assert {one.stage is None for one in reports if one.candidates} == {True}


def test_a_method_without_stages_reports_none():
    run = pf.Experiment([0, 1, 2, 3], {"x": [1.0, 0.7, 0.3, 0.2]})
    problem = pf.Problem(pf.Model("x' = -k*x"), run, {"k": (0.1, 2)}, {"x": (0.1, 2)})
    reports = reports_of(problem, method=pf.GradientDescent(max_iterations=3))
    assert {one.stage for one in reports} == {None}


def test_a_fit_on_a_terminal_draws_the_line(monkeypatch):
    stream, seconds = Terminal(), iter(range(1000))
    slow = partial(Bar, stream=stream, clock=seconds.__next__)
    monkeypatch.setattr("picardfit.search.estimate.Bar", slow)
    pf.fit(pf.examples.van_der_pol.generate(1))
    assert "search 2, continuity stage 1 of 3, iteration" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
