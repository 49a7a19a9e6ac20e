"""Workers for a study's trials: some at a time, each in a process that may die, until all is done or time is up."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
GRACE = 45.0
"""Seconds that begun work has to end in when time is up, before it is stopped. What is stopped can be resumed."""
_SPAWN = multiprocessing.get_context("spawn")


class Ended(NamedTuple, Generic[T]):
    """A task, what came of it, and what went wrong, if something did."""

    task: T
    value: Any
    error: str


class _Worker:
    """A process that does one task after another."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self._process: BaseProcess = _SPAWN.Process(target=_serve, args=(theirs, work))
        self._process.start()
        theirs.close()  # so that its end is seen as an end of the pipe

    def stop(self) -> None:
        self.pipe.close()
        self._process.terminate()
        self._process.join()


def do(tasks: Sequence[T], work: Callable[[T], Any], jobs: int, seconds: float = float("inf")) -> Iterator[Ended[T]]:
    """Let up to `jobs` processes do the tasks in order, and give each when it is done.

    After `seconds` no task is begun any more. A process in which a task failed is replaced, because a GPU that saw an
    error may be of no more use to it.
    """
    waiting, idle, busy = deque(tasks), list[_Worker](), dict[Connection, tuple[_Worker, T]]()
    end = time.monotonic() + seconds
    try:
        while True:
            while waiting and len(busy) < jobs and time.monotonic() < end:
                worker = idle.pop() if idle else _Worker(work)
                worker.pipe.send(waiting[0])
                busy[worker.pipe] = worker, waiting.popleft()
            left = end + GRACE - time.monotonic()
            if not busy or left < 0:
                return
            ready = wait(list(busy), None if left == float("inf") else min(left, 5.0))
            for pipe in [one for one in ready if isinstance(one, Connection)]:
                worker, task = busy.pop(pipe)
                try:
                    value, error = pipe.recv()
                except (EOFError, ConnectionError):
                    value, error = None, "the process died, perhaps for want of memory"
                if error:
                    worker.stop()
                else:
                    idle.append(worker)
                yield Ended(task, value, error)
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.stop()


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    while True:
        try:
            task = pipe.recv()
        except EOFError:  # nobody is there any more
            return
        try:
            told = work(task), ""
        except Exception as error:  # told where the tasks come from, which goes on with others
            told = None, f"{type(error).__name__}: {error}"
        pipe.send(told)
