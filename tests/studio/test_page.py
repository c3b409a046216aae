"""The page with a simulated user: steps, empty states, messages, undo."""

from __future__ import annotations

import asyncio
import shutil

import pytest

pytest.importorskip("nicegui", reason="the studio needs NiceGUI: pip install 'picardfit[studio]'")

from nicegui import ui
from nicegui.testing import user_simulation
from nicegui.testing.user_interaction import UserInteraction
from starlette.requests import Request

from picardfit.studio import document
from picardfit.studio.desk import Desk
from picardfit.studio.page import STEPS, Page
from picardfit.studio.sheet import Role
from picardfit.studio.study import Study
from picardfit.studio.typed import Typed
from studio.browsing import STARTERS


def visit(folder, journey, name=None):
    """Let a simulated user walk through the page of a folder."""

    async def walk():
        desk = Desk(Study(folder))

        def root(request: Request):
            Page(desk, request).build(name)

        async with user_simulation(root) as user:
            await user.open("/")
            await journey(user, desk)

    asyncio.run(walk())


@pytest.fixture
def lynx(tmp_path):
    return shutil.copytree(STARTERS / "lotka-volterra", tmp_path / "lynx")


@pytest.mark.parametrize("step", STEPS, ids=lambda one: one.name)
def test_every_step_of_an_empty_study_says_what_to_do(tmp_path, step):
    hints = {
        "data": "Bring your table",
        "equations": "Write the equations",
        "play": "Nothing to play with yet",
        "check": "Nothing to check yet",
        "fit": "Nothing to fit yet",
        "answer": "No fit yet",
        "keep": "The folder",
    }

    async def journey(user, desk):
        await user.should_see(hints[step.name], retries=40)

    visit(tmp_path / "new", journey, step.name)
    assert not (tmp_path / "new").exists()


def test_the_rail_says_how_far_a_study_is(lynx):
    async def journey(user, desk):
        await user.should_see("21 rows", retries=100)
        await user.should_see("2 states, 4 parameters")
        await user.should_see("6 unknowns")

    visit(lynx, journey)


def test_a_mistake_is_shown_and_undone(lynx):
    async def journey(user, desk):
        before = desk.text
        desk.edit(lambda text: document.with_equations(text, "hare' = birth*hare)"), "equations")
        await user.should_see("needs a look", retries=20)
        desk.undo()
        await user.should_not_see("needs a look", retries=20)
        assert desk.text == before

    visit(lynx, journey, "keep")


@pytest.fixture
def two_columns(tmp_path):
    """Measured columns that are called unlike the states."""
    (tmp_path / "x.csv").write_text("time,sub,Product (mM)\n0,5,0\n1,3,2\n2,2,3\n", encoding="utf-8")
    text = document.with_equations('data = "x.csv"\n', "S' = -k*S\nP' = k*S")
    (tmp_path / "problem.toml").write_text(text + "\n[parameters]\nk = [0.1, 9]\n", encoding="utf-8")
    return tmp_path


def field(user, label):
    return next(one for one in user.find(kind=Typed).elements if one.props.get("aria-label") == label)


async def write(user, desk, label, words, number=1):
    """Type into a field and leave it; `number` counts what is typed."""
    UserInteraction(user, {field(user, label)}, None).trigger("take", [number, words])
    await asyncio.sleep(0.1)
    await desk.read()
    await asyncio.sleep(0.3)


def test_every_measured_column_can_get_a_formula(two_columns):
    async def journey(user, desk):
        await user.should_see("What was measured", retries=40)
        await write(user, desk, "Formula of sub", "S")
        assert document.value_at(desk.text, "observables") == {"sub": "S"}
        await write(user, desk, "Formula of Product", "scale*P", 2)
        assert desk.reading.mistakes == ()
        assert desk.reading.file.problem.experiments[0].observables == ("sub", "Product")
        assert "scale" in document.value_at(desk.text, "parameters")

    visit(two_columns, journey, "equations")


def test_a_column_that_is_said_to_be_measured_must_have_a_formula(two_columns):
    async def journey(user, desk):
        desk.edit(lambda text: document.with_value(text, ("observables", "sub"), "S"), "formula")
        roles = (await desk.read()).tables[0].roles
        assert roles["Product (mM)"] is Role.IGNORED
        await asyncio.sleep(0.5)
        await write(user, desk, "What Product (mM) is", "measured")
        assert desk.reading.tables[0].roles["Product (mM)"] is Role.MEASURED
        assert [one.subject for one in desk.reading.about("observables")] == ["Product (mM)"]
        await user.should_see("Go to equations", retries=20)

    visit(two_columns, journey, "data")


