"""Samplers of other packages on the same density: nutpie and emcee, in coordinates that the Fisher metric whitens.

They are cross-checks, and serve where users know them: see docs/decisions/021 for what they cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from picardfit.collocation.mesh import Flags, Indices
from picardfit.errors import InputError
from picardfit.formulas.kernels import Array
from picardfit.inference.posterior.attempt import Track
from picardfit.inference.posterior.density import Target
from picardfit.inference.posterior.methods import Drawn, Emcee, Nutpie, Show
from picardfit.inference.posterior.nuts import root_of
from picardfit.inference.posterior.setup import Mode


def run_nutpie(method: Nutpie, target: Target, mode: Mode, seed: int, show: Show) -> Drawn:
    """Chains of nutpie, which asks for one point at a time; each chain goes on from its own last solution."""
    try:
        import nutpie
        from nutpie.compiled_pyfunc import from_pyfunc
    except ImportError:
        raise InputError("inference.no_sampler", "nutpie") from None
    root, size = root_of(mode.covariance), len(mode.z)
    alone = replace(target, lanes=replace(target.lanes, count=1), pool=None)
    (centre,) = alone.positions([(mode.z, None)])
    if not centre.possible:
        raise InputError("inference.posterior_no_start")
    total = method.chains * (method.warmup + method.draws)

    def density(**_) -> Callable[[Array], tuple[float, Array]]:
        last: list[Track | None] = [centre.track]

        def value(w: Array) -> tuple[float, Array]:
            (found,) = alone.positions([(mode.z + root @ w, last[0])])
            last[0] = found.track or last[0]
            return found.log_density, root.T @ found.slope

        return value

    model = from_pyfunc(
        size,
        density,
        lambda *_, **__: lambda w: {"w": np.asarray(w, float)},
        [np.dtype("float64")],
        [(size,)],
        ["w"],
        make_initial_point_fn=lambda one: np.random.default_rng(one).standard_normal(size),
    )
    found = nutpie.sample(
        model,
        draws=method.draws,
        tune=method.warmup,
        chains=method.chains,
        cores=1,
        seed=seed,
        save_warmup=False,
        progress_bar=False,
    )
    if "w" not in found.posterior:
        raise KeyboardInterrupt
    w, stats = np.asarray(found.posterior["w"]), found.sample_stats
    chains, count = common_draws(np.isfinite(w).all(axis=2))
    if not count:
        raise KeyboardInterrupt

    def kept(name: str) -> Array:
        return np.asarray(stats[name])[chains, :count]

    divergent = kept("diverging").astype(bool)
    show(total, total, int(divergent.sum()))
    return Drawn(
        mode.z + w[chains, :count] @ root.T,
        kept("logp"),
        energy=kept("energy"),
        divergent=divergent,
        depth=kept("depth").astype(int),
        leaps=int(kept("n_steps").sum()),
        steps=tuple(kept("step_size")[:, -1].tolist()),
        missing=method.chains * method.draws - len(chains) * count,
    )


def common_draws(known: Flags) -> tuple[Indices, int]:
    """The chains, and how many first draws of each, that hold most draws, of known (chains, draws).

    nutpie draws one chain after the other: where it is interrupted, some have all draws, one has some, others none.
    """
    lengths = np.where(known.all(axis=1), known.shape[1], known.argmin(axis=1))
    order = np.argsort(-lengths, kind="stable")
    most = int(np.argmax(lengths[order] * np.arange(1, len(order) + 1)))
    return np.sort(order[: most + 1]), int(lengths[order[most]])


@dataclass
class _Walkers:
    """The log-density of walkers w (k, d).

    Ctrl-C is noted, not raised, because emcee prints a traceback of what is raised here. All moves are rejected then.
    """

    target: Target
    mode: Mode
    root: Array
    track: Track | None
    exploded: int = 0
    stopped: bool = False

    def __call__(self, w: Array) -> Array:
        found = np.full(len(w), -np.inf)
        if self.stopped:
            return found
        points = [(one, self.track) for one in self.mode.z + w @ self.root.T]
        try:
            found[:] = [one.log_density for one in self.target.positions(points, gradient=False)]
        except KeyboardInterrupt:
            self.stopped = True
        else:
            self.exploded += int(np.sum(~np.isfinite(found)))
        return found


def run_emcee(method: Emcee, target: Target, mode: Mode, seed: int, show: Show) -> Drawn:
    """An ensemble of walkers without gradients; half of them are solved side by side. Ctrl-C returns what is drawn."""
    try:
        from emcee import EnsembleSampler, State
    except ImportError:
        raise InputError("inference.no_sampler", "emcee") from None
    root, size = root_of(mode.covariance), len(mode.z)
    walkers = max(method.walkers, 2 * size + 2)
    (centre,) = target.positions([(mode.z, None)])
    if not centre.possible:
        raise InputError("inference.posterior_no_start")
    density = _Walkers(target, mode, root, centre.track)
    random = np.random.RandomState(np.random.SeedSequence([seed, 5]).generate_state(4))
    sampler = EnsembleSampler(walkers, size, density, vectorize=True)
    begin = State(0.5 * random.standard_normal((walkers, size)), random_state=random.get_state())
    total = method.warmup + method.draws
    try:
        for done, _ in enumerate(sampler.sample(begin, iterations=total), 1):
            if density.stopped:
                break
            if done == method.warmup:
                density.exploded = 0
            show(done, total, 0)
    except KeyboardInterrupt:
        pass
    count = sampler.iteration - density.stopped - method.warmup
    if count <= 0:
        raise KeyboardInterrupt
    w = sampler.get_chain(discard=method.warmup)[:count].transpose(1, 0, 2)
    return Drawn(
        mode.z + w @ root.T,
        sampler.get_log_prob(discard=method.warmup)[:count].T,
        exploded=density.exploded,
        missing=walkers * (method.draws - count),
    )
