"""`python -m picardfit` is the command line."""

from picardfit.cli import app

app(prog_name="picardfit")
