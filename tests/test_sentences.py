"""The catalogue of sentences: every code has an entry, every entry is used, and all of them read well."""

import ast
import re
import string
from pathlib import Path

import pytest

import picardfit
from picardfit.errors import Audience, Status, catalogue, sentence

SOURCE = Path(picardfit.__file__).parent
GOLDEN = Path(__file__).parent / "golden" / "sentences.txt"


def rooms():
    return sorted(path.stem for path in (SOURCE / "sentences").glob("*.toml"))


def entries():
    return [(room, name) for room in rooms() for name in catalogue(room)]


def used_codes():
    """(code, where it stands) of every code in the source."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and is_code(node.value):
                found.append((node.value, f"{path.relative_to(SOURCE)}:{node.lineno}"))
    return found


def is_code(text: str) -> bool:
    """Whether a text names an entry, as opposed to a module (`problem.experiment`) or a file (`problem.toml`)."""
    room, dot, name = text.partition(".")
    if not (dot and room in rooms() and name.isidentifier() and name == name.lower()):
        return False
    return name in catalogue(room) or not (
        name in ("toml", "json", "py") or (SOURCE / room / f"{name}.py").exists()
    )


def fields(template: str) -> set[str]:
    return {name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(template) if name}


def templates(entry):
    for holder in (entry, *(entry.get(one.value, {}) for one in Audience)):
        yield from (holder[part] for part in ("what", "remedy") if part in holder)


def test_every_code_has_an_entry():
    missing = [
        f"{code} at {place}"
        for code, place in used_codes()
        if code.split(".")[1] not in catalogue(code.split(".")[0])
    ]
    assert missing == []


def test_every_entry_is_used():
    used = {code for code, _ in used_codes()}
    assert [f"{room}.{name}" for room, name in entries() if f"{room}.{name}" not in used] == []


def test_the_example_for_contributors_names_an_entry():
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    codes = re.findall(r'InputError\("(\w+)\.(\w+)"', text)
    assert codes
    assert all(name in catalogue(room) for room, name in codes)


@pytest.mark.parametrize("room, name", entries())
def test_an_entry_says_what_is_wrong_and_shows_an_example(room, name):
    entry = catalogue(room)[name]
    assert set(entry) <= {"what", "remedy", "example", *(one.value for one in Audience)}
    assert entry["what"]
    assert not entry["what"].endswith((".", ":"))
    assert not entry.get("remedy", "").endswith(".")
    needed = set().union(*map(fields, templates(entry)))
    assert needed <= {"subject", *entry.get("example", {})}


def sentences() -> str:
    """Every sentence of the catalogue, filled with the values of its example."""
    lines = []
    for room, name in entries():
        entry = catalogue(room)[name]
        values = {"subject": "", **entry.get("example", {})}
        lines.append(f"{room}.{name}")
        told = []
        for audience in Audience:
            words = sentence(f"{room}.{name}", values["subject"], values, audience)
            if words not in told:
                told.append(words)
                lines.append(f"    {audience.value}: {words}")
    return "\n".join(lines) + "\n"


def test_the_sentences_are_those_that_were_read():
    """After a change: python tests/test_sentences.py, and read the difference as a native reader would."""
    assert sentences() == GOLDEN.read_text(encoding="utf-8")


TOML_WORDS = re.compile(r" = (true|false)\b|(?<!picardfit)\[[a-z]+\](?!\w)")
PYTHON_WORDS = re.compile(r"\bpf\.|=(True|False|\[|\{|')|\b(True|False|None(?! of)|[A-Z][a-z]+\(.*\))")


def told(audience):
    """(code, sentence) of every sentence that the golden file shows for an audience."""
    code = ""
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            code = line
        elif line.startswith(f"    {audience.value}: "):
            yield code, line.partition(": ")[2]


def test_sentences_for_files_hold_no_python():
    assert [words for _, words in told(Audience.FILE) if PYTHON_WORDS.search(words)] == []


def test_sentences_for_python_hold_no_toml():
    """Those of the rooms files and cli speak of problem files, unless they are worded for Python as well."""
    both = {code for code, _ in told(Audience.FILE)}
    mixed = [
        f"{code}: {words}"
        for code, words in told(Audience.PYTHON)
        if code in both or code.partition(".")[0] not in ("files", "cli")
        if TOML_WORDS.search(words)
    ]
    assert mixed == []


SUBJECTS = re.compile(r"`|\b(of|the|in) |^(an?|the) ")


def test_subjects_are_bare_names():
    """The sentence puts them into backticks; a program compares them.

    Those of the room simulation are parts of formulas and where they stand.
    """
    subjects = {
        f"{room}.{name}": catalogue(room)[name].get("example", {}).get("subject", "")
        for room, name in entries()
        if room != "simulation"
    }
    assert {code: one for code, one in subjects.items() if SUBJECTS.search(one)} == {}


def test_every_status_has_a_sentence():
    assert all(one.sentence().endswith(".") for one in Status)


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(sentences(), encoding="utf-8")
