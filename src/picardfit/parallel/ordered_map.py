"""An ordered map over any executor: it sends tasks in chunks, repeats lost ones, and keeps results in a ledger.

Searches from many starts, profiles and bootstraps use it. The result of a task must depend on the task alone; then it
is the same with every executor, with any number of workers, and after an interruption. Only `submit` of the standard
`concurrent.futures.Executor` is used, so processes, threads, Dask (`client.get_executor()`) and MPI
(`mpi4py.futures`) share one code path.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from picardfit.errors import InputError, Notice
from picardfit.parallel.ledger import Ledger


@dataclass(frozen=True)
class Chunking:
    """How many tasks form a chunk, and how many chunks are submitted at a time. All are choices."""

    seconds: float = (
        0.5  # of work in a chunk: long against scheduling, short against waiting for the last one
    )
    share: int = 2  # a chunk is at most a worker's share of the remaining tasks, divided by this
    ahead: int = 2  # chunks submitted for each worker, so that none waits for the next
    unknown: int = 64  # chunks submitted at least if the executor does not tell how many workers it has

    def size(self, seconds: float | None, left: int, workers: int) -> int:
        """Tasks in a chunk if one task takes `seconds`; 1 before that is known."""
        if seconds is None:
            return 1
        fair = max(left // (self.share * workers), 1)
        return min(max(int(self.seconds / seconds), 1), fair) if seconds > 0 else fair


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Failure:
    """A task that has no result, and why."""

    reason: Notice

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """The failure of a task that raised an error."""
        values = {"kind": type(error).__name__, "message": str(error).rstrip(".")}
        return cls(Notice("parallel.raised", values=values))


class Interrupted(KeyboardInterrupt):
    """Raised by a task that was interrupted half-way and has a partial result."""

    def __init__(self, partial: tuple[int, Any]) -> None:
        super().__init__()
        self.partial = partial


@dataclass
class Work(Generic[R]):
    """What `run_tasks` returns: results and failures by key, in order of the keys."""

    results: dict[int, R] = field(default_factory=dict)
    failures: dict[int, Notice] = field(default_factory=dict)
    interrupted: bool = False
    partial: tuple[int, R] | None = None  # what the interrupted task itself had found


@dataclass(frozen=True)
class Written(Generic[R]):
    """How a result becomes a value that JSON has, and how that becomes the result again."""

    encode: Callable[[R], Any] = lambda result: result
    decode: Callable[[Any], R] = lambda value: value


def run_tasks(
    function: Callable[[T], R],
    tasks: Mapping[int, T] | Sequence[T],
    *,
    executor: Executor | None = None,
    ledger: Ledger | None = None,
    keep: Callable[[int, R], R] | None = None,
    written: Written[R] | None = None,
    progress: Callable[[int, int, int, R | Failure], None] | None = None,
    chunk: int | None = None,
    retries: int = 2,
) -> Work[R]:
    """Call `function(task)` for every task, in this process or on the executor's workers.

    `tasks`: by key, or a sequence whose keys are 0, 1, ...
    `ledger`: tasks that it holds are not done again; new results are appended, in the form that `written` gives them.
    `keep(key, result)`, called as results come in, may drop parts of them before they are stored.
    `progress(done, all, key, result)` is called after each. `chunk`: tasks sent together; by default as many as fill
    half a second. A task whose worker dies is tried again `retries` times. A task that still has no result, or that
    raises an error, becomes a failure, and the others go on; but an InputError is raised, and so is the error of a
    single task in this process. Ctrl-C ends the work and returns what is done.
    """
    todo = dict(tasks) if isinstance(tasks, Mapping) else dict(enumerate(tasks))
    work: Work[R] = Work()
    total, written = len(todo), written or Written()
    done = ledger.done if ledger else {}
    for key in sorted(todo.keys() & done.keys()):
        work.results[key] = ledger.result(key, written.decode)  # type: ignore[union-attr]
        del todo[key]
    if executor is None:
        stream = _serial(function, todo, total > 1)
    else:
        stream = _Dispatch(function, todo, executor, chunk, retries).results()
    try:
        for key, result in stream:
            if isinstance(result, Failure):
                work.failures[key] = result.reason
                if ledger:
                    ledger.fail(key, str(result.reason))
            else:
                result = work.results[key] = result if keep is None else keep(key, result)
                if ledger:
                    ledger.append(key, written.encode(result))
            if progress is not None:
                progress(len(work.results) + len(work.failures), total, key, result)
    except KeyboardInterrupt as stop:
        work.interrupted = True
        work.partial = stop.partial if isinstance(stop, Interrupted) else None
    finally:
        stream.close()
        if ledger:
            ledger.sync()
    work.results = dict(sorted(work.results.items()))
    work.failures = dict(sorted(work.failures.items()))
    return work


def check_tools(executor: object, ledger: object, progress: object, progress_takes: str) -> None:
    """Check that these are an executor, the name of a file, and a function to report progress to."""
    if isinstance(executor, type):
        raise InputError("parallel.executor_is_a_class", executor.__name__)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise InputError("parallel.not_an_executor", value=executor)
    if not isinstance(ledger, str | Path | None):
        raise InputError("parallel.not_a_ledger_file", value=ledger)
    if progress is not None and progress is not False and not callable(progress):
        raise InputError("parallel.not_a_progress_function", value=progress, takes=progress_takes)


@contextmanager
def processes(workers: int) -> Iterator[Executor | None]:
    """A pool of processes, or None for a single worker; tasks that still run at the end (after Ctrl-C) are killed."""
    if workers <= 1:
        yield None
        return
    others, pool = set(multiprocessing.active_children()), ProcessPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Use one thread for linear algebra, if threadpoolctl is installed.

    Sums over several threads differ in their last digits from sums over one, and workers that each use all cores slow
    each other down.
    """
    controller = _thread_controller()
    with nullcontext() if controller is None else controller.limit(limits=1):
        yield


