"""What a worker does: read clips one by one, and put those of a step together.

Pictures leave a worker as uint8 and sound as waveforms. Clips of a pack that go to a GPU leave it as they are stored,
as JPEG files and 16-bit samples, to be unpacked there (data/feeding.py). A clip that cannot be read is left out of its
batch and named; it never becomes another clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from earsight.config import Inputs
from earsight.data.clips import ClipSet, W, fit_waveform
from earsight.data.flat import Flat, Room
from earsight.data.jpeg import decode_clip
from earsight.data.parcel import Given, Parcel, Pictures
from earsight.data.truth import crop_boxes, truth_map
from earsight.data.view import View
from earsight.errors import MediaError
from earsight.types import F32, I16, Batch, Clip, Encoded, Jpegs

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


class Sent(NamedTuple):
    """One step's clips as a worker hands them over."""

    batch: Batch | Parcel | Flat[Batch | Parcel] | None
    failures: tuple[Failure, ...]

    @property
    def files(self) -> int:
        """Clips whose pictures are yet to be decoded."""
        batch = self.batch.form if isinstance(self.batch, Flat) else self.batch
        return len(batch) if isinstance(batch, Parcel) and not batch.pictures.decoded else 0

    def flat(self, room: Room | None = None) -> Sent:
        """With the batch in one piece, for another process; in some of `room` if that is given."""
        if self.batch is None or isinstance(self.batch, Flat):
            return self
        return Sent(Flat.of(self.batch, room), self.failures)


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
    """One clip: its picture as seen, or with the view still to be taken; its sound; its ground truth."""

    picture: Tensor | Given
    wave: F32 | I16
    truth: Tensor | None


class Item(NamedTuple):
    """One clip, and what is read beside it; `annotated` is None where no ground truth is wanted."""

    at: int
    id: str
    annotated: bool | None
    own: Read
    near: Read | None


class Run(NamedTuple):
    """Clips of a pack that were read at once: their places in the set, names, pictures and sounds, and the side of the
    square that each picture is squeezed into."""

    at: list[int]
    ids: tuple[str, ...]
    jpegs: Jpegs
    sounds: list[I16]
    side: int


class Items(Dataset[Any]):
    """Reads the clips of a step, in a worker or in the main process.

    Args:
        clip_set: whose clips.
        inputs: how they become inputs.
        wanted: what training asks for; None looks at whole pictures.
        encoded: hand pictures and sounds over as they are stored.
        decode: decode the pictures among these first.
    """

    def __init__(
        self,
        clip_set: ClipSet,
        inputs: Inputs,
        wanted: Wanted | None = None,
        encoded: bool = False,
        decode: bool = False,
    ) -> None:
        self.clip_set, self.inputs, self.wanted, self.encoded, self.decode = clip_set, inputs, wanted, encoded, decode

    def __getitem__(self, visit: Visit) -> Item | Failure:
        at, id = visit.at, self.clip_set.rows[visit.at].id
        truth = None if self.wanted is None else self.wanted.annotated
        try:
            own, near = self._read(at, visit.epoch), None
            if visit.seen >= 0:
                near = self._read(visit.seen, visit.epoch)
                if visit.heard != visit.seen:
                    near = near._replace(wave=self.heard(visit.heard, visit.epoch)[1])
            return Item(at, id, None if truth is None else truth[at], own, near)
        except MediaError as error:
            return Failure(id, str(error))

    def __getitems__(self, visits: list[Visit]) -> list[Item | Failure] | Run:
        """The clips of a step; of a pack many at once, where nothing is special about them."""
        return self.run([visit.at for visit in visits]) or [self[visit] for visit in visits]

    def run(self, at: list[int]) -> Run | None:
        """Whole clips of a pack at once, outside training; None where they are to be read one by one."""
        if not self.encoded or self.decode or self.wanted is not None:
            return None
        sounds = self.clip_set.sounds(at, self.inputs.rate, self.inputs.seconds)
        jpegs = None if sounds is None else self.clip_set.jpegs(at)
        if jpegs is None or sounds is None:
            return None
        return Run(at, tuple(self.clip_set.rows[i].id for i in at), jpegs, sounds, self.inputs.image_size)

    def heard(self, i: int, epoch: int) -> tuple[Clip | Encoded, F32 | I16]:
        """A clip, and what a visit hears of it, (S,)."""
        inputs, seconds, draw = self.inputs, self.inputs.seconds, epoch
        if self.wanted is not None:
            seconds, draw = max(self.wanted.seconds, seconds), epoch + VISITS * self.wanted.seed
        samples = round(inputs.rate * seconds)
        if self.encoded:
            stored = self.clip_set.encoded(i, inputs.rate, seconds, draw)
            return stored, _heard(stored, stored.waveform, inputs, samples)
        clip = self.clip_set.read(i, inputs.rate, seconds, draw)
        return clip, _heard(clip, clip.waveform, inputs, samples)

    def _read(self, i: int, epoch: int) -> Read:
        clip, wave = self.heard(i, epoch)
        if isinstance(clip, Clip):
            _, height, width = clip.frame.shape
            view, truth = self.view_of(clip.id, height, width, i, epoch)
            return Read(view.apply(clip.frame), wave, truth)
        view, truth = self.view_of(clip.id, clip.height, clip.width, i, epoch)
        if self.decode:
            return Read(Given.decoded(clip.id, decode_clip(clip), view), wave, truth)
        return Read(Given(clip.id, clip.jpeg, clip.height, clip.width, view), wave, truth)

    def view_of(self, id: str, height: int, width: int, i: int, epoch: int) -> tuple[View, Tensor | None]:
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


