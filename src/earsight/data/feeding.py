"""Batches on their way to the device: unpacked ahead of time beside the computation, and the wait for them measured."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from earsight.ahead import ahead
from earsight.data.decoding import Found, decode_files
from earsight.data.items import Failure, Loaded, Sent
from earsight.data.parcel import Parcel

TOGETHER = 4
"""Batches whose pictures are decoded together."""
AHEAD = 6
"""Batches that lie ready on a GPU, so that it has work while the next ones are decoded."""


def deliver(sent: Sequence[Sent], device: torch.device) -> list[Loaded]:
    """The clips of some steps on `device`; pictures that cannot be decoded there are among what failed.

    Their files are decoded together, because beside a training step the decoder takes nearly as long for a few.
    """
    parcels = [one.batch for one in sent if isinstance(one.batch, Parcel)]
    found = iter(decode_files([file for parcel in parcels for file in parcel.files()], device))
    return [_delivered(one, device, found) for one in sent]


def _delivered(sent: Sent, device: torch.device, found: Iterator[Found]) -> Loaded:
    if sent.batch is None:
        return Loaded(None, sent.failures)
    if not isinstance(sent.batch, Parcel):
        return Loaded(sent.batch.to(device), sent.failures)
    batch, failed = sent.batch.unpack(device, found)
    if not failed:
        return Loaded(batch, sent.failures)
    failures = [Failure(batch.ids[i], reason) for i, reason in sorted(failed.items())]
    keep = [i for i in range(len(batch)) if i not in failed]
    return Loaded(batch.some(keep) if keep else None, (*sent.failures, *failures))


class Feed(Iterator[Loaded]):
    """An iterator over steps whose batches are on the device.

    On a GPU a thread takes batches from the workers and unpacks them on a stream of its own, a few steps ahead. The
    computation waits for nothing but the batch it needs, and `waited` says how long that was. `close` ends the thread.
    """

    def __init__(self, sent: Generator[Sent, None, None], device: torch.device) -> None:
        if str(device) == "cuda":  # which streams do not take for one of several
            device = torch.device("cuda", torch.cuda.current_device())
        self._device, self._sent = device, sent
        self._ready = ahead(_unpacked(sent, device), AHEAD) if device.type == "cuda" else None
        self._waits: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._waited = 0.0

    def __next__(self) -> Loaded:
        if self._ready is not None:
            return self._from_ahead(self._ready)
        began = time.perf_counter()
        (loaded,) = deliver([next(self._sent)], self._device)
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
        (self._sent if self._ready is None else self._ready).close()


class _Ready(NamedTuple):
    loaded: Loaded
    event: torch.cuda.Event


def _used(x: Tensor, stream: torch.cuda.Stream) -> Tensor:
    """Let the memory of `x` be used again only after what this stream does with it."""
    x.record_stream(stream)
    return x


def _unpacked(sent: Generator[Sent, None, None], device: torch.device) -> Generator[_Ready, None, None]:
    """Batches on the device, unpacked on a stream of their own by the thread that asks for them."""
    torch.cuda.set_device(device)
    stream = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
    with closing(sent), torch.cuda.stream(stream):
        while group := list(islice(sent, TOGETHER)):
            for loaded in deliver(group, device):
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record(stream)
                yield _Ready(loaded, event)
