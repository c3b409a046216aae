"""PEtab files that are wrong in one place: one sentence names the file and what to do."""

import shutil
from pathlib import Path

import pytest

import picardfit as pf

pytest.importorskip("libsbml", reason="PEtab problems need python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("yaml", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")

from picardfit.importers import petab

HERE = Path(__file__).parent / "data"


@pytest.fixture
def folder(tmp_path):
    """A copy of tests/petab to spoil."""
    return shutil.copytree(HERE, tmp_path / "problem")


def complaint(folder) -> pf.InputError:
    with pytest.raises(pf.InputError) as caught:
        petab.load(folder / "exchange.yaml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return caught.value


FILES = {
    "parameters.tsv": "parameter table",
    "conditions.tsv": "condition table",
    "observables.tsv": "observable table",
    "measurements.tsv": "measurement table",
    "model.xml": "model file",
}


@pytest.mark.parametrize("name", FILES)
def test_missing_files(folder, name):
    (folder / name).unlink()
    error = complaint(folder)
    assert error.code == "importers.no_table_file"
    assert (error.subject, error.values["kind"]) == (str(folder / name), FILES[name])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01", b"nothing of use\n1\n"])
def test_files_that_are_something_else(folder, name, content):
    (folder / name).write_bytes(content)
    assert complaint(folder).place.file == str(folder / name)


@pytest.mark.parametrize(
    "content, code",
    [
        ("", "empty_yaml"),
        ("just text", "empty_yaml"),
        ("a: [1", "not_yaml"),
        ("format_version: 3", "petab_version"),
        ("format_version: 1", "not_one_problem"),
        ("format_version: 1\nproblems: [{}]", "no_table"),
        ("format_version: 1\nproblems: [{}]\nparameter_file: {a: 1}", "not_a_file_name"),
        ("format_version: 1\nextensions: {fast: 1}", "extensions"),
    ],
)
def test_entries_of_the_yaml_file(folder, content, code):
    (folder / "exchange.yaml").write_text(content)
    error = complaint(folder)
    assert error.code == f"importers.{code}"
    assert error.place.file == str(folder / "exchange.yaml")


@pytest.mark.parametrize(
    "content, line, key",
    [
        ("format_version: 1\nproblems:\n- sbml_files: [m.xml]\n", 1, ("parameter_file",)),
        ("format_version: 1\nparameter_file: p.tsv\nproblems: [{}]", 2, ("parameter_file",)),
        ("# a remark\nformat_version: 3\n", 2, ("format_version",)),
        ("a: &a [*a]\nformat_version: 3\n", 2, ("format_version",)),
    ],
)
def test_entries_of_the_yaml_file_have_a_line_and_a_key(folder, content, line, key):
    (folder / "exchange.yaml").write_text(content)
    place = complaint(folder).place
    assert (place.line, place.key) == (line, key)


WRONG = [  # file, old text, new text, where the complaint points, its code and subject
    ("measurements.tsv", "obs_a\ta\t0.25", "obs_x\ta\t0.25", "measurements.tsv:3", "not_in_table", "obs_x"),
    ("measurements.tsv", "obs_a\ta\t0.25", "obs_a\tb\t0.25", "measurements.tsv:3", "not_in_table", "b"),
    (
        "measurements.tsv",
        "obs_a\ta\t0.25",
        "obs_a\t\t0.25",
        "measurements.tsv:3",
        "empty_cell",
        "simulationConditionId",
    ),
    ("measurements.tsv", "0.25", "soon", "measurements.tsv:3", "cell_is_no_number", "time"),
    ("measurements.tsv", "2.3015", "two", "measurements.tsv:3", "cell_is_no_number", "measurement"),
    ("measurements.tsv", "2.3015", "inf", "measurements.tsv:3", "bad_measurement", "obs_a"),
    ("measurements.tsv", "0.25", "-1", "measurements.tsv:3", "measured_too_early", "obs_a"),
    ("measurements.tsv", "0.25", "", "measurements.tsv:3", "bad_measurement", "obs_a"),
    ("measurements.tsv", "\ttime\t", "\tTime\t", "measurements.tsv:1", "no_column", "time"),
    (
        "parameters.tsv",
        "log10\t0.01\t100\t0.8",
        "ln\t0.01\t100\t0.8",
        "parameters.tsv:2",
        "unknown_word",
        "parameterScale",
    ),
    ("parameters.tsv", "0.01\t100\t0.8", "\t100\t0.8", "parameters.tsv:2", "no_bounds", "k1"),
    ("parameters.tsv", "0.01\t100\t0.8", "0\t100\t0.8", "parameters.tsv:2", "lower_bound_on_log_scale", "k1"),
    ("parameters.tsv", "0.01\t100\t0.8", "100\t0.01\t0.8", "parameters.tsv:2", "bounds_exchanged", "k1"),
    ("parameters.tsv", "0.8\t1", "0.8\tyes", "parameters.tsv:2", "cell_is_no_number", "estimate"),
    ("parameters.tsv", "0.8\t1", "0.8\t2", "parameters.tsv:2", "estimate", "k1"),
    ("parameters.tsv", "0.8\t1", "\t0", "parameters.tsv:2", "fixed_without_value", "k1"),
    ("parameters.tsv", "0.8\t1", "inf\t1", "parameters.tsv:2", "nominal_not_finite", "k1"),
    ("parameters.tsv", "k2", "k1", "parameters.tsv:3", "row_twice", "k1"),
    ("parameters.tsv", "k2", "", "parameters.tsv:3", "empty_cell", "parameterId"),
    ("parameters.tsv", "k2", "k 2", "parameters.tsv:3", "not_a_name", "k 2"),
    ("observables.tsv", "\tA\t", "\tAA\t", "observables.tsv:2", "not_in_sbml", "AA"),
    ("observables.tsv", "\tA\t", "\t\t", "observables.tsv:2", "empty_cell", "observableFormula"),
    ("observables.tsv", "0.1", "sigma", "observables.tsv:2", "not_in_sbml", "sigma"),
    (
        "observables.tsv",
        "0.1",
        "noiseParameter1_obs_a",
        "measurements.tsv:2",
        "too_few_placeholders",
        "obs_a",
    ),
    (
        "conditions.tsv",
        "conditionName\na\tthe only one",
        "bta\na\t1",
        "conditions.tsv:2",
        "condition_sets_unknown",
        "bta",
    ),
    (
        "conditions.tsv",
        "conditionName\na\tthe only one",
        "beta\na\tfast",
        "conditions.tsv:2",
        "no_parameter",
        "fast",
    ),
    (
        "conditions.tsv",
        "conditionName\na\tthe only one",
        "beta\na\tinf",
        "conditions.tsv:2",
        "cell_not_finite",
        "a",
    ),
    (
        "conditions.tsv",
        "conditionName\na\tthe only one",
        "beta\na\t2*A + k1",
        "conditions.tsv:2",
        "formula_of_cell",
        "2*A + k1",
    ),
    ("model.xml", "<ci> beta </ci>", "<ci> bata </ci>", "model.xml:25", "undefined_identifier", "bata"),
    ("model.xml", "</listOfReactions>", "", "model.xml:33", "invalid_sbml", ""),
    ("exchange.yaml", "[model.xml]", "[model.xml, other.xml]", "exchange.yaml:4", "not_one_model", ""),
]


@pytest.mark.parametrize("name, old, new, where, code, subject", WRONG)
def test_one_wrong_cell(folder, name, old, new, where, code, subject):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    error = complaint(folder)
    assert (error.code, error.subject) == (f"importers.{code}", subject)
    assert f"{Path(error.place.file).name}:{error.place.line}" == where


def test_a_formula_that_cannot_be_read_is_placed_in_its_table(folder):
    path = folder / "observables.tsv"
    path.write_text(path.read_text().replace("\tA\t", "\tA +\t", 1))
    error = complaint(folder)
    assert [(one.code, one.subject) for one in error.context[:1]] == [("importers.in_observable", "obs_a")]
    assert (error.place.file, error.place.line) == (str(path), 2)


def test_blank_lines_and_empty_columns_do_not_matter(folder):
    path = folder / "measurements.tsv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{line}\t" for line in lines[:3]] + [""] + lines[3:]) + "\n\n")
    spoiled, whole = petab.load(folder / "exchange.yaml"), petab.load(HERE / "exchange.yaml")
    values = whole.problem.nominal
    assert spoiled.problem.nllh(values) == whole.problem.nllh(values)
    assert spoiled.tables.measurements[-1].source.line == 10


def test_measurements_that_are_blank_are_left_out(folder):
    path = folder / "measurements.tsv"
    path.write_text(path.read_text().replace("2.3015", "NaN"))
    imported = petab.load(folder / "exchange.yaml")
    assert imported.problem.measurements == 7
    assert len(petab.simulate(imported, imported.problem.nominal)) == 7


def test_tables_in_several_files(folder):
    lines = (folder / "measurements.tsv").read_text().splitlines()
    (folder / "measurements.tsv").write_text("\n".join(lines[:4]) + "\n")
    (folder / "more.tsv").write_text("\n".join([lines[0], *lines[4:]]) + "\n")
    text = (folder / "exchange.yaml").read_text()
    (folder / "exchange.yaml").write_text(text.replace("[measurements.tsv]", "[measurements.tsv, more.tsv]"))
    imported = petab.load(folder / "exchange.yaml")
    assert imported.problem.measurements == 8
    source = imported.tables.measurements[3].source
    assert (source.file, source.line) == (str(folder / "more.tsv"), 2)
