"""The examples beside the editor are equations."""

from __future__ import annotations

import pytest

pytest.importorskip("nicegui", reason="the studio needs NiceGUI: pip install 'picardfit[studio]'")

import picardfit as pf
from picardfit.studio.steps.grammar_help import EXAMPLES


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_can_be_typed(line):
    around = {"rate = k*x^2/(K^2 + x^2)": "{}\nx' = -rate", "when x > top: x = 0": "x' = k\n{}"}
    assert "x" in pf.Model(around.get(line, "{}").format(line)).states
