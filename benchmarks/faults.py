"""Kills, signals and full disks: nothing that was finished is lost, and no file is half-written.

    python benchmarks/faults.py [--kills 200] [--disks 50] [--seed 0]

A kill runs `picardfit fit` of several starts with a ledger, sends SIGKILL, SIGTERM, SIGINT or SIGHUP after a random
time, and checks the folder: every line of the ledger but the last is JSON and stays, results are absent or whole, and
no temporary file stays unless the process was killed outright. After every tenth the run is continued and must give the
estimates of an undisturbed one. A full disk is a limit on the size of files (RLIMIT_FSIZE) at a random number of bytes:
the earlier files stay as they were, the message is one sentence, and the fit is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from picardfit.cli.new import Starter, write_starter

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OUTPUTS = ("fit.json", "parameters.csv", "predictions.csv", "report.html")


def command(folder: Path) -> list[str]:
    ledger = str(folder / "run.jsonl")
    return [sys.executable, "-m", "picardfit", "fit", str(folder), "--starts", "12", "--ledger", ledger]


def estimates(folder: Path) -> dict[str, float]:
    record = json.loads((folder / "results" / "fit.json").read_text())
    return {name: one["value"] for name, one in record["estimates"].items()}


def check_folder(folder: Path, may_leave: bool, before: bytes) -> bytes:
    """The ledger as it is now; AssertionError where something was lost or half-written."""
    ledger = folder / "run.jsonl"
    content = ledger.read_bytes() if ledger.exists() else b""
    whole = before[: before.rfind(b"\n") + 1]
    assert content.startswith(whole), "lines of the ledger were lost"
    for line in content.split(b"\n")[:-1]:
        json.loads(line)
    results = folder / "results"
    if (results / "fit.json").exists():
        json.loads((results / "fit.json").read_text())
    if (results / "report.html").exists():
        assert (results / "report.html").read_text().rstrip().endswith("</html>")
    left = list(folder.rglob("*.tmp"))
    assert may_leave or not left, f"{left} was left"
    for one in left:
        one.unlink()
    return content


def kills(count: int, rng: random.Random, folder: Path, expected: dict[str, float], usual: float) -> None:
    content = b""
    for k in range(count):
        run = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(rng.uniform(0.2, 1.1) * usual)
        what = rng.choice(SIGNALS)
        run.send_signal(what)
        _, said = run.communicate(timeout=60)
        # Python itself reports a Ctrl-C that lands in a callback of its own, and goes on
        assert b"Traceback" not in said or b"Exception ignored in" in said, said.decode()
        assert b"Internal error" not in said, said.decode()
        content = check_folder(folder, what is not signal.SIGINT, content)
        if k % 10 == 9:
            subprocess.run(command(folder), check=True, stdout=subprocess.DEVNULL)
            found = estimates(folder)
            assert all(abs(found[n] - v) <= 1e-9 * abs(v) for n, v in expected.items()), (found, expected)
            (folder / "run.jsonl").unlink()
            for name in OUTPUTS:
                (folder / "results" / name).unlink(missing_ok=True)
            content = b""


def full_disks(count: int, rng: random.Random, folder: Path) -> None:
    (folder / "run.jsonl").unlink(missing_ok=True)
    subprocess.run(command(folder), check=True, stdout=subprocess.DEVNULL)
    results = folder / "results"
    largest = max((results / name).stat().st_size for name in OUTPUTS)
    for _ in range(count):
        before = {one: one.read_bytes() for one in results.iterdir()}
        most = int(largest ** rng.uniform(0.2, 0.98))
        done = subprocess.run(
            [*command(folder)[:-2]],
            capture_output=True,
            text=True,
            preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == 2, (most, done.returncode, done.stderr)
        assert done.stderr.strip().count("\n") == 0, done.stderr
        assert "estimate" in done.stdout
        for one, content in before.items():
            # a smaller file may have been written anew, but whole: times differ, nothing else does
            now = one.read_bytes()
            assert now == content or (len(now) <= most and abs(len(now) - len(content)) < 200), one
        assert not list(folder.rglob("*.tmp"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--disks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "problem"
        write_starter(Starter.LOTKA_VOLTERRA, folder)
        began = time.perf_counter()
        subprocess.run(command(folder), check=True, stdout=subprocess.DEVNULL)
        usual, expected = time.perf_counter() - began, estimates(folder)
        (folder / "run.jsonl").unlink()
        kills(given.kills, rng, folder, expected, usual)
        print(f"{given.kills} kills and signals: nothing lost, no half-written file", flush=True)
        full_disks(given.disks, rng, folder)
        print(f"{given.disks} full disks: earlier files intact, results printed")


if __name__ == "__main__":
    main()
