"""Clips as a pack stores them, on their way to the GPU that will unpack them all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from earsight.data.decoding import File, Found
from earsight.data.pictures import cut_and_resized, cut_pictures
from earsight.data.view import View
from earsight.types import U8, Batch


class Given(NamedTuple):
    """A picture that a worker hands over, and what is to be seen of it.

    Args:
        id: the clip whose picture it is.
        data: uint8, the bytes of a JPEG file (n,), or what it decodes to (height, width, 3).
        height: of the picture.
        width: of the picture.
        view: what is seen.
    """

    id: str
    data: U8
    height: int
    width: int
    view: View


@dataclass(frozen=True)
class Pictures:
    """The pictures of a batch as workers hand them over: some as JPEG files, some decoded.

    Args:
        jpegs: uint8 (n,), the files one after another.
        pixels: uint8 (m,), the decoded pictures one after another, colours side by side.
        ends: int64 (B,), where each ends in `jpegs` or `pixels`.
        decoded: bool (B,), which are in `pixels`.
        sizes: int64 (B, 2), heights and widths.
        views: int64 (B, 5), of each view: height and width that the picture is resized to, left, top, mirrored or not.
        side: of the square that is seen.
        ids: whose pictures they are.
    """

    jpegs: Tensor
    pixels: Tensor
    ends: Tensor
    decoded: Tensor
    sizes: Tensor
    views: Tensor
    side: int
    ids: tuple[str, ...]

    @classmethod
    def of(cls, given: Sequence[Given]) -> Pictures:
        parts: tuple[list[U8], list[U8]] = [np.zeros(0, np.uint8)], [np.zeros(0, np.uint8)]
        lengths, ends = [0, 0], []
        decoded = [one.data.ndim == 3 for one in given]
        for one, which in zip(given, decoded, strict=True):
            parts[which].append(one.data.reshape(-1))
            lengths[which] += one.data.size
            ends.append(lengths[which])
        views = [one.view for one in given]
        return cls(
            torch.from_numpy(np.concatenate(parts[0])),
            torch.from_numpy(np.concatenate(parts[1])),
            torch.tensor(ends),
            torch.tensor(decoded),
            torch.tensor([(one.height, one.width) for one in given]),
            torch.tensor([(view.height, view.width, view.left, view.top, int(view.flip)) for view in views]),
            views[0].side,
            tuple(one.id for one in given),
        )

    def pin_memory(self) -> Pictures:
        """Only what is copied to the GPU as it is; the files are parsed here first."""
        pixels, sizes, views = (x.pin_memory() for x in (self.pixels, self.sizes, self.views))
        return replace(self, pixels=pixels, sizes=sizes, views=views)

    def files(self) -> list[File]:
        """Those that are yet to be decoded."""
        return [File(data, *size) for data, size, done in self._parts(self.pixels) if not done]

    def seen(self, device: torch.device, found: Iterator[Found]) -> tuple[Tensor, dict[int, str]]:
        """uint8 (B, 3, side, side) on `device`, and why a picture could not be decoded, which is then black.

        `found` gives what the files were decoded to.
        """
        pictures: list[Tensor] = []
        failed: dict[int, str] = {}
        for i, (data, (height, width), done) in enumerate(self._parts(self.pixels.to(device, non_blocking=True))):
            one = Found(data.view(height, width, 3).permute(2, 0, 1)) if done else next(found)
            pictures.append(one.picture)
            if one.failed:
                failed[i] = f"{self.ids[i]}: {one.failed}."
        if device.type == "cuda":
            return cut_pictures(pictures, self.sizes, self.views, self.side), failed
        views: list[list[int]] = self.views.tolist()
        return torch.stack([self._seen_alone(*pair) for pair in zip(pictures, views, strict=True)]), failed

    def _seen_alone(self, picture: Tensor, view: list[int]) -> Tensor:
        height, width, left, top, flip = view
        return cut_and_resized(picture.numpy(), height, width, left, top, self.side, bool(flip))

    def _parts(self, pixels: Tensor) -> Iterator[tuple[Tensor, tuple[int, int], bool]]:
        """The bytes of each picture, its size, and whether it is decoded, then taken from `pixels`."""
        begins = [0, 0]
        for end, done, (height, width) in zip(
            self.ends.tolist(), self.decoded.tolist(), self.sizes.tolist(), strict=True
        ):
            yield (pixels if done else self.jpegs)[begins[done] : end], (height, width), done
            begins[done] = end


@dataclass(frozen=True)
class Parcel:
    """A Batch whose pictures are yet to be decoded and cut and whose sounds are int16 (B, N), of which 32768 is 1.0."""

    pictures: Pictures
    waveforms: Tensor
    index: Tensor
    ids: tuple[str, ...]
    truth: Tensor | None = None
    supervised: Tensor | None = None
    near_pictures: Pictures | None = None
    near_waveforms: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def pin_memory(self) -> Parcel:
        """In page-locked memory, from where copies to a GPU run beside the computation; data loaders call this."""

        def maybe(x: Tensor | None) -> Tensor | None:
            return None if x is None else x.pin_memory()

        return Parcel(
            self.pictures.pin_memory(),
            self.waveforms.pin_memory(),
            self.index.pin_memory(),
            self.ids,
            maybe(self.truth),
            maybe(self.supervised),
            None if self.near_pictures is None else self.near_pictures.pin_memory(),
            maybe(self.near_waveforms),
        )

    def files(self) -> list[File]:
        """The pictures that are yet to be decoded."""
        return self.pictures.files() + ([] if self.near_pictures is None else self.near_pictures.files())

    def unpack(self, device: torch.device, found: Iterator[Found]) -> tuple[Batch, dict[int, str]]:
        """The batch on `device`, and why some of its pictures could not be decoded; `found` is what its files gave."""

        def moved(x: Tensor | None) -> Tensor | None:
            return None if x is None else x.to(device, non_blocking=True)

        def sound(x: Tensor) -> Tensor:
            return x.to(device, non_blocking=True).float() / 32768

        frames, failed = self.pictures.seen(device, found)
        near_frames = None
        if self.near_pictures is not None:
            near_frames, near_failed = self.near_pictures.seen(device, found)
            failed = near_failed | failed
        batch = Batch(
            frames,
            sound(self.waveforms),
            self.index.to(device, non_blocking=True),
            self.ids,
            moved(self.truth),
            moved(self.supervised),
            near_frames,
            None if self.near_waveforms is None else sound(self.near_waveforms),
        )
        return batch, failed
