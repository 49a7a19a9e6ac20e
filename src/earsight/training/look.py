"""Looking at steps that were taken: their losses, and the clips that could not be read.

Looking makes the GPU wait and the processes talk, so it happens every few steps only. All processes see the same and
stop together when something is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import torch

from earsight import distributed
from earsight.data.clips import ClipSet
from earsight.errors import DataError, TrainingError
from earsight.training.state import Position
from earsight.training.stepping import Taken
from earsight.types import Batch, Failure


class Seen(NamedTuple):
    """What is kept of a step until the next look: this process's part of it."""

    number: int
    taken: Taken
    ids: tuple[str, ...]
    failures: tuple[Failure, ...]


def usable(batch: Batch) -> Batch:
    """This process's part of the batch, when every process has one and no clip is alone; else all of them stop."""
    counts = distributed.sizes(len(batch))
    if min(counts) == 0 or sum(counts) < 2:
        failures = [failure for part in distributed.from_all(batch.failures) for failure in part]
        raise DataError(
            f"Expected two readable clips or more in every batch, and one for each process, but got {counts} of "
            f"{sum(counts) + len(failures)}: {_named(failure.reason for failure in failures)}. "
            "Repair or remove these clips, raise --optim.batch-size, or use fewer processes."
        )
    return batch


def look(seen: list[Seen], position: Position, clips: ClipSet, max_failed: float) -> dict[str, float]:
    """Mean loss and logs of these steps. A loss that is not finite, or too many unreadable clips, stop the run."""
    names = seen[0].taken.names
    values: list[list[float]] = torch.stack([step.taken.values for step in seen]).tolist()
    mine = [(row[0], step.ids, step.failures) for row, step in zip(values, seen, strict=True)]
    for step, row, parts in zip(seen, values, zip(*distributed.from_all(mine), strict=True), strict=True):
        ids = [name for _, part, _ in parts for name in part]
        position.failures.update((failure.id, failure.reason) for _, _, part in parts for failure in part)
        bad = [loss for loss, _, _ in parts if not math.isfinite(loss)]
        if bad:
            logs = ", ".join(f"{name} {value:.4g}" for name, value in zip(names[1:], row[1:], strict=True))
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
    return {name: sum(column) / len(column) for name, column in zip(names, zip(*values, strict=True), strict=True)}


def _named(reasons: Iterable[str]) -> str:
    """The first few reasons."""
    return "; ".join(islice(reasons, 3))
