"""Every clip once, in a random order of its own for each epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earsight.types import I64, Row


def order(rows: Sequence[Row], seed: int, epoch: int) -> I64:
    """A permutation of 0 ... len(rows) - 1.

    >>> sorted(order([Row("a"), Row("b"), Row("c")], seed=0, epoch=4).tolist())
    [0, 1, 2]
    """
    return np.random.default_rng((seed, epoch, 0)).permutation(len(rows))
