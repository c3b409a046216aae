"""A second list of problems for held_out.py, chosen after the first had been run.

As with the first list, nothing in picardfit may be tuned on these. The sources give the equations and, where they have
some, the true values; time and concentrations may be rescaled.
"""

from __future__ import annotations

import numpy as np

import picardfit as pf
from held_out_problems import HeldOut, Run


def _steps(every: float, *levels: float) -> pf.Table:
    """An input that takes these levels one after the other."""
    return pf.Table(every * np.arange(len(levels)), np.array(levels))


def cells() -> list[HeldOut]:
    return [
        HeldOut(
            "calcium",
            "oscillator, stiff, hidden",
            "Goldbeter, Dupont and Berridge, PNAS 87:1461, 1990",
            "pump = VM*Z^2/(1 + Z^2)\nrelease = VR*Y^2/(4 + Y^2)*Z^4/(KA^4 + Z^4)\n"
            "Z' = v - pump + release + kf*Y - k*Z\nY' = pump - release - kf*Y",
            {"Z": "Z"},
            {"v": 3.2, "VM": 65.0, "VR": 500.0, "KA": 0.9, "k": 10.0, "kf": 1.0},
            (Run(np.linspace(0, 3, 60), {"Z": 0.3, "Y": 1.5}),),
            decades=1.0,
            noise=0.04,
            free={"Z": (0, 3), "Y": (0, 5)},
        ),
        HeldOut(
            "circadian",
            "oscillator, 5 states, hidden",
            "Goldbeter, Proc. R. Soc. B 261:319, 1995",
            "one = V1*P0/(2 + P0) - V2*P1/(2 + P1)\ntwo = V3*P1/(2 + P1) - V4*P2/(2 + P2)\n"
            "M' = vs/(1 + N^4) - vm*M/(0.5 + M)\nP0' = ks*M - one\nP1' = one - two\n"
            "P2' = two - k1*P2 + k2*N - vd*P2/(0.2 + P2)\nN' = k1*P2 - k2*N",
            {"mrna": "M", "protein": "P0 + P1 + P2 + N"},
            {"vs": 0.76, "vm": 0.65, "ks": 0.38, "vd": 0.95, "k1": 1.9, "k2": 1.3}
            | {"V1": 3.2, "V2": 1.58, "V3": 5.0, "V4": 2.5},
            (Run(np.arange(0, 72, 1.5), {"M": 0.6, "P0": 0.5, "P1": 0.5, "P2": 0.5, "N": 0.6}),),
            decades=1.0,
            noise=0.03,
        ),
        HeldOut(
            "repressilator",
            "oscillator, 6 states, hidden messengers",
            "Elowitz and Leibler, Nature 403:335, 2000",
            "a' = leak + alpha/(1 + R^n) - a\nb' = leak + alpha/(1 + P^n) - b\nc' = leak + alpha/(1 + Q^n) - c\n"
            "P' = beta*(a - P)\nQ' = beta*(b - Q)\nR' = beta*(c - R)",
            {"P": "P", "Q": "Q", "R": "R"},
            {"alpha": 40.0, "leak": 0.1, "n": 2.0, "beta": 1.5},
            (Run(np.linspace(0, 40, 50), {"a": 1.0, "b": 2.0, "c": 0.5, "P": 5.0, "Q": 1.0, "R": 3.0}),),
            decades=1.5,
            noise=0.04,
            free=dict.fromkeys("abc", (0.0, 30.0)) | dict.fromkeys("PQR", (0.0, 30.0)),
        ),
        HeldOut(
            "signal cascade",
            "ultrasensitive switch, input",
            "Goldbeter and Koshland, PNAS 78:6840, 1981",
            "A' = u*v1*(1 - A)/(K1 + 1 - A) - v2*A/(K2 + A)\nB' = v3*A*(1 - B)/(K3 + 1 - B) - v4*B/(K4 + B)",
            {"B": "B"},
            {"v1": 1.0, "v2": 0.5, "v3": 2.0, "v4": 1.0, "K1": 0.1, "K2": 0.1, "K3": 0.2, "K4": 0.2},
            (
                Run(np.linspace(0, 30, 40), {"A": 0.1, "B": 0.1}, {"u": _steps(6, 1.0, 0.2, 0.7, 0.3, 1.5)}),
                Run(np.linspace(0, 30, 40), {"A": 0.9, "B": 0.5}, {"u": _steps(10, 0.4, 0.6, 0.1)}),
            ),
            decades=2.0,
            noise=0.03,
        ),
    ]


