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
    def of(cls, batch: T) -> Flat[T]:
        """The tensors of `batch` copied into memory that processes share."""
        end = 0

        def count(x: Tensor) -> Tensor:
            nonlocal end
            end += _room(x)
            return torch.empty_like(x, device="meta", memory_format=torch.contiguous_format)

        form = batch.each(count)
        shared = torch.UntypedStorage._new_shared(end)  # type: ignore[no-untyped-call]
        flat = cls(torch.empty(0, dtype=torch.uint8).set_(shared), form)
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
            begin += _room(x)
            return part.view(x.dtype).view(x.shape)

        return self.form.each(place)


def _room(x: Tensor) -> int:
    return -(-x.numel() * x.element_size() // ALIGNED) * ALIGNED
