"""The saved state of a run: all that is needed to go on as if nothing had happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from earsight.errors import CheckpointError
from earsight.files import write_atomically
from earsight.methods.base import Method
from earsight.models.weights import read_pickle

STATE = "state.pt"


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


def save_state(
    path: Path, model: Method, optimizer: torch.optim.Optimizer, position: Position, rng: dict[str, Any]
) -> None:
    """Write everything atomically: a kill at any moment leaves the old state or the new one."""
    values = {
        "position": dict(position.__dict__),
        "model": model.state_dict(),
        "training": model.training_state(),
        "optimizer": optimizer.state_dict(),
        "rng": rng,
    }
    write_atomically(path, lambda beside: torch.save(values, beside))


def load_state(path: Path) -> tuple[Position, dict[str, Any]]:
    """Position and the rest ("model", "training", "optimizer", "rng"), on the CPU."""
    try:
        values: Any = read_pickle(path)
        return Position(**values.pop("position")), values
    except (CheckpointError, AttributeError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"Expected a training state, but {path} cannot be read ({error}). "
            "Delete it to start this run again from its beginning."
        ) from error


def random_state() -> dict[str, Any]:
    """torch's generators; everything else that is random is a function of seed, epoch and clip."""
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def restore_random(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
