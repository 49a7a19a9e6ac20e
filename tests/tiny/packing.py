"""Packing that takes its time and may be killed: at random, or at a certain write."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from earsight.data import packing
from earsight.data.clips import ClipSet
from earsight.data.manifest import Part, Settings
from earsight.data.packing import Outcome
from earsight.types import Clip
from tiny.tones import Tones

SETTINGS = Settings(size=32, rate=4000, seconds=0.25, shard_rows=4)


def pack(
    clips: ClipSet, out: Path, settings: Settings = SETTINGS, *, spec: str = "", limit: int = 0, **more: Any
) -> Outcome:
    """Pack a set under its own name, unless another is given."""
    return packing.pack(Part(spec or clips.name, clips, settings, limit), out, **more)


class Slow(Tones):
    """The tones, of which each takes a few milliseconds to read; two are torn."""

    pause = 0.004

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        time.sleep(self.pause)
        return super().read(index, rate, seconds, draw)


def go(out: Path, workers: int = 0) -> None:
    """Pack, or go on with it. `begun` appears beside the pack when everything was imported."""
    (out.parent / f"{out.name}-begun").touch()
    pack(Slow("torn"), out, SETTINGS, workers=workers)


def go_until_move(out: Path, nth: int, torn: bool) -> None:
    """Go on, and die at the nth time that a file is moved into place: half written before it, or right after."""
    left = nth
    replace = Path.replace

    def at_move(self: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left == 0 and torn:
            with self.open("r+b") as file:
                file.truncate(self.stat().st_size // 2)
        elif left == 0:
            replace(self, target)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(self, target)

    Path.replace = at_move  # type: ignore[method-assign, assignment]
    go(out)


def contents(out: Path) -> dict[str, bytes]:
    """Every file of a pack."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
