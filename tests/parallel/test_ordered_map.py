"""The ordered map: same results with every executor, after deaths of workers and of the main process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import picardfit as pf
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.ordered_map import Chunking, Interrupted, Written, processes, run_tasks

WHO = {"run": "test"}


def cube(task):
    return task**3


def sluggish(task):
    time.sleep(0.005 * (5 - task % 5))
    return task**3


def picky(task):
    if task == 3:
        raise ZeroDivisionError("three")
    return task


def refusing(task):
    raise pf.InputError(f"`{task}` is wrong: change it.")


def deadly(task):
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return task


def deadly_once(folder, task):
    """Kills its worker, but only the first time."""
    mark = Path(folder) / "died"
    if task == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


class Heavy:
    """A function that counts in a file how often it was unpickled."""

    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        self.__dict__.update(state)
        with Path(self.path).open("a") as file:
            file.write(f"{os.getpid()}\n")

    def __call__(self, task):
        return task


class Recorder(Executor):
    """Runs everything at once and notes how many tasks travel together."""

    def __init__(self):
        self.sizes = []

    def submit(self, run, packed, tasks):
        self.sizes.append(len(tasks))
        future = Future()
        future.set_result(run(packed, tasks))
        return future


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_results_are_in_order_of_the_keys(pool):
    with pool(2) as executor:
        work = run_tasks(sluggish, range(30), executor=executor, chunk=2)
    assert list(work.results.items()) == [(k, k**3) for k in range(30)]


def test_without_executor_everything_is_done_here():
    assert run_tasks(cube, {4: 2, 1: 3}).results == {1: 27, 4: 8}


def test_no_tasks_no_results():
    with ThreadPoolExecutor(2) as executor:
        assert run_tasks(cube, [], executor=executor).results == {}


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor])
def test_an_error_costs_only_its_task(pool):
    executor = pool and pool(2)
    work = run_tasks(picky, range(6), executor=executor)
    assert work.results == {0: 0, 1: 1, 2: 2, 4: 4, 5: 5}
    failed = work.failures[3]
    assert (failed.code, failed.values) == (
        "parallel.raised",
        {"kind": "ZeroDivisionError", "message": "three"},
    )


def test_the_error_of_an_only_task_is_raised():
    with pytest.raises(ZeroDivisionError):
        run_tasks(picky, [3])


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_bad_input_is_raised(pool):
    executor = pool and pool(1)
    with pytest.raises(pf.InputError, match="is wrong: change it"):
        run_tasks(refusing, range(3), executor=executor)


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_worker_that_dies_once_costs_nothing(tmp_path, start_method):
    context = multiprocessing.get_context(start_method)
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        work = run_tasks(partial(deadly_once, tmp_path), range(12), executor=executor, chunk=2)
    assert (work.results, work.failures) == ({k: k for k in range(12)}, {})


def test_a_task_that_kills_its_workers_is_given_up_and_the_others_go_on(tmp_path):
    with ProcessPoolExecutor(2) as executor, Ledger(tmp_path / "run.jsonl", WHO) as ledger:
        work = run_tasks(deadly, range(12), executor=executor, ledger=ledger, chunk=3, retries=1)
    assert sorted(work.results) == [k for k in range(12) if k != 3]
    assert work.failures[3].code == "parallel.worker_died"
    assert work.failures[3].values["times"] == 2
    assert sorted(Ledger(tmp_path / "run.jsonl", WHO).failed) == [3]


def test_an_executor_that_was_shut_down_is_bad_input():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(pf.InputError, match="accepts no work"):
        run_tasks(cube, range(3), executor=executor)


def test_a_function_that_cannot_travel_is_bad_input(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with ProcessPoolExecutor(1) as executor, pytest.raises(pf.InputError, match="cannot be sent"):
        run_tasks(lambda task: task, range(3), executor=executor)


def test_the_function_is_unpickled_once_by_a_worker(tmp_path):
    heavy = Heavy(str(tmp_path / "unpickled"))
    with ProcessPoolExecutor(2) as executor:
        run_tasks(heavy, range(40), executor=executor, chunk=1)
    seen = (tmp_path / "unpickled").read_text().split()
    assert len(seen) == len(set(seen)) <= 2


# several tasks travel together


def test_tasks_travel_one_by_one_until_their_time_is_known():
    assert Chunking().size(None, 1000, 2) == 1


@pytest.mark.parametrize(
    "seconds, left, size", [(0.05, 1000, 10), (0.05, 12, 3), (2.0, 1000, 1), (0.0, 8, 2)]
)
def test_a_chunk_takes_half_a_second_and_leaves_work_for_the_others(seconds, left, size):
    assert Chunking().size(seconds, left, 2) == size


def test_quick_tasks_travel_in_few_chunks():
    recorder = Recorder()
    work = run_tasks(cube, range(10_000), executor=recorder)
    assert len(work.results) == sum(recorder.sizes) == 10_000
    assert len(recorder.sizes) < 300


# ledger, progress, interruption


def test_what_the_ledger_has_is_not_done_again(tmp_path):
    path = tmp_path / "run.jsonl"
    with Ledger(path, WHO) as ledger:
        run_tasks(cube, {0: 0, 2: 2}, ledger=ledger)
    done = []
    with Ledger(path, WHO) as ledger:
        work = run_tasks(lambda task: done.append(task) or task**3, range(4), ledger=ledger)
    assert (done, work.results) == ([1, 3], {k: k**3 for k in range(4)})


def test_failed_tasks_are_tried_again(tmp_path):
    path = tmp_path / "run.jsonl"
    with Ledger(path, WHO) as ledger:
        run_tasks(picky, range(5), ledger=ledger)
    with Ledger(path, WHO) as ledger:
        assert run_tasks(cube, range(5), ledger=ledger).results[3] == 27


def test_results_are_encoded_for_the_ledger_and_decoded_from_it(tmp_path):
    for _ in range(2):
        with Ledger(tmp_path / "run.jsonl", WHO) as ledger:
            work = run_tasks(
                complex,
                range(3),
                ledger=ledger,
                written=Written(lambda z: [z.real, z.imag], lambda r: complex(*r)),
            )
        assert work.results == {0: 0j, 1: 1 + 0j, 2: 2 + 0j}


def test_keep_decides_what_is_stored(tmp_path):
    with Ledger(tmp_path / "run.jsonl", WHO) as ledger:
        work = run_tasks(cube, range(3), ledger=ledger, keep=lambda key, result: result if key == 1 else None)
    assert work.results == Ledger(tmp_path / "run.jsonl", WHO).done == {0: None, 1: 1, 2: None}


def test_progress_is_told_of_every_task():
    told = []
    run_tasks(cube, range(4), progress=lambda *news: told.append(news))
    assert told == [(1, 4, 0, 0), (2, 4, 1, 1), (3, 4, 2, 8), (4, 4, 3, 27)]


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor])
def test_an_interrupt_keeps_what_is_done(tmp_path, pool):
    def stop(done, *_):
        if done == 3:
            raise KeyboardInterrupt

    executor = pool and pool(1)
    with Ledger(tmp_path / "run.jsonl", WHO) as ledger:
        work = run_tasks(cube, range(100), executor=executor, ledger=ledger, progress=stop, chunk=1)
    assert work.interrupted
    assert len(work.results) == 3
    assert Ledger(tmp_path / "run.jsonl", WHO).done == work.results


def test_an_interrupted_task_hands_over_what_it_has():
    def function(task):
        if task == 2:
            raise Interrupted("half")
        return task

    work = run_tasks(function, range(5))
    assert (work.results, work.interrupted, work.partial) == ({0: 0, 1: 1}, True, "half")


def interrupt_group(task):
    """As Ctrl-C on a terminal does: every process of the group hears it."""
    if task == 5:
        os.kill(os.getpid(), signal.SIGINT)
    return task


def test_worker_processes_do_not_hear_ctrl_c():
    with ProcessPoolExecutor(1) as executor:
        work = run_tasks(interrupt_group, range(10), executor=executor, chunk=2)
    assert work.results == {k: k for k in range(10)}


def long_from_the_second_on(task):
    time.sleep(600 if task else 0)
    return task


def test_a_pool_of_our_own_does_not_wait_for_long_tasks_after_an_interrupt():
    def stop(*_):
        raise KeyboardInterrupt

    with processes(2) as executor:
        work = run_tasks(long_from_the_second_on, range(4), executor=executor, progress=stop, chunk=1)
        workers = [*executor._processes.values()]
    assert (work.results, work.interrupted) == ({0: 0}, True)
    ended_by = time.monotonic() + 60
    while any(is_running(worker.pid) for worker in workers) and time.monotonic() < ended_by:
        time.sleep(0.05)
    assert not any(is_running(worker.pid) for worker in workers)


def is_running(pid: int) -> bool:
    """Whether a process has not ended and been waited for; whoever waits for it, here it is the executor."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_single_worker_needs_no_pool():
    with processes(1) as executor:
        assert executor is None


