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


@pytest.mark.parametrize("name", ["/etc/passwd", "../other.ant", "missing.ant"])
@pytest.mark.parametrize("between", [" ", ' /* " */ ', " // it is\n"])
def test_an_import_outside_of_the_folder_is_refused_before_it_is_opened(tmp_path, name, between):
    path = tmp_path / "folder" / "model.ant"
    path.parent.mkdir()
    (tmp_path / "other.ant").write_text(TEXT)
    path.write_text(f'import{between}"{name}"\n{TEXT}')
    with pytest.raises(pf.InputError) as caught:
        sbml.read(path)
    assert (caught.value.code, caught.value.subject) == ("importers.antimony_import", name)
    assert caught.value.place.line == 1


def test_an_imported_file_is_looked_through_as_well(tmp_path):
    (tmp_path / "part.ant").write_text('import "/etc/passwd"\n')
    (tmp_path / "model.ant").write_text(f'import "part.ant"\n{TEXT}')
    with pytest.raises(pf.InputError) as caught:
        sbml.read(tmp_path / "model.ant")
    assert (caught.value.code, caught.value.subject) == ("importers.antimony_import", "/etc/passwd")


def test_a_part_from_a_file_in_the_folder(tmp_path):
    (tmp_path / "part.ant").write_text("model part(S)\n  S' = -2*S\n  S = 1\nend\n")
    (tmp_path / "model.ant").write_text('import "part.ant"\nmodel whole()\n  one: part(A)\n  A = 3\nend\n')
    assert len(sbml.load(tmp_path / "model.ant").states) == 1


def test_several_models_are_refused_unless_one_is_marked(tmp_path):
    path = tmp_path / "model.ant"
    first, second = ("model {}\n  x' = -{}*x; x = 1\nend\n".format(*one) for one in (("a", 1), ("b", 2)))
    path.write_text(first + second)
    with pytest.raises(pf.InputError) as caught:
        sbml.read(path)
    assert (caught.value.code, caught.value.values["names"]) == ("importers.several_antimony", ["a", "b"])
    path.write_text(first.replace("model a", "model *a()") + second)
    assert sbml.load(path).states
