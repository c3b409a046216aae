"""PEtab version 2: the same problems as in version 1, and what is not read."""

import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import picardfit as pf

pytest.importorskip("libsbml", reason="PEtab problems need python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("yaml", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")

import yaml

from picardfit.importers import petab
from picardfit.search.starts import make_start

HERE = Path(__file__).parent / "data"
K1, K2, A0, B0 = 0.8, 0.6, 3.0, 0.5
TIMES = np.array([0.0, 0.5, 2.0])
DATA = np.array([2.5, 2.0, 1.4])


def exchange(times, k1=K1, k2=K2, a0=A0, b0=B0):
    rest = (a0 + b0) * k2 / (k1 + k2)
    return rest + (a0 - rest) * np.exp(-(k1 + k2) * np.asarray(times))


def table(*lines: str) -> str:
    """Rows of words separated by blanks as TSV, `-` for an empty cell."""
    return "\n".join("\t".join("" if w == "-" else w for w in line.split()) for line in lines) + "\n"


def measured(experiment: str, *more: str, observable: str = "obs_a") -> list[str]:
    return [
        " ".join([observable, experiment, str(t), str(v), *more]) for t, v in zip(TIMES, DATA, strict=True)
    ]


PARAMETERS = [
    "parameterId lowerBound upperBound nominalValue estimate priorDistribution priorParameters",
    "k1 0.01 100 0.8 true - -",
    "k2 0 10 0.6 true normal 1;2",
]
OBSERVABLES = ["observableId observableFormula noiseFormula", "obs_a A 0.5"]
MEASUREMENTS = ["observableId experimentId time measurement"]
EXPERIMENTS = ["experimentId time conditionId"]
CONDITIONS = ["conditionId targetId targetValue"]


@pytest.fixture
def write(tmp_path):
    """A problem of version 2 on the model in tests/petab: the path of its YAML file."""

    def build(measurements, observables=OBSERVABLES, parameters=(), experiments=(), conditions=(), **entries):
        tables = {
            "parameter": [*PARAMETERS, *parameters],
            "observable": observables,
            "measurement": measurements,
            "experiment": [*EXPERIMENTS, *experiments],
            "condition": [*CONDITIONS, *conditions],
        }
        content: dict = {"format_version": "2.0.0"}
        content["model_files"] = {"exchange": {"location": "model.xml", "language": "sbml"}}
        for kind, lines in tables.items():
            (tmp_path / f"{kind}s.tsv").write_text(table(*lines))
            content[f"{kind}_files"] = [f"{kind}s.tsv"]
        shutil.copy(HERE / "model.xml", tmp_path)
        (tmp_path / "problem.yaml").write_text(yaml.safe_dump(content | entries))
        return tmp_path / "problem.yaml"

    return build


def normal(mean, sd=0.5) -> float:
    return -float(np.sum(stats.norm.logpdf(DATA, mean, sd)))


def nllh(path) -> float:
    problem = petab.read(path)
    return problem.nllh(problem.nominal)


def test_the_model_as_it_is(write):
    path = write([*MEASUREMENTS, *measured("-")])
    problem = petab.read(path)
    assert problem.nllh(problem.nominal) == pytest.approx(normal(exchange(TIMES)), rel=1e-8)
    assert problem.parameters["k1"] == pf.Parameter(0.01, 100, log=True)  # its bounds are decades apart
    assert problem.parameters["k2"] == pf.Parameter(
        0, 10, prior=(known := pf.priors.Normal(1, 2)), drawn=known
    )


def test_experiments_of_one_period(write):
    path = write(
        [*MEASUREMENTS, *measured("one"), *measured("two")],
        parameters=["start 0.1 10 2 true - -"],
        experiments=["one 0 fast", "one 0 full", "two 0 slow"],
        conditions=["fast beta 2", "full A start", "slow beta k2/2"],
    )
    expected = normal(exchange(TIMES, 2 * K1, a0=2.0)) + normal(exchange(TIMES, K1 * K2 / 2))
    assert petab.read(path).names == ("one", "two")
    assert nllh(path) == pytest.approx(expected, rel=1e-8)


