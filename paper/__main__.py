"""`python -m paper tumor --quick` from the root of a clone: run the experiments of the paper."""

import typer

from paper.command import paper

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
app.command()(paper)

if __name__ == "__main__":
    app(prog_name="python -m paper")
