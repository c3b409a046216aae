"""SBML (Level 2 and 3) -> Model.

`load` gives the whole content as a `System`: rates, constants, initial values. `read` gives the Model alone.
A species stands for its concentration, or for its amount where the file says `hasOnlySubstanceUnits`; a
kinetic law is an amount per time, so that d concentration/dt = sum(stoichiometry * law) / volume.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from picardfit.errors import InputError
from picardfit.importers.sbml.reader import Reader
from picardfit.importers.sbml.system import System
from picardfit.model.model import Model

if TYPE_CHECKING:
    import libsbml


def read(path: str | Path) -> Model:
    """The model of an SBML file: its parameters are parameters, every state is observed."""
    return load(path).model()


def load(path: str | Path) -> System:
    """The content of an SBML file."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file `{path}`: give the path of an SBML file.")
    return from_document(read_document(path), f"`{path.name}`")


def read_document(path: Path) -> libsbml.SBMLDocument:
    return _libsbml().readSBMLFromFile(str(path))


def from_document(document: libsbml.SBMLDocument, label: str) -> System:
    """The content of a document of libSBML; `label` opens the messages of errors."""
    model = valid_model(document, label)
    try:
        return Reader(model).system()
    except InputError as error:
        raise InputError(f"{label}: {error}") from None


def valid_model(document: libsbml.SBMLDocument, label: str) -> libsbml.Model:
    """The model of a document without errors."""
    libsbml = _libsbml()
    for k in range(document.getNumErrors()):
        error = document.getError(k)
        if error.getSeverity() >= libsbml.LIBSBML_SEV_ERROR:
            raise InputError(
                f"{label} is not valid SBML (line {error.getLine()}: {error.getShortMessage()}): correct the file."
            )
    model = document.getModel()
    if model is None:
        raise InputError(f"{label} holds no SBML model: give another file.")
    return model


def _libsbml():
    try:
        import libsbml
    except ImportError:
        raise InputError(
            "SBML files need the package python-libsbml: install it with pip install 'picardfit[petab]'."
        ) from None
    return libsbml
