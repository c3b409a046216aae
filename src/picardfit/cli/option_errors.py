"""Options with values that cannot be read, in plain words instead of those of the library that reads them."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

WORDS = {  # kind of error -> what is wrong with the value
    "int_parsing": "{input!r} is not a whole number.",
    "int_from_float": "{input!r} is not a whole number.",
    "float_parsing": "{input!r} is not a number.",
    "greater_than_equal": "{input} is less than {ge:g}.",
    "less_than_equal": "{input} is more than {le:g}.",
    "value_error": "{error}",
}


class Command(TyperCommand):
    """A command that words errors of its options itself."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except typer.BadParameter as error:
            error.message = plain_words(error)
            raise


def plain_words(error: typer.BadParameter) -> str:
    """The message of an error. New versions of Typer read values with pydantic, whose error is the cause."""
    details = getattr(error.__cause__, "errors", None)
    if details is None:
        return error.message
    first = details()[0]
    values = {**first.get("ctx", {}), "input": first["input"]}
    return WORDS[first["type"]].format(**values) if first["type"] in WORDS else error.message