@cache
def _thread_controller():
    """Cached because finding the libraries takes milliseconds; SciPy has its own, so it must be loaded before."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()


# ---- in this process -------------------------------------------------------------------------------------------


def _serial(
    function: Callable[[T], R], todo: Mapping[int, T], several: bool
) -> Generator[tuple[int, R | Failure], None, None]:
    with single_threaded():
        for key, task in todo.items():
            yield key, attempt(function, task) if several else function(task)


def attempt(function: Callable[[T], R], task: T) -> R | Failure:
    """The result of a task, or its Failure; an InputError is raised."""
    try:
        return function(task)
    except InputError:
        raise
    except Exception as error:  # the function may be the user's: one bad task must not end the others
        return Failure.of(error)


# ---- on workers --------------------------------------------------------------------------------------------


class _Dispatch(Generic[T, R]):
    """Tasks on their way to the workers of an executor, in chunks.

    When a worker dies, all submitted chunks are lost, and it is unknown which task was the cause. Their tasks wait as
    suspects until all others are done and then go one at a time, so that only a task that kills its worker is given up.
    """

    def __init__(
        self,
        function: Callable[[T], R],
        todo: Mapping[int, T],
        executor: Executor,
        chunk: int | None,
        retries: int,
        chunking: Chunking = Chunking(),
    ) -> None:
        self.todo, self.chunk, self.retries, self.chunking = todo, chunk, retries, chunking
        self.executor, self.replaced, self.packed = executor, False, _Packed(function)
        self.workers = _workers(executor) or os.cpu_count() or 1
        least = 0 if hasattr(executor, "_max_workers") else chunking.unknown
        self.window = max(chunking.ahead * self.workers, least)  # chunks submitted at a time
        self.waiting: deque[int] = deque(todo)
        self.suspects: deque[int] = deque()
        self.deaths: Counter[int] = Counter()  # of workers that had a suspect alone
        self.pending: dict[Future[Any], list[int]] = {}
        self.seconds: float | None = None  # that one task takes

    def results(self) -> Generator[tuple[int, R | Failure], None, None]:
        """(key, result) as they come in."""
        try:
            while self.waiting or self.suspects or self.pending:
                alone = self._send()
                finished = wait(self.pending, return_when=FIRST_COMPLETED).done
                for future in sorted(finished, key=lambda one: self.pending[one][0]):
                    yield from self._receive(future, alone)
        except BrokenExecutor:
            lost = {*self.waiting, *self.suspects, *(k for keys in self.pending.values() for k in keys)}
            for key in lost:
                yield key, Failure(Notice("parallel.executor_broke"))
        finally:
            for future in self.pending:
                future.cancel()
            if self.replaced:
                self.executor.shutdown(cancel_futures=True)

    def _send(self) -> bool:
        """Submit chunks while there is room, or else one suspect; whether a suspect goes alone."""
        while self.waiting and len(self.pending) < self.window:
            size = self.chunk or self.chunking.size(self.seconds, len(self.waiting), self.workers)
            self._submit(self.waiting, size)
        alone = not self.waiting and not self.pending
        if alone:
            self._submit(self.suspects, 1)
        return alone

    def _submit(self, queue: deque[int], size: int) -> None:
        """Submit the first tasks of a queue; they leave it only when the executor has accepted them."""
        keys = list(islice(queue, size))
        tasks = [self.todo[k] for k in keys]
        try:
            future = self.executor.submit(_run_chunk, self.packed, tasks)
        except BrokenExecutor:
            if not isinstance(self.executor, ProcessPoolExecutor):
                raise
            self._replace(self.executor)
            future = self.executor.submit(_run_chunk, self.packed, tasks)
        except RuntimeError as error:
            raise InputError("parallel.executor_shut_down", reason=str(error)) from None
        self.pending[future] = keys
        for _ in keys:
            queue.popleft()

    def _receive(self, future: Future[Any], alone: bool) -> Iterator[tuple[int, R | Failure]]:
        """The results of a finished chunk; the tasks of a lost chunk are tried again or given up."""
        keys = self.pending.pop(future)
        # anything but an InputError means that the worker died or the connection failed
        error = RuntimeError("it was cancelled") if future.cancelled() else future.exception()
        if isinstance(error, InputError):
            raise error
        if error is None:
            results, latest = future.result()
            self.seconds = latest if self.seconds is None else 0.5 * (self.seconds + latest)
            yield from zip(keys, results, strict=True)
        elif alone and self.deaths[keys[0]] >= self.retries:
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            times = {"times": self.retries + 1, "reason": reason}
            yield keys[0], Failure(Notice("parallel.worker_died", "", times))
        else:
            self.deaths.update(keys if alone else ())
            self.suspects.extend(keys)

    def _replace(self, broken: Any) -> None:
        """Start a process pool like the broken one, whose settings have no public names."""
        settings = (broken._mp_context, broken._initializer, broken._initargs)
        if self.replaced:
            broken.shutdown(cancel_futures=True)
        self.executor, self.replaced = ProcessPoolExecutor(self.workers, *settings), True


def _workers(executor: Executor) -> int | None:
    """How many tasks run at a time, if the executor tells: pools, MPI, Dask."""
    count = getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None)
    client = getattr(executor, "_client", None)
    if count is None and client is not None:
        count = sum(client.nthreads().values())
    return count if isinstance(count, int) and count > 0 else None


def _run_chunk(packed: _Packed, tasks: Sequence) -> tuple[list, float]:
    """On a worker: the results in order, and the seconds that one task took."""
    with _as_worker(), single_threaded():
        began = time.perf_counter()
        results = [attempt(packed.function, task) for task in tasks]
        return results, (time.perf_counter() - began) / len(tasks)


@contextmanager
def _as_worker() -> Iterator[None]:
    """Ignore Ctrl-C in a worker process: it is for the main process, and would leave half a task."""
    parent = multiprocessing.parent_process()
    if parent is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _end_with(parent)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@cache
def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """End this worker if its parent is killed; it would otherwise wait for work for ever."""

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Packed:
    """A function with all its data (a whole problem): pickled once, unpickled once by each worker."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __reduce__(self):
        return _unpacked, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        """By cloudpickle, if it is installed: it accepts lambdas and the functions of a script."""
        try:
            import cloudpickle as pickler
        except ImportError:
            pickler = pickle
        try:
            return pickler.dumps(self.function)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError("parallel.not_picklable", reason=str(error)) from None


@lru_cache(maxsize=2)
def _unpacked(pickled: bytes) -> _Packed:
    return _Packed(pickle.loads(pickled))
