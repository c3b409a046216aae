"""What is typed into fields, as values of a problem file, and back."""

from __future__ import annotations


def number_of(words: str) -> object:
    """A number, None for nothing; what is no number stays as it is, for the messages that follow."""
    words = words.strip()
    if not words:
        return None
    try:
        value = float(words.replace(",", "."))
    except ValueError:
        return words
    return value if value == value and abs(value) != float("inf") else words


def level_of(words: str) -> object:
    """A level of noise: a number, a formula, or two numbers."""
    ends = [number_of(one) for one in words.replace("…", " to ").replace("–", " to ").split(" to ")]
    return ends if len(ends) == 2 else ends[0]


def words_of_level(value: object) -> str:
    return " to ".join(map(words_of, value)) if isinstance(value, list) else words_of(value)


def words_of(value: object) -> str:
    """A value as it is typed; short where that is the same number."""
    if value is None:
        return ""
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if short and float(short) == value else str(value)
