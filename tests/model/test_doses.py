"""pf.Doses: what it checks, rates of infusions, jumps of states."""

import pickle

import numpy as np
import pytest

import picardfit as pf
from picardfit.model.doses import doses_from_spec, infusion_rates, jumps_of


def test_doses_are_sorted_and_numbers_hold_for_all():
    doses = pf.Doses([12, 0], 100, into="gut", duration=[2, 1])
    assert doses.times.tolist() == [0, 12]
    assert doses.amounts.tolist() == [100, 100]
    assert doses.duration.tolist() == [1, 2]


def test_equal_doses_are_equal_after_a_journey():
    doses = pf.Doses([0, 12], [100, 50], into="gut", duration=[0, 3])
    assert doses_from_spec(doses.spec()) == doses == pickle.loads(pickle.dumps(doses))
    assert hash(doses) == hash(doses_from_spec(doses.spec()))


def test_overlapping_infusions_add_up_and_end_exactly():
    rate = infusion_rates([pf.Doses([0, 1], [10, 6], into="x", duration=[2, 3])])["infusion_into_x"]
    assert rate.at(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.9, 4.0])).tolist() == [0, 5, 5, 7, 2, 2, 0]


def test_a_reset_comes_before_the_dose_at_its_time():
    jumps = jumps_of(("x", "y"), [pf.Doses([3.0, 3.0], [2.0, 1.0], into="x")], [3.0], np.array([0.5, 0.25]))
    assert jumps.at(3.0, np.array([7.0, 8.0])).tolist() == [3.5, 0.25]
    assert jumps.at(2.0, np.array([7.0, 8.0])).tolist() == [7.0, 8.0]


@pytest.mark.parametrize(
    "arguments, code",
    [
        (([], [], "gut"), "model.no_doses"),
        (([0, 1], [1, 2, 3], "gut"), "model.dose_lengths"),
        (([0], [1], "gut", -1), "model.dose_duration"),
        (([0], "F*100", "gut"), "model.dose_formula"),
        (([0], [1], 3), "model.dose_without_state"),
    ],
)
def test_bad_doses_are_named(arguments, code):
    with pytest.raises(pf.InputError) as caught:
        pf.Doses(*arguments)
    assert caught.value.code == code
