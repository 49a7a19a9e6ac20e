"""Host memory of this process and of those it started, without pages of files, which the system may take back."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


def own(pid: int) -> int | None:
    """Bytes in memory that are no file's: what /proc/PID/smaps_rollup calls Anonymous, and memory shared between
    processes. None when the process is gone.

    /proc/PID/status has the sums that smaps_rollup would count page by page, which takes long for a mapped pack.
    """
    values = _status(pid)
    if values is None:
        return None
    if "RssAnon" not in values:  # some sandboxes know no more than the whole
        return values.get("VmRSS", 0)
    return values["RssAnon"] + values.get("RssShmem", 0)


def descendants(pid: int) -> list[int]:
    """The processes that it started, that those started, and so on."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        values = _status(int(folder.name))
        if values is not None and "PPid" in values:
            children.setdefault(values["PPid"], []).append(int(folder.name))
    found = list(children.get(pid, []))
    for one in found:  # which grows on the way
        found += children.get(one, [])
    return found


def _status(pid: int) -> dict[str, int] | None:
    """Numbers of /proc/PID/status, those in kB as bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    parts = [line.replace(":", " ").split() for line in lines]
    return {p[0]: int(p[1]) << (10 if p[-1] == "kB" else 0) for p in parts if len(p) > 1 and p[1].isdigit()}


class Watch:
    """Looks every `every` seconds, in a thread of its own: highest memory of this process, of any other, of all."""

    def __init__(self, every: float = 1.0) -> None:
        self.main = self.largest_other = self.together = 0
        self.others = 0
        self._every, self._over = every, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def look(self) -> None:
        main = own(os.getpid()) or 0
        others = [size for pid in descendants(os.getpid()) if (size := own(pid)) is not None]
        self.main = max(self.main, main)
        self.others = max(self.others, len(others))
        self.largest_other = max([self.largest_other, *others])
        self.together = max(self.together, main + sum(others))

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.look()

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            self.look()
