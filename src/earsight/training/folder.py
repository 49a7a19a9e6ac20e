"""A run's folder: what is in it, how it is begun, and how it is found again."""

from __future__ import annotations

import errno
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from earsight import registry
from earsight.errors import CheckpointError, TrainingError, UsageError
from earsight.files import is_part, read_json, write_text
from earsight.header import WEIGHTS
from earsight.training.job import Job, deciding
from earsight.training.lock import LOCK
from earsight.training.log import BOARD, LOG
from earsight.training.state import PREVIOUS, STATE

RUN = "run.json"
BEST = "best.pt"
BEST_WEIGHTS = "best.safetensors"
FAILURES = "failures.jsonl"
_WRITTEN = (RUN, WEIGHTS, BEST_WEIGHTS, BEST, STATE, PREVIOUS, FAILURES, LOG)
"""What a run writes, in the order in which starting over removes it: without its settings it is no longer a run."""


def check_folder(job: Job, out: Path, *, resume: bool, force: bool) -> None:
    """Refuse a folder with other files or a run with other settings, before anything is read or written."""
    path = out / RUN
    if path.exists() and resume:
        begun, now = deciding(_settings(path)), deciding(job.to_json())
        changed = sorted(key for key in now if begun.get(key) != now[key])
        if changed:
            raise UsageError(
                f"Expected the settings that {out} was begun with, but got other {', '.join(changed)}. "
                "Resume without changing settings, or start a new run in another folder."
            )
    elif out.exists() and not set(out.iterdir()) <= {out / LOCK, *_half_written(out)}:
        if resume:
            raise CheckpointError(
                f"Expected a run to resume in {out}, but there is no {RUN} in it. "
                "Pass --force to start there, or another --out."
            )
        if not force:
            raise UsageError(
                f"Expected an empty folder for the run, but {out} has files in it. "
                "Pass --resume to go on with it, --force to start over, or another --out."
            )


def prepare_folder(job: Job, out: Path, *, resume: bool, force: bool) -> None:
    """Write the run's settings into its folder; where it goes on, those that may be others than it was begun with."""
    check_folder(job, out, resume=resume, force=force)
    for part in _half_written(out):
        part.unlink()
    if resume and (out / RUN).exists():
        if _settings(out / RUN) == job.to_json():
            return
    else:
        for name in _WRITTEN:
            (out / name).unlink(missing_ok=True)
        for events in (out / BOARD).glob("events.out.tfevents.*"):
            events.unlink()
    write_text(out / RUN, json.dumps(job.to_json(), indent=2) + "\n")


def no_room(error: OSError, out: Path) -> TrainingError | None:
    """What to tell when a file of the run in `out` did not fit on its disk; None when something else went wrong."""
    full = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota of the disk is used up"}
    if error.errno not in full or error.filename is None or not Path(error.filename).is_relative_to(out):
        return None
    again = f"then: earsight train --out {out} --resume" if (out / RUN).exists() else "then start again."
    return TrainingError(f"Expected room for {error.filename}, but {full[error.errno]}. Free some, {again}")


def _half_written(out: Path) -> list[Path]:
    """What a killed process was about to write."""
    names = tuple(f".{name}." for name in _WRITTEN)
    there = out.iterdir() if out.is_dir() else ()
    return [path for path in there if is_part(path) and path.name.startswith(names)]


def load_job(out: Path, named: Collection[str] = ()) -> Job:
    """The settings a run was begun with. Of modules outside earsight, only those are run that the user has `named`."""
    path = out / RUN
    if not path.is_file():
        raise CheckpointError(
            f"Expected a run's folder, but there is no {RUN} in {out}. Name the --out of an earlier training."
        )
    values = _settings(path)
    try:
        names = [("method", values["method"]), ("set", values["on"]), ("set", values.get("val", "")),
                 ("sampler", values["optim"].get("sampler", ""))]  # fmt: skip
        for kind, name in ((kind, spec.partition(":")[0]) for kind, spec in names):
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
