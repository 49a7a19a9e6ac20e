"""Starts the page: its folder, its samples, its worker, its door. Everything ends with the block."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from earsight.app.limits import PageLimits
from earsight.app.samples import write_samples
from earsight.app.shelf import Shelf
from earsight.app.worker import Worker
from earsight.config import need
from earsight.errors import EarsightError, UsageError, how_to_install

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SETTINGS = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_SERVER_NAME": "",
    "GRADIO_SHARE": "False",
    "GRADIO_SSR_MODE": "False",
    "GRADIO_MCP_SERVER": "False",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
"""Gradio reads these when it is imported; with them it asks no other machine for anything."""


def need_gradio() -> None:
    """Say how to install Gradio where it is missing."""
    if find_spec("gradio") is None:
        raise UsageError(
            f"Expected Gradio for the web page, but it is not installed. Install it, {how_to_install('app')}"
        )


def titles_of(weights: Sequence[Path], models: Sequence[dict[str, object]]) -> list[str]:
    """What to call models on the page: their files' names, and what tells them apart.

    >>> titles_of([Path("runs/a/weights.safetensors"), Path("runs/b")], [{"method": "slavc"}, {"method": "lvs"}])
    ['a (slavc)', 'b (lvs)']
    """
    names = []
    for path, model in zip(weights, models, strict=True):
        name = path.parent.name if path.stem == "weights" and path.parent.name else path.stem or path.name
        method = str(model.get("method") or "")
        names.append(f"{name} ({method})" if method and method != name else name)
    return [name if names.count(name) == 1 else f"{at}: {name}" for at, name in enumerate(names, 1)]


@contextmanager
def serving(weights: Sequence[Path], *, device: str, host: str, port: int, limits: PageLimits) -> Iterator[str]:
    """Serve the page; gives its address, and stops at the end of the block."""
    need(1 <= len(weights) <= 2, "one or two weights", len(weights), "Two are shown side by side.")
    need(0 <= port <= 65535, "a port from 0 to 65535", port)
    need_gradio()
    _need_free(host, port)
    with ExitStack() as held:
        shelf = held.enter_context(Shelf(limits.keep))
        _prepare(shelf, held)
        worker = Worker(list(weights), device, limits, shelf.work)
        held.callback(worker.close)
        worker.begin()  # its models load while the samples are drawn
        samples = write_samples(shelf.samples)
        worker.start()
        from starlette.middleware import Middleware

        from earsight.app import look
        from earsight.app.door import Door
        from earsight.app.page import build
        from earsight.app.theme import theme
        from earsight.app.visit import Desk

        page = build(Desk(worker, shelf, samples, limits.room), titles_of(weights, worker.models), limits)
        page.queue(max_size=limits.queue, api_open=False)
        # Gradio looks a thousand times a second for something to do, which takes a tenth of a core of an idle page.
        if (queue := getattr(page, "_queue", None)) is not None:  # no part of what Gradio promises to keep
            queue.sleep_when_free, queue.progress_update_sleep_when_free = 0.05, 0.1
        held.callback(page.close, verbose=False)
        door = Middleware(Door, shelf=shelf, limits=limits, local=host in LOOPBACK)
        try:
            _, address, _ = page.launch(
                server_name=host,
                server_port=port or _free_port(host),
                share=False,
                inbrowser=False,
                prevent_thread_lock=True,
                quiet=True,
                show_error=False,
                ssr_mode=False,
                mcp_server=False,
                pwa=False,
                run_history=False,
                enable_monitoring=False,
                allowed_paths=[],
                blocked_paths=[str(shelf.work)],
                state_session_capacity=200,
                max_threads=8,
                footer_links=[],
                app_kwargs={"middleware": [door], "docs_url": None, "redoc_url": None, "openapi_url": None},
                theme=theme(),
                css=look.CSS,
                head=look.head(limits),
            )
        except OSError as error:
            raise _taken(host, port, "something else listens there") from error
        yield address


def _prepare(shelf: Shelf, held: ExitStack) -> None:
    """Tell Gradio where to keep files, before it is imported; all temporary files go into the page's folder too."""
    if "gradio" in sys.modules and os.environ.get("GRADIO_TEMP_DIR") != str(shelf.page):
        raise EarsightError("Expected to import Gradio first here, but something else did. Start a new process.")
    settings = {**_SETTINGS, "GRADIO_TEMP_DIR": str(shelf.page), "GRADIO_EXAMPLES_CACHE": str(shelf.samples)}
    held.callback(_restore, {name: os.environ.get(name) for name in settings})
    held.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
    os.environ.update(settings)
    tempfile.tempdir = str(shelf.work)


def _restore(values: dict[str, str | None]) -> None:
    """Set variables of the environment to what they were."""
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _need_free(host: str, port: int) -> None:
    """Refuse a place where nobody can listen, before anything is loaded."""
    try:
        _bound(host, port)
    except OSError as error:
        raise _taken(host, port, (error.strerror or str(error)).lower()) from error


def _taken(host: str, port: int, why: str) -> EarsightError:
    return EarsightError(
        f"Expected to listen at {host}:{port}, but that is not possible: {why}. Choose another --port or --host."
    )


def _free_port(host: str) -> int:
    return _bound(host, 0)


def _bound(host: str, port: int) -> int:
    """The port that a socket got which was bound there for a moment."""
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        return int(one.getsockname()[1])
