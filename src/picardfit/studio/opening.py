"""Files that a person drops on the page, as files of the study: tables, problem files, SBML models, starters."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from importlib.resources import files as resources
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from picardfit.errors import InputError
from picardfit.files.problem_file import FILE_NAME, TABLES
from picardfit.files.raw_tables import RawTable, read_raw_table
from picardfit.importers import petab, sbml
from picardfit.studio import document
from picardfit.studio.rewriting import rewritten
from picardfit.studio.roles import usual_experiment
from picardfit.studio.settings import DEFAULT, StudioSettings
from picardfit.studio.sheet import TEXT_ENDINGS, Sheet, sheet_of

MODELS, LISTINGS = (".xml", ".sbml"), (".yaml", ".yml")
BEGINNING = 50_000  # bytes of a long table that are checked before it is read as a whole


def plain_name(name: str) -> str:
    """The bare name of a file that came from elsewhere: no folders, no characters that a system may refuse."""
    bare = PurePosixPath(name.replace("\\", "/")).name
    bare = re.sub(r"[^\w .()\[\]+-]", "_", bare).strip(" .")
    return bare[-120:] or "table.csv"


def opened(
    files: Mapping[str, bytes], text: str, settings: StudioSettings = DEFAULT, adds: bool = False
) -> tuple[dict[str, bytes], str]:
    """The files to write and the text of the problem file, of files that were dropped together.

    `text`: the problem file so far. Tables become the data, or come beside them with `adds`; an SBML model becomes the
    equations; a problem.toml replaces everything.
    """
    named = {plain_name(name): content for name, content in files.items()}
    for name, content in named.items():
        if len(content) > settings.upload_bytes:
            raise InputError("studio.too_large", name, most=settings.upload_bytes // 1_000_000)
    problems = [name for name in named if name.lower().endswith(".toml")]
    if problems:
        return {n: c for n, c in named.items() if n not in problems}, decoded(named[problems[0]])
    if any(Path(name).suffix.lower() in LISTINGS for name in named):
        return from_petab(named)
    kept: dict[str, bytes] = {}
    for name, content in named.items():
        ending = Path(name).suffix.lower()
        if ending in TABLES:
            table = _check_table(name, content)
            text = document.with_another_file(text, name) if kept or adds else with_table(text, name)
            text = _with_experiments(text, name, sheet_of(table, name, content))
            kept[name] = content
        elif ending in MODELS:
            text = with_sbml(text, content)
        else:
            raise InputError("studio.what_is_it", name)
    return kept, text


def decoded(content: bytes) -> str:
    """The text of a problem file."""
    return content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")


def _check_table(name: str, content: bytes) -> RawTable:
    """The table, of a long text its beginning; InputError unless the content is one."""
    if Path(name).suffix.lower() in TEXT_ENDINGS and len(content) > BEGINNING:
        content = content[: content.rfind(b"\n", 0, BEGINNING) + 1] or content
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            return read_raw_table(path)
        except InputError as error:
            raise error.at(file=name) from None


def _with_experiments(text: str, name: str, sheet: Sheet) -> str:
    """The problem file in which a column with a usual name for it tells experiments apart, which can be changed."""
    files = [one.get("file") for one in document.data_files(text)]
    column = usual_experiment(sheet)
    return text if column is None else document.with_data(text, files.index(name), experiment=column)


def with_table(text: str, name: str) -> str:
    """The problem file with another table: what was said about columns of the last one is forgotten."""
    if document.data_of(text):
        text = document.with_value(text, ("data",), None)
    return document.with_data(text, file=name)


def with_sbml(text: str, content: bytes) -> str:
    """The problem file with the equations, values and initial states of an SBML model.

    Its parameters begin fixed at the values of the model; those that are free in a fit get bounds by hand.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sbml.xml"
        path.write_bytes(content)
        try:
            system = sbml.load(path)
            model = system.model()
        except InputError as error:
            raise error.at(file="sbml.xml") from None
    text = document.with_equations(
        text, "\n".join(f"{name}' = {right}" for name, right in model.equations.items())
    )
    formulas = model.observable_formulas
    plain = all(name == right for name, right in formulas.items())
    text = document.with_value(text, ("observables",), None)
    if not plain or set(formulas) != set(model.states):
        for name, right in formulas.items():
            text = document.with_value(text, ("observables", name), right)
    for name in model.parameters:
        value = system.values.get(name)
        text = document.with_value(
            text, ("parameters", name), document.wide_bounds() if value is None else value
        )
    for state, start in system.initial_formulas.items():
        if state in model.states:
            text = document.with_value(text, ("initial", state), start)
    if system.name and not document.value_at(text, "title"):
        text = document.with_value(text, ("title",), system.name)
    return text


def from_petab(files: Mapping[str, bytes]) -> tuple[dict[str, bytes], str]:
    """The problem of a PEtab YAML file and all files that it names, which were dropped together."""
    listing = next(name for name in files if Path(name).suffix.lower() in LISTINGS)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parameters that nothing uses, which Check tells
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        try:
            imported = petab.load(Path(folder) / listing)
        except InputError as error:
            raise error.at(file=listing) from None
    return rewritten(imported.problem, imported.tables.name)


def starter(name: str) -> tuple[dict[str, bytes], str]:
    """The files of a starter, and its problem file."""
    source = resources("picardfit") / "examples" / "starters" / name
    content = {one.name: one.read_bytes() for one in source.iterdir() if one.is_file()}
    content["problem.schema.json"] = (resources("picardfit") / "files" / "problem.schema.json").read_bytes()
    text = content.pop(FILE_NAME).decode()
    return content, text


def pasted(words: str, text: str) -> tuple[dict[str, bytes], str]:
    """The table of cells that were copied from a spreadsheet, and the problem file that uses it."""
    kept = words.strip("\n") + "\n"
    name = "pasted.tsv" if "\t" in kept else "pasted.csv"
    if kept.count("\n") < 2:  # a row of names without any numbers
        raise InputError("files.empty_table").at(file=name)
    table = _check_table(name, kept.encode())
    sheet = sheet_of(table, name, kept.encode())
    return {name: kept.encode()}, _with_experiments(with_table(text, name), name, sheet)
