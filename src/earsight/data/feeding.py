"""Batches on their way to the device: copied ahead of time beside the computation, and the wait for them measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import NamedTuple

import torch
from torch import Tensor

from earsight.ahead import ahead
from earsight.data.items import Loaded
from earsight.device import numbered, own_stream

AHEAD = 3
"""Batches that lie ready on a GPU, so that it has work while the next ones are copied."""
TURNS = 0.0005
"""Seconds after which a thread must let another one run. In Python's own 5 ms, of which a batch needs several, a GPU
takes a quarter of a training step."""


class Feed(Iterator[Loaded]):
    """An iterator over steps whose batches are on the device.

    On a GPU a thread copies batches from page-locked memory on a stream of its own, a few steps ahead. The computation
    waits for nothing but the batch it needs, and `waited` says how long that was. `close` ends the thread.
    """

    def __init__(self, read: Generator[Loaded, None, None], device: torch.device) -> None:
        device = numbered(device)  # as streams ask for it
        if device.type == "cuda":
            sys.setswitchinterval(min(TURNS, sys.getswitchinterval()))
        self._device, self._read = device, read
        self._ready = ahead(_copied(read, device), AHEAD) if device.type == "cuda" else None
        self._waits: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._waited = 0.0

    def __next__(self) -> Loaded:
        if self._ready is not None:
            return self._from_ahead(self._ready)
        began = time.perf_counter()
        loaded = _on(next(self._read), self._device)
        self._waited += time.perf_counter() - began
        return loaded

    def _from_ahead(self, made: Iterator[_Ready]) -> Loaded:
        # On the stream of the computation: the first moment is when all that was asked for is done, the second when the
        # next batch is there too.
        stream = torch.cuda.current_stream(self._device)
        done, ready = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        done.record(stream)
        loaded, event = next(made)
        stream.wait_event(event)
        ready.record(stream)
        self._waits.append((done, ready))
        if loaded.batch is not None:
            loaded.batch.each(lambda x: _used(x, stream))
        return loaded

    def waited(self) -> float:
        """Seconds that the device waited for data since this was last asked; on a GPU, asking waits for its work."""
        if self._waits:
            self._waits[-1][1].synchronize()
            self._waited += sum(done.elapsed_time(ready) for done, ready in self._waits) / 1000
            self._waits.clear()
        waited, self._waited = self._waited, 0.0
        return waited

    def close(self) -> None:
        """Nobody wants more: let the thread end before the GPU is taken from under it."""
        (self._read if self._ready is None else self._ready).close()


class _Ready(NamedTuple):
    loaded: Loaded
    event: torch.cuda.Event


def _on(loaded: Loaded, device: torch.device) -> Loaded:
    batch = None if loaded.batch is None else loaded.batch.to(device)
    return Loaded(batch, tuple(loaded.failures))  # of which torch makes a list where it locks pages


def _used(x: Tensor, stream: torch.cuda.Stream) -> Tensor:
    """Let the memory of `x` be used again only after what this stream does with it."""
    x.record_stream(stream)
    return x


def _copied(read: Generator[Loaded, None, None], device: torch.device) -> Generator[_Ready, None, None]:
    """Batches on the device, copied beside the computation by the thread that asks for them."""
    torch.cuda.set_device(device)
    stream = own_stream(device, "copying")
    with closing(read), torch.cuda.stream(stream):
        for loaded in read:
            there, event = _on(loaded, device), torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(stream)
            yield _Ready(there, event)
