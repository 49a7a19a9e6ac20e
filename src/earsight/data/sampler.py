"""Which clips come when: a function of (seed, epoch, position), so a resumed run needs no more than these numbers."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from earsight.config import need
from earsight.types import I64


def epoch_order(clips: int, seed: int, epoch: int) -> I64:
    """The order of an epoch: a permutation of 0 ... clips - 1.

    >>> epoch_order(5, seed=0, epoch=0).tolist() == epoch_order(5, seed=0, epoch=0).tolist()
    True
    """
    return np.random.default_rng((seed, epoch, 0)).permutation(clips)


def class_aware_order(labels: Sequence[str], seed: int, epoch: int, *, batch_size: int, per_class: int) -> I64:
    """The order of an epoch whose batches hold at most `per_class` clips of one label, and no clip twice.

    As many whole batches as `epoch_order` gives. Labels keep their shares as far as that goes: of those that are too
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
    for _ in range(steps_per_epoch(len(labels), batch_size)):
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


def steps_per_epoch(clips: int, batch_size: int) -> int:
    """Whole batches only: a short one would have other negatives."""
    return clips // batch_size


def batch_at(order: I64, step: int, batch_size: int, rank: int, world: int) -> I64:
    """This process's part of batch `step`; all parts together are the batch one process would get.

    >>> order = np.arange(8)
    >>> [batch_at(order, 1, 4, rank, 2).tolist() for rank in (0, 1)]
    [[4, 5], [6, 7]]
    """
    whole = order[step * batch_size : (step + 1) * batch_size]
    return np.array_split(whole, world)[rank]
