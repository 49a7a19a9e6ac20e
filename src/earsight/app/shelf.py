"""The page's own folder: what visitors gave and what they got, under names nobody can guess, for a limited time."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

KEPT = 4
"""Answers of one visitor, and uploads, that are kept; older ones go when a new one comes."""
_SAMPLES = "samples"


class Shelf:
    """Holds files for visitors; as a context manager it leaves nothing behind.

    Only what lies in `page` is ever served. `work` is for what is needed for a moment.

    Args:
        keep: seconds after which the files of a visitor who stays are removed.
        within: where to make the folder; by default where the system keeps temporary files.
    """

    def __init__(self, keep: float, within: Path | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="earsight-app-", dir=within)).resolve()
        self.page, self.work = self.root / "page", self.root / "work"
        self.samples = self.page / _SAMPLES
        for folder in (self.page, self.work, self.samples):
            folder.mkdir(mode=0o700)
        self._keep = keep
        self._held: dict[tuple[str, str], list[Path]] = {}  # (visitor, answer or upload)
        self._coming = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._sweeping, name="earsight-sweep", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        shutil.rmtree(self.root, ignore_errors=True)

    def place(self) -> Path:
        """A new folder that belongs to nobody yet; it is removed after a time like all others."""
        folder = self.page / secrets.token_hex(16)
        folder.mkdir(mode=0o700)
        return folder

    def answer(self, visitor: str) -> Path:
        """A new folder for an answer to a visitor, whose oldest answer makes room for it."""
        folder = self.place()
        self._give(visitor, "answer", folder)
        return folder

    def belongs(self, visitor: str, upload: Path) -> None:
        """Let an upload go with its visitor."""
        folder = upload.parent
        if folder.parent == self.page and folder != self.samples:
            self._give(visitor, "upload", folder)

    def leave(self, visitor: str) -> None:
        """Remove everything of a visitor who has gone."""
        with self._lock:
            mine = self._held.pop((visitor, "answer"), []) + self._held.pop((visitor, "upload"), [])
        for one in mine:
            self.remove(one)

    def _give(self, visitor: str, kind: str, folder: Path) -> None:
        with self._lock:
            mine = self._held.setdefault((visitor, kind), [])
            mine[:] = [*(one for one in mine if one != folder), folder]
            old = mine[:-KEPT]
            del mine[:-KEPT]
        for one in old:
            self.remove(one)

    def remove(self, folder: Path) -> None:
        """Remove a folder of the page; samples stay."""
        if folder.parent == self.page and folder != self.samples:
            shutil.rmtree(folder, ignore_errors=True)

    def holds(self, path: str | Path) -> bool:
        """Whether this is a plain file inside the page's folder, however it is spelled."""
        try:
            real = Path(path).resolve(strict=True)
            return real.is_relative_to(self.page) and stat.S_ISREG(real.lstat().st_mode)
        except (OSError, ValueError, RuntimeError):  # names with NUL bytes, endless links, names that are too long
            return False

    @contextmanager
    def expecting(self, size: int) -> Iterator[None]:
        """Count these bytes as held while they arrive."""
        with self._lock:
            self._coming += size
        try:
            yield
        finally:
            with self._lock:
                self._coming -= size

    def used(self) -> int:
        """Bytes of all that is held or on its way, samples aside."""
        total = self._coming
        for folder in self._folders():
            for where, _, names in os.walk(folder):  # passes over folders that are removed while we look
                for name in names:
                    with suppress(OSError):
                        total += Path(where, name).lstat().st_size
        return total

    def sweep(self, now: float | None = None) -> None:
        """Remove what is older than it may be."""
        now = time.time() if now is None else now
        for folder in self._folders():
            try:
                old = now - folder.lstat().st_mtime > self._keep
            except OSError:
                continue
            if old:
                self.remove(folder)
        with self._lock:
            for key, mine in list(self._held.items()):
                mine[:] = [folder for folder in mine if folder.exists()]
                if not mine:
                    del self._held[key]

    def _folders(self) -> list[Path]:
        try:
            return [one for one in self.page.iterdir() if one != self.samples]
        except OSError:
            return []

    def _sweeping(self) -> None:
        while not self._closed.wait(min(60.0, max(0.5, self._keep / 4))):
            self.sweep()