def _heard(clip: Clip | Encoded, waveform: W, inputs: Inputs, samples: int) -> W:
    """What is heard, `samples` long; of more than the model hears, that part is in the middle."""
    if samples <= inputs.samples:
        return fit_waveform(waveform, clip.rate, clip.time, inputs.samples)
    length = len(waveform)
    if length == 0:
        return np.zeros(samples, dtype=waveform.dtype)
    own = min(max(round(clip.time * clip.rate - inputs.samples / 2), 0), max(length - inputs.samples, 0))
    # Beyond an end comes the other.
    longer: W = waveform[(np.arange(samples) + own - (samples - inputs.samples) // 2) % length]
    return longer


def together(items: list[Item | Failure] | Run | Sent, pinned: bool = False) -> Sent:
    """Put the clips of a step together, apart from those that could not be read; sounds in page-locked memory, from
    where a GPU copies them beside other work, if they are to be `pinned`."""
    if isinstance(items, Sent):  # which are together
        return items
    if isinstance(items, Run):
        pictures = Pictures.whole(items.jpegs, items.side, items.ids)
        return Sent(Parcel(pictures, joined(items.sounds, pinned), torch.tensor(items.at), items.ids), ())
    failures = tuple(item for item in items if isinstance(item, Failure))
    good = [item for item in items if isinstance(item, Item)]
    if not good:
        return Sent(None, failures)
    own, near = [item.own for item in good], [item.near for item in good if item.near is not None]
    ids, index = tuple(item.id for item in good), torch.tensor([item.at for item in good])
    truths = [one.truth for one in own if one.truth is not None]
    truth = torch.stack(truths) if truths else None
    annotated = [item.annotated for item in good if item.annotated is not None]
    which = torch.tensor(annotated) if annotated else None
    waves = joined([clip.wave[None] for clip in own], pinned)
    near_waves = joined([clip.wave[None] for clip in near], pinned) if near else None
    if isinstance(own[0].picture, Tensor):
        seen, beside = _stacked(own), _stacked(near) if near else None
        return Sent(Batch(seen, waves, index, ids, truth, which, beside, near_waves), failures)
    stored, stored_beside = _given(own), _given(near) if near else None
    return Sent(Parcel(stored, waves, index, ids, truth, which, stored_beside, near_waves), failures)


class TogetherFlat:
    """The same in one piece, for another process.

    Args:
        pieces: of memory that are used in turns; 0 takes new memory for each batch.
    """

    def __init__(self, pieces: int = 0) -> None:
        self._room = Room(pieces) if pieces else None

    def __call__(self, items: list[Item | Failure] | Run) -> Sent:
        return together(items).flat(self._room)


def joined(sounds: Sequence[F32 | I16], pinned: bool) -> Tensor:
    """Sounds (n, S), one after another."""
    if not pinned:
        return torch.from_numpy(np.concatenate(sounds))
    kind = torch.int16 if sounds[0].dtype == np.int16 else torch.float32
    out = torch.empty((sum(map(len, sounds)), sounds[0].shape[1]), dtype=kind, pin_memory=True)
    np.concatenate(sounds, out=out.numpy())
    return out


def _stacked(clips: Sequence[Read]) -> Tensor:
    return torch.stack([clip.picture for clip in clips if isinstance(clip.picture, Tensor)])


def _given(clips: Sequence[Read]) -> Pictures:
    return Pictures.of([clip.picture for clip in clips if isinstance(clip.picture, Given)])
