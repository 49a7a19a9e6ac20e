"""A run's folder: what is in it, how it is begun and found again, and that one run at a time works in it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

from earsight import registry
from earsight.errors import CheckpointError, TrainingError, UsageError
from earsight.files import is_part, read_json, write_text
from earsight.header import WEIGHTS
from earsight.training.job import Job, deciding
from earsight.training.log import BOARD, LOG
from earsight.training.state import HASHES, PREVIOUS, STATE

RUN = "run.json"
LOCK = ".run.lock"
BEST = "best.pt"
BEST_WEIGHTS = "best.safetensors"
FAILURES = "failures.jsonl"
_WRITTEN = (RUN, WEIGHTS, BEST_WEIGHTS, BEST, STATE, PREVIOUS, HASHES, FAILURES, LOG)
"""What a run writes, in the order in which starting over removes it: without its settings it is no longer a run."""


class RunFolder:
    """The folder of a run while it works there. Other runs are kept out; one that is killed keeps out nobody.

    Where there are no locks, as on some network disks, nothing is kept out. A full disk is a TrainingError.
    """

    def __init__(self, path: Path, job: Job, *, resume: bool = False, force: bool = False) -> None:
        self.path, self._job, self._resume, self._force = path, job, resume, force
        self._handle: int | None = None

    def check(self) -> None:
        """Refuse a folder with other files, or a run with other settings, before anything is written."""
        path = self.path / RUN
        if self.path.is_dir():
            self.lock()
        if path.exists() and self._resume:
            begun, now = deciding(_settings(path)), deciding(self._job.to_json())
            changed = sorted(key for key in now if begun.get(key) != now[key])
            if changed:
                raise UsageError(
                    f"Expected the settings that {self.path} was begun with, but got other {', '.join(changed)}. "
                    "Resume without changing settings, or start a new run in another folder."
                )
        elif self.path.exists() and not set(self.path.iterdir()) <= {self.path / LOCK, *self._half_written()}:
            if self._resume:
                raise CheckpointError(
                    f"Expected a run to resume in {self.path}, but there is no {RUN} in it. "
                    "Pass --force to start there, or another --out."
                )
            if not self._force:
                raise UsageError(
                    f"Expected an empty folder for the run, but {self.path} has files in it. "
                    "Pass --resume to go on with it, --force to start over, or another --out."
                )

    def begin(self) -> None:
        """Write the run's settings; where it goes on, those that may be others than it was begun with."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.check()
        for part in self._half_written():
            part.unlink()
        if self._resume and (self.path / RUN).exists():
            if _settings(self.path / RUN) == self._job.to_json():
                return
        else:
            for name in _WRITTEN:
                (self.path / name).unlink(missing_ok=True)
            for events in (self.path / BOARD).glob("events.out.tfevents.*"):
                events.unlink()
        write_text(self.path / RUN, json.dumps(self._job.to_json(), indent=2) + "\n")

    def lock(self) -> None:
        """Keep other runs out, unless this does already; a UsageError when another run works here."""
        path = self.path / LOCK
        while self._handle is None:
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError:
                return  # nothing can be written here, which whoever tries to will be told
            try:
                flock(handle)
            except BlockingIOError:
                os.close(handle)
                raise UsageError(
                    f"Expected a run that nobody trains, but another process trains in {self.path}. "
                    "Wait for it to end, or name another --out."
                ) from None
            except OSError:
                os.close(handle)
                path.unlink(missing_ok=True)
                return
            # Whoever held it may have ended, and taken the file along, since it was opened here.
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                self._handle = handle
            else:
                os.close(handle)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            (self.path / LOCK).unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None
        full = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota of the disk is used up"}
        if not isinstance(error, OSError) or error.errno not in full or error.filename is None:
            return
        if Path(error.filename).is_relative_to(self.path):
            begun = (self.path / RUN).exists()
            again = f"then: earsight train --out {self.path} --resume" if begun else "then start again."
            raise TrainingError(
                f"Expected room for {error.filename}, but {full[error.errno]}. Free some, {again}"
            ) from error

    def _half_written(self) -> list[Path]:
        """What a killed process was about to write."""
        names = tuple(f".{name}." for name in _WRITTEN)
        there = self.path.iterdir() if self.path.is_dir() else ()
        return [path for path in there if is_part(path) and path.name.startswith(names)]


def flock(handle: int) -> None:
    """Lock an open file; a BlockingIOError when another process has, an OSError where there are no such locks."""
    try:
        import fcntl
    except ImportError as error:  # on Windows
        raise OSError(errno.ENOLCK, "No locks available") from error
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def load_job(out: Path, named: Collection[str] = ()) -> Job:
    """The settings a run was begun with. Of modules outside earsight, only those are run that the user has `named`."""
    path = out / RUN
    if not path.is_file():
        raise CheckpointError(
            f"Expected a run's folder, but there is no {RUN} in {out}. Name the --out of an earlier training."
        )
    values = _settings(path)
    try:
        specs = [("method", values["method"]), ("set", values["on"]), ("set", values.get("val", "")),
                 ("sampler", values["optim"].get("sampler", ""))]  # fmt: skip
        for kind, name in ((kind, spec.partition(":")[0]) for kind, spec in specs):
            if name not in named:
                registry.need_known(path, kind, name)
        registry.need_known_encoders(path, values.get("config"), named)
        method = registry.load("method", values["method"])
    except (KeyError, TypeError, AttributeError) as error:
        raise _unreadable(path, error) from error
    try:
        return Job.from_json(values, method.Config)
    except (UsageError, KeyError, TypeError) as error:
        raise _unreadable(path, error) from error


def _settings(path: Path) -> dict[str, Any]:
    try:
        values: Any = read_json(path)
    except ValueError as error:
        raise _unreadable(path, error) from error
    if not isinstance(values, dict):
        raise _unreadable(path, TypeError(f"a {type(values).__name__}"))
    return values


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"Expected a run's settings, but {path} cannot be read ({error}). Start the run again with --force."
    )
