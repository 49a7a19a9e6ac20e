"""Work ahead: one thread makes what another one uses, so that reading, computing and drawing go on side by side."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from contextlib import closing
from typing import Generic, TypeVar

T = TypeVar("T")
_PATIENCE = 0.1  # seconds until a thread that waits looks up


class _End(Generic[T]):
    """The last that comes through: why there is no more, or None where all went well."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Generator[T, None, None], room: int) -> Generator[T, None, None]:
    """The items in order, made by a thread of their own, at most `room` of them before they are asked for.

    What the thread raises is raised here. When this is closed early the thread ends too.
    """
    made: queue.Queue[T | _End[T]] = queue.Queue(room)
    unwanted = threading.Event()

    def put(one: T | _End[T]) -> None:
        while not unwanted.is_set():
            try:
                made.put(one, timeout=_PATIENCE)
                break
            except queue.Full:
                continue

    def get() -> T | _End[T]:
        while True:
            try:
                return made.get(timeout=_PATIENCE)
            except queue.Empty:  # Python notes a Ctrl-C that another thread has received only in between
                continue

    def work() -> None:
        error: BaseException | None = None
        try:
            with closing(items):
                for item in items:
                    put(item)
                    if unwanted.is_set():
                        return
        except BaseException as raised:  # whatever it is, the thread that waits for items must hear of it
            error = raised
        put(_End(error))

    thread = threading.Thread(target=work, name="earsight-ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(one := get(), _End):
            yield one
        if one.error is not None:
            raise one.error
    finally:
        unwanted.set()
        thread.join()
