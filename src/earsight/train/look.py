"""Looking at steps that were taken: their losses, and the clips that could not be read.

Looking makes the GPU wait and the processes talk, so it happens every few steps only. All processes see the same and
stop together when something is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from earsight import distributed
from earsight.data.clips import ClipSet
from earsight.data.loading import Failure, Loaded
from earsight.errors import DataError, TrainingError
from earsight.train.state import Position
from earsight.types import Batch, Step


class Seen(NamedTuple):
    """What is kept of a step until the next look: this process's part of it."""

    number: int
    loss: Tensor
    logs: Mapping[str, Tensor]
    ids: tuple[str, ...]
    failures: tuple[Failure, ...]

    @classmethod
    def of(cls, number: int, step: Step, batch: Batch, loaded: Loaded) -> Seen:
        return cls(number, step.loss.detach(), step.logs, batch.ids, loaded.failures)


def usable(loaded: Loaded) -> Batch:
    """This process's part of the batch, when every process has one and no clip is alone; else all of them stop."""
    counts = distributed.sizes(0 if loaded.batch is None else len(loaded.batch))
    if loaded.batch is None or min(counts) == 0 or sum(counts) < 2:
        failures = [failure for part in distributed.from_all(loaded.failures) for failure in part]
        raise DataError(
            f"Expected two readable clips or more in every batch, and one for each process, but got {counts} of "
            f"{sum(counts) + len(failures)}: {_named(failure.reason for failure in failures)}. "
            "Repair or remove these clips, raise --optim.batch-size, or use fewer processes."
        )
    return loaded.batch


def look(seen: list[Seen], position: Position, clips: ClipSet, max_failed: float) -> dict[str, float]:
    """Mean loss and logs of these steps. A loss that is not finite, or too many unreadable clips, stop the run."""
    losses = torch.stack([step.loss for step in seen]).tolist()
    mine = [(loss, step.ids, step.failures) for loss, step in zip(losses, seen, strict=True)]
    for step, parts in zip(seen, zip(*distributed.from_all(mine), strict=True), strict=True):
        ids = [name for _, part, _ in parts for name in part]
        position.failures.update((failure.id, failure.reason) for _, _, part in parts for failure in part)
        bad = [loss for loss, _, _ in parts if not math.isfinite(loss)]
        if bad:
            logs = ", ".join(f"{name} {float(value):.4g}" for name, value in step.logs.items())
            raise TrainingError(
                f"Expected a finite loss, but at step {step.number} it is {bad[0]} ({logs}). "
                f"Clips of that batch: {', '.join(ids)}. "
                "Lower --optim.lr, set --optim.clip-norm 1, or check these clips."
            )
    failed = len(position.failures)
    if failed > max_failed * len(clips):
        raise DataError(
            f"Expected at most {max_failed:.0%} of {len(clips)} training clips to be unreadable, but {failed} are: "
            f"{_named(position.failures.values())}. Repair or remove them, or raise --optim.max-failed."
        )
    row = {"loss": sum(losses) / len(losses)}
    for name in seen[0].logs:
        row[name] = float(torch.stack([step.logs[name] for step in seen]).mean())
    return row


def _named(reasons: Iterable[str]) -> str:
    """The first few reasons."""
    return "; ".join(islice(reasons, 3))
