"""Lines of keys in TOML texts."""

import tomllib

import pytest

from picardfit.files.toml_lines import find_lines

TEXT = (
    '''# a comment with = and [brackets]
title = "one # two"          # 2
equations = """
x' = -a*x   # not a TOML comment
y' = "b"
"""
data = ["a.csv",
        { file = "b.csv", "time column" = 't' }]

[parameters]   # 10
a = [0.1,
     10]
b = { lower = 0, upper = 1 }
"c d".lower = 1

[experiments."pond 1".inputs]
dose = 'a'''
    + """'

[[more]]
x = 1
[[more]]
x = 2
[more.deep]
y = 3
"""
)


@pytest.fixture(scope="module")
def lines():
    tomllib.loads(TEXT)
    return find_lines(TEXT)


@pytest.mark.parametrize(
    "place, line",
    [
        (("title",), 2),
        (("equations",), 3),
        (("data",), 7),
        (("data", 0), 7),
        (("data", 1), 8),
        (("data", 1, "time column"), 8),
        (("parameters",), 10),
        (("parameters", "a"), 11),
        (("parameters", "a", 1), 12),
        (("parameters", "b", "upper"), 13),
        (("parameters", "c d", "lower"), 14),
        (("experiments", "pond 1"), 16),
        (("experiments", "pond 1", "inputs", "dose"), 17),
        (("more", 0, "x"), 20),
        (("more", 1, "x"), 22),
        (("more", 1, "deep", "y"), 24),
    ],
)
def test_a_key_stands_on_its_line(lines, place, line):
    assert lines.of(place) == line
    assert place in lines.keys


def test_an_absent_key_has_the_line_of_its_table(lines):
    assert lines.of(("parameters", "b", "nothing")) == 13
    assert lines.of(("nothing",)) is None


def test_lines_inside_a_text(lines):
    assert [lines.inside(("equations",), k) for k in (1, 2, 99)] == [4, 5, 6]
    assert lines.inside(("title",), 3) == 2


def every_place(value, place=()):
    """All paths of keys and indices in parsed TOML."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield (*place, key)
        yield from every_place(one, (*place, key))


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        'a = """x\\"""" \nb = 1',
        "a = '''it''s'''\nb = {c = [[1, 2], [{d = 1979-05-27T07:32:00Z}]]}\n",
        'a."b.c".d = true\n[x]\n[x.y]\nz = [ # note ]\n 1, # one\n 2,\n]\n',
        'a = """\\\n   folded"""\nb = ""\nc = [[], [""]]\n',
        "[a]\n\tb = 1e5 \n[[a.c]]\n[[a.c]]\nd=-inf#x\n",
    ],
)
def test_every_key_of_a_valid_text_is_found(text):
    assert set(every_place(tomllib.loads(text))) <= set(find_lines(text).keys)


def test_deep_nesting_does_not_break_it():
    text = "a = " + "[" * 20_000 + "]" * 20_000
    assert find_lines(text).of(("a",)) == 1
