"""The problems of peers.py: kind, source, and how each is built. Data of simulated ones depend on a seed only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

import picardfit as pf
from hard import cases, decades

DATA = Path(__file__).parent / "data"  # its README has the sources


@dataclass(frozen=True)
class PeerProblem:
    """A problem with the kind of difficulty that it stands for, and where it comes from."""

    kind: str
    source: str
    build: Callable[[], pf.Problem]


def starter(name: str) -> pf.Problem:
    return pf.read_problem(str(files("picardfit") / "examples" / "starters" / name / "problem.toml"))


def hard_case(name: str) -> pf.Problem:
    return next(case for case in cases() if case.name == name).problem(seed=1)[0]


def theophylline() -> pf.Problem:
    """One absorption, elimination and volume for all subjects, each over three to four decades."""
    model = pf.Model(
        "gut' = -ka*gut\nblood' = ka*gut - ke*blood", observables={"concentration": "blood/volume"}
    )
    runs = []
    for subject, rows in pd.read_csv(DATA / "theophylline.csv").groupby("ID"):
        dose, samples = rows[rows.EVID == 1], rows[rows.EVID == 0]
        known = {"gut": float(dose.AMT.iloc[0]), "blood": 0.0}
        runs.append(
            pf.Experiment(
                samples.TIME, {"concentration": samples.DV}, f"subject {subject}", initial=known, t0=0
            )
        )
    bounds = {"ka": (0.01, 100), "ke": (1e-3, 10), "volume": (0.1, 1000)}
    return pf.Problem(model, runs, {n: pf.Parameter(*pair, log=True) for n, pair in bounds.items()})


def alpha_pinene() -> pf.Problem:
    """Five first-order rates over five decades; measured after the first 20 hours only."""
    model = pf.Model(
        "pinene' = -(k1 + k2)*pinene\ndipentene' = k1*pinene\n"
        "ocimene' = k2*pinene - (k3 + k4)*ocimene + k5*dimer\npyronene' = k3*ocimene\ndimer' = k4*ocimene - k5*dimer"
    )
    table = pd.read_csv(DATA / "alpha_pinene.csv")
    known = dict.fromkeys(model.states, 0.0) | {"pinene": 100.0}
    run = pf.Experiment(table.minutes, {n: table[n] for n in model.states}, initial=known, t0=0)
    return pf.Problem(model, run, {f"k{i}": pf.Parameter(1e-7, 1e-2, log=True) for i in range(1, 6)})


def gas_oil() -> pf.Problem:
    model = pf.Model("oil' = -(k1 + k3)*oil^2\ngasoline' = k1*oil^2 - k2*gasoline")
    table = pd.read_csv(DATA / "gas_oil.csv")
    known = {"oil": 1.0, "gasoline": 0.0}
    run = pf.Experiment(table.time, {n: table[n] for n in model.states}, initial=known)
    return pf.Problem(model, run, {f"k{i}": pf.Parameter(1e-2, 1e3, log=True) for i in range(1, 4)})


def morris_lecar() -> pf.Problem:
    """Voltage only, some spikes; conductances and the rate of recovery over a decade."""
    model = pf.Model(
        "m = (1 + tanh((V + 1.2)/18))/2\nn = (1 + tanh((V - 2)/30))/2\n"
        "V' = (90 - gL*(V + 60) - gCa*m*(V - 120) - gK*w*(V + 84))/20\nw' = phi*(n - w)*cosh((V - 2)/60)",
        observables=["V"],
    )
    truth = {"gL": 2.0, "gCa": 4.4, "gK": 8.0, "phi": 0.04}
    times = np.linspace(0, 300, 120)
    runs = [_measured(model, truth, {"V": -26.0, "w": 0.11}, times, {"V": 2.0})]
    return pf.Problem(model, runs, _around(truth, 10**0.5), {"V": (-80, 60), "w": (0, 1)})


def mapk() -> pf.Problem:
    """Five states with saturation and a feedback that oscillates; three of them measured; ten velocities."""
    model = pf.Model(
        "K3 = 100 - K3P\nK2 = 300 - K2P - K2PP\nK1 = 300 - K1P - K1PP\n"
        "a = k3*K3P*K2/(15 + K2)\nb = k4*K3P*K2P/(15 + K2P)\nc = v5*K2PP/(15 + K2PP)\nd = v6*K2P/(15 + K2P)\n"
        "e = k7*K2PP*K1/(15 + K1)\nf = k8*K2PP*K1P/(15 + K1P)\ng = v9*K1PP/(15 + K1PP)\nh = v10*K1P/(15 + K1P)\n"
        "K3P' = v1*K3/((1 + K1PP/9)*(10 + K3)) - v2*K3P/(8 + K3P)\n"
        "K2P' = a - b + c - d\nK2PP' = b - c\nK1P' = e - f + g - h\nK1PP' = f - g",
        observables=["K3P", "K2PP", "K1PP"],
    )
    truth = {"v1": 2.5, "v2": 0.25, "v5": 0.75, "v6": 0.75, "v9": 0.5, "v10": 0.5}
    truth |= dict.fromkeys(("k3", "k4", "k7", "k8"), 0.025)
    times = np.linspace(0, 4000, 80)
    initial = dict.fromkeys(model.states, 10.0)
    noise = {"K3P": 3.0, "K2PP": 8.0, "K1PP": 8.0}
    runs = [_measured(model, truth, initial, times, noise, known=initial)]
    return pf.Problem(model, runs, _around(truth, 3))


def cascade(kinases: int = 20) -> pf.Problem:
    """As many kinases, each with its activation rate; five phosphatases; two stimuli; everything measured."""
    rates = {f"a{i}": 1.0 + 0.5 * np.sin(i) for i in range(1, kinases + 1)}
    truth = rates | {f"b{k}": 0.3 + 0.1 * k for k in range(1, 6)}
    lines = [
        f"x{i}' = a{i}*{f'x{i - 1}' if i > 1 else 'u'}*(1 - x{i}) - b{1 + (i - 1) % 5}*x{i}"
        for i in range(1, kinases + 1)
    ]
    model = pf.Model("\n".join(lines), inputs=["u"])
    initial, noise = dict.fromkeys(model.states, 0.0), dict.fromkeys(model.states, 0.02)
    times = np.linspace(1, 40, 16)
    runs = [
        _measured(model, truth, initial, times, noise, known=initial, inputs={"u": stimulus}, number=k)
        for k, stimulus in enumerate(("2*exp(-0.05*t)", "4*exp(-0.2*t)"))
    ]
    return pf.Problem(model, runs, _around(truth, 10))


def _measured(
    model: pf.Model,
    truth: dict[str, float],
    initial: dict[str, float],
    times: np.ndarray,
    noise: dict[str, float],
    known: dict[str, float] | None = None,
    inputs: dict[str, str] | None = None,
    number: int = 0,
) -> pf.Experiment:
    """A simulated experiment with Gaussian errors of these standard deviations."""
    run = pf.simulate(model, truth, initial, times, inputs)
    rng = np.random.default_rng([1, number])
    data = {n: v + noise[n] * rng.standard_normal(len(times)) for n, v in run.observables.items()}
    return pf.Experiment(times, data, f"run {number}", inputs=inputs, initial=known, t0=0)


def _around(truth: dict[str, float], factor: float) -> dict[str, pf.Parameter]:
    return {name: decades(factor)(name, value) for name, value in truth.items()}


def _paper(name: str, kind: str, **given: int) -> PeerProblem:
    return PeerProblem(kind, "the paper", lambda: pf.examples.ALL[name].generate(seed=0, **given))


def _hard(name: str, kind: str, source: str) -> PeerProblem:
    return PeerProblem(kind, source, lambda: hard_case(name))


PROBLEMS = {
    "van der pol": _paper("van_der_pol", "oscillator"),
    "fitzhugh nagumo": _paper("fitzhugh_nagumo", "oscillator"),
    "rosenzweig macarthur": _paper("rosenzweig_macarthur", "few samples, several ponds"),
    "tumor": _paper("tumor", "inputs, 11 unknowns"),
    "lorenz": _paper("lorenz", "chaotic"),
    "hares and lynxes": PeerProblem(
        "real data", "Hudson's Bay Company; Howard 2009; Stan case study", lambda: starter("lotka-volterra")
    ),
    "influenza": PeerProblem(
        "real data, hidden", "British Medical Journal, 4 March 1978", lambda: starter("influenza")
    ),
    "theophylline": PeerProblem(
        "real data, 12 experiments", "Boeckmann, Sheiner and Beal, NONMEM Users Guide V, 1994", theophylline
    ),
    "alpha-pinene": PeerProblem(
        "real data", "Fuguitt and Hawkins 1947; Box et al., Technometrics 15:33, 1973", alpha_pinene
    ),
    "gas oil": PeerProblem(
        "real data", "Tjoa and Biegler, Ind. Eng. Chem. Res. 30:376, 1991; COPS 3.1", gas_oil
    ),
    "robertson": _hard("robertson", "stiff", "Robertson 1966; Hairer and Wanner II"),
    "stiff van der pol": _hard("van der pol mu=20", "stiff, hidden", "van der Pol, Phil. Mag. 1926"),
    "roessler": _hard("roessler, x", "chaotic, hidden", "Rössler, Phys. Lett. A 57:397, 1976"),
    "goodwin": _hard("goodwin, x and z", "hidden", "Goodwin, Adv. Enzyme Regul. 3:425, 1965"),
    "hiv": _hard("hiv, log10 load", "hidden, decades", "Perelson and Nelson, SIAM Rev. 41:3, 1999"),
    "seir": _hard("seir, cases", "hidden", "Anderson and May 1991"),
    "morris lecar": PeerProblem(
        "hidden", "Morris and Lecar, Biophys. J. 35:193, 1981; Rinzel and Ermentrout 1989", morris_lecar
    ),
    "mapk": PeerProblem("hidden, 10 rates", "Kholodenko, Eur. J. Biochem. 267:1583, 2000", mapk),
    "50 ponds": _paper("rosenzweig_macarthur", "50 experiments", ponds=50),
    "kinase cascade": PeerProblem(
        "20 states, 25 rates", "Heinrich, Neel and Rapoport, Mol. Cell 9:957, 2002", cascade
    ),
}
