"""Clips as a pack stores them, on their way to the GPU that will unpack them all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from earsight.data.pictures import cut_and_resized, cut_pictures
from earsight.data.view import View
from earsight.types import U8, Batch


class Given(NamedTuple):
    """A picture that a worker hands over, and what is to be seen of it.

    Args:
        data: uint8, the bytes of a JPEG file (n,), or what it decodes to (height, width, 3).
        height: of the picture.
        width: of the picture.
        view: what is seen.
    """

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
    """

    jpegs: Tensor
    pixels: Tensor
    ends: Tensor
    decoded: Tensor
    sizes: Tensor
    views: Tensor
    side: int

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
        )

    def pin_memory(self) -> Pictures:
        """Only what is copied to the GPU as it is; the files are parsed here first."""
        pixels, sizes, views = (x.pin_memory() for x in (self.pixels, self.sizes, self.views))
        return replace(self, pixels=pixels, sizes=sizes, views=views)

    def seen(self, device: torch.device) -> tuple[Tensor, dict[int, str]]:
        """uint8 (B, 3, side, side) on `device`, and why a picture could not be decoded, which is then black."""
        pictures, failed = self._pictures(device)
        if device.type == "cuda":
            return cut_pictures(pictures, self.sizes, self.views, self.side), failed
        views: list[list[int]] = self.views.tolist()
        return torch.stack([self._seen_alone(*pair) for pair in zip(pictures, views, strict=True)]), failed

    def _seen_alone(self, picture: Tensor, view: list[int]) -> Tensor:
        height, width, left, top, flip = view
        return cut_and_resized(picture.numpy(), height, width, left, top, self.side, bool(flip))

    def _pictures(self, device: torch.device) -> tuple[list[Tensor], dict[int, str]]:
        """All as uint8 (3, H, W) on the device."""
        sizes: list[list[int]] = self.sizes.tolist()
        pixels = self.pixels.to(device, non_blocking=True)
        files: list[Tensor] = []
        pictures: list[Tensor | None] = []
        begins = [0, 0]
        for end, which, (height, width) in zip(self.ends.tolist(), self.decoded.tolist(), sizes, strict=True):
            part = (pixels if which else self.jpegs)[begins[which] : end]
            begins[which] = end
            pictures.append(part.view(height, width, 3).permute(2, 0, 1) if which else None)
            if not which:
                files.append(part)
        at = [i for i, picture in enumerate(pictures) if picture is None]
        found, failed = _decoded(files, [sizes[i] for i in at], device)
        rest = iter(found)
        return [next(rest) if one is None else one for one in pictures], {at[i]: why for i, why in failed.items()}


def _decoded(files: list[Tensor], sizes: list[list[int]], device: torch.device) -> tuple[list[Tensor], dict[int, str]]:
    if not files:
        return [], {}
    try:
        pictures = _decode(files, device)
        if all(list(picture.shape[1:]) == size for picture, size in zip(pictures, sizes, strict=True)):
            return pictures, {}
    except RuntimeError:
        pass  # which does not say whose file it was
    return _one_by_one(files, sizes, device)


def _decode(files: list[Tensor], device: torch.device) -> list[Tensor]:
    if device.type != "cuda":
        return [decode_jpeg(file, mode=ImageReadMode.RGB) for file in files]
    return list(decode_jpeg(files, mode=ImageReadMode.RGB, device=device))


def _one_by_one(
    files: list[Tensor], sizes: list[list[int]], device: torch.device
) -> tuple[list[Tensor], dict[int, str]]:
    """As the CPU decodes them."""
    pictures, failed = [], {}
    for i, (file, (height, width)) in enumerate(zip(files, sizes, strict=True)):
        picture = torch.zeros((3, height, width), dtype=torch.uint8)
        try:
            found = decode_jpeg(file, mode=ImageReadMode.RGB)
            if found.shape == picture.shape:
                picture = found
            else:
                failed[i] = f"has a picture of {tuple(found.shape)} instead of {tuple(picture.shape)}"
        except RuntimeError as error:
            failed[i] = f"has a JPEG picture that cannot be decoded ({str(error).splitlines()[0][:200]})"
        pictures.append(picture.to(device, memory_format=torch.contiguous_format))
    return pictures, failed


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

    def unpack(self, device: torch.device) -> tuple[Batch, dict[int, str]]:
        """The batch on `device`, and why some of its pictures could not be decoded."""

        def moved(x: Tensor | None) -> Tensor | None:
            return None if x is None else x.to(device, non_blocking=True)

        def sound(x: Tensor) -> Tensor:
            return x.to(device, non_blocking=True).float() / 32768

        frames, failed = self.pictures.seen(device)
        near_frames = None
        if self.near_pictures is not None:
            near_frames, near_failed = self.near_pictures.seen(device)
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
