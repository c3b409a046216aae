"""Problems of PEtab as problem files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")
pytest.importorskip("libsbml")
pytest.importorskip("tomlkit")

import picardfit as pf
from picardfit.errors import InputError
from picardfit.importers import petab
from picardfit.studio.opening import opened
from picardfit.studio.rewriting import rewritten

DATA = Path(__file__).parents[1] / "importers" / "data"
FILES = {one.name: one.read_bytes() for one in DATA.iterdir() if one.suffix in (".tsv", ".yaml")}
FILES["model.xml"] = (DATA / "model.xml").read_bytes()


def test_a_petab_problem_becomes_a_folder_with_the_same_likelihood(tmp_path):
    files, text = opened(FILES, "")
    for name, content in {**files, "problem.toml": text.encode()}.items():
        (tmp_path / name).write_bytes(content)
    here, there = pf.read_problem(tmp_path), petab.read(DATA / "exchange.yaml")
    assert here.nllh(there.nominal) == pytest.approx(there.nllh(there.nominal), rel=1e-9)
    assert here.layout.count() == there.layout.count()


def test_priors_noise_and_inputs_are_written():
    model = pf.Model("x' = -k*x + u", inputs=["u"])
    runs = [
        pf.Experiment([0, 1, 2], {"x": [1, 0.5, "<0.4"]}, "a", inputs={"u": 0.1}, initial={"x": 1.0}),
        pf.Experiment([0, 1, 2], {"x": [2, 1.0, 0.5]}, "b", inputs={"u": ([0, 1], [0.0, 0.2])}),
    ]
    belief = pf.Parameter(0.01, 10, log=True, prior=pf.priors.LogNormal(0.5, 1.0))
    problem = pf.Problem(model, runs, {"k": belief}, noise=pf.Noise(additive=(0.01, 1)))
    _, text = rewritten(problem, "two runs")
    content = tomllib.loads(text)
    assert content["parameters"]["k"]["prior"]["type"] == "log-normal"
    assert content["noise"] == {"type": "normal", "additive": [0.01, 1]}
    assert content["experiments"]["b"]["inputs"]["u"]["values"] == [0, 0.2]


def test_a_steady_state_has_no_place_in_a_problem_file():
    model = pf.Model("x' = u - k*x", inputs=["u"])
    one = pf.Experiment(
        [0, 1, 2], {"x": [1, 1.5, 1.8]}, "a", inputs={"u": 2.0}, rest=pf.Rest({"u": 1.0}, {"x": 1.0})
    )
    with pytest.raises(InputError) as caught:
        rewritten(pf.Problem(model, [one], {"k": (0.1, 10)}), "rest")
    assert caught.value.code == "studio.too_rich"
