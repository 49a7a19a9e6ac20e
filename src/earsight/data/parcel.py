"""Clips as a pack stores them, on their way to the GPU that will unpack them all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from earsight.data.decoding import File, Found
from earsight.data.pictures import cut_and_resized, cut_pictures, needed, places_of
from earsight.data.view import View
from earsight.types import U8, Batch, Jpegs


class Given(NamedTuple):
    """A picture that a worker hands over, and what is to be seen of it.

    Args:
        id: the clip whose picture it is.
        data: uint8, the bytes of a JPEG file (n,), or of what it decodes to as much as is looked at (h, w, 3).
        height: of the picture.
        width: of the picture.
        view: what is seen.
        top: the row of the picture that `data` begins with.
        left: the column of the picture that `data` begins with.
    """

    id: str
    data: U8
    height: int
    width: int
    view: View
    top: int = 0
    left: int = 0

    @classmethod
    def decoded(cls, id: str, picture: U8, view: View) -> Given:
        """What is looked at of a picture (3, H, W)."""
        _, height, width = picture.shape
        top, bottom = needed(height, view.height, view.top, view.side)
        left, right = needed(width, view.width, view.left, view.side)
        part = np.ascontiguousarray(picture.transpose(1, 2, 0)[top:bottom, left:right])
        return cls(id, part, height, width, view, top, left)


@dataclass(frozen=True)
class Pictures:
    """The pictures of a batch as workers hand them over.

    Args:
        data: uint8 (n,), one after another: JPEG files, or parts of pictures with their colours side by side.
        ends: int64 (B,), where each ends.
        parts: int64 (B, 3), of each part: the row and the column that it begins with, and how many columns it has.
        sizes: int64 (B, 2), heights and widths of the whole pictures.
        views: int64 (B, 5), of each view: height and width that the picture is resized to, left, top, mirrored or not.
        decoded: whether they are pictures already.
        side: of the square that is seen.
        ids: whose pictures they are.
    """

    data: Tensor
    ends: Tensor
    parts: Tensor
    sizes: Tensor
    views: Tensor
    decoded: bool
    side: int
    ids: tuple[str, ...]

    @classmethod
    def of(cls, given: Sequence[Given]) -> Pictures:
        views = [one.view for one in given]
        return cls(
            torch.from_numpy(np.concatenate([one.data.reshape(-1) for one in given])),
            _numbers([one.data.size for one in given]).cumsum(0),
            _numbers([(one.top, one.left, one.data.shape[1] if one.data.ndim == 3 else 0) for one in given]),
            _numbers([(one.height, one.width) for one in given]),
            _numbers([view.numbers for view in views]),
            given[0].data.ndim == 3,
            views[0].side,
            tuple(one.id for one in given),
        )

    @classmethod
    def whole(cls, jpegs: Jpegs, side: int, ids: tuple[str, ...]) -> Pictures:
        """All of each picture, squeezed into a square."""
        view, count = View.whole(side), len(ids)
        return cls(
            torch.from_numpy(jpegs.data),
            torch.tensor(jpegs.ends),
            torch.zeros(count, 3, dtype=torch.int64),
            _numbers(jpegs.sizes),
            _numbers([view.numbers]).repeat(count, 1),
            False,
            side,
            ids,
        )

    def each(self, change: Callable[[Tensor], Tensor]) -> Pictures:
        """The same of changed tensors."""
        data, ends, parts = change(self.data), change(self.ends), change(self.parts)
        return replace(self, data=data, ends=ends, parts=parts, sizes=change(self.sizes), views=change(self.views))

    def files(self) -> list[File]:
        """Those that are yet to be decoded."""
        if self.decoded:
            return []
        return [File(data, *size) for data, size in zip(self._each(), self.sizes.tolist(), strict=True)]

    def places(self, address: int) -> Tensor:
        """Where decoded pictures lie on a GPU that has `data` at this address, as `cut_pictures` asks for it."""
        top, left, columns = self.parts.unbind(1)
        begins = torch.cat((torch.zeros_like(self.ends[:1]), self.ends[:-1]))
        one = torch.ones_like(begins)
        return torch.stack((address + begins - 3 * (top * columns + left), one, 3 * one, 3 * columns), 1)

    def seen(self, device: torch.device, found: Iterator[Found]) -> tuple[Tensor, dict[int, str]]:
        """uint8 (B, 3, side, side) on `device`, and why a picture could not be decoded, which is then black.

        `found` gives what the files were decoded to.
        """
        if self.decoded and device.type == "cuda":
            data = self.data.to(device, non_blocking=True)
            return cut_pictures(self.places(data.data_ptr()), self.sizes, self.views, self.side, device), {}
        if self.decoded:
            return self._seen_alone(self._whole()), {}
        decoded = list(islice(found, len(self.ids)))
        failed = {i: f"{self.ids[i]}: {one.failed}." for i, one in enumerate(decoded) if one.failed}
        pictures = [one.picture for one in decoded]
        if device.type != "cuda":
            return self._seen_alone(pictures), failed
        return cut_pictures(places_of(pictures), self.sizes, self.views, self.side, device), failed

    def _seen_alone(self, pictures: list[Tensor]) -> Tensor:
        """One by one on a CPU."""
        views: list[list[int]] = self.views.tolist()
        seen = []
        for picture, (height, width, left, top, flip) in zip(pictures, views, strict=True):
            seen.append(cut_and_resized(picture.numpy(), height, width, left, top, self.side, bool(flip)))
        return torch.stack(seen)

    def _whole(self) -> list[Tensor]:
        """Decoded pictures (3, H, W), black where nothing of them is given."""
        found = []
        for data, (top, left, columns), size in zip(
            self._each(), self.parts.tolist(), self.sizes.tolist(), strict=True
        ):
            picture, part = torch.zeros((*size, 3), dtype=torch.uint8), data.view(-1, columns, 3)
            picture[top : top + len(part), left : left + columns] = part
            found.append(picture.permute(2, 0, 1))
        return found

    def _each(self) -> list[Tensor]:
        ends: list[int] = self.ends.tolist()
        return list(torch.split(self.data, [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]))


def _numbers(values: Sequence[Any]) -> Tensor:
    """int64, by way of numpy, which takes lists apart twice as fast."""
    return torch.from_numpy(np.array(values, np.int64))


class Unseen(Protocol):
    """Pictures of a batch of which the views are still to be taken."""

    @property
    def decoded(self) -> bool: ...

    def files(self) -> list[File]: ...

    def seen(self, device: torch.device, found: Iterator[Found]) -> tuple[Tensor, dict[int, str]]: ...

    def each(self, change: Callable[[Tensor], Tensor]) -> Unseen: ...


@dataclass(frozen=True)
class Parcel:
    """A Batch whose pictures are yet to be decoded and cut and whose sounds are int16 (B, N), of which 32768 is 1.0."""

    pictures: Unseen
    waveforms: Tensor
    index: Tensor
    ids: tuple[str, ...]
    truth: Tensor | None = None
    supervised: Tensor | None = None
    near_pictures: Unseen | None = None
    near_waveforms: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def each(self, change: Callable[[Tensor], Tensor]) -> Parcel:
        """The same of changed tensors."""

        def maybe(x: Tensor | None) -> Tensor | None:
            return None if x is None else change(x)

        return Parcel(
            self.pictures.each(change),
            change(self.waveforms),
            change(self.index),
            self.ids,
            maybe(self.truth),
            maybe(self.supervised),
            None if self.near_pictures is None else self.near_pictures.each(change),
            maybe(self.near_waveforms),
        )

    def sounds_on(self, device: torch.device) -> Parcel:
        """The same with its sounds on `device`, copied beside other work from page-locked memory."""
        near = None if self.near_waveforms is None else self.near_waveforms.to(device, non_blocking=True)
        return replace(self, waveforms=self.waveforms.to(device, non_blocking=True), near_waveforms=near)

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
