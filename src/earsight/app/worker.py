"""The server's end of the nursery: one clip at a time, with a deadline, and a new nursery when one is lost."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from earsight.app.limits import PageLimits
from earsight.app.nursery import setup_line
from earsight.errors import EarsightError

_START = 300.0  # seconds that a nursery may take to load its weights
_GRACE = 10.0  # seconds beyond a clip's run time after which the nursery itself is taken for stuck
_LONGEST = 8_000_000  # bytes of an answer; more is no answer


class WorkError(EarsightError):
    """A clip that could not be worked on; the message is for the visitor."""


class _LostError(Exception):
    """The nursery has ended, hangs, or says what it should not."""


class Worker:
    """Asks a nursery to work on clips, one after another; safe to call from several threads.

    Args:
        weights: files or run folders of the models.
        device: where the models compute.
        limits: of the page.
        folder: where the nursery may keep what it needs while it works.
    """

    def __init__(self, weights: list[Path], device: str, limits: PageLimits, folder: Path) -> None:
        self._weights, self._device, self._limits, self._folder = weights, device, limits, folder
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._ready = False
        self._closed = False
        self._jobs = 0
        self.models: list[dict[str, Any]] = []
        """What the nursery told of each model, once it has started."""

    def begin(self) -> None:
        """Start the nursery without waiting for it."""
        with self._lock:
            self._begin()

    def start(self) -> None:
        """Start the nursery and wait until its models are loaded."""
        with self._lock:
            self._need_nursery()

    def ask(self, clip: Path, sound: Path | None, out: Path, tell: Callable[[float], None]) -> list[dict[str, Any]]:
        """Work on a clip; the files of the answer lie in `out`. What is wrong with the clip is raised as WorkError."""
        with self._lock:
            try:
                self._need_nursery()
                return self._ask(clip, sound, out, tell)
            except _LostError:
                self._end()
                raise WorkError(
                    "Expected a clip that can be worked on, but the work on it broke off. "
                    "Convert the clip to mp4 and try again."
                ) from None
            except WorkError:
                raise
            except BaseException:
                self._end()  # what it still has to say of this clip would be taken for the next one's answer
                raise

    def close(self) -> None:
        """End the nursery at once, and with it a clip that is being worked on; there is none after it."""
        self._closed = True
        if (process := self._process) is not None and process.poll() is None:
            _kill(process)  # whoever waits for its answer sees that it is gone, and lets go of the lock
        with self._lock:
            self._end()

    def _ask(self, clip: Path, sound: Path | None, out: Path, tell: Callable[[float], None]) -> list[dict[str, Any]]:
        self._jobs += 1
        scratch = self._folder / f"job-{self._jobs}"
        job = {"clip": str(clip), "sound": str(sound or ""), "out": str(out), "scratch": str(scratch)}
        self._write(json.dumps(job) + "\n")
        deadline = time.monotonic() + self._limits.run_seconds + _GRACE
        found: dict[str, Any] = {}
        while "end" not in (said := self._read(deadline)):
            if "progress" in said:
                tell(min(1.0, max(0.0, float(said["progress"]))))
            else:
                found = said
        if said["end"] == "late":
            raise WorkError(
                f"Expected a clip that is done in {self._limits.run_seconds:g} s, but this one takes longer. "
                "Cut it or scale it down, and try again."
            )
        if said["end"] or not ("done" in found or "refused" in found):
            raise WorkError(
                "Expected a clip that can be worked on, but the work on it broke off. "
                "Convert the clip to mp4, or scale it down, and try again."
            )
        if "refused" in found:
            reason, advice, which = (str(part) for part in found["refused"])
            expected = "a file with sound" if which == "sound" else "a video with sound"
            raise WorkError(f"Expected {expected}, but the {which} {reason} {advice}".replace(str(self._folder), ""))
        return list(found["done"])

    def _begin(self) -> None:
        self._end()
        if self._closed:
            raise _LostError
        self._process = subprocess.Popen(
            [sys.executable, "-m", "earsight.app.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("EARSIGHT_DEBUG") else subprocess.DEVNULL,
            start_new_session=True,
        )
        self._ready = False
        self._write(setup_line([str(path) for path in self._weights], self._device, self._limits))

    def _need_nursery(self) -> None:
        try:
            if self._process is None or self._process.poll() is not None:
                self._begin()
            if self._ready:
                return
            said = self._read(time.monotonic() + _START)
        except _LostError:
            self._end()
            raise WorkError(
                "Expected the models to load, but their process ended. Set EARSIGHT_DEBUG=1 to see why."
            ) from None
        if "error" in said:
            self._end()
            raise EarsightError(str(said["error"]))
        self.models, self._ready = list(said["ready"]), True

    def _pipe(self, name: str) -> IO[bytes]:
        pipe = getattr(self._process, name)
        if pipe is None:
            raise _LostError
        return pipe  # type: ignore[no-any-return]

    def _write(self, line: str) -> None:
        try:
            pipe = self._pipe("stdin")
            pipe.write(line.encode())
            pipe.flush()
        except OSError as error:
            raise _LostError from error

    def _read(self, deadline: float) -> dict[str, Any]:
        """The next line that is a JSON object."""
        pipe = self._pipe("stdout").fileno()
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                with contextlib.suppress(ValueError):
                    if isinstance(said := json.loads(line), dict):
                        return said
                continue
            left = deadline - time.monotonic()
            if left <= 0 or len(self._rest) > _LONGEST or not select.select([pipe], [], [], left)[0]:
                raise _LostError
            more = os.read(pipe, 1 << 16)
            if not more:
                raise _LostError
            self._rest += more

    def _end(self) -> None:
        process, self._process, self._rest = self._process, None, b""
        if process is None:
            return
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
