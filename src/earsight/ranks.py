"""Order statistics of many maps at once, on the CPU, each found with as little sorting as possible."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from earsight.types import F32

Ints = npt.NDArray[np.int64]


class Ranked:
    """Maps as rows of values (B, n), with their order statistics found when first asked for.

    numpy partitions fast around one index only, so statistics are found one after another, each in the part of the row
    that an earlier one has left it in. With `whole`, for those who need many, rows are sorted once.

    >>> ranked = Ranked(np.array([[3.0, 1.0, 2.0, 4.0]], np.float32))
    >>> ranked.statistic(1).tolist(), ranked.top_mean(2).tolist(), [x.tolist() for x in ranked.span]
    ([2.0], [3.5], [[1.0], [4.0]])
    """

    def __init__(self, flat: F32, whole: bool = False) -> None:
        self.flat = flat
        self._rows = np.sort(flat, axis=1) if whole else flat
        self._whole = whole
        self._cuts: set[int] = set()

    def statistic(self, index: int) -> F32:
        """The value at `index` of each row in ascending order, (B,)."""
        self._cut(index)
        value: F32 = self._rows[:, index].copy()
        return value

    def statistics(self, index: Ints) -> F32:
        """The same with an index for each row, (B,) -> (B,)."""
        if self._whole:
            found: F32 = np.take_along_axis(self._rows, index[:, None], axis=1)[:, 0]
            return found
        return np.array([np.partition(row, i)[i] for row, i in zip(self.flat, index, strict=True)], np.float32)

    def top_mean(self, count: int) -> F32:
        """Mean of the `count` highest values of each row, summed in double precision, (B,)."""
        first = self.flat.shape[1] - count
        self._cut(first)
        mean: F32 = self._rows[:, first:].mean(axis=1, dtype=np.float64).astype(np.float32)
        return mean

    @cached_property
    def span(self) -> tuple[F32, F32]:
        """Lowest and highest value of each row, (B,) each."""
        low: F32 = self.flat.min(axis=1)
        high: F32 = self.flat.max(axis=1)
        return low, high

    def _cut(self, index: int) -> None:
        """Move values so that those before `index` are not above the one there, and those behind not below it."""
        if self._whole or index in self._cuts:
            return
        if not self._cuts:
            self._rows = np.partition(self.flat, index, axis=1)
        else:  # the values at earlier cuts are in their places and must stay there
            start = max((cut + 1 for cut in self._cuts if cut < index), default=0)
            stop = min((cut for cut in self._cuts if cut > index), default=self.flat.shape[1])
            part = self._rows[:, start:stop]
            part[...] = np.partition(part, index - start, axis=1)
        self._cuts.add(index)


def lowest_kept(at: F32, low: F32, high: F32, strict: bool, *, stretched: bool) -> F32:
    """The lowest value x whose stretched form (x - low) / (high - low) reaches the threshold, (B,) each.

    The threshold is the stretched form of `at`, or `at` itself where it is a stretched value already. Rounding makes
    neighbouring values equal when they are stretched, so this can be a little below the value that was asked for; which
    one is found by halving, over all floating-point numbers, since stretching never changes their order. Rows of one
    value are not stretched. Infinity where nothing reaches the threshold.
    """
    flat = high <= low
    width: F32 = np.where(flat, 1, high - low).astype(np.float32)
    zero: F32 = np.where(flat, 0, low).astype(np.float32)

    def stretch(x: F32) -> F32:
        out: F32 = (x - zero) / width
        return out

    threshold = at if stretched else stretch(at)
    # `below` never reaches the threshold; `above` does, or is the first number past the highest value.
    below, above = _order(low) - 1, _order(high) + 1
    last = above.copy()
    for _ in range(33):
        middle = (below + above) // 2
        value = stretch(_number(middle))
        kept = value > threshold if strict else value >= threshold
        above = np.where(kept, middle, above)
        below = np.where(kept, below, middle)
    return np.where(above >= last, np.inf, _number(above)).astype(np.float32)


def _order(x: F32) -> Ints:
    """Whole numbers in the order of the floating-point numbers, without gaps; both zeros are 0."""
    bits = x.astype(np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _number(order: Ints) -> F32:
    bits = np.where(order < 0, (-order) | 0x80000000, order).astype(np.uint32)
    number: F32 = bits.view(np.float32)
    return number