def test_a_wrong_formula_is_mended_where_it_stands(lynx):
    async def journey(user, desk):
        await user.should_see("What was measured", retries=40)
        await write(user, desk, "Formula of hare", "scale*(")
        made = field(user, "Formula of hare")
        assert (made.props["value"], made.props["aria-invalid"]) == ("scale*(", "true")
        await user.should_see("complete the formula")
        await write(user, desk, "Formula of hare", "scale*hare", 2)
        assert desk.reading.mistakes == ()
        assert "aria-invalid" not in field(user, "Formula of hare").props

    visit(lynx, journey, "equations")


def test_a_change_by_another_program_is_shown_and_typed_text_is_kept(lynx):
    async def journey(user, desk):
        await user.should_see("The folder", retries=40)
        typed = desk.text + "# half\n"
        UserInteraction(user, {field(user, "problem.toml")}, None).trigger("input", typed)
        (lynx / "problem.toml").write_text("title = 'theirs'\n", encoding="utf-8")
        await user.should_see("has changed since you began", retries=40)
        assert field(user, "Title of the study").props["value"] == "theirs"
        assert field(user, "problem.toml").props["value"] == typed
        user.find("Drop what is typed").click()
        await asyncio.sleep(0.2)
        assert field(user, "problem.toml").props["value"] == "title = 'theirs'\n"

    visit(lynx, journey, "keep")


def test_a_wrong_bound_is_marked_in_its_row(lynx):
    async def journey(user, desk):
        await user.should_see("Parameters", retries=40)
        await asyncio.sleep(0.5)
        await write(user, desk, "Lower bound of birth", "9")
        made = field(user, "Lower bound of birth")
        assert made.props["aria-invalid"] == "true"
        row = made.parent_slot.parent.parent_slot.parent
        rows = row.parent_slot.children
        below = rows[rows.index(row) + 1]
        assert below.visible
        assert "birth" in next(iter(below.default_slot.children)).default_slot.children[0].text
        assert field(user, "Lower bound of death").props["aria-invalid"] == "false"
        await write(user, desk, "Lower bound of birth", "0.2", 2)
        assert made.props["aria-invalid"] == "false"
        assert not below.visible

    visit(lynx, journey, "play")


def test_one_can_begin_anew(lynx):
    async def journey(user, desk):
        await user.should_see(marker="starters", retries=20)
        before = desk.text
        starters = next(iter(user.find(marker="starters").elements))
        assert "An empty study" in [one.text for one in starters.default_slot.children]
        user.find(marker="starters").trigger("take", [1, "empty"])
        await user.should_see("Write the equations", retries=20)
        assert document.plain(desk.text) == {"title": "lynx", "equations": ""}
        desk.undo()
        assert desk.text == before

    visit(lynx, journey, "equations")


def test_initial_states_of_nothing_can_be_removed(lynx):
    async def journey(user, desk):
        desk.edit(lambda text: document.with_value(text, ("initial", "rabbit"), 3), "initial")
        await user.should_see("rabbit", retries=20)
        user.find("Remove").click()
        await asyncio.sleep(0.2)
        assert document.value_at(desk.text, "initial", "rabbit") is None

    visit(lynx, journey, "play")


def test_events_are_shown_under_the_equations(tmp_path):
    folder = tmp_path / "ball"
    folder.mkdir()
    lines = "height' = speed", "speed' = -g", "when height < 0: speed = -e*speed"
    text = document.with_equations("", "\n".join(lines))
    (folder / "problem.toml").write_text(text, encoding="utf-8")

    async def journey(user, desk):
        await user.should_see("when height < 0: speed = -e*speed", retries=40)

    visit(folder, journey, "equations")


def test_names_from_files_are_text(lynx):
    evil = "<img src=x onerror=alert(1)>"
    table = lynx / "lynx_hare.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("lynx", evil), encoding="utf-8")

    async def journey(user, desk):
        await user.should_see(evil, retries=40)
        markup = list(user.find(kind=ui.html).elements) if _has_html(user) else []
        assert not any(evil in one.content for one in markup)

    visit(lynx, journey, "data")


def _has_html(user) -> bool:
    try:
        return bool(user.find(kind=ui.html).elements)
    except AssertionError:
        return False
