"""The public face: names, signatures and attributes that the README and outside programs rely on."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest

import picardfit as pf

NAMES = [
    "Model",
    "Experiment",
    "read_table",
    "Parameter",
    "Problem",
    "fit",
    "Fit",
    "load",
    "simulate",
    "analyse",
    "Analysis",
    "Certificate",
    "Profile",
    "Bootstrap",
    "Bands",
    "Optimum",
    "InputError",
    "Status",
    "GradientDescent",
    "GradientContractive",
    "GradientContractMultiplier",
    "ExtendedGradientContractMultiplier",
    "LiftedGaussNewton",
    "examples",
]
METHODS = [
    pf.GradientDescent,
    pf.GradientContractive,
    pf.GradientContractMultiplier,
    pf.ExtendedGradientContractMultiplier,
    pf.LiftedGaussNewton,
]
SIGNATURES = {  # the leading arguments, in order, and those that may be passed by name
    "Model": (["text"], ["observables", "inputs"]),
    "Model.from_function": (["f", "states", "parameters"], ["inputs", "observables"]),
    "Experiment": (["times", "observations"], ["name", "inputs", "initial", "t0"]),
    "read_table": (["source"], ["time", "experiment", "inputs", "observables"]),
    "Parameter": (["lower", "upper"], ["log", "start", "fixed", "local"]),
    "Problem": (["model", "experiments"], ["parameters", "initial"]),
    "Problem.loss": (["self", "parameters", "initial"], []),
    "fit": (["problem", "method"], ["start", "starts", "seed", "executor", "progress"]),
    "simulate": (["model", "parameters", "initial", "times"], ["inputs"]),
    "analyse": (["problem"], []),
    "load": (["path"], []),
    "Fit.intervals": (["self", "level"], []),
    "Fit.states": (["self", "experiment", "times"], []),
    "Fit.predict": (["self", "experiment", "times"], []),
    "Fit.save": (["self", "path"], []),
    "Fit.report": (["self", "path"], []),
    "Fit.plot": (["self"], []),
}
DEFAULTS = {"starts": 1, "seed": 0, "method": None, "executor": None, "progress": None, "start": None}
ATTRIBUTES = {
    "parameters": dict,
    "initial_states": dict,
    "standard_errors": dict,
    "loss": float,
    "success": bool,
    "status": pf.Status,
    "message": str,
    "iterations": int,
    "seconds": float,
    "certificate": pf.Certificate,
}
TIMES = np.linspace(0, 3, 13)


def named(path: str):
    found = pf
    for part in path.split("."):
        found = getattr(found, part)
    return found


@pytest.fixture(scope="module")
def fit():
    values = 2 * np.exp(-0.7 * TIMES) + 0.01 * np.cos(9 * TIMES)
    return pf.fit(pf.Problem(pf.Model("x' = -k*x"), pf.Experiment(TIMES, {"x": values}, name="run")))


@pytest.mark.parametrize("name", NAMES)
def test_name_is_public(name):
    assert name in pf.__all__
    assert hasattr(pf, name)


def test_every_name_in_all_exists():
    assert [n for n in pf.__all__ if not hasattr(pf, n)] == []


def test_completion_shows_the_public_names_only():
    assert set(dir(pf)) == {*pf.__all__, "__version__"}


def test_all_has_no_repetition():
    assert sorted(set(pf.__all__)) == sorted(pf.__all__)


def test_every_class_and_function_at_the_top_is_in_all():
    public = {
        n
        for n, v in vars(pf).items()
        if not n.startswith("_") and (inspect.isclass(v) or inspect.isfunction(v))
    }
    assert public <= set(pf.__all__)


@pytest.mark.parametrize("path", SIGNATURES)
def test_signature_is_the_documented_one(path):
    leading, by_name = SIGNATURES[path]
    parameters = inspect.signature(named(path)).parameters
    assert list(parameters)[: len(leading)] == leading
    assert set(by_name) <= set(parameters)


@pytest.mark.parametrize("name, default", DEFAULTS.items())
def test_default_of_fit(name, default):
    assert inspect.signature(pf.fit).parameters[name].default == default


@pytest.mark.parametrize("path", SIGNATURES)
def test_public_things_have_a_docstring(path):
    assert inspect.getdoc(named(path))


def test_level_of_intervals_is_95_percent():
    assert inspect.signature(pf.Fit.intervals).parameters["level"].default == 0.95


def test_input_errors_are_value_errors():
    assert issubclass(pf.InputError, ValueError)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_frozen_data_with_defaults(method):
    settings = method()
    assert is_dataclass(settings)
    assert settings == method()
    with pytest.raises(AttributeError):
        setattr(settings, fields(settings)[0].name, 1)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_through_fit(method):
    problem = pf.Problem(
        pf.Model("x' = -k*x"),
        pf.Experiment(TIMES, {"x": 2 * np.exp(-0.7 * TIMES)}),
        parameters={"k": (0.1, 2)},
        initial={"x": (0.5, 4)},
    )
    assert pf.fit(problem, method=method()).parameters["k"] == pytest.approx(0.7, rel=0.1)


@pytest.mark.parametrize("name, kind", ATTRIBUTES.items())
def test_a_fit_has_the_attribute(fit, name, kind):
    assert isinstance(getattr(fit, name), kind)


def test_keys_of_a_fit_are_names(fit):
    assert list(fit.parameters) == ["k"]
    assert list(fit.initial_states) == ["run"]
    assert list(fit.initial_states["run"]) == ["x"]
    assert "k" in fit.standard_errors
    assert "k" in fit.intervals(0.95)


def test_states_and_predictions_are_arrays_by_name(fit):
    times = [0.5, 1.5, 2.5]
    assert {n: v.shape for n, v in fit.states("run", times).items()} == {"x": (3,)}
    assert {n: v.shape for n, v in fit.predict("run", times).items()} == {"x": (3,)}


def test_a_saved_fit_is_loaded_with_the_same_numbers(fit, tmp_path):
    again = pf.load(fit.save(tmp_path / "fit.json"))
    assert again.parameters == fit.parameters
    assert again.loss == pytest.approx(fit.loss)


def test_settings_of_a_fit_are_passed_by_name():
    with pytest.raises(TypeError):
        pf.fit(None, None, {"k": 1.0})


def test_an_experiment_is_time_and_observations():
    one = pf.Experiment(
        [0, 1], {"x": [1, 2]}, name="pond 1", inputs={"dose": 0.0}, initial={"x": 1.0}, t0=None
    )
    assert (one.name, one.t0, one.initial) == ("pond 1", 0.0, {"x": 1.0})


def test_states_and_parameters_follow_from_the_text():
    model = pf.Model("prey' = r*prey*(1 - prey/K) - a*prey*pred; pred' = k*a*prey*pred - c*pred")
    assert (model.states, set(model.parameters)) == (("prey", "pred"), {"r", "K", "a", "k", "c"})
    assert model.observables == ("prey", "pred")


def imported_with(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded():
    return imported_with("import picardfit")


@pytest.mark.parametrize("package", ["scipy.stats", "matplotlib", "pandas", "pyarrow", "typer", "rich"])
def test_import_is_light(loaded, package):
    assert package not in loaded


def test_editors_see_the_public_names():
    stub = Path(pf.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    seen = [
        (node.module, one.name)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    ]
    assert sorted(name for _, name in seen) == sorted(pf.__all__)
    assert all(getattr(importlib.import_module(module), name) is getattr(pf, name) for module, name in seen)


def test_version_is_a_number():
    assert all(part.isdigit() for part in pf.__version__.split("."))


def test_only_the_search_runs_solvers():
    """Elsewhere nobody imports the loop: `search.searches` continues from a solution."""
    folder, runners = Path(pf.__file__).parent, {"run", "iterate"}
    found = [
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "picardfit.solvers.loop"
        if runners & {one.name for one in node.names}
    ]
    assert {Path(one).parts[0] for one in found} == {"search"}


# ---- the tests themselves ----------------------------------------------------------------------------------

OWN = ("picardfit", "compare", "paper")


def private_uses(tree: ast.Module) -> list[str]:
    """Private names of this project, and patches of its constants, in the code of a test."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imported, found = set(), []
    for node in imports:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for one in node.names:
            if (module or one.name).split(".")[0] in OWN:
                imported.add((one.asname or one.name).split(".")[0])
                found += [one.name] if one.name.startswith("_") else []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in imported:
                found += [f"{owner}.{name}"] if name.startswith("_") and not name.endswith("_") else []
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                found += [name] if name.isupper() else []
    return found


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from compare import isolation\nisolation._method()", ["isolation._method"]),
        ("from paper.tasks import _start", ["_start"]),
        ("monkeypatch.setattr(isolation, 'GRACE', 0.3)", ["GRACE"]),
        ("import picardfit as pf\npf.__version__\nexecutor._processes", []),
    ],
)
def test_private_uses_are_found(code, found):
    assert private_uses(ast.parse(code)) == found


def test_no_test_patches_a_constant_or_uses_a_private_name():
    folder = Path(__file__).parent
    uses = {str(p.relative_to(folder)): private_uses(ast.parse(p.read_text())) for p in folder.rglob("*.py")}
    assert {name: found for name, found in uses.items() if found} == {}
