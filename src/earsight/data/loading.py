"""From clips to batches on the device: which clips come when, and the processes that read them."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from functools import cache
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from earsight.config import Inputs
from earsight.data.clips import ClipSet
from earsight.data.feeding import Feed
from earsight.data.items import Failure, Item, Items, Loaded, Visit, Wanted, together
from earsight.data.sampler import batch_at, class_aware_order, epoch_order, steps_per_epoch
from earsight.device import reading_workers
from earsight.errors import DataError, EarsightError, MediaError

WAITING = 2
"""Batches that a worker makes before they are asked for."""


class Beside(NamedTuple):
    """For each clip of a list, the clips whose picture and whose sound are read beside it."""

    pictures: list[int]
    sounds: list[int]


@cache
def _workers() -> BaseContext:
    """Workers are forked from a server that has imported this file once: they start fast, and inherit neither the
    threads nor the GPU of the training process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


class _Carried(Dataset[Any]):
    """Items that are pickled once for all workers: a list of a hundred thousand clips takes a second each time."""

    def __init__(self, items: Items) -> None:
        self._bytes = pickle.dumps(items)
        self._items: Items | None = None

    def __getitem__(self, visit: Visit) -> Item | Failure:
        if self._items is None:
            self._items = pickle.loads(self._bytes)
        return self._items[visit]


class Loader:
    """Reads batches of a set's clips. Its workers live as long as it does.

    Args:
        clip_set: whose clips.
        inputs: how they become inputs.
        wanted: what training asks for; None looks at whole pictures.
        workers: processes that read; 0 reads in this one; None for what suits the device.
        device: where the batches are wanted.
    """

    def __init__(
        self,
        clip_set: ClipSet,
        inputs: Inputs,
        wanted: Wanted | None = None,
        *,
        workers: int | None = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        self._device, self._asked, self._clip_set = torch.device(device), _Asked(), clip_set
        workers = reading_workers(workers, self._device)
        self._feed: Feed | None = None
        items = Items(clip_set, inputs, wanted)
        self._loader: DataLoader[Any] = DataLoader(
            _Carried(items) if workers else items,
            batch_sampler=self._asked,
            num_workers=workers,
            collate_fn=together,
            pin_memory=self._device.type == "cuda",
            # torch's default would draw from the global generator, and an epoch that is read again after a resume must
            # not.
            generator=torch.Generator().manual_seed(0),
            multiprocessing_context=_workers() if workers else None,
            persistent_workers=workers > 0,
            prefetch_factor=WAITING if workers else None,
        )

    def feed(self, batches: Iterable[list[Visit]]) -> Feed:
        """These batches, in order; they may be made as they are asked for. An earlier feed gives no more."""
        self.close()
        self._asked.batches = batches
        self._feed = Feed(_sent(self._loader, self._clip_set), self._device)
        return self._feed

    def close(self) -> None:
        """Nobody wants more of the last feed."""
        if self._feed is not None:
            self._feed.close()
            self._feed = None


class _Asked(Sampler[list[Visit]]):
    """Batches that a feed is asked for."""

    def __init__(self) -> None:
        self.batches: Iterable[list[Visit]] = ()

    def __iter__(self) -> Iterator[list[Visit]]:
        return iter(self.batches)


def _sent(loader: DataLoader[Any], clip_set: ClipSet) -> Generator[Loaded, None, None]:
    """What the workers hand over; what ends one of them is told as if it had happened here."""
    try:
        yield from loader
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


def epoch_visits(
    clips: int,
    seed: int,
    epoch: int,
    *,
    batch_size: int,
    first_step: int = 0,
    rank: int = 0,
    world: int = 1,
    beside: Beside | None = None,
    labels: Sequence[str] = (),
    per_class: int = 0,
    lost: Collection[int] = (),
) -> list[list[Visit]]:
    """This process's parts of an epoch's batches from `first_step` on; `batch_size` counts all processes.

    With `per_class`, a batch holds at most that many clips of one of the `labels`, of which each clip has one. Clips
    that are `lost` are left out, so that other batches are whole.
    """
    left = np.array([i for i in range(clips) if i not in lost], dtype=np.int64)
    if per_class:
        order = class_aware_order([labels[i] for i in left], seed, epoch, batch_size=batch_size, per_class=per_class)
    else:
        order = epoch_order(len(left), seed, epoch)
    order = left[order]
    steps = range(first_step, steps_per_epoch(len(left), batch_size))

    def visit(i: int) -> Visit:
        return Visit(i, epoch) if beside is None else Visit(i, epoch, beside.pictures[i], beside.sounds[i])

    return [[visit(i) for i in batch_at(order, step, batch_size, rank, world).tolist()] for step in steps]


def eval_batches(
    clip_set: ClipSet,
    inputs: Inputs,
    batch_size: int,
    workers: int | None = 0,
    *,
    rank: int = 0,
    world: int = 1,
    device: str | torch.device = "cpu",
) -> Feed:
    """All clips in order, not augmented; of several processes each gets every `world`-th batch.

    Whole batches are dealt out, so that a clip is always computed together with the same others and its numbers are
    the same, bit for bit, however many processes there are.
    """
    visits = [Visit(i) for i in range(len(clip_set))]
    batches = [visits[i : i + batch_size] for i in range(0, len(visits), batch_size)][rank::world]
    return Loader(clip_set, inputs, workers=workers, device=device).feed(batches)
