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
from picardfit.inference.posterior.density import Target
from picardfit.inference.posterior.methods import NUTS, Drawn, Show
from picardfit.inference.posterior.nuts import Chain, Iteration, Rules, advance, begun
from picardfit.inference.posterior.setup import Mode, starting_point
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
    """Chains at their starting points."""
    chains, centres = [], target.positions([(mode.z, None) for mode in modes])
    for k, one in enumerate(np.random.SeedSequence([seed, 1]).spawn(method.chains)):
        mode, centre, rng = modes[k % len(modes)], centres[k % len(modes)], np.random.default_rng(one)
        start = starting_point(target, mode, centre, rng, method.spread)
        if not start.possible:
            raise InputError("inference.posterior_no_start")
        chains.append(begun(method.rules, start, mode.covariance, rng))
    return chains


def _together(target: Target, rules: Rules, chains: list[Chain], until: int, show: Show) -> None:
    """Send every chain the density where it asks for it, round after round, until all have come this far."""
    running = [advance(rules, one, until) for one in chains]
    asked = {k: next(one) for k, one in enumerate(running)}
    total = len(chains) * (rules.warmup + rules.draws)
    while asked:
        keys = list(asked)
        for k, position in zip(keys, target.positions([asked[k] for k in keys]), strict=True):
            try:
                asked[k] = running[k].send(position)
            except StopIteration:
                del asked[k]
        done = sum(len(one.done) for one in chains)
        show(done, total, sum(each.divergent for one in chains for each in one.done[rules.warmup :]))


def _renew(target: Target, chains: list[Chain]) -> None:
    """Solve every chain's point anew; one that has no solution this way keeps what it has."""
    for one, found in zip(chains, target.positions([(one.here.z, None) for one in chains]), strict=True):
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
        z=table("z"),
        log_density=table("log_density"),
        energy=table("energy"),
        divergent=table("divergent"),
        depth=table("depth"),
        accept=table("accept"),
        steps=tuple(one.step(rules) for one in chains),
        leaps=sum(each.leaps for one in chains for each in one.done),
        exploded=int(table("exploded").sum()),
        missing=rules.warmup + rules.draws - count,
    )
