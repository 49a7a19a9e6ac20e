"""The door of the page: lets in only the few requests that it needs, and out only files of its own folder.

Gradio can do much more than this page uses: fetch from other servers, follow links, tell of its own state. Whatever is
not named here is not found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from earsight.app.limits import PageLimits
from earsight.app.shelf import Shelf
from earsight.app.upload import RefusedError, receive

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

API = "/gradio_api"
FILE = f"{API}/file="
GET_EXACTLY = {
    "/", "/config", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json",
    *(API + one for one in ("/info", "/startup-events", "/app_id", "/queue/data", "/upload_progress", "/theme.css")),
}  # fmt: skip
GET_UNDER = ("/assets/", "/static/", "/svelte/", f"{API}/heartbeat/")
POST = {API + one for one in ("/queue/join", "/run/predict", "/cancel", "/reset")}
LARGEST_JSON = 200_000
"""Bytes of a request that is no upload."""
FULL = "Expected a free place in the queue, but too many people are waiting. Try again in a minute."
"""What is said when the queue is full."""
_BUSY = 503
LOCAL = ("localhost", "127.0.0.1", "[::1]")
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' blob: data:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
"""What a browser may load for the page: nothing from elsewhere."""
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Door:
    """ASGI middleware around Gradio's application.

    Args:
        app: what stands behind the door.
        shelf: the page's folder.
        limits: of the page.
        local: answer only to requests that call this machine by a local name, so that no web site can reach it.
    """

    def __init__(self, app: ASGIApp, shelf: Shelf, limits: PageLimits, local: bool) -> None:
        self._app, self._shelf, self._limits, self._local = app, shelf, limits, local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # the page uses no web sockets
            return
        try:
            await self._pass(scope, receive, _dressed(send))
        except RefusedError as error:
            from starlette.responses import PlainTextResponse

            await PlainTextResponse(str(error), error.status)(scope, receive, _dressed(send))

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        self._check_host(scope)
        if method in ("GET", "HEAD"):
            if path.startswith(FILE):
                wanted = path[len(FILE) :]
                if not (self._shelf.holds(wanted) and self._shelf.holds(unquote(wanted))):
                    raise RefusedError(403, "Expected a file of this page, but got another one. Go back to the page.")
            elif (path not in GET_EXACTLY and not path.startswith(GET_UNDER)) or ".." in path:
                raise RefusedError(404, "Expected an address of this page, but got another one. Go back to the page.")
            await self._app(scope, receive, send)
        elif method == "POST" and path == f"{API}/upload":
            await self._upload(scope, receive, send)
        elif method == "POST" and path in POST:
            await self._app(scope, await self._checked(receive), _in_our_words(send))
        else:
            raise RefusedError(404, "Expected an address of this page, but got another one. Go back to the page.")

    async def _upload(self, scope: Scope, receive_: Receive, send: Send) -> None:
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import JSONResponse

        try:
            path = await receive(Request(scope, receive_), self._shelf, self._limits)
        except ClientDisconnect:
            return
        await JSONResponse([str(path)])(scope, receive_, send)

    async def _checked(self, receive_: Receive) -> Receive:
        """The same request, once its body is seen to name no files but those of the page."""
        body = b""
        more = True
        while more:
            message = await receive_()
            if message["type"] == "http.disconnect":
                break
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > LARGEST_JSON:
                raise RefusedError(413, "Expected a short request, but got a long one. Go back to the page.")
        try:
            named = list(_paths(json.loads(body or b"{}")))
        except (ValueError, RecursionError) as error:
            raise RefusedError(400, "Expected JSON, but got something else. Go back to the page.") from error
        if not all(isinstance(one, str) and self._shelf.holds(one) for one in named):
            raise RefusedError(403, "Expected a file of this page, but got another one. Upload it first.")
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive_()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return again

    def _check_host(self, scope: Scope) -> None:
        """Refuse what another web site makes a browser send here; with --host, a server in front may rename."""
        if not self._local:
            return
        headers = {name: value.decode("latin-1").lower() for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in LOCAL:
            raise RefusedError(
                421, "Expected a local name such as localhost, but got another one. Start with --host to allow it."
            )
        if headers.get(b"origin", f"http://{host}") != f"http://{host}":
            raise RefusedError(403, "Expected a request of this page, but another one sent it. Go back to the page.")


def _in_our_words(send: Send) -> Send:
    """Says of a full queue what is the matter and what to do; Gradio's script shows words of its own for a 503."""
    full = False

    async def ours(message: Message) -> None:
        nonlocal full
        if message["type"] == "http.response.start" and message["status"] == _BUSY:
            full = True
            body = json.dumps({"detail": FULL}).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 429, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        elif not full:
            await send(message)

    return ours


def _paths(value: Any) -> Iterator[Any]:
    """Every path that a request names, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "path" and inner is not None:
                yield inner
            else:
                yield from _paths(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner)


def _dressed(send: Send) -> Send:
    """Adds headers to every answer."""

    async def dressed(message: Message) -> None:
        if message["type"] == "http.response.start":
            extra = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return dressed
