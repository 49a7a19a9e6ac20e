"""From clips to batches: read, resize, crop and flip in the workers; pictures leave them as uint8, sound as waveforms.

A clip that cannot be read is left out of its batch and named; it never becomes another clip.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

from earsight.config import Inputs, need
from earsight.data.clips import ClipSet, fit_waveform
from earsight.data.sampler import batch_at, epoch_order, steps_per_epoch
from earsight.data.truth import crop_boxes, truth_map
from earsight.errors import MediaError
from earsight.types import U8, Batch, Clip

MOST_WORKERS = 256
"""Each worker takes memory of its own; a slip of the finger must not take all there is."""
LONGEST = 20
"""A picture is scaled by its shorter side before the training crop; a mere line would become gigabytes."""


class Failure(NamedTuple):
    """A clip that could not be read, and why."""

    id: str
    reason: str


class Loaded(NamedTuple):
    """One step's clips: the batch (None when nothing could be read), and what failed."""

    batch: Batch | None
    failures: tuple[Failure, ...]


@dataclass(frozen=True)
class View:
    """The part of a resized picture that training looks at: a square at (left, top), perhaps mirrored."""

    left: int
    top: int
    side: int
    flip: bool

    @classmethod
    def draw(cls, height: int, width: int, side: int, may_flip: bool, random: np.random.Generator) -> View:
        left, top = int(random.integers(width - side + 1)), int(random.integers(height - side + 1))
        return cls(left, top, side, bool(may_flip and random.integers(2)))

    def apply(self, picture: Tensor) -> Tensor:
        """Cut and mirror (..., H, W)."""
        cut = picture[..., self.top : self.top + self.side, self.left : self.left + self.side]
        return cut.flip(-1) if self.flip else cut


def resized(frame: U8, height: int, width: int) -> Tensor:
    """uint8 (3, H, W) -> uint8 (3, height, width), bicubic."""
    picture = torch.from_numpy(np.ascontiguousarray(frame))
    if picture.shape[1:] == (height, width):
        return picture
    out: Tensor = resize(picture, [height, width], InterpolationMode.BICUBIC, antialias=True)
    return out


def eval_picture(frame: U8, inputs: Inputs) -> Tensor:
    """What a model sees of a picture outside training: all of it, squeezed into a square."""
    return resized(frame, inputs.image_size, inputs.image_size)


class _Items(Dataset[Any]):
    """Reads one clip a time, in a worker or in the main process."""

    def __init__(self, clip_set: ClipSet, inputs: Inputs, *, augment: tuple[int, int] | None, truth: bool) -> None:
        self.clip_set, self.inputs, self.augment, self.truth = clip_set, inputs, augment, truth

    def __getitem__(self, index: int) -> tuple[int, Tensor, Tensor, Tensor | None] | Failure:
        i = int(index)
        epoch = self.augment[1] if self.augment else 0
        try:
            clip = self.clip_set.read(i, self.inputs.rate, self.inputs.seconds, epoch)
            frame, truth = self._picture(clip, i)
        except MediaError as error:
            return Failure(self.clip_set.rows[i].id, str(error))
        wave = torch.from_numpy(fit_waveform(clip.waveform, clip.rate, clip.time, self.inputs.samples).copy())
        return i, frame, wave, truth

    def _picture(self, clip: Clip, i: int) -> tuple[Tensor, Tensor | None]:
        row, size = self.clip_set.rows[i], self.inputs.image_size
        if self.augment is None:
            boxes = row.boxes
            frame = eval_picture(clip.frame, self.inputs)
        else:
            _, h, w = clip.frame.shape
            if max(h, w) > LONGEST * min(h, w):
                raise MediaError(
                    clip.id,
                    f"Expected a picture at most {LONGEST} times as long as wide, but got {w} x {h}.",
                    "Cut it, or leave it out of the training list.",
                )
            scale = self.inputs.resize / min(h, w)
            h, w = max(round(h * scale), self.inputs.resize), max(round(w * scale), self.inputs.resize)
            view = View.draw(h, w, size, self.inputs.flip, np.random.default_rng((*self.augment, 1, i)))
            frame = view.apply(resized(clip.frame, h, w))
            boxes = crop_boxes(row.boxes, view.left / w, view.top / h, size / w, size / h, view.flip)
        truth = torch.from_numpy(truth_map(boxes, size, row.consensus)) if self.truth else None
        return frame, truth


class _Collate:
    def __init__(self, clip_set: ClipSet) -> None:
        self.rows = clip_set.rows

    def __call__(self, items: list[Any]) -> Loaded:
        failures = tuple(item for item in items if isinstance(item, Failure))
        good = [item for item in items if not isinstance(item, Failure)]
        if not good:
            return Loaded(None, failures)
        index = [i for i, _, _, _ in good]
        rows = [self.rows[i] for i in index]
        truths = [t for _, _, _, t in good if t is not None]
        batch = Batch(
            torch.stack([frame for _, frame, _, _ in good]),
            torch.stack([wave for _, _, wave, _ in good]),
            torch.tensor(index),
            tuple(row.id for row in rows),
            torch.stack(truths) if truths else None,
            torch.tensor([bool(row.boxes) for row in rows]) if truths else None,
        )
        return Loaded(batch, failures)


@cache
def _workers() -> BaseContext:
    """Workers are forked from a server that has imported this file once: they start fast, every epoch, and inherit
    neither the threads nor the GPU of the training process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _load(items: _Items, batches: Iterable[list[int]], workers: int) -> Iterator[Loaded]:
    need(0 <= workers <= MOST_WORKERS, f"workers from 0 to {MOST_WORKERS}", workers, "As many as cores is plenty.")
    loader: DataLoader[Any] = DataLoader(
        items,
        batch_sampler=list(batches),
        num_workers=workers,
        collate_fn=_Collate(items.clip_set),
        pin_memory=torch.cuda.is_available(),
        # torch's default would draw from the global generator, and an epoch that is read again after a resume must not.
        generator=torch.Generator().manual_seed(0),
        multiprocessing_context=_workers() if workers else None,
    )
    yield from loader


def train_batches(
    clip_set: ClipSet,
    inputs: Inputs,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    first_step: int = 0,
    rank: int = 0,
    world: int = 1,
    workers: int = 0,
    truth: bool = False,
) -> Iterator[Loaded]:
    """This process's parts of an epoch's batches from `first_step` on, augmented; `batch_size` counts all processes."""
    order = epoch_order(len(clip_set), seed, epoch)
    steps = range(first_step, steps_per_epoch(len(clip_set), batch_size))
    batches = [batch_at(order, step, batch_size, rank, world).tolist() for step in steps]
    yield from _load(_Items(clip_set, inputs, augment=(seed, epoch), truth=truth), batches, workers)


def eval_batches(
    clip_set: ClipSet, inputs: Inputs, batch_size: int, workers: int = 0, *, rank: int = 0, world: int = 1
) -> Iterator[Loaded]:
    """All clips in order, not augmented; of several processes each gets every `world`-th batch.

    Whole batches are dealt out, so that a clip is always computed together with the same others and its numbers are
    the same, bit for bit, however many processes there are.
    """
    batches = [list(range(i, min(i + batch_size, len(clip_set)))) for i in range(0, len(clip_set), batch_size)]
    yield from _load(_Items(clip_set, inputs, augment=None, truth=False), batches[rank::world], workers)
