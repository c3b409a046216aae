"""What published PEtab problems use, on small models in Antimony, against SciPy's integrators piece by piece."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

pytest.importorskip("libsbml", reason="PEtab problems need python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("yaml", reason="PEtab problems need pyyaml: pip install 'picardfit[petab]'")
antimony = pytest.importorskip("antimony", reason="models in Antimony: pip install 'picardfit[sbml]'")

from picardfit.importers import petab  # noqa: E402

TIMES = [0.0, 0.5, 1.0, 2.0, 3.5, 7.0]


def path(rate, start, breaks=(), jump=lambda time, x: x) -> np.ndarray:
    """(times, states): integrated from one break to the next; a state at a break is the one after its jump."""
    x, t, found = np.array(start, float), 0.0, {}
    for end in sorted({*TIMES, *breaks}):
        if end > t:
            x = solve_ivp(rate, (t, end), x, method="LSODA", rtol=1e-11, atol=1e-13).y[:, -1]
            t = end
        x = jump(end, x) if end in breaks else x
        found[end] = x
    return np.array([found[t] for t in TIMES])


@pytest.fixture
def simulate(tmp_path):
    """(conditions * observables * times,): what a problem of version 1 with this model predicts."""

    def run(model, observables, parameters, conditions=({"conditionId": "c"},), before="") -> np.ndarray:
        antimony.clearPreviousLoads()
        assert antimony.loadAntimonyString(f"model m\n{model}\nend") >= 0, antimony.getLastError()
        (tmp_path / "model.xml").write_text(antimony.getSBMLString("m"))
        shared = {"parameterScale": "log10", "lowerBound": 1e-5, "upperBound": 1e5, "estimate": 1}
        tables = {
            "parameters": [{"parameterId": n, "nominalValue": v} | shared for n, v in parameters.items()],
            "conditions": list(conditions),
            "observables": [
                {"observableId": n, "observableFormula": f, "noiseFormula": 1} for n, f in observables.items()
            ],
            "measurements": [
                {"observableId": o, "simulationConditionId": c["conditionId"], "time": t, "measurement": 1}
                | ({"preequilibrationConditionId": before} if before else {})
                for c in conditions
                if c["conditionId"] != before
                for o in observables
                for t in TIMES
            ],
        }
        for name, rows in tables.items():
            lines = [list(rows[0]), *(row.values() for row in rows)]
            (tmp_path / f"{name}.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in lines))
        listed = "".join(f", {k}_files: [{k}s.tsv]" for k in ("condition", "observable", "measurement"))
        (tmp_path / "problem.yaml").write_text(
            "format_version: 1\nparameter_file: parameters.tsv\n"
            f"problems: [{{sbml_files: [model.xml]{listed}}}]\n"
        )
        imported = petab.load(tmp_path / "problem.yaml")
        return petab.simulate(imported, imported.problem.nominal)["simulation"].to_numpy(float)

    return run


def test_an_input_that_is_piecewise_in_time(simulate):
    model = "k=1; d=0.3; u := piecewise(0, time<1, 2*(time-1), time<2, 2, time<5, 0); x' = k*u - d*x; x=0.5"

    def rate(t, x):
        return [1.3 * (0 if t < 1 else 2 * (t - 1) if t < 2 else 2 if t < 5 else 0) - 0.3 * x[0]]

    found = simulate(model, {"o": "x"}, {"k": 1.3, "d": 0.3})
    assert found == pytest.approx(path(rate, [0.5], [1, 2, 5])[:, 0], rel=1e-7)


def test_events_whose_times_and_sizes_conditions_set(simulate):
    model = "compartment V=2; species S in V=3; J: S->; V*k*S; k=.5; dose=1; td=1; at (time>=td): S=S+dose"
    conditions = [{"conditionId": "c", "td": 1, "dose": 2}, {"conditionId": "e", "td": 2.5, "dose": 0.5}]
    expected = [
        path(lambda _, x: -0.7 * x, [3], [td], lambda _, x, more=more: x + more)[:, 0]
        for td, more in ((1, 2.0), (2.5, 0.5))
    ]
    assert simulate(model, {"o": "S"}, {"k": 0.7}, conditions) == pytest.approx(np.ravel(expected), rel=1e-7)


def test_amounts_and_concentrations_in_several_compartments(simulate):
    model = (
        "compartment V=2, W=5; species A in V=3, B in W=1; substanceOnly species N in W=4\n"
        "J: A->B; k*A*V; J2: B -> 2 N; q*B; J3: N->; r*N; k=.5; q=.2; r=.1"
    )

    def rate(_, x):
        return [-0.7 * x[0], 0.7 * x[0] * 2 / 5 - 0.9 * x[1] / 5, 2 * 0.9 * x[1] - 0.1 * x[2]]

    found = simulate(model, {"a": "A", "b": "B", "n": "N"}, {"k": 0.7, "q": 0.9})
    assert found == pytest.approx(path(rate, [3, 1, 4]).T.ravel(), rel=1e-7)


@pytest.mark.parametrize(
    "volume, growth",
    [("V' = 0.2*V; V=2", lambda t: 0.2), ("V := 2 + sin(time)", lambda t: np.cos(t) / (2 + np.sin(t)))],
)
def test_a_volume_that_changes_dilutes(simulate, volume, growth):
    model = f"compartment V; {volume}; species A in V; A=3; J: A->; V*k*A; k=.5"
    found = simulate(model, {"o": "A"}, {"k": 0.7})
    expected = path(lambda t, x: [-(0.7 + growth(t)) * x[0]], [3])[:, 0]
    assert found == pytest.approx(expected, rel=1e-7)


def test_initial_assignments_of_each_other_and_of_parameters(simulate):
    model = "species A, B; A = a0*2; B = A/3 + tot; tot = a0^2; a0=1; k=1; J: A->B; k*A/(K+A); K = a0/2"  # K = 0.75

    def rate(_, x):
        return np.array([-1, 1]) * 0.7 * x[0] / (0.75 + x[0])

    found = simulate(model, {"a": "A", "b": "B"}, {"k": 0.7, "a0": 1.5})
    assert found == pytest.approx(path(rate, [3, 3.25]).T.ravel(), rel=1e-7)


def test_steps_and_resets_of_several_events(simulate):
    model = "x=1; u=0; x' = u - x; at (time>=1): u=2; at (time>=2): u=0.5, x=x/2; k=1"
    expected = path(
        lambda t, x: [(0 if t < 1 else 2 if t < 2 else 0.5) - x[0]],
        [1],
        [1, 2],
        lambda t, x: x / 2 if t == 2 else x,
    )
    assert simulate(model, {"o": "k*x"}, {"k": 0.7}) == pytest.approx(0.7 * expected[:, 0], rel=1e-7)


def test_stoichiometry_logic_and_kinks(simulate):
    model = "species A=4, B=0; k=1\nJ: 2 A -> 1.5 B; k*max(A-1, 0)*piecewise(1, (time>0.7) && (time<3), 0.1)"

    def rate(t, x):
        return np.array([-2, 1.5]) * 0.3 * max(x[0] - 1, 0) * (1 if 0.7 < t < 3 else 0.1)

    found = simulate(model, {"a": "A", "b": "B"}, {"k": 0.3})
    assert found == pytest.approx(path(rate, [4, 0], [0.7, 3]).T.ravel(), rel=1e-7)


def test_a_pulse_after_a_pre_equilibration(simulate):
    model = (
        "species A=1, B=0; u := piecewise(s, (time>=2) && (time<4), 0); b=1; k=1; s=0\n"
        "J: ->A; b+u; J2: A->B; k*A; J3: B->; B"
    )
    conditions = [
        {"conditionId": "pre", "s": 0, "A": "NaN"},
        {"conditionId": "c", "s": 3, "A": "NaN"},
        {"conditionId": "e", "s": 1, "A": 0.2},
    ]
    found = simulate(model, {"o": "A+B"}, {"k": 0.5, "b": 2.0}, conditions, before="pre")
    expected = [
        path(
            lambda t, x, s=s: [2 + (s if 2 <= t < 4 else 0) - 0.5 * x[0], 0.5 * x[0] - x[1]], start, [2, 4]
        ).sum(axis=1)
        for s, start in ((3.0, [4.0, 2.0]), (1.0, [0.2, 2.0]))
    ]
    assert found == pytest.approx(np.ravel(expected), rel=1e-7)


def test_a_rate_that_jumps_as_a_state_changes(simulate):
    found = simulate("x=4; x' = piecewise(-k, x>2, -3*k); k=1", {"o": "x"}, {"k": 0.8})
    t = np.array(TIMES)  # 2 is reached at 2.5
    assert found == pytest.approx(np.where(t < 2.5, 4 - 0.8 * t, 2 - 2.4 * (t - 2.5)), rel=1e-7)
