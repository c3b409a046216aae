"""A disk that is full: files may not grow beyond a limit, so that `write` fails as it does without space."""

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(most_bytes: int = 64):
    """No file can grow beyond so many bytes (Python ignores the signal that comes with the error)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
