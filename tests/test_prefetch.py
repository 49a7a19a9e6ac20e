"""Prefetch: the same items, made by another thread that never outlives its use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from earsight.errors import MediaError
from earsight.prefetch import prefetch


def working() -> int:
    return sum(thread.name.startswith("earsight-prefetch") for thread in threading.enumerate())


def counted(most: int, made: list[int]) -> Iterator[int]:
    try:
        for i in range(most):
            made.append(i)
            yield i
    finally:
        made.append(-1)


def test_items_come_in_order_and_the_thread_ends() -> None:
    made: list[int] = []
    assert list(prefetch(counted(100, made), 3)) == list(range(100))
    assert made[-1] == -1
    assert working() == 0


def test_no_more_is_made_than_there_is_room_for() -> None:
    made: list[int] = []
    with closing(prefetch(counted(1000, made), 4)) as items:
        for i in range(10):
            assert next(items) == i
            assert len(made) <= i + 1 + 4 + 2  # in the queue, one that waits, and one that may just be made
    assert made[-1] == -1
    assert working() == 0


def test_an_error_of_the_thread_is_raised_where_items_are_used() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise MediaError("a.mp4", "is broken.")

    items = prefetch(failing(), 2)
    assert next(items) == 1
    with pytest.raises(MediaError, match="is broken"):
        next(items)
    assert working() == 0


def test_an_error_where_items_are_used_ends_the_thread() -> None:
    made: list[int] = []

    def use() -> None:
        with closing(prefetch(counted(1000, made), 2)) as items:
            raise ZeroDivisionError(next(items))

    with pytest.raises(ZeroDivisionError):
        use()
    assert made[-1] == -1
    assert working() == 0
