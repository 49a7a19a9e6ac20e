"""Receiving a file: counted while it comes, refused as soon as it is too large, and never called what it was called."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from earsight.app.limits import PageLimits
from earsight.app.shelf import Shelf
from earsight.errors import EarsightError
from earsight.media.accept import CLIPS

if TYPE_CHECKING:
    from starlette.requests import Request

_WRAPPING = 100_000  # bytes that a form may add to its file


class RefusedError(EarsightError):
    """An upload that is not taken; `status` is what HTTP calls the reason."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def too_large(megabytes: float) -> str:
    """What is said of a file over the limit, here and by the page's script."""
    return (
        f"Expected a file of at most {megabytes:g} MB, but this one is larger. Cut it or scale it down, and try again."
    )


def ending_of(name: str) -> str:
    """The ending that an upload keeps, since browsers play a file by it; whatever else it was called is forgotten.

    >>> ending_of("../../etc/My Clip.MP4"), ending_of("page.html"), ending_of("")
    ('.mp4', '.bin', '.bin')
    """
    ending = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    return ending if ending in CLIPS else ".bin"


async def receive(request: Request, shelf: Shelf, limits: PageLimits) -> Path:
    """Store the one file of a form in the page's folder, under a name of our own."""
    from anyio import to_thread

    most = limits.bytes + _WRAPPING
    try:
        announced = int(request.headers.get("content-length", "0"))
    except ValueError:
        announced = -1
    if announced < 0:
        raise RefusedError(400, "Expected a length that is a number, but got none. Send the file again.")
    if announced > most:
        await _drain(request, 2 * most)
        raise RefusedError(413, too_large(limits.megabytes))
    full = RefusedError(507, "Expected room for the file, but the server is full. Try again in some minutes.")
    # What does not say how large it is may be as large as any.
    with shelf.expecting(announced or most):
        if await to_thread.run_sync(shelf.used) > limits.room:
            raise full
        try:
            return await _stored(request, shelf, limits)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise full from error
            raise RefusedError(
                507,
                f"Expected to keep the file, but the server cannot ({error.strerror or 'unknown'}). Try again; when it "
                "stays so, tell whoever runs this page.",
            ) from error


async def _stored(request: Request, shelf: Shelf, limits: PageLimits) -> Path:
    from starlette.datastructures import UploadFile
    from starlette.formparsers import MultiPartException, MultiPartParser

    most = limits.bytes + _WRAPPING

    async def counted() -> AsyncGenerator[bytes, None]:
        count = 0
        async for piece in request.stream():
            count += len(piece)
            if count > most:
                raise RefusedError(413, too_large(limits.megabytes))
            yield piece

    try:
        form = await MultiPartParser(request.headers, counted(), max_files=1, max_fields=1).parse()
    except (MultiPartException, KeyError, ValueError, UnicodeError) as error:
        raise RefusedError(400, "Expected a form with one file, but got something else. Choose one file.") from error
    try:
        files = [value for value in form.values() if isinstance(value, UploadFile)]
        if not files:
            raise RefusedError(400, "Expected a form with one file, but got none. Choose a file.")
        size = files[0].size or 0
        if size > limits.bytes:
            raise RefusedError(413, too_large(limits.megabytes))
        folder = shelf.place()
        path = folder / f"clip{ending_of(files[0].filename or '')}"
        try:
            with path.open("xb") as out:
                while piece := await files[0].read(1 << 20):
                    out.write(piece)
        except OSError:
            shelf.remove(folder)
            raise
        return path
    finally:
        await form.close()


async def _drain(request: Request, most: int) -> None:
    """Read on for a while without keeping anything: a browser that is still sending does not see our answer."""
    count = 0
    async for piece in request.stream():
        count += len(piece)
        if count > most:
            return