def test_a_pre_equilibration_leaves_its_constants_behind(write):
    path = write(
        [*MEASUREMENTS, *measured("one"), *measured("two")],
        experiments=["one -inf slow", "two -inf slow", "two 0 fast"],
        conditions=["slow beta 0.25", "fast beta 2", "fast B 2"],
    )
    rest = (A0 + B0) * K2 / (K1 / 4 + K2)
    expected = normal(rest) + normal(exchange(TIMES, 2 * K1, a0=rest, b0=2.0))
    assert nllh(path) == pytest.approx(expected, rel=1e-8)
    assert petab.read(path).names == ("one after slow", "two after slow")


def test_placeholders_and_distributions(write):
    path = write(
        [
            "observableId experimentId time measurement observableParameters noiseParameters",
            *measured("-", "scale;1", "sigma"),
            *measured("-", "-", "-", observable="obs_b"),
        ],
        observables=[
            "observableId observableFormula noiseFormula noiseDistribution observablePlaceholders noisePlaceholders",
            "obs_a factor*A+offset sd normal factor;offset sd",
            "obs_b A 0.3 log-laplace - -",
        ],
        parameters=["scale 0.1 10 2 true - -", "sigma 0.1 10 0.7 false - -"],
    )
    mean = exchange(TIMES)
    laplace = -np.sum(stats.laplace.logpdf(np.log(DATA), np.log(mean), 0.3)) + np.sum(np.log(DATA))
    assert nllh(path) == pytest.approx(normal(2 * mean + 1, 0.7) + laplace, rel=1e-8)


def test_fit_and_results(write, tmp_path):
    path = write([*MEASUREMENTS, *measured("one")], experiments=["one 0 -"])
    imported = petab.load(path)
    fit = pf.fit(imported.problem)
    assert fit.success
    files = petab.write(fit, imported, tmp_path / "results")
    text = files["parameters"].read_text().splitlines()
    assert text[0].split("\t") == PARAMETERS[0].split()
    assert float(text[1].split("\t")[3]) == pytest.approx(fit.parameters["k1"])
    assert files["simulations"].read_text().splitlines()[0].split("\t")[-1] == "simulation"


def test_the_library_reads_the_same_problem(write):
    v2 = pytest.importorskip("petab.v2", reason="compares with the library: pip install petab")
    path = write(
        [*MEASUREMENTS, *measured("one")],
        experiments=["one -inf slow", "one 0 fast"],
        conditions=["slow beta 0.25", "fast beta 2"],
    )
    theirs, ours = v2.Problem.from_yaml(path), petab.load(path)
    assert theirs.x_ids == list(ours.tables.parameters)
    assert theirs.n_measurements == len(ours.tables.measurements)
    assert [e.id for e in theirs.experiments] == ["one"]


