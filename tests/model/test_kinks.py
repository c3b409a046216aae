"""Tables joined by lines: which of their rows are kinks that matter, and smooth values across the others."""

import numpy as np
import pytest
from numpy.polynomial import legendre

from picardfit.collocation.mesh import rule
from picardfit.model.kinks import Smoothness, kinks, smooth_at_nodes

ROWS = np.linspace(0, 10, 2001)
WAVE = 3 + np.sin(ROWS) + 0.3 * np.cos(2 * ROWS)


def test_rows_on_one_line_are_no_kinks():
    corners = np.array([0.0, 2.5, 4.0, 10.0])
    np.testing.assert_allclose(kinks(ROWS, np.interp(ROWS, corners, [0.0, 5.0, 5.0, -1.0])), corners)


def test_few_rows_of_a_curve_are_all_kinks():
    few = np.linspace(0.1, 3, 20)
    np.testing.assert_array_equal(kinks(few, np.exp(-few)), few)


def test_many_rows_of_a_smooth_curve_make_pieces_of_64():
    found = np.searchsorted(ROWS, kinks(ROWS, WAVE))
    assert {0, *range(64, 1921, 64)} <= set(found.tolist())
    assert len(found) < 45


def test_nearly_every_row_of_noise_is_a_kink():
    noise = np.random.default_rng(0).standard_normal(len(ROWS))
    assert len(kinks(ROWS, noise)) > 0.99 * len(ROWS)


@pytest.mark.parametrize("row", [1, 700, 701, 1999])
def test_a_pulse_of_one_row_on_a_smooth_curve_keeps_its_three_kinks(row):
    pulse = np.where(np.arange(len(ROWS)) == row, 0.05, 0.0)
    assert set(ROWS[row - 1 : row + 2]) <= set(kinks(ROWS, WAVE + pulse))


def test_a_corner_of_a_smooth_curve_is_a_kink():
    bent = np.abs(np.sin(ROWS + 0.5))
    corners = ROWS[np.argmin(np.abs(ROWS[:, None] + 0.5 - np.pi * np.array([1, 2, 3])), axis=0)]
    found = kinks(ROWS, bent)
    assert np.abs(found - corners[:, None]).min(axis=1).max() < 0.01
    assert len(found) < 80


def test_a_jump_within_a_smooth_table_is_a_break():
    times = np.insert(ROWS, 777, ROWS[777])
    values = np.concatenate([WAVE[:777], WAVE[777:778], WAVE[777:] + 0.5])
    assert ROWS[777] in kinks(times, values)


def test_kinks_do_not_depend_on_units():
    found = kinks(ROWS, WAVE)
    np.testing.assert_allclose(kinks(60 * ROWS + 7, 1e-6 * WAVE), 60 * found + 7)


def test_a_tighter_tolerance_finds_more_kinks():
    assert len(kinks(ROWS, WAVE, Smoothness(tolerance=1e-8))) > 0.9 * len(ROWS)


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_smooth_values_have_the_moments_of_the_table(count):
    nodes, knots = rule(count).nodes, np.insert(ROWS[[420, 460, 480, 540, 580]], 2, [2.3025, 2.304])
    chosen, values = smooth_at_nodes(ROWS, WAVE, knots, nodes)
    assert chosen.tolist() == [0, 3, 4, 5]  # there is no row between 2.3 and 2.304
    for segment, row in zip(chosen, values, strict=True):
        begin, end = knots[segment : segment + 2]
        edges = np.unique(np.clip(np.concatenate([ROWS, [begin, end]]), begin, end))
        points, weights = legendre.leggauss(10)
        at = edges[:-1, None] + np.diff(edges)[:, None] * (points + 1) / 2
        basis = legendre.legvander(2 * (at - begin) / (end - begin) - 1, count - 1)
        table = np.einsum(
            "ij,ijk->k", np.interp(at, ROWS, WAVE) * weights * np.diff(edges)[:, None] / 2, basis
        )
        share = (points + 1) / 2
        line = rule(count).interpolation(share) @ row
        smooth = (end - begin) / 2 * (line * weights) @ legendre.legvander(points, count - 1)
        np.testing.assert_allclose(smooth, table, atol=1e-12)


def test_smooth_values_stay_within_the_range_of_the_table():
    values = np.maximum(np.sin(ROWS), 0.0)  # a square root of it must exist
    _, smooth = smooth_at_nodes(ROWS, values, np.array([0.0, 2.0, 4.0, 8.0, 10.0]), rule(5).nodes)
    assert smooth.min() == 0.0
    assert smooth.max() <= values.max()


def test_segments_without_rows_are_left_alone():
    chosen, values = smooth_at_nodes(ROWS, WAVE, ROWS, rule(5).nodes)
    assert len(chosen) == 0
    assert values.shape == (0, 5)
