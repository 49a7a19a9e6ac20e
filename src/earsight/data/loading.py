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

from earsight.config import Inputs, need_workers
from earsight.data.clips import ClipSet, fit_waveform
from earsight.data.sampler import batch_at, epoch_order, steps_per_epoch
from earsight.data.truth import crop_boxes, truth_map
from earsight.errors import MediaError
from earsight.types import F32, U8, Batch, Clip

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


class Beside(NamedTuple):
    """For each clip of a list, the clips whose picture and whose sound are read beside it."""

    pictures: list[int]
    sounds: list[int]


@dataclass(frozen=True)
class Wanted:
    """What training asks of a clip, besides its picture and its sound.

    Args:
        seed: of the crops, which are a function of seed, epoch and clip.
        epoch: counts from 0.
        seconds: of sound around the frame, 0 for what the model hears.
        annotated: bool (N,), whose ground truth may be used; None when none is wanted.
        beside: other clips to read along; None for none.
    """

    seed: int
    epoch: int
    seconds: float = 0.0
    annotated: tuple[bool, ...] | None = None
    beside: Beside | None = None


class _Item(NamedTuple):
    at: int
    frame: Tensor
    wave: Tensor
    truth: Tensor | None = None
    near_frame: Tensor | None = None
    near_wave: Tensor | None = None


class _Items(Dataset[Any]):
    """Reads one clip a time, in a worker or in the main process."""

    def __init__(self, clip_set: ClipSet, inputs: Inputs, wanted: Wanted | None = None) -> None:
        self.clip_set, self.inputs, self.wanted = clip_set, inputs, wanted

    def __getitem__(self, index: int) -> _Item | Failure:
        i, wanted = int(index), self.wanted
        try:
            frame, wave, truth = self._read(i)
            if wanted is None or wanted.beside is None:
                return _Item(i, frame, wave, truth)
            seen, heard = wanted.beside.pictures[i], wanted.beside.sounds[i]
            near_frame, near_wave, _ = self._read(seen)
            if heard != seen:
                near_wave = self._read(heard)[1]
            return _Item(i, frame, wave, truth, near_frame, near_wave)
        except MediaError as error:
            return Failure(self.clip_set.rows[i].id, str(error))

    def _read(self, i: int) -> tuple[Tensor, Tensor, Tensor | None]:
        inputs, wanted = self.inputs, self.wanted
        seconds = max(wanted.seconds if wanted is not None else 0.0, inputs.seconds)
        clip = self.clip_set.read(i, inputs.rate, seconds, wanted.epoch if wanted is not None else 0)
        frame, truth = (eval_picture(clip.frame, inputs), None) if wanted is None else self._seen(clip, i, wanted)
        wave = fit_waveform(clip.waveform, clip.rate, clip.time, inputs.samples)
        if round(inputs.rate * seconds) > len(wave):
            wave = _longer(clip, len(wave), round(inputs.rate * seconds))
        return frame, torch.from_numpy(wave.copy()), truth

    def _seen(self, clip: Clip, i: int, wanted: Wanted) -> tuple[Tensor, Tensor | None]:
        """A training picture, cropped and perhaps mirrored, and its ground truth through the same."""
        row, size = self.clip_set.rows[i], self.inputs.image_size
        _, h, w = clip.frame.shape
        if max(h, w) > LONGEST * min(h, w):
            raise MediaError(
                clip.id,
                f"Expected a picture at most {LONGEST} times as long as wide, but got {w} x {h}.",
                "Cut it, or leave it out of the training list.",
            )
        scale = self.inputs.resize / min(h, w)
        h, w = max(round(h * scale), self.inputs.resize), max(round(w * scale), self.inputs.resize)
        random = np.random.default_rng((wanted.seed, wanted.epoch, 1, i))
        view = View.draw(h, w, size, self.inputs.flip, random)
        frame = view.apply(resized(clip.frame, h, w))
        if wanted.annotated is None:
            return frame, None
        # What may not be seen is left empty, so that no method can learn from it by mistake.
        boxes = row.boxes if wanted.annotated[i] else ()
        boxes = crop_boxes(boxes, view.left / w, view.top / h, size / w, size / h, view.flip)
        return frame, torch.from_numpy(truth_map(boxes, size, row.consensus))


def _longer(clip: Clip, heard: int, samples: int) -> F32:
    """`samples` of sound with the `heard` that the model will hear in their middle; beyond an end comes the other."""
    length = len(clip.waveform)
    if length == 0:
        return np.zeros(samples, dtype=np.float32)
    own = min(max(round(clip.time * clip.rate - heard / 2), 0), max(length - heard, 0))
    longer: F32 = clip.waveform[(np.arange(samples) + own - (samples - heard) // 2) % length]
    return longer


class _Collate:
    def __init__(self, clip_set: ClipSet, wanted: Wanted | None) -> None:
        self.rows = clip_set.rows
        self.annotated = None if wanted is None else wanted.annotated

    def __call__(self, items: list[Any]) -> Loaded:
        failures = tuple(item for item in items if isinstance(item, Failure))
        good: list[_Item] = [item for item in items if isinstance(item, _Item)]
        if not good:
            return Loaded(None, failures)

        def stacked(parts: list[Tensor | None]) -> Tensor | None:
            there = [part for part in parts if part is not None]
            return torch.stack(there) if there else None

        batch = Batch(
            torch.stack([item.frame for item in good]),
            torch.stack([item.wave for item in good]),
            torch.tensor([item.at for item in good]),
            tuple(self.rows[item.at].id for item in good),
            stacked([item.truth for item in good]),
            None if self.annotated is None else torch.tensor([self.annotated[item.at] for item in good]),
            stacked([item.near_frame for item in good]),
            stacked([item.near_wave for item in good]),
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
    need_workers(workers)
    loader: DataLoader[Any] = DataLoader(
        items,
        batch_sampler=list(batches),
        num_workers=workers,
        collate_fn=_Collate(items.clip_set, items.wanted),
        pin_memory=torch.cuda.is_available(),
        # torch's default would draw from the global generator, and an epoch that is read again after a resume must not.
        generator=torch.Generator().manual_seed(0),
        multiprocessing_context=_workers() if workers else None,
    )
    yield from loader


def train_batches(
    clip_set: ClipSet,
    inputs: Inputs,
    wanted: Wanted,
    *,
    batch_size: int,
    first_step: int = 0,
    rank: int = 0,
    world: int = 1,
    workers: int = 0,
) -> Iterator[Loaded]:
    """This process's parts of an epoch's batches from `first_step` on, augmented; `batch_size` counts all processes."""
    order = epoch_order(len(clip_set), wanted.seed, wanted.epoch)
    steps = range(first_step, steps_per_epoch(len(clip_set), batch_size))
    batches = [batch_at(order, step, batch_size, rank, world).tolist() for step in steps]
    yield from _load(_Items(clip_set, inputs, wanted), batches, workers)


def eval_batches(
    clip_set: ClipSet, inputs: Inputs, batch_size: int, workers: int = 0, *, rank: int = 0, world: int = 1
) -> Iterator[Loaded]:
    """All clips in order, not augmented; of several processes each gets every `world`-th batch.

    Whole batches are dealt out, so that a clip is always computed together with the same others and its numbers are
    the same, bit for bit, however many processes there are.
    """
    batches = [list(range(i, min(i + batch_size, len(clip_set)))) for i in range(0, len(clip_set), batch_size)]
    yield from _load(_Items(clip_set, inputs), batches[rank::world], workers)
