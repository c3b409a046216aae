"""Is one step of the default method as fast as in an older commit?

    python benchmarks/steps.py e831ade [--rounds 15] [--only lorenz]

One search of LiftedGaussNewton on each of the paper's problems and on three with several experiments or a likelihood,
in a temporary git worktree of the old commit and in this tree, turn by turn. Searches, starts and rescues do not
enter: up to twelve states that the search stepped from are kept, and each step is repeated. What counts is the least
time of each. Ends with code 1 where the median ratio is above 1.02. Commit e831ade is the last before doses, censored
values and counts; a fit without them should cost no more than before.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from versions import Version, answer, both_versions

SLOWER = 1.02  # median ratio of times that counts as slower


def problems() -> dict:
    """The problems by name, with whatever version of picardfit is imported."""
    import picardfit as pf

    found = {name: module.generate(seed=1) for name, module in pf.examples.ALL.items()}
    ponds = pf.examples.rosenzweig_macarthur.generate(seed=5)
    pond = {"model": ponds.model, "experiments": ponds.experiments, "parameters": dict(ponds.parameters)}
    found["ponds, noise known"] = pf.Problem(**pond, noise=pf.Noise(additive=0.02, proportional=0.05))
    found["ponds, noise estimated"] = pf.Problem(**pond, noise=pf.Noise(additive=(0.001, 1.0)))
    found["neuron, four experiments"] = several(pf)
    return found


def several(pf):
    """Four neurons with one set of parameters."""
    given = [pf.examples.fitzhugh_nagumo.generate(seed=seed) for seed in range(4)]
    experiments = [
        pf.Experiment(one.experiments[0].times, one.experiments[0].observations, name=str(seed))
        for seed, one in enumerate(given)
    ]
    return pf.Problem(given[0].model, experiments, dict(given[0].parameters))


def stepped(problem, most: int = 12) -> list:
    """The states of one search, at most so many of them, evenly."""
    import picardfit as pf
    from picardfit.search.starts import make_start
    from picardfit.solvers.loop import run

    states: list = []

    class Recorded(pf.LiftedGaussNewton):
        def step(self, state):
            states.append(state)
            return super().step(state)

    method = Recorded()
    with np.errstate(all="ignore"):
        run(method, method.init(problem, make_start(problem)), lambda *_: None)
    return [states[k] for k in np.unique(np.linspace(0, len(states) - 1, most).astype(int))]


def worker() -> None:
    """Answer names of problems with the least milliseconds of each step in three repetitions."""
    import picardfit as pf

    known, method = problems(), pf.LiftedGaussNewton()
    kept: dict[str, list] = {}

    def record(name: str) -> dict:
        if name not in kept:
            kept[name] = stepped(known[name])
        best = np.full(len(kept[name]), np.inf)
        with np.errstate(all="ignore"):
            for _ in range(3):
                for k, state in enumerate(kept[name]):
                    began = time.perf_counter()
                    method.step(state)
                    best[k] = min(best[k], 1e3 * (time.perf_counter() - began))
        segments = [len(state.system.mesh) for state in kept[name]]
        return {"milliseconds": best.tolist(), "segments": segments}

    answer(list(known), record)


def compare(old: Version, new: Version, rounds: int, only: str) -> bool:
    """Print a row for every problem; whether the new version is as fast."""
    print(
        f"{'problem':28s} {'steps':>7s} {'segments':>9s} {'old ms':>8s} {'new ms':>8s} {'a step':>7s} {'last':>6s}"
    )
    ratios = []
    for name in (one for one in old.names if only in one):
        both = [[one.run(name) for one in (old, new)] for _ in range(rounds)]
        least = [np.min([pair[k]["milliseconds"] for pair in both], axis=0) for k in (0, 1)]
        segments = [both[0][k]["segments"] for k in (0, 1)]
        a_step = [float(one.mean()) for one in least]
        last = least[1][-1] / least[0][-1]
        ratios.append(a_step[1] / a_step[0])
        counts, sizes = f"{len(least[0])} {len(least[1])}", f"{segments[0][-1]} {segments[1][-1]}"
        print(
            f"{name:28s} {counts:>7s} {sizes:>9s} {a_step[0]:8.2f} {a_step[1]:8.2f} {ratios[-1]:7.3f} {last:6.3f}",
            flush=True,
        )
    print(f"median ratio {np.median(ratios):.3f}, largest {max(ratios):.3f}")
    return float(np.median(ratios)) <= SLOWER


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", help="the old version")
    parser.add_argument(
        "--rounds", type=int, default=15, help="rounds of three repetitions; the least time counts"
    )
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker()
        return 0
    if given.commit is None:
        parser.error("name the commit to compare with")
    with both_versions(given.commit, __file__) as (old, new):
        return 0 if compare(old, new, given.rounds, given.only) else 1


if __name__ == "__main__":
    sys.exit(main())
