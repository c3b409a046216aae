"""Reaction networks of `likelihoods.py` as SBML with PEtab tables, written by libSBML."""

from __future__ import annotations

import re
from pathlib import Path

import libsbml
import numpy as np
import yaml

from likelihoods import TIMES, Network

HEADS = {
    "conditions": "conditionId\tdose",
    "observables": "observableId\tobservableFormula\tnoiseFormula",
    "measurements": "observableId\tsimulationConditionId\ttime\tmeasurement",
    "parameters": "parameterId\tparameterScale\tlowerBound\tupperBound\tnominalValue\testimate",
}


def write(folder: Path, network: Network, conditions: int, repeats: int = 1) -> Path:
    """Write the network with eight observables under several doses; the path of its problem.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    libsbml.writeSBMLToFile(_document(network), str(folder / "model.xml"))
    rng, apart = np.random.default_rng(0), len(network.states) // 8
    estimated = {**network.values, **{f"s{i}": 1.0 for i in range(8)}, "sigma": 0.1}
    rows = {
        "conditions": [f"c{k}\t{(k + 1) / conditions}" for k in range(conditions)],
        "observables": [f"y{i}\ts{i}*x{i * apart}\tsigma" for i in range(8)],
        "measurements": [
            f"y{i}\tc{k}\t{t}\t{rng.uniform(0.1, 1):.4f}"
            for k in range(conditions)
            for i in range(8)
            for t in np.tile(TIMES, repeats)
        ],
        "parameters": [f"{n}\tlog10\t{v / 100}\t{v * 100}\t{v}\t1" for n, v in estimated.items()],
    }
    for table, lines in rows.items():
        (folder / f"{table}.tsv").write_text("\n".join([HEADS[table], *lines, ""]))
    files = {f"{one[:-1]}_files": [f"{one}.tsv"] for one in ("conditions", "observables", "measurements")}
    content = {
        "format_version": 1,
        "parameter_file": "parameters.tsv",
        "problems": [{"sbml_files": ["model.xml"], **files}],
    }
    (folder / "problem.yaml").write_text(yaml.safe_dump(content))
    return folder / "problem.yaml"


def _document(network: Network) -> libsbml.SBMLDocument:
    document = libsbml.SBMLDocument(3, 1)
    model = document.createModel()
    model.setId("network")
    cell = model.createCompartment()
    cell.setId("cell")
    cell.setSize(1.0)
    cell.setSpatialDimensions(3)
    cell.setConstant(True)
    for name, value in network.initial.items():
        species = model.createSpecies()
        species.setId(name)
        species.setCompartment("cell")
        species.setInitialConcentration(value)
        for switch in (species.setHasOnlySubstanceUnits, species.setBoundaryCondition, species.setConstant):
            switch(False)
    for name, value in {**network.values, "dose": 0.0}.items():
        parameter = model.createParameter()
        parameter.setId(name)
        parameter.setValue(value)
        parameter.setConstant(True)
    for k, (formula, lost, gained) in enumerate([*network.rates, ("dose", [], [0])]):
        _add_reaction(model, f"r{k}", formula, [f"x{i}" for i in lost], [f"x{i}" for i in gained])
    return document


def _add_reaction(model: libsbml.Model, name: str, formula: str, lost: list[str], gained: list[str]) -> None:
    reaction = model.createReaction()
    reaction.setId(name)
    reaction.setReversible(False)
    reaction.setFast(False)
    for create, species in ((reaction.createReactant, lost), (reaction.createProduct, gained)):
        for one in species:
            reference = create()
            reference.setSpecies(one)
            reference.setStoichiometry(1.0)
            reference.setConstant(True)
    for one in sorted(set(re.findall(r"\bx\d+\b", formula)) - set(lost)):
        reaction.createModifier().setSpecies(one)
    reaction.createKineticLaw().setMath(libsbml.parseL3Formula(f"cell*({formula})"))
