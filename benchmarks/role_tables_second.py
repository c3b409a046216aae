"""Raw tables of four more roles for roles.py --second: counts, a plate reader, a thermostat, old tables of trees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import picardfit as pf
from role_tables import Study, write

# ---- an epidemiologist: weekly reports of two towns ----------------------------------------------------------------

TOWNS = """title = "Reported cases in two towns"
equations = '''
new = beta*S*I/N
S' = -new
E' = new - E/4
I' = E/4 - recovery*I
C' = E/4
'''
observables = { cases = "increment(reported*C)" }

[data]
file = "reports.csv"
time = "Woche"
experiment = "Ort"
covariates = ["N"]

[parameters]
beta = { lower = 0.05, upper = 3, log = true, unit = "1/d" }
recovery = { lower = 0.02, upper = 2, log = true, unit = "1/d" }
reported = { lower = 0, upper = 1, logit = true }

[initial]
S = "N - E - I"
E = { lower = 1, upper = 500, log = true }
I = "E"
C = 0

[noise]
type = "negative-binomial"
dispersion = [1, 1000]

[derived]
R0 = "beta/recovery"
"""


def towns(folder: Path, rng: np.random.Generator) -> Study:
    """Weekly counts with German dates, semicolons, missing weeks and lost reports; more scattered than Poisson's."""
    truth = {"beta": 0.45, "recovery": 0.2, "reported": 0.3}
    model = pf.Model(TOWNS.split("'''")[1], observables={"cases": "increment(reported*C)"}, covariates=["N"])
    begin, people = {"Adorf": 20.0, "Bstadt": 60.0}, {"Adorf": 30_000, "Bstadt": 80_000}
    days, tables = np.arange(7.0, 7 * 24, 7), []
    for name, first in begin.items():
        initial = {"S": people[name] - 2 * first, "E": first, "I": first, "C": 0.0}
        exact = pf.simulate(model, truth, initial, days, covariates={"N": people[name]}).observables["cases"]
        cells = rng.negative_binomial(30, 30 / (30 + exact)).astype(object)
        dates = pd.Timestamp("2023-10-02") + pd.to_timedelta(days, unit="D")
        cells[rng.integers(12, 20)] = "?"
        table = pd.DataFrame({"Ort": name, "Woche": dates.strftime("%d.%m.%Y"), "cases": cells})
        tables.append(table.assign(N=people[name]).drop(index=int(rng.integers(20, 22))))
    pd.concat(tables).to_csv(folder / "reports.csv", sep=";", index=False)
    known = {name: {"E": first} for name, first in begin.items()}
    return Study(write(folder, TOWNS), {**truth, "noise.dispersion": 30.0}, known)


# ---- a biochemist: progress curves of a plate reader that saturates ------------------------------------------------

PLATE = """title = "Hydrolysis, inhibited by its product"
equations = '''
rate = kcat*0.02*S/(Km*(1 + P/Ki) + S)
S' = -rate
P' = rate
'''
observables = { absorbance = "0.8*P + blank" }

[data]
file = "plate.xlsx"
time = "time (min)"
experiment = "well"
covariates = ["S0"]

[parameters]
kcat = { lower = 0.1, upper = 1000, log = true, unit = "1/min" }
Km = { lower = 0.01, upper = 20, log = true, unit = "mM" }
Ki = { lower = 0.01, upper = 20, log = true, unit = "mM" }
blank = [0, 0.3]

[initial]
S = "S0 - P"
P = 0

[noise]
type = "student-t"
additive = [0.001, 0.2]
degrees = 4

[units]
t = "min"
S = "mM"
P = "mM"

[derived]
efficiency = { formula = "kcat/Km", unit = "1/(mM min)" }
"""


def plate(folder: Path, rng: np.random.Generator) -> Study:
    """Six wells of an .xlsx sheet; readings above 2.5 are cut off, some are far off."""
    truth = {"kcat": 12.0, "Km": 0.9, "Ki": 0.5, "blank": 0.06}
    model = pf.Model(PLATE.split("'''")[1], observables={"absorbance": "0.8*P + blank"}, covariates=["S0"])
    times, tables = np.arange(0, 61, 2.5), []
    for k, amount in enumerate((0.25, 0.5, 1.0, 2.0, 4.0, 8.0)):
        exact = pf.simulate(model, truth, {"S": amount, "P": 0}, times, covariates={"S0": amount}).observables
        noisy = np.round(exact["absorbance"] + 0.02 * rng.standard_t(4, len(times)), 4)
        cells = [">2.5" if value > 2.5 else value for value in noisy]
        tables.append(
            pd.DataFrame({"well": f"B{k + 2}", "time (min)": times, "Absorbance": cells, "S0": amount})
        )
    pd.concat(tables).to_excel(folder / "plate.xlsx", index=False)
    return Study(write(folder, PLATE), truth)


