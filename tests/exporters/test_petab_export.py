"""Problems as PEtab: read back by ourselves with the same likelihood, and by the petab library without an error."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import picardfit as pf
from picardfit.cli import app
from picardfit.model.inputs import Table

pytest.importorskip("libsbml", reason="PEtab problems need python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("yaml", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")

from picardfit.importers import petab

TIMES = np.linspace(0.5, 6, 8)
MODEL = pf.Model(
    "gut' = -ka*gut\nc' = ka*gut/v - cl/v*c + u - 0.1*w*c",
    {"conc": "c", "left": "sqrt(gut + 1)"},
    inputs=["u", "w"],
)
PARAMETERS = {
    "ka": (0.1, 5),
    "v": pf.Parameter(0.1, 10, log=True, prior=pf.priors.LogNormal(0, 1)),
    "cl": pf.Parameter(0, 3, prior=pf.priors.Gamma(2.0, 4.0)),
}
VALUES = {"ka": 1.0, "v": 2.0, "cl": 0.5}
DOSES = pf.Doses([0, 2, 4], [10, 5, 3.0], "gut")
INFUSION = pf.Doses([1.0], [4.0], "c", duration=1.5)
LINES = Table(np.array([0, 1, 3.0, 3.0]), np.array([0, 2.0, 1, 0]), "linear")
NOISE = pf.Noise(additive=0.1)


def experiments(u=(0.0, 1.0), w=(0.0, 0.5), **more) -> list[pf.Experiment]:
    rng = np.random.default_rng(0)
    return [
        pf.Experiment(
            TIMES,
            {"conc": rng.random(8) + 0.1, "left": rng.random(8) + 0.1},
            name=f"patient {k}",
            inputs={"u": u[k], "w": w[k]},
            initial={"gut": 0.0, "c": 0.1},
            **more,
        )
        for k in range(2)
    ]


CASES = {
    "constants": (experiments(), NOISE),
    "doses": (experiments(doses=DOSES), pf.Noise(additive=0.1, proportional=0.2)),
    "infusions": (experiments(doses=[DOSES, INFUSION]), NOISE),
    "resets": (experiments(doses=DOSES, resets=[3.0, 4.0]), pf.Laplace(0.2)),
    "steps": (experiments([([0, 1, 3.0], [0, 2.0, 1]), ([0, 2.0], [1.0, 0])], ["sin(t)"] * 2), NOISE),
    "lines": (experiments([LINES, 0.5], ["sin(t)", 0.3]), NOISE),
    "formulas": (
        experiments(["exp(-t)", "2*(t < 3)"], ["sin(t)", ([0, 1.0], [1, 2.0])]),
        pf.LogNormal(0.3, base=10),
    ),
}


def linted(path: Path) -> list[str]:
    v2 = pytest.importorskip("petab.v2", reason="compares with the library: pip install petab")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [str(one) for one in v2.Problem.from_yaml(path).validate()]


def read_back(path: Path) -> float:
    problem = petab.read(path)
    return problem.nllh(problem.nominal)


@pytest.mark.parametrize("case", CASES)
def test_the_likelihood_comes_back(tmp_path, case):
    data, noise = CASES[case]
    problem = pf.Problem(MODEL, data, PARAMETERS, noise=noise)
    path = problem.to_petab(tmp_path / "out", VALUES)
    assert read_back(path) == pytest.approx(problem.nllh(VALUES), rel=1e-8)
    assert linted(path) == []
    again = petab.read(path).parameters
    assert again["v"].prior == pf.priors.LogNormal(0, 1)
    assert again["cl"].prior == pf.priors.Gamma(2.0, 4.0)


def test_the_library_does_find_errors(tmp_path):
    path = pf.Problem(MODEL, experiments(), PARAMETERS, noise=NOISE).to_petab(tmp_path, VALUES)
    text = (tmp_path / "conditions.tsv").read_text()
    (tmp_path / "conditions.tsv").write_text(text.replace("\tgut\t", "\tnowhere\t"))
    assert linted(path)


def test_what_belongs_to_one_experiment(tmp_path):
    model = pf.Model("x' = a*x*(1 - x/K)\ny' = b*x - y")
    data = [pf.Experiment(TIMES, {"x": TIMES, "y": TIMES**2}, name=n) for n in ("pond", "lake")]
    problem = pf.Problem(
        model,
        data,
        {"a": pf.Parameter(0.1, 3, local=True), "K": (1, 10), "b": 0.7},
        initial={"x": (0.1, 2), "y": "b*a + x"},
        noise=pf.Noise(additive=(0.01, 2), proportional=0.1),
    )
    values = {"a": {"pond": 1.0, "lake": 0.5}, "K": 3.0, "noise.additive": 0.2}
    start = {"pond": {"x": 0.5}, "lake": {"x": 0.4}}
    path = problem.to_petab(tmp_path, values, start)
    assert read_back(path) == pytest.approx(problem.nllh(values, start), rel=1e-8)
    assert linted(path) == []


def test_least_squares_get_the_spread_that_fits_best(tmp_path):
    free = {"ka": (0.1, 5), "v": (0.1, 10), "cl": (0, 3)}
    problem = pf.Problem(MODEL, experiments(), free)
    assert read_back(problem.to_petab(tmp_path, VALUES)) == pytest.approx(problem.nllh(VALUES), rel=1e-8)


def test_names_that_sbml_does_not_have(tmp_path):
    model = pf.Model("α' = -λ*α + lambda")
    data = pf.Experiment(TIMES, {"α": TIMES}, initial={"α": 1.0}, t0=-2.0)
    problem = pf.Problem(model, data, {"λ": (0, 2), "lambda": (0, 1)}, noise=NOISE)
    values = {"λ": 1.0, "lambda": 0.3}
    path = problem.to_petab(tmp_path, values)
    assert read_back(path) == pytest.approx(problem.nllh(values), rel=1e-8)
    assert linted(path) == []


@pytest.mark.parametrize(
    "parameters, noise, values, code",
    [
        ({}, pf.StudentT(0.1), [1.0, 2.0], "petab_noise"),
        ({"k": pf.Parameter(0, 1, prior=pf.priors.HalfCauchy(1.0))}, NOISE, [1.0, 2.0], "petab_prior"),
        ({"k": pf.Parameter(0, 1, prior=pf.priors.Normal(0, 1, base=10))}, NOISE, [1.0, 2.0], "petab_prior"),
        ({}, NOISE, [1.0, "<2.0"], "petab_censored"),
    ],
)
def test_what_petab_cannot_say(tmp_path, parameters, noise, values, code):
    one = pf.Experiment([0.0, 1.0], {"x": values}, initial={"x": 1.0})
    problem = pf.Problem(pf.Model("x' = -k*x"), one, {"k": (0, 1), **parameters}, noise=noise)
    with pytest.raises(pf.InputError) as caught:
        problem.to_petab(tmp_path / "out")
    assert caught.value.code == f"exporters.{code}"
    assert not (tmp_path / "out").exists()


def test_a_fit_and_the_command(tmp_path):
    (tmp_path / "data.csv").write_text("t,x\n0,1.0\n1,0.61\n2,0.37\n3,0.22\n")
    (tmp_path / "problem.toml").write_text(
        'equations = "x\' = -k*x"\ndata = "data.csv"\n[parameters]\nk = [0.1, 2]\n[initial]\nx = 1.0\n'
        "[noise]\nadditive = 0.01\n"
    )
    answer = CliRunner().invoke(app, ["export", str(tmp_path), "--petab", "--quiet"])
    assert answer.exit_code == 0, answer.output
    problem = petab.read(tmp_path / "results" / "petab" / "problem.yaml")
    assert problem.nominal["k"] == pytest.approx(0.5, abs=0.02)
    answer = CliRunner().invoke(app, ["export", str(tmp_path), "--petab", "--format", "sbml"])
    assert answer.exit_code == 2


EVENTS = {
    "a threshold": ("x' = a\nwhen x > c: x = x - v", {}),
    "a lag": ("x' = -a*x\nwhen t > c: x = x + v", {}),
    "two at one time": ("x' = a\nwhen x > c: x = x - v; n = n + 1\nwhen x > c: n = 2*n + v\nn' = 0", {}),
    "a window": ("x' = a*cos(t)\nwhen x > 0.3 && t < 4: x = x - v\nwhen x < c - 2: x = x + v", {}),
    "doses": (
        "x' = a - 0.2*x\nwhen x > c: x = x - v",
        {"doses": pf.Doses([0, 1.2, 3.1], [0.2, 0.9, 0.3], "x")},
    ),
    "an input": ("x' = a*u\nwhen x > c: x = x - v", {"inputs": {"u": "1 + 0.4*sin(t)"}}),
    "a rest": (
        "x' = a*u - x\nwhen x > c: x = x - v",
        {"inputs": {"u": 2.5}, "rest": pf.Rest({"u": 0.4}, {"x": 3.0})},
    ),
}


@pytest.mark.parametrize("case", EVENTS)
def test_events_are_read_back_with_the_same_likelihood(case, tmp_path):
    text, more = EVENTS[case]
    model = pf.Model(text, inputs=list(more.get("inputs", ())))
    data = pf.Experiment(TIMES + 0.013, {"x": np.sin(TIMES)}, **more)
    initial = {} if "rest" in more else {"x": 0.1} | ({"n": 0.0} if "n" in model.states else {})
    bounds = {"a": (0.1, 3), "c": (0.5, 3), "v": (0.1, 2)}
    problem = pf.Problem(model, data, bounds, initial, noise=pf.Noise(0.2))
    values = {"a": 1.1, "c": 1.37, "v": 0.9}
    path = problem.to_petab(tmp_path / "out", values)
    again = petab.read(path)
    assert again.nllh(again.nominal) == pytest.approx(problem.nllh(values), rel=1e-8)
    assert linted(path) == []
