"""Rate of many starts: serial, two processes, Dask with two workers, as ratios within one run.

    python benchmarks/parallel.py [--starts 1000] [--workers 2] [--no-dask]

Fits Van der Pol data from `--starts` starts each way, checks that the results are the same bit for bit, and prints
starts per second and the ratio to serial. Pools are started and have fitted once before the clock runs.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack

import picardfit as pf


def measured(problem: pf.Problem, starts: int, executor: Executor | None) -> tuple[float, list]:
    """Starts per second, and what they found."""
    if executor is not None:
        pf.fit(problem, starts=8, executor=executor)
    began = time.perf_counter()
    fit = pf.fit(problem, starts=starts, executor=executor)
    rate = starts / (time.perf_counter() - began)
    return rate, [fit.parameters, fit.initial_states, *(one.parameters for one in fit.starts)]


def dask_executor(workers: int, stack: ExitStack) -> Executor:
    from distributed import Client, LocalCluster

    cluster = stack.enter_context(
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    )
    return stack.enter_context(Client(cluster)).get_executor()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-dask", action="store_true")
    options = parser.parse_args()
    problem = pf.problems.van_der_pol.generate(seed=1)
    pf.fit(problem, starts=2)  # compiled and imported
    serial, expected = measured(problem, options.starts, None)
    print(f"{options.starts} starts of Van der Pol")
    print(f"serial            {serial:6.1f} starts/s")
    with ExitStack() as stack:
        ways = {f"{options.workers} processes": stack.enter_context(ProcessPoolExecutor(options.workers))}
        if not options.no_dask:
            ways[f"Dask, {options.workers} workers"] = dask_executor(options.workers, stack)
        for name, executor in ways.items():
            rate, found = measured(problem, options.starts, executor)
            same = "the same bits" if found == expected else "OTHER RESULTS"
            print(f"{name:16s}  {rate:6.1f} starts/s, {rate / serial:.2f} times serial, {same}")


if __name__ == "__main__":
    main()
