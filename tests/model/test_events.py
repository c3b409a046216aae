"""Events of a model."""

import pytest

import picardfit as pf

NEURON = """
    v' = 0.04*v^2 + 5*v + 140 - u + I
    u' = a*(b*v - u)
    when v > 30: v = c; u = u + d
"""


def test_names_in_events_are_parameters():
    assert pf.Model(NEURON).parameters == ("I", "a", "b", "c", "d")


def test_events_are_printed_with_the_model():
    assert "when v > 30: v = c; u = d + u" in str(pf.Model(NEURON))
    assert "when v > 30" in repr(pf.Model(NEURON))


@pytest.mark.parametrize(
    "events",
    [["when x < c: x = x + v"], ["x < c: x = x + v"], {"x < c": {"x": "x + v"}}, {"x < c": "x = x + v"}],
)
def test_events_may_be_an_argument(events):
    assert pf.Model("x' = -k*x", events=events) == pf.Model("x' = -k*x\nwhen x < c: x = x + v")


def test_a_python_function_may_have_events():
    model = pf.Model.from_function(
        lambda t, x, p: [-p[0] * x[0]], ["x"], ["k", "c"], events=["when x < c: x = 1"]
    )
    found = pf.simulate(model, {"k": 1.0, "c": 0.5}, {"x": 1.0}, [0.5, 1.0])
    assert found.states["x"][1] == pytest.approx(2 * 2.718281828459045**-1, rel=1e-8)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("when y > 3: x = 0", "model.event_constant"),
        ("when x > 3: z = 0", "model.event_target"),
        ("when x > 3: x = 0; x = 1", "model.event_twice"),
        ("when 3 > 2: x = 0", "formulas.event_condition"),
    ],
)
def test_bad_events_are_refused_with_their_line(text, code):
    with pytest.raises(pf.InputError) as caught:
        pf.Model("x' = 1\n" + text)
    assert (caught.value.code, caught.value.place.row) == (code, 2)


def test_a_misspelt_state_in_a_condition_is_named():
    with pytest.raises(pf.InputError, match="Did you mean `voltage`"):
        pf.Model("voltage' = 1\nwhen voltge > 30: voltage = 0")


def test_events_must_be_texts():
    with pytest.raises(pf.InputError) as caught:
        pf.Model("x' = 1", events=3)
    assert caught.value.code == "model.not_events"
