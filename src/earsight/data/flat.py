"""The tensors of a batch in one piece of memory.

Between processes every tensor is a file that one asks the other for, which takes about a millisecond each time, and a
GPU copies fastest from memory that stays in its place. So workers put a batch into one piece before they hand it over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

ALIGNED = 64
"""Bytes; every tensor begins at a multiple of it."""


class Tensors(Protocol):
    """Anything made of tensors."""

    def each(self: T, change: Callable[[Tensor], Tensor], /) -> T:
        """The same of changed tensors, asked for in the same order every time."""
        ...


T = TypeVar("T", bound=Tensors)


class Room:
    """Shared memory that a worker uses again and again: a system clears new memory, which takes it a quarter of the
    time that a batch of a pack takes in all.

    Args:
        pieces: batches that may be on their way at once; the piece of the first is then taken for the next.
    """

    def __init__(self, pieces: int) -> None:
        self._pieces: list[Tensor] = [torch.empty(0, dtype=torch.uint8)] * pieces
        self._turn = 0

    def take(self, size: int) -> Tensor:
        """The next piece, uint8 (size,)."""
        at = self._turn % len(self._pieces)
        self._turn += 1
        if len(self._pieces[at]) < size:
            self._pieces[at] = _shared(size * 9 // 8)
        return self._pieces[at][:size]


def _shared(size: int) -> Tensor:
    """New memory that processes share, uint8 (size,)."""
    storage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8).set_(storage)


@dataclass(frozen=True)
class Flat(Generic[T]):
    """A batch in one piece.

    Args:
        data: uint8 (n,), all tensors one after another.
        form: the batch with tensors that have shapes and types, but no data.
    """

    data: Tensor
    form: T

    @classmethod
    def of(cls, batch: T, room: Room | None = None) -> Flat[T]:
        """The tensors of `batch` copied into memory that processes share: into new memory, or some of `room`."""
        end = 0

        def count(x: Tensor) -> Tensor:
            nonlocal end
            end += _length(x)
            return torch.empty_like(x, device="meta", memory_format=torch.contiguous_format)

        form = batch.each(count)
        flat = cls(_shared(end) if room is None else room.take(end), form)
        places: list[Tensor] = []
        flat.opened().each(lambda x: places.append(x) or x)  # type: ignore[func-returns-value]
        batch.each(lambda x: places.pop(0).copy_(x))
        return flat

    def opened(self) -> T:
        """The batch, whose tensors lie in `data`."""
        begin = 0

        def place(x: Tensor) -> Tensor:
            nonlocal begin
            part = self.data[begin : begin + x.numel() * x.element_size()]
            begin += _length(x)
            return part.view(x.dtype).view(x.shape)

        return self.form.each(place)


def _length(x: Tensor) -> int:
    """Bytes until the next tensor."""
    return -(-x.numel() * x.element_size() // ALIGNED) * ALIGNED
