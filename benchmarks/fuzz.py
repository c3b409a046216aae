"""Damaged problem files, tables, ledgers and saved fits: each is answered with a sentence, and soon.

    python benchmarks/fuzz.py [--count 2000] [--first 0] [--seconds 10]

A case takes a starter, its ledger or its fit.json, damages some bytes, lines or values (the seed is the number of the
case), and runs `check`, `fit`, `profile` or a continued fit on it. A fault is an exception other than InputError, exit
code 3, a traceback in the output, a message of more than 40 lines, a text that was executed (it writes a file
`hacked`), or more than `--seconds` of processor time. tests/cli/test_fuzz_cli.py runs some of the cases.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from typer.testing import CliRunner

import picardfit as pf
from picardfit.cli import app
from picardfit.cli.new import Starter, write_starter

WORDS = (
    *(
        "'",
        '"',
        '"""',
        "[",
        "]",
        "{",
        "}",
        "=",
        "#",
        "\n",
        "\\",
        "\0",
        "\x1b",
        ",",
        ".",
        "-",
        "(",
        ")",
        "**",
        "/",
    ),
    *(
        "nan",
        "inf",
        "1e999",
        "1e-320",
        "0",
        "-1",
        "9" * 30,
        "true",
        "null",
        "1979-05-27",
        "t",
        "x'",
        "\ufeff",
        "é",
        "½",
    ),
    *(
        "exp(exp(exp(1)))",
        "9**9**9",
        "sin(1e6*t)",
        "(x/1000)**120",
        "min(1)",
        "piecewise(1)",
        "sqrt(-1)",
        "[" * 300,
    ),
    *(
        "__import__('os').system('touch hacked')",
        "open('hacked','w')",
        "where(t<1,1,0)",
        "inputs = ['u']",
        "observables = ['v']",
        "[experiments.a]",
        "[initial]",
    ),
    *(
        "lower",
        "log = true",
        "start = 0",
        "local = true",
        "fixed = 1",
        "[parameters]",
        "[fit]",
        "[noise]",
        "data = 7",
        "\ud7ff",
        "<0.25",
        "0.1..2",
    ),
    *(
        '{"task": true}',
        '{"task": 1, "result": 3}',
        "{}",
        '"x"',
        "time,time",
        "\t",
        ";",
        "NaN",
        "1,5",
        "%s",
        "{0}",
    ),
)
runner = CliRunner()


def damaged(rng: random.Random, content: bytes) -> bytes:
    """The content after one to five mutations."""
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(content) + 1)
        word = rng.choice(WORDS).encode("utf-8", errors="surrogatepass")
        lines = content.split(b"\n")
        k, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        digits = [n for n, byte in enumerate(content) if chr(byte).isdigit()] or [0]
        digit, number = rng.choice(digits), rng.choice((b"0", b"9", b"1e9", b"-", b"1e-9", b"1e300", b"nan"))
        content = rng.choice(
            (
                content[:at] + word + content[at:],
                content[:at] + word + content[at + rng.randint(1, 8) :],
                content[:at],
                content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :],
                b"\n".join([*lines[:k], *lines[k + 1 :]]),
                b"\n".join([*lines[: k + 1], *lines[k:]]),
                b"\n".join([*lines[:other], lines[k], *lines[other:]]),
                content[:digit] + number + content[digit + 1 :],
                content[: at // 2] + content[at:],
                content.decode("utf-8", errors="replace").encode("utf-16") if rng.random() < 0.1 else content,
            )
        )
    return content


@cache
def originals() -> list[tuple[str, dict[str, bytes]]]:
    """Files to damage, by kind: the starters, a ledger with its problem, a saved fit."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        for starter in Starter:
            folder = Path(name) / starter.value
            write_starter(starter, folder)
            files = {one.name: one.read_bytes() for one in folder.iterdir() if "schema" not in one.name}
            found += [("problem", files)] * 2
        folder = Path(name) / Starter.PHARMACOKINETICS.value
        arguments = [
            "fit",
            str(folder),
            "--starts",
            "3",
            "--no-report",
            "-q",
            "--ledger",
            str(folder / "run.jsonl"),
        ]
        runner.invoke(app, arguments)
        files = {
            one.name: one.read_bytes()
            for one in folder.iterdir()
            if one.is_file() and "schema" not in one.name
        }
        found += [("ledger", files)] * 4
        found += [("saved", {"fit.json": (folder / "results" / "fit.json").read_bytes()})] * 3
    return found


@contextmanager
def limited(seconds: float):
    """TimeoutError after so many seconds of processor time."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def one_case(seed: int, folder: Path, seconds: float) -> str:
    """What became of one case, run in an empty folder: `exit 0` to `exit 2`, or the name of a fault."""
    began = time.process_time()
    verdict = _verdict(seed, folder, seconds)
    if list(folder.rglob("hacked*")):
        return "executed"
    return "too slow" if time.process_time() - began >= seconds else verdict  # a search may catch the alarm


def _verdict(seed: int, folder: Path, seconds: float) -> str:
    rng = random.Random(seed)
    kind, files = rng.choice(originals())
    victims = {"ledger": ["run.jsonl"], "saved": ["fit.json"]}.get(kind) or rng.sample(sorted(files), 1)
    for name, content in files.items():
        (folder / name).write_bytes(damaged(rng, content) if name in victims else content)
    path, quick = str(folder), ["--max-iterations", "5", "--no-report"]
    command = {
        "problem": rng.choice((["check", path], ["fit", path, *quick])),
        "ledger": ["fit", path, "--starts", "3", "--no-report", "--ledger", f"{path}/run.jsonl"],
        "saved": ["simulate", path, "--fit", f"{path}/fit.json"],
    }[kind]
    try:
        with limited(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "saved":
                try:
                    str(pf.load(folder / "fit.json"))
                except pf.InputError as error:
                    return "exit 2" if str(error).count("\n") < 40 else "long message"
                return "exit 0"
            result = runner.invoke(app, command)
    except TimeoutError:
        return "too slow"
    except Exception as error:
        return f"exception {type(error).__name__}"
    if isinstance(result.exception, TimeoutError):
        return "too slow"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"exception {type(result.exception).__name__}"
    if "Traceback" in result.output or result.exit_code not in (0, 1, 2):
        return f"internal error: {result.output.strip().splitlines()[-1][:200]}"
    return f"exit {result.exit_code}" if result.stderr.count("\n") <= 40 else "long message"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    began, verdicts, slowest = time.perf_counter(), Counter(), 0.0
    for seed in range(given.first, given.first + given.count):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            verdict = one_case(seed, Path(folder), given.seconds)
        slowest = max(slowest, time.process_time() - start)
        verdicts[verdict] += 1
        if not verdict.startswith("exit"):
            print(json.dumps({"seed": seed, "verdict": verdict}), flush=True)
    print(dict(verdicts), f"slowest {slowest:.1f} s, all {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
