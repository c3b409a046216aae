"""The example in the README runs as it stands."""

import re
import runpy
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    script = folder / "example.py"
    script.write_text(code, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return runpy.run_path(str(script))


def test_example_succeeds(names):
    assert names["fit"].success


def test_example_finds_the_values_that_made_its_data(names):
    truth = {"a": 2.8, "b": 0.7, "c": 1.35, "r": 3.5, "k": 1.5, "K": 1.4}
    intervals = names["fit"].intervals(0.99)
    assert all(intervals[name][0] < value < intervals[name][1] for name, value in truth.items())


def test_picture_exists():
    for target in re.findall(r"!\[.*?\]\((.*?)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / target).is_file()
