"""PEtab's formulas: what differs from ours, and the published expressions where they are present."""

import os
from pathlib import Path

import pytest

from picardfit.errors import InputError
from picardfit.formulas.grammar import names_in_order, parse, to_text
from picardfit.formulas.petab_math import PETAB


def value(text: str, **values: float) -> float:
    """The value of a formula of PEtab with these numbers for its names."""
    numbers = {name: parse(repr(float(number))) for name, number in values.items()}
    return float(parse(text, numbers, PETAB))


@pytest.mark.parametrize(
    "text, ours, theirs",
    [
        ("piecewise(0, a > 0 || b > 0 && c > 0, 1)", 0, 1),  # a is 1, b and c are -1
        ("piecewise(1, a > 0 || b > 0 && a > 0 || c > 0, 0)", 1, 1),
        ("piecewise(1, c < a < a, 0)", 0, 0),
        ("piecewise(1, 3*a > 2*a > a, 0)", 1, 0),  # (3 > 2) is 1, which is not greater than 1
    ],
)
def test_logical_operators_bind_as_petab_says(text, ours, theirs):
    values = {"a": 1.0, "b": -1.0, "c": -1.0}
    assert value(text, **values) == theirs
    assert float(parse(text, {n: parse(repr(v)) for n, v in values.items()})) == ours


@pytest.mark.parametrize(
    "text, expected",
    [
        ("-!!2", -1.0),
        ("!a*b", 0.0),  # (!a)*b
        ("!(a*b - 6)", 1.0),
        ("log(8, a)", 3.0),
        ("arccot(-1)", -0.7853981633974483),
        ("not + pi + and", 9.0),
    ],
)
def test_words_of_petab(text, expected):
    names = {"a": 2.0, "b": 3.0, "not": 2.0, "pi": 3.0, "and": 4.0}
    assert value(text, **names) == pytest.approx(expected)


def test_names_that_are_functions_elsewhere():
    assert names_in_order("exp*exp(2) + log(if)", PETAB) == ("if",)
    assert to_text(parse("abs + 1", {"abs": parse("abs_")}, PETAB)) == "abs_ + 1"


@pytest.mark.parametrize("text", ["a & b", "a if b else c", "min(a, inf)", "inf - inf", "a % 2", "a!"])
def test_what_is_no_formula_of_petab(text):
    with pytest.raises(InputError):
        parse(text, dialect=PETAB)


def test_sums_of_distinctions_are_compared():
    assert to_text(parse("-piecewise(2, b, 1) - 0.5 >= 1")).startswith("where(")
    assert "sin" in to_text(parse("sin(1 - a - piecewise(3, a > b, 2))"))


def published() -> list[dict]:
    yaml = pytest.importorskip("yaml", reason="the published expressions are in YAML: pip install pyyaml")
    beside = Path(__file__).resolve().parents[3] / "shared" / "petab"
    folder = Path(os.environ.get("PICARDFIT_PETAB", beside)) / "petab_math_suite_v2.0.0"
    if not folder.is_dir():
        pytest.skip("the published PEtab expressions (shared/petab) are not beside this repository")
    return yaml.safe_load((folder / "math_tests.yaml").read_text())["cases"]


def test_the_published_expressions():
    cases = published()
    assert len(cases) == 98
    for case in cases:
        found = parse(case["expression"], dialect=PETAB)
        try:
            wanted = float(case["expected"])
        except ValueError:
            assert found == parse(case["expected"])
        else:
            assert float(found) == pytest.approx(wanted, rel=1e-13, abs=1e-15), case["expression"]
