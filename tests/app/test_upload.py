"""What an upload meets: limits on its size, its rate and its number, and a disk that is full."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="Starlette is not installed: pip install -e '.[app]'")
from starlette.requests import Request

from earsight.app import upload as module
from earsight.app.limits import PageLimits, RefusedError
from earsight.app.storage import Session, Storage
from earsight.app.upload import AT_ONCE, AT_ONCE_CLIENT, Uploads

LIMITS = PageLimits(megabytes=1)
Sends = Callable[[], Any]


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage(60, LIMITS.room, tmp_path) as one:
        yield one


def request(send: Sends, announced: object = 3, name: str = "a.mp4") -> Request:
    headers = [(b"content-length", str(announced).encode())]
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": f"name={name}".encode()}
    return Request(scope, send)


async def abc() -> dict[str, Any]:
    return {"type": "http.request", "body": b"abc", "more_body": False}


async def nothing() -> dict[str, Any]:
    await asyncio.sleep(3600)
    raise AssertionError


def files(storage: Storage) -> list[Path]:
    return list((storage.root / "files").iterdir())


def received(storage: Storage, session: Session, send: Sends = abc, announced: object = 3) -> str:
    return asyncio.run(Uploads(storage, LIMITS).receive(request(send, announced), session.id))


def test_file_is_kept_under_another_name(storage: Storage) -> None:
    session = storage.open_session("me")
    path = storage.upload(session, received(storage, session))
    assert path is not None
    assert (path.name, path.read_bytes(), storage.used()) == ("clip.mp4", b"abc", 3)


@pytest.mark.parametrize(
    ("number", "reason", "says"),
    [
        (errno.ENOSPC, "No space left on device", r"Expected room on the server, but it is full\. Try again"),
        (errno.EROFS, "Read-only file system", r"but the server cannot \(Read-only file system\)\. Try again; when it"),
    ],
)
def test_disk_that_takes_no_more_is_refused_and_nothing_stays(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, number: int, reason: str, says: str
) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise OSError(number, reason, str(path))

    session = storage.open_session("me")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RefusedError, match=says) as refused:
        received(storage, session)
    assert (refused.value.status, files(storage), storage.used()) == (507, [], 0)


def test_a_body_that_stalls_is_broken_off(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALL", 0.05)
    with pytest.raises(RefusedError, match="Expected at least 20 kB a second, but the request came slower") as refused:
        received(storage, storage.open_session("me"), nothing, 1000)
    assert (refused.value.status, files(storage)) == (408, [])


def test_a_body_that_trickles_is_broken_off(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALL", 0.1)
    sent = 0

    async def trickle() -> dict[str, Any]:
        nonlocal sent
        await asyncio.sleep(0.02)
        sent += 1
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(RefusedError, match="came slower"):
        received(storage, storage.open_session("me"), trickle, 1_000_000)
    assert sent < 20


def test_uploads_that_never_come_take_no_room_from_others(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Announced sizes are no sizes: only what has come counts, and one client has few uploads at once."""
    monkeypatch.setattr(module, "STALL", 0.5)

    async def attack() -> list[Any]:
        uploads = Uploads(storage, LIMITS)
        sessions = [storage.open_session("attacker") for _ in range(AT_ONCE_CLIENT)]
        slow = [
            asyncio.create_task(uploads.receive(request(nothing, LIMITS.bytes), one.id))
            for one in sessions
            for _ in range(AT_ONCE + 1)
        ]
        await asyncio.sleep(0.1)
        assert await uploads.receive(request(abc), storage.open_session("you").id)
        return await asyncio.gather(*slow, return_exceptions=True)

    statuses = [error.status for error in asyncio.run(attack())]
    assert statuses.count(408) == AT_ONCE_CLIENT
    assert statuses.count(429) == len(statuses) - AT_ONCE_CLIENT


@pytest.mark.parametrize("announced", ["nonsense", "-1", ""])
def test_lengths_that_are_no_numbers_are_refused(storage: Storage, announced: str) -> None:
    with pytest.raises(RefusedError, match="Expected a length that is a number"):
        received(storage, storage.open_session("me"), abc, announced)
