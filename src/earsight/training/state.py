"""The saved state of a run: all that is needed to go on as if nothing had happened."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch.utils._pytree import tree_map_only

from earsight.config import from_json, need
from earsight.data.clips import ClipSet
from earsight.encoders.start_weights import damaged, read_pickle
from earsight.errors import CheckpointError, DataError, UsageError
from earsight.files import write_atomically
from earsight.methods.base import Method
from earsight.training.optim import load_optimizer

STATE, PREVIOUS = "state.pt", "state.previous.pt"
"""The newest state of a run, and the one before it, for when the newest is damaged."""


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


def need_same_lists(begun: Lists, now: Lists) -> None:
    """Refuse to go on with another list: the weights would tell of one and come from both."""
    for kind, was in begun.items():
        got = now.get(kind)
        if got != was:
            told = f"hash {got['hash']}, {got['clips']} clips" if got else "none"
            raise DataError(
                f"Expected the {kind} list that the run was begun with (hash {was['hash']}, {was['clips']} clips), "
                f"but got {told}. Restore it, or start a new run."
            )


class StateWriter:
    """Writes states atomically: a kill at any moment leaves the old state or the new one.

    On a GPU `beside`, a state is copied there and written by a thread while training goes on; writing takes as long as
    dozens of steps. What goes wrong there is raised at the next state, or when this is closed. `lists` are those of the
    run; the process that writes knows them. The state before is kept, unless it is `damaged`.
    """

    def __init__(
        self, out: Path, lists: Lists | None = None, beside: torch.device | None = None, *, damaged: bool = False
    ) -> None:
        self._out, self._lists, self._beside, self._damaged = out, lists, beside, damaged
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def write(self, model: Method, optimizer: torch.optim.Optimizer, position: Position, rng: dict[str, Any]) -> None:
        self.close()
        values: dict[str, Any] = {
            "position": {**position.__dict__, "failures": dict(position.failures)},
            "model": model.state_dict(),
            "training": model.training_state(),
            "optimizer": optimizer.state_dict(),
            "rng": rng,
            "lists": self._lists or {},
        }
        if self._beside is None:
            self._save(values)
            return
        copied = tree_map_only(torch.Tensor, torch.clone, values)
        ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        ready.record(torch.cuda.current_stream(self._beside))
        self._thread = threading.Thread(target=self._work, args=(copied, ready))
        self._thread.start()

    def close(self) -> None:
        """Wait for the state that is being written, and raise what went wrong with it."""
        self.wait()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Wait for the state that is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self, values: dict[str, Any], ready: torch.cuda.Event) -> None:
        try:
            # A stream of its own, so that copying to the CPU holds up no step.
            stream = torch.cuda.Stream(self._beside)  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream):
                ready.wait(stream)
                self._save(tree_map_only(torch.Tensor, torch.Tensor.cpu, values))
        except BaseException as error:  # it is raised where states are asked for
            self._error = error

    def _save(self, values: dict[str, Any]) -> None:
        save_pickle(self._out / STATE, values, None if self._damaged else self._out / PREVIOUS)
        self._damaged = False


def save_pickle(path: Path, values: object, previous: Path | None = None) -> None:
    """What torch.save writes, atomically; the old file stays as `previous`.

    A full disk is an OSError, which torch hides where it opens the file.
    """

    def fill(beside: Path) -> None:
        with beside.open("wb") as file:
            try:
                torch.save(values, file)
            except RuntimeError as error:  # of what torch wants to write at the end of a file that it could not fill
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from None
                raise

    write_atomically(path, fill, previous)


class SavedState(NamedTuple):
    """A state that was read, all of it on the CPU.

    Args:
        path: its file.
        position: where the run was.
        values: "model", "training", "optimizer" and "rng", and "lists" but in old states.
        note: what is to be said of it.
    """

    path: Path
    position: Position
    values: dict[str, Any]
    note: str = ""


def load_newest(out: Path) -> SavedState | None:
    """The state of a run's folder, or the one before it where that is damaged; None where none was saved yet."""
    newest, previous = out / STATE, out / PREVIOUS
    there = [path for path in (newest, previous) if path.exists()]
    if not there:
        return None
    try:
        return SavedState(there[0], *load_state(there[0]))
    except CheckpointError as error:
        if there != [newest, previous]:
            raise
        first = error
    try:
        position, values = load_state(previous)
    except CheckpointError as error:
        raise CheckpointError(
            f"Expected a training state, but neither {newest} nor {previous} can be read ({first.__cause__}; "
            f"{error.__cause__}). Delete both to start this run again from its beginning."
        ) from error
    return SavedState(previous, position, values, f"{newest} is damaged, so the run goes on from the state before it")


def load_state(path: Path) -> tuple[Position, dict[str, Any]]:
    """Position and the rest ("model", "training", "optimizer", "rng"; "lists" but in old states), on the CPU."""
    try:
        values: Any = read_pickle(path)
        position = from_json(Position, values.pop("position"))
        wrong = [name for name, value in values.items() if not isinstance(value, dict)]
        lists = values.get("lists", {}) if "lists" not in wrong else {}
        if not all(isinstance(one, dict) and {"hash", "clips"} <= one.keys() for one in lists.values()):
            wrong.append("lists")
        if wrong:
            raise TypeError(f"no usable {', '.join(wrong)}")
        return position, values
    except (CheckpointError, UsageError, AttributeError, KeyError, TypeError) as error:
        raise _unreadable(path, error) from error


def restore(saved: SavedState, model: Method, optimizer: torch.optim.Optimizer) -> None:
    """Put everything of a state back where it was."""
    values = saved.values
    try:
        model.load_state_dict(values["model"])
        model.load_training_state(values["training"])
        load_optimizer(optimizer, values["optimizer"])
        _restore_random(values["rng"])
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise _unreadable(saved.path, error) from error


def load_best(path: Path, model: Method) -> None:
    """Put the weights of the best epoch in place of the last one's."""
    try:
        model.load_state_dict(cast(dict[str, Any], read_pickle(path)))
    except (RuntimeError, TypeError, AttributeError) as error:
        raise damaged(path, error) from error


def _unreadable(path: Path, error: Exception) -> CheckpointError:
    reason = " ".join(str(error).split())[:300]  # torch lists every name, on lines of their own
    return CheckpointError(
        f"Expected a training state, but {path} cannot be read ({reason}). "
        "Delete it to start this run again from its beginning."
    )


def random_state() -> dict[str, Any]:
    """torch's generators; everything else that is random is a function of seed, epoch and clip."""
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _restore_random(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
