"""Rate of many starts: serial, two processes, Dask with two workers, as ratios within one run.

    python benchmarks/parallel.py [--starts 1000] [--workers 2] [--no-dask]

Fits Van der Pol data from `--starts` starts each way, checks that the results are the same bit for bit, and prints
starts per second and the ratio to serial. The workers have fitted once before the clock runs. The last column is what
the ratio would be on idle cores: workers times the processor time of the serial run over that of main process and
workers together, their start included. On a machine with other work only that one means something.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import picardfit as pf


@contextmanager
def dask(workers: int) -> Iterator[Executor]:
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(n_workers=workers, **settings) as cluster, Client(cluster) as client:
        yield client.get_executor()


def processor_time() -> float:
    """Of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measured(
    problem: pf.Problem, starts: int, pool: Callable[[], AbstractContextManager]
) -> tuple[float, float, list]:
    """Starts per second, processor time, and what was found."""
    before = processor_time()
    with pool() as executor:
        if executor is not None:
            pf.fit(problem, starts=8, executor=executor)
        began = time.perf_counter()
        fit = pf.fit(problem, starts=starts, executor=executor)
        rate = starts / (time.perf_counter() - began)
    return (
        rate,
        processor_time() - before,
        [fit.parameters, fit.initial_states, *(s.parameters for s in fit.searches)],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-dask", action="store_true")
    options = parser.parse_args()
    workers = options.workers
    problem = pf.examples.van_der_pol.generate(seed=1)
    pf.fit(problem, starts=2)  # compiled and imported
    serial, used, expected = measured(problem, options.starts, nullcontext)
    print(f"{options.starts} starts of Van der Pol")
    print(f"serial           {serial:6.1f} starts/s")
    ways = {f"{workers} processes": partial(ProcessPoolExecutor, workers)}
    if not options.no_dask:
        ways[f"Dask, {workers} workers"] = partial(dask, workers)
    for name, pool in ways.items():
        rate, total, found = measured(problem, options.starts, pool)
        same = "same bits" if found == expected else "OTHER RESULTS"
        ideal = workers * used / total
        print(
            f"{name:15s}  {rate:6.1f} starts/s, {rate / serial:.2f} times serial ({ideal:.2f} on idle cores), {same}"
        )


if __name__ == "__main__":
    main()
