"""The problems of held_out.py: models of the literature that no other benchmark, example or starter uses.

Nothing in picardfit may be tuned on them: they say how a default fit does on problems that nobody looked at. The
sources give the equations and, where they have some, the true values; time and concentrations may be rescaled so that
observables have comparable sizes. Noise and bounds depend on SEED and the name of the problem only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

import picardfit as pf

SEED = 20  # of noise, bounds and starts
ASIDE = (0.15, 0.85)  # where the truth may lie between the bounds, as a part of the decades


@dataclass(frozen=True)
class Run:
    """One experiment: when it is sampled, where it begins, and what drives it."""

    times: np.ndarray
    initial: dict[str, float]
    inputs: dict[str, object] | None = None


@dataclass(frozen=True)
class HeldOut:
    """A problem with its kind, source and truth; `build` makes the data and the bounds."""

    name: str
    kind: str
    source: str
    equations: str
    observables: Mapping[str, str]
    truth: Mapping[str, float]
    runs: tuple[Run, ...]
    decades: float | Mapping[str, float]  # between the bounds of a parameter; "" stands for those not named
    noise: float = 0.0  # standard deviation as a part of an observable's range over all runs
    proportional: float = 0.0  # standard deviation as a part of the value
    free: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # unknown initial states: bounds

    def build(self) -> pf.Problem:
        driven = self.runs[0].inputs or {}
        model = pf.Model(self.equations, observables=dict(self.observables), inputs=list(driven))
        exact = [
            pf.simulate(model, self.truth, one.initial, one.times, one.inputs, t0=0.0).observables
            for one in self.runs
        ]
        ranges = {n: float(np.ptp(np.concatenate([one[n] for one in exact]))) for n in self.observables}
        rng = self.random(0)
        experiments = []
        for k, (run, curves) in enumerate(zip(self.runs, exact, strict=True)):
            sizes = {n: np.hypot(self.noise * ranges[n], self.proportional * v) for n, v in curves.items()}
            data = {n: v + sizes[n] * rng.standard_normal(len(v)) for n, v in curves.items()}
            known = {n: v for n, v in run.initial.items() if n not in self.free}
            experiments.append(
                pf.Experiment(run.times, data, f"run {k + 1}", inputs=run.inputs, initial=known, t0=0.0)
            )
        return pf.Problem(model, experiments, self._bounds(), dict(self.free))

    def random(self, purpose: int) -> np.random.Generator:
        """Random numbers of this problem: for noise (0), bounds (1) and starts (2, 3, ...)."""
        return np.random.default_rng([SEED, crc32(self.name.encode()), purpose])

    def start(self, k: int) -> dict[str, float]:
        """Every parameter anywhere between its bounds."""
        rng = self.random(2 + k)
        return {
            name: float(np.exp(rng.uniform(np.log(one.lower), np.log(one.upper))))
            for name, one in self._bounds().items()
        }

    def true_initial(self) -> dict[str, dict[str, float]]:
        """The unknown initial states of every experiment."""
        return {f"run {k + 1}": {n: one.initial[n] for n in self.free} for k, one in enumerate(self.runs)}

    def _bounds(self) -> dict[str, pf.Parameter]:
        """Log bounds, of which the truth is not the middle."""
        rng = self.random(1)
        found = {}
        for name, value in self.truth.items():
            width = self.decades
            if isinstance(width, Mapping):
                width = width.get(name, width[""])
            below = rng.uniform(*ASIDE) * width
            found[name] = pf.Parameter(value * 10**-below, value * 10 ** (width - below), log=True)
        return found


def _steps(every: float, *levels: float) -> pf.Table:
    """An input that takes these levels one after the other."""
    return pf.Table(every * np.arange(len(levels)), np.array(levels))


def _hodgkin_huxley() -> str:
    """Rates in 1/ms of the voltage in mV, resting at -65."""
    return (
        "am = 0.1*(V + 40)/(1 - exp(-(V + 40)/10))\nbm = 4*exp(-(V + 65)/18)\n"
        "ah = 0.07*exp(-(V + 65)/20)\nbh = 1/(1 + exp(-(V + 35)/10))\n"
        "an = 0.01*(V + 55)/(1 - exp(-(V + 55)/10))\nbn = 0.125*exp(-(V + 65)/80)\n"
        "V' = I - gNa*m^3*h*(V - 50) - gK*n^4*(V + 77) - gL*(V + 54.4)\n"
        "m' = am*(1 - m) - bm*m\nh' = ah*(1 - h) - bh*h\nn' = an*(1 - n) - bn*n"
    )


def ecology() -> list[HeldOut]:
    return [
        HeldOut(
            "spruce budworm",
            "ecology, bistable",
            "Ludwig, Jones and Holling, J. Anim. Ecol. 47:315, 1978",
            "x' = r*x*(1 - x/k) - b*x^2/(a^2 + x^2)",
            {"log_x": "log(x)"},
            {"r": 0.5, "k": 10.0, "b": 1.0, "a": 1.0},
            tuple(Run(np.linspace(0, 30, 16), {"x": x}) for x in (0.1, 1.5, 3.0, 9.0)),
            decades=2.0,
            noise=0.04,
            free={"x": (0.01, 50)},
        ),
        HeldOut(
            "food chain",
            "ecology, chaotic, hidden",
            "Hastings and Powell, Ecology 72:896, 1991",
            "f = a1*x*y/(1 + b1*x)\ng = a2*y*z/(1 + b2*y)\n"
            "x' = x*(1 - x) - f\ny' = f - g - d1*y\nz' = g - d2*z",
            {"x": "x", "y": "y"},
            {"a1": 5.0, "b1": 3.0, "a2": 0.1, "b2": 2.0, "d1": 0.4, "d2": 0.01},
            (Run(np.linspace(0, 200, 100), {"x": 0.8, "y": 0.2, "z": 8.0}),),
            decades=1.0,
            noise=0.05,
            free={"x": (0, 2), "y": (0, 2), "z": (0, 30)},
        ),
    ]


def pharmacology() -> list[HeldOut]:
    hours = np.array([0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48])
    return [
        HeldOut(
            "saturable elimination",
            "pharmacokinetics, three doses",
            "Godfrey and Fitch, J. Pharmacokinet. Biopharm. 12:177, 1984",
            "c = central/v\ngut' = -ka*gut\n"
            "central' = ka*gut - vm*c/(km + c) - k12*central + k21*tissue\ntissue' = k12*central - k21*tissue",
            {"concentration": "central/v"},
            {"ka": 1.2, "vm": 20.0, "km": 2.0, "v": 20.0, "k12": 0.3, "k21": 0.2},
            tuple(Run(hours, {"gut": dose, "central": 0.0, "tissue": 0.0}) for dose in (50.0, 150.0, 500.0)),
            decades=3.0,
            proportional=0.08,
        ),
        HeldOut(
            "tumour and immunity",
            "immunology, decades",
            "Kuznetsov, Makalkin, Taylor and Perelson, Bull. Math. Biol. 56:295, 1994",
            "E' = s + p*E*T/(g + T) - m*E*T - d*E\nT' = a*T*(1 - b*T) - E*T",
            {"log_E": "log(E)", "log_T": "log(T)"},
            {"s": 0.1181, "p": 1.131, "g": 20.19, "m": 0.00311, "d": 0.3743, "a": 1.636, "b": 0.002},
            (
                Run(np.linspace(0, 50, 40), {"E": 0.76, "T": 267.0}),
                Run(np.linspace(0, 50, 40), {"E": 3.0, "T": 2.0}),
            ),
            decades=2.0,
            noise=0.04,
            free={"E": (0.01, 20), "T": (0.01, 1000)},
        ),
    ]


def biochemistry() -> list[HeldOut]:
    return [
        HeldOut(
            "inhibited enzyme",
            "enzyme, product and substrate inhibit, enzyme decays",
            "Haldane, Enzymes, 1930; Selwyn, Biochim. Biophys. Acta 105:193, 1965",
            "rate = V*e*s/(Km*(1 + p/Ki) + s + s^2/Ks)\ns' = -rate\np' = rate\ne' = -kd*e",
            {"p": "p"},
            {"V": 1.0, "Km": 0.8, "Ki": 1.5, "Ks": 10.0, "kd": 0.04},
            tuple(Run(np.linspace(1, 40, 20), {"s": s, "p": 0.0, "e": 1.0}) for s in (1.0, 3.0, 8.0, 20.0)),
            decades=3.0,
            noise=0.02,
        ),
        HeldOut(
            "glycolysis",
            "oscillator, 7 states, 10 rates, hidden",
            "Wolf and Heinrich, Biochem. J. 345:321, 2000",
            "v1 = k1*S1*A3/(1 + (A3/K1)^4)\nv2 = k2*S2*(1 - N2)\nv3 = k3*S3*(4 - A3)\nv4 = k4*S4*N2\n"
            "v6 = k6*S2*N2\nout = kappa*(S4 - X)\n"
            "S1' = J - v1\nS2' = 2*v1 - v2 - v6\nS3' = v2 - v3\nS4' = v3 - v4 - out\n"
            "N2' = v2 - v4 - v6\nA3' = 2*v3 - 2*v1 - k5*A3\nX' = 0.1*out - k*X",
            {"S1": "S1", "S2": "S2", "nadh": "5*N2", "atp": "A3"},
            {"J": 2.5, "k1": 100.0, "k2": 6.0, "k3": 16.0, "k4": 100.0, "k5": 1.28, "k6": 12.0}
            | {"k": 1.8, "kappa": 13.0, "K1": 0.52},
            (
                Run(
                    np.linspace(0, 4, 80),
                    {"S1": 1.2, "S2": 0.6, "S3": 0.1, "S4": 0.2, "N2": 0.2, "A3": 2.0, "X": 0.07},
                ),
            ),
            decades=1.0,
            noise=0.04,
            free={"S3": (0, 2), "S4": (0, 2), "X": (0, 1)},
        ),
        HeldOut(
            "cell cycle",
            "oscillator, 6 states, stiff, hidden",
            "Tyson, Proc. Natl. Acad. Sci. USA 88:7328, 1991",
            "bind = k3*CP*Y\nturn = P*(k4p + k4*M^2)\nC' = k6*M - 1000*C + 10*CP\n"
            "CP' = 1000*C - 10*CP - bind\nP' = bind - turn\nM' = turn - k6*M\nY' = k1 - bind\n"
            "YP' = k6*M - k7*YP",
            {"active": "M", "cyclin": "Y + YP + P + M"},
            {"k1": 0.015, "k3": 200.0, "k4": 180.0, "k4p": 0.018, "k6": 1.0, "k7": 0.6},
            (
                Run(
                    np.linspace(0, 100, 80),
                    {"C": 0.0, "CP": 0.75, "P": 0.25, "M": 0.0, "Y": 0.0, "YP": 0.0},
                ),
            ),
            decades=1.5,
            noise=0.03,
        ),
    ]


def genes() -> list[HeldOut]:
    return [
        HeldOut(
            "toggle switch",
            "gene regulation, bistable, input",
            "Gardner, Cantor and Collins, Nature 403:339, 2000",
            "w = u/(1 + iptg/K)^2\nu' = a1/(1 + v^beta) - u\nv' = a2/(1 + w^gamma) - v",
            {"log_u": "log(u)", "log_v": "log(v)"},
            {"a1": 156.25, "a2": 15.6, "beta": 2.5, "gamma": 1.0, "K": 2.96},
            tuple(
                Run(np.linspace(0, 24, 25), {"u": 100.0, "v": 0.5}, {"iptg": _steps(6.0, 0.0, dose, 0.0)})
                for dose in (3.0, 10.0, 60.0)
            ),
            decades={"": 2.0, "beta": 1.0, "gamma": 1.0},
            noise=0.03,
            free={"u": (1e-2, 1e4), "v": (1e-3, 1e3)},
        ),
        HeldOut(
            "hes1",
            "gene regulation, oscillator, hidden",
            "Hirata et al., Science 298:840, 2002",
            "p' = -a*p*x + b*m - c*p\nm' = -d*m + e/(1 + p^2)\nx' = -a*p*x + f/(1 + p^2) - g*x",
            {"m": "m", "p": "p"},
            {"a": 0.022, "b": 0.3, "c": 0.031, "d": 0.028, "e": 0.5, "f": 20.0, "g": 0.3},
            (Run(np.linspace(0, 480, 60), {"p": 3.0, "m": 1.0, "x": 5.0}),),
            decades=1.5,
            noise=0.05,
            free={"p": (0, 20), "m": (0, 20), "x": (0, 200)},
        ),
    ]


def neuroscience() -> list[HeldOut]:
    rest = {"V": -65.0, "m": 0.05293, "h": 0.59612, "n": 0.31768}
    return [
        HeldOut(
            "wilson cowan",
            "neurons, oscillator, hidden",
            "Wilson and Cowan, Biophys. J. 12:1, 1972",
            "F = 1/(1 + exp(-1.3*(c1*E - c2*I + P - 4))) - 1/(1 + exp(5.2))\n"
            "G = 1/(1 + exp(-2*(c3*E - c4*I - 3.7))) - 1/(1 + exp(7.4))\n"
            "E' = (-E + (1 - E)*F)/tau\nI' = (-I + (1 - I)*G)/tau",
            {"E": "E"},
            {"c1": 16.0, "c2": 12.0, "c3": 15.0, "c4": 3.0, "P": 1.25, "tau": 8.0},
            (Run(np.linspace(0, 240, 120), {"E": 0.1, "I": 0.05}),),
            decades=1.0,
            noise=0.05,
            free={"E": (0, 1), "I": (0, 1)},
        ),
        HeldOut(
            "hodgkin huxley",
            "neurons, spikes, two currents, 3 hidden",
            "Hodgkin and Huxley, J. Physiol. 117:500, 1952",
            _hodgkin_huxley(),
            {"V": "V"},
            {"gNa": 120.0, "gK": 36.0, "gL": 0.3},
            tuple(Run(np.linspace(0, 40, 160), rest, {"I": current}) for current in (7.0, 15.0)),
            decades=1.0,
            noise=0.02,
        ),
    ]


def chemistry() -> list[HeldOut]:
    return [
        HeldOut(
            "brusselator",
            "chemistry, oscillator, hidden",
            "Prigogine and Lefever, J. Chem. Phys. 48:1695, 1968",
            "x' = a - (b + d)*x + c*x^2*y\ny' = b*x - c*x^2*y",
            {"x": "x"},
            {"a": 1.0, "b": 3.0, "c": 1.0, "d": 1.0},
            (Run(np.linspace(0, 25, 60), {"x": 1.0, "y": 1.0}),),
            decades=2.0,
            noise=0.05,
            free={"x": (0, 10), "y": (0, 20)},
        ),
        HeldOut(
            "oregonator",
            "chemistry, oscillator, stiff, hidden",
            "Field and Noyes, J. Chem. Phys. 60:1877, 1974; Tyson, Ann. N. Y. Acad. Sci. 316:279, 1979",
            "x' = (q*y - x*y + x*(1 - x))/eps\ny' = 100*(f*z - q*y - x*y)/eps\nz' = k*(x - z)",
            {"x": "x", "z": "z"},
            {"eps": 0.04, "q": 8e-4, "f": 1.0, "k": 1.0},
            (Run(np.linspace(0, 25, 100), {"x": 0.2, "y": 0.2, "z": 0.2}),),
            decades={"": 2.0, "f": 1.0, "k": 1.0},
            noise=0.03,
            free={"y": (0, 100)},
        ),
    ]


def machines() -> list[HeldOut]:
    return [
        HeldOut(
            "pendulum",
            "mechanics, dry friction, input",
            "Armstrong-Hélouvry, Dupont and Canudas de Wit, Automatica 30:1083, 1994",
            "angle' = w\nw' = -a*sin(angle) - c*w - f*tanh(w/s) + b*torque",
            {"angle": "angle"},
            {"a": 20.0, "b": 5.0, "c": 0.15, "f": 1.0, "s": 0.1},
            (
                Run(np.linspace(0, 6, 80), {"angle": 2.5, "w": 0.0}, {"torque": 0.0}),
                Run(np.linspace(0, 6, 80), {"angle": 0.0, "w": 0.0}, {"torque": "sin(3.5*t)"}),
            ),
            decades=1.5,
            noise=0.02,
            free={"angle": (-4, 4), "w": (-10, 10)},
        ),
        HeldOut(
            "dc motor",
            "control, stiff, input",
            "Ljung, System Identification, 2nd edition, 1999; Leonhard, Control of Electrical Drives, 2001",
            "i' = (u - R*i - K*w)/L\nw' = (K*i - b*w - T*tanh(2*w))/J",
            {"current": "i", "speed": "w/5"},
            {"R": 1.0, "L": 0.02, "K": 0.2, "J": 0.01, "b": 0.002, "T": 0.1},
            (Run(np.linspace(0, 4, 100), {"i": 0.0, "w": 0.0}, {"u": _steps(1.0, 5.0, -5.0, 2.0, -1.0)}),),
            decades=2.0,
            noise=0.03,
        ),
        HeldOut(
            "two tanks",
            "control, input, hidden",
            "Wigren and Schoukens, European Control Conference, p. 2933, 2013",
            "a = sqrt(max(h1, 0))\nb = sqrt(max(h2, 0))\nh1' = -k1*a + k2*u\nh2' = k3*a - k4*b",
            {"h2": "h2"},
            {"k1": 0.12, "k2": 0.08, "k3": 0.1, "k4": 0.11},
            (Run(np.linspace(0, 300, 100), {"h1": 1.0, "h2": 2.0}, {"u": _steps(50.0, 3, 1, 4, 2, 3.5, 1)}),),
            decades=1.5,
            noise=0.03,
            free={"h2": (0, 10)},
        ),
        HeldOut(
            "laser",
            "physics, spiking, stiff, hidden, two pumps",
            "Statz and deMars, Quantum Electronics, p. 530, 1960; Siegman, Lasers, 1986",
            "n' = g*(r*pump - n - n*q)\nq' = k*(q*(n - 1) + s*n)",
            {"signal": "c*q"},
            {"g": 1.0, "k": 100.0, "r": 3.0, "s": 1e-4, "c": 0.5},
            tuple(Run(np.linspace(0, 2.5, 125), {"n": 0.0, "q": 0.0}, {"pump": p}) for p in (1.0, 0.7)),
            decades={"": 1.0, "s": 4.0, "c": 2.0},
            noise=0.03,
        ),
    ]


def epidemics_and_climate() -> list[HeldOut]:
    return [
        HeldOut(
            "seasonal sirs",
            "epidemics, forced, hidden",
            "Dietz, Lecture Notes in Biomathematics 11:1, 1976; Keeling and Rohani, 2008",
            "new = b*exp(a*cos(2*pi*t/52))*S*I\nS' = w*(1 - S - I) - new\nI' = new - g*I",
            {"cases": "1000*rho*b*exp(a*cos(2*pi*t/52))*S*I"},
            {"b": 1.5, "a": 0.15, "g": 0.5, "w": 0.015, "rho": 0.2},
            (Run(np.arange(0.0, 208, 2), {"S": 0.4, "I": 0.003}),),
            decades=1.0,
            proportional=0.1,
            free={"S": (0.05, 1), "I": (1e-5, 0.1)},
        ),
        HeldOut(
            "dengue",
            "epidemics, vectors, hidden",
            "Esteva and Vargas, Math. Biosci. 150:131, 1998",
            "S' = -b*S*V\nI' = b*S*V - g*I\nE' = c*I*(1 - E - V) - (m + 0.1)*E\nV' = 0.1*E - m*V",
            {"cases": "100*rho*b*S*V"},
            {"b": 0.4, "c": 0.4, "g": 0.15, "m": 0.1, "rho": 0.3},
            (Run(np.arange(3.0, 180, 3), {"S": 0.9, "I": 0.001, "E": 0.0, "V": 0.0005}),),
            decades=1.5,
            noise=0.01,
            proportional=0.05,
            free={"I": (0, 0.05), "V": (0, 0.05)},
        ),
        HeldOut(
            "lorenz 84",
            "climate, chaotic, hidden",
            "Lorenz, Tellus A 36:98, 1984",
            "x' = -y^2 - z^2 - a*x + a*F\ny' = x*y - b*x*z - y + G\nz' = b*x*y + x*z - z",
            {"x": "x", "y": "y"},
            {"a": 0.25, "b": 4.0, "F": 8.0, "G": 1.0},
            (Run(np.linspace(0, 15, 150), {"x": 1.0, "y": 1.0, "z": -1.0}),),
            decades=1.5,
            noise=0.05,
            free=dict.fromkeys("xyz", (-5.0, 5.0)),
        ),
    ]


CHEMICAL = (*pharmacology(), *biochemistry(), *genes(), *chemistry())
OTHERS = (*ecology(), *neuroscience(), *machines(), *epidemics_and_climate())
PROBLEMS = {one.name: one for one in (*CHEMICAL, *OTHERS)}
