"""Two versions of picardfit turn by turn: an older commit in a temporary git worktree, and this tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Version:
    """A process of a benchmark with the sources of one tree, on one core; it answers names with records."""

    def __init__(self, tree: Path, script: str) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{ROOT / 'benchmarks'}",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, script, "--worker"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.names: list[str] = json.loads(self.process.stdout.readline())

    def run(self, name: str) -> dict:
        self.process.stdin.write(f"{name}\n")
        return json.loads(self.process.stdout.readline())


@contextmanager
def both_versions(commit: str, script: str) -> Iterator[tuple[Version, Version]]:
    """The versions of an older commit and of this tree, which run `script --worker`."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "old"
        subprocess.run([*git, "add", "--detach", str(tree), commit], check=True, capture_output=True)
        pair: list[Version] = []
        try:
            pair += [Version(tree, script), Version(ROOT, script)]
            yield pair[0], pair[1]
        finally:
            for one in pair:
                one.process.terminate()
            subprocess.run([*git, "remove", "--force", str(tree)], check=True, capture_output=True)


def answer(names: Sequence[str], record: Callable[[str], dict]) -> None:
    """Tell the names, then answer each name on standard input with a record, as a line of JSON each."""
    print(json.dumps(list(names)), flush=True)
    for line in sys.stdin:
        print(json.dumps(record(line.strip())), flush=True)
