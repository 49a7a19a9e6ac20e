"""Batches on their way to the device: unpacked ahead of time beside the computation, and the wait for them measured."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from earsight.data.decoding import Found, decode_files
from earsight.data.items import Failure, Loaded, Sent
from earsight.data.parcel import Parcel

TOGETHER = 4
"""Batches whose pictures are decoded together."""
PATIENCE = 10.0
"""Seconds that closing waits for the batches that are being unpacked."""
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


class _Ready(NamedTuple):
    loaded: Loaded
    event: torch.cuda.Event


_Told = _Ready | BaseException | None
"""What the thread that works ahead says: a batch, what stopped it, or that there are no more."""


class Feed(Iterator[Loaded]):
    """An iterator over steps whose batches are on the device.

    On a GPU a thread takes batches from the workers and unpacks them on a stream of its own, a few steps ahead. The
    computation waits for nothing but the batch it needs, and `waited` says how long that was. `close` ends the thread.
    """

    def __init__(self, sent: Iterator[Sent], device: torch.device) -> None:
        if str(device) == "cuda":  # which streams do not take for one of several
            device = torch.device("cuda", torch.cuda.current_device())
        self._device = device
        self._waits: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._waited = 0.0
        self._ended = False
        self._sent = sent
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if device.type == "cuda":
            self._ready: queue.Queue[_Told] = queue.Queue(AHEAD)
            # The thread knows nothing of this object, which therefore ends with its last user, and the thread with it.
            work = (sent, device, self._ready, self._stop)
            self._thread = threading.Thread(target=_work_ahead, args=work, daemon=True)
            self._thread.start()

    def __next__(self) -> Loaded:
        if self._ended:
            raise StopIteration
        if self._device.type == "cuda":
            return self._from_ahead()
        began = time.perf_counter()
        (loaded,) = deliver([next(self._sent)], self._device)
        self._waited += time.perf_counter() - began
        return loaded

    def _from_ahead(self) -> Loaded:
        # On the stream of the computation: the first moment is when all that was asked for is done, the second when the
        # next batch is there too.
        stream = torch.cuda.current_stream(self._device)
        done, ready = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        done.record(stream)
        told = self._ready.get()
        if isinstance(told, _Ready):
            stream.wait_event(told.event)
            ready.record(stream)
            self._waits.append((done, ready))
            if told.loaded.batch is not None:
                told.loaded.batch.each(lambda x: _used(x, stream))
            return told.loaded
        self._ended = True
        if told is not None:
            raise told
        raise StopIteration

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
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=PATIENCE)

    def __del__(self) -> None:
        self._stop.set()


def _used(x: Tensor, stream: torch.cuda.Stream) -> Tensor:
    """Let the memory of `x` be used again only after what this stream does with it."""
    x.record_stream(stream)
    return x


def _work_ahead(
    sent: Iterator[Sent], device: torch.device, ready: queue.Queue[_Told], stop: threading.Event
) -> None:  # fmt: skip
    """Unpack batches on a stream of their own until there are no more, or nobody wants them."""
    told: _Told = None
    try:
        torch.cuda.set_device(device)
        stream = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            while group := list(islice(sent, TOGETHER)):
                for loaded in deliver(group, device):
                    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                    event.record(stream)
                    if not _put(ready, _Ready(loaded, event), stop):
                        return
    except BaseException as error:  # it is raised where the batches are asked for
        told = error
    _put(ready, told, stop)


def _put(ready: queue.Queue[_Told], told: _Told, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(told, timeout=0.5)
            return True
        except queue.Full:
            continue
    return False