# ---- a building engineer: a thermostat, which switches by itself ---------------------------------------------------

ROOM = """title = "A heated room with a thermostat"
equations = '''
T' = (on*heat - loss*(T - outside))/capacity
on' = 0
when T > 21.5: on = 0
when T < 19.5: on = 1
'''
observables = ["T"]

[data]
file = "room.tsv"
time = "h"

[inputs]
outside = "3 + 5*sin(2*3.14159265*(t - 9)/24)"

[parameters]
heat = { lower = 0.2, upper = 20, log = true, unit = "kW" }
loss = { lower = 0.01, upper = 1, log = true, unit = "kW/K" }
capacity = 2.0

[initial]
T = [15, 25]
on = 1

[noise]
type = "normal"
additive = [0.01, 2]

[units]
t = "h"
T = "°C"
"""


def room(folder: Path, rng: np.random.Generator) -> Study:
    """Two days of temperatures every 15 minutes; two more days, which validate, in a file of their own."""
    truth, times = {"heat": 6.0, "loss": 0.15}, np.arange(0, 48, 0.25)
    model = pf.Model(ROOM.split("'''")[1], observables=["T"], inputs=["outside"])
    outside = {"outside": "3 + 5*sin(2*3.14159265*(t - 9)/24)"}
    for name, begin in (("room", 18.0), ("other", 20.5)):
        values = {**truth, "capacity": 2.0}
        exact = pf.simulate(model, values, {"T": begin, "on": 1.0}, times, outside).observables["T"]
        noisy = np.round(exact + 0.15 * rng.standard_normal(len(times)), 3)
        pd.DataFrame({"h": times, "T": noisy}).to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    return Study(write(folder, ROOM), {**truth, "noise.additive": 0.15}, {"room": {"T": 18.0}})


# ---- a forester: heights of trees over a century, with wrong readings ----------------------------------------------

TREES = """title = "Heights of trees on twelve plots"
equations = "height' = growth*height^power - growth*top^(power - 1)*height"
t0 = "first"

[data]
file = "plots.txt"
time = "year"
experiment = "plot"

[parameters]
growth = { lower = 0.01, upper = 2, log = true }
power = { lower = 0, upper = 0.9, logit = true }
top = { lower = 10, upper = 80, log = true, local = true, unit = "m" }

[initial]
height = { lower = 0.1, upper = 10, log = true }

[noise]
type = "laplace"
scale = [0.01, 5]

[units]
t = "year"
height = "m"
"""


def trees(folder: Path, rng: np.random.Generator) -> Study:
    """Twelve plots in a table with tabs and decimal commas, measured in different years from 1910 on."""
    model = pf.Model("height' = growth*height^power - growth*top^(power - 1)*height")
    shared, tables, begin = {"growth": 0.35, "power": 0.4}, [], {}
    truth: dict[str, float] = {**shared, "noise.scale": 0.4}
    for k in range(1, 13):
        years = np.sort(rng.choice(np.arange(1910, 2011, 2), 16, replace=False)).astype(float)
        name, top, first = f"plot {k}", float(rng.uniform(22, 42)), float(rng.uniform(0.5, 3))
        exact = pf.simulate(model, {**shared, "top": top}, {"height": first}, years, t0=years[0])
        noisy = np.round(exact.observables["height"] + rng.laplace(0, 0.4, len(years)), 2)
        cells = [f"{value:.2f}".replace(".", ",") for value in noisy]
        tables.append(pd.DataFrame({"plot": name, "year": years.astype(int), "height": cells}))
        begin[name], truth[f"top[{name}]"] = {"height": first}, top
    pd.concat(tables).to_csv(folder / "plots.txt", sep="\t", index=False)
    return Study(write(folder, TREES), truth, begin)