def medicine() -> list[HeldOut]:
    minutes = np.array(
        [0, 2, 4, 6, 8, 10, 12, 14, 16, 19, 22, 27, 32, 42, 52, 62, 72, 82, 92, 102, 122, 142, 162, 182.0]
    )
    insulin = np.array(
        [11, 26, 130, 85, 51, 49, 45, 41, 35, 30, 30, 27, 30, 22, 15, 15, 11, 10, 8, 11, 7, 8, 8, 7.0]
    )
    return [
        HeldOut(
            "minimal model",
            "glucose and insulin, measured input, decades",
            "Bergman, Ider, Bowden and Cobelli, Am. J. Physiol. 236:E667, 1979",
            "G' = p1*(92 - G) - X*G\nX' = -p2*X + p3*max(insulin - 7, 0)",
            {"G": "G"},
            {"p1": 0.03, "p2": 0.02, "p3": 1.3e-5},
            (Run(minutes, {"G": 287.0, "X": 0.0}, {"insulin": pf.Table(minutes, insulin, kind="linear")}),),
            decades=3.0,
            noise=0.02,
            free={"G": (100, 600)},
        ),
        HeldOut(
            "hepatitis",
            "virus load in decades, hidden",
            "Neumann et al., Science 282:103, 1998",
            "I' = beta*V - d*I\nV' = q*I - c*V",
            {"log_V": "log(V)"},
            {"beta": 0.03, "d": 0.14, "q": 3.0, "c": 6.0},
            (Run(np.array([0, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 3, 5, 7, 10, 14.0]), {"I": 1.0, "V": 5.0}),),
            decades=2.0,
            noise=0.02,
            free={"V": (0.1, 100)},
        ),
        HeldOut(
            "bolus, two compartments",
            "pharmacokinetics, saturable, three doses",
            "Wagner, Fundamentals of Clinical Pharmacokinetics, 1975",
            "c' = -vm*c/(km + c) - k12*c + k21*p\np' = k12*c - k21*p",
            {"c": "c"},
            {"vm": 1.0, "km": 2.0, "k12": 0.4, "k21": 0.25},
            tuple(
                Run(np.array([0.1, 0.25, 0.5, 1, 2, 4, 6, 9, 12, 18, 24]), {"c": c, "p": 0.0})
                for c in (1.0, 6.0, 30.0)
            ),
            decades=3.0,
            proportional=0.1,
        ),
    ]


def reactors() -> list[HeldOut]:
    return [
        HeldOut(
            "van de vusse",
            "reactor, input, hidden",
            "van de Vusse, Chem. Eng. Sci. 19:994, 1964",
            "A' = F*(10 - A) - k1*A - k3*A^2\nB' = -F*B + k1*A - k2*B",
            {"B": "B"},
            {"k1": 0.833, "k2": 1.667, "k3": 0.167},
            (
                Run(
                    np.linspace(0, 12, 60),
                    {"A": 3.0, "B": 1.1},
                    {"F": _steps(2, 0.57, 1.2, 0.2, 0.8, 2.0, 0.4)},
                ),
            ),
            decades=2.0,
            noise=0.03,
            free={"A": (0, 10), "B": (0, 5)},
        ),
        HeldOut(
            "inhibited growth",
            "chemostat, two dilution rates",
            "Andrews, Biotechnol. Bioeng. 10:707, 1968",
            "mu = mum*S/(Ks + S + S^2/Ki)\nX' = (mu - D)*X\nS' = D*(5 - S) - mu*X/Y",
            {"X": "X", "S": "S"},
            {"mum": 0.6, "Ks": 0.3, "Ki": 2.0, "Y": 0.5},
            tuple(
                Run(np.linspace(0, 40, 20), {"X": x, "S": 4.0}, {"D": _steps(20, *levels)})
                for x, levels in ((0.1, (0.15, 0.3)), (1.0, (0.35, 0.1)))
            ),
            decades=2.0,
            noise=0.04,
            free={"X": (0, 5), "S": (0, 10)},
        ),
        HeldOut(
            "chlorite and iodide",
            "oscillator, hidden",
            "Lengyel and Epstein, PNAS 89:3977, 1992",
            "rate = x*y/(1 + x^2)\nx' = a - x - 4*rate\ny' = b*(x - rate)",
            {"x": "x"},
            {"a": 10.0, "b": 2.0},
            (Run(np.linspace(0, 20, 50), {"x": 1.0, "y": 4.0}),),
            decades=1.5,
            noise=0.05,
            free={"x": (0, 10), "y": (0, 20)},
        ),
        HeldOut(
            "glycolytic oscillator",
            "oscillator, hidden",
            "Selkov, Eur. J. Biochem. 4:79, 1968",
            "x' = -x + a*y + x^2*y\ny' = b - a*y - x^2*y",
            {"x": "x"},
            {"a": 0.08, "b": 0.6},
            (Run(np.linspace(0, 40, 60), {"x": 1.0, "y": 1.0}),),
            decades=1.5,
            noise=0.05,
            free={"x": (0, 5), "y": (0, 5)},
        ),
    ]


