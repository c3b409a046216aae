"""What tests of bad input share: the InputError itself, so that they compare its code, subject and place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from picardfit.errors import InputError


def complaint(make: Callable[..., object], *args: object, **options: object) -> InputError:
    """The InputError that a call raises; another exception, or none, fails the test."""
    with pytest.raises(InputError) as caught:
        make(*args, **options)
    return caught.value


def record(error: InputError) -> tuple[object, ...]:
    """(code, subject, key) of an error, and the row inside a text where it has one."""
    assert "\n" not in str(error)  # one sentence; a suggestion may follow
    place = error.place
    return (error.code, error.subject, place.key, *(() if place.row is None else (place.row,)))
