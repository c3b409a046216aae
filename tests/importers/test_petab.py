"""PEtab problems: one feature at a time against closed forms, then the published suite and problems where present."""

import os
from math import log
from pathlib import Path

import numpy as np
import pytest

import picardfit as pf

pytest.importorskip("petab", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")

import pandas as pd
import yaml
from scipy import stats

from picardfit.importers import petab

HERE = Path(__file__).parent / "data"
TIMES = np.array([0.0, 0.5, 2.0])
K1, K2, A0, B0 = 0.8, 0.6, 3.0, 0.5


def exchange(times, k1=K1, k2=K2, a0=A0, b0=B0):
    """A of A' = -k1 A + k2 B with A + B conserved."""
    rest = (a0 + b0) * k2 / (k1 + k2)
    return rest + (a0 - rest) * np.exp(-(k1 + k2) * np.asarray(times))


def rows(observable="obs_a", condition="c", times=TIMES, values=None, **others) -> list[dict]:
    values = exchange(times) + 0.1 if values is None else values
    same = {"observableId": observable, "simulationConditionId": condition}
    return [same | {"time": t, "measurement": v} | others for t, v in zip(times, values, strict=True)]


@pytest.fixture
def write(tmp_path):
    """A PEtab problem of the model in tests/petab with these tables: its path."""

    def build(measurements, observables=None, conditions=None, parameters=(), version=1, model="model.xml"):
        observables = observables or {"obs_a": {"observableFormula": "A", "noiseFormula": 0.5}}
        conditions = conditions or {"c": {}}
        base = {
            "k1": {"parameterScale": "log10", "lowerBound": 0.01, "upperBound": 100, "nominalValue": K1},
            "k2": {"parameterScale": "lin", "lowerBound": 0, "upperBound": 10, "nominalValue": K2},
        }
        table = base | dict(parameters)
        plain = {"parameterScale": "lin", "lowerBound": 0, "upperBound": 10, "estimate": 1}
        frames = {
            "parameters": pd.DataFrame([{"parameterId": n} | plain | row for n, row in table.items()]),
            "conditions": pd.DataFrame([{"conditionId": n} | row for n, row in conditions.items()]),
            "observables": pd.DataFrame([{"observableId": n} | row for n, row in observables.items()]),
            "measurements": pd.DataFrame(measurements),
        }
        for name, frame in frames.items():
            frame.to_csv(tmp_path / f"{name}.tsv", sep="\t", index=False)
        (tmp_path / "model.xml").write_text((HERE / model).read_text())
        files = {f"{kind}_files": [f"{kind}s.tsv"] for kind in ("condition", "observable", "measurement")}
        content = {"format_version": version, "parameter_file": "parameters.tsv"}
        content["problems"] = [{"sbml_files": ["model.xml"], **files}]
        (tmp_path / "problem.yaml").write_text(yaml.safe_dump(content))
        return tmp_path / "problem.yaml"

    return build


def normal(data, mean, sd) -> float:
    return -float(np.sum(stats.norm.logpdf(data, mean, sd)))


def nllh(path) -> float:
    problem = petab.read(path)
    return problem.nllh(problem.nominal)


# ---- single features ---------------------------------------------------------------------------------------


def test_scales_bounds_and_nominal_values(write):
    extra = {"fixed": {"nominalValue": 2.0, "estimate": 0}, "idle": {"nominalValue": 4.0}}
    formula = {"obs_a": {"observableFormula": "fixed * A", "noiseFormula": 0.5}}
    with pytest.warns(UserWarning, match="`idle` is not estimated, because no formula uses it"):
        problem = petab.read(write(rows(), formula, parameters=extra))
    assert problem.nominal == {"k1": K1, "k2": K2, "fixed": 2.0, "idle": 4.0}
    assert problem.parameters["k1"] == pf.Parameter(0.01, 100, log=True)
    assert problem.parameters["k2"] == pf.Parameter(0, 10)
    assert problem.layout.count() == 2
    expected = normal(exchange(TIMES) + 0.1, 2 * exchange(TIMES), 0.5)
    assert problem.nllh(problem.nominal) == pytest.approx(expected, rel=1e-8)


def test_conditions_with_numbers_and_empty_cells(write):
    conditions = {"c": {"a0": 1.0, "beta": 2.0}, "d": {"a0": None, "beta": 0.5}}
    path = write(rows("obs_a", "c") + rows("obs_a", "d"), conditions=conditions)
    data = exchange(TIMES) + 0.1
    expected = normal(data, exchange(TIMES, 2 * K1, a0=1.0), 0.5) + normal(data, exchange(TIMES, K1 / 2), 0.5)
    assert petab.read(path).model.inputs == ("beta",)
    assert nllh(path) == pytest.approx(expected, rel=1e-8)


def test_conditions_with_parameters(write):
    conditions = {"c": {"beta": "slow"}, "d": {"beta": "fast"}, "e": {"beta": 1.0}}
    extra = {"slow": {"nominalValue": 0.5}, "fast": {"nominalValue": 3.0}}
    measured = [row for name in conditions for row in rows("obs_a", name)]
    path = write(measured, conditions=conditions, parameters=extra)
    data = exchange(TIMES) + 0.1
    expected = sum(normal(data, exchange(TIMES, K1 * b), 0.5) for b in (0.5, 3.0, 1.0))
    assert nllh(path) == pytest.approx(expected, rel=1e-8)


def test_conditions_that_set_initial_values(write):
    conditions = {"c": {"A": "start", "B": 2.0}, "d": {"A": None, "B": "start"}}
    extra = {"start": {"parameterScale": "log10", "lowerBound": 0.1, "nominalValue": 1.5}}
    path = write(rows("obs_a", "c") + rows("obs_a", "d"), conditions=conditions, parameters=extra)
    data = exchange(TIMES) + 0.1
    expected = normal(data, exchange(TIMES, a0=1.5, b0=2.0), 0.5) + normal(data, exchange(TIMES, b0=1.5), 0.5)
    problem = petab.read(path)
    assert problem.nllh(problem.nominal) == pytest.approx(expected, rel=1e-8)
    assert not len(problem.layout.initial_states)  # they are exact, not estimated
    assert problem.layout.initial(problem.layout.lower)[1].any()  # and carry their derivatives


def test_conditions_that_set_a_volume_keep_amounts(write):
    path = write(rows(), conditions={"c": {"cell": 4.0}})
    expected = normal(exchange(TIMES) + 0.1, exchange(TIMES, b0=0.25), 0.5)  # 1 unit of B in a volume of 4
    assert nllh(path) == pytest.approx(expected, rel=1e-8)


def test_placeholders_that_are_parameters_or_numbers(write):
    formula = "observableParameter1_obs_a * A + observableParameter2_obs_a"
    observables = {"obs_a": {"observableFormula": formula, "noiseFormula": "noiseParameter1_obs_a"}}
    extra = {"scale": {"nominalValue": 2.0}, "sigma": {"nominalValue": 0.3}}
    data = exchange(TIMES) + 0.1
    first = rows(observableParameters="scale;1", noiseParameters="sigma")
    second = rows(observableParameters="3;0.5", noiseParameters="0.7")
    path = write(first + second, observables, parameters=extra)
    expected = normal(data, 2 * exchange(TIMES) + 1, 0.3) + normal(data, 3 * exchange(TIMES) + 0.5, 0.7)
    assert nllh(path) == pytest.approx(expected, rel=1e-8)


def test_a_standard_deviation_for_each_measurement(write):
    observables = {"obs_a": {"observableFormula": "A", "noiseFormula": "noiseParameter1_obs_a"}}
    sds = [0.1, 0.2, 0.4]
    measured = [row | {"noiseParameters": sd} for row, sd in zip(rows(), sds, strict=True)]
    twice = [row | {"noiseParameters": 2 * sd} for row, sd in zip(rows(), sds, strict=True)]
    problem = petab.read(write(measured + twice, observables))
    data = exchange(TIMES) + 0.1
    expected = normal(data, exchange(TIMES), sds) + normal(data, exchange(TIMES), 2 * np.array(sds))
    assert problem.nllh(problem.nominal) == pytest.approx(expected, rel=1e-8)
    assert problem.model.observables == ("obs_a_1", "obs_a_2")  # two values at one time cannot share an input
    assert problem.breaks(0) == ()


@pytest.mark.parametrize("scale, base", [("lin", None), ("log", np.e), ("log10", 10.0)])
@pytest.mark.parametrize("distribution", ["normal", "laplace"])
def test_transformations_and_distributions(write, scale, base, distribution):
    kinds = {"observableTransformation": scale, "noiseDistribution": distribution}
    path = write(rows(), {"obs_a": {"observableFormula": "A", "noiseFormula": 0.3} | kinds})
    data, mean = exchange(TIMES) + 0.1, exchange(TIMES)
    density = stats.norm if distribution == "normal" else stats.laplace
    if base is None:
        expected = -np.sum(density.logpdf(data, mean, 0.3))
    else:
        gaps = np.log(data) / log(base), np.log(mean) / log(base)
        expected = -np.sum(density.logpdf(*gaps, 0.3)) + np.sum(np.log(data * log(base)))
    assert nllh(path) == pytest.approx(expected, rel=1e-7)


def test_noise_that_depends_on_observables_and_states(write):
    observables = {"obs_a": {"observableFormula": "2*A", "noiseFormula": "0.1 + 0.2*obs_a + sd*B"}}
    path = write(rows(), observables, parameters={"sd": {"nominalValue": 0.3}})
    a = exchange(TIMES)
    expected = normal(a + 0.1, 2 * a, 0.1 + 0.4 * a + 0.3 * (A0 + B0 - a))
    assert nllh(path) == pytest.approx(expected, rel=1e-8)


def test_pre_equilibration(write):
    conditions = {"before": {"beta": 0.25}, "c": {"beta": 1.0}, "d": {"beta": 1.0, "B": 2.0}}
    measured = [
        row | {"preequilibrationConditionId": "before"} for name in ("c", "d") for row in rows("obs_a", name)
    ]
    problem = petab.read(write(measured, conditions=conditions))
    rest = (A0 + B0) * K2 / (0.25 * K1 + K2)
    data = exchange(TIMES) + 0.1
    expected = normal(data, exchange(TIMES, a0=rest, b0=A0 + B0 - rest), 0.5)
    expected += normal(data, exchange(TIMES, a0=rest, b0=2.0), 0.5)
    assert problem.nllh(problem.nominal) == pytest.approx(expected, rel=1e-8)
    assert problem.names == ("c after before", "d after before")


def test_measurements_at_rest(write):
    conditions = {"c": {"beta": 2.0, "A": None}, "d": {"beta": 1.0, "A": "start"}}
    measured = [row for name in conditions for row in rows("obs_a", name, [0.5, np.inf], [1.5, 1.2])]
    extra = {"start": {"nominalValue": 2.0}}
    imported = petab.load(write(measured, conditions=conditions, parameters=extra))
    assert imported.problem.names == ("c", "c at rest", "d", "d at rest")
    settled = [3.5 * K2 / (2 * K1 + K2), 2.5 * K2 / (K1 + K2)]
    moving = [exchange(0.5, 2 * K1), exchange(0.5, a0=2.0)]
    expected = normal([1.5, 1.5, 1.2, 1.2], [*moving, *settled], 0.5)
    values = imported.problem.nominal
    assert imported.problem.nllh(values) == pytest.approx(expected, rel=1e-8)
    found = petab.simulate(imported, values)
    assert list(found["time"]) == ["0.5", "inf", "0.5", "inf"]
    assert list(found["simulation"][1::2]) == pytest.approx(settled, rel=1e-9)


def test_measurements_at_rest_after_a_pre_equilibration(write):
    conditions = {"before": {"beta": 0.25, "A": None}, "c": {"beta": 2.0, "A": 1.0}}
    measured = rows("obs_a", "c", [0.5, np.inf], [1.5, 1.2])
    path = write([row | {"preequilibrationConditionId": "before"} for row in measured], conditions=conditions)
    problem = petab.read(path)
    rest = (A0 + B0) * (0.25 * K1) / (0.25 * K1 + K2)  # of B
    settled = (1.0 + rest) * K2 / (2 * K1 + K2)
    expected = normal([1.5, 1.2], [exchange(0.5, 2 * K1, a0=1.0, b0=rest), settled], 0.5)
    assert problem.nllh(problem.nominal) == pytest.approx(expected, rel=1e-8)
    # the derivative of a steady state after a steady state
    layout = problem.layout
    x = layout.internal(np.tile([[K1, K2]], (2, 1)))
    slope = layout.initial(x)[1]
    for c in range(2):
        step = np.eye(2)[c] * 1e-5
        change = (layout.initial(x + step)[0] - layout.initial(x - step)[0]) / 2e-5
        assert slope[..., c] == pytest.approx(change, rel=1e-6, abs=1e-9)


def test_what_measurements_at_rest_determine(write):
    times = [0.2, 0.5, 1.0, 2.0, np.inf]
    values = [*exchange(times[:-1]), 3.5 * K2 / (K1 + K2)]
    fit = pf.fit(petab.read(write(rows(times=times, values=values))))
    assert fit.success
    assert fit.parameters == pytest.approx({"k1": K1, "k2": K2}, rel=1e-6)


def test_time_in_formulas(write):
    observables = {"obs_a": {"observableFormula": "A + time", "noiseFormula": 0.5}}
    expected = normal(exchange(TIMES) + 0.1, exchange(TIMES) + TIMES, 0.5)
    assert nllh(write(rows(), observables)) == pytest.approx(expected, rel=1e-8)


def dosed(times, dose, at, start=2.0, k1=K1, k2=K2):
    """A of tests/petab/dose.xml."""
    times = np.asarray(times)
    rest = k2 / k1
    return rest + (start - rest) * np.exp(-k1 * times) + dose * np.exp(-k1 * (times - at)) * (times >= at)


def test_events_that_add_a_dose(write):
    conditions = {
        "c": {"dose": 1.0, "t_dose": 0.5, "A": 2.0},
        "d": {"dose": "top", "t_dose": 1.0, "A": "top"},
    }
    path = write(
        rows(condition="c") + rows(condition="d"),
        conditions=conditions,
        parameters={"top": {"nominalValue": 3.0}},
        model="dose.xml",
    )
    problem = petab.read(path)
    assert problem.breaks(0) == (0.5,)
    assert problem.breaks(1) == (1.0,)
    data = exchange(TIMES) + 0.1
    expected = normal(data, dosed(TIMES, 1.0, 0.5), 0.5) + normal(data, dosed(TIMES, 3.0, 1.0, 3.0), 0.5)
    assert problem.nllh(problem.nominal) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("cell", [None, 4.0])
def test_events_after_a_pre_equilibration(write, cell):
    conditions = {"before": {"dose": 0.0, "A": None}, "c": {"dose": 1.5, "A": cell}}
    measured = [row | {"preequilibrationConditionId": "before"} for row in rows()]
    start = K2 / K1 if cell is None else cell
    expected = normal(exchange(TIMES) + 0.1, dosed(TIMES, 1.5, 1.0, start), 0.5)
    assert nllh(write(measured, conditions=conditions, model="dose.xml")) == pytest.approx(expected, rel=1e-8)


def test_the_size_of_a_dose_is_estimated(write, tmp_path):
    times = np.linspace(0, 4, 17)
    measured = rows(times=times, values=dosed(times, 1.7, 1.0))
    problem = petab.read(write(measured, parameters={"dose": {}}, model="dose.xml"))
    fit = pf.fit(problem)
    assert fit.success
    assert fit.parameters == pytest.approx({"k1": K1, "k2": K2, "dose": 1.7}, rel=1e-5)
    fit.save(tmp_path / "fit.json")
    again = pf.load(tmp_path / "fit.json")
    assert again.predict("c", times)["obs_a"] == pytest.approx(fit.predict("c", times)["obs_a"])


@pytest.mark.parametrize(
    "kind, numbers, prior",
    [
        ("normal", "1;2", pf.priors.Normal(1, 2)),
        ("parameterScaleNormal", "-1;2", pf.priors.Normal(-1, 2, base=10)),
        ("laplace", "1;2", pf.priors.Laplace(1, 2)),
        ("logNormal", "0;2", pf.priors.LogNormal(0, 2)),
        ("uniform", "0.1;5", pf.priors.Uniform(0.1, 5)),
    ],
)
def test_objective_priors(write, kind, numbers, prior):
    row = {"parameterScale": "log10", "lowerBound": 0.01, "upperBound": 100, "nominalValue": K1}
    row |= {"objectivePriorType": kind, "objectivePriorParameters": numbers}
    assert petab.read(write(rows(), parameters={"k1": row})).parameters["k1"].prior == prior


# ---- fits and files ----------------------------------------------------------------------------------------


def test_fit_and_results_in_petab_tables(tmp_path):
    imported = petab.load(HERE / "exchange.yaml")
    fit = pf.fit(imported.problem)
    assert fit.success
    assert fit.nllh < imported.problem.nllh(imported.problem.nominal)
    paths = petab.write(fit, imported, tmp_path)
    table = pd.read_csv(paths["parameters"], sep="\t", index_col="parameterId")
    assert table.loc["k1", "nominalValue"] == pytest.approx(fit.parameters["k1"])
    assert table.loc["k1", "parameterScale"] == "log10"
    assert petab.on_scale(100.0, imported.scales["k1"]) == pytest.approx(2.0)
    simulated = pd.read_csv(paths["simulations"], sep="\t")
    expected = exchange(simulated["time"].to_numpy(), fit.parameters["k1"], fit.parameters["k2"])
    assert simulated["simulation"].to_numpy() == pytest.approx(expected, rel=1e-6)
    assert list(simulated.columns) == ["observableId", "simulationConditionId", "time", "simulation"]


def test_an_imported_problem_is_saved(write, tmp_path):
    conditions = {"before": {"beta": 0.25}, "c": {"beta": 1.0}}
    measured = [row | {"preequilibrationConditionId": "before"} for row in rows()]
    problem = petab.read(write(measured, conditions=conditions))
    fit = pf.fit(problem, pf.LiftedGaussNewton(max_iterations=3))
    fit.save(tmp_path / "fit.json")
    again = pf.load(tmp_path / "fit.json").problem
    assert again.nominal == problem.nominal
    assert again.nllh(again.nominal) == problem.nllh(problem.nominal)


# ---- messages ----------------------------------------------------------------------------------------------


def test_what_is_refused(write, tmp_path):
    with pytest.raises(pf.InputError, match="no file"):
        petab.read(tmp_path / "nothing.yaml")
    with pytest.raises(
        pf.InputError, match=r"tsv:3: `obs_a` is measured in steady state .* changes with time"
    ):
        petab.read(write(rows(times=[1.0, np.inf], values=[1, 2]), model="dose.xml"))
    with pytest.raises(pf.InputError, match="`obs_b`"):
        petab.read(write(rows("obs_b")))
    with pytest.raises(pf.InputError, match="`nowhere` is not a parameter"):
        petab.read(write(rows(), conditions={"c": {"beta": "nowhere"}}))
    with pytest.raises(pf.InputError, match="`nowhere` is neither in the SBML file nor"):
        petab.read(write(rows(), {"obs_a": {"observableFormula": "nowhere * A", "noiseFormula": 1}}))
    kinds = {"observableTransformation": "log10"}
    with pytest.raises(pf.InputError, match="logarithmic scale"):
        petab.read(
            write(rows(values=[1, -1, 2]), {"obs_a": {"observableFormula": "A", "noiseFormula": 1} | kinds})
        )
    with pytest.raises(pf.InputError, match="parameterScale `ln`"):
        petab.read(write(rows(), parameters={"k1": {"parameterScale": "ln", "nominalValue": 1}}))


# ---- published problems, where they are present ------------------------------------------------------------


def shared() -> Path | None:
    """The folder shared/petab beside the repository, or the one that PICARDFIT_PETAB names."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "petab"
    folder = Path(os.environ.get("PICARDFIT_PETAB", beside))
    return folder if folder.is_dir() else None


SUITE = "petab_test_suite_v1.0.0_sbml"
CASES = [f"{k:04d}" for k in range(1, 21)]
NOMINAL = {  # negative log-likelihoods at the nominal parameters, from the README of each folder
    "Boehm_JProteomeRes2014": 138.22200,
    "Crauste_CellSystems2017": 190.96398,
    "Bruno_JExpBot2016": -46.68818,
    "Elowitz_Nature2000": -63.20275,
}


@pytest.fixture
def published():
    folder = shared()
    if folder is None:
        pytest.skip("the published PEtab problems (shared/petab) are not beside this repository")
    return folder


@pytest.mark.parametrize("case", CASES)
def test_the_suite(published, case):
    folder = published / SUITE / case
    solution = yaml.safe_load((folder / f"_{case}_solution.yaml").read_text())
    imported = petab.load(folder / f"_{case}.yaml")
    found = petab.simulate(imported, imported.problem.nominal)
    wanted = pd.read_csv(folder / "_simulations.tsv", sep="\t")
    assert found["simulation"].to_numpy() == pytest.approx(
        wanted["simulation"].to_numpy(), abs=solution["tol_simulations"]
    )
    value = imported.problem.nllh(imported.problem.nominal)
    assert -value == pytest.approx(solution["llh"], abs=solution["tol_llh"])


@pytest.mark.parametrize("name", NOMINAL)
def test_published_likelihoods(published, name):
    problem = petab.read(published / name / f"{name}.yaml")
    assert problem.nllh(problem.nominal) == pytest.approx(NOMINAL[name], rel=1e-6)
