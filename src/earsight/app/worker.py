"""The page's end of the fork server: one clip at a time, with a deadline, and a new fork server when one is lost."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from earsight.app.fork_server import CANCEL, first_line
from earsight.app.limits import PageLimits
from earsight.errors import EarsightError

_START = 300.0  # seconds that a fork server may take to load its weights
_GRACE = 10.0  # seconds beyond a clip's run time after which the fork server itself is taken for stuck
_TICK = 0.25  # seconds after which a wish to cancel is looked for
_LONGEST = 8_000_000  # bytes of an answer; more is no answer
_BROKE_OFF = (
    "Expected a clip that can be worked on, but the work on it broke off. "
    "Convert the clip to mp4, or scale it down, and try again."
)
_NO_MODELS = "Expected the models to load, but their process ended. Set EARSIGHT_DEBUG=1 to see why."


class WorkError(EarsightError):
    """A clip that could not be worked on; the message is for the visitor."""


class CancelledError(EarsightError):
    """Nobody wants the answer any more."""


class Worker:
    """Asks a fork server to work on clips, one after another. One thread asks; any thread may close it.

    Args:
        weights: files or run folders of the models.
        device: where the models compute.
        limits: of the page.
        folder: where the fork server may keep what it needs while it works.
    """

    def __init__(self, weights: list[Path], device: str, limits: PageLimits, folder: Path) -> None:
        self._weights, self._device, self._limits, self._folder = weights, device, limits, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._ready = self._closed = False
        self._jobs = 0
        self.models: list[dict[str, Any]] = []
        """What the fork server says of each model, once it has started."""

    def begin(self) -> None:
        """Start the fork server without waiting for it."""
        self._end()
        if self._closed:
            raise WorkError(_NO_MODELS)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "earsight.app.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("EARSIGHT_DEBUG") else subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        self._ready = False
        self._write(first_line([str(path) for path in self._weights], self._device, self._limits))

    def start(self) -> None:
        """Start the fork server, where there is none, and wait until its models are loaded."""
        if self._process is None or self._process.poll() is not None:
            self.begin()
        if self._ready:
            return
        try:
            message = self._read(time.monotonic() + _START)
        except WorkError:
            self._end()
            raise WorkError(_NO_MODELS) from None
        if "error" in message:
            self._end()
            raise EarsightError(str(message["error"]))
        self.models, self._ready = list(message["ready"]), True

    def ask(
        self,
        clip: Path,
        sound: Path | None,
        out: Path,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool] = lambda: False,
    ) -> list[dict[str, Any]]:
        """Work on a clip; the files of the answer lie in `out`. What is wrong with the clip is raised as WorkError."""
        self.start()
        self._jobs += 1
        scratch = self._folder / f"job-{self._jobs}"
        job = {"clip": str(clip), "sound": str(sound or ""), "out": str(out), "scratch": str(scratch)}
        deadline = time.monotonic() + self._limits.run_seconds + _GRACE
        answer: dict[str, Any] = {}
        try:
            self._write(json.dumps(job) + "\n")
            while "end" not in (message := self._read(deadline, cancelled)):
                if "progress" in message:
                    progress(min(1.0, max(0.0, float(message["progress"]))))
                else:
                    answer = message
        except BaseException:
            self._end()  # what it still has to say of this clip would be taken for the next one's answer
            raise
        return self._checked(message["end"], answer)

    def close(self) -> None:
        """End the fork server at once, and with it a clip that is being worked on; there is none after it."""
        self._closed = True
        if (process := self._process) is not None and process.poll() is None:
            _kill(process)  # whoever waits for its answer sees that it is gone

    def _checked(self, end: str, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """The answers of the models, or an error that says why there are none."""
        if end == "cancelled":
            raise CancelledError
        if end == "late":
            raise WorkError(
                f"Expected a clip that is done in {self._limits.run_seconds:g} s, but this one takes longer. "
                "Cut it or scale it down, and try again."
            )
        if end or not ("done" in answer or "refused" in answer):
            raise WorkError(_BROKE_OFF)
        if "refused" in answer:
            reason, advice, which = (str(part) for part in answer["refused"])
            expected = "a file with sound" if which == "sound" else "a video with sound"
            raise WorkError(f"Expected {expected}, but the {which} {reason} {advice}".replace(str(self._folder), ""))
        return list(answer["done"])

    def _write(self, line: str) -> None:
        try:
            if self._process is None or self._process.stdin is None:
                raise WorkError(_BROKE_OFF)
            self._process.stdin.write(line.encode())
        except OSError as error:
            raise WorkError(_BROKE_OFF) from error

    def _read(self, deadline: float, cancelled: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """The next line that is a JSON object."""
        if self._process is None or self._process.stdout is None:
            raise WorkError(_BROKE_OFF)
        pipe = self._process.stdout.fileno()
        asked_to_cancel = False
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                with contextlib.suppress(ValueError):
                    if isinstance(message := json.loads(line), dict):
                        return message
                continue
            if not asked_to_cancel and cancelled():
                asked_to_cancel = True
                self._write(CANCEL)
            if time.monotonic() > deadline or len(self._rest) > _LONGEST:
                raise WorkError(_BROKE_OFF)
            if select.select([pipe], [], [], _TICK)[0]:
                more = os.read(pipe, 1 << 16)
                if not more:
                    raise WorkError(_BROKE_OFF)
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
