"""Parameters: what is accepted, what is refused in words, and the maps to search coordinates."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from math import inf, nan

import numpy as np
import pytest

from picardfit.errors import InputError
from picardfit.model.parameters import Parameter, as_parameter
from picardfit.model.priors import Uniform


@pytest.mark.parametrize(
    "spec, expected",
    [
        (None, Parameter()),
        ((0.1, 10), Parameter(0.1, 10)),
        ([0.1, 10], Parameter(0.1, 10)),
        (np.array([0.1, 10]), Parameter(0.1, 10)),
        ((None, 5), Parameter(-inf, 5)),
        ((-inf, inf), Parameter()),
        (3, Parameter(fixed=3.0)),
        (np.float64(3), Parameter(fixed=3.0)),
        (Parameter(1, 2, log=True), Parameter(1, 2, log=True)),
    ],
)
def test_every_way_to_write_a_parameter(spec, expected):
    assert as_parameter("a", spec) == expected


@pytest.mark.parametrize(
    "spec, words",
    [
        (
            (10, 1),
            "Parameter `a`: the lower bound 10 is not below the upper bound 1: swap them.",
        ),
        (
            (1, 1),
            "the upper bound 1: to fix the value write 1 in place of the bounds, or use fixed=1.",
        ),
        ((inf, inf), "Parameter `a`: the lower bound inf is not below"),
        ((nan, 1), "Parameter `a`: the lower bound is nan"),
        ((0, nan), "Parameter `a`: the upper bound is nan"),
        ((0, "1"), "Parameter `a`: the upper bound is '1', which is not a number"),
        ((1, 2, 3), "`a` is given as"),
        ("1, 2", "`a` is given as '1, 2'"),
        ({"lower": 1}, "`a` is given as"),
        (True, "`a` is given as True"),
        (nan, "fixed value of `a` is nan: give a finite number"),
        (10**400, "fixed value of `a` is inf"),
    ],
)
def test_bad_specification_names_the_parameter_and_the_fault(spec, words):
    with pytest.raises(InputError) as caught:
        as_parameter("a", spec)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"lower": 10, "upper": 1}, "swap them"),
        ({"lower": 1, "upper": 2, "start": 3}, "start is 3, outside the bounds [1, 2]"),
        ({"lower": 1, "upper": 2, "fixed": 0}, "fixed value is 0, outside the bounds [1, 2]"),
        ({"start": inf}, "start is inf: give a finite number"),
        ({"fixed": nan}, "fixed value is nan: give a finite number"),
        ({"start": "1"}, "start is '1', which is not a number"),
        (
            {"lower": 0, "upper": 1, "log": True},
            "lower bound of [0, 1] is not positive",
        ),
        (
            {"lower": -1, "upper": 1, "log": True},
            "lower bound of [-1, 1] is not positive",
        ),
        ({"upper": -1, "log": True}, "upper bound of [-inf, -1] is not positive"),
        ({"start": 0, "log": True}, "start is 0, but log=True needs a positive value"),
        ({"fixed": -2, "log": True}, "fixed value is -2, but log=True needs a positive value"),
        ({"lower": 1, "upper": 3, "log": 2.0}, "log=2.0 is not True or False"),
        ({"local": "yes"}, "local='yes' is not True or False"),
        ({"unit": 1}, "unit 1 is not text"),
    ],
)
def test_bad_fields_are_refused_at_construction(fields, words):
    with pytest.raises(InputError) as caught:
        Parameter(**fields)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda: {"r": (0, 1), "K": Parameter(5, 1)},
            "Parameter `K`: the lower bound 5 is not below the upper bound 1",
        ),
        (
            lambda: {"ä": 1, "κ": Parameter(1, 2, start=3)},
            "Parameter `κ`: the start is 3, outside the bounds [1, 2]",
        ),
        (
            lambda: dict(K=Parameter(-1, 1, log=True)),  # noqa: C408
            "Parameter `K`: the lower bound of [-1, 1] is not positive",
        ),
        (
            lambda: {"K": Parameter(5, 5)},
            "Parameter `K`: the lower bound 5 is not below the upper bound 5: to fix the value write 5 in place of",
        ),
        (lambda: {"K": Parameter(5, 6, unit=3)}, "Parameter `K`: the unit 3 is not text"),
        (lambda: {"K": Parameter(5, 6, log="no")}, "Parameter `K`: log='no' is not True or False"),
        (lambda: {"K": Parameter(5, 6, prior=3)}, "Parameter `K`: the prior 3 is not understood"),
        (lambda: {"K": [Parameter(5, 1)]}, "The lower bound 5 is not below"),
    ],
)
def test_a_bad_parameter_is_named_as_where_it_is_written(make, words):
    with pytest.raises(InputError) as caught:
        make()
    assert words in str(caught.value)


def test_a_bad_parameter_without_a_source_to_read_has_no_name():
    with pytest.raises(InputError, match="The lower bound 5 is not below"):
        eval('{"K": Parameter(5, 1)}', {"Parameter": Parameter})


def test_a_log_parameter_and_a_prior_below_zero_leave_nothing():
    with pytest.raises(InputError, match="does not overlap the bounds"):
        Parameter(log=True, prior=Uniform(-3.0, -1.0))


def test_fixed_value_inside_the_bounds_is_allowed():
    assert Parameter(0, 2, fixed=1).fixed == 1.0


def test_start_on_a_bound_is_allowed():
    assert Parameter(0, 2, start=2).start == 2.0


def test_numbers_are_stored_as_floats():
    assert {type(v) for v in (Parameter(1, 3, start=2).lower, Parameter(1, 3, start=2).start)} == {float}


def test_log_without_lower_bound_has_the_open_bound_zero():
    assert Parameter(upper=5, log=True).bounds == (0.0, 5.0)


def test_log_without_lower_bound_can_be_changed_by_replace():
    assert replace(Parameter(log=True), start=2.0).start == 2.0


def test_parameter_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Parameter().lower = 1.0


def test_parameter_survives_a_pickle():
    parameter = Parameter(0.1, 10, log=True, start=1, local=True, unit="1/h")
    assert pickle.loads(pickle.dumps(parameter)) == parameter


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"lower": 0, "logit": True}, "model.logit_bounds"),
        ({"upper": 1, "logit": True}, "model.logit_bounds"),
        ({"lower": 0.1, "upper": 1, "log": True, "logit": True}, "model.two_scales"),
        ({"lower": 0, "upper": 1, "logit": 1}, "errors.not_a_flag"),
        ({"lower": 0, "upper": 1, "start": 1.5, "logit": True}, "model.outside_bounds"),
    ],
)
def test_wrong_logits_are_refused(fields, code):
    with pytest.raises(InputError) as caught:
        Parameter(**fields)
    assert caught.value.code == code
