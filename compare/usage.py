"""Bad input to the scripts beside the package."""

from __future__ import annotations


class UsageError(ValueError):
    """What was asked cannot be done; the message says what to do instead."""
