"""PEtab files that are wrong in one place: one sentence names the file and what to do."""

import shutil
from pathlib import Path

import pytest

import picardfit as pf

pytest.importorskip("libsbml", reason="PEtab problems need python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("yaml", reason="PEtab problems need petab: pip install 'picardfit[petab]'")

from picardfit.importers import petab

HERE = Path(__file__).parent / "data"


@pytest.fixture
def folder(tmp_path):
    """A copy of tests/petab to spoil."""
    return shutil.copytree(HERE, tmp_path / "problem")


def complaint(folder) -> str:
    with pytest.raises(pf.InputError) as caught:
        petab.load(folder / "exchange.yaml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    return message


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
    assert f"there is no {FILES[name]}" in complaint(folder)
    assert name in complaint(folder)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01", b"nothing of use\n1\n"])
def test_files_that_are_something_else(folder, name, content):
    (folder / name).write_bytes(content)
    assert f"`{name}`" in complaint(folder)


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "holds no entries"),
        ("just text", "holds no entries"),
        ("a: [1", "is not a YAML file (line 1: "),
        ("format_version: 3", "has format_version 3: PEtab versions 1 and 2 are read"),
        ("format_version: 1", "does not hold exactly one problem"),
        ("format_version: 1\nproblems: [{}]", "no parameter table is named"),
        ("format_version: 1\nproblems: [{}]\nparameter_file: {a: 1}", "is not the name of a file"),
        ("format_version: 1\nextensions: {fast: 1}", "uses the extension `fast`"),
    ],
)
def test_entries_of_the_yaml_file(folder, content, message):
    (folder / "exchange.yaml").write_text(content)
    assert message in complaint(folder)


WRONG = [  # file, old text, new text, what the message says
    (
        "measurements.tsv",
        "obs_a\ta\t0.25",
        "obs_x\ta\t0.25",
        "`measurements.tsv`, line 3 names the observable `obs_x`",
    ),
    (
        "measurements.tsv",
        "obs_a\ta\t0.25",
        "obs_a\tb\t0.25",
        "`measurements.tsv`, line 3 names the condition `b`",
    ),
    ("measurements.tsv", "obs_a\ta\t0.25", "obs_a\t\t0.25", "line 3: simulationConditionId is empty"),
    ("measurements.tsv", "0.25", "soon", "`measurements.tsv`, line 3: `soon` in time is not a number"),
    ("measurements.tsv", "2.3015", "two", "`measurements.tsv`, line 3: `two` in measurement is not a number"),
    ("measurements.tsv", "2.3015", "inf", "line 3 has time 0.25 and measurement inf"),
    ("measurements.tsv", "0.25", "-1", "line 3 has time -1"),
    ("measurements.tsv", "0.25", "", "line 3 has time nothing"),
    (
        "measurements.tsv",
        "\ttime\t",
        "\tTime\t",
        "has no column time: add it, with tabs between columns. Did you mean `Time`?",
    ),
    (
        "parameters.tsv",
        "log10\t0.01\t100\t0.8",
        "ln\t0.01\t100\t0.8",
        "`parameters.tsv`, line 2: the parameterScale `ln`",
    ),
    ("parameters.tsv", "0.01\t100\t0.8", "\t100\t0.8", "the parameter `k1` has no bounds"),
    ("parameters.tsv", "0.01\t100\t0.8", "0\t100\t0.8", "lowerBound of `k1` is 0 on a logarithmic scale"),
    ("parameters.tsv", "0.01\t100\t0.8", "100\t0.01\t0.8", "lowerBound of `k1` is above its upperBound"),
    ("parameters.tsv", "0.8\t1", "0.8\tyes", "line 2: `yes` in estimate is not a number"),
    ("parameters.tsv", "0.8\t1", "0.8\t2", "line 2: estimate of `k1` is `2`: write 0 or 1"),
    ("parameters.tsv", "0.8\t1", "\t0", "the fixed parameter `k1` has no value"),
    ("parameters.tsv", "0.8\t1", "inf\t1", "nominalValue of `k1` is inf"),
    ("parameters.tsv", "k2", "k1", "line 3: `k1` stands in the parameter table twice"),
    ("parameters.tsv", "k2", "", "line 3: parameterId is empty"),
    ("parameters.tsv", "k2", "k 2", "line 3: `k 2` is not a name"),
    ("observables.tsv", "\tA\t", "\tA +\t", "`observables.tsv`, line 2: the observable `obs_a`"),
    (
        "observables.tsv",
        "\tA\t",
        "\tAA\t",
        "which is neither in the SBML file nor a parameter: correct it. Did you mean `A`?",
    ),
    ("observables.tsv", "\tA\t", "\t\t", "the observable `obs_a` has no formula"),
    ("observables.tsv", "0.1", "sigma", "`observables.tsv`, line 2: the noise of `obs_a` uses `sigma`"),
    ("observables.tsv", "0.1", "noiseParameter1_obs_a", "needs 1 values in noiseParameters, there are 0"),
    (
        "conditions.tsv",
        "conditionName\na\tthe only one",
        "bta\na\t1",
        "sets `bta`, which is neither in the model nor in a formula",
    ),
    (
        "conditions.tsv",
        "conditionName\na\tthe only one",
        "beta\na\tfast",
        "the condition `a` of the condition table names `fast`, which is no parameter",
    ),
    ("conditions.tsv", "conditionName\na\tthe only one", "beta\na\tinf", "has the number inf"),
    (
        "conditions.tsv",
        "conditionName\na\tthe only one",
        "beta\na\t2*A + k1",
        "has the formula `2*A + k1` with `A`, which is neither a parameter nor a constant of the model",
    ),
    (
        "model.xml",
        "<ci> beta </ci>",
        "<ci> bata </ci>",
        "`model.xml`: the identifier `bata` is used but not defined",
    ),
    ("model.xml", "</listOfReactions>", "", "`model.xml` is not valid SBML (line "),
    ("exchange.yaml", "[model.xml]", "[model.xml, other.xml]", "it names 2 SBML files"),
]


@pytest.mark.parametrize("name, old, new, message", WRONG)
def test_one_wrong_cell(folder, name, old, new, message):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    assert message in complaint(folder)


def test_blank_lines_and_empty_columns_do_not_matter(folder):
    path = folder / "measurements.tsv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{line}\t" for line in lines[:3]] + [""] + lines[3:]) + "\n\n")
    spoiled, whole = petab.load(folder / "exchange.yaml"), petab.load(HERE / "exchange.yaml")
    values = whole.problem.nominal
    assert spoiled.problem.nllh(values) == whole.problem.nllh(values)
    assert spoiled.tables.measurements[-1].where == "`measurements.tsv`, line 10"


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
    assert imported.tables.measurements[3].where == "`more.tsv`, line 2"
