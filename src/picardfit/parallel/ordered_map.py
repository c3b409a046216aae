"""An ordered map over any executor: several tasks travel together, lost ones are tried again, a ledger keeps them.

Used by everything that does many independent things: starts, profiles, bootstraps. A task's result must depend on the
task alone; then it is the same with every executor, any number of workers, and after an interruption.
Only `submit` of the standard `concurrent.futures.Executor` is used, so processes, threads, Dask
(`client.get_executor()`) and MPI (`mpi4py.futures`) are one code path.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
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
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from picardfit.errors import InputError, Notice
from picardfit.parallel.ledger import Ledger


@dataclass(frozen=True)
class Chunking:
    """How many tasks travel together, and how many chunks are on their way."""

    seconds: float = (
        0.5  # of work in a chunk: long against scheduling, short against waiting for the last one
    )
    share: int = 2  # a chunk is at most the workers' share of what is left, divided by this
    ahead: int = 2  # chunks on their way for each worker, so that none waits for the next
    unknown: int = 64  # chunks on their way at least when the executor does not say how many workers it has

    def size(self, seconds: float | None, left: int, workers: int) -> int:
        """Tasks in a chunk, when one takes so many seconds; 1 while nothing has been measured."""
        if seconds is None:
            return 1
        fair = max(left // (self.share * workers), 1)
        return min(max(int(self.seconds / seconds), 1), fair) if seconds > 0 else fair

    def window(self, workers: int, known: bool) -> int:
        """Chunks on their way at a time."""
        return self.ahead * workers if known else max(self.ahead * workers, self.unknown)


T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Failure:
    """A task without result, and why."""

    sentence: str


class Interrupted(KeyboardInterrupt):
    """Raised by a task that was interrupted half-way and has something to show for it."""

    def __init__(self, partial: tuple[int, Any]) -> None:
        super().__init__()
        self.partial = partial


@dataclass
class Work(Generic[R]):
    """What `run_tasks` returns: results by key, in order of the keys."""

    results: dict[int, R] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    interrupted: bool = False
    partial: tuple[int, R] | None = None  # what the interrupted task itself had found


def _as_it_is(result: Any) -> Any:
    return result


@dataclass(frozen=True)
class Written(Generic[R]):
    """How a result becomes something that JSON can hold, and how that becomes the result again."""

    encode: Callable[[R], object] = _as_it_is
    decode: Callable[[object], R] = _as_it_is


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
    """Call `function(task)` for every task, here or on the executor's workers.

    `tasks`: by key, or a sequence whose keys are 0, 1, ...
    `ledger`: finished tasks are read from it and not done again, new ones are appended, in the form that `written`
    gives them; results that JSON can hold need none. `keep(key, result)`, called as results come in, may drop parts of
    them before they are stored. `progress(done, all, key, result)`. `chunk`: tasks that travel together; by default
    as many as fill half a second. A task whose worker dies is tried again `retries` times, then it is a failure, like
    one that raises an error, and the others go on; the error of an only task done here, and any InputError, is raised.
    Ctrl-C ends the work with what is done.
    """
    todo = dict(tasks) if isinstance(tasks, Mapping) else dict(enumerate(tasks))
    work: Work[R] = Work()
    total, written = len(todo), written or Written()
    done = ledger.done if ledger else {}
    for key in sorted(todo.keys() & done.keys()):
        work.results[key] = written.decode(done[key])
        del todo[key]
    if executor is None:
        stream = _serial(function, todo, total > 1)
    else:
        stream = _Dispatch(function, todo, executor, chunk, retries).results()
    try:
        for key, result in stream:
            kept = result if keep is None or isinstance(result, Failure) else keep(key, result)
            _store(work, ledger, written, key, kept)
            if progress is not None:
                progress(len(work.results) + len(work.failures), total, key, kept)
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


def _store(work: Work[R], ledger: Ledger | None, written: Written[R], key: int, result: R | Failure) -> None:
    if isinstance(result, Failure):
        work.failures[key] = result.sentence
        if ledger:
            ledger.fail(key, result.sentence)
        return
    work.results[key] = result
    if ledger:
        ledger.append(key, written.encode(result))


def check_tools(executor: object, ledger: object, progress: object, progress_takes: str) -> None:
    """Refuse what is not an executor, the name of a file, or a function that takes the news of progress."""
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
    """A pool of processes, or None for a single worker; what still runs at its end (after Ctrl-C) is not waited for."""
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
    """One thread for linear algebra where threadpoolctl is installed.

    Sums over several threads end in other last digits than sums over one, and workers that use all cores each are in
    each other's way.
    """
    controller = _thread_controller()
    with nullcontext() if controller is None else controller.limit(limits=1):
        yield


@cache
def _thread_controller():
    """Looking for the libraries takes milliseconds, therefore once; SciPy brings its own and must be there by then."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()


