"""Bodies of requests: counted while they come, refused when they are too large, stall, or come too slowly."""

from __future__ import annotations

import asyncio
import errno
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import PurePosixPath

from starlette.requests import Request

from earsight.app.limits import PageLimits, RefusedError
from earsight.app.storage import FULL, Session, Storage
from earsight.media.accept import CLIPS, PICTURES

STALL = 10.0
"""Longest time between two pieces of a body, in seconds; also the time after which the slowest rate holds."""
SLOWEST = 20_000
"""Fewest bytes a second of a body."""
AT_ONCE, AT_ONCE_CLIENT = 3, 24
"""Most uploads at once of one session, and of one client address."""
LARGEST_JSON = 10_000
"""Bytes of a request that is no upload."""


def ending_of(name: str) -> str:
    """The ending that an upload keeps; whatever else it was called is forgotten.

    >>> ending_of("../../etc/My Clip.MP4"), ending_of("page.html"), ending_of("")
    ('.mp4', '.bin', '.bin')
    """
    ending = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    return ending if ending in CLIPS | PICTURES else ".bin"


async def body(request: Request, most: int, too_large: str) -> AsyncIterator[bytes]:
    """The pieces of a request's body, of at most so many bytes."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdigit():
        raise RefusedError(400, "Expected a length that is a number, but got none. Send the file again.")
    refused = int(announced) > most
    received, begin = 0, time.monotonic()
    pieces = request.stream()
    while True:
        try:
            async with asyncio.timeout(STALL):
                piece = await anext(pieces)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise _slow() from None
        received += len(piece)
        late = time.monotonic() - begin - STALL
        if late > 0 and received < SLOWEST * late:
            raise _slow()
        if received > 2 * most:
            break
        # A browser that is still sending does not see an answer, so we read on for a while.
        refused = refused or received > most
        if not refused:
            yield piece
    if refused:
        raise RefusedError(413, too_large)


def _slow() -> RefusedError:
    return RefusedError(
        408, f"Expected at least {SLOWEST // 1000} kB a second, but the request came slower. Send it again."
    )


class Uploads:
    """Receives files into the storage.

    Args:
        storage: where they are kept.
        limits: of the page.
    """

    def __init__(self, storage: Storage, limits: PageLimits) -> None:
        self._storage, self._limits = storage, limits
        self._coming: Counter[str] = Counter()

    async def receive(self, request: Request, session_id: str) -> str:
        """Store the body of a request under a name of our own; gives the id of the upload."""
        try:
            return await self._received(request, self._storage.session(session_id))
        except RefusedError as error:
            if error.status not in (408, 413):  # a browser that is still sending does not see an answer
                with suppress(RefusedError, RuntimeError):  # the latter when all of it has come
                    async for _ in body(request, self._limits.bytes, ""):
                        pass
            raise

    async def _received(self, request: Request, session: Session) -> str:
        if session.uploading >= AT_ONCE or self._coming[session.client] >= AT_ONCE_CLIENT:
            raise RefusedError(
                429, "Expected fewer uploads at once, but there are many from your address. Try again in a minute."
            )
        session.uploading += 1
        self._coming[session.client] += 1
        try:
            return await self._stored(request, session)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise RefusedError(507, FULL) from error
            raise RefusedError(
                507,
                f"Expected to keep the file, but the server cannot ({error.strerror or 'unknown'}). Try again; when it "
                "stays so, tell whoever runs this page.",
            ) from error
        finally:
            session.uploading -= 1
            self._coming[session.client] -= 1
            self._coming += Counter()  # without those that have no upload left

    async def _stored(self, request: Request, session: Session) -> str:
        one = self._storage.create(session, "upload")
        try:
            with (one.folder / f"clip{ending_of(request.query_params.get('name', ''))}").open("xb") as out:
                async for piece in body(request, self._limits.bytes, self._limits.too_large):
                    self._storage.grow(session, one, len(piece))
                    out.write(piece)
            if not one.size:
                raise RefusedError(400, "Expected a file, but got an empty one. Choose another one.")
        except BaseException:
            self._storage.remove(session, one)
            raise
        return one.id
