"""A process that holds the models and forks a fresh one for every clip: what a hostile file breaks dies with it.

The nursery itself never opens an upload. It has imported torch and loaded the weights but computed nothing, so forking
it is safe and takes no time. Jobs come as lines of JSON on stdin, and answers go out as lines of JSON on stdout.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from earsight.app.limits import MB, PageLimits
from earsight.app.work import Tell, work
from earsight.errors import EarsightError, MediaError
from earsight.onnxfile import is_onnx

if TYPE_CHECKING:
    from earsight.localize import Localizer

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl
_LOOK = 0.02  # seconds between two looks at a child


def main() -> None:
    """Load the weights that the first line names, say so, and work until stdin ends."""
    _die_with_parent()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints must not look like an answer
    setup = json.loads(sys.stdin.readline())
    for name in ("av", "PIL.Image", "earsight.data.view", "earsight.localize"):
        importlib.import_module(name)  # here, so that no child has to
    limits = PageLimits(**setup["limits"])
    try:
        models = [_Model(path) for path in setup["weights"]]
    except EarsightError as error:
        _say(answers, error=str(error))
        return
    gc.collect()
    gc.freeze()  # what is there now is shared with every child, and stays so as long as nobody touches it
    _say(answers, ready=[model.about for model in models])
    for line in sys.stdin:
        _attend(json.loads(line), models, setup["device"], limits, answers)


def setup_line(weights: list[str], device: str, limits: PageLimits) -> str:
    """The first line that a nursery reads."""
    return json.dumps({"weights": weights, "device": device, "limits": asdict(limits)}) + "\n"


class _Model:
    """Weights that children use: held ready for them, unless they compute elsewhere than on the processor."""

    def __init__(self, path: str) -> None:
        import torch

        from earsight.localize import Localizer

        torch.set_num_threads(1)  # a thread that exists at a fork is missing in the child
        found = Localizer.load(path, "cpu")
        self.path = path
        self.about = {"method": str(found.meta.get("method", "")), "threshold": found.threshold}
        # An exported model has threads of its own, so every child loads it anew, which is quick.
        self._held = None if is_onnx(path) else found

    def on(self, device: str) -> Localizer:
        from earsight.localize import Localizer

        return self._held if self._held is not None and device == "cpu" else Localizer.load(self.path, device)


def _attend(job: dict[str, str], models: list[_Model], device: str, limits: PageLimits, answers: TextIO) -> None:
    """Fork a child for a job, kill it when its time is up, and say how it ended."""
    scratch = Path(job["scratch"])
    scratch.mkdir(mode=0o700)
    child = os.fork()
    if child == 0:
        _child(job, models, device, limits, answers)
    deadline = time.monotonic() + limits.run_seconds
    late = False
    # Its group is killed before its number is given back, so that no other process can be hit.
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline and not late:
            late = True
            _kill(child)
        time.sleep(_LOOK)
    _kill(child)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    shutil.rmtree(scratch, ignore_errors=True)
    answers.write("\n")  # a child that was killed may have left half a line
    _say(answers, end="late" if late or status == -signal.SIGXCPU else "" if status == 0 else f"died ({status})")


def _child(job: dict[str, str], models: list[_Model], device: str, limits: PageLimits, answers: TextIO) -> None:
    """Do the work in the forked process, which never returns."""
    status = 1
    try:
        os.setsid()
        _die_with_parent()
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        from earsight.device import pick_device

        where = pick_device(device)
        _limit(limits, where)
        said = -1.0

        def tell(share: float) -> None:
            nonlocal said
            if share >= said + 0.01:
                said = share
                _say(answers, progress=round(share, 3))

        _say(answers, **_worked(job, models, where, limits, tell))
        status = 0
    except BaseException as error:  # nothing may reach the loop of the nursery, of which this is a copy
        with contextlib.suppress(Exception):
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(status)


def _worked(job: dict[str, str], models: list[_Model], device: str, limits: PageLimits, tell: Tell) -> dict[str, Any]:
    import torch

    clip, sound = Path(job["clip"]), Path(job["sound"]) if job["sound"] else None

    def load() -> list[Localizer]:
        torch.set_num_threads(os.cpu_count() or 1)
        return [model.on(device) for model in models]

    try:
        return {"done": work(load, clip, sound, Path(job["out"]), Path(job["scratch"]), limits, tell)}
    except MediaError as error:
        return {"refused": [error.reason, error.advice, "sound" if sound and error.path == str(sound) else "clip"]}
    except MemoryError:
        return {"refused": ["takes too much memory.", "Scale it down or cut it, and try again.", "clip"]}
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        return {"refused": ["takes too much memory.", "Scale it down or cut it, and try again.", "clip"]}


def _limit(limits: PageLimits, device: str) -> None:
    """Bound what this process may take from now on: memory, processor time, size of files, open files."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    if device == "cpu":  # a GPU's memory is mapped into the address space, hundreds of gigabytes at once
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


def _say(answers: TextIO, **values: Any) -> None:
    answers.write(json.dumps(values) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