# the main process is killed


PROGRAM = """
import sys
from picardfit.parallel.ledger import Ledger
from picardfit.parallel.ordered_map import run_tasks
from tests_helper import slow_cube
with Ledger(sys.argv[1], {"run": "test"}) as ledger:
    run_tasks(slow_cube, range(40), ledger=ledger)
"""


def test_a_killed_main_process_resumes_where_it_stopped(tmp_path):
    (tmp_path / "tests_helper.py").write_text(
        "import time\ndef slow_cube(task):\n    time.sleep(0.02)\n    return task ** 3\n"
    )
    path = tmp_path / "run.jsonl"
    folders = os.pathsep.join([str(tmp_path), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)], env=os.environ | {"PYTHONPATH": folders}
    )
    while not path.exists() or path.read_bytes().count(b"\n") < 6:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    done = []
    with Ledger(path, WHO) as ledger:
        before = set(ledger.done)
        work = run_tasks(lambda task: done.append(task) or task**3, range(40), ledger=ledger)
    assert 4 < len(before) < 40
    assert done == [k for k in range(40) if k not in before]
    assert work.results == {k: k**3 for k in range(40)}


# Dask


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="pip install picardfit[dask]")
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        silence_logs=50,
        worker_dashboard_address=None,
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def test_dask_gives_the_same_results(client):
    work = run_tasks(sluggish, range(30), executor=client.get_executor())
    assert work.results == {k: k**3 for k in range(30)}


def test_a_dask_worker_that_is_killed_costs_only_its_task(client, tmp_path):
    work = run_tasks(partial(deadly_once, str(tmp_path)), range(12), executor=client.get_executor())
    assert (tmp_path / "died").exists()
    assert (work.results, work.failures) == ({k: k for k in range(12)}, {})


def test_a_script_s_own_function_travels_to_dask(client):
    assert run_tasks(lambda task: task + 1, range(3), executor=client.get_executor()).results == {
        0: 1,
        1: 2,
        2: 3,
    }


# MPI


def test_mpi_is_an_executor_like_the_others():
    futures = pytest.importorskip("mpi4py.futures")
    with futures.MPIPoolExecutor(1) as executor:
        assert run_tasks(cube, range(5), executor=executor).results == {k: k**3 for k in range(5)}
