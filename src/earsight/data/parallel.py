"""Work on many things in several processes, with the answers in order; workers never outlive the one they work for."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from earsight.config import need_workers
from earsight.errors import DataError

Common = TypeVar("Common")
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_order(
    work: Callable[[Common, Item], Answer],
    common: Common,
    items: Sequence[Item],
    workers: int,
    *,
    name: Callable[[Item], str] = str,
    chunk: int = 8,
) -> Generator[Answer, None, None]:
    """What `work(common, item)` gives for each item, in their order; `common` crosses to each process once.

    With `workers` 0 this process does it. Only so many items are on their way that the workers keep busy; `name` names
    an item where a worker dies.
    """
    need_workers(workers)
    if workers == 0:
        yield from (work(common, item) for item in items)
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    number = max(1, min(workers, -(-len(items) // chunk)))
    pool = ProcessPoolExecutor(number, context, initializer=_begin, initargs=(work, common))
    done = 0
    try:
        parts = (items[start : start + chunk] for start in range(0, len(items), chunk))
        submitted = (pool.submit(_do, part) for part in parts)
        waiting = deque(islice(submitted, 4 * number))
        while waiting:
            answers = waiting.popleft().result()
            waiting.extend(islice(submitted, 1))
            done += len(answers)
            yield from answers
    except BrokenProcessPool as error:
        last = min(done + 4 * number * chunk, len(items)) - 1
        raise DataError(
            f"Expected everything to be read or refused, but got a reader that died between {name(items[done])} and "
            f"{name(items[last])}. Try again with --workers 0 or more memory."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_work: tuple[Callable[[Any, Any], Any], Any]


def _begin(work: Callable[[Any, Any], Any], common: Any) -> None:
    global _work
    _work = work, common
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # the processes share the cores
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A process that is killed cannot stop its workers, which would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(items: Sequence[Any]) -> list[Any]:
    work, common = _work
    return [work(common, item) for item in items]
