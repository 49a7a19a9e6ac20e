"""What a worker does: read clips one by one, and put those of a step together.

Pictures leave a worker cut to what the model sees, as uint8, and sounds as they were read. A clip that cannot be
read is left out of its batch and named; it never becomes another clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from earsight.config import Inputs
from earsight.data.clips import ClipSet, fit_waveform
from earsight.data.truth import crop_boxes, truth_map
from earsight.data.view import View
from earsight.errors import MediaError
from earsight.types import F32, I16, Batch, Sound, floats

LONGEST = 20
"""A picture is scaled by its shorter side before the training crop; a mere line would become gigabytes."""


VISITS = 1_000_003
"""More epochs than any training has: the draws of one seed do not meet those of another."""


class Failure(NamedTuple):
    """A clip that could not be read, and why."""

    id: str
    reason: str


class Loaded(NamedTuple):
    """One step's clips: the batch (None when nothing could be read), and what failed."""

    batch: Batch | None
    failures: tuple[Failure, ...]


class Visit(NamedTuple):
    """Which clip to read and for which epoch, and whose picture and whose sound beside it (-1 for none)."""

    at: int
    epoch: int = 0
    seen: int = -1
    heard: int = -1


@dataclass(frozen=True)
class Wanted:
    """What training asks of every clip, besides its picture and its sound.

    Args:
        seed: of the crops, which are a function of seed, epoch and clip.
        seconds: of sound around the frame, 0 for what the model hears.
        annotated: bool (N,), whose ground truth may be used; None when none is wanted.
    """

    seed: int
    seconds: float = 0.0
    annotated: tuple[bool, ...] | None = None


class Read(NamedTuple):
    """One clip: its picture as seen, uint8 (3, S, S); its sound (N,); its ground truth."""

    picture: Tensor
    wave: F32 | I16
    truth: Tensor | None


class Item(NamedTuple):
    """One clip, and what is read beside it; `annotated` is None where no ground truth is wanted."""

    at: int
    id: str
    annotated: bool | None
    own: Read
    near: Read | None


class Items(Dataset[Item | Failure]):
    """Reads the clips of a step, in a worker or in the main process.

    Args:
        clip_set: whose clips.
        inputs: how they become inputs.
        wanted: what training asks for; None looks at whole pictures.
    """

    def __init__(self, clip_set: ClipSet, inputs: Inputs, wanted: Wanted | None = None) -> None:
        self.clip_set, self.inputs, self.wanted = clip_set, inputs, wanted

    def __getitem__(self, visit: Visit) -> Item | Failure:
        at, id = visit.at, self.clip_set.rows[visit.at].id
        truth = None if self.wanted is None else self.wanted.annotated
        try:
            own, near = self._read(at, visit.epoch), None
            if visit.seen >= 0:
                near = self._read(visit.seen, visit.epoch)
                if visit.heard != visit.seen:
                    sound = self.clip_set.hear(visit.heard, *self._asked(visit.epoch))
                    near = near._replace(wave=self._fitted(sound))
            return Item(at, id, None if truth is None else truth[at], own, near)
        except MediaError as error:
            return Failure(id, str(error))

    def _read(self, i: int, epoch: int) -> Read:
        clip = self.clip_set.read(i, *self._asked(epoch))
        _, height, width = clip.frame.shape
        view, truth = self._view(clip.id, height, width, i, epoch)
        return Read(view.apply(clip.frame), self._fitted(clip.sound), truth)

    def _asked(self, epoch: int) -> tuple[int, float, int]:
        """Rate, seconds and draw of a visit, as `read` and `hear` take them."""
        if self.wanted is None:
            return self.inputs.rate, self.inputs.seconds, epoch
        return self.inputs.rate, self._seconds, epoch + VISITS * self.wanted.seed

    @property
    def _seconds(self) -> float:
        """Of sound that a batch carries."""
        return max(0.0 if self.wanted is None else self.wanted.seconds, self.inputs.seconds)

    def _fitted(self, sound: Sound) -> F32 | I16:
        """What a batch carries of a sound, (N,)."""
        return _fitted(sound, self.inputs, round(self.inputs.rate * self._seconds))

    def _view(self, id: str, height: int, width: int, i: int, epoch: int) -> tuple[View, Tensor | None]:
        """What is seen of a picture, and in training its ground truth through the same."""
        wanted, side = self.wanted, self.inputs.image_size
        if wanted is None:
            return View.whole(side), None
        if max(height, width) > LONGEST * min(height, width):
            raise MediaError(
                id,
                f"Expected a picture at most {LONGEST} times as long as wide, but got {width} x {height}.",
                "Cut it, or leave it out of the training list.",
            )
        view = View.draw(height, width, self.inputs, np.random.default_rng((wanted.seed, epoch, 1, i)))
        if wanted.annotated is None:
            return view, None
        row, h, w = self.clip_set.rows[i], view.height, view.width
        # What may not be seen is left empty, so that no method can learn from it by mistake.
        boxes = row.boxes if wanted.annotated[i] else ()
        boxes = crop_boxes(boxes, view.left / w, view.top / h, side / w, side / h, view.flip)
        return view, torch.from_numpy(truth_map(boxes, side, row.consensus))


def _fitted(sound: Sound, inputs: Inputs, samples: int) -> F32 | I16:
    """A sound's waveform, `samples` long; of more than the model hears, that part is in the middle."""
    waveform = sound.waveform
    if samples <= inputs.samples:
        return fit_waveform(waveform, sound.rate, sound.time, inputs.samples)
    length = len(waveform)
    if length == 0:
        return np.zeros(samples, dtype=waveform.dtype)
    own = min(max(round(sound.time * sound.rate - inputs.samples / 2), 0), max(length - inputs.samples, 0))
    # Beyond an end comes the other.
    return waveform[(np.arange(samples) + own - (samples - inputs.samples) // 2) % length]


def together(items: Sequence[Item | Failure]) -> Loaded:
    """Put the clips of a step together, apart from those that could not be read."""
    failures = tuple(item for item in items if isinstance(item, Failure))
    good = [item for item in items if isinstance(item, Item)]
    if not good:
        return Loaded(None, failures)
    own, near = [item.own for item in good], [item.near for item in good if item.near is not None]
    truths = [one.truth for one in own if one.truth is not None]
    annotated = [item.annotated for item in good if item.annotated is not None]
    batch = Batch(
        torch.stack([one.picture for one in own]),
        _stacked(own),
        torch.tensor([item.at for item in good]),
        tuple(item.id for item in good),
        torch.stack(truths) if truths else None,
        torch.tensor(annotated) if annotated else None,
        torch.stack([one.picture for one in near]) if near else None,
        _stacked(near) if near else None,
    )
    return Loaded(batch, failures)


def _stacked(clips: Sequence[Read]) -> Tensor:
    """Sounds (B, N): as they were read where all are of one type, else as float32."""
    waves = [one.wave for one in clips]
    return torch.from_numpy(np.stack(waves if len({wave.dtype for wave in waves}) == 1 else list(map(floats, waves))))
