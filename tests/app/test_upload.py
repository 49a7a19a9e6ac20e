"""What an upload meets: a disk that takes no more is told, and nothing of the file stays."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from earsight.app.limits import PageLimits
from earsight.app.shelf import Shelf
from earsight.app.upload import RefusedError, receive

BODY = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.mp4"\r\n\r\nabc\r\n--x--\r\n'


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with Shelf(60, tmp_path) as one:
        yield one


def sent(shelf: Shelf) -> Path:
    from starlette.requests import Request

    async def body() -> dict[str, Any]:
        return {"type": "http.request", "body": BODY, "more_body": False}

    headers = [(b"content-type", b"multipart/form-data; boundary=x"), (b"content-length", str(len(BODY)).encode())]
    scope = {"type": "http", "method": "POST", "headers": headers}
    return asyncio.run(receive(Request(scope, body), shelf, PageLimits()))


def test_file_is_kept_under_another_name(shelf: Shelf) -> None:
    pytest.importorskip("starlette", reason="Gradio is not installed: pip install -e '.[app]'")
    path = sent(shelf)
    assert (path.name, path.read_bytes()) == ("clip.mp4", b"abc")
    assert shelf.used() == 3


@pytest.mark.parametrize(
    ("number", "reason", "said"),
    [
        (errno.ENOSPC, "No space left on device", r"Expected room for the file, but the server is full\. Try again"),
        (errno.EROFS, "Read-only file system", r"but the server cannot \(Read-only file system\)\. Try again; when it"),
    ],
)
def test_disk_that_takes_no_more_is_told_and_nothing_stays(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, number: int, reason: str, said: str
) -> None:
    pytest.importorskip("starlette", reason="Gradio is not installed: pip install -e '.[app]'")

    def refuse(path: Path, *_: object) -> None:
        raise OSError(number, reason, str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RefusedError, match=said) as told:
        sent(shelf)
    assert told.value.status == 507
    assert [one.name for one in shelf.page.iterdir()] == ["samples"]
