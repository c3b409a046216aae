"""Antimony files, which its own library translates to SBML."""

import numpy as np
import pytest

import picardfit as pf

pytest.importorskip("libsbml", reason="needs python-libsbml: pip install 'picardfit[sbml]'")
pytest.importorskip("antimony", reason="needs antimony: pip install 'picardfit[sbml]'")

from picardfit.importers import sbml

TEXT = """
model decay
  compartment cell = 2
  species A in cell, B in cell
  A = a0; a0 = 3; B = 0
  J1: A -> B; cell*k*A
  k = 0.5
  total := A + B
  at (time >= 1): A = A + 1
end
"""


def test_a_model_in_antimony(tmp_path):
    path = tmp_path / "model.ant"
    path.write_text(TEXT)
    system = sbml.load(path)
    assert system.values == {"k": 0.5, "a0": 3.0}
    model = system.model({"A": "A", "total": "total"})
    start = {s: 3.0 if s.startswith("A") else 0.0 for s in model.states}
    times = np.array([0.5, 2.0])
    found = pf.simulate(model, system.values, start, times).observables
    expected = 3 * np.exp(-0.5 * times) + np.exp(-0.5 * (times - 1)) * (times >= 1)
    assert found["A"] == pytest.approx(expected, rel=1e-7)
    assert found["total"] == pytest.approx([3.0, 4.0], rel=1e-7)


@pytest.mark.parametrize("text, line", [("model a\n  A -> ; k*A\n  k = = 2\nend\n", 3), ("model\x00", None)])
def test_what_is_not_antimony(tmp_path, text, line):
    path = tmp_path / "model.ant"
    path.write_text(text)
    with pytest.raises(pf.InputError) as caught:
        sbml.read(path)
    assert caught.value.code in ("importers.invalid_antimony", "importers.nothing_changes")
    if line is not None:
        assert caught.value.place.line == line
        assert caught.value.place.file == str(path)
