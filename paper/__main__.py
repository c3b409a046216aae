"""`python -m paper tumor --quick` from the root of a checkout: the same as `picardfit paper tumor --quick`."""

import typer

from picardfit.paper_command import paper

typer.run(paper)
