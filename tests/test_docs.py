"""The pages run as they stand and print what they show."""

import re
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command

import picardfit
from picardfit.cli import app

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

from run_pages import blocks, difference, pages, run_page  # noqa: E402

PAGES = sorted(DOCS.rglob("*.md"))
MADE = {"paper.md"}  # by `python -m paper.document`; it has no code to run
ENDINGS = ("json", "md", "png", "py", "schema", "toml", "yaml")  # problem.toml is a file, not an attribute
NEEDED = {"howto/cluster.md": ("distributed",), "howto/petab.md": ("yaml", "libsbml")}


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("page", [p for p in pages() if p.name not in MADE], ids=name_of)
def test_page_prints_what_it_shows(page, tmp_path):
    for package in NEEDED.get(name_of(page), ()):
        pytest.importorskip(package)
    outcome = run_page(page, tmp_path)
    wrong = [fault for _, shown, printed in outcome.pairs if (fault := difference(shown, printed))]
    assert not wrong, "\n".join([*wrong, f"python docs/run_pages.py --write docs/{name_of(page)}"])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_have_a_language_that_is_run_or_is_output(page):
    known = {
        "python",
        "console",
        "sh",
        "text",
        "toml",
        "csv",
        "stan",
        "pymc",
    }  # other programs are only shown
    if page.name not in MADE:
        assert {block.kind for block in blocks(page.read_text(encoding="utf-8"))} <= known


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_toml_can_be_read(page):
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.kind == "toml":
            tomllib.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)", text):
        if not target.startswith("http"):
            assert (page.parent / target).is_file(), target


def test_every_page_is_in_the_menu():
    menu = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r": (\S+\.md)$", menu, re.MULTILINE))
    assert named == {name_of(page) for page in PAGES}


def test_reference_has_every_public_name():
    shown = re.findall(r"^ +heading: pf\.(\w+)$", (DOCS / "reference.md").read_text("utf-8"), re.MULTILINE)
    assert {*shown, "examples", "priors"} == set(picardfit.__all__)


def test_reference_names_things_that_are_there():
    for path in re.findall(r"^::: (\S+)$", (DOCS / "reference.md").read_text("utf-8"), re.MULTILINE):
        module, name = path.rsplit(".", 1)
        assert hasattr(import_module(module), name), path


@pytest.mark.parametrize("page", [*PAGES, DOCS.parent / "README.md"], ids=lambda page: page.name)
def test_names_on_a_page_exist(page):
    """Also those in tables and sentences, which are not run: pf.name, fit.name, problem.name and --option."""
    text = page.read_text(encoding="utf-8")
    homes = {"pf": picardfit, "fit": picardfit.Fit, "problem": picardfit.Problem}
    for home, name in re.findall(r"(?<![\w.])(pf|fit|problem)\.([a-zA-Z_]+)\b", text):
        kinds = [homes[home], *([picardfit.PopulationFit] if home == "fit" else [])]
        fields = [name for one in kinds for name in (*dir(one), *getattr(one, "__dataclass_fields__", ()))]
        known = {*fields, *ENDINGS}
        assert name in known, f"{home}.{name}"
    if page.parent.name == "decisions":
        return  # their options are those of benchmarks
    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
        assert option in options(), option


@cache
def options() -> set[str]:
    """The options of all commands."""
    commands = get_command(app).commands
    known = {*get_command(app).params, *(one for command in commands.values() for one in command.params)}
    elsewhere = {"--help", "--tool"}  # --tool is an option of python -m compare
    return elsewhere | {name for one in known for name in (*one.opts, *one.secondary_opts)}


def test_benchmarks_named_on_pages_exist():
    for page in PAGES:
        for script in re.findall(r"`(benchmarks/\w+\.py)", page.read_text(encoding="utf-8")):
            assert (DOCS.parent / script).is_file(), (page, script)


@pytest.mark.parametrize(
    "shown, printed, same",
    [
        ("a 1.00", "a 1.01", True),
        ("a 1.00", "a 1.10", False),
        ("a 1.00", "b 1.00", False),
        ("error 1e-9", "error 3e-7", True),
        ("3 iterations in 0.1 s", "4 iterations in 9.9 s", True),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...", "a\nb", True),
        ("a\n...\ne", "a\nb", False),
        ("a", "a\nb", False),
        ("a\nb", "a", False),
    ],
)
def test_outputs_are_compared_loosely(shown, printed, same):
    assert (difference(shown, printed) is None) == same
