"""Limits and sizes of the studio. All are choices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StudioSettings:
    """How much the page takes in, keeps and shows."""

    upload_bytes: int = 50_000_000  # of one file: a table of a million rows
    request_bytes: int = 60_000_000  # of one request: an upload with its envelope
    history: int = 200  # states that undo can go back to
    history_bytes: int = 200_000_000  # of all of them together
    merge_seconds: float = 2.0  # typing in one field within this time is undone at once
    grid_rows: int = 200  # of the table that are on the page at a time
    points: int = 3000  # of one series in a chart; more are thinned to their extremes
    curve_points: int = 201  # of a curve
    panels: int = 6  # charts below each other
    experiments: int = 8  # drawn in one chart
    news_seconds: float = 0.15  # between two messages of a running fit
    news_points: int = 121  # of a curve that moves while a fit runs
    look_seconds: float = 1.0  # between two looks whether another program has changed the files
    warm_seconds: float = 0.2  # after which a page that is there loads the other steps
    moment: float = 0.2  # seconds after which the page says that it works
    check_seconds: float = 0.35  # that typing must rest before the whole folder is checked
    candidate_times: int = 2000  # of a planned experiment: writing them takes 0.1 s
    earlier: int = 12  # fits of this study that are kept for comparison
    patience: float = 20.0  # seconds for the analysis of what data can determine
    lower: float = 1e-4  # bounds that a new parameter gets until somebody knows better
    upper: float = 1e2


DEFAULT = StudioSettings()
