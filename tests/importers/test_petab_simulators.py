"""PEtab problems against an independent reader of PEtab on libRoadRunner: the same likelihood to 1e-8."""

import warnings
from collections import defaultdict
from math import exp, inf, log, log10, pi, sin, sqrt
from pathlib import Path

import pytest

from petab_problems import PROBLEMS, TIMES, VALUES, Written
from picardfit.importers import petab, sbml

libsbml = pytest.importorskip("libsbml", reason="SBML needs python-libsbml: pip install 'picardfit[petab]'")
pytest.importorskip("antimony", reason="Antimony needs its library: pip install 'picardfit[sbml]'")

ENTRY = "format_version: 1\nparameter_file: parameters.tsv\nproblems:\n- sbml_files: [model.xml]\n"
FUNCTIONS = {"ln": log, "log": log, "log10": log10, "exp": exp, "sqrt": sqrt, "sin": sin}


def cells(line: str) -> list[str]:
    return [one.strip() for one in line.split("|")]


def settings(line: str) -> tuple[str, dict[str, str]]:
    """A condition and what it sets."""
    name, *pairs = line.split()
    return name, dict(pair.split("=") for pair in pairs)


def points(line: str) -> list[tuple[str, str]]:
    """Times and values of a line of measurements, as text."""
    given = cells(line)[5:]
    pairs = (one.split(":") for one in given[0].split()) if given else zip(TIMES, VALUES, strict=True)
    return [(str(time), str(value)) for time, value in pairs]