# ---- here --------------------------------------------------------------------------------------------------


def _serial(
    function: Callable[[T], R], todo: Mapping[int, T], several: bool
) -> Generator[tuple[int, R | Failure], None, None]:
    with single_threaded():
        for key, task in todo.items():
            yield key, attempt(function, task) if several else function(task)


def attempt(function: Callable[[T], R], task: T) -> R | Failure:
    """The result of a task, or a Failure with the error's message; an InputError is raised."""
    try:
        return function(task)
    except InputError:
        raise
    except Exception as error:  # the function may be the user's: one bad task must not end the others
        return Failure(f"{type(error).__name__}: {error}")


# ---- on workers --------------------------------------------------------------------------------------------


class _Dispatch(Generic[T, R]):
    """Tasks on their way to the workers of an executor, in chunks.

    A worker that dies takes the chunks on their way with it, and nobody knows which task was the cause. Those tasks
    wait until all others are done and then go one at a time, so that only the task that kills its worker is given up.
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
        self.crew, self.packed = _Crew(executor, chunking), _Packed(function)
        self.waiting: deque[int] = deque(todo)
        self.suspects: deque[int] = deque()  # tasks of chunks that were lost
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
        except _NoExecutor:
            lost = {*self.waiting, *self.suspects, *(k for keys in self.pending.values() for k in keys)}
            for key in lost:
                yield key, Failure(str(Notice("parallel.executor_broke")))
        finally:
            self.crew.dismiss(self.pending)

    def _send(self) -> bool:
        """Send chunks while there is room, else a suspect; whether a suspect travels alone."""
        while self.waiting and len(self.pending) < self.crew.window:
            size = self.chunk or self.chunking.size(self.seconds, len(self.waiting), self.crew.workers)
            self._submit(self.waiting, size)
        alone = not self.waiting and not self.pending
        if alone:
            self._submit(self.suspects, 1)
        return alone

    def _submit(self, queue: deque[int], size: int) -> None:
        """Send the first tasks of a queue; they leave it only when the executor has taken them."""
        keys = list(islice(queue, size))
        self.pending[self.crew.submit(_run_chunk, self.packed, [self.todo[k] for k in keys])] = keys
        for _ in keys:
            queue.popleft()

    def _receive(self, future: Future[Any], alone: bool) -> Iterator[tuple[int, R | Failure]]:
        """The results of a finished chunk; if it was lost, its tasks are tried again or given up."""
        keys, error = self.pending.pop(future), _error(future)
        if isinstance(error, InputError):
            raise error
        if error is None:
            results, latest = future.result()
            self.seconds = latest if self.seconds is None else 0.5 * (self.seconds + latest)
            yield from zip(keys, results, strict=True)
        elif alone and self.deaths[keys[0]] >= self.retries:
            reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            times = {"times": self.retries + 1, "reason": reason}
            yield keys[0], Failure(str(Notice("parallel.worker_died", "", times)))
        else:
            self.deaths.update(keys if alone else ())
            self.suspects.extend(keys)


def _error(future: Future) -> BaseException | None:
    """Why a chunk has no results; what is not an InputError was the worker's death or a failing connection."""
    if future.cancelled():
        return RuntimeError("it was cancelled")
    return future.exception()


