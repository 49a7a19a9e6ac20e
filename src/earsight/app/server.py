"""The page's server: its routes, and everything that starts and ends with it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earsight.app.limits import PageLimits, RefusedError
from earsight.config import need
from earsight.errors import EarsightError
from earsight.media.accept import PICTURES, SOUNDS, VIDEOS

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from earsight.app.jobs import JobQueue
    from earsight.app.samples import Sample
    from earsight.app.storage import Storage

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ELSEWHERE = "Expected an address of this page, but got another one. Go back to the page."
_RESULT = re.compile(r"earsight-[12]\.(mp4|png|json)")
_TOO_LONG = "Expected a short request, but got a long one. Go back to the page."
_FIRST_REQUEST = 15.0  # seconds until a connection has sent the head of its first request
_STUCK = 120.0  # seconds after which a connection that takes no data is closed; a player asks again for what it needs
_KEEP = {"cache-control": "private, max-age=3600"}  # its address is secret and its content never changes
_FORGET = {"cache-control": "no-store"}


def titles_of(weights: Sequence[Path], models: Sequence[dict[str, object]]) -> list[str]:
    """What to call models on the page: their files' names and methods, all different.

    >>> titles_of([Path("runs/a/weights.safetensors"), Path("runs/b")], [{"method": "slavc"}, {"method": "lvs"}])
    ['a (slavc)', 'b (lvs)']
    """
    names = []
    for path, model in zip(weights, models, strict=True):
        name = path.parent.name if path.stem in ("weights", "model") and path.parent.name else path.stem or path.name
        method = str(model.get("method") or "")
        names.append(f"{name} ({method})" if method and method != name else name)
    return [name if names.count(name) == 1 else f"{at}: {name}" for at, name in enumerate(names, 1)]


@dataclass(frozen=True)
class Address:
    """Where to listen, and the password that visitors are asked for, or ""."""

    host: str = "127.0.0.1"
    port: int = 0
    password: str = ""

    def __post_init__(self) -> None:
        need(0 <= self.port <= 65535, "a port from 0 to 65535", self.port)


@contextmanager
def serving(weights: Sequence[Path], address: Address, *, device: str, limits: PageLimits) -> Iterator[str]:
    """Serve the page; gives its URL, and stops at the end of the block."""
    need(hasattr(os, "fork"), "a system that can fork processes, such as Linux", sys.platform)
    need(1 <= len(weights) <= 2, "one or two weights", len(weights), "Two are shown side by side.")
    from earsight.app.jobs import JobQueue
    from earsight.app.request_filter import RequestFilter, content_policy
    from earsight.app.samples import write_samples
    from earsight.app.storage import Storage
    from earsight.app.worker import Worker

    with ExitStack() as stack:
        listener = stack.enter_context(_listener(address))
        storage = stack.enter_context(Storage(limits.keep, limits.room))
        worker = Worker(list(weights), device, limits, storage.work)
        stack.callback(worker.close)
        worker.begin()  # its models load while the samples are drawn
        samples = write_samples(storage.samples)
        worker.start()
        queue = JobQueue(worker, storage, limits.queue)
        stack.callback(queue.close)
        html = files("earsight.app").joinpath("page.html").read_text(encoding="utf-8")
        routes = _routes(html, queue, storage, samples, titles_of(weights, worker.models), limits)
        app = RequestFilter(routes, content_policy(html), address.host in LOOPBACK, address.password)
        stack.enter_context(_running(app, listener))
        name = f"[{address.host}]" if ":" in address.host else address.host
        yield f"http://{name}:{listener.getsockname()[1]}/"


def _routes(
    html: str,
    queue: JobQueue,
    storage: Storage,
    samples: Sequence[Sample],
    titles: Sequence[str],
    limits: PageLimits,
) -> Starlette:
    """The few addresses that the page needs; whatever else is asked for is not found."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import FileResponse, HTMLResponse, JSONResponse
    from starlette.routing import Route

    from earsight.app.jobs import GONE
    from earsight.app.request_filter import HEADER
    from earsight.app.upload import LARGEST_JSON, Uploads, body

    uploads = Uploads(storage, limits)
    about = {
        "models": list(titles),
        "samples": [sample.title for sample in samples],
        "limits": {"bytes": limits.bytes, "megabytes": limits.megabytes, "seconds": limits.seconds},
        "too_large": limits.too_large,
        "endings": {"video": sorted(VIDEOS), "sound": sorted(SOUNDS), "picture": sorted(PICTURES)},
    }

    def answer(values: dict[str, Any], status: int = 200) -> Response:
        return JSONResponse(values, status, _FORGET)

    def session_id(request: Request) -> str:
        return request.headers.get(HEADER, "")

    async def page(request: Request) -> Response:
        return HTMLResponse(html, headers=_FORGET)

    async def open_session(request: Request) -> Response:
        client = request.client.host if request.client else ""
        return answer({"session": storage.open_session(client).id, **about})

    async def close_session(request: Request) -> Response:
        queue.cancel(session_id(request))
        storage.close_session(session_id(request))
        return answer({})

    async def upload(request: Request) -> Response:
        return answer({"upload": await uploads.receive(request, session_id(request))})

    async def localize(request: Request) -> Response:
        session = storage.session(session_id(request))
        content = b"".join([piece async for piece in body(request, LARGEST_JSON, _TOO_LONG)])
        try:
            values = json.loads(content)
            clip, sound = values["clip"], values["sound"]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise RefusedError(400, "Expected JSON with a clip and a sound, but got something else.") from None
        if clip is None:
            raise RefusedError(400, "Expected a clip, but got none. Drop one, record one, or pick a sample.")

        def file(name: object) -> Path:
            found = re.fullmatch(r"sample-([0-9])", name) if isinstance(name, str) else None
            if found and int(found[1]) < len(samples):
                return samples[int(found[1])].clip
            path = storage.upload(session, name) if isinstance(name, str) else None
            if path is None:
                raise RefusedError(410, GONE)
            return path

        job = queue.submit(session, file(clip), None if sound is None else file(sound))
        return answer({"id": job.id}, 202)

    async def status(request: Request) -> Response:
        storage.session(session_id(request))
        return answer(queue.status(session_id(request)))

    async def cancel(request: Request) -> Response:
        queue.cancel(session_id(request))
        return answer({})

    async def result(request: Request) -> Response:
        name = request.path_params["name"]
        path = storage.result(request.path_params["id"], name) if _RESULT.fullmatch(name) else None
        if path is None:
            raise RefusedError(404, "Expected a result that is still here, but it is gone. Localize the clip again.")
        return FileResponse(path, headers=_KEEP)

    async def sample(request: Request) -> Response:
        found = re.fullmatch(r"([0-9])\.(mp4|png)", request.path_params["name"])
        if not found or int(found[1]) >= len(samples):
            raise RefusedError(404, ELSEWHERE)
        one = samples[int(found[1])]
        return FileResponse(one.clip if found[2] == "mp4" else one.picture, headers=_KEEP)

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, RefusedError):
            return answer({"error": str(error)}, error.status)
        if isinstance(error, HTTPException):  # no such route, or not with this method
            return answer({"error": ELSEWHERE}, error.status_code)
        return answer({"error": "Expected to answer this request, but the server failed. Try again."}, 500)

    return Starlette(
        routes=[
            Route("/", page, methods=["GET"]),
            Route("/api/session", open_session, methods=["POST"]),
            Route("/api/session", close_session, methods=["DELETE"]),
            Route("/api/uploads", upload, methods=["POST"]),
            Route("/api/job", localize, methods=["POST"]),
            Route("/api/job", status, methods=["GET"]),
            Route("/api/job", cancel, methods=["DELETE"]),
            Route("/results/{id}/{name}", result, methods=["GET"]),
            Route("/samples/{name}", sample, methods=["GET"]),
        ],
        exception_handlers={RefusedError: refused, HTTPException: refused, Exception: refused},
    )


