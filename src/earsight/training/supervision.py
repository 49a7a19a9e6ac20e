"""Semi-supervised training: annotated clips pull at their maps, beside whatever the method itself learns from."""

from __future__ import annotations

import hashlib
from pathlib import Path

from torch import nn

from earsight import distributed
from earsight.config import Supervision
from earsight.data.clips import ClipSet
from earsight.data.files import read_names
from earsight.errors import UsageError
from earsight.methods.base import Method
from earsight.types import Batch, Maps, Step

_SHOWN = 3  # names in a message


def annotated(clips: ClipSet, settings: Supervision) -> tuple[bool, ...]:
    """Which clips' ground truth training may see: positives with boxes, among the names and the share asked for."""
    named = set(_named(settings)) if settings.ids else None
    which = tuple(
        row.positive and bool(row.boxes) and (named is None or row.id in named) and _drawn(row.id) < settings.share
        for row in clips.rows
    )
    if not any(which):
        boxes = sum(bool(row.boxes) for row in clips.rows)
        told = unknown_names(clips, settings)
        raise UsageError(
            f"Expected annotated clips in {clips.name}, but none may be used: {boxes} of {len(clips)} have boxes. "
            "Train on a set with boxes, name clips that have them (--supervision.ids), or raise --supervision.share."
            + (f" Of the names, {told}." if told else "")
        )
    return which


def unknown_names(clips: ClipSet, settings: Supervision) -> str:
    """How many of the names asked for are those of no clip, and which; empty when all of them are there."""
    named, there = _named(settings), {row.id for row in clips.rows}
    unknown = [name for name in named if name not in there]
    if not unknown:
        return ""
    shown = ", ".join(map(repr, unknown[:_SHOWN])) + (", ..." if len(unknown) > _SHOWN else "")
    return f"{len(unknown)} of {len(named)} in {settings.ids} are not in {clips.name}: {shown}"


def _named(settings: Supervision) -> list[str]:
    return read_names(Path(settings.ids)) if settings.ids else []


def _drawn(name: str) -> float:
    """A number in [0, 1) that depends on the name alone, so that a larger share holds every smaller one."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6]) / 2**48


class Supervised(nn.Module):
    """A method's training step with the loss of its annotated clips, when there is ground truth in the batch.

    The step that comes out has no maps: with several processes, torch would wait for gradients of all that made them.
    """

    def __init__(self, method: Method, settings: Supervision) -> None:
        super().__init__()
        self.method, self.settings = method, settings

    def forward(self, batch: Batch) -> Step:
        counts = distributed.sizes(len(batch))
        step: Step = self.method.loss(batch, counts)
        if not self.settings.weight or batch.truth is None or batch.supervised is None:
            return Step(step.loss, step.logs)
        if step.maps is None:
            raise UsageError(
                "Expected a method whose training step makes maps, but this one makes none. "
                "Train it without --supervision.weight."
            )
        # All processes' maps, so that the mean runs over the annotated clips of the whole batch.
        which = distributed.gather(batch.supervised.float(), counts) > 0
        if not which.any():  # every step logs the same names
            return Step(step.loss, {**step.logs, "loss_supervised": step.loss.new_zeros(())})
        truth = distributed.gather(batch.truth, counts)[which]
        native, dense = (distributed.gather(x, counts)[which] for x in (step.maps.native, step.maps.dense))
        maps = Maps(native, dense, step.maps.bounds)
        loss = self.method.supervised_loss(maps, truth, self.settings.form)
        if self.settings.over == "batch":
            loss = loss * which.float().mean()
        logs = {**step.logs, "loss_supervised": loss.detach()}
        return Step(step.loss + self.settings.weight * loss, logs)