@pytest.mark.parametrize(
    "changed, where, code, subject",
    [
        ({"experiments": ["one 0 -", "one inf -"]}, "experiments.tsv:3", "period", "one"),
        ({"experiments": ["one 1 -"]}, "measurements.tsv:2", "measured_too_early", "obs_a"),
        (
            {"experiments": ["one 0 a"], "conditions": ["a k1 1"]},
            "conditions.tsv:2",
            "condition_sets_parameter",
            "k1",
        ),
        ({"experiments": ["two 0 -"]}, "measurements.tsv:2", "not_in_table", "one"),
        ({"experiments": ["one 0 fast"]}, "experiments.tsv:2", "not_in_table", "fast"),
        (
            {"experiments": ["one 0 a", "one 0 b"], "conditions": ["a beta 1", "b beta 2"]},
            "experiments.tsv:2",
            "set_twice",
            "one",
        ),
        ({"conditions": ["a beta -"]}, "conditions.tsv:2", "empty_cell", "targetValue"),
        ({"parameters": ["s 0 1 1 1 - -"]}, "parameters.tsv:4", "unknown_word", "estimate"),
        (
            {"parameters": ["s 0 1 1 true rayleihg 1"]},
            "parameters.tsv:4",
            "unknown_word",
            "priorDistribution",
        ),
        (
            {"model_files": {"m": {"location": "m.net", "language": "bngl"}}},
            "YAML:9",
            "model_language",
            "m",
        ),
        ({"model_files": ["m.xml"]}, "YAML:8", "model_files", ""),
        ({"observable_files": []}, "YAML:12", "no_table", "observable"),
        ({"parameters": ["A 0 1 1 true - -"]}, "parameters.tsv:4", "parameter_varies", "A"),
    ],
)
def test_what_is_refused(write, changed, where, code, subject):
    path = write([*MEASUREMENTS, *measured("one")], **{"experiments": ["one 0 -"]} | changed)
    with pytest.raises(pf.InputError) as caught:
        petab.read(path)
    error = caught.value
    assert (error.code, error.subject) == (f"importers.{code}", subject)
    assert f"{Path(error.place.file).name}:{error.place.line}" == where.replace("YAML", path.name)


@pytest.mark.parametrize(
    "entries, columns, where, code",
    [
        ({"extensions": {"select": {"version": "1", "required": True}}}, "", "problem.yaml", "extensions"),
        ({"extensions": {"select": {"version": "1"}}}, "", "problem.yaml", "extensions"),
        ({"observable_files": ["../observables.tsv"]}, "", "problem.yaml", "outside_folder"),
        ({}, "measurementType", "measurements.tsv:2", "unsupported_column"),
        (
            {
                "model_files": {
                    name: {"location": "model.xml", "language": "sbml"} for name in ("first", "second")
                }
            },
            "",
            "problem.yaml",
            "several_models",
        ),
    ],
)
def test_what_changes_the_meaning_is_refused(write, entries, columns, where, code):
    rows = measured("one", "ordinal") if columns else measured("one")
    path = write([f"{MEASUREMENTS[0]} {columns}".strip(), *rows], experiments=["one 0 -"], **entries)
    with pytest.raises(pf.InputError) as caught:
        petab.read(path)
    assert caught.value.code == f"importers.{code}"
    place = caught.value.place
    assert f"{Path(place.file).name}:{place.line}".startswith(where)
    assert place.line


def test_what_does_not_change_the_meaning_is_said_in_one_line(write):
    entries = {"extensions": {"plots": {"version": "1", "required": False}}, "visualization_files": ["v.tsv"]}
    path = write([*MEASUREMENTS, *measured("one")], experiments=["one 0 -"], **entries)
    found = petab.load(path)
    assert found.ignored.values == {"what": "the extension plots, visualization tables"}
    assert found.problem.nllh(found.problem.nominal) == pytest.approx(normal(exchange(TIMES)), rel=1e-8)


def test_observables_in_formulas_of_others(write):
    path = write(
        [*MEASUREMENTS, *measured("-", observable="twice")],
        observables=[
            "observableId observableFormula noiseFormula",
            "obs_a A 0.5",
            "twice 2*shifted 0.1+obs_a",
            "shifted obs_a+1 1",
        ],
    )
    a = exchange(TIMES)
    assert nllh(path) == pytest.approx(normal(2 * (a + 1), 0.1 + a), rel=1e-8)


def test_observables_that_depend_on_themselves(write):
    lines = ["observableId observableFormula noiseFormula", "obs_a 2*b 0.5", "b obs_a+A 1"]
    with pytest.raises(pf.InputError, match="depends on itself"):
        petab.read(write([*MEASUREMENTS, *measured("-")], observables=lines))


