"""The raw tables of the four roles in roles.py, made from known truth, with the problem files that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

import picardfit as pf

Initial = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Study:
    """A folder with a raw table and a problem file, and what is true of it."""

    folder: Path
    truth: Mapping[str, float]  # parameters
    initial: Initial = field(default_factory=dict)  # experiment -> unknown initial states


def write(folder: Path, problem: str) -> Path:
    (folder / "problem.toml").write_text(problem, encoding="utf-8")
    return folder


# ---- an ecologist: two lakes, dates in a spreadsheet ---------------------------------------------------------------

LAKES = """title = "Algae and daphnia in two lakes"
equations = '''
eaten = a*algae*daphnia/(half + algae)
algae' = r*algae*(1 - algae/K) - eaten
daphnia' = e*eaten - m*daphnia
'''
t0 = "first"

[data]
file = "counts.xlsx"
sheet = "counts"
time = "Datum"
experiment = "lake"

[parameters]
r = { lower = 0.05, upper = 5, log = true, unit = "1/d" }
K = { lower = 1, upper = 50, log = true, unit = "mg/l" }
a = { lower = 0.05, upper = 5, log = true, unit = "1/d" }
half = { lower = 0.1, upper = 20, log = true, unit = "mg/l" }
e = 0.3
m = { lower = 0.005, upper = 0.5, log = true, unit = "1/d" }

[initial]
algae = [0.1, 30]
daphnia = [0.01, 10]

[noise]
type = "log-normal"
sigma = [0.01, 1]

[units]
algae = "mg/l"
daphnia = "mg/l"
"""


def lakes(folder: Path, rng: np.random.Generator) -> Study:
    """Weekly counts of two lakes in an .xlsx file, with dates, gaps and a column of remarks."""
    truth = {"r": 0.5, "K": 8.0, "a": 0.6, "half": 3.0, "m": 0.08}
    model = pf.Model(LAKES.split("'''")[1])
    initial = {"Ammer": {"algae": 2.0, "daphnia": 0.5}, "Eib": {"algae": 6.0, "daphnia": 1.5}}
    days, tables = np.arange(0, 180, 6.0), []
    for name, begin in initial.items():
        exact = pf.simulate(model, {**truth, "e": 0.3}, begin, days).observables
        noisy = {n: np.round(v * np.exp(0.1 * rng.standard_normal(len(v))), 4) for n, v in exact.items()}
        missing = rng.choice(len(days), 4, replace=False)
        noisy["daphnia"][missing] = np.nan
        dates = pd.Timestamp("2021-04-01") + pd.to_timedelta(days, unit="D")
        remarks = np.where(np.isin(np.arange(len(days)), missing), "net torn", "")
        tables.append(pd.DataFrame({"lake": name, "Datum": dates, **noisy, "remark": remarks}))
    with pd.ExcelWriter(folder / "counts.xlsx") as book:
        pd.DataFrame({"about": ["Counts of two lakes"]}).to_excel(book, sheet_name="read me", index=False)
        pd.concat(tables).to_excel(book, sheet_name="counts", index=False)
    return Study(write(folder, LAKES), truth, initial)


# ---- a pharmacologist: doses, and values below a limit -------------------------------------------------------------

DRUG = """title = "A drug in twelve people, by mouth twice a day"
equations = '''
gut' = -ka*gut
blood' = ka*gut - cl*(WT/70)^0.75/(v*WT/70)*blood
'''
observables = { conc = "blood/(v*WT/70)" }

[data]
file = "trial.csv"
doses = { 1 = "gut" }
observables = { 2 = "conc" }
covariates = ["WT"]

[parameters]
ka = { lower = 0.3, upper = 20, log = true, unit = "1/h" }  # absorbed faster than eliminated
cl = { lower = 0.1, upper = 100, log = true, unit = "l/h" }
v = { lower = 1, upper = 500, log = true, unit = "l" }

[initial]
gut = 0
blood = 0

[noise]
type = "normal"
proportional = [0.01, 1]

[units]
t = "h"
conc = "mg/l"
"""


def drug(folder: Path, rng: np.random.Generator) -> Study:
    """A table of NONMEM: three doses of 100 mg each, samples up to 60 h, those below 0.2 mg/l censored."""
    truth, limit = {"ka": 1.1, "cl": 3.0, "v": 32.0, "noise.proportional": 0.12}, 0.2
    model = pf.Model(DRUG.split("'''")[1], observables={"conc": "blood/(v*WT/70)"}, covariates=["WT"])
    times, rows = np.array([0.5, 1, 2, 4, 8, 11.5, 25, 28, 36, 48, 60]), []
    doses = pf.Doses([0, 12, 24], 100, into="gut")
    for k in range(1, 13):
        weight = float(np.round(rng.uniform(50, 100), 1))
        exact = pf.simulate(
            model,
            {n: truth[n] for n in ("ka", "cl", "v")},
            {"gut": 0, "blood": 0},
            times,
            doses=doses,
            covariates={"WT": weight},
        ).observables["conc"]
        rows.append((k, 0, ".", 100, 1, 1, 12, 2, 0, weight))
        for time, value in zip(times, exact * (1 + 0.12 * rng.standard_normal(len(times))), strict=True):
            low = value < limit
            rows.append((k, time, limit if low else round(value, 4), ".", 0, 2, ".", ".", int(low), weight))
    header = ["ID", "TIME", "DV", "AMT", "EVID", "CMT", "II", "ADDL", "CENS", "WT"]
    pd.DataFrame(rows, columns=header).to_csv(folder / "trial.csv", index=False)
    return Study(write(folder, DRUG), truth)


# ---- a neuroscientist: a recording of 10,000 rows ------------------------------------------------------------------

NEURON = """title = "A neuron under a fluctuating current"
equations = '''
v' = c*(v - v^3/3 + w) + g*current
w' = -(v - a + b*w)/c
'''
observables = ["v"]

