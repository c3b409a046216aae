"""Damaged problem and data files: `check` and `fit` answer with a sentence, never with a traceback or a hang."""

import random
import signal
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from picardfit.cli import app
from picardfit.cli.new import Starter, write_starter

LONGEST = 60  # seconds of processor time for one file
SHORT, LONG = 40, 2000
INSERTS = (
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
        "^",
        "**",
        "/",
    ),
    *(
        "nan",
        "inf",
        "-inf",
        "1e999",
        "1e-320",
        "0",
        "-1",
        "99999999999999999999",
        "true",
        "1979-05-27",
        "t",
        "t0",
    ),
    *(
        "__import__('os').system('touch hacked')",
        "open('hacked','w')",
        "exp(exp(exp(1)))",
        "9**9**9",
        "x'",
        "\ud7ff",
    ),
    *(
        "lower",
        "upper",
        "log = true",
        "start = 0",
        "fixed = 1",
        "local = true",
        "'formula'",
        "é",
        "½",
        "﷽",
        "%s",
        "{0}",
    ),
    *(
        "[parameters]",
        "[fit]",
        "[initial]",
        "[experiments.a]",
        "inputs = ['u']",
        "observables = ['v']",
        "where(t<1,1,0)",
    ),
)
runner = CliRunner()


@cache
def originals() -> tuple[tuple[str, dict[str, bytes]], ...]:
    """The files of every starter."""
    import tempfile

    found = []
    for starter in Starter:
        with tempfile.TemporaryDirectory() as folder:
            write_starter(starter, Path(folder))
            files = {p.name: p.read_bytes() for p in Path(folder).iterdir() if p.suffix in (".toml", ".csv")}
            found.append((starter.value, files))
    return tuple(found)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """The content after a few random accidents."""
    text = content.decode("utf-8", errors="surrogateescape")
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, length = rng.randrange(len(text) + 1), rng.choice((1, 1, 2, 5, 20))
        lines = text.split("\n")
        k = rng.randrange(len(lines))
        match rng.randrange(9):
            case 0:  # something strange is put in
                text = text[:at] + rng.choice(INSERTS) + text[at:]
            case 1:  # something is lost
                text = text[:at] + text[at + length :]
            case 2:  # something is replaced
                text = text[:at] + rng.choice(INSERTS) + text[at + length :]
            case 3:  # a line is lost
                text = "\n".join(lines[:k] + lines[k + 1 :])
            case 4:  # a line is repeated elsewhere
                where = rng.randrange(len(lines))
                text = "\n".join([*lines[:where], lines[k], *lines[where:]])
            case 5:  # the end is missing
                text = text[:at]
            case 6:  # a number changes
                digits = [n for n, character in enumerate(text) if character.isdigit()]
                if digits:
                    place = rng.choice(digits)
                    text = (
                        text[:place]
                        + rng.choice(("0", "9", "1e9", "-", "1e-9", "1e300", "nan"))
                        + text[place + 1 :]
                    )
            case 7:  # a character becomes another one
                text = (
                    text[:at]
                    + chr(rng.choice((rng.randrange(32, 127), rng.randrange(0x2000))))
                    + text[at + 1 :]
                )
            case _:  # two pieces change places
                other = rng.randrange(len(text) + 1)
                low, high = sorted((at, other))
                text = text[:low] + text[high : high + length] + text[low:high] + text[high + length :]
    return text.encode("utf-8", errors="surrogateescape")


@contextmanager
def no_longer_than(seconds: float):
    """A hang becomes an error."""

    def stop(*_):
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def one_case(seed: int, folder: Path, monkeypatch) -> int:
    """Damage the files of a starter, run a command on them; its exit code."""
    rng = random.Random(seed)
    _, files = rng.choice(originals())
    folder.mkdir()
    victims = rng.choice(
        (["problem.toml"], ["problem.toml"], [n for n in files if n != "problem.toml"], list(files))
    )
    for name, content in files.items():
        (folder / name).write_bytes(damaged(rng, content) if name in victims else content)
    monkeypatch.chdir(folder)
    commands = (["check", "."], ["fit", ".", "--max-iterations", "3", "--no-report"])
    with no_longer_than(LONGEST):
        result = runner.invoke(app, commands[rng.randrange(2)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    assert not list(folder.rglob("hacked*"))
    assert result.exit_code in (0, 1, 2)
    if result.exit_code == 2:
        assert result.output.strip()
    return result.exit_code


def run_cases(seeds, tmp_path, monkeypatch) -> list[int]:
    codes = []
    for seed in seeds:
        try:
            codes.append(one_case(seed, tmp_path / str(seed), monkeypatch))
        except BaseException:
            sys.stderr.write(f"\nfuzz case {seed} in {tmp_path / str(seed)}\n")
            raise
    return codes


def test_some_damaged_files(tmp_path, monkeypatch):
    codes = run_cases(range(SHORT), tmp_path, monkeypatch)
    assert {0, 2} <= set(codes) or {1, 2} <= set(codes)


@pytest.mark.slow
def test_many_damaged_files(tmp_path, monkeypatch):
    run_cases(range(1000, 1000 + LONG), tmp_path, monkeypatch)
