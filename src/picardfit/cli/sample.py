"""`picardfit sample`: draws of the posterior."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import (
    HERE,
    AsJson,
    ProblemPath,
    Quiet,
    as_far_as_possible,
    complaints,
    console,
    print_json,
    print_table,
    tell_unwritten,
    with_errors,
)
from picardfit.cli.current import fit_and_folder
from picardfit.cli.fit import Out, Report
from picardfit.cli.saved import check_single
from picardfit.errors import Audience

if TYPE_CHECKING:
    from picardfit.inference.posterior.posterior import Posterior


class Sampler(Enum):
    """How draws are made."""

    NUTS = "nuts"
    LAPLACE = "laplace"
    NUTPIE = "nutpie"
    EMCEE = "emcee"


def sample(
    problem: ProblemPath = HERE,
    sampler: Annotated[
        Sampler,
        typer.Option(
            "--method",
            help="Chains (nuts), or a weighted Gaussian at the optimum, which answers at once (laplace). "
            "nutpie and emcee check the draws with the samplers of these packages.",
        ),
    ] = Sampler.NUTS,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of each chain (1000) or walker (2000), or in all (4000).")
    ] = None,
    chains: Annotated[int, typer.Option(min=1, help="Number of chains.")] = 4,
    warmup: Annotated[int, typer.Option(min=0, help="Iterations of each chain before its draws.")] = 400,
    accept: Annotated[
        float,
        typer.Option(help="Wanted acceptance; nearer to 1 takes shorter steps and removes divergences."),
    ] = 0.8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="A file that keeps the iterations of nuts, so that an interrupted run can be resumed."
        ),
    ] = None,
    out: Out = None,
    report: Report = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw from the posterior: the likelihood times the priors of the problem file, flat where it gives none.

    PROBLEM may also be a saved fit.json. Writes draws.csv, posterior.csv and report.html. Ctrl-C keeps what is drawn;
    with --ledger the same command goes on from there.
    """
    with complaints(as_json):
        from picardfit.inference.posterior.methods import NUTS, Emcee, LaplaceDraws, Method, Nutpie
        from picardfit.whole_files import write_text

        methods: dict[Sampler, Callable[[], Method]] = {
            Sampler.NUTS: lambda: NUTS(draws or 1000, chains, warmup, accept),
            Sampler.LAPLACE: lambda: LaplaceDraws(draws or 4000),
            Sampler.NUTPIE: lambda: Nutpie(draws or 1000, chains, warmup),
            Sampler.EMCEE: lambda: Emcee(draws or 2000, warmup=warmup),
        }
        method = methods[sampler]()
        result, folder = fit_and_folder(problem, out, quiet or as_json)
        check_single(result, "sample", problem)
        found = result.posterior(
            method, seed=seed, ledger=ledger, progress=False if quiet or as_json else None
        )
        table = found.summary().rename_axis("name").to_csv(lineterminator="\n")
        names = ["draws.csv", "posterior.csv"] + (["report.html"] if report else [])

        def write(path: Path) -> Path:
            if path.name == "report.html":
                return result.report(path, posterior=found)
            return found.save(path) if path.name == "draws.csv" else write_text(path, table)

        written, unwritten = as_far_as_possible(write(folder / name) for name in names)
        if as_json:
            print_json(with_errors(_record(found, written), unwritten))
        elif not quiet:
            _show(found)
            typer.echo(f"written to {folder}: {', '.join(path.name for path in written) or 'nothing'}")
        tell_unwritten(unwritten, as_json)
    raise typer.Exit(0 if found.trusted and not found.drawn.missing else 1)


def _record(found: Posterior, written: list[Path]) -> dict[str, object]:
    """The result for machines."""
    chains, draws = found.shape
    return {
        "success": found.trusted,
        "chains": chains,
        "draws": draws,
        "divergences": found.divergences,
        "khat": found.khat,
        "summary": found.summary().to_dict(orient="index"),
        "warnings": [one.sentence(Audience.COMMAND) for one in found.warnings],
        "files": [str(path) for path in written],
    }


def _show(found: Posterior) -> None:
    from picardfit.display.posteriors import HEADER, headline, summary_rows, verdict

    typer.echo(headline(found))
    print_table(console(), HEADER, summary_rows(found), numeric=tuple(range(1, len(HEADER))))
    for sentence in verdict(found, Audience.COMMAND):
        typer.echo(sentence)
