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