def written(problem: Written, folder: Path) -> Path:
    """The YAML file of a problem."""
    (folder / "model.ant").write_text(problem.model)
    libsbml.writeSBMLToFile(sbml.read_document(folder / "model.ant"), str(folder / "model.xml"))
    conditions = [settings(line) for line in problem.conditions]
    entities = sorted({name for _, values in conditions for name in values})
    tables = {
        "conditions": [
            ["conditionId", *entities],
            *([name, *(values.get(one, "") for one in entities)] for name, values in conditions),
        ],
        "observables": [
            [
                "observableId",
                "observableFormula",
                "noiseFormula",
                "observableTransformation",
                "noiseDistribution",
            ],
            *map(cells, problem.observables),
        ],
        "measurements": [
            [
                "observableId",
                "preequilibrationConditionId",
                "simulationConditionId",
                "observableParameters",
                "noiseParameters",
                "time",
                "measurement",
            ],
            *([*cells(line)[:5], *pair] for line in problem.measurements for pair in points(line)),
        ],
        "parameters": [
            ["parameterId", "parameterScale", "nominalValue", "estimate", "lowerBound", "upperBound"],
            *(
                [
                    *line.split()[:3],
                    "0" if "fixed" in line else "1",
                    "-1000" if " lin " in line else "1e-5",
                    "1e6",
                ]
                for line in problem.parameters
            ),
        ],
    }
    files = ""
    for name, rows in tables.items():
        (folder / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
        if name != "parameters":
            files += f"  {name[:-1]}_files: [{name}.tsv]\n"
    (folder / "problem.yaml").write_text(ENTRY + files)
    return folder / "problem.yaml"


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_likelihood_is_that_of_the_simulator(name, tmp_path):
    problem = petab.read(written(PROBLEMS[name], tmp_path))
    assert problem.nllh(problem.nominal) == pytest.approx(PROBLEMS[name].nllh, rel=1e-8)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_problem_comes_back_from_version_2(name, tmp_path):
    problem = petab.read(written(PROBLEMS[name], tmp_path))
    path = problem.to_petab(tmp_path / "out")
    again = petab.read(path)
    assert again.nllh(again.nominal) == pytest.approx(problem.nllh(problem.nominal), rel=1e-8)
    v2 = pytest.importorskip("petab.v2", reason="compares with the library: pip install petab")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(v2.Problem.from_yaml(path).validate()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_simulator_still_says_so(name, tmp_path):
    pytest.importorskip("roadrunner", reason="the comparison needs libroadrunner: pip install libroadrunner")
    assert _Reference(PROBLEMS[name], written(PROBLEMS[name], tmp_path)).nllh() == pytest.approx(
        PROBLEMS[name].nllh, rel=1e-8
    )


class _Reference:
    """A reader of the part of PEtab that these problems need, without anything of picardfit."""

    def __init__(self, problem: Written, path: Path) -> None:
        self.problem, self.text = problem, (path.parent / "model.xml").read_text()
        self.document = libsbml.readSBMLFromString(self.text)
        model = self.document.getModel()
        self.nominal = {name: float(value) for name, _, value, *_ in map(str.split, problem.parameters)}
        self.conditions = dict(map(settings, problem.conditions))
        self.symbols = {
            one.getId(): one.getId() if one.getHasOnlySubstanceUnits() else f"[{one.getId()}]"
            for one in model.getListOfSpecies()
        }
        others = (*model.getListOfParameters(), *model.getListOfCompartments())
        self.symbols |= {one.getId(): one.getId() for one in others}

    def number(self, text: str) -> float:
        return self.nominal[text] if text in self.nominal else float(text)

    def runner(self, values: dict[str, float], timed_events: bool = True):
        """A simulator of the model that begins with these values."""
        import roadrunner

        document = libsbml.readSBMLFromString(self.text)
        model = document.getModel()
        for name, value in values.items():
            element = model.getElementBySId(name)
            if element is None:
                continue
            model.removeInitialAssignment(name)
            if isinstance(element, libsbml.Species) and element.getHasOnlySubstanceUnits():
                element.unsetInitialConcentration()
                element.setInitialAmount(value)
            elif isinstance(element, libsbml.Species):
                element.unsetInitialAmount()
                element.setInitialConcentration(value)
            elif isinstance(element, libsbml.Compartment):
                element.setSize(value)
            else:
                element.setValue(value)
        for k in reversed(range(model.getNumEvents())):
            trigger = libsbml.formulaToL3String(model.getEvent(k).getTrigger().getMath())
            if "time" in trigger and not timed_events:
                model.removeEvent(k)
        runner = roadrunner.RoadRunner(libsbml.writeSBMLToString(document))
        runner.integrator.relative_tolerance, runner.integrator.absolute_tolerance = 1e-12, 1e-15
        return runner

    def values(self, condition: str) -> dict[str, float]:
        return {n: self.number(v) for n, v in self.conditions[condition].items() if v != "nan"}

    def simulated(self, before: str, condition: str, times: list[float]) -> dict[float, dict[str, float]]:
        """Everything in the model at these times."""
        start = dict(self.nominal)
        if before:
            resting = self.runner({**start, **self.values(before)}, timed_events=False)
            resting.simulate(0, 5000, 3)
            start |= {one: resting[self.symbols[one]] for one in resting.model.getFloatingSpeciesIds()}
        runner = self.runner({**start, **self.values(condition)})
        runner.timeCourseSelections = ["time", *self.symbols.values()]
        grid = sorted({0.0, 1e-3, *(one for one in times if one != inf)})
        rows = runner.simulate(times=grid)
        found = {
            time: dict(zip(self.symbols, row[1:], strict=True)) for time, row in zip(grid, rows, strict=True)
        }
        if inf in times:
            runner.simulate(grid[-1], 20_000, 3)
            found[inf] = {name: runner[one] for name, one in self.symbols.items()}
        return found

    def nllh(self) -> float:
        groups = defaultdict(list)
        for line in self.problem.measurements:
            groups[tuple(cells(line)[1:3])].append(line)
        total = 0.0
        for run, lines in groups.items():
            times = sorted({float(time) for line in lines for time, _ in points(line)})
            table = self.simulated(*run, times)
            total += sum(
                self.cost(line, table[float(time)], float(value))
                for line in lines
                for time, value in points(line)
            )
        return total

    def cost(self, line: str, state: dict[str, float], value: float) -> float:
        observable, _, _, *holders = cells(line)[:5]
        known = {**self.nominal, **state}
        for kind, given in zip(("observable", "noise"), holders, strict=True):
            for k, one in enumerate(filter(None, given.split(";")), 1):
                known[f"{kind}Parameter{k}_{observable}"] = self.number(one)
        row = next(one for one in map(cells, self.problem.observables) if one[0] == observable)
        output, sd = (eval(text.replace("^", "**"), FUNCTIONS, known) for text in row[1:3])
        gap, slope = {
            "lin": lambda: (value - output, 0.0),
            "log": lambda: (log(value / output), log(value)),
            "log10": lambda: (log10(value / output), log(value * log(10))),
        }[row[3]]()
        normal = log(2 * pi * sd**2) / 2 + (gap / sd) ** 2 / 2
        return slope + (normal if row[4] == "normal" else log(2 * sd) + abs(gap) / sd)
