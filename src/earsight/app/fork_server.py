"""The fork server: it holds the models and forks a fresh process for every clip, so that what a file breaks dies there.

The fork server itself never opens an upload. It has loaded the weights but computed nothing, so forking it is safe and
takes no time. Jobs come as lines of JSON on stdin, and answers go out as lines of JSON on stdout. The limits on a clip
are those of Linux; macOS has no limit on address space, and Windows cannot fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from earsight.app.job import Progress, localize_clip
from earsight.app.limits import MB, PageLimits
from earsight.errors import EarsightError, MediaError
from earsight.onnxfile import is_export

if TYPE_CHECKING:
    from earsight.localize import Localizer

CANCEL = "cancel\n"
"""The line that ends the job at hand."""
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl
_TICK = 0.02  # seconds between two looks at a child
_TOO_MUCH_MEMORY = "takes too much memory."


def main() -> None:
    """Load the weights that the first line names, say so, and work until stdin ends."""
    _die_with_parent()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints must not look like an answer
    lines = _Lines(0)
    setup = json.loads(next(lines))
    for name in ("av", "PIL.Image", "earsight.localize"):
        importlib.import_module(name)  # here, so that no child has to
    limits = PageLimits(**setup["limits"])
    try:
        models = [_Model(path) for path in setup["weights"]]
    except EarsightError as error:
        _send(answers, error=str(error))
        return
    gc.collect()
    gc.freeze()  # what is there now is shared with every child, and stays so as long as nobody touches it
    _send(answers, ready=[model.about for model in models])
    for line in lines:
        if line != CANCEL.strip():  # a job that ended just before it was cancelled
            _run_job(json.loads(line), models, setup["device"], limits, answers, lines)


def first_line(weights: list[str], device: str, limits: PageLimits) -> str:
    """The first line that a fork server reads."""
    return json.dumps({"weights": weights, "device": device, "limits": asdict(limits)}) + "\n"


class _Lines(Iterator[str]):
    """The lines that come from a pipe; `coming` says whether there is more without waiting for it."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._rest = pipe, b""

    def __next__(self) -> str:
        while b"\n" not in self._rest:
            more = os.read(self._pipe, 1 << 16)
            if not more:
                raise StopIteration
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def coming(self, seconds: float) -> bool:
        return b"\n" in self._rest or bool(select.select([self._pipe], [], [], seconds)[0])


class _Model:
    """Weights that children use: held ready for them, unless they compute elsewhere than on the processor."""

    def __init__(self, path: str) -> None:
        from earsight.localize import Localizer

        self.path, self.exported = path, is_export(path)
        if not self.exported:
            import torch

            importlib.import_module("earsight.data.view")
            torch.set_num_threads(1)  # a thread that exists at a fork is missing in the child
        found = Localizer.load(path, "cpu")
        self.about = {"method": str(found.meta.get("method", "")), "threshold": found.threshold}
        # An exported model has threads of its own, so every child loads it anew, which is quick.
        self._held = None if self.exported else found

    def load(self, device: str) -> Localizer:
        """The model on a device, for a child."""
        from earsight.localize import Localizer

        if self.exported:
            return Localizer.load(self.path, device)
        import torch

        torch.set_num_threads(os.cpu_count() or 1)
        return self._held if self._held is not None and device == "cpu" else Localizer.load(self.path, device)


def _run_job(
    job: dict[str, str], models: list[_Model], device: str, limits: PageLimits, answers: TextIO, lines: _Lines
) -> None:
    """Fork a child for a job, kill it when its time is up or it is cancelled, and say how it ended."""
    scratch = Path(job["scratch"])
    scratch.mkdir(mode=0o700)
    child = os.fork()
    if child == 0:
        _run_child(job, models, device, limits, answers)
    deadline = time.monotonic() + limits.run_seconds
    killed = ""
    # Its group is killed before its number is given back, so that no other process can be hit.
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if killed:
            time.sleep(_TICK)
        elif time.monotonic() > deadline:
            killed = "late"
            _kill(child)
        elif lines.coming(_TICK):
            next(lines, None)  # to cancel is all that may come now, or the end
            killed = "cancelled"
            _kill(child)
    _kill(child)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    shutil.rmtree(scratch, ignore_errors=True)
    killed = killed or ("late" if status == -signal.SIGXCPU else "")
    answers.write("\n")  # a child that was killed may have left half a line
    _send(answers, end=killed or ("" if status == 0 else f"died ({status})"))


def _run_child(job: dict[str, str], models: list[_Model], device: str, limits: PageLimits, answers: TextIO) -> None:
    """Do the work in the forked process, which never returns."""
    status = 1
    try:
        os.setsid()
        _die_with_parent()
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        where = _pick_device(device, models)
        limit_process(limits, where)
        sent = -1.0

        def progress(share: float) -> None:
            nonlocal sent
            if share >= sent + 0.01:
                sent = share
                _send(answers, progress=round(share, 3))

        _send(answers, **_localized(job, models, where, limits, progress))
        status = 0
    except BaseException as error:  # nothing may reach the loop of the fork server, of which this is a copy
        with contextlib.suppress(Exception):
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(status)


def _pick_device(device: str, models: list[_Model]) -> str:
    """Where models compute; torch is asked only when there are weights for it."""
    if all(model.exported for model in models):
        import onnxruntime

        return "cpu" if "CUDAExecutionProvider" not in onnxruntime.get_available_providers() else device
    from earsight.device import pick_device

    return pick_device(device)


def _localized(
    job: dict[str, str], models: list[_Model], device: str, limits: PageLimits, progress: Progress
) -> dict[str, Any]:
    clip, sound = Path(job["clip"]), Path(job["sound"]) if job["sound"] else None
    advice = "Scale it down or cut it, and try again."
    try:
        out, scratch = Path(job["out"]), Path(job["scratch"])
        return {"done": localize_clip([m.load for m in models], device, clip, sound, out, scratch, limits, progress)}
    except MediaError as error:
        return {"refused": [error.reason, error.advice, "sound" if sound and error.path == str(sound) else "clip"]}
    except MemoryError:
        return {"refused": [_TOO_MUCH_MEMORY, advice, "clip"]}
    except (RuntimeError, EarsightError) as error:
        if "memory" not in str(error):
            raise
        return {"refused": [_TOO_MUCH_MEMORY, advice, "clip"]}


def limit_process(limits: PageLimits, device: str) -> None:
    """Bound what this process may take from now on: memory, processor time, size of files, open files."""
    statm = Path("/proc/self/statm")
    if device == "cpu" and statm.exists():  # a GPU's memory is mapped into the address space, hundreds of gigabytes
        pages = int(statm.read_text().split()[0])
        memory = pages * resource.getpagesize() + round(limits.memory * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    cpu = round(limits.run_seconds * (os.cpu_count() or 1)) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
    size = 4 * limits.bytes + 500 * MB
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _kill(child: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _send(answers: TextIO, **values: Any) -> None:
    answers.write(json.dumps(values) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
