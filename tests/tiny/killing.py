"""Runs that are killed, at random or in the middle of writing, and what is left of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from earsight import checkpoint
from earsight.training.job import Job
from earsight.training.loop import train


def resume(job: Job, out: Path) -> None:
    train(job, out, device="cpu", resume=True)


def resume_until_write(job: Job, out: Path, name: str, nth: int, moment: str) -> None:
    """Go on, and die at the nth time that `name` is written: in the middle of it, before it is moved, or after."""
    _die_at_write(name, nth, moment)
    resume(job, out)


def command_until_write(args: list[str], name: str, nth: int) -> None:
    """Run a command of earsight, and die before the nth `name` that it writes is there."""
    from earsight.cli import main

    _die_at_write(name, nth, "before")
    main(args)


def _die_at_write(name: str, nth: int, moment: str) -> None:
    left = nth
    replace = Path.replace

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def count(path: Path) -> bool:
        nonlocal left
        left -= path.name.startswith(f".{name}.")
        return left == 0 and path.name.startswith(f".{name}.")

    def at_move(self: Path, target: Path) -> Path:
        if count(self):
            if moment == "torn":
                with self.open("r+b") as file:
                    file.truncate(self.stat().st_size // 2)
            if moment != "after":
                die()
            replace(self, target)
            die()
        return replace(self, target)

    Path.replace = at_move  # type: ignore[method-assign, assignment]


def read_strange_state(path: Path) -> None:
    """Read a file as the state of a run, though a stranger wrote it together with its hash."""
    from earsight.files import sha256
    from earsight.training.state import HASHES, read_state

    (path.parent / HASHES).write_text(sha256(path))
    read_state(path)


def contents(out: Path) -> tuple[dict[str, Any], Any, list[Any]]:
    """What a run ends with: tensors, calibration and numbers, and its log without the times."""
    from safetensors.torch import load_file

    from earsight.training.log import read_log

    header = checkpoint.read_header(out)
    timed = ("elapsed", "seconds", "clips_per_second", "waited")
    log = [{k: v for k, v in row.items() if k not in timed} for row in read_log(out / "log.jsonl")]
    return load_file(out / "weights.safetensors"), (header["calibration"], header["metrics"]), log
