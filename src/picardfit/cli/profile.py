"""`picardfit profile`: intervals from the profile likelihood."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from picardfit.cli.common import (
    HERE,
    AsJson,
    ProblemPath,
    Quiet,
    Verbose,
    as_far_as_possible,
    complaints,
    console,
    print_json,
    print_table,
    tell_unwritten,
    with_errors,
)
from picardfit.cli.current import fit_and_folder
from picardfit.cli.fit import Out
from picardfit.errors import Audience, InputError

if TYPE_CHECKING:
    from picardfit.fit import Fit
    from picardfit.inference.profile import Profile


def profile(
    problem: ProblemPath = HERE,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", help="A parameter to profile; may be repeated. By default all of them."
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals, between 0 and 1.")] = 0.95,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that share the profiles.")] = 1,
    ledger: Annotated[
        Path | None,
        typer.Option(help="A file that keeps finished profiles, so that an interrupted run can be resumed."),
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compute profile likelihoods: how the loss rises away from each estimate, and the resulting interval.

    PROBLEM may also be a saved fit.json; a problem whose results hold its fit is not fitted again. Writes
    profiles.csv, or adds to it. Ctrl-C keeps the finished profiles.
    """
    with complaints(as_json):
        from picardfit.cli.profiles_file import earlier_profiles, with_profiles
        from picardfit.whole_files import write_text

        if not 0 < level < 1:
            raise InputError("cli.level", level=level)
        result, folder = fit_and_folder(problem, out, quiet or as_json, verbose)
        if result.solution is None:
            raise InputError("cli.nothing_to_profile", ended=result.conclusion)
        names = parameter or [name for name in result.parameters if name in result.standard_errors]
        earlier = earlier_profiles(folder / "profiles.csv", result)
        profiles = _profiles(result, names, level, workers, ledger, quiet or as_json)
        text = with_profiles(earlier, profiles)
        kept = [name for name in earlier.kept if name not in profiles]
        written, unwritten = as_far_as_possible(write_text(one, text) for one in [folder / "profiles.csv"])
        if as_json:
            found = {
                name: {
                    "interval": one.interval(level),
                    "elsewhere": one.elsewhere,
                    "values": one.values,
                    "rises": one.rises,
                    "remarks": [remark.sentence(Audience.COMMAND) for remark in one.remarks],
                }
                for name, one in profiles.items()
            }
            files = [str(path) for path in written]
            record = {"success": result.success, "level": level, "profiles": found, "files": files}
            record |= {"kept": kept, "dropped": earlier.dropped}
            print_json(with_errors(record, unwritten))
        elif not quiet:
            _show(result, profiles, level)
            beside = f", beside the profiles of {', '.join(kept)}" if kept else ""
            where = f"written to {', '.join(map(str, written))}" if written else "nothing was written"
            typer.echo(f"{where}{beside}")
        if earlier.dropped and not as_json:
            _tell_dropped(earlier.dropped)
        tell_unwritten(unwritten, as_json)
    raise typer.Exit(0 if result.success else 1)


def _profiles(
    result: Fit, names: list[str], level: float, workers: int, ledger: Path | None, quiet: bool
) -> dict[str, Profile]:
    from picardfit.parallel.ordered_map import processes

    with processes(workers) as executor:
        found = result.profiles(
            names, level, executor=executor, ledger=ledger, progress=False if quiet else None
        )
    if not found:
        raise KeyboardInterrupt
    missing = [name for name in names if name not in found]
    if missing and not quiet:
        typer.echo(f"picardfit: interrupted before the profile of {', '.join(missing)}.", err=True)
    return found


def _tell_dropped(names: tuple[str, ...]) -> None:
    lost = ", ".join(names)
    typer.echo(f"picardfit: dropped earlier profiles, which belong to other estimates: {lost}.", err=True)


def _show(result: Fit, profiles: dict[str, Profile], level: float) -> None:
    from picardfit.display.text import number

    derived = {name: one.interval(level) for name, one in result.derived.items()}
    curved, unknown = {**result.intervals(level), **derived}, (float("nan"), float("nan"))
    rows = [
        (name, *(number(x) for x in (one.estimate, *one.interval(level), *curved.get(name, unknown))))
        for name, one in profiles.items()
    ]
    header = ("", "estimate", f"{100 * level:g} % from", "to", "by curvature", "to")
    out = console()
    print_table(out, header, rows, numeric=(1, 2, 3, 4, 5))
    for name, one in profiles.items():
        for remark in one.remarks:
            out.print(f"{name}: {remark.sentence(Audience.COMMAND)}", markup=False)
