"""From clips to batches on the device: the processes that read them, and the copies ahead of the computation."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from multiprocessing.context import BaseContext
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler

from earsight.config import Inputs
from earsight.data.clips import ClipSet
from earsight.data.reader import Reader, SampleSpec
from earsight.data.sampler import SampleRequest
from earsight.device import numbered, own_stream, reading_workers
from earsight.errors import DataError, EarsightError, MediaError
from earsight.prefetch import prefetch
from earsight.types import Batch

PREFETCHED_PER_WORKER = 2
"""Batches that a worker makes before they are asked for."""
PREFETCHED_ON_GPU = 3
"""Batches that lie ready on a GPU, so that it has work while the next ones are copied."""
GIL_SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread must let another one run. In Python's own 5 ms, of which a batch needs several, a GPU
takes a quarter of a training step."""


class Loader:
    """Reads batches of a set's clips. Its workers live as long as it does.

    Args:
        clip_set: whose clips.
        inputs: how they become inputs.
        spec: what training asks for; None looks at whole pictures.
        workers: processes that read; 0 reads in this one; None for what suits the device.
        device: where the batches are wanted.
    """

    def __init__(self, clip_set: ClipSet, inputs: Inputs, spec: SampleSpec | None = None, *,
                 workers: int | None = 0, device: str | torch.device = "cpu") -> None:  # fmt: skip
        self._device, self._requested, self._clips = torch.device(device), _Requested(), clip_set
        workers = reading_workers(workers, self._device)
        self._prefetcher: Prefetcher | None = None
        self._loader: DataLoader[Any] = DataLoader(
            Reader(clip_set, inputs, spec),
            batch_size=None,  # the reader makes whole batches
            sampler=self._requested,
            num_workers=workers,
            pin_memory=self._device.type == "cuda",
            # torch's default would draw from the global generator, and an epoch that is read again after a resume must
            # not.
            generator=torch.Generator().manual_seed(0),
            multiprocessing_context=_fork_server() if workers else None,
            persistent_workers=workers > 0,
            prefetch_factor=PREFETCHED_PER_WORKER if workers else None,
        )

    def prefetch(self, batches: Iterable[list[SampleRequest]]) -> Prefetcher:
        """These batches, in order; they may be made as they are asked for. An earlier prefetcher gives no more."""
        self.close()
        self._requested.batches = batches
        self._prefetcher = Prefetcher(_received(self._loader, self._clips), self._device)
        return self._prefetcher

    def waited(self) -> float:
        """Seconds that the device waited for data of the last prefetcher since this was last asked."""
        return 0.0 if self._prefetcher is None else self._prefetcher.waited()

    def close(self) -> None:
        """Nobody wants more of the last prefetcher."""
        if self._prefetcher is not None:
            self._prefetcher.close()
            self._prefetcher = None


def eval_batches(clip_set: ClipSet, inputs: Inputs, batch_size: int, workers: int | None = 0, *, rank: int = 0,
                 world: int = 1, device: str | torch.device = "cpu") -> Prefetcher:  # fmt: skip
    """All clips in order, not augmented; of several processes each gets every `world`-th batch.

    Whole batches are dealt out, so that a clip is always computed together with the same others and its numbers are
    the same, bit for bit, however many processes there are.
    """
    requests = [SampleRequest(i) for i in range(len(clip_set))]
    batches = [requests[i : i + batch_size] for i in range(0, len(requests), batch_size)][rank::world]
    return Loader(clip_set, inputs, workers=workers, device=device).prefetch(batches)


class _Requested(Sampler[list[SampleRequest]]):
    """The batches that a prefetcher is to give."""

    def __init__(self) -> None:
        self.batches: Iterable[list[SampleRequest]] = ()

    def __iter__(self) -> Iterator[list[SampleRequest]]:
        return iter(self.batches)


@cache
def _fork_server() -> BaseContext:
    """Workers are forked from a server that has imported this file once: they start fast, and inherit neither the
    threads nor the GPU of the training process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _received(loader: DataLoader[Any], clip_set: ClipSet) -> Generator[Batch, None, None]:
    """What the workers hand over, with its rows, which they do not send. What ends one of them is raised as if it had
    happened here."""
    try:
        for batch in loader:
            yield replace(batch, rows=tuple(clip_set.rows[i] for i in batch.index.tolist()))
    except EarsightError as error:
        if isinstance(error, MediaError):
            raise
        raise type(error)(str(error).rpartition(f"{type(error).__name__}: ")[2]) from error
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        if changed := clip_set.changed():
            why = "A process that reads clips died, because a file was cut off while it read."
            raise DataError(f"{why} {changed}") from error
        raise DataError(
            "Expected all processes that read clips to go on, but one of them died, perhaps for lack of memory. "
            "Use fewer workers; when it dies again, earsight data check names clips that cannot be read."
        ) from error


class Prefetcher(Iterator[Batch]):
    """An iterator over batches on the device; one of which no clip could be read is empty.

    On a GPU a thread copies batches from page-locked memory on a stream of its own, a few steps ahead. The computation
    waits for nothing but the batch it needs, and `waited` says how long that was. `close` ends the thread.
    """

    def __init__(self, read: Generator[Batch, None, None], device: torch.device) -> None:
        device = numbered(device)  # as streams ask for it
        if device.type == "cuda":
            sys.setswitchinterval(min(GIL_SWITCH_INTERVAL, sys.getswitchinterval()))
        self._device, self._read = device, read
        self._ready = prefetch(_copied(read, device), PREFETCHED_ON_GPU) if device.type == "cuda" else None
        self._waits: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._waited = 0.0

    def __next__(self) -> Batch:
        if self._ready is not None:
            return self._from_copies(self._ready)
        began = time.perf_counter()
        batch = next(self._read).to(self._device)
        self._waited += time.perf_counter() - began
        return batch

    def _from_copies(self, made: Iterator[tuple[Batch, torch.cuda.Event]]) -> Batch:
        # On the stream of the computation: the first moment is when all that was asked for is done, the second when the
        # next batch is there too.
        stream = torch.cuda.current_stream(self._device)
        done, ready = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        done.record(stream)
        batch, event = next(made)
        stream.wait_event(event)
        ready.record(stream)
        self._waits.append((done, ready))
        for x in batch.tensors().values():
            x.record_stream(stream)  # its memory may be used again only after what this stream does with it
        return batch

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


def _copied(
    read: Generator[Batch, None, None], device: torch.device
) -> Generator[tuple[Batch, torch.cuda.Event], None, None]:
    """Batches on the device, copied beside the computation by the thread that asks for them."""
    torch.cuda.set_device(device)
    stream = own_stream(device, "copying")
    with closing(read), torch.cuda.stream(stream):
        for batch in read:
            copy, event = batch.to(device), torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(stream)
            yield copy, event
