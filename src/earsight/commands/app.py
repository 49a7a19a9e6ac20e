"""`earsight app`: the web page, on this machine alone unless asked otherwise."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from earsight.app.limits import PageLimits
from earsight.commands.screen import note, say


def run(
    weights: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 7860,
    device: str = "auto",
    every: float = 0.2,
    max_mb: float = 100.0,
    max_seconds: float = 60.0,
    max_pixels: int = 3840 * 2160,
    max_queue: int = 16,
    max_run_seconds: float = 300.0,
    max_memory: float = 3.0,
    keep: float = 3600.0,
) -> int:
    """Serve the page until Ctrl-C or SIGTERM."""
    from earsight.app.server import LOOPBACK, need_gradio, serving

    need_gradio()
    limits = PageLimits(
        megabytes=max_mb,
        seconds=max_seconds,
        pixels=max_pixels,
        queue=max_queue,
        run_seconds=max_run_seconds,
        memory=max_memory,
        keep=keep,
        every=every,
    )
    if host not in LOOPBACK:
        note(f"warning: --host {host} lets everyone who can reach this machine use the page; it has no password")
    note("loading the models and drawing the samples")
    over = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        over.set()

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        with serving(weights, device=device, host=host, port=port, limits=limits) as address:
            say(f"earsight is at {address}")
            note("stop it with Ctrl-C")
            while not over.wait(1.0):
                pass
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    return 0
