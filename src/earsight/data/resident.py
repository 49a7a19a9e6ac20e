"""A pack that lies decoded in the memory of a GPU: batches are cut from there, and nothing is read any more.

Of sets that bring other sounds in every epoch the pictures are kept, and the sounds read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from earsight.ahead import ahead
from earsight.config import Inputs, Optim, need
from earsight.data.clips import ClipSet
from earsight.data.decoding import File, Found, decode_files
from earsight.data.items import Failure, Item, Items, Read, Sent, Visit, Wanted, joined, together
from earsight.data.parcel import Given, Parcel
from earsight.data.pictures import cut_pictures
from earsight.data.view import View
from earsight.device import has_kernels, numbered
from earsight.errors import MediaError, UsageError
from earsight.types import F32, I16, Encoded

READ = 256
"""Clips that are read and decoded together."""
SHARE = 0.8
"""Of the memory that is free, as much as clips may take; the rest is for training."""
GIB = 1024**3


def need_resident(clip_set: ClipSet, settings: Optim, device: torch.device) -> None:
    """Refuse --optim.resident where it cannot be, before anything is read."""
    asked = "for --optim.resident"
    need(has_kernels(device), f"a GPU {asked}", device.type, "Train without it.")
    need(clip_set.is_encoded, f"a pack {asked}", f"the files of {clip_set.name}", "Pack it with earsight data prepare.")
    need(settings.decode != "cpu", f"a GPU that decodes {asked}", "--optim.decode cpu", "Train without one of the two.")


class Resident:
    """The clips of a packed set on a device: whole pictures, and as much of each sound as training hears.

    Args:
        clip_set: packed.
        inputs: how clips become inputs.
        seconds: of sound, where training asks for more than `inputs` does.
        device: where they are kept.
        free: bytes that are free there; None asks the GPU, where it is one.
    """

    def __init__(
        self, clip_set: ClipSet, inputs: Inputs, seconds: float, device: torch.device, free: int | None = None
    ) -> None:
        count, device = len(clip_set), numbered(device)
        self.failed: dict[int, str] = {}
        """Clips that could not be read, and why."""
        self.unseen: dict[int, str] = {}
        """Clips whose pictures could not be decoded, and why."""
        self.sizes: list[tuple[int, int]] = [(0, 0)] * count
        """Heights and widths."""
        self.has_sounds = not clip_set.varies
        """Whether sounds are kept too."""
        self.device = device
        self._room = _room(device) if free is None else int(SHARE * free)
        self._pieces: list[Tensor] = []
        self._begins: list[tuple[int, int]] = [(0, 0)] * count  # in which of the pieces a picture is, and where
        self._waves: Tensor | None = None
        clip_set.expect(range(count))
        with closing(ahead(_read(clip_set, inputs, seconds, device), 2)) as read:
            try:
                for sent, failed in read:
                    self.failed |= failed
                    if sent.batch is not None:
                        assert isinstance(sent.batch, Parcel)
                        self._keep(sent.batch)
            except torch.OutOfMemoryError as error:  # others take of the room, too
                raise UsageError(
                    f"Expected room on the GPU for {count} clips with --optim.resident, but it was full after "
                    f"{READ * len(self._pieces)}. Train without it, or on fewer clips."
                ) from error
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # pictures are cut on another stream
        # As `cut_pictures` asks for it: colours apart, as decoders leave them.
        addresses = [piece.data_ptr() for piece in self._pieces] or [0]
        self._places = torch.tensor(
            [
                (addresses[piece] + begin, high * wide, 1, wide)
                for (piece, begin), (high, wide) in zip(self._begins, self.sizes, strict=True)
            ]
        )

    @property
    def bytes(self) -> int:
        """What they take on the device."""
        return sum(piece.nbytes for piece in self._pieces) + (0 if self._waves is None else self._waves.nbytes)

    def waves(self, at: Sequence[int]) -> Tensor:
        """Sounds of some clips, int16 (B, S)."""
        assert self._waves is not None
        return self._waves[torch.tensor(at).to(self.device, non_blocking=True)]

    def seen(self, at: Sequence[int], views: Sequence[View]) -> Tensor:
        """What is seen of the pictures of some clips, uint8 (B, 3, side, side)."""
        if self.device.type != "cuda":
            return torch.stack([view.apply(self._picture(i).numpy()) for i, view in zip(at, views, strict=True)])
        sizes, numbers = torch.tensor([self.sizes[i] for i in at]), torch.tensor([view.numbers for view in views])
        return cut_pictures(self._places[torch.tensor(at)], sizes, numbers, views[0].side, self.device)

    def _picture(self, i: int) -> Tensor:
        (piece, begin), (height, width) = self._begins[i], self.sizes[i]
        return self._pieces[piece][begin : begin + 3 * height * width].view(3, height, width)

    def _keep(self, parcel: Parcel) -> None:
        found = decode_files(parcel.files(), self.device)
        piece, begin = torch.cat([one.picture.reshape(-1) for one in found]), 0
        for i, id, one in zip(parcel.index.tolist(), parcel.ids, found, strict=True):
            if one.failed:
                self.unseen[i] = f"{id}: {one.failed}."
            self._begins[i], self.sizes[i] = (len(self._pieces), begin), (one.picture.shape[1], one.picture.shape[2])
            begin += one.picture.numel()
        count, samples = len(self._begins), parcel.waveforms.shape[1] if self.has_sounds else 0
        if not self._pieces:  # as far as the first ones tell
            self._need_room(count * (2 * samples + piece.numel() // len(found)))
        self._pieces.append(piece)
        if self.has_sounds:
            if self._waves is None:
                self._waves = torch.empty((count, samples), dtype=torch.int16, device=self.device)
            self._waves[parcel.index.to(self.device)] = parcel.waveforms.to(self.device, non_blocking=True)
        self._need_room(self.bytes)

    def _need_room(self, wanted: int) -> None:
        if self._room is not None and wanted > self._room:
            raise UsageError(
                f"Expected room on the GPU for {wanted / GIB:.1f} GiB of clips with --optim.resident, but got "
                f"{self._room / GIB:.1f}, since a fifth of what is free is left to training. Train without it, or on "
                "fewer clips."
            )


def _room(device: torch.device) -> int | None:
    """Bytes that clips may take of what is free on a GPU."""
    if device.type != "cuda":
        return None
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(SHARE * (torch.cuda.mem_get_info(device)[0] + idle))


def _read(
    clip_set: ClipSet, inputs: Inputs, seconds: float, device: torch.device
) -> Generator[tuple[Sent, dict[int, str]], None, None]:
    """All clips in order with their whole pictures, and why some of them cannot be read."""
    gpu = device.type == "cuda"
    if gpu:
        torch.cuda.set_device(device)
    whole = Items(clip_set, inputs, encoded=True)
    longer = Items(clip_set, inputs, Wanted(0, seconds), encoded=True)
    for first in range(0, len(clip_set), READ):
        at = list(range(first, min(first + READ, len(clip_set))))
        run = whole.run(at) if seconds <= inputs.seconds and not clip_set.varies else None
        items = [_whole(longer, i) for i in at] if run is None else []
        failed = {i: item.reason for i, item in zip(at, items, strict=False) if isinstance(item, Failure)}
        yield together(run or items, pinned=gpu), failed


def _whole(items: Items, i: int) -> Item | Failure:
    """A clip with its whole picture; where sounds change, without one."""
    clips, none = items.clip_set, np.zeros(0, np.int16)
    try:
        clip, wave = (clips.encoded_picture(i), none) if clips.varies else items.heard(i, 0)
    except MediaError as error:
        return Failure(clips.rows[i].id, str(error))
    assert isinstance(clip, Encoded)
    given = Given(clip.id, clip.jpeg, clip.height, clip.width, View.whole(items.inputs.image_size))
    return Item(i, clip.id, None, Read(given, wave, None), None)


@dataclass(frozen=True)
class Shown:
    """Pictures that are cut from what is resident, for a Parcel."""

    resident: Resident
    at: tuple[int, ...]
    views: tuple[View, ...]

    decoded = True

    def files(self) -> list[File]:
        return []

    def seen(self, device: torch.device, found: Iterator[Found]) -> tuple[Tensor, dict[int, str]]:
        return self.resident.seen(self.at, self.views), {}

    def each(self, change: Callable[[Tensor], Tensor]) -> Shown:
        return self


class _LostError(Exception):
    """Why a clip, or what was to be beside it, cannot be had."""


class _Drawn(NamedTuple):
    """A clip, what is seen of it, and its ground truth through the same; the clip whose sound is heard, and the sound
    where that was read."""

    at: int
    view: View
    truth: Tensor | None
    heard: int
    sound: F32 | I16 | None


class Drawn(Dataset[Any]):
    """Makes the clips of a step of what is resident, as `Items` makes them of a pack."""

    def __init__(self, resident: Resident, items: Items) -> None:
        self._resident, self._items = resident, items
        self._pinned = resident.device.type == "cuda"

    def __getitems__(self, visits: list[Visit]) -> Sent:
        rows, wanted = self._items.clip_set.rows, self._items.wanted
        own: list[_Drawn] = []
        near: list[_Drawn] = []
        failures: list[Failure] = []
        for visit in visits:
            try:
                drawn = self._drawn(visit)
            except (MediaError, _LostError) as error:
                failures.append(Failure(rows[visit.at].id, str(error)))
                continue
            own.append(drawn[0])
            near += drawn[1:]
        if not own:
            return Sent(None, tuple(failures))
        at = [one.at for one in own]
        truths = [one.truth for one in own if one.truth is not None]
        annotated = None if wanted is None else wanted.annotated
        parcel = Parcel(
            self._shown(own),
            self._sounds(own),
            torch.tensor(at),
            tuple(rows[i].id for i in at),
            torch.stack(truths) if truths else None,
            None if annotated is None else torch.tensor([annotated[i] for i in at]),
            self._shown(near) if near else None,
            self._sounds(near) if near else None,
        )
        return Sent(parcel, tuple(failures))

    def _drawn(self, visit: Visit) -> list[_Drawn]:
        """A visit's clip, and what is beside it."""
        pairs = [(visit.at, visit.at), *([(visit.seen, visit.heard)] if visit.seen >= 0 else [])]
        return [self._pair(seen, heard, visit.epoch) for seen, heard in pairs]

    def _pair(self, seen: int, heard: int, epoch: int) -> _Drawn:
        kept = self._resident
        for i, why in ((seen, kept.failed), (heard, kept.failed if kept.has_sounds else {}), (seen, kept.unseen)):
            if i in why:
                raise _LostError(why[i])
        height, width = kept.sizes[seen]
        view, truth = self._items.view_of(self._items.clip_set.rows[seen].id, height, width, seen, epoch)
        sound = None if kept.has_sounds else self._items.heard(heard, epoch)[1]
        return _Drawn(seen, view, truth, heard, sound)

    def _sounds(self, drawn: Sequence[_Drawn]) -> Tensor:
        read = [one.sound[None] for one in drawn if one.sound is not None]
        return joined(read, self._pinned) if read else self._resident.waves([one.heard for one in drawn])

    def _shown(self, drawn: Sequence[_Drawn]) -> Shown:
        return Shown(self._resident, tuple(one.at for one in drawn), tuple(one.view for one in drawn))
