"""The command line at a real terminal: live progress, Ctrl-C, and silence on a pipe."""

import json
import os
import select
import signal
import subprocess
import sys

import pytest

from picardfit.cli.new import Starter, write_starter

pty = pytest.importorskip("pty")
PATIENCE = 120  # seconds


@pytest.fixture
def endless(tmp_path):
    """A problem whose fit would take hours."""
    write_starter(Starter.VAN_DER_POL, tmp_path)
    path = tmp_path / "problem.toml"
    slow = "method = 'extended-gradient-contract-multiplier'\nsettings = { tolerance = 1e-300 }\n"
    path.write_text(f"{path.read_text()}\n[fit]\nmax_iterations = 1000000000\n{slow}")
    return tmp_path


def start(*arguments, stderr):
    command = [sys.executable, "-m", "picardfit", *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=environment)


def read_until(terminal, words):
    """What the terminal shows up to these words."""
    shown = b""
    while words not in shown:
        ready, _, _ = select.select([terminal], [], [], PATIENCE)
        assert ready, shown
        shown += os.read(terminal, 10_000)
    return shown.decode(errors="replace")


def test_an_interrupt_keeps_the_best_so_far(endless, tmp_path):
    ours, theirs = pty.openpty()
    process = start("fit", endless, "--no-report", "--out", tmp_path / "out", stderr=theirs)
    os.close(theirs)
    try:
        shown = read_until(ours, b"iteration 1")
        assert "loss" in shown
        assert "largest jump" in shown
        process.send_signal(signal.SIGINT)
        read_until(ours, b"best so far")
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        os.close(ours)
    assert process.returncode == 1
    assert b"Interrupted: the best values found so far" in output
    saved = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert saved["status"] == "INTERRUPTED"
    assert saved["estimates"]["omega"]["value"] > 0


@pytest.mark.parametrize("command", ["profile", "export"])
def test_an_interrupted_fit_is_neither_profiled_nor_exported(endless, command):
    results = endless / "results"
    results.mkdir()
    for name in ("profiles.csv", "model.py"):
        (results / name).write_text("earlier")
    ours, theirs = pty.openpty()
    process = start(command, endless, stderr=theirs)
    os.close(theirs)
    try:
        read_until(ours, b"iteration 1")
        process.send_signal(signal.SIGINT)
        read_until(ours, b"the fit was interrupted before it ended; nothing was written.")
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        os.close(ours)
    assert (process.returncode, output) == (130, b"")
    assert {path.read_text() for path in results.iterdir()} == {"earlier"}


def test_a_pipe_gets_the_table_and_nothing_else(tmp_path):
    write_starter(Starter.INFLUENZA, tmp_path)
    process = start("fit", tmp_path, "--no-report", stderr=subprocess.PIPE)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert errors == b""
    assert b"\x1b" not in output
    assert b"infection" in output
