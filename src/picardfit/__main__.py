"""`picardfit` and `python -m picardfit` are the command line."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is loaded ends it as quietly as later."""
    try:
        from picardfit.cli import app

        app(prog_name="picardfit")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
