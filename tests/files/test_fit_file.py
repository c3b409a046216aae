"""Saved fits: what is read back equals what was written, and nothing else gets in."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

import picardfit as pf
from picardfit.errors import Notice
from picardfit.examples import fitzhugh_nagumo, tumor
from picardfit.files.fit_file import SETS, load, save
from picardfit.fit import SearchSummary


@pytest.fixture(scope="module")
def fit():
    return pf.fit(fitzhugh_nagumo.generate(seed=1))


@pytest.fixture(scope="module")
def record(fit, tmp_path_factory):
    path = save(fit, tmp_path_factory.mktemp("saved") / "fit.json")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def loaded(fit, tmp_path_factory):
    return load(save(fit, tmp_path_factory.mktemp("loaded") / "fit.json"))


def reload(fit, folder):
    return load(save(fit, folder / "fit.json"))


def load_record(record, folder):
    path = folder / "changed.json"
    path.write_text(json.dumps(record))
    return load(path)


@pytest.mark.parametrize(
    "name",
    [
        "parameters",
        "initial_states",
        "loss",
        "standard_errors",
        "message",
        "seconds",
        "searches",
        "policy",
        "certificate",
    ],
)
def test_attribute_is_equal_after_loading(fit, loaded, name):
    assert getattr(loaded, name) == getattr(fit, name)


def test_text_is_equal_after_loading(fit, loaded):
    assert str(loaded) == str(fit)


def test_method_is_equal_after_loading(fit, loaded):
    assert loaded.method == fit.method


def test_model_is_equal_after_loading(fit, loaded):
    assert loaded.problem.model == fit.problem.model


def test_units_are_equal_after_loading(tmp_path):
    model = pf.Model("x' = -a*x", units={"t": "h", "x": "mg/l"})
    run = pf.Experiment([0, 1, 2], {"x": [1, 0.6, 0.4]})
    again = reload(pf.fit(pf.Problem(model, run, {"a": (0.1, 2)})), tmp_path)
    assert again.problem.model.units == model.units


def test_trace_is_equal_after_loading(fit, loaded):
    np.testing.assert_array_equal(loaded.trace, fit.trace)


def test_states_between_and_beyond_the_data_are_equal_after_loading(fit, loaded):
    times = np.linspace(0, 6, 31)
    for state, values in fit.states("neuron", times).items():
        np.testing.assert_array_equal(loaded.states("neuron", times)[state], values)


def test_predictions_are_equal_after_loading(fit, loaded):
    times = np.linspace(0, 4.8, 17)
    np.testing.assert_array_equal(loaded.predict("neuron", times)["y"], fit.predict("neuron", times)["y"])


def test_rule_is_the_very_object_so_that_a_search_can_go_on(fit, loaded):
    assert loaded.solution.system.mesh.rule is fit.solution.system.mesh.rule


def test_pf_load_is_this_load():
    assert pf.load is load


def test_estimates_stand_in_the_file_by_name(fit, record):
    assert record["estimates"]["theta1"]["value"] == fit.parameters["theta1"]


def test_experiments_with_inputs_and_initial_formulas_survive(tmp_path):
    fit = pf.fit(tumor.generate(seed=1, inputs=(1, 2)))
    assert reload(fit, tmp_path).problem.loss(fit.parameters) == fit.problem.loss(fit.parameters)


def test_gaps_local_fixed_and_log_parameters_survive(tmp_path):
    model = pf.Model("x' = -a*x + b*u", inputs=["u"])
    runs = [
        pf.Experiment(
            [0, 1, 2, 3], {"x": [scale, 0.6 * scale, None, 0.3 * scale]}, name, {"u": ([0, 2], [0.0, 0.1])}
        )
        for name, scale in (("one", 1.0), ("two", 2.0))
    ]
    parameters = {"a": pf.Parameter(0.01, 10, log=True, local=True, unit="1/h"), "b": 0.5}
    fit = pf.fit(pf.Problem(model, runs, parameters, initial={"x": (0, None)}))
    back = reload(fit, tmp_path)
    assert back.parameters == fit.parameters
    assert back.problem.parameters == fit.problem.parameters
    np.testing.assert_array_equal(back.problem.samples.data, fit.problem.samples.data)


def traced(t, x, p, u):
    return [p.slow * x[1], -p.stiff * x[0]]


def test_traced_functions_keep_the_order_of_unused_and_unsorted_names(tmp_path):
    model = pf.Model.from_function(
        traced, states=["q", "v"], parameters=["unused", "stiff", "slow"], inputs=["idle"]
    )
    times = np.linspace(0, 3, 13)
    run = pf.Experiment(times, {"q": np.cos(times), "v": -np.sin(times)}, inputs={"idle": 0.0})
    fit = pf.fit(pf.Problem(model, run, {"unused": 1.0, "stiff": (0.1, 5), "slow": (0.1, 5)}))
    back = reload(fit, tmp_path)
    assert back.problem.model == model
    assert back.parameters == fit.parameters
    assert back.loss == pytest.approx(fit.loss, rel=1e-9, abs=1e-20)


@pytest.mark.parametrize(
    "method",
    [
        pf.GradientDescent(max_iterations=2, parameter_set=pf.Ball((1.0, 1.0), 0.5), family=pf.Nodes.LOBATTO),
        pf.GradientContractive(max_iterations=2, state_set=pf.Box(-3.0, (3.0, float("inf")))),
        pf.GradientContractMultiplier(
            max_iterations=2, parameter_set=pf.HalfSpace((1.0, 1.0), 3.0), rate=1e-3
        ),
        pf.ExtendedGradientContractMultiplier(
            max_iterations=2,
            segment_length=0.5,
            parameter_set=pf.Product((pf.Simplex(1.0), pf.Box(0, 2)), (1, 1)),
        ),
    ],
    ids=lambda m: type(m).__name__,
)
def test_methods_of_the_paper_and_their_sets_survive(tmp_path, method):
    times = np.linspace(0, 2, 9)
    run = pf.Experiment(times, {"x": np.cos(times), "y": np.sin(times)})
    problem = pf.Problem(pf.Model("x' = -a*y; y' = b*x"), run, {"a": (0.5, 2), "b": (0.5, 2)})
    fit = pf.fit(problem, method)
    back = reload(fit, tmp_path)
    assert back.method == method
    assert back.status is fit.status


def test_a_fit_without_solution_survives(fit, tmp_path):
    starts = (SearchSummary(0, float("inf"), pf.Status.NOT_FINITE, 0, 0.1, {}),)
    failed = replace(fit, solution=None, certificate=None, status=pf.Status.NOT_FINITE, searches=starts)
    assert str(reload(failed, tmp_path)) == str(failed)


def test_infinite_standard_errors_are_valid_json(fit, tmp_path):
    starts = (replace(fit.searches[0], loss=float("nan")), replace(fit.searches[0], loss=float("inf")))
    path = save(replace(fit, searches=starts), tmp_path / "fit.json")

    def refuse(word):
        raise AssertionError(word)

    losses = [one["loss"] for one in json.loads(path.read_text(), parse_constant=refuse)["searches"]]
    assert losses == [None, "inf"]


# ---- what a file cannot hold -------------------------------------------------------------------------------


def deciding(t, x, p):
    return [-p.a * x[0] if x[0] > 1 else -p.a]


def test_a_model_that_is_only_code_is_refused_at_save(tmp_path):
    model = pf.Model.from_function(deciding, states=["x"], parameters=["a"])
    fit = pf.fit(pf.Problem(model, pf.Experiment([0, 1, 2], {"x": [5, 3, 1.9]}), {"a": (0.1, 2)}))
    with pytest.raises(pf.InputError, match="Python function"):
        save(fit, tmp_path / "fit.json")
    assert list(tmp_path.iterdir()) == []


def test_an_input_that_is_only_code_is_refused_at_save(tmp_path):
    model = pf.Model("x' = -a*x + u", inputs=["u"])
    run = pf.Experiment([0, 1, 2], {"x": [5, 3, 1.9]}, "run", inputs={"u": lambda t: 0.1 * t})
    fit = pf.fit(pf.Problem(model, run, {"a": (0.1, 2)}))
    with pytest.raises(pf.InputError, match="input `u` of `run`"):
        save(fit, tmp_path / "fit.json")


def test_a_method_of_the_user_is_refused_at_save(fit, tmp_path):
    class Mine(pf.LiftedGaussNewton):
        pass

    with pytest.raises(pf.InputError, match="Mine is not one of picardfit's"):
        save(replace(fit, method=Mine()), tmp_path / "fit.json")


def test_a_missing_folder_is_named(fit, tmp_path):
    with pytest.raises(pf.InputError, match="does not exist: create it"):
        save(fit, tmp_path / "nowhere" / "fit.json")


def test_a_refused_save_leaves_the_older_file(fit, tmp_path):
    path = save(fit, tmp_path / "fit.json")
    before = path.read_text()
    with pytest.raises(pf.InputError):
        save(replace(fit, warnings=(Notice("problem.remark", "odd", {"odd": object()}),)), path)
    assert path.read_text() == before


def test_no_temporary_file_stays(fit, tmp_path):
    save(fit, tmp_path / "fit.json")
    assert [one.name for one in tmp_path.iterdir()] == ["fit.json"]


# ---- files that are not fits -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "There is no such file"),
        (b"not json {", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b'{"format": "picardfit fit", "version": NaN}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[1, 2]", "not a fit of picardfit"),
        (b'{"format": "other"}', "not a fit of picardfit"),
        (b'{"format": "picardfit fit", "version": 2, "picardfit": "9.9"}', "newer picardfit .9.9.: upgrade"),
        (b'{"format": "picardfit fit", "version": "1"}', "unknown version '1'"),
        (b'{"format": "picardfit fit", "version": 1}', "`problem` is missing"),
    ],
)
def test_a_file_that_is_no_fit_is_explained(tmp_path, content, words):
    path = tmp_path / "fit.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(pf.InputError, match=words) as caught:
        load(path)
    assert caught.value.place.file == str(path)


def test_a_folder_is_explained(tmp_path):
    with pytest.raises(pf.InputError, match="cannot be read"):
        load(tmp_path)


def change(record, where, value):
    """A deep copy of the record with one entry replaced."""
    record = json.loads(json.dumps(record))
    *path, last = where
    inner = record
    for key in path:
        inner = inner[key]
    inner[last] = value
    return record


@pytest.mark.parametrize(
    "where, value, words",
    [
        (("status",), "SPLENDID", "status `SPLENDID`"),
        (("method", "name"), "os.system", "method `os.system`"),
        (("method", "settings"), {"nodes": "five"}, "whole number"),
        (("method", "settings"), {"color": 1}, "no setting `color`"),
        (("method", "settings"), {"family": ["radau"]}, "must be one of"),
        (("problem", "model", "text"), "x1' = __import__('os')", "formula|character|line 1"),
        (("problem", "model", "parameters"), ["theta1"], "other states, parameters or inputs"),
        (("problem", "model", "observables", "y"), 7, "observable|formula|text"),
        (("problem", "experiments"), [], "no experiment"),
        (("problem", "experiments", 0, "times"), "soon", "list of numbers"),
        (("problem", "parameters", "theta1"), {"lower": "low"}, "lower of `theta1`"),
        (("problem", "parameters", "theta1"), {"prior": 1}, "described by"),
        (("solution", "unknowns"), [[1.0]], "`unknowns` has the shape 1 x 1"),
        (("solution", "path"), [[[1.0], [1.0, 2.0]]], "different lengths"),
        (("solution", "nodes"), [0.5, 0.2, 1.0], "increasing"),
        (("solution", "knots"), [[0.0, 3.0, 2.0]], "must increase"),
        (("solution", "states"), [[True, False]], "not a number"),
        (("certificate",), None, "both be there"),
        (("certificate", "loss"), "low", "`loss` holds"),
        (("solution", "states", 3, 0), 1e300, "does not give"),
        (("solution", "states", 3, 0), None, "not finite"),
        (("solution", "unknowns", 0, 2), 3.0, "does not give"),
        (("problem", "experiments", 0, "values", "y", 5), 3.0, "does not give"),
        (("problem", "experiments", 0, "inputs"), {"u": {"kind": "formula", "text": []}}, "input `u`"),
        (("iterations",), 3.5, "`iterations` is a float"),
        (("problem", "model", "units"), {"nobody": "h"}, "`nobody` in units is not a name"),
        (("problem", "truth", "parameters", "theta1"), 10**400, "value of `theta1` is inf"),
        (("problem", "truth", "parameters", "theta1"), "low", "value of `theta1` is 'low'"),
        (("problem", "truth", "initial"), {"neuron": {"x1": None}}, "value of `x1` is None"),
        (("problem", "truth", "initial"), {"neuron": 3}, "`truth.initial.neuron` must map names"),
        (("problem", "truth", "states"), {}, "`states` in truth"),
        (("problem", "nominal"), {"theta1": "low"}, "value of `theta1` is 'low'"),
        (("trace",), [[1.0, 2.0, 3.0, 4.0]], "`trace` has the shape"),
        (("searches", 0, "parameters"), {"theta1": 1.0}, "earch 0 in `searches` does not name"),
    ],
)
def test_a_damaged_entry_is_named(record, tmp_path, where, value, words):
    with pytest.raises(pf.InputError, match=words):
        load_record(change(record, where, value), tmp_path)


def paths(value, prefix=()):
    """Every place in a nested record."""
    yield prefix
    children = (
        value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from paths(child, (*prefix, key))


def outcome(record, folder):
    """ "fit" or "complaint"; any other exception passes through."""
    try:
        str(load_record(record, folder))
    except pf.InputError:
        return "complaint"
    return "fit"


def test_no_damage_raises_anything_but_an_input_error(record, tmp_path):
    rng = np.random.default_rng(0)
    places = [place for place in paths(record) if len(place) > 1]
    odd = [None, True, -1, 10**400, 0.5, "", "inf", "x", [], [[]], {}, {"set": "Box"}, [None, "a"]]
    chosen = [places[k] for k in rng.choice(len(places), 150, replace=False)]
    outcomes = [outcome(change(record, place, odd[rng.integers(len(odd))]), tmp_path) for place in chosen]
    assert outcomes.count("complaint") > 75


# ---- nothing forgotten -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, section, elsewhere",
    [
        # derived quantities are written where there are any: tests/problem/test_derived.py
        (pf.Problem, ("problem",), {"initial_by_experiment", "scatter", "derived"}),
        (pf.Fit, (), set()),
        (pf.Certificate, ("certificate",), set()),
        (
            pf.Experiment,
            ("problem", "experiments", 0),
            # doses, covariates and resets are written where there are any: tests/problem/test_doses.py
            {"observations", "observables", "planned", "calendar", "table", "limits"}
            | {"doses", "covariates", "resets"}
            | {"assumed_t0", "lines"},  # they help only to make a problem from a table
        ),
    ],
)
def test_every_field_is_written(record, kind, section, elsewhere):
    inner = record
    for key in section:
        inner = inner[key]
    assert {one.name for one in fields(kind)} - elsewhere <= inner.keys()


def test_every_public_set_can_be_saved():
    public = {name for name in pf.__all__ if callable(getattr(getattr(pf, name), "project", None))}
    assert public == set(SETS)


def test_an_unknown_at_a_bound_is_valid_json(tmp_path):
    run = pf.Experiment([0, 1, 2, 3], {"x": [1, 0.62, 0.35, 0.22]})
    path = pf.fit(pf.Problem(pf.Model("x' = -k*x"), run, {"k": (0.8, 2.0)})).save(tmp_path / "fit.json")

    def refuse(word):
        raise AssertionError(word)

    json.loads(path.read_text(), parse_constant=refuse)
    assert pf.load(path).certificate.at_bound == ("k",)
