"""Maps that a device is still making, on their way to whoever scores them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

from earsight.device import numbered, own_stream
from earsight.types import Maps


class Arriving:
    """The maps of one batch, and which clips they are of. While they are made, the device can be asked for more.

    Args:
        maps: of B pairs, on any device.
        index: int64 (B,), the places of their clips in the set.

    >>> made = Arriving(Maps(*[torch.zeros(1, 2, 2)] * 2), torch.tensor([7]))
    >>> made.arrived()[1]
    [7]
    """

    def __init__(self, maps: Maps, index: Tensor) -> None:
        self._maps = maps.each(lambda x: x.detach().float().clone())  # a method may use its memory again
        self._index = index.to("cpu", non_blocking=True)
        self._there = torch.cuda.Event() if maps.dense.is_cuda else None  # type: ignore[no-untyped-call]
        if self._there is not None:
            self._there.record(torch.cuda.current_stream(maps.dense.device))

    def arrived(self) -> tuple[Maps, list[int]]:
        """The maps in memory of the CPU and the places of their clips, once they are there."""
        if self._there is not None:
            self._there.synchronize()
        return self._maps.each(lambda x: x.cpu()), self._index.tolist()


def beside(device: str | torch.device) -> ThreadPoolExecutor:
    """A thread to score maps in while a device makes the next ones, which it copies on a stream of its own."""
    of = numbered(torch.device(device))
    return ThreadPoolExecutor(1, "evaluate", partial(_begin, of) if of.type == "cuda" else None)


def _begin(device: torch.device) -> None:
    torch.cuda.set_device(device)  # a new thread would use the first GPU
    torch.cuda.set_stream(own_stream(device, "scoring"))


def joined(parts: Sequence[Maps]) -> Maps | None:
    """The maps of several batches as one; None when there are none."""
    if not parts:
        return None
    confidences = [part.confidence for part in parts if part.confidence is not None]
    dense = torch.cat([part.dense for part in parts])
    same = all(part.native is part.dense for part in parts)
    return Maps(
        dense if same else torch.cat([part.native for part in parts]),
        dense,
        parts[0].bounds,
        torch.cat(confidences) if confidences else None,
        parts[0].native_bounds,
    )
