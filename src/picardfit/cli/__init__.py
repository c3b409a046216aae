"""The command line. Every command lives in a file of its own and imports what it needs when it runs."""

from picardfit.cli.app import app

__all__ = ["app"]
