"""What a worker does: read the clips of a batch and put them together.

Pictures leave a worker cut to what the model sees, as uint8, and sounds as they were read. A clip that cannot be
read is left out of its batch and named; it never becomes another clip.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from earsight.config import Inputs
from earsight.data.clips import ClipSet, fit_waveform
from earsight.data.sampler import SampleRequest
from earsight.data.truth import crop_boxes, truth_map
from earsight.data.view import View
from earsight.errors import MediaError
from earsight.types import F32, I16, Batch, Failure, Sound, floats

LONGEST = 20
"""A picture is scaled by its shorter side before the training crop; a mere line would become gigabytes."""
DRAWS_PER_SEED = 1_000_003
"""More epochs than any training has: the draws of one seed do not meet those of another."""


@dataclass(frozen=True)
class SampleSpec:
    """What training asks of every clip, besides its picture and its sound.

    Args:
        seed: of the crops, which are a function of seed, epoch and clip.
        seconds: of sound around the frame, 0 for what the model hears.
        annotated: bool (N,), whose ground truth may be used; None when none is wanted.
    """

    seed: int
    seconds: float = 0.0
    annotated: tuple[bool, ...] | None = None


class Reader(Dataset[Batch]):
    """Reads the clips of a batch, in a worker or in the main process.

    Args:
        clip_set: whose clips.
        inputs: how they become inputs.
        spec: what training asks for; None looks at whole pictures.
    """

    def __init__(self, clip_set: ClipSet, inputs: Inputs, spec: SampleSpec | None = None) -> None:
        self._clips, self._inputs, self._spec = clip_set, inputs, spec
        self._seconds = max(0.0 if spec is None else spec.seconds, inputs.seconds)
        self._annotated = None if spec is None else spec.annotated

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps((self._clips, self._inputs, self._spec))

    def __reduce__(self) -> Any:
        # Once for all workers: a list of a hundred thousand clips takes a second each time.
        return _unpickled, (self._pickled,)

    def __getitem__(self, requests: Sequence[SampleRequest]) -> Batch:
        samples: list[dict[str, Any]] = []
        failures: list[Failure] = []
        for request in requests:
            try:
                samples.append(self._sample(request))
            except MediaError as error:
                failures.append(Failure(self._clips.rows[request.clip].id, str(error)))
        if not samples:
            side, empty = self._inputs.image_size, torch.zeros(0, dtype=torch.uint8)
            return Batch(empty.view(0, 3, side, side), torch.zeros(0, 1), empty.long(), failures=tuple(failures))
        parts: dict[str, Any] = {name: _stacked([sample[name] for sample in samples]) for name in samples[0]}
        return Batch(**parts, failures=tuple(failures))

    def _sample(self, request: SampleRequest) -> dict[str, Any]:
        """What a batch holds of one clip, by the names that a Batch has for it."""
        sample = self._read(request.clip, request.epoch) | {"index": np.int64(request.clip)}
        if self._annotated is not None:
            sample["supervised"] = np.bool_(self._annotated[request.clip])
        if request.neighbour_picture >= 0:
            other = self._read(request.neighbour_picture, request.epoch)
            sample |= {"neighbour_pictures": other["frames"], "neighbour_sounds": other["waveforms"]}
            if request.neighbour_sound != request.neighbour_picture:
                sound = self._clips.hear(request.neighbour_sound, *self._wanted(request.epoch))
                sample["neighbour_sounds"] = self._fitted(sound)
        return sample

    def _read(self, i: int, epoch: int) -> dict[str, Any]:
        """A clip's picture as the model sees it, its sound, and where it is wanted its ground truth."""
        clip, spec, side = self._clips.read(i, *self._wanted(epoch)), self._spec, self._inputs.image_size
        sound = self._fitted(clip.sound)
        if spec is None:
            return {"frames": View.whole(side).apply(clip.frame), "waveforms": sound}
        _, height, width = clip.frame.shape
        if max(height, width) > LONGEST * min(height, width):
            raise MediaError(
                clip.id,
                f"Expected a picture at most {LONGEST} times as long as wide, but got {width} x {height}.",
                "Cut it, or leave it out of the training list.",
            )
        view = View.draw(height, width, self._inputs, np.random.default_rng((spec.seed, epoch, 1, i)))
        sample = {"frames": view.apply(clip.frame), "waveforms": sound}
        if self._annotated is not None:
            # What may not be seen is left empty, so that no method can learn from it by mistake.
            row, h, w = self._clips.rows[i], view.height, view.width
            boxes = row.boxes if self._annotated[i] else ()
            boxes = crop_boxes(boxes, view.left / w, view.top / h, side / w, side / h, view.flip)
            sample["truth"] = truth_map(boxes, side, row.consensus)
        return sample

    def _wanted(self, epoch: int) -> tuple[int, float, int]:
        """Rate, seconds and draw, as `read` and `hear` take them."""
        return self._inputs.rate, self._seconds, epoch + (DRAWS_PER_SEED * self._spec.seed if self._spec else 0)

    def _fitted(self, sound: Sound) -> F32 | I16:
        """What a batch carries of a sound; of more than the model hears, that part is in the middle."""
        samples, own = round(self._inputs.rate * self._seconds), self._inputs.samples
        waveform, rate, time = sound
        if samples <= own:
            return fit_waveform(waveform, rate, time, own)
        length = len(waveform)
        if length == 0:
            return np.zeros(samples, dtype=waveform.dtype)
        start = min(max(round(time * rate - own / 2), 0), max(length - own, 0))
        # Beyond an end comes the other.
        return waveform[(np.arange(samples) + start - (samples - own) // 2) % length]


def _unpickled(values: bytes) -> Reader:
    return Reader(*pickle.loads(values))


def _stacked(values: Sequence[Any]) -> Tensor:
    """Tensors or arrays of the clips of a batch, stacked; sounds of both types as float32."""
    if isinstance(values[0], Tensor):
        return torch.stack(list(values))
    mixed = len({value.dtype for value in values}) > 1
    return torch.from_numpy(np.stack([floats(value) for value in values] if mixed else list(values)))
