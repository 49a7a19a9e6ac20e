"""Ctrl-C that lets the work end in order: asked once, it finishes what it has; asked twice, it stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def patient() -> Iterator[Callable[[], bool]]:
    """Inside the block Ctrl-C makes the function that it gives say True; the second one interrupts as ever.

    Outside the main thread, where Python takes no signals, nothing changes.
    """
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
