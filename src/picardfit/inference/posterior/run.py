"""The run behind `fit.posterior()`: checks, mesh, modes, sampler, and what was found on the way."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from picardfit import __version__
from picardfit.checks import as_whole
from picardfit.errors import InputError, Notice
from picardfit.fit import Fit, fit
from picardfit.inference.posterior.chains import run_nuts
from picardfit.inference.posterior.density import Target
from picardfit.inference.posterior.engines import run_emcee, run_nutpie
from picardfit.inference.posterior.laplace import run_laplace
from picardfit.inference.posterior.methods import NUTS, Drawn, Emcee, LaplaceDraws, Method, Nutpie
from picardfit.inference.posterior.posterior import Posterior
from picardfit.inference.posterior.setup import (
    MeshSettings,
    Mode,
    check_fit,
    far_away,
    left_open,
    mode_of,
    running_off,
    target_of,
    verified,
)
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.progress import Bar
from picardfit.problem.serialisation import digest, problem_digest
from picardfit.search.policy import SearchPolicy

News = Callable[[int, int, int], None] | Literal[False] | None


@dataclass(frozen=True)
class Modes:
    """Which other optima of a fit chains begin at too; the value is chosen."""

    worse: float = (
        6.0  # log-density below the best up to which another optimum could hold draws: e^-6 is 0.25 %
    )


USUAL_MESH, USUAL_MODES = MeshSettings(), Modes()


def posterior(
    given: Fit,
    method: Method | None = None,
    seed: int = 0,
    progress: News = None,
    ledger: str | Path | None = None,
    mesh: MeshSettings = USUAL_MESH,
    others: Modes = USUAL_MODES,
) -> Posterior:
    """Draws of the posterior of a fit's problem; see `Fit.posterior`."""
    method = NUTS() if method is None else method
    if not isinstance(method, Method):
        raise InputError("inference.posterior_method", value=method)
    if ledger is not None and not isinstance(method, NUTS):
        raise InputError("inference.posterior_ledger", type(method).__name__)
    seed = as_whole(seed, "seed", 0)
    check_fit(given)
    began = time.perf_counter()
    modes = [mode_of(given), *_other_modes(given, others)]
    target = target_of(given, modes[0], method.lanes, np.random.default_rng([seed, 0]), mesh)
    if names := running_off(target, modes[0]):
        raise InputError("inference.posterior_runs_off", names[0], names=list(names))
    with ExitStack() as stack:
        show = _shown(method, progress, stack)
        if target.lanes.count < method.lanes:  # one large lane each: NumPy leaves the interpreter to others
            pool = stack.enter_context(ThreadPoolExecutor(min(method.lanes, os.cpu_count() or 1)))
            target = replace(target, pool=pool)
        match method:
            case NUTS():
                book = None if ledger is None else _book(ledger, given, method, seed, len(modes), stack)
                drawn = run_nuts(method, target, modes, seed, show, book)
            case LaplaceDraws():
                drawn = run_laplace(method, target, modes[0], seed, show)
            case Nutpie():
                drawn = run_nutpie(method, target, modes[0], seed, show)
            case Emcee():
                drawn = run_emcee(method, target, modes[0], seed, show)
    error = verified(replace(target, pool=None), drawn.z.reshape(-1, drawn.z.shape[-1]), mesh)
    notices = _notices(given, method, target, drawn, modes, error, mesh)
    return Posterior(given, method, seed, drawn, len(modes), error, time.perf_counter() - began, notices)


def _shown(method: Method, progress: News, stack: ExitStack) -> Callable[[int, int, int], None]:
    """What is called as draws are made: a bar by default, and the user's function."""
    bar = Bar(method.counted) if progress is None else None
    if bar:
        stack.callback(bar.close)

    def show(done: int, total: int, divergent: int) -> None:
        if bar:
            bar.show(done, total, f"{divergent} divergent" if divergent else "")
        if progress:
            progress(done, total, divergent)

    return show


def _book(path: str | Path, given: Fit, method: NUTS, seed: int, modes: int, stack: ExitStack) -> Ledger:
    """The ledger of such a run, which is closed at the end."""
    assert given.solution is not None
    identity = {
        "picardfit": __version__,
        "work": "posterior",
        "problem": problem_digest(given.problem),
        "estimates": digest(given.solution.unknowns),
        "method": asdict(method),
        "seed": seed,
        "modes": modes,
    }
    book = Ledger(path, identity)

    def close() -> None:
        book.close()
        if book.broken:
            warnings.warn(str(book.broken), stacklevel=5)

    stack.callback(close)
    return book


def _other_modes(given: Fit, others: Modes) -> list[Mode]:
    """The other optima of the searches that could hold draws, each found again from its parameters."""
    found, best = [], given.optima[0].loss if given.optima else np.inf
    for one in given.optima[1:]:
        if one.loss - best > others.worse:
            continue
        again = fit(given.problem, start=one.parameters, policy=SearchPolicy(most=1), progress=False)
        if again.status.converged and abs(again.objective - one.loss) < 0.01 * (1 + abs(one.loss)):
            found.append(mode_of(again))
    return found


def _notices(
    given: Fit,
    method: Method,
    target: Target,
    drawn: Drawn,
    modes: list[Mode],
    error: float,
    mesh: MeshSettings,
) -> tuple[Notice, ...]:
    found = list(given.problem.remarks)
    if len(modes) > 1:
        code = "inference.several_modes" if isinstance(method, NUTS) else "inference.one_mode"
        found.append(Notice(code, "", {"count": len(modes)}))
    if names := left_open(given.problem, modes[0]):
        found.append(Notice("inference.posterior_open", names[0], {"names": list(names)}))
    if names := far_away(target.coordinates, modes[0], drawn.z.reshape(-1, drawn.z.shape[-1])):
        found.append(Notice("inference.draws_run_off", names[0], {"names": list(names)}))
    for name in modes[0].at_bound:
        found.append(Notice("inference.mode_at_bound", name))
    if drawn.exploded:
        found.append(Notice("inference.exploded", "", {"count": drawn.exploded}))
    if isinstance(method, LaplaceDraws) and drawn.log_density.size + drawn.missing < method.draws:
        values = {"count": drawn.log_density.size, "wanted": method.draws}
        found.append(Notice("inference.weights_hopeless", "", values))
    if np.isnan(error):  # of a single draw there is no spread
        found += [Notice("inference.posterior_unverified")] * (drawn.log_density.size > 1)
    elif error > mesh.biased:
        found.append(Notice("inference.posterior_inexact", "", {"error": error}))
    if drawn.missing:
        resumable = isinstance(method, NUTS)
        code = "inference.resumable_interrupted" if resumable else "inference.posterior_interrupted"
        values = {"missing": drawn.missing, "wanted": drawn.missing + drawn.log_density.size}
        found.append(Notice(code, "", values))
    return tuple(found)
