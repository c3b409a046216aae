"""How much faster is one likelihood of a large problem than with an older version, and how accurate? One run.

    python benchmarks/likelihoods.py 55876d8 [--only 25] [--repeat 3]
    python benchmarks/likelihoods.py --gradients
    python benchmarks/likelihoods.py --evaluations
    python benchmarks/likelihoods.py --cvode
    python benchmarks/likelihoods.py --import

The first checks the old commit out into a temporary git worktree and computes `problem.nllh` with both versions, one
process each, turn by turn, on one core, in processor time (the least of `--repeat` calls, each at other parameters; the
first call, which compiles, is shown apart). "difference" is the largest relative difference of the two versions'
likelihoods, "error" the largest difference of a predicted value from SciPy's at 1e-13, relative to the largest
value of its observable, for problems of at most 100 states.

`--gradients`: predictions with their derivatives by all parameters, against a likelihood.
`--evaluations`: right-hand sides and their derivatives at many points, operation by operation and grouped.
`--cvode`: a likelihood beside one by CVODE at the same accuracy (the extra `cvode`), and what evaluations of the model
take of that: what is left would remain of CVODE with a compiled model.
`--import`: reading networks as SBML with PEtab tables, each in a process of its own (needs the extra `petab`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from versions import Version, answer, both_versions

TIMES = np.array([0, 1, 2, 5, 10, 15, 20, 30, 45, 60.0])


class Network:
    """A random reaction network: binding, conversion, saturated conversion, and synthesis under a Hill function."""

    def __init__(self, states: int, reactions: int, hills: int, seed: int, most: int = 10_000) -> None:
        self.rng, self.most = np.random.default_rng(seed), most
        self.states = [f"x{i}" for i in range(states)]
        self.rates: list[tuple[str, list[int], list[int]]] = []  # formula, states that lose, states that gain
        self.values: dict[str, float] = {}
        for k in range(reactions):
            self._reaction(k if k < states else None)
        for _ in range(hills):
            to, by = self.rng.choice(states, 2, replace=False)
            made, half, lost = self._new(-2, 0), self._new(-1, 0.5), self._new(-2, 0)
            y = self.states[by]
            self.rates.append((f"{made}*{y}^2/({half}^2 + {y}^2)", [], [to]))
            self.rates.append((f"{lost}*{self.states[to]}", [to], []))

    def _new(self, low: float, high: float) -> str:
        """A new parameter, or one of those that exist already."""
        if len(self.values) >= self.most:
            return f"k{self.rng.integers(self.most)}"
        name = f"k{len(self.values)}"
        self.values[name] = float(10 ** self.rng.uniform(low, high))
        return name

    def _reaction(self, first: int | None) -> None:
        i, j, k = self.rng.choice(len(self.states), 3, replace=False)
        i = i if first is None else first
        a, b, c = (self.states[n] for n in (i, j, k))
        kind = self.rng.integers(3)
        if kind == 0:
            self.rates.append((f"{self._new(-2, 1)}*{a}*{b}", [i, j], [k]))
            self.rates.append((f"{self._new(-2, 1)}*{c}", [k], [i, j]))
        elif kind == 1:
            self.rates.append((f"{self._new(-2, 1.5)}*{a}", [i], [j]))
            self.rates.append((f"{self._new(-2, 1)}*{b}", [j], [i]))
        else:
            self.rates.append((f"{self._new(-2, 1)}*{a}*{b}/({self._new(-1, 0.5)} + {a})", [i], [k]))

    def turnover(self) -> None:
        """Every state is made and lost, faster under an inhibitor: the steady state is one and stable."""
        for i, name in enumerate(self.states):
            self.rates.append((self._new(-2, 0), [], [i]))
            self.rates.append((f"{self._new(-2, 0)}*(1 + inhibitor)*{name}", [i], []))

    @property
    def text(self) -> str:
        sides: list[list[str]] = [[] for _ in self.states]
        for formula, lost, gained in self.rates:
            for i in lost:
                sides[i].append(f"- {formula}")
            for i in gained:
                sides[i].append(f"+ {formula}")
        return "\n".join(
            f"{n}' = {' '.join(side) or '0'}" for n, side in zip(self.states, sides, strict=True)
        )

    @property
    def initial(self) -> dict[str, float]:
        rng = np.random.default_rng(1)
        values = rng.uniform(0, 2, len(self.states)) * (rng.random(len(self.states)) < 0.6)
        return dict(zip(self.states, values.tolist(), strict=True))


def problem_of(network: Network, conditions: int, rest: bool = False) -> object:
    """Eight scaled observables under several doses, from given initial states or from steady states."""
    import picardfit as pf

    inputs = ["dose", "inhibitor"] if rest else ["dose"]
    network.rates.append(("dose", [], [0]))
    seen = min(8, len(network.states))
    columns = [i * (len(network.states) // seen) for i in range(seen)]
    outputs = {f"y{i}": f"s{i}*x{column}" for i, column in enumerate(columns)}
    model, rng, runs = (
        pf.Model(network.text, observables=outputs, inputs=inputs),
        np.random.default_rng(2),
        [],
    )
    for c in range(conditions):
        held = {"inhibitor": (c % 3) / 2} if rest else {}
        data = {name: rng.uniform(0.1, 1.5, len(TIMES)) for name in outputs}
        begin = {"initial": network.initial}
        if rest:
            begin = {"rest": pf.Rest({"dose": 0.0, **held}, dict.fromkeys(network.states, 0.5))}
        runs.append(
            pf.Experiment(TIMES, data, f"run {c}", inputs={"dose": (1 + c) / conditions, **held}, **begin)
        )
    truth = {**network.values, **{f"s{i}": 1.0 for i in range(seen)}}
    parameters = {n: pf.Parameter(v / 100, 100 * v, log=True) for n, v in truth.items()}
    return pf.Problem(model, runs, parameters, noise=pf.Noise(additive=0.1), nominal=truth)


def rested(states: int, conditions: int) -> object:
    network = Network(states, 40, 12, seed=3)
    network.turnover()
    return problem_of(network, conditions, rest=True)


def problems() -> dict[str, Callable[[], object]]:
    """The problems by name; the small ones show what large ones cost them."""
    return {
        "3 states, 1 condition": lambda: problem_of(Network(3, 4, 2, 0), 1),
        "3 states, 6 conditions": lambda: problem_of(Network(3, 4, 2, 0), 6),
        "3 states, 40 conditions": lambda: problem_of(Network(3, 4, 2, 0), 40),
        "10 states, 40 conditions": lambda: problem_of(Network(10, 14, 4, 0), 40),
        "25 states, 1 condition": lambda: problem_of(Network(25, 35, 10, 0), 1),
        "25 states, 8 conditions": lambda: problem_of(Network(25, 35, 10, 0), 8),
        "25 states, 36 conditions, at rest before": lambda: rested(25, 36),
        "25 states, 120 conditions, at rest before": lambda: rested(25, 120),
        "75 states, 1 condition": lambda: problem_of(Network(75, 110, 25, 0), 1),
        "75 states, 6 conditions": lambda: problem_of(Network(75, 110, 25, 0), 6),
        "500 states, 4 conditions": lambda: problem_of(Network(500, 800, 60, 0, most=200), 4),
    }


def moved(problem: object, call: int) -> dict[str, float]:
    """Parameters close to the nominal ones, others for each call: nothing that is remembered helps."""
    return {name: value * (1 + 1e-3 * call) for name, value in problem.nominal.items()}


def worker() -> None:
    """Answer names of problems with the times and the value of their likelihood."""
    known = problems()
    cache: dict[str, object] = {}

    def record(name: str) -> dict:
        if name not in cache:
            cache[name] = {"problem": known[name](), "calls": 0}
        one = cache[name]
        values = moved(one["problem"], one["calls"])
        one["calls"] += 1
        began = time.process_time()
        value = one["problem"].nllh(values)
        return {"seconds": time.process_time() - began, "value": value}

    answer(list(known), record)


def error_of(problem: object) -> float:
    """The largest error of a predicted value, relative to the largest of its observable."""
    from picardfit.problem.named_values import unknowns_from
    from picardfit.simulation.trajectories import SCIPY_ALONE

    unknowns = unknowns_from(problem, problem.nominal, None)
    params, initial = problem.layout.measured_values(unknowns), problem.layout.initial(unknowns)[0]
    rows = problem.predicted_rows(params, initial)
    exact = problem.predicted_rows(params, initial, 1e-13, SCIPY_ALONE)
    size = np.abs(exact).max(axis=0)
    return float((np.abs(rows - exact).max(axis=0) / np.where(size > 0, size, 1.0)).max())


def gradients() -> None:
    """Print what predictions with derivatives cost."""
    from picardfit.collocation.sensitivity import sensitivity
    from picardfit.problem.named_values import unknowns_from
    from picardfit.simulation.trajectories import Run

    print("| problem | parameters | likelihood s | with derivatives s | ratio | parameters/4 + 3 |")
    print("|" + "---|" * 6)
    for name in ("3 states, 6 conditions", "25 states, 8 conditions", "75 states, 1 condition"):
        problem = problems()[name]()
        unknowns = unknowns_from(problem, problem.nominal, None)
        params, initial = problem.layout.model_values(unknowns), problem.layout.initial(unknowns)[0]
        runs = [
            Run(one.t0, initial[e], params[e], one.signals, one.times, *problem.events(e))
            for e, one in enumerate(problem.experiments)
        ]

        def derivatives(problem: object = problem, runs: list = runs) -> None:
            for run in runs:
                sensitivity(problem.solved_model, run)

        count, seconds = len(problem.parameters), []
        for task in (lambda problem=problem: problem.nllh(problem.nominal), derivatives):
            task()
            seconds.append(min(_timed(task) for _ in range(3)))
        print(
            f"| {name} | {count} | {seconds[0]:.3f} | {seconds[1]:.3f} | {seconds[1] / seconds[0]:.1f} "
            f"| {count / 4 + 3:.0f} |",
            flush=True,
        )


def _timed(task: Callable[[], object]) -> float:
    """Processor time on one core: threads of BLAS that wait for each other would count."""
    from picardfit.parallel.ordered_map import single_threaded

    with single_threaded():
        began = time.process_time()
        task()
        return time.process_time() - began


def evaluations() -> None:
    """Print what an evaluation costs operation by operation, and with equal operations together."""
    from picardfit.problem.named_values import unknowns_from

    print("| problem | points | values, one by one us | grouped us | slopes, one by one us | grouped us |")
    print("|" + "---|" * 6)
    names = ("3 states, 40", "10 states, 40", "25 states, 8", "75 states, 6", "500 states, 4")
    for name in (one for one in problems() if one.startswith(names)):
        problem = problems()[name]()
        unknowns = unknowns_from(problem, problem.nominal, None)
        params, initial = problem.layout.measured_values(unknowns), problem.layout.initial(unknowns)[0]
        rhs, params = problem.model.rhs, params[0, : len(problem.model.parameters), None]
        points, seconds = 9 * len(initial), []
        x = np.repeat(initial[:1].T, points, axis=1) + 0.1
        for slopes in (False, True):
            out = np.empty((len(rhs.state_entries[0]) if slopes else len(x), points))
            for grouped in (False, True):
                function = rhs.evaluation(slopes, grouped, params, points)
                arguments = np.ones(points), x, np.ones((1, points)), out
                function(*arguments)
                many = lambda f=function, a=arguments: [f(*a) for _ in range(20)]  # noqa: E731
                seconds.append(min(_timed(many) for _ in range(3)) / 20)
        cells = " | ".join(f"{1e6 * one:.0f}" for one in seconds)
        print(f"| {name.split(',')[0]} | {points} | {cells} |", flush=True)


def cvode() -> None:
    """Print what a likelihood costs by CVODE, with and without the evaluations of the model."""
    import picardfit as pf
    from picardfit.formulas.kernels import BatchedMap

    spent, calls = 0.0, 0

    def watched(function: Callable) -> Callable:
        def timed(*arguments: object) -> object:
            nonlocal spent, calls
            began = time.process_time()
            found = function(*arguments)
            spent, calls = spent + time.process_time() - began, calls + 1
            return found

        return timed

    print("| problem | likelihood s | by CVODE s | evaluations | s in them |")
    print("|" + "---|" * 5)
    for name in (name for name in problems() if "500" not in name):
        problem, engines = problems()[name](), ({}, {"engine": pf.CVODE()})
        own, theirs = (
            min(_timed(lambda k=k, e=e, p=problem: p.nllh(moved(p, k), **e)) for k in range(1, 5))
            for e in engines
        )
        plain = BatchedMap.at_point, BatchedMap.slopes_at_point
        spent, calls = 0.0, 0
        problem.layout.initial(unknowns_of(problem, 9))  # steady states are not CVODE's
        BatchedMap.at_point, BatchedMap.slopes_at_point = map(watched, plain)
        problem.nllh(moved(problem, 9), engine=pf.CVODE())
        BatchedMap.at_point, BatchedMap.slopes_at_point = plain
        print(f"| {name} | {own:.3f} | {theirs:.3f} | {calls} | {spent:.3f} |", flush=True)


def unknowns_of(problem: object, call: int) -> np.ndarray:
    from picardfit.problem.named_values import unknowns_from

    return unknowns_from(problem, moved(problem, call), None)


def imports() -> None:
    """Print what reading large PEtab problems costs: processor time and the peak of memory, with all imports."""
    from network_tables import write

    script = "import sys; from picardfit.importers.petab import read; read(sys.argv[1])"
    print("| states | conditions | measurements | s | MB |")
    print("|" + "---|" * 5)
    for states, conditions, repeats in ((25, 36, 1), (25, 120, 4), (25, 480, 1), (75, 6, 1), (500, 4, 1)):
        network = Network(states, int(1.5 * states), states // 5, 0, most=300)
        with TemporaryDirectory() as folder:
            path = write(Path(folder), network, conditions, repeats)
            command = [sys.executable, "-W", "ignore", "-c", script, str(path)]
            process = subprocess.Popen(command)
            _, _, used = os.wait4(process.pid, 0)
        rows = conditions * 8 * len(TIMES) * repeats
        print(
            f"| {states} | {conditions} | {rows} | {used.ru_utime:.1f} | {used.ru_maxrss / 1e3:.0f} |",
            flush=True,
        )


def compare(old: Version, new: Version, repeat: int, only: str) -> None:
    """Print a row for every problem."""
    print("| problem | first call, old s | new s | next calls, old s | new s | ratio | difference | error |")
    print("|" + "---|" * 8)
    for name in (name for name in new.names if only in name):
        runs = [(old.run(name), new.run(name)) for _ in range(1 + repeat)]
        later = runs[1:]
        first = [r["seconds"] for r in runs[0]]
        least = [min(run[k]["seconds"] for run in later) for k in (0, 1)]
        gap = max(abs(a["value"] / b["value"] - 1) for a, b in runs)
        error = f"{error_of(problems()[name]()):.0e}" if int(name.split()[0]) <= 100 else ""
        print(
            f"| {name} | {first[0]:.2f} | {first[1]:.2f} | {least[0]:.3f} | {least[1]:.3f} "
            f"| {least[0] / least[1]:.1f} | {gap:.0e} | {error} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", help="the old version")
    parser.add_argument("--repeat", type=int, default=3, help="calls after the first; the least time counts")
    parser.add_argument("--only", default="", help="the problems whose name contains this")
    parser.add_argument("--gradients", action="store_true", help="predictions with derivatives instead")
    parser.add_argument("--evaluations", action="store_true", help="evaluations of right-hand sides instead")
    parser.add_argument("--cvode", action="store_true", help="likelihoods by CVODE instead")
    parser.add_argument(
        "--import", action="store_true", dest="imports", help="reading PEtab problems instead"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    for wanted, task in (
        (options.gradients, gradients),
        (options.evaluations, evaluations),
        (options.cvode, cvode),
        (options.imports, imports),
    ):
        if wanted:
            task()
            return
    if options.commit is None:
        parser.error("name the old commit")
    with both_versions(options.commit, __file__) as (old, new):
        compare(old, new, options.repeat, options.only)


if __name__ == "__main__":
    main()
