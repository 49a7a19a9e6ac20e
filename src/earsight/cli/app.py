"""`earsight app`: the web page, on this machine alone unless asked otherwise."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Annotated

from earsight.cli.screen import note, say
from earsight.cli.settings import Device, Many, require, word
from earsight.config import need

SHORTEST = 8
"""Letters of a password."""


@dataclass(frozen=True, kw_only=True)
class App:
    """Serve a web page that localizes clips: drop one, record one, swap sounds, compare two models."""

    weights: Annotated[Many, word("WEIGHTS")]
    """Weights file, folder of a run, or exported folder; a second one is shown beside the first."""
    host: Annotated[str, word("ADDRESS", default=None)] = "127.0.0.1"
    """Where to listen; by default only this machine can reach the page."""
    port: Annotated[int, word("N", default=None)] = 7860
    """Where to listen; 0 for any that is free."""
    password: Annotated[str, word("TEXT")] = ""
    """Ask every visitor for it. Others on this machine can read it here, but not in the variable EARSIGHT_PASSWORD."""
    device: Device = "auto"
    every: Annotated[float, word("SECONDS", default=None)] = 0.2
    """Time between two answers."""
    max_mb: Annotated[float, word("MB", default=None)] = 100.0
    """Largest upload, in millions of bytes."""
    max_seconds: Annotated[float, word("SECONDS", default=None)] = 60.0
    """Longest clip."""
    max_pixels: Annotated[int, word("N", default=None)] = 8_294_400
    """Largest frame, width times height."""
    max_queue: Annotated[int, word("N", default=None)] = 16
    """Most clips that wait, half of them from one address; other visitors are asked to come back."""
    max_run_seconds: Annotated[float, word("SECONDS", default=None)] = 300.0
    """Longest time that one clip may be worked on."""
    max_memory: Annotated[float, word("GB", default=None)] = 3.0
    """Memory that the work on one clip may take beside the models."""
    keep: Annotated[float, word("SECONDS", default=None)] = 3600.0
    """Time after which files of visitors are removed; those of a page that is closed go at once."""


def run(settings: App) -> int:
    """Serve the page until Ctrl-C or SIGTERM."""
    from earsight.app.limits import PageLimits
    from earsight.onnxfile import is_export

    require("app")
    if not all(map(is_export, settings.weights)):
        require("train", "torch", "torchvision")
    from earsight.app.server import LOOPBACK, Address, serving

    limits = PageLimits(
        megabytes=settings.max_mb,
        seconds=settings.max_seconds,
        pixels=settings.max_pixels,
        queue=settings.max_queue,
        run_seconds=settings.max_run_seconds,
        memory=settings.max_memory,
        keep=settings.keep,
        every=settings.every,
    )
    password = settings.password or os.environ.get("EARSIGHT_PASSWORD", "")
    letters = len(password)
    need(
        not password or letters >= SHORTEST, f"a password of at least {SHORTEST} letters", letters, "Take a longer one."
    )
    if settings.host not in LOOPBACK and not password:
        who = "everyone who can reach this machine"
        note(f"warning: --host {settings.host} lets {who} use the page; --password asks them for a password")
    note("loading the models and drawing the samples")
    over = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        over.set()

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        where = Address(settings.host, settings.port, password)
        with serving(settings.weights, where, device=settings.device, limits=limits) as address:
            say(f"earsight is at {address}")
            note("stop it with Ctrl-C")
            while not over.wait(1.0):
                pass
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    return 0