def test_starting_points_come_from_the_prior(write):
    rows = ["k3 0.1 10 1 true log-normal 0.7;0.02", "k4 0 10 1 true - -"]
    observables = ["observableId observableFormula noiseFormula", "obs_a k3*k4*A 0.5"]
    problem = petab.read(write([*MEASUREMENTS, *measured("-")], observables, parameters=rows))
    draws = [make_start(problem, rng=np.random.default_rng(k), matched=False).unknowns[0] for k in range(40)]
    names = list(problem.layout.names)
    natural = np.array([problem.layout.parameters(one[None])[0] for one in draws])
    k3, k4 = natural[:, names.index("k3")], natural[:, names.index("k4")]
    assert np.log(k3).mean() == pytest.approx(0.7, abs=0.02)
    assert np.log(k3).std() == pytest.approx(0.02, rel=0.5)
    assert k4.std() > 1


def published() -> Path:
    beside = Path(__file__).resolve().parents[3] / "shared" / "petab"
    folder = Path(os.environ.get("PICARDFIT_PETAB", beside)) / "petab_test_suite_v2.0.0_sbml"
    if not folder.is_dir():
        pytest.skip("the published PEtab suite (shared/petab) is not beside this repository")
    return folder


CASES = [f"{k:04d}" for k in range(1, 33) if k != 19]


@pytest.mark.parametrize("case", CASES)
def test_the_suite(case):
    folder = published() / case
    solution = yaml.safe_load((folder / f"_{case}_solution.yaml").read_text())
    imported = petab.load(folder / f"_{case}.yaml")
    values = imported.problem.nominal
    simulated = petab.simulate(imported, values)["simulation"].to_numpy(float)
    wanted = pd.read_csv(folder / "_simulations.tsv", sep="\t")["simulation"].to_numpy(float)
    assert simulated == pytest.approx(wanted, abs=solution["tol_simulations"])
    assert -imported.problem.nllh(values) == pytest.approx(solution["llh"], abs=solution["tol_llh"])
    chi2 = petab.chi_squared(imported, values)
    assert chi2 == pytest.approx(solution["chi2"], abs=solution["tol_chi2"])
    if "log_prior" in solution:
        assert imported.log_priors(values) == pytest.approx(solution["log_prior"], abs=1e-13)


def test_a_broken_model_is_named(write):
    path = write([*MEASUREMENTS, *measured("one")], experiments=["one -inf a"], conditions=["a beta 2"])
    (path.parent / "model.xml").write_text("<sbml>")
    with pytest.raises(pf.InputError, match=r"model.xml:\d+: This is not valid SBML"):
        petab.read(path)


@pytest.mark.parametrize(
    ("kind", "column", "cell", "code"),
    [
        ("parameters", "initializationPriorType", "uniform", "importers.column_of_version"),
        ("parameters", "initializationPriorParameters", "0;1", "importers.column_of_version"),
        ("parameters", "objectivePriorType", "normal", "importers.column_of_version"),
        ("parameters", "parameterScale", "log10", "importers.column_of_version"),
        ("observables", "observableTransformation", "log", "importers.column_of_version"),
        ("measurements", "simulationConditionId", "c0", "importers.column_of_version"),
        ("measurements", "measurementType", "ordinal", "importers.unsupported_column"),
    ],
)
def test_columns_that_change_the_meaning_are_refused(write, kind, column, cell, code):
    path = write([*MEASUREMENTS, *measured("-")])
    _with_column(path.parent / f"{kind}.tsv", column, cell)
    with pytest.raises(pf.InputError) as caught:
        petab.load(path)
    assert (caught.value.code, caught.value.subject, caught.value.place.line) == (code, column, 2)


