"""`python -m paper tumor --quick` from the root of a clone: run the experiments of the paper."""

import typer

from paper.command import paper

if __name__ == "__main__":
    typer.run(paper)
