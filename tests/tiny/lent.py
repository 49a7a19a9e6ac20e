"""What the trainer lends a method before a stage, made of one batch: for steps without a whole run around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from earsight.methods.base import Method, Stage
from earsight.types import Batch


class Lent:
    """The clips of a batch as the training list. They have classes, though not all methods look at them."""

    def __init__(self, batch: Batch, classes: int = 3, stage: Stage | None = None, epoch: int = -1) -> None:
        self.stage, self.epoch = stage or Stage("main", 1), epoch
        self.rows = [replace(row, label=f"class{i % classes}") for i, row in enumerate(batch.rows)]
        self._batch = batch

    def forget(self, parameters: Iterable[nn.Parameter]) -> None:
        """There is no optimizer yet."""

    @torch.no_grad()
    def extract(self, fn: Callable[[Batch], Tensor]) -> Tensor:
        return fn(self._batch)


def beside(model: Method, batch: Batch, clips: Batch) -> Batch:
    """The batch together with the neighbours that the method asks for, from the training list `clips`."""
    near = model.neighbours(0)
    if near is None:
        return batch
    pictures, sounds = near.pictures[batch.index], near.sounds[batch.index]
    return replace(batch, neighbour_pictures=clips.frames[pictures], neighbour_sounds=clips.waveforms[sounds])
