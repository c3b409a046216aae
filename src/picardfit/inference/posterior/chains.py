"""The run of `pf.NUTS`: all chains side by side, in blocks of iterations that a ledger keeps.

After each block every chain waits for the others and is solved anew at its point, without the solution that led there.
So the next block depends on points, random numbers and step sizes only, which a ledger holds: a run that is resumed
gives the same digits as one that was not interrupted, and one without a ledger gives them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.chart import Chart, chart_of, positions
from picardfit.inference.posterior.density import Position, Target
from picardfit.inference.posterior.methods import NUTS, Drawn, Show
from picardfit.inference.posterior.nuts import Chain, Iteration, Rules, advance, begun
from picardfit.inference.posterior.setup import Mode
from picardfit.parallel.ledger import Ledger


def run_nuts(
    method: NUTS, target: Target, modes: list[Mode], seed: int, show: Show, book: Ledger | None = None
) -> Drawn:
    """Chain k begins near mode k, counted round. Ctrl-C returns what is drawn."""
    rules, whole = method.rules, method.warmup + method.draws
    chains = _first(method, target, modes, seed)
    ends = [*range(method.block, whole, method.block), whole]
    try:
        for number, until in enumerate(ends):
            if book is not None and number in book.done:
                book.result(number, lambda found: _restore(rules, chains, found))
            else:
                _together(target, rules, chains, until, show)
                if book is not None:
                    book.append(number, [_record(one, method.block) for one in chains])
            if until < whole and (book is None or number + 1 not in book.done):
                _renew(target, chains)
    except KeyboardInterrupt:
        if min(len(one.done) for one in chains) <= method.warmup:
            raise
    return _drawn(rules, chains)


def _first(method: NUTS, target: Target, modes: list[Mode], seed: int) -> list[Chain]:
    """Chains at their starting points, each in the chart of its mode."""
    centres = target.positions([(mode.z, None) for mode in modes[: method.chains]])
    if not all(one.possible for one in centres):
        raise InputError("inference.posterior_no_start")
    charts = [
        chart_of(target, centre, mode.covariance, seed, method.bending)
        for mode, centre in zip(modes, centres, strict=False)
    ]
    chains = []
    for k, one in enumerate(np.random.SeedSequence([seed, 1]).spawn(method.chains)):
        chart, centre, rng = charts[k % len(charts)], centres[k % len(charts)], np.random.default_rng(one)
        start = _start(target, chart, centre, rng, method.spread)
        chains.append(begun(method.rules, start, chart, rng))
    return chains


def _start(
    target: Target, chart: Chart, centre: Position, rng: np.random.Generator, spread: float
) -> Position:
    """A point `spread` standard deviations around a mode; the mode itself where those have no solution."""
    step = spread * rng.standard_normal(len(centre.z))
    for scale in (*0.5 ** np.arange(8), 0.0):
        (trial,) = positions(target, [chart], [(scale * step, centre.track)])
        if trial.possible:
            break
    return trial


def _together(target: Target, rules: Rules, chains: list[Chain], until: int, show: Show) -> None:
    """Send every chain the density where it asks for it, round after round, until all have come this far."""
    running = [advance(rules, one, until) for one in chains]
    asked = {k: next(one) for k, one in enumerate(running)}
    total = len(chains) * (rules.warmup + rules.draws)
    while asked:
        keys = list(asked)
        found = positions(target, [chains[k].chart for k in keys], [asked[k] for k in keys])
        for k, position in zip(keys, found, strict=True):
            try:
                asked[k] = running[k].send(position)
            except StopIteration:
                del asked[k]
        done = sum(len(one.done) for one in chains)
        show(done, total, sum(each.divergent for one in chains for each in one.done[rules.warmup :]))


def _renew(target: Target, chains: list[Chain]) -> None:
    """Solve every chain's point anew; one that has no solution this way keeps what it has."""
    every = positions(target, [one.chart for one in chains], [(one.here.z, None) for one in chains])
    for one, found in zip(chains, every, strict=True):
        if found.possible:
            one.here = found


def _record(chain: Chain, block: int) -> dict[str, object]:
    """The last iterations of a chain, and what it needs for the next."""
    first = (len(chain.done) - 1) // block * block
    return {
        "iterations": [tuple(one) for one in chain.done[first:]],
        "sizes": vars(chain.sizes).copy() | {"rules": None},
        "random": chain.rng.bit_generator.state,
    }


def _restore(rules: Rules, chains: list[Chain], records: list[Mapping[str, Any]]) -> None:
    """Bring chains to where they were when a block was noted."""
    for chain, record in zip(chains, records, strict=True):
        for z, *others in record["iterations"]:
            chain.append(rules, Iteration(np.array(z, float), *others))
        for name, value in record["sizes"].items():
            if name != "rules":
                setattr(chain.sizes, name, value)
        chain.rng.bit_generator.state = record["random"]
        chain.here = chain.here.at(chain.done[-1].z)


def _drawn(rules: Rules, chains: list[Chain]) -> Drawn:
    """The draws that all chains have."""
    count = min(len(one.done) for one in chains)
    draws = [one.done[rules.warmup : count] for one in chains]

    def table(name: str) -> Array:
        return np.array([[getattr(each, name) for each in some] for some in draws])

    return Drawn(
        z=np.array([one.chart.points(v) for one, v in zip(chains, table("z"), strict=True)]),
        log_density=table("log_density"),
        energy=table("energy"),
        divergent=table("divergent"),
        depth=table("depth"),
        accept=table("accept"),
        steps=tuple(one.step(rules) for one in chains),
        leaps=sum(each.leaps for one in chains for each in one.done),
        exploded=int(table("exploded").sum()),
        missing=len(chains) * (rules.warmup + rules.draws - count),
    )
