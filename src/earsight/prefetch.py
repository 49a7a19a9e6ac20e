"""Prefetch: one thread makes what another one uses, so that reading, computing and drawing go on side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
_WAIT = 0.1  # seconds until a thread that waits looks up: Python notes a Ctrl-C that another one received only then


def prefetch(items: Generator[T, None, None], room: int) -> Generator[T, None, None]:
    """The items in order, made by a thread of their own, at most `room` of them before they are asked for.

    What the thread raises is raised here. When this is closed early the thread ends too.
    """
    made: deque[Future[tuple[T] | None]] = deque()

    def make() -> tuple[T] | None:
        for item in items:
            return (item,)
        return None

    with ThreadPoolExecutor(1, "earsight-prefetch") as thread:
        made.extend(thread.submit(make) for _ in range(room))
        try:
            while (one := _waited(made.popleft())) is not None:
                made.append(thread.submit(make))
                yield one[0]
        finally:
            for future in made:
                future.cancel()
            _waited(thread.submit(items.close))


def _waited(future: Future[T]) -> T:
    """The result of a future, for which a Ctrl-C is not kept waiting."""
    while not wait([future], _WAIT).done:
        pass
    return future.result()
