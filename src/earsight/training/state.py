"""The saved state of a run: all that is needed to go on as if nothing had happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from earsight.config import from_json, need
from earsight.data.clips import ClipSet
from earsight.encoders.start_weights import damaged, read_pickle
from earsight.errors import CheckpointError, DataError
from earsight.files import sha256, write_atomically, write_text
from earsight.methods.base import Method
from earsight.training.step import load_optimizer

STATE, PREVIOUS, HASHES = "state.pt", "state.previous.pt", "state.sha256"
"""The newest state of a run, the one before it for when the newest is damaged, and the hashes of both."""
KEPT_HASHES = 3
"""Of the two states that are there, and of one that is about to take the newest one's place."""


@dataclass
class Position:
    """Where a run is: the next step to take is `step` of `epoch` of `stage`."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    total_steps: int = 0
    log_bytes: int = 0
    """Length of the log at this point; what a killed run wrote after it is cut off."""
    best: float = -1.0
    """Best validation AP so far."""
    failures: dict[str, str] = field(default_factory=dict)
    """Clips that could not be read, and why."""

    def __post_init__(self) -> None:
        for name in ("stage", "epoch", "step", "total_steps", "log_bytes"):
            need(getattr(self, name) >= 0, f"{name} of at least 0", getattr(self, name))


Lists = dict[str, dict[str, str | int]]
"""The lists of a run, "training" and "validation", each by its "hash" and how many "clips" it has."""


def lists_of(clips: ClipSet, val: ClipSet | None) -> Lists:
    """What is remembered of the lists that a run is begun with."""
    named = {"training": clips} | ({} if val is None else {"validation": val})
    return {kind: {"hash": one.list_hash(), "clips": len(one)} for kind, one in named.items()}


def require_same_lists(begun: Lists, now: Lists) -> None:
    """Refuse to go on with another list: the weights would tell of one and come from both."""
    for kind, was in begun.items():
        got = now.get(kind)
        if got != was:
            found = f"hash {got['hash']}, {got['clips']} clips" if got else "none"
            raise DataError(
                f"Expected the {kind} list that the run was begun with (hash {was['hash']}, {was['clips']} clips), "
                f"but got {found}. Restore it, or start a new run."
            )


class SavedState(NamedTuple):
    """A state that was read, all of it on the CPU.

    Args:
        path: its file.
        position: where the run was.
        values: "model", "training", "optimizer", "rng" and "lists".
        note: what is to be said of it.
    """

    path: Path
    position: Position
    values: dict[str, Any]
    note: str = ""


def save_state(out: Path, values: dict[str, Any], *, keep_previous: bool = True) -> None:
    """Write a state, so that a kill at any moment leaves the old one or the new one; the old one stays as the previous.

    The hash of a state is written before it takes its place, beside those of the states that are there until then.
    """

    def write(path: Path) -> None:
        _write_pickle(path, values)
        hashes = [sha256(path), *_hashes(out)][:KEPT_HASHES]
        write_text(out / HASHES, "".join(f"{one}\n" for one in hashes))

    write_atomically(out / STATE, write, out / PREVIOUS if keep_previous else None)


def load_state(out: Path) -> SavedState | None:
    """The state of a run's folder, or the one before it where that is damaged; None where none was saved yet."""
    newest, previous = out / STATE, out / PREVIOUS
    there = [path for path in (newest, previous) if path.exists()]
    if not there:
        return None
    try:
        return read_state(there[0])
    except CheckpointError as error:
        if there != [newest, previous]:
            raise
        first = error
    try:
        note = f"{newest} is damaged, so the run goes on from the state before it"
        return read_state(previous)._replace(note=note)
    except CheckpointError as error:
        raise CheckpointError(
            f"Expected a training state, but neither {newest} nor {previous} can be read ({first.__cause__}; "
            f"{error.__cause__}). Delete both to start this run again from its beginning."
        ) from error


def read_state(path: Path) -> SavedState:
    """One of the states of a folder, once its hash is known to be that of a state that was written there."""
    try:
        if sha256(path) not in _hashes(path.parent):
            raise ValueError(f"its sha256 is none of those in {HASHES}")
        values: Any = read_pickle(path)
        position = from_json(Position, values.pop("position"))
        wrong = [name for name in ("model", "training", "optimizer", "rng", "lists")
                 if not isinstance(values.get(name), dict)]  # fmt: skip
        lists = {} if "lists" in wrong else values["lists"]
        if not all(isinstance(one, dict) and {"hash", "clips"} <= one.keys() for one in lists.values()):
            wrong.append("lists")
        if wrong:
            raise TypeError(f"no usable {', '.join(wrong)}")
        return SavedState(path, position, values)
    except Exception as error:  # of what is no state, the reader raises nearly any class there is
        raise _unreadable(path, error) from error


def restore(saved: SavedState, model: Method, optimizer: torch.optim.Optimizer) -> None:
    """Put everything of a state back where it was."""
    values = saved.values
    try:
        model.load_state_dict(values["model"])
        model.load_training_state(values["training"])
        load_optimizer(optimizer, values["optimizer"])
        torch.set_rng_state(values["rng"]["cpu"].cpu())
        if values["rng"]["cuda"] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(values["rng"]["cuda"].cpu())
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise _unreadable(saved.path, error) from error


def random_state() -> dict[str, Any]:
    """torch's generators; everything else that is random is a function of seed, epoch and clip."""
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def save_weights_of(path: Path, model: Method) -> None:
    """The weights of an epoch, for when it turns out to be the best."""
    write_atomically(path, lambda beside: _write_pickle(beside, model.state_dict()))


def load_weights_of(path: Path, model: Method) -> None:
    """Put the weights of another epoch in place of the last one's."""
    try:
        model.load_state_dict(cast(dict[str, Any], read_pickle(path)))
    except (RuntimeError, TypeError, AttributeError) as error:
        raise damaged(path, error) from error


def _write_pickle(path: Path, values: object) -> None:
    """What torch.save writes. A full disk is an OSError, which torch hides where it opens the file."""
    with path.open("wb") as file:
        try:
            torch.save(values, file)
        except RuntimeError as error:  # of what torch wants to write at the end of a file that it could not fill
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def _hashes(out: Path) -> list[str]:
    path = out / HASHES
    return path.read_text(encoding="utf-8", errors="replace").split() if path.is_file() else []


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    reason = " ".join(str(error).split())[:300]  # torch lists every name, on lines of their own
    return CheckpointError(
        f"Expected a training state, but {path} cannot be read ({reason}). "
        "Delete it to start this run again from its beginning."
    )
