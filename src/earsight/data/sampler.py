"""The batches of an epoch: a function of rows, seed and epoch, so a resumed run needs no more than its position."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from earsight import registry
from earsight.config import need
from earsight.types import I64, Neighbours, Row


class SampleRequest(NamedTuple):
    """Which clip to read and for which epoch, and whose picture and whose sound as its neighbour (-1 for none)."""

    clip: int
    epoch: int = 0
    neighbour_picture: int = -1
    neighbour_sound: int = -1


class BatchSampler:
    """The batches of every epoch of a list of clips.

    Args:
        rows: of all clips.
        batch_size: clips in a batch, over all processes.
        seed, sampler: the order of an epoch is the sampler's `order(rows of readable clips, seed, epoch)`.
        per_class: most clips of one label in a batch; 0 leaves the sampler's order as it is.
        unreadable: positions of clips that are left out.
    """

    def __init__(self, rows: Sequence[Row], batch_size: int, seed: int = 0, *, sampler: str = "shuffle",
                 per_class: int = 0, unreadable: Collection[int] = ()) -> None:  # fmt: skip
        self._places = np.array([i for i in range(len(rows)) if i not in unreadable], dtype=np.int64)
        self._rows = [rows[i] for i in self._places]
        self._order = registry.load("sampler", sampler).order
        self._name, self._seed, self._batch_size, self._per_class = sampler, seed, batch_size, per_class
        self.clips = len(self.sampled(0))
        """How many clips an epoch takes from its order, if that is whole batches: as many in every epoch."""

    @property
    def steps(self) -> int:
        """Batches of an epoch. Whole ones only: a short one would have other negatives."""
        return self.clips // self._batch_size

    def order(self, epoch: int) -> I64:
        """Positions of the clips of an epoch, in the list of all clips."""
        order = self.sampled(epoch)
        need(len(order) == self.clips, f"{self.clips} clips in every epoch from the sampler {self._name}, as in the "
             "first", f"{len(order)} in epoch {epoch + 1}", "Repeat clips, or leave some out.")  # fmt: skip
        if self._per_class:
            labels = [self._rows[i].label for i in order]
            order = order[class_aware_order(labels, self._seed, epoch, self._batch_size, self._per_class)]
        return self._places[order]

    def batches(self, epoch: int, *, first_step: int = 0, rank: int = 0, world: int = 1,
                neighbours: Neighbours | None = None) -> list[list[SampleRequest]]:  # fmt: skip
        """This process's parts of an epoch's batches, from `first_step` on."""
        index = self.order(epoch)[:, None]
        columns = [index, np.full_like(index, epoch)]
        if neighbours is not None:
            columns += [np.asarray(of_all)[index] for of_all in neighbours]
        requests = np.concatenate(columns, axis=1)
        return [
            [SampleRequest(*one) for one in batch_at(requests, step, self._batch_size, rank, world).tolist()]
            for step in range(first_step, self.steps)
        ]

    def sampled(self, epoch: int) -> I64:
        """What the sampler says, once it is known to be positions of its rows."""
        rows = len(self._rows)
        found = np.asarray(self._order(self._rows, self._seed, epoch))
        whole = found.ndim == 1 and (found.dtype.kind in "iu" or not len(found))
        need(whole, f"positions of rows (int64, 1-D) from the sampler {self._name}", f"{found.dtype} {found.shape}")
        outside = found[(found < 0) | (found >= rows)]
        need(not len(outside), f"positions from 0 to {rows - 1} from the sampler {self._name}", outside[:3].tolist())
        return found.astype(np.int64)


def class_aware_order(labels: Sequence[str], seed: int, epoch: int, batch_size: int, per_class: int) -> I64:
    """The order of an epoch whose batches hold at most `per_class` clips of one label, and no clip twice.

    As many whole batches as there are labels for. Labels keep their shares as far as that goes: of those that are too
    frequent some clips are left out, others in every epoch, and of rare ones some come again in a later batch.

    >>> class_aware_order(["a"] * 6 + ["b"] * 2, 0, 0, batch_size=4, per_class=2).reshape(2, 4).max(1) >= 6
    array([ True,  True])
    """
    _, which, counts = np.unique(np.array(labels, dtype=np.str_), return_inverse=True, return_counts=True)
    clips = np.split(np.argsort(which, kind="stable"), np.cumsum(counts)[:-1])
    most = [min(per_class, len(one)) for one in clips]
    random = np.random.default_rng((seed, epoch, 1))
    waiting = [random.permutation(one).tolist() for one in clips]
    passes = [0] * len(clips)
    used = np.zeros(len(clips))  # share of a label's clips that were used up, more than 1 after the first pass
    batches = []
    for _ in range(len(labels) // batch_size):
        batch: list[int] = []
        taken = defaultdict[int, list[int]](list)
        # The label next in turn is the one with the smallest share of its clips used up; equal ones in random order. No
        # more labels than the batch has clips can have their turn. In ascending order they are a heap already.
        ties = random.random(len(clips))
        first = np.lexsort((ties, used))[:batch_size]
        heap = list(zip(used[first].tolist(), ties[first].tolist(), first.tolist(), strict=True))
        while len(batch) < batch_size:
            _, tie, i = heapq.heappop(heap)
            if not waiting[i]:
                # Taken from the end: what this batch has already must not come again in it.
                passes[i] += 1
                again = random.permutation(clips[i]).tolist()
                waiting[i] = [one for one in again if one in taken[i]] + [one for one in again if one not in taken[i]]
            taken[i].append(waiting[i].pop())
            batch.append(taken[i][-1])
            used[i] = share = passes[i] + 1 - len(waiting[i]) / len(clips[i])
            if len(taken[i]) < most[i]:
                heapq.heappush(heap, (share, tie, i))
        batches.append(random.permutation(batch))
    return np.concatenate(batches).astype(np.int64)


def need_classes(labels: Sequence[str], name: str, batch_size: int, per_class: int) -> None:
    """Refuse class-aware batches of clips without labels, and such as cannot be filled."""
    bare = sum(not label for label in labels)
    need(not bare, f"a label for every clip of {name} with --optim.per-class", f"none for {bare} of {len(labels)}",
         "Train without it, or on a set with labels.")  # fmt: skip
    names, counts = np.unique(np.array(labels, dtype=np.str_), return_counts=True)
    most = int(np.minimum(counts, per_class).sum())
    need(most >= batch_size, f"enough labels to fill a batch of {batch_size} with at most {per_class} clips of each",
         f"{len(names)} of {name}, which give {most}",
         "Raise --optim.per-class, or lower --optim.batch-size.")  # fmt: skip


def batch_at(order: I64, step: int, batch_size: int, rank: int, world: int) -> I64:
    """This process's part of batch `step`; all parts together are the batch one process would get.

    >>> order = np.arange(8)
    >>> [batch_at(order, 1, 4, rank, 2).tolist() for rank in (0, 1)]
    [[4, 5], [6, 7]]
    """
    whole = order[step * batch_size : (step + 1) * batch_size]
    return np.array_split(whole, world)[rank]