def test_columns_without_a_meaning_are_named_in_the_line_of_what_is_not_read(write):
    path = write([*MEASUREMENTS, *measured("-")], experiments=["e0 0 -"])
    _with_column(path.parent / "parameters.tsv", "parameterScale", "lin")  # the scale of version 2
    _with_column(path.parent / "measurements.tsv", "note", "by hand")
    _with_column(path.parent / "experiments.tsv", "colour", "red")
    ignored = petab.load(path).ignored
    assert ignored is not None
    for word in ("note of measurements.tsv", "colour of experiments.tsv"):
        assert word in str(ignored)


def _with_column(path: Path, name: str, cell: str) -> None:
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{header}\t{name}", *(f"{row}\t{cell}" for row in rows)]) + "\n")


@pytest.mark.parametrize("cell", ["NaN", "-"])
def test_rows_without_a_number_are_left_out_with_a_remark(write, cell):
    with pytest.warns(UserWarning, match=r"measurements.tsv has 1 row without .* the first in line 5"):
        imported = petab.load(write([*MEASUREMENTS, *measured("-"), f"obs_a - 3 {cell}"]))
    assert imported.problem.measurements == len(TIMES)


@pytest.mark.parametrize("column", ["noiseParameters", "observableParameters"])
def test_values_for_placeholders_that_the_formula_does_not_have_are_refused(write, column):
    header = [f"{MEASUREMENTS[0]} {column}"]
    with pytest.raises(pf.InputError) as caught:
        petab.load(write([*header, *measured("-", "0.3")]))
    assert caught.value.code == "importers.too_many_placeholders"
    assert caught.value.values == {"column": column, "needed": 0, "given": 1}


def test_numbers_of_a_prior_without_a_distribution_are_refused(write):
    with pytest.raises(pf.InputError) as caught:
        petab.load(write([*MEASUREMENTS, *measured("-")], parameters=["k3 0 10 0.6 true - 1;2"]))
    assert (caught.value.code, caught.value.place.line) == ("importers.prior_without_kind", 4)


def test_a_prior_with_too_few_numbers_names_its_own_column(write):
    path = write([*MEASUREMENTS, *measured("-")])
    table = path.parent / "parameters.tsv"
    table.write_text(table.read_text().replace("normal\t1;2", "normal\t1"))
    with pytest.raises(pf.InputError, match=r"`k2`: priorParameters needs 2 numbers: write 2 numbers, for"):
        petab.load(path)


@pytest.mark.parametrize("level", ["0", "-1", "2-3"])
def test_noise_that_is_not_positive_is_refused_where_it_is_written(write, level):
    path = write([*MEASUREMENTS, *measured("-")])
    table = path.parent / "observables.tsv"
    table.write_text(table.read_text().replace("0.5", level))
    with pytest.raises(pf.InputError) as caught:
        petab.load(path)
    assert (caught.value.code, caught.value.place.line) == ("importers.noise_not_positive", 2)


def test_a_row_with_too_many_cells_is_named_by_its_line(write):
    path = write([*MEASUREMENTS, *measured("-")])
    with (path.parent / "parameters.tsv").open("a") as file:
        file.write("k3\t0\t1\t1\ttrue\t\t\t\tmore\n")
    with pytest.raises(pf.InputError, match="has 9 cells, but the header names 7") as caught:
        petab.load(path)
    assert caught.value.place.line == 4


def test_an_empty_table_is_called_empty(write):
    path = write([*MEASUREMENTS, *measured("-")])
    (path.parent / "parameters.tsv").write_text("")
    with pytest.raises(pf.InputError, match="The parameter table is empty"):
        petab.load(path)


def test_a_measurement_of_another_model_is_refused(write):
    path = write([*MEASUREMENTS, *measured("-")])
    _with_column(path.parent / "measurements.tsv", "modelId", "exchange")
    assert petab.load(path).problem.measurements == len(TIMES)
    path = write([*MEASUREMENTS, *measured("-")])
    _with_column(path.parent / "measurements.tsv", "modelId", "other")
    with pytest.raises(pf.InputError, match="The modelId `other` is not supported: use `exchange`"):
        petab.load(path)
