"""Which clips come when: a function of (seed, epoch, position), so a resumed run needs no more than these numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def epoch_order(clips: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The order of an epoch: a permutation of 0 ... clips - 1.

    >>> epoch_order(5, seed=0, epoch=0).tolist() == epoch_order(5, seed=0, epoch=0).tolist()
    True
    """
    return np.random.default_rng((seed, epoch, 0)).permutation(clips)


def steps_per_epoch(clips: int, batch_size: int) -> int:
    """Whole batches only: a short one would have other negatives."""
    return clips // batch_size


def batch_at(order: npt.NDArray[np.int64], step: int, batch_size: int, rank: int, world: int) -> npt.NDArray[np.int64]:
    """This process's part of batch `step`; all parts together are the batch one process would get.

    >>> order = np.arange(8)
    >>> [batch_at(order, 1, 4, rank, 2).tolist() for rank in (0, 1)]
    [[4, 5], [6, 7]]
    """
    whole = order[step * batch_size : (step + 1) * batch_size]
    return np.array_split(whole, world)[rank]
