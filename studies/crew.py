"""Workers for a study's trials: some at a time, each in a process that may die, until all is done or time is up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
GRACE = 45.0
"""Seconds that begun work has to end in when time is up, before it is stopped. What is stopped can be resumed."""
PATIENCE = 3.0
"""Seconds that processes have to end in when they are told to, before they are killed."""
_SPAWN = multiprocessing.get_context("spawn")


class Ended(NamedTuple, Generic[T]):
    """A task, what came of it, and what went wrong, if something did."""

    task: T
    value: Any
    error: str


class Times:
    """How long tasks took, by their kind, and so how long the next ones will take.

    >>> times = Times()
    >>> times.took("slow", 60.0), times.took("fast", 5.0), times.took("slow", 50.0)
    (None, None, None)
    >>> times.expected("slow"), times.expected("fast"), times.expected("other")
    (60.0, 5.0, 60.0)
    """

    def __init__(self) -> None:
        self._longest: dict[Hashable, float] = {}

    def took(self, kind: Hashable, seconds: float) -> None:
        self._longest[kind] = max(seconds, self._longest.get(kind, 0.0))

    def expected(self, kind: Hashable) -> float:
        """Seconds; a kind that nobody has seen takes as long as any other, and the very first one nothing."""
        return self._longest.get(kind, max(self._longest.values(), default=0.0))


class _Worker:
    """A process that does one task after another, in a group with whatever processes it starts itself."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self._process: BaseProcess = _SPAWN.Process(target=_serve, args=(theirs, work))
        self._process.start()
        theirs.close()  # so that its end is seen as an end of the pipe

    def dismiss(self) -> None:
        """Tell it to end, and do not wait: a GPU takes seconds to let go of a process's memory."""
        self.pipe.close()
        self._send(signal.SIGTERM)
        self._ending = threading.Thread(target=self._end)
        self._ending.start()

    def gone(self) -> None:
        """Wait until a dismissed one is gone, and its group with it."""
        self._ending.join()

    def _end(self) -> None:
        wait([self._process.sentinel], PATIENCE)
        self._send(signal.SIGKILL)
        self._process.join()

    def _send(self, what: signal.Signals) -> None:
        pid = self._process.pid
        if pid is None:
            return
        try:
            os.killpg(pid, what)
        except ProcessLookupError:  # it has no group yet, or nothing is left of it
            if self._process.is_alive():
                os.kill(pid, what)


class _Begun(NamedTuple, Generic[T]):
    worker: _Worker
    task: T
    at: float


def do(
    tasks: Sequence[T],
    work: Callable[[T], Any],
    jobs: int,
    seconds: float = float("inf"),
    kind: Callable[[T], Hashable] = lambda _: "",
) -> Iterator[Ended[T]]:
    """Let up to `jobs` processes do the tasks in order, and give each when it is done.

    A task is only begun if it can be expected to end within `seconds`, by the longest of its `kind` so far; one that
    can may go before one that cannot. A process in which a task failed is replaced, because a GPU that saw an error may
    be of no more use to it.
    """
    waiting, idle, busy = list(tasks), list[_Worker](), dict[Connection, _Begun[T]]()
    leaving: list[_Worker] = []
    times, end = Times(), time.monotonic() + seconds
    try:
        while True:
            while len(busy) < jobs and (at := _that_fits(waiting, end - time.monotonic(), times, kind)) is not None:
                worker = idle.pop() if idle else _Worker(work)
                worker.pipe.send(waiting[at])
                busy[worker.pipe] = _Begun(worker, waiting.pop(at), time.monotonic())
            while idle:  # what nobody needs any more goes while others are still at work
                leaving.append(idle.pop())
                leaving[-1].dismiss()
            left = end + GRACE - time.monotonic()
            if not busy or left < 0:
                return
            ready = wait(list(busy), None if left == float("inf") else min(left, 5.0))
            for pipe in [one for one in ready if isinstance(one, Connection)]:
                worker, task, began = busy.pop(pipe)
                try:
                    value, error = pipe.recv()
                except (EOFError, ConnectionError):
                    value, error = None, "the process died, perhaps for want of memory"
                if error:
                    worker.dismiss()
                    leaving.append(worker)
                else:
                    times.took(kind(task), time.monotonic() - began)
                    idle.append(worker)
                yield Ended(task, value, error)
    finally:
        # All are told before any is waited for.
        for worker in [*idle, *(one.worker for one in busy.values())]:
            worker.dismiss()
            leaving.append(worker)
        for worker in leaving:
            worker.gone()


def _that_fits(waiting: Sequence[T], left: float, times: Times, kind: Callable[[T], Hashable]) -> int | None:
    """The first task that can be expected to end within the seconds `left`.

    >>> times = Times()
    >>> times.took("long", 9.0), times.took("short", 2.0)
    (None, None)
    >>> [_that_fits(["long", "short"], left, times, str) for left in (10.0, 5.0, 1.0)]
    [0, 1, None]
    """
    return next((i for i, task in enumerate(waiting) if left > 0 and times.expected(kind(task)) <= left), None)


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
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


def _end_with_parent() -> None:
    """Nobody is left who could end this group."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)