@contextmanager
def _running(app: Any, listener: socket.socket) -> Iterator[None]:
    """Serve an application in a thread of its own."""
    import uvicorn

    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        app,
        http=_connection_class(),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="earsight-server", daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.02)
        yield
    finally:
        server.should_exit = True
        thread.join(10)


def _connection_class() -> type[asyncio.Protocol]:
    """A connection of uvicorn's that ends when it is idle or stuck, and costs one log line when it is malformed."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Connection(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._close_in(_FIRST_REQUEST)

        def _should_upgrade(self) -> bool:
            return False

        def data_received(self, data: bytes) -> None:
            try:
                super().data_received(data)
            except Exception as error:  # h11 and uvicorn do not foresee every malformed request
                self.logger.warning("Invalid HTTP request received (%s).", type(error).__name__)
                self.transport.abort()
            if self.cycle is not None:
                self._stop_timer()

        def send_400_response(self, msg: str) -> None:
            if self.cycle is not None:  # what the application still says goes nowhere
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            super().send_400_response(msg)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._close_in(_STUCK)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _close_in(self, seconds: float) -> None:
            self._stop_timer()
            self._timer = self.loop.call_later(seconds, self.transport.abort)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Connection


def _listener(address: Address) -> socket.socket:
    """A socket that listens there; a busy port fails before any model is loaded."""
    host, port = address.host, address.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(found[0], found[1])
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(found[4])
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise EarsightError(
            f"Expected to listen at {host}:{port}, but that is not possible: {why}. Choose another --port or --host."
        ) from error
    return listener
