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

from picardfit.errors import InputError
from picardfit.parallel.ledger import Ledger

CHUNK_SECONDS = (
    0.5  # work that travels together: long against scheduling, short against waiting for the last one
)
SHARE = 2  # a chunk is at most the workers' share of what is left, divided by this
UNKNOWN_WINDOW = 64  # chunks on their way at least when nobody says how many workers there are


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
    for key in sorted(todo.keys() & (ledger.done.keys() if ledger else ())):
        work.results[key] = written.decode(ledger.done[key])
        del todo[key]
    if executor is None:
        stream = _serial(function, todo, total > 1)
    else:
        stream = _parallel(function, todo, executor, chunk, retries)
    try:
        for key, result in stream:
            if isinstance(result, Failure):
                work.failures[key] = result.sentence
                if ledger:
                    ledger.fail(key, result.sentence)
            else:
                result = result if keep is None else keep(key, result)
                work.results[key] = result
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
    """The result of a task, or a Failure in words; what is wrong with the input is raised."""
    try:
        return function(task)
    except InputError:
        raise
    except Exception as error:  # the function may be the user's: one bad task must not end the others
        return Failure(f"{type(error).__name__}: {error}")


# ---- on workers --------------------------------------------------------------------------------------------


def _parallel(
    function: Callable[[T], R], todo: Mapping[int, T], executor: Executor, chunk: int | None, retries: int
) -> Generator[tuple[int, R | Failure], None, None]:
    """(key, result) as they come in.

    A worker that dies takes the chunks on their way with it, and nobody knows whose fault it was. Those tasks wait
    until all others are done and then go one at a time, so that only a task that is really to blame is given up.
    """
    crew, packed = _Crew(executor), _Packed(function)
    waiting, suspects, deaths = deque(todo), deque(), Counter()
    pending: dict[Future, list[int]] = {}
    seconds = None  # for one task
    try:
        while waiting or suspects or pending:
            while waiting and len(pending) < crew.window:
                size = chunk or _chunk_size(seconds, len(waiting), crew.workers)
                keys = list(islice(waiting, size))
                pending[crew.submit(_run_chunk, packed, [todo[k] for k in keys])] = keys
                for _ in keys:
                    waiting.popleft()
            alone = not waiting and not pending
            if alone:
                keys = [suspects.popleft()]
                pending[crew.submit(_run_chunk, packed, [todo[k] for k in keys])] = keys
            finished = wait(pending, return_when=FIRST_COMPLETED).done
            for future in sorted(finished, key=lambda one: pending[one][0]):
                keys, error = pending.pop(future), _error(future)
                if isinstance(error, InputError):
                    raise error
                if error is None:
                    results, latest = future.result()
                    seconds = latest if seconds is None else 0.5 * (seconds + latest)
                    yield from zip(keys, results, strict=True)
                elif alone and deaths[keys[0]] >= retries:
                    reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
                    yield keys[0], Failure(f"Its worker died {retries + 1} times ({reason})")
                else:
                    deaths.update(keys if alone else ())
                    suspects.extend(keys)
    except _NoExecutor as lost:
        for key in {*waiting, *suspects, *(k for keys in pending.values() for k in keys)}:
            yield key, Failure(str(lost))
    finally:
        crew.dismiss(pending)


def _error(future: Future) -> BaseException | None:
    """Why a chunk has no results; what is not an InputError was the worker's death or a failing connection."""
    if future.cancelled():
        return RuntimeError("it was cancelled")
    return future.exception()


def _chunk_size(seconds: float | None, left: int, workers: int) -> int:
    """As many tasks as fill half a second, fewer towards the end; one while nothing has been measured."""
    if seconds is None:
        return 1
    fair = max(left // (SHARE * workers), 1)
    return max(min(int(CHUNK_SECONDS / max(seconds, 1e-6)), fair), 1)


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

    def watch() -> None:
        multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _NoExecutor(Exception):
    """The executor is broken and cannot be replaced."""


class _Crew:
    """The executor, or its successor when a process pool breaks."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self._own = executor, False
        self.workers = _workers(executor) or os.cpu_count() or 1
        known = isinstance(executor, ProcessPoolExecutor) or hasattr(executor, "_max_workers")
        self.window = 2 * self.workers if known else max(2 * self.workers, UNKNOWN_WINDOW)

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
            raise _NoExecutor(
                "The executor broke down: run again with a new one, and the same ledger if any."
            )
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
