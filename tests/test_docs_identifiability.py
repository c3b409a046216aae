"""The how-to on identifiability runs as it stands and says what it shows."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "identifiability.md"


@pytest.fixture(scope="module")
def names():
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    found: dict = {}
    exec(compile(code, str(PAGE), "exec"), found)
    return found


def test_the_printed_structure_is_shown(names):
    shown = PAGE.read_text(encoding="utf-8")
    assert str(names["structure"]).rsplit("\n", 1)[0] in shown


def test_the_fit_leaves_the_predators_free(names):
    assert not names["found"].identifiable
    assert "pred(0)*b" in {c.text for c in names["found"].determined}


def test_predators_are_to_be_counted(names):
    assert names["choice"].chosen == ("a few predators",)
    assert len(names["when"].times) == 2
