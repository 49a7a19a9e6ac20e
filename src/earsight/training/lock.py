"""One run at a time works in a folder: two would write over each other's files."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from earsight.errors import UsageError

LOCK = ".run.lock"


class FolderLock:
    """Held by the first process of a run until it ends; one that is killed leaves the file and no longer holds it.

    Where there are no locks, as on some network disks, nothing is held.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / LOCK
        self._handle: int | None = None

    def take(self) -> None:
        """Hold the folder, unless this does already; a UsageError when another run holds it."""
        while self._handle is None:
            try:
                handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError:
                return  # nothing can be written here, which whoever tries to will be told
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                raise UsageError(
                    f"Expected a run that nobody trains, but another process trains in {self._folder}. "
                    "Wait for it to end, or name another --out."
                ) from None
            except OSError:
                os.close(handle)
                self._path.unlink(missing_ok=True)
                return
            # Whoever held it may have ended, and taken the file along, since it was opened here.
            if self._is(handle):
                self._handle = handle
            else:
                os.close(handle)

    def _is(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self._path.stat())
        except FileNotFoundError:
            return False

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None
