"""What ends a stage and what comes next, as tables: decisions have no side effects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from picardfit.solvers.gauss_newton.stages import (
    Acceptance,
    Crawling,
    Damping,
    Limits,
    MeshRefinement,
    Next,
    StageEvidence,
    Stages,
    Verdict,
    after_rejection,
    decide,
    is_calm,
    judge,
    still_to_gain,
)

LIMITS = Limits(tolerance=1e-10, resolution=1e-4, patience=12)
EARLY = StageEvidence(last=False, left=1.0, size=1.0, floor=0.0, steps=3)
LAST = StageEvidence(
    last=True, left=1e-12, size=1.0, floor=0.0, steps=3, jump=1e-10, last_jump=1e-8, segments=10, closed=True
)


def decided(evidence: StageEvidence, **changes) -> Next:
    return decide(replace(evidence, **changes), Stages(), LIMITS, MeshRefinement())


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, Next.STAY),
        ({"left": 0.06}, Next.STAY),
        ({"left": 0.04}, Next.NEXT_STAGE),
        ({"left": 0.06, "size": 2.0}, Next.NEXT_STAGE),
        ({"left": 0.06, "floor": 0.02}, Next.NEXT_STAGE),
        ({"steps": 11}, Next.STAY),
        ({"steps": 12}, Next.NEXT_STAGE),
        ({"left": np.inf}, Next.STAY),
        ({"left": np.inf, "steps": 12}, Next.NEXT_STAGE),
        ({"jump": 0.0, "segments": 1000, "left": 1.0}, Next.STAY),  # only the last stage joins segments
    ],
)
def test_an_early_stage(changes, expected):
    assert decided(EARLY, **changes) is expected


@pytest.mark.parametrize(
    "changes, expected",
    [
        # nothing left to gain and every jump closed
        ({}, Next.FINISH),
        ({"closed": False}, Next.UPDATE_MULTIPLIERS),
        ({"left": 1e-9}, Next.UPDATE_MULTIPLIERS),
        # near the minimum, or not yet
        ({"left": 0.02}, Next.STAY),
        ({"left": 0.009}, Next.UPDATE_MULTIPLIERS),
        ({"left": 0.009, "jump": 6e-9}, Next.STAY),  # jumps shrink slowly: multipliers need a better point
        ({"left": 9e-6, "jump": 6e-9}, Next.UPDATE_MULTIPLIERS),
        ({"left": 0.02, "floor": 0.02}, Next.FINISH),  # only rounding errors are left
        # the first time near the minimum
        ({"last_jump": np.inf, "left": 0.009}, Next.BEGIN_MULTIPLIERS),
        ({"last_jump": np.inf, "left": 0.02}, Next.STAY),
        ({"last_jump": np.inf}, Next.BEGIN_MULTIPLIERS),
        # rounded kinks become sharper where the search is calm
        ({"rounded": True}, Next.SHARPEN),
        ({"rounded": True, "left": 1e-5, "closed": False}, Next.UPDATE_MULTIPLIERS),
        # a direction that the data hardly determine: calm for longer than patience
        ({"left": 1e-8, "calm": 11}, Next.UPDATE_MULTIPLIERS),
        ({"left": 1e-8, "calm": 12}, Next.FINISH),
        ({"left": 1e-8, "calm": 12, "closed": False}, Next.UPDATE_MULTIPLIERS),
        ({"left": 1e-5, "calm": 12}, Next.UPDATE_MULTIPLIERS),  # not calm any more
    ],
)
def test_the_last_stage(changes, expected):
    assert decided(LAST, **changes) is expected


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, Next.COARSEN),
        ({"left": 1.0}, Next.COARSEN),
        ({"segments": 64}, Next.FINISH),
        ({"jump": 2e-4, "last_jump": 1.0}, Next.FINISH),  # wider than the resolution
        ({"joined_at": 1e-10}, Next.FINISH),  # tried before at this jump
        ({"joined_at": 1.1e-8}, Next.COARSEN),
        ({"jump": 0.0, "joined_at": 0.0}, Next.FINISH),
    ],
)
def test_joining_segments(changes, expected):
    assert decided(replace(LAST, segments=65), **changes) is expected


def test_joining_is_tried_once_at_a_jump():
    """A mesh whose segments cannot be joined is decided upon again, without an endless loop."""
    many = replace(LAST, segments=1000)
    assert decided(many) is Next.COARSEN
    assert decided(many, joined_at=many.jump) is Next.FINISH


@pytest.mark.parametrize(
    "left, floor, calm", [(0.0, 0.0, True), (9e-7, 0.0, True), (2e-6, 0.0, False), (2e-6, 1e-6, True)]
)
def test_calm(left, floor, calm):
    assert is_calm(replace(LAST, left=left, floor=floor), Stages()) is calm


@pytest.mark.parametrize(
    "gained, predicted, verdict",
    [
        (1.0, 1.0, Verdict.ACCEPT),
        (2e-3, 1.0, Verdict.ACCEPT),
        (5e-4, 1.0, Verdict.REJECT),  # less than a thousandth of what was predicted
        (-1.0, 1.0, Verdict.REJECT),
        (-5e-14, 1e-20, Verdict.ACCEPT),  # a rounding error of the merit
        (-1e-11, 1e-13, Verdict.ROUNDING),
        (-1e-11, 2e-12, Verdict.REJECT),
    ],
)
def test_verdict_on_a_trial_step(gained, predicted, verdict):
    assert judge(gained, predicted, merit=1.0, hidden=1e-12, rules=Acceptance()) is verdict


@pytest.mark.parametrize(
    "gained, damping, last, left",
    [
        (0.7, 1e-3, False, 0.3),  # nearly the whole way: what the model missed is left
        (1.3, 1e-3, True, 0.3),
        (1.0, 1e-3, True, 0.01),  # a model that was right is trusted up to a hundredth
        (1.0, 0.05, False, 1.0),
        (1.0, 0.05, True, 1.05),
        (1.0, 0.5, False, np.inf),  # a short step tells nothing
        (1.0, 0.5, True, 1.5),
    ],
)
def test_what_is_left_to_gain(gained, damping, last, left):
    found = still_to_gain(gained, 1.0, damping, last, Damping(), Acceptance().trust)
    assert found == pytest.approx(left, rel=1e-12)


@pytest.mark.parametrize(
    "damping, last, expected",
    [
        (1.0, False, Next.DAMP),
        (1.0, True, Next.DAMP),
        (1e8, False, Next.NEXT_STAGE),
        (1e8, True, Next.STALLED),
        (np.inf, True, Next.STALLED),
    ],
)
def test_after_a_rejected_step(damping, last, expected):
    assert after_rejection(damping, last, Damping()) is expected


@pytest.mark.parametrize(
    "ratio, factor", [(1.0, 0.1), (0.75, 0.3), (0.5, 0.3), (0.25, 2.0), (-1.0, 2.0), (np.inf, 0.1)]
)
def test_damping_follows_the_ratio_of_gained_and_predicted_decrease(ratio, factor):
    assert Damping().factor(ratio) == factor


@pytest.mark.parametrize(
    "loss, lowest, falling",
    [(1.0, np.inf, True), (0.99, 1.0, True), (1.0, 1.0, False), (0.9999, 1.0, False), (1.5, 1.0, False)],
)
def test_a_long_stage_falls_where_it_gains_more_than_a_little(loss, lowest, falling):
    assert Crawling().is_falling(loss, lowest, 1.0) is falling


@pytest.mark.parametrize("promised, expected", [(1e-4, False), (5e-4, True), (np.inf, True)])
def test_a_crawling_search_is_given_up_where_much_is_promised(promised, expected):
    assert Crawling().gives_up(promised, 1.0) is expected


def test_other_settings_decide_otherwise():
    patient = decide(replace(EARLY, steps=12), Stages(), replace(LIMITS, patience=13), MeshRefinement())
    strict = decide(replace(EARLY, left=0.04), Stages(done=1e-3), LIMITS, MeshRefinement())
    small = decide(LAST, Stages(), LIMITS, MeshRefinement(joined_segments=5))
    assert (patient, strict, small) == (Next.STAY, Next.STAY, Next.COARSEN)
