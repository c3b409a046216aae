"""Scales: maps to search coordinates and back, and their slopes."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from picardfit.model.scales import LOGIT, Scales

positive = st.floats(1e-100, 1e100)


def scale_of(kind, low=-2.0, high=3.0):
    return Scales.of(kind == "log", kind == "logit", low, high)


@given(st.lists(st.tuples(positive, st.booleans()), min_size=1, max_size=5))
def test_internal_and_back_is_the_identity(pairs):
    values, scales = np.array([v for v, _ in pairs]), Scales.of(np.array([m for _, m in pairs]))
    np.testing.assert_allclose(scales.natural(scales.internal(values)), values, rtol=1e-13)


@given(st.floats(-2, 3))
def test_logit_and_back_is_the_identity(value):
    scale = scale_of("logit")
    np.testing.assert_allclose(scale.natural(scale.internal(value)), value, rtol=1e-13, atol=1e-14)


@given(st.floats(-50, 50), st.sampled_from(["linear", "log"]))
def test_slope_is_the_derivative_of_the_natural_value(internal, kind):
    scale, step = scale_of(kind), 1e-5
    below, above = (scale.natural(internal + s) for s in (-step, step))
    np.testing.assert_allclose((above - below) / (2 * step), scale.slopes(scale.natural(internal)), rtol=1e-8)


@given(st.floats(-15, 15))
def test_slope_of_a_logit_is_the_derivative_of_the_natural_value(internal):
    scale, step = scale_of("logit"), 1e-4
    below, above = (scale.natural(internal + s) for s in (-step, step))
    slope = scale.slopes(scale.natural(internal))
    np.testing.assert_allclose((above - below) / (2 * step), slope, rtol=1e-5, atol=1e-11)


def test_internal_coordinate_of_a_log_parameter_is_its_logarithm():
    np.testing.assert_allclose(Scales.of([True, False]).internal([np.e, -3.0]), [1.0, -3.0], rtol=4e-16)


def test_internal_coordinate_of_a_fraction_is_its_logit():
    expected = np.log(0.2 / 0.8)
    assert Scales.of(False, True, 0.0, 1.0).internal(0.2) == pytest.approx(expected, abs=10 * LOGIT.edge)


@pytest.mark.parametrize("bound", [-2.0, 3.0])
def test_bounds_of_a_logit_are_reached(bound):
    scale = scale_of("logit")
    assert abs(scale.internal(bound)) == pytest.approx(LOGIT.end)
    assert scale.natural(scale.internal(bound)) == pytest.approx(bound, abs=1e-15)


@pytest.mark.parametrize("bound", [0.0, -inf])
def test_open_bound_of_a_log_parameter_is_minus_infinity_inside(bound):
    assert scale_of("log").internal(bound) == -inf


@pytest.mark.parametrize("kind", ["linear", "log", "logit"])
def test_unknown_start_stays_unknown_inside(kind):
    assert np.isnan(scale_of(kind).internal(nan))


def test_maps_keep_leading_axes():
    assert Scales.of([True, False]).natural(np.zeros((3, 4, 2))).shape == (3, 4, 2)


@pytest.mark.parametrize("kind", ["linear", "log", "logit"])
def test_moved_values_are_those_at_the_moved_coordinate(kind):
    scale = scale_of(kind)
    expected = scale.natural(scale.internal(1.5) + 0.3)
    np.testing.assert_allclose(scale.moved(np.array(1.5), np.array(0.3)), expected, rtol=1e-13)


def test_the_way_between_the_bounds_of_a_logit_is_straight_in_the_values():
    scale = scale_of("logit")
    low, high = scale.internal(-2.0), scale.internal(3.0)
    assert scale.natural(scale.between(low, high, 0.3)) == pytest.approx(-2.0 + 0.3 * 5.0)
