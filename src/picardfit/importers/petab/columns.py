"""The columns of PEtab's tables: those of each version, and those that would change what a problem means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# by version and kind of table; a condition table of version 1 has a column for every entity that it sets
KNOWN: Mapping[str, Mapping[str, frozenset[str]]] = {
    version: {kind: frozenset(columns.split()) for kind, columns in tables.items()}
    for version, tables in {
        "1": {
            "parameter": """parameterId parameterName parameterScale lowerBound upperBound nominalValue estimate
                initializationPriorType initializationPriorParameters objectivePriorType objectivePriorParameters""",
            "measurement": """observableId preequilibrationConditionId simulationConditionId measurement time
                observableParameters noiseParameters datasetId replicateId""",
            "observable": """observableId observableName observableFormula observableTransformation noiseFormula
                noiseDistribution""",
        },
        "2": {
            "parameter": """parameterId parameterName lowerBound upperBound nominalValue estimate priorDistribution
                priorParameters""",
            "measurement": """observableId experimentId modelId measurement time observableParameters noiseParameters
                datasetId replicateId""",
            "observable": """observableId observableName observableFormula observablePlaceholders noiseFormula
                noiseDistribution noisePlaceholders""",
            "condition": "conditionId conditionName targetId targetValue",
            "experiment": "experimentId experimentName time conditionId",
            "mapping": "petabEntityId modelEntityId name",
        },
    }.items()
}
# columns of other tools that change what a problem means, by the kind of table; some are optional and may be empty
MEANINGFUL = {
    "measurement": frozenset({"measurementType", "censoringBounds", "dependentVariable"}),
    "parameter": frozenset({"parameterType", "hierarchicalParameters"}),
    "observable": frozenset({"observableType"}),
}
NOTHING = frozenset({"", "nan"})  # cells that say nothing
AS_USUAL = {"parameterScale": frozenset({"lin"}), "observableTransformation": frozenset({"lin"})}


def refuse_columns(path: Path, kind: str, frame: pd.DataFrame, version: str) -> None:
    """InputError for a column of another tool or version that changes the meaning of the rows, if it says anything."""
    known = KNOWN.get(version, {}).get(kind)
    if known is None:
        return
    others = frozenset[str]().union(*(tables.get(kind, frozenset()) for tables in KNOWN.values()))
    for name in frame.columns:
        if name in known or name not in others | MEANINGFUL.get(kind, frozenset()):
            continue
        empty = NOTHING | AS_USUAL.get(name, frozenset())
        filled = [line for line, cell in frame[name].items() if cell.strip().lower() not in empty]
        if filled:
            code = "importers.column_of_version" if name in others else "importers.unsupported_column"
            raise InputError(code, name, kind=kind, version=version).at(file=str(path), line=int(filled[0]))


def unread_columns(kind: str, columns: list[str], version: str) -> list[str]:
    """The columns of a table that nothing reads, and that have no meaning in PEtab."""
    known = KNOWN.get(version, {}).get(kind)
    return [] if known is None else [name for name in columns if name and name not in known]