[data]
file = "recording.csv"
time = "time"

[inputs]
current = { column = "current" }

[parameters]
a = [0, 2]
b = [0, 2]
c = { lower = 0.5, upper = 20, log = true }
g = [0, 5]

[initial]
v = [-3, 3]
w = [-3, 3]

[noise]
type = "normal"
additive = [0.001, 1]

[units]
t = "ms"
"""


def neuron(folder: Path, rng: np.random.Generator) -> Study:
    """10,000 rows of current and voltage; the current is filtered noise, held from row to row."""
    truth = {"a": 0.7, "b": 0.8, "c": 3.0, "g": 1.0, "noise.additive": 0.1}
    model = pf.Model(NEURON.split("'''")[1], observables=["v"], inputs=["current"])
    times, current = np.round(np.linspace(0, 100, 10_000), 6), np.zeros(10_000)
    shocks = rng.standard_normal(len(times))
    for k in range(1, len(times)):
        current[k] = 0.99 * current[k - 1] + 0.14 * shocks[k]
    current = np.round(0.3 + 0.4 * current, 5)
    begin = {"v": -1.0, "w": 1.0}
    values = {n: truth[n] for n in "abcg"}
    exact = pf.simulate(model, values, begin, times, {"current": pf.Table(times, current)}).observables["v"]
    noisy = np.round(exact + 0.1 * rng.standard_normal(len(times)), 5)
    pd.DataFrame({"time": times, "current": current, "v": noisy}).to_csv(
        folder / "recording.csv", index=False
    )
    return Study(write(folder, NEURON), truth, {"recording": begin})


# ---- a control engineer: three motors, of which the third validates ------------------------------------------------

MOTORS = """title = "Direct-current motors"
equations = '''
i' = (u - R*i - k*speed)/L
speed' = (k*i - b*speed)/J
'''
observables = ["speed", "i"]

[data]
file = "motors.csv"
time = "t"
experiment = "motor"

[inputs]
u = { column = "u" }

[parameters]
R = { lower = 0.1, upper = 10, log = true, unit = "ohm" }
k = { lower = 0.01, upper = 1, log = true, unit = "V s" }
L = { lower = 0.005, upper = 5, log = true, unit = "H" }
b = { lower = 1e-4, upper = 0.1, log = true, unit = "N m s" }
J = { lower = 1e-3, upper = 1, log = true, unit = "kg m^2" }

[initial]
i = 0
speed = 0

[noise.speed]
type = "normal"
additive = [0.01, 10]

[noise.i]
type = "normal"
additive = [0.001, 1]

[units]
t = "s"
u = "V"
i = "A"
speed = "rad/s"
"""


def motors(folder: Path, rng: np.random.Generator) -> Study:
    """Speed and current of three motors of one kind, under random steps of voltage; the third in a file of its own."""
    truth = {"R": 1.2, "k": 0.15, "L": 0.12, "b": 0.004, "J": 0.02}
    model = pf.Model(MOTORS.split("'''")[1], observables=["speed", "i"], inputs=["u"])
    times, tables = np.round(np.arange(0, 8, 0.02), 4), []
    for k in range(1, 4):
        voltage = np.repeat(rng.choice([-12.0, 0.0, 6.0, 12.0], size=16), 25)
        found = pf.simulate(model, truth, {"i": 0, "speed": 0}, times, {"u": pf.Table(times, voltage)})
        noisy = {
            n: v + s * rng.standard_normal(len(v))
            for (n, v), s in zip(found.observables.items(), (1.0, 0.2), strict=True)
        }
        columns = {n: np.round(v, 4) for n, v in noisy.items()}
        tables.append(pd.DataFrame({"motor": f"motor {k}", "t": times, "u": voltage, **columns}))
    pd.concat(tables[:2]).to_csv(folder / "motors.csv", index=False)
    tables[2].to_csv(folder / "third.csv", index=False)
    return Study(write(folder, MOTORS), {**truth, "noise.additive.speed": 1.0, "noise.additive.i": 0.2})
