"""Files are written whole or not at all; links are followed; what is no regular file is refused."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import picardfit as pf
from full_disk import full_disk
from picardfit.cli import app
from picardfit.cli.new import Starter, write_starter
from picardfit.whole_files import make_folder, sound_path, write_bytes, write_text


def code(call, *args):
    with pytest.raises(pf.InputError) as caught:
        call(*args)
    assert "\n" not in str(caught.value)
    return caught.value.code


@pytest.fixture(scope="module")
def fit():
    times = np.linspace(0, 3, 8)
    data = pf.Experiment(times, {"x": np.exp(-times) + 0.01 * np.cos(9 * times)}, initial={"x": 1.0})
    return pf.fit(pf.Problem(pf.Model("x' = -k*x"), data, {"k": (0.1, 5)}))


def test_a_link_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "a.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    assert write_text(link, "new") == link
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["a.txt", "far", "link.txt"]


def test_a_link_to_nothing_creates_what_it_names(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "new.txt")
    write_text(tmp_path / "link", "content")
    assert (tmp_path / "new.txt").read_text() == "content"


def test_the_missing_folder_behind_a_link_is_named(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "far" / "new.txt")
    with pytest.raises(pf.InputError) as caught:
        write_text(tmp_path / "link", "content")
    assert (caught.value.code, caught.value.subject) == ("files.no_folder", str(tmp_path / "far"))


def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert code(write_text, tmp_path / "a", "x") in ("files.not_writable", "files.not_regular")
    assert (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("link", [False, True])
def test_a_pipe_is_refused_and_stays(tmp_path, link):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = tmp_path / "link" if link else pipe
    if link:
        path.symlink_to(pipe)
    assert code(write_text, path, "x") == "files.not_regular"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_refused():
    assert code(write_bytes, "/dev/null", b"x") == "files.not_regular"
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.parametrize(
    "name, reason",
    [
        (".", "files.is_a_folder"),
        ("none/a.txt", "files.no_folder"),
        ("a\0b", "files.impossible_name"),
        ("\ud800", "files.impossible_name"),
        ("a" * 300, "files.long_name"),
    ],
)
def test_a_target_that_cannot_be_is_refused(tmp_path, name, reason):
    assert code(write_text, f"{tmp_path}/{name}", "x") == reason


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a" * 300])
@pytest.mark.parametrize("call", [pf.read_table, pf.load, make_folder, sound_path, pf.read_problem])
def test_no_name_breaks_a_reader(call, name):
    assert code(call, name) in ("files.impossible_name", "files.long_name")


def test_permissions_are_kept_and_new_files_get_those_of_the_process(tmp_path):
    old, new, plain = (tmp_path / name for name in ("old", "new", "plain"))
    old.write_text("a")
    old.chmod(0o640)
    plain.write_text("a")
    write_text(old, "b")
    write_text(new, "b")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert new.stat().st_mode == plain.stat().st_mode


def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path):
    assert write_text(tmp_path / "a", "x\ud800y").read_text() == "x\\ud800y"


# ---- full disks ----------------------------------------------------------------------------------------------------


WRITERS = {
    "fit.json": lambda fit, path: fit.save(path),
    "report.html": lambda fit, path: fit.report(path),
    "fit.png": lambda fit, path: fit.plot(path),
    "fit.pdf": lambda fit, path: fit.plot(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_earlier_file(tmp_path, fit, name):
    path = tmp_path / name
    path.write_text("earlier")
    with full_disk():
        assert code(WRITERS[name], fit, path) == "files.not_writable"
    assert path.read_text() == "earlier"
    assert os.listdir(tmp_path) == [name]


def test_a_fit_goes_on_without_a_ledger_that_does_not_fit_on_the_disk(tmp_path, fit):
    path = tmp_path / "run.jsonl"
    pf.fit(fit.problem, starts=3, ledger=tmp_path / "whole.jsonl")
    header, first, *_ = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    with full_disk(len(header + first) + 100):
        found = pf.fit(fit.problem, starts=3, ledger=path)
    assert found.success
    assert [one.code for one in found.warnings] == ["parallel.ledger_broke"]
    assert found.parameters == pf.fit(fit.problem, starts=3).parameters
    assert all(json.loads(line) for line in path.read_text().splitlines())
    assert pf.fit(fit.problem, starts=3, ledger=path).parameters == found.parameters


def test_a_bootstrap_goes_on_without_its_ledger(tmp_path, fit):
    with full_disk(420), pytest.warns(UserWarning, match="could not be continued"):
        found = fit.bootstrap(6, ledger=tmp_path / "run.jsonl")
    np.testing.assert_array_equal(found.samples["k"], fit.bootstrap(6).samples["k"])


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_prints_the_fit_that_it_cannot_write(tmp_path, as_json):
    write_starter(Starter.PHARMACOKINETICS, tmp_path)
    arguments = ["fit", str(tmp_path), *(["--json"] if as_json else [])]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    before = (tmp_path / "results" / "fit.json").read_bytes()
    with full_disk(2000):
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    if as_json:
        record = json.loads(result.stdout)
        assert record["success"]
        assert [one["code"] for one in record["errors"]] == ["files.not_writable"]
    else:
        assert "std. error" in result.stdout
        assert result.stderr.count("\n") == 1
    assert (tmp_path / "results" / "fit.json").read_bytes() == before
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_ledger_that_is_no_regular_file_is_refused(fit):
    assert code(lambda: pf.fit(fit.problem, starts=2, ledger="/dev/zero")) == "files.not_regular"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("reader", [pf.read_table, pf.read_nonmem, pf.load])
def test_a_pipe_is_not_waited_for(tmp_path, reader):
    os.mkfifo(pipe := tmp_path / "samples.csv")
    assert code(reader, pipe) == "files.endless"
    assert code(reader, str(pipe)) == "files.endless"
