"""Work on a hostile file, in a process that may take little memory and little time."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from earsight.errors import EarsightError
from tiny import processes

OUT_OF_MEMORY = ("DefaultCPUAllocator", "Unable to allocate", "bad_alloc", "MemoryError")


def refusal(work: Callable[..., Any], *args: Any, mib: int = 256, seconds: int = 20) -> str:
    """The message with which `work` refuses its arguments, within so many MiB and seconds; fails when it does not."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = processes.start(_limited, theirs, work, args, mib, seconds)
    theirs.close()
    message = ours.recv() if ours.poll(seconds + 10) else "nothing in time"
    assert processes.finish([process]) == [0], message
    assert not any(words in message for words in OUT_OF_MEMORY), message
    return str(message)


def _limited(answer: Connection, work: Callable[..., Any], args: tuple[Any, ...], mib: int, seconds: int) -> None:
    signal.alarm(seconds)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    limit = pages * resource.getpagesize() + (mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        work(*args)
    except EarsightError as error:
        answer.send(str(error))
        return
    answer.send("was not refused")
    raise SystemExit(1)
