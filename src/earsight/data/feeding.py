"""Batches on their way to the device: unpacked ahead of time beside the computation, and the wait for them measured."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from earsight.ahead import ahead
from earsight.data.decoding import Found, decode_files
from earsight.data.flat import Flat
from earsight.data.items import Failure, Loaded, Sent
from earsight.data.parcel import Parcel
from earsight.device import numbered, own_stream
from earsight.types import Batch

TOGETHER = 512
"""Clips whose pictures are decoded together, where the device decodes them; with so many there is no further batch."""
HELD = 4
"""Batches that wait for their turn to be unpacked, and most that are decoded together."""
AHEAD = 8
"""Batches that lie ready on a GPU, so that it has work while the next ones are decoded."""
TURNS = 0.0005
"""Seconds after which a thread must let another one run. In Python's own 5 ms, of which a batch needs several, a GPU
takes a quarter of a training step."""


def deliver(sent: Sequence[Sent], device: torch.device) -> list[Loaded]:
    """The clips of some steps on `device`; pictures that cannot be decoded there are among what failed.

    Their files are decoded together, because beside a training step the decoder takes nearly as long for a few.
    """
    batches = [one.batch.opened() if isinstance(one.batch, Flat) else one.batch for one in sent]
    parcels = [batch for batch in batches if isinstance(batch, Parcel)]
    found = iter(decode_files([file for parcel in parcels for file in parcel.files()], device))
    return [_delivered(batch, one.failures, device, found) for batch, one in zip(batches, sent, strict=True)]


def _delivered(
    given: Batch | Parcel | None, failures: tuple[Failure, ...], device: torch.device, found: Iterator[Found]
) -> Loaded:
    if given is None:
        return Loaded(None, failures)
    if not isinstance(given, Parcel):
        return Loaded(given.to(device), failures)
    batch, failed = given.unpack(device, found)
    if not failed:
        return Loaded(batch, failures)
    spoilt = [Failure(batch.ids[i], reason) for i, reason in sorted(failed.items())]
    keep = [i for i in range(len(batch)) if i not in failed]
    return Loaded(batch.some(keep) if keep else None, (*failures, *spoilt))


class Feed(Iterator[Loaded]):
    """An iterator over steps whose batches are on the device.

    On a GPU a thread takes batches from the workers into page-locked memory, from where copies run beside the
    computation, and another unpacks them on a stream of its own, a few steps ahead. The computation waits for nothing
    but the batch it needs, and `waited` says how long that was. `close` ends the threads.
    """

    def __init__(self, sent: Generator[Sent, None, None], device: torch.device) -> None:
        device = numbered(device)  # as streams ask for it
        if device.type == "cuda":
            sys.setswitchinterval(min(TURNS, sys.getswitchinterval()))
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
        """Nobody wants more: let the threads end before the GPU is taken from under it."""
        (self._sent if self._ready is None else self._ready).close()


class _Ready(NamedTuple):
    loaded: Loaded
    event: torch.cuda.Event


def _used(x: Tensor, stream: torch.cuda.Stream) -> Tensor:
    """Let the memory of `x` be used again only after what this stream does with it."""
    x.record_stream(stream)
    return x


class _Locked:
    """Page-locked memory for one batch after another."""

    def __init__(self) -> None:
        self.memory = torch.empty(0, dtype=torch.uint8)
        self.taken: torch.cuda.Event | None = None
        """When the GPU has taken what lies here."""

    def hold(self, data: Tensor) -> Tensor:
        """A copy of `data` here."""
        if self.taken is not None:
            self.taken.synchronize()
        if len(self.memory) < len(data):
            self.memory = torch.empty(len(data) * 9 // 8, dtype=torch.uint8, pin_memory=True)
        return self.memory[: len(data)].copy_(data)


class _Held(NamedTuple):
    sent: Sent
    locked: _Locked | None


def _held(
    sent: Generator[Sent, None, None],
    device: torch.device,
    stream: torch.cuda.Stream,
    idle: queue.SimpleQueue[_Locked],
) -> Generator[_Held, None, None]:
    """Batches in page-locked memory, in what is idle of it as long as there is some.

    Those that this process has read itself have only their sounds there, which go to the device at once, so that the
    memory is soon free for the next.
    """
    torch.cuda.set_device(device)
    with closing(sent), torch.cuda.stream(stream):
        for one in sent:
            if not isinstance(one.batch, Flat):
                batch = one.batch.sounds_on(device) if isinstance(one.batch, Parcel) else one.batch
                yield _Held(one._replace(batch=batch), None)
                continue
            try:
                locked = idle.get_nowait()
            except queue.Empty:
                locked = _Locked()
            yield _Held(one._replace(batch=replace(one.batch, data=locked.hold(one.batch.data))), locked)


def _groups(held: Iterator[_Held]) -> Iterator[list[_Held]]:
    """Batches whose pictures are yet to be decoded several at a time, others as they come. At first there are few in a
    group, and never more than half of all before, so that the device has something to do until they are there."""
    given = 0
    for one in held:
        group, files = [one], one.sent.files
        while 0 < files < TOGETHER and len(group) < min(given // 2, HELD) and (more := next(held, None)) is not None:
            group.append(more)
            files += more.sent.files
        given += len(group)
        yield group


def _unpacked(sent: Generator[Sent, None, None], device: torch.device) -> Generator[_Ready, None, None]:
    """Batches on the device, unpacked beside the computation by the thread that asks for them."""
    torch.cuda.set_device(device)
    stream = own_stream(device, "unpacking")
    idle: queue.SimpleQueue[_Locked] = queue.SimpleQueue()
    with closing(ahead(_held(sent, device, stream, idle), HELD)) as held, torch.cuda.stream(stream):
        for group in _groups(held):
            for loaded, one in zip(deliver([one.sent for one in group], device), group, strict=True):
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record(stream)
                if one.locked is not None:
                    one.locked.taken = event
                    idle.put(one.locked)
                yield _Ready(loaded, event)