def machines() -> list[HeldOut]:
    return [
        HeldOut(
            "duffing",
            "chaotic, forced, hidden",
            "Guckenheimer and Holmes, Nonlinear Oscillations, 1983",
            "x' = v\nv' = a*x - b*x^3 - d*v + g*cos(1.2*t)",
            {"x": "x"},
            {"a": 1.0, "b": 1.0, "d": 0.3, "g": 0.5},
            (Run(np.linspace(0, 40, 120), {"x": 1.0, "v": 0.0}),),
            decades=1.0,
            noise=0.05,
            free={"x": (-3, 3), "v": (-3, 3)},
        ),
        HeldOut(
            "chua",
            "chaotic, kinks, hidden",
            "Matsumoto, IEEE Trans. Circuits Syst. 31:1055, 1984",
            "f = m1*x + 0.5*(m0 - m1)*(abs(x + 1) - abs(x - 1))\n"
            "x' = al*(y - x + f)\ny' = x - y + z\nz' = -be*y",
            {"x": "x", "y": "y"},
            {"al": 9.0, "be": 14.286, "m0": 1.143, "m1": 0.714},
            (Run(np.linspace(0, 15, 150), {"x": 0.7, "y": 0.0, "z": 0.0}),),
            decades=0.8,
            noise=0.03,
            free=dict.fromkeys("xyz", (-5.0, 5.0)),
        ),
        HeldOut(
            "rigid body",
            "rotation, all measured",
            "Landau and Lifshitz, Mechanics, 1976",
            "p' = a*q*r - d*p\nq' = -b*p*r - d*q\nr' = c*p*q - d*r",
            {"p": "p", "q": "q", "r": "r"},
            {"a": 0.5, "b": 0.9, "c": 0.4, "d": 0.02},
            (Run(np.linspace(0, 30, 60), {"p": 1.0, "q": 0.2, "r": 2.0}),),
            decades=2.0,
            noise=0.05,
            free=dict.fromkeys("pqr", (-4.0, 4.0)),
        ),
        HeldOut(
            "house",
            "heat, input, two hidden temperatures",
            "Madsen and Holst, Energy Build. 22:67, 1995",
            "out = 5 + 5*sin(0.26*t)\nair' = (wall - air)/tw + h*heat + (floor - air)/tf\n"
            "wall' = (air - wall)/ta + (out - wall)/to\nfloor' = (air - floor)/tg",
            {"air": "air"},
            {"tw": 2.0, "ta": 10.0, "to": 30.0, "tf": 4.0, "tg": 20.0, "h": 3.0},
            (
                Run(
                    np.arange(0, 72, 0.5),
                    {"air": 18.0, "wall": 12.0, "floor": 16.0},
                    {"heat": _steps(6, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0)},
                ),
            ),
            decades=2.0,
            noise=0.01,
            free={"air": (0, 40), "wall": (-10, 40), "floor": (0, 40)},
        ),
        HeldOut(
            "hyperchaos",
            "chaotic, 4 states, hidden",
            "Roessler, Phys. Lett. A 71:155, 1979",
            "x' = -y - z\ny' = x + a*y + w\nz' = b + x*z\nw' = -c*z + d*w",
            {"x": "x", "y": "y"},
            {"a": 0.25, "b": 3.0, "c": 0.5, "d": 0.05},
            (Run(np.linspace(0, 20, 100), {"x": -10.0, "y": -6.0, "z": 0.5, "w": 10.0}),),
            decades=1.0,
            noise=0.03,
            free={"x": (-50, 50), "y": (-50, 50), "z": (0, 50), "w": (0, 60)},
        ),
    ]


