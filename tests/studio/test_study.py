"""The files of a study, with undo and redo."""

from __future__ import annotations

import pytest

from picardfit.errors import InputError
from picardfit.studio.settings import StudioSettings
from picardfit.studio.study import Study


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def study(tmp_path, clock):
    return Study(tmp_path / "new", clock=clock)


def on_disk(study) -> str:
    return (study.folder / "problem.toml").read_text(encoding="utf-8")


def test_a_new_study_writes_nothing_before_there_is_something(study):
    assert study.text == ""
    assert not study.folder.exists()


def test_every_change_is_on_disk_at_once(study):
    study.write_text("title = 'a'\n", "title")
    assert on_disk(study) == "title = 'a'\n"


def test_undo_and_redo_restore_the_files(study):
    study.write_text("one", "first")
    study.write({"problem.toml": b"two", "x.csv": b"t,x\n"}, "second")
    study.undo()
    assert on_disk(study) == "one"
    assert not (study.folder / "x.csv").exists()
    study.redo()
    assert on_disk(study) == "two"
    assert (study.folder / "x.csv").read_bytes() == b"t,x\n"


def test_undo_of_the_first_change_leaves_no_file(study):
    study.write_text("one", "first")
    study.undo()
    assert not (study.folder / "problem.toml").exists()
    assert study.undoes is None


def test_typing_is_one_step(study, clock):
    study.write_text("one", "title")
    for text in ("a", "ab", "abc"):
        study.write_text(text, "equations", merge=True)
        clock.now += 0.5
    study.undo()
    assert on_disk(study) == "one"


def test_typing_after_a_pause_is_another_step(study, clock):
    study.write_text("a", "equations", merge=True)
    clock.now += 60
    study.write_text("ab", "equations", merge=True)
    study.undo()
    assert on_disk(study) == "a"


def test_a_change_by_another_program_is_noticed_and_can_be_undone(study):
    study.write_text("mine", "title")
    (study.folder / "problem.toml").write_text("theirs", encoding="utf-8")
    assert study.noticed()
    assert study.text == "theirs"
    study.undo()
    assert on_disk(study) == "mine"


def test_the_history_has_an_end(tmp_path):
    study = Study(tmp_path, StudioSettings(history=3))
    for k in range(10):
        study.write_text(str(k), f"change {k}")
    for _ in range(10):
        study.undo()
    assert on_disk(study) == "6"


@pytest.mark.parametrize("name", ["../x.csv", "/etc/passwd", "a/../../x", "..\\x.csv", "C:\\x.csv", "", "."])
def test_names_that_lead_out_of_the_folder_are_refused(study, name):
    with pytest.raises(InputError) as caught:
        study.write({name: b""}, "evil")
    assert caught.value.code in ("studio.outside", "files.is_a_folder")


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.csv").write_text("t,x\n", encoding="utf-8")
    (tmp_path / "inside" / "x.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(InputError) as caught:
        Study(tmp_path / "inside").path("x.csv")
    assert caught.value.code == "studio.outside"