def _run_chunk(packed: _Packed, tasks: Sequence) -> tuple[list, float]:
    """On a worker: the results in order, and the seconds one task took."""
    with _as_worker(), single_threaded():
        began = time.perf_counter()
        results = [attempt(packed.function, task) for task in tasks]
        return results, (time.perf_counter() - began) / len(tasks)


@contextmanager
def _as_worker() -> Iterator[None]:
    """Ctrl-C is for the main process: a worker process that hears it too must not hand in half a task."""
    child = multiprocessing.parent_process() is not None
    if not child or threading.current_thread() is not threading.main_thread():
        yield
        return
    _end_with_parent()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@cache
def _end_with_parent() -> None:
    """Processes of a pool would wait for work for ever when the main process is killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _NoExecutor(Exception):
    """The executor is broken and cannot be replaced."""


class _Crew:
    """The executor, or its successor when a process pool breaks."""

    def __init__(self, executor: Executor, chunking: Chunking) -> None:
        self._executor, self._own = executor, False
        self.workers = _workers(executor) or os.cpu_count() or 1
        known = isinstance(executor, ProcessPoolExecutor) or hasattr(executor, "_max_workers")
        self.window = chunking.window(self.workers, known)

    def submit(self, *call) -> Future:
        try:
            return self._executor.submit(*call)
        except BrokenExecutor:
            self._replace()
            return self._executor.submit(*call)
        except RuntimeError as error:
            raise InputError("parallel.executor_shut_down", reason=str(error)) from None

    def dismiss(self, pending: Mapping[Future, object]) -> None:
        for future in pending:
            future.cancel()
        if self._own:
            self._executor.shutdown(cancel_futures=True)

    def _replace(self) -> None:
        """A new pool like the broken one; the standard library has no public way to ask how that was made."""
        broken = self._executor
        if not isinstance(broken, ProcessPoolExecutor):
            raise _NoExecutor
        settings = {"mp_context": "_mp_context", "initializer": "_initializer", "initargs": "_initargs"}
        given = {name: getattr(broken, place) for name, place in settings.items() if hasattr(broken, place)}
        if self._own:
            broken.shutdown(cancel_futures=True)
        self._executor, self._own = ProcessPoolExecutor(self.workers, **given), True


def _workers(executor: Executor) -> int | None:
    """How many tasks run at a time, where the executor tells: pools, MPI, Dask."""
    count = getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None)
    client = getattr(executor, "_client", None)
    if count is None and client is not None:
        count = sum(client.nthreads().values())
    return count if isinstance(count, int) and count > 0 else None


# ---- the function on its way -------------------------------------------------------------------------------


class _Packed:
    """A function with all it carries (a whole problem): pickled once, unpickled once by each worker."""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self._pickled: bytes | None = None

    def __reduce__(self):
        if self._pickled is None:
            self._pickled = _pickled(self.function)
        return _unpacked, (self._pickled,)


@lru_cache(maxsize=2)
def _unpacked(pickled: bytes) -> _Packed:
    return _Packed(pickle.loads(pickled))


def _pickled(function: Callable) -> bytes:
    """By cloudpickle, where there is one, what pickle cannot carry: lambdas, and functions of a script."""
    try:
        plain, reason = pickle.dumps(function), ""
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        plain, reason = None, str(error)
    if plain is not None and b"__main__" not in plain:
        return plain
    try:
        import cloudpickle
    except ImportError:
        if plain is not None:
            return plain
        raise InputError("parallel.not_picklable", reason=reason) from None
    return cloudpickle.dumps(function)
