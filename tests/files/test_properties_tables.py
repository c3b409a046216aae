"""Random experiments written as wide and as long tables and read back; and text that is no table."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import strategies as st

import picardfit as pf
from properties import Properties

tables = Properties(few=30, many=2000)

OBSERVABLES = ("prey", "pred", "A1")
EXPERIMENTS = ("pond 1", "pond 2", "7", "north, deep")
values = st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([0.0, -0.0, 1e-300, 1e17, 0.1])


@st.composite
def random_experiments(draw) -> list[pf.Experiment]:
    """Some experiments with samples of the same observables, some of them missing; times may repeat."""
    observables = draw(st.lists(st.sampled_from(OBSERVABLES), min_size=1, max_size=3, unique=True))
    found = []
    for name in draw(st.lists(st.sampled_from(EXPERIMENTS), min_size=1, max_size=3, unique=True)):
        count = draw(st.integers(1, 6))
        times = draw(st.lists(values.map(abs), min_size=count, max_size=count).map(sorted))
        data = {
            n: draw(st.lists(values | st.just(np.nan), min_size=count, max_size=count)) for n in observables
        }
        data[observables[0]][0] = draw(values)
        found.append(pf.Experiment(times, data, name))
    return found


def quoted(text: str) -> str:
    return f'"{text}"' if "," in text else text


def cell(value: float, blank: str) -> str:
    return blank if np.isnan(value) else repr(float(value))


def wide(experiments: list[pf.Experiment], blank: str = "") -> str:
    lines = [",".join(["experiment", "time", *experiments[0].observables])]
    for one in experiments:
        for time, row in zip(one.times, one.values, strict=True):
            lines.append(",".join([quoted(one.name), repr(float(time)), *(cell(v, blank) for v in row)]))
    return "\n".join(lines) + "\n"


def long(experiments: list[pf.Experiment]) -> str:
    lines = ["experiment,time,observable,value"]
    for one in experiments:
        for time, row in zip(one.times, one.values, strict=True):
            for name, value in zip(one.observables, row, strict=True):
                if np.isfinite(value):
                    lines.append(f"{quoted(one.name)},{float(time)!r},{name},{float(value)!r}")
    return "\n".join(lines) + "\n"


def samples(one: pf.Experiment) -> list[tuple[str, float, float]]:
    """What was measured: (observable, time, value), sorted."""
    return sorted(
        (name, float(t), float(v))
        for name, column in one.observations.items()
        for t, v in zip(one.times, column, strict=True)
        if np.isfinite(v)
    )


@tables.holds(experiments=random_experiments(), blank=st.sampled_from(["", "NA", "nan"]))
def test_a_wide_table_comes_back_bit_by_bit(experiments, blank):
    again = pf.read_table(io.StringIO(wide(experiments, blank)))
    assert [one.name for one in again] == [one.name for one in experiments]
    for one, other in zip(again, experiments, strict=True):
        assert one.observables == other.observables
        np.testing.assert_array_equal(one.times, other.times)
        np.testing.assert_array_equal(one.values, other.values)


@tables.holds(experiments=random_experiments())
def test_a_long_table_says_what_the_wide_one_says(experiments):
    again = pf.read_table(io.StringIO(long(experiments)))
    assert [one.name for one in again] == [one.name for one in experiments]
    for one, other in zip(again, experiments, strict=True):
        assert samples(one) == samples(other)


@tables.holds(experiments=random_experiments(), seed=st.integers(0, 999))
def test_the_order_of_rows_does_not_matter(experiments, seed):
    header, *rows = long(experiments).splitlines()
    mixed = [rows[k] for k in np.random.default_rng(seed).permutation(len(rows))]
    again = {one.name: samples(one) for one in pf.read_table(io.StringIO("\n".join([header, *mixed])))}
    assert again == {one.name: samples(one) for one in experiments}


@tables.holds(experiments=random_experiments())
def test_a_data_frame_is_read_like_a_file(experiments):
    import pandas as pd

    frames = [
        pd.DataFrame({"experiment": one.name, "time": one.times, **one.observations}) for one in experiments
    ]
    for one, other in zip(pf.read_table(pd.concat(frames)), experiments, strict=True):
        assert samples(one) == samples(other)


CELLS = [
    "time",
    "t",
    "experiment",
    "observable",
    "value",
    "prey",
    "0",
    "1.5",
    "-2e3",
    "1,5",
    "NA",
    "",
    "inf",
    "x y",
    '"',
    "'",
]
TEXTS = st.lists(
    st.sampled_from([*CELLS, ",", ",", "\n", "\n", ";", "\t", "#", " ", "é", "\0", "\r"]), max_size=30
)


@tables.holds(
    text=TEXTS.map("".join)
    | st.text(max_size=40)
    | TEXTS.map(lambda words: "time,prey\n0,1\n" + "".join(words))
)
def test_any_text_is_a_table_or_an_input_error(text):
    try:
        experiments = pf.read_table(io.StringIO(text))
    except pf.InputError:
        return
    assert all(np.isfinite(one.values).any() for one in experiments)


test_many_tables = tables.many()
