"""The request filter: refuses requests of other web sites and of strangers, and adds the security headers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import re
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from earsight.app.limits import RefusedError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = ("localhost", "127.0.0.1", "[::1]")
HEADER = "x-earsight-session"
"""Every request that changes something has it. Browsers let no other web site send it."""
TRIES, TRIES_SECONDS = 10, 60.0
"""Most wrong passwords of one client address in that many seconds."""
_FOREIGN = "Expected a request of this page, but another one sent it. Go back to the page."
_log = logging.getLogger(__name__)


def content_policy(html: str) -> str:
    """What a browser may load for the page: its own script and style, and nothing from elsewhere."""

    def hashes(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in found)

    return (
        f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; connect-src 'self'; "
        "img-src 'self' blob: data:; media-src 'self' blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


class RequestFilter:
    """ASGI middleware around the page's routes.

    Args:
        app: the routes.
        policy: what a browser may load.
        local: answer only to requests that call this machine by a local name, so that no web site can reach it.
        password: what a visitor has to know, or "".
    """

    def __init__(self, app: ASGIApp, policy: str, local: bool, password: str = "") -> None:
        self._app, self._local = app, local
        self._password = _digest(password.encode()) if password else b""
        self._wrong: defaultdict[str, list[float]] = defaultdict(list)
        headers = {
            "content-security-policy": policy,
            "permissions-policy": "camera=(self), microphone=(self)",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
        }
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the page uses no web sockets
            return
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            return
        except RefusedError as error:
            if begun:
                raise
            headers = {"www-authenticate": 'Basic realm="earsight", charset="UTF-8"'} if error.status == 401 else None
            answer = JSONResponse({"error": str(error)}, error.status, headers)
            await answer(scope, receive, send_with_headers)
        except Exception as error:
            if os.environ.get("EARSIGHT_DEBUG"):
                raise
            _log.error("a request failed: %s: %.200r", type(error).__name__, str(error))
            if not begun:
                text = "Expected to answer this request, but the server failed. Try again."
                await JSONResponse({"error": text}, 500)(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "").lower()
        if self._local:
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name not in LOCAL:
                raise RefusedError(
                    421, "Expected a local name such as localhost, but got another one. Start with --host to allow it."
                )
            # With --host a server in front may call this one by another name.
            if headers.get("origin", f"http://{host}").lower() != f"http://{host}":
                raise RefusedError(403, _FOREIGN)
        if self._password:
            self._check_password((scope.get("client") or ("",))[0], headers.get("authorization", ""))
        changes = scope["method"] not in ("GET", "HEAD")
        if changes and (HEADER not in headers or headers.get("sec-fetch-site", "same-origin") != "same-origin"):
            raise RefusedError(403, _FOREIGN)

    def _check_password(self, client: str, given: str) -> None:
        asks = "Expected the password of this page, but got {}. Reload the page and type it."
        scheme, _, value = given.partition(" ")
        if scheme.lower() != "basic":
            raise RefusedError(401, asks.format("none"))
        begin = time.monotonic() - TRIES_SECONDS
        tries = [one for one in self._wrong.pop(client, ()) if one > begin]
        if tries:
            self._wrong[client] = tries
        if len(tries) >= TRIES:
            raise RefusedError(429, "Expected a right password, but there were many wrong ones. Try again in a minute.")
        try:
            password = base64.b64decode(value, validate=True).partition(b":")[2]  # any user name will do
        except ValueError:
            password = b""
        if not hmac.compare_digest(_digest(password), self._password):
            self._wrong[client].append(time.monotonic())
            raise RefusedError(401, asks.format("another one"))


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
