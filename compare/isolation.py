"""A tool in a process of its own, stopped from outside when it does not stop by itself."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection

from compare.registry import Tool
from compare.task import Answer, Task, Unable
from picardfit.formulas.codegen import kernel


@dataclass(frozen=True)
class Limits:
    """When a tool is stopped from outside. All are choices."""

    imports: float = 300.0  # seconds on the clock to import a tool
    grace: float = 10.0  # seconds, of the processor or of the clock, beyond the budget
    late: float = 20.0  # budgets on the clock after which a tool that waits without computing is stopped


DEFAULT = Limits()


@dataclass(frozen=True)
class Report:
    """What a process sends back: an answer with its times, or only a sentence."""

    answer: Answer | None
    sentence: str
    seconds: float = float("nan")  # of the processor
    elapsed: float = float("nan")  # on the clock


def isolated(tool: Tool, task: Task, limits: Limits = DEFAULT) -> Report:
    """Run a tool on a task; the budget begins when its imports are done.

    The tool counts its own processor seconds; one that does not is stopped by the system. The clock has the last word,
    late enough for a machine that is shared with others.
    """
    context = multiprocessing.get_context(start_method())
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(tool, task, limits, sender))
    process.start()
    sender.close()
    try:
        return _received(receiver, task.budget, limits)
    except EOFError:
        process.join()
        return Report(None, _last_words(process.exitcode, task.budget))
    finally:
        if process.is_alive():
            process.join(1.0)
        if process.is_alive():
            process.kill()
        process.join()
        receiver.close()


def start_method() -> str:
    """How a process begins: fork keeps a user's functions and needs no guarded main module; JAX does not survive it."""
    return "fork" if sys.platform == "linux" and "jax" not in sys.modules else "spawn"


def _received(receiver: Connection, budget: float, limits: Limits) -> Report:
    """What the process sends; EOFError if it ends without a word."""
    limit = limits.late * budget + limits.grace
    if not receiver.poll(limits.imports):
        return Report(None, f"stopped: it was not imported after {limits.imports:g} s")
    first = receiver.recv()
    if isinstance(first, Report):
        return first
    if not receiver.poll(limit):
        return Report(None, f"stopped from outside: no answer after {limit:g} s on the clock", elapsed=limit)
    return receiver.recv()


def _last_words(code: int | None, budget: float) -> str:
    """What to say of a process that ended without an answer."""
    if sys.platform != "win32" and code == -signal.SIGXCPU:
        return f"stopped from outside: it used more than {budget:g} processor seconds"
    return "its process died without an answer"


def _limit_processor(seconds: float) -> None:
    """The system ends this process when it has computed for longer; Windows knows no such limit."""
    if sys.platform == "win32":
        return
    from resource import RLIM_INFINITY, RLIMIT_CPU, getrlimit, setrlimit

    hard = getrlimit(RLIMIT_CPU)[1]
    wanted = math.ceil(time.process_time() + seconds)
    setrlimit(RLIMIT_CPU, (wanted if hard == RLIM_INFINITY else min(wanted, hard), hard))


def _child(tool: Tool, task: Task, limits: Limits, sender: Connection) -> None:
    silence()
    try:
        module = tool.load()
    except ImportError as error:
        sender.send(Report(None, f"it cannot be imported ({error}): pip install 'picardfit[compare]'"))
        return
    kernel.cache_clear()  # a forked process inherits compiled equations, which would flatter picardfit
    _limit_processor(task.budget + limits.grace)
    sender.send("ready")
    began, used = time.perf_counter(), time.process_time()
    try:
        answer = module.solve(task)
    except Unable as reason:
        sender.send(Report(None, str(reason)))
        return
    except Exception as error:  # foreign code may raise anything; its row says what
        sender.send(Report(None, f"failed: {type(error).__name__}: {_first_line(error)}"))
        return
    sender.send(Report(answer, answer.message, time.process_time() - used, time.perf_counter() - began))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")[:200]


def silence() -> None:
    """Solvers print from C++; their words would end up between the rows."""
    warnings.simplefilter("ignore")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for channel in (1, 2):
        os.dup2(nowhere, channel)
    os.close(nowhere)