def populations() -> list[HeldOut]:
    return [
        HeldOut(
            "three competitors",
            "ecology, cycles",
            "May and Leonard, SIAM J. Appl. Math. 29:243, 1975",
            "x' = r*x*(1 - x - a*y - b*z)\ny' = r*y*(1 - b*x - y - a*z)\nz' = r*z*(1 - a*x - b*y - z)",
            {"x": "x", "y": "y", "z": "z"},
            {"r": 1.0, "a": 0.8, "b": 1.3},
            (Run(np.linspace(0, 40, 30), {"x": 0.2, "y": 0.5, "z": 0.1}),),
            decades=1.5,
            noise=0.08,
            free=dict.fromkeys("xyz", (0.0, 2.0)),
        ),
        HeldOut(
            "plankton",
            "ecology, hidden nutrient",
            "Franks, Wroblewski and Flierl, Mar. Biol. 91:121, 1986",
            "up = Vm*N/(ks + N)*P\neaten = Rm*(1 - exp(-lam*P))*Z\n"
            "N' = -up + (1 - ga)*eaten + m*P + g*Z\nP' = up - eaten - m*P\nZ' = ga*eaten - g*Z",
            {"P": "P", "Z": "Z"},
            {"Vm": 2.0, "ks": 1.0, "Rm": 1.5, "lam": 1.0, "m": 0.1, "g": 0.2, "ga": 0.7},
            (Run(np.linspace(0, 40, 50), {"N": 1.6, "P": 0.3, "Z": 0.1}),),
            decades=1.0,
            noise=0.05,
            free={"N": (0, 10)},
        ),
        HeldOut(
            "vaccination",
            "epidemics, input, hidden, two towns",
            "Anderson and May, Infectious Diseases of Humans, 1991",
            "S' = -beta*S*I - nu*u*S\nE' = beta*S*I - sigma*E\nI' = sigma*E - gamma*I",
            {"cases": "1000*rho*sigma*E"},
            {"beta": 0.8, "sigma": 0.3, "gamma": 0.25, "nu": 0.02, "rho": 0.4},
            tuple(
                Run(np.arange(2.0, 90, 2), {"S": 0.95, "E": 0.001, "I": i}, {"u": _steps(day, 0.0, 1.0)})
                for i, day in ((0.001, 30), (0.005, 12))
            ),
            decades=1.5,
            noise=0.02,
            proportional=0.05,
            free={"E": (0, 0.05), "I": (0, 0.05)},
        ),
        HeldOut(
            "fluorescent reporter",
            "gene expression, delay by a chain, hidden",
            "Swameye et al., PNAS 100:1028, 2003",
            "act = k1*a*u\na' = -act + 2*k3*d4\nb' = act - k2*b^2\nc' = 0.5*k2*b^2 - k3*c\n"
            "d1' = k3*c - k4*d1\nd2' = k4*(d1 - d2)\nd3' = k4*(d2 - d3)\nd4' = k4*d3 - k3*d4",
            {"cytoplasm": "scale*(a + b + 2*c)", "active": "b + 2*c"},
            {"k1": 0.5, "k2": 1.5, "k3": 0.3, "k4": 0.8, "scale": 0.7},
            (
                Run(
                    np.array([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 40, 50, 60.0]),
                    {"a": 1.0} | dict.fromkeys(("b", "c", "d1", "d2", "d3", "d4"), 0.0),
                    {
                        "u": pf.Table(
                            np.array([0, 2, 5, 8, 12, 20, 30, 45, 60.0]),
                            np.array([0.02, 0.5, 1.0, 0.9, 0.7, 0.4, 0.2, 0.05, 0.02]),
                            kind="linear",
                        )
                    },
                ),
            ),
            decades=2.0,
            noise=0.04,
        ),
    ]


SECOND = {one.name: one for one in (*cells(), *medicine(), *reactors(), *machines(), *populations())}
