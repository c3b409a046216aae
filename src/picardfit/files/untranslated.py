"""Errors that rooms below still raise as sentences, placed and worded for files. Goes when they are records."""

from __future__ import annotations

import re

from picardfit.errors import InputError
from picardfit.files.toml_lines import Lines

_SPELLINGS = (  # how Python says it, how a problem file says it
    ("log=True", "log = true"),
    ("local=True", "local = true"),
    ("pf.Parameter(lower, upper, ...)", "a table { lower = ..., upper = ... }"),
    ("a pair (lower, upper)", "a pair [lower, upper]"),
    ("pf.Parameter(..., local=True)", "local = true"),
    ("pass noise=pf.Noise(...) to the problem", "add a section [noise] with additive = ..."),
    ("observables=[...]", "observables = [...] in [data]"),
    ("a pair (times, values), or a function of t", "or a table { times = [...], values = [...] }"),
)


def in_file_words(error: InputError, lines: Lines, guess: bool) -> InputError:
    if " " not in error.code:
        return error
    message, place = error.code, error.place
    for python, toml in _SPELLINGS:
        message = message.replace(python, toml)
    found = re.match(r"In line (\d+): ", message)
    if found:
        message = re.sub(
            r"\bline (\d+)",
            lambda m: f"line {lines.inside(('equations',), int(m[1]))}",
            message[found.end() :],
        )
        return error._with(code=message).at(key=("equations",), row=int(found[1]))
    unit = re.match(r"units: `([^`]+)`", message)
    about = re.match(r"(Observable|Input) `([^`]+)`", message)
    if unit:
        return error._with(code=message).at(key=("units", unit[1]))
    if about:
        return error._with(code=message).at(key=(f"{about[1].lower()}s", about[2]))
    if guess and not place.key:
        for name in re.findall(r"`([^`]+)`", message):
            for key in lines.keys:
                if key[-1] == name:
                    return error._with(code=message).at(key=key)
    return error._with(code=message)


def equation_errors(faults: list) -> list[InputError]:
    return [
        one if isinstance(one, InputError) else InputError(one[1], key=("equations",), row=one[0])
        for one in faults
    ]
