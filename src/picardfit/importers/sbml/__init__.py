"""SBML (Level 2 and 3) and Antimony -> Model.

`load` gives the whole content as a `System`: rates, constants, initial values. `read` gives the Model alone.
A species stands for its concentration, or for its amount where the file says `hasOnlySubstanceUnits`; a
kinetic law is an amount per time, so that d concentration/dt = sum(stoichiometry * law) / volume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from picardfit.errors import Audience, InputError
from picardfit.importers.sbml.antimony_text import translated
from picardfit.importers.sbml.reader import Reader
from picardfit.importers.sbml.system import System
from picardfit.model.model import Model
from picardfit.whole_files import sound_path

if TYPE_CHECKING:
    import libsbml


Content = TypeVar("Content")


def read(path: str | Path) -> Model:
    """The model of an SBML or Antimony (`.ant`) file: its parameters are parameters, every state is observed."""
    return load(path).model()


def load(path: str | Path) -> System:
    """The content of an SBML or Antimony (`.ant`) file."""
    path = sound_path(path)
    if not path.is_file():
        raise InputError("importers.no_file", str(path), format="an SBML file")
    return from_document(read_document(path), path)


def read_document(path: Path) -> libsbml.SBMLDocument:
    """The document of a file; one in Antimony is translated to SBML by Antimony's own library."""
    if path.suffix.lower() != ".ant":
        return _libsbml().readSBMLFromFile(str(path))
    return _libsbml().readSBMLFromString(translated(path))


def from_document(document: libsbml.SBMLDocument, path: Path) -> System:
    """The content of a document of libSBML; `path`: the file it was read from, which errors name."""
    return of_file(path, lambda: Reader(valid_model(document, path)).system())


def reader_of(
    document: libsbml.SBMLDocument, path: Path, set_later: Iterable[str] = (), at_rest: bool = False
) -> Reader:
    """The elements of a document, for a problem that sets some of them while the model runs (see Reader)."""
    return of_file(path, lambda: Reader(valid_model(document, path), set_later, at_rest))


def of_file(path: Path, read: Callable[[], Content]) -> Content:
    """What is read from a file, which errors name."""
    try:
        return read()
    except InputError as error:
        raise error.at(file=error.place.file or str(path), audience=Audience.FILE) from None


def valid_model(document: libsbml.SBMLDocument, path: Path) -> libsbml.Model:
    """The model of a document without errors."""
    libsbml = _libsbml()
    for k in range(document.getNumErrors()):
        found = document.getError(k)
        if found.getSeverity() >= libsbml.LIBSBML_SEV_ERROR:
            error = InputError("importers.invalid_sbml", reason=found.getShortMessage())
            raise error.at(file=str(path), line=found.getLine() or None)
    model = document.getModel()
    if model is None:
        raise InputError("importers.no_sbml_model").at(file=str(path))
    return model


def _libsbml() -> ModuleType:
    try:
        import libsbml
    except ImportError:
        raise InputError("importers.needs_libsbml") from None
    return libsbml
