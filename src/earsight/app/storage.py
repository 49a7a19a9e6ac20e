"""Session storage: uploads and results of every open page, under names nobody can guess, for a limited time."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from earsight.app.limits import RefusedError

PREFIX = "earsight-app-"
KEPT = 4
"""Results and uploads of one session that are kept; older ones go when a new one comes."""
SESSIONS = 64
"""Most open sessions of one client address; the one unused for longest goes when a new one comes."""
SHARE = 4
"""One client address may fill this part of the room: a quarter."""
CLOSED = "Expected an open page, but the server has closed this one. Reload the page."
FULL = "Expected room on the server, but it is full. Try again in some minutes."
SHARE_FULL = "Expected room on the server, but your files fill what one address may take. Close other pages."
_LOCK = "lock"


@dataclass
class Stored:
    """A folder with an upload or a result."""

    id: str
    folder: Path
    kind: str
    born: float
    size: int = 0


@dataclass
class Session:
    """One open page."""

    id: str
    client: str
    used: float
    stored: dict[str, Stored] = field(default_factory=dict)
    uploading: int = 0

    @property
    def size(self) -> int:
        return sum(one.size for one in self.stored.values())


class Storage:
    """Holds the files of sessions; as a context manager it leaves nothing behind. Safe to call from several threads.

    A start removes what processes left that were killed. `work` is for what is needed while a clip is worked on.

    Args:
        keep: seconds after which the files of a session are removed.
        room: bytes that all files together may take.
        within: where to make the folder; by default where the system keeps temporary files.
    """

    def __init__(self, keep: float, room: int, within: Path | None = None) -> None:
        within = Path(tempfile.gettempdir()) if within is None else within
        remove_dead(within)
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=within)).resolve()
        self._lock_file = os.open(self.root / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)  # held until this process ends, however it ends
        self.samples, self.work, self._files = (self.root / name for name in ("samples", "work", "files"))
        for folder in (self.samples, self.work, self._files):
            folder.mkdir(mode=0o700)
        self._keep, self._room = keep, room
        self._sessions: dict[str, Session] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._sweep_regularly, name="earsight-sweep", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        shutil.rmtree(self.root, ignore_errors=True)
        os.close(self._lock_file)

    def open_session(self, client: str) -> Session:
        """A new session of a client address."""
        with self._lock:
            others = [one for one in self._sessions.values() if one.client == client]
            if len(others) >= SESSIONS:
                self.close_session(min(others, key=lambda one: one.used).id)
            session = Session(secrets.token_hex(16), client, time.time())
            self._sessions[session.id] = session
        return session

    def session(self, id: str) -> Session:
        """An open session, used now."""
        with self._lock:
            session = self._sessions.get(id)
            if session is None:
                raise RefusedError(410, CLOSED)
            session.used = time.time()
            return session

    def close_session(self, id: str) -> None:
        """Remove everything of a page that was closed."""
        with self._lock:
            session = self._sessions.pop(id, None)
            for one in list(session.stored.values()) if session else []:
                self._delete(one)

    def create(self, session: Session, kind: str) -> Stored:
        """A new folder for an "upload" or a "result"; the session's oldest one of the kind makes room for it."""
        with self._lock:
            self._check_room(session)
            id = secrets.token_hex(16)
            one = Stored(id, self._files / id, kind, time.time())
            one.folder.mkdir(mode=0o700)
            session.stored[id] = one
            for old in [one for one in session.stored.values() if one.kind == kind][:-KEPT]:
                self.remove(session, old)
        return one

    def grow(self, session: Session, one: Stored, size: int) -> None:
        """Count bytes that are about to be written; a RefusedError when there is no room for them."""
        with self._lock:
            one.size += size
            self._check_room(session)

    def measure(self, one: Stored) -> None:
        """Count what another process has written into a folder."""
        with suppress(OSError):
            one.size = sum(file.lstat().st_size for file in one.folder.iterdir())

    def upload(self, session: Session, id: str) -> Path | None:
        """The file of an upload of this session, which becomes its newest one."""
        with self._lock:
            one = session.stored.get(id)
            if one is None or one.kind != "upload":
                return None
            session.stored[id] = session.stored.pop(id)
            return next(iter(one.folder.iterdir()), None)

    def result(self, id: str, name: str) -> Path | None:
        """A file of a result; its id is the secret that gives access to it."""
        with self._lock:
            for session in self._sessions.values():
                one = session.stored.get(id)
                if one is not None and one.kind == "result":
                    file = one.folder / name
                    return file if file.is_file() and not file.is_symlink() else None
        return None

    def remove(self, session: Session, one: Stored) -> None:
        """Remove an upload or a result."""
        with self._lock:
            session.stored.pop(one.id, None)
            self._delete(one)

    def used(self, client: str | None = None) -> int:
        """Bytes of all files, or of those of one client address."""
        with self._lock:
            return sum(one.size for one in self._sessions.values() if client in (None, one.client))

    def sweep(self, now: float | None = None) -> None:
        """Remove what is older than it may be."""
        now = time.time() if now is None else now
        with self._lock:
            for session in list(self._sessions.values()):
                for one in list(session.stored.values()):
                    if now - one.born > self._keep:
                        self.remove(session, one)
                if not session.stored and now - session.used > self._keep:
                    self.close_session(session.id)

    def _check_room(self, session: Session) -> None:
        if session.id not in self._sessions:
            raise RefusedError(410, CLOSED)
        if self.used(session.client) > self._room // SHARE:
            raise RefusedError(429, SHARE_FULL)
        if self.used() > self._room:
            raise RefusedError(507, FULL)

    def _delete(self, one: Stored) -> None:
        shutil.rmtree(one.folder, ignore_errors=True)

    def _sweep_regularly(self) -> None:
        while not self._closed.wait(min(60.0, max(0.5, self._keep / 4))):
            self.sweep()


def remove_dead(within: Path) -> None:
    """Remove folders of this user's pages whose process has ended without doing so."""
    for folder in within.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
