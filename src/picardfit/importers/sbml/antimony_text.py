"""Antimony -> SBML text, by Antimony's own library, which sees only files in the folder of the model."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from picardfit.errors import InputError

_GAP = r"(?:\s|//[^\n]*|#[^\n]*|/\*.*?\*/)*"  # blanks and comments
_IMPORT = re.compile(rf'\bimport\b{_GAP}"([^"\n]*)"', re.DOTALL)
_MARKED = re.compile(r"\b(?:model|module)\s*\*")  # `model *name()` is the one that is meant


def translated(path: Path) -> str:
    """The SBML text of the model in an Antimony file."""
    try:
        import antimony
    except ImportError:
        raise InputError("importers.needs_antimony") from None
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError:
        raise InputError("importers.invalid_antimony", reason="it is not UTF-8 text").at(
            file=str(path)
        ) from None
    _check_imports(path, text, seen=set())
    antimony.clearPreviousLoads()
    antimony.addDirectory(str(path.parent))  # of files that it imports
    if antimony.loadAntimonyString(text) < 0:
        said = antimony.getLastError()
        line = re.search(r"line (\d+)", said)
        reason = " ".join(said.partition(":")[2].split()) or said
        error = InputError("importers.invalid_antimony", reason=reason.rstrip(". "))
        raise error.at(file=str(path), line=int(line.group(1)) if line else None)
    main = antimony.getMainModuleName()
    if not _MARKED.search(text):
        _check_alone(antimony, path, text, main)
    return str(antimony.getSBMLString(main))


def _check_imports(path: Path, text: str, seen: set[Path]) -> None:
    """InputError for an import of what is no file in the folder of the model, here or in an imported file."""
    seen.add(path.resolve())
    for found in _IMPORT.finditer(text):
        name, folder = found.group(1), path.parent.resolve()
        target = (folder / name).resolve()
        if not (target.is_relative_to(folder) and target.is_file()):
            line = text.count("\n", 0, found.start()) + 1
            raise InputError("importers.antimony_import", name).at(file=str(path), line=line)
        if target not in seen:
            _check_imports(target, target.read_text(encoding="utf-8", errors="replace"), seen)


def _check_alone(antimony: ModuleType, path: Path, text: str, main: str) -> None:
    """InputError if the file has models besides the main one that no model uses as a part."""
    every = [antimony.getNthModuleName(n) for n in range(antimony.getNumModules())]
    others = [
        name
        for name in every
        if name not in (main, "__main")
        and re.search(rf"\b(?:model|module)\s+{re.escape(name)}\b", text)
        and not re.search(rf":\s*{re.escape(name)}\s*\(", text)
    ]
    if others:
        raise InputError("importers.several_antimony", names=[*others, main]).at(file=str(path))
