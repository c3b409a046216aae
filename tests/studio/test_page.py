"""The page with a simulated user: steps, empty states, messages, undo."""

from __future__ import annotations

import asyncio
import shutil

import pytest

pytest.importorskip("nicegui", reason="the studio needs NiceGUI: pip install 'picardfit[studio]'")

from nicegui import ui
from nicegui.testing import user_simulation
from starlette.requests import Request

from picardfit.studio import document
from picardfit.studio.desk import Desk
from picardfit.studio.page import STEPS, Page
from picardfit.studio.study import Study
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
