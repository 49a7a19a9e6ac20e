"""Order statistics of many maps at once, each found with as little sorting and copying as possible."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from earsight.types import F32, I64


class Around(NamedTuple):
    """An order statistic of each row, with what lies on its two sides, (B,) each.

    Args:
        below: the highest score below it; minus infinity where there is none.
        at: the statistic.
        above: the lowest score above it; infinity where there is none.
        from_at: how many scores are not below it.
        from_above: how many scores are above it.
    """

    below: F32
    at: F32
    above: F32
    from_at: I64
    from_above: I64

    def repeated(self, count: int) -> Around:
        """That of one row, as if there were `count` of it."""
        below, at, above = (x.repeat(count) for x in (self.below, self.at, self.above))
        return Around(below, at, above, self.from_at.repeat(count), self.from_above.repeat(count))


class Ranked:
    """Order statistics of maps: those at `cuts`, and the mean of the `top` highest, of rows of scores (B, n).

    numpy partitions fast around one index only, so statistics are found one after another, each in the part of the row
    that an earlier one has left it in; many of them are found by sorting. Looking only between two values of a sorted
    sample is faster where numpy partitions slowly, with AVX-512 on a Zen 4, but slower where it does so fast. `room` is
    memory of the maps' shape to move scores about in; what has been used before is far faster than new memory.

    >>> ranked = Ranked(np.array([[3.0, 1.0, 2.0, 4.0]], np.float32), cuts=[1], top=2)
    >>> ranked.around[1].at.tolist(), ranked.top_mean.tolist(), ranked.lowest.tolist(), ranked.highest.tolist()
    ([2.0], [3.5], [1.0], [4.0])

    Attributes:
        count, pixels: how many rows, and how many scores in each.
        around: the statistics that were asked for, by their place in ascending order.
        lowest, highest: of each row, (B,); not finite where a score is not.
        at_highest: how many scores of each row are its highest, (B,).
        top_mean: mean of the highest scores of each row, summed in double precision, (B,).
    """

    def __init__(self, flat: F32, *, cuts: Sequence[int] = (), top: int = 0, room: F32 | None = None) -> None:
        self._flat = flat
        n = flat.shape[1]
        rows = np.empty_like(flat) if room is None else room
        np.copyto(rows, flat)
        places = list(dict.fromkeys([*cuts, *([n - top] if top else [])]))
        ordered = len(places) > _FEW
        if ordered:
            rows.sort(axis=1)
        else:
            _partition(rows, places)
        around = {index: _around_sorted(rows, index) if ordered else _around(rows, index, places) for index in cuts}
        # What lies between the cuts cannot be lower or higher, and what is no number comes last.
        low, high = rows[:, : min(places, default=n - 1) + 1], rows[:, max(places, default=0) :]
        highest = high.max(axis=1)
        at_highest = np.count_nonzero(high == highest[:, None], axis=1).astype(np.int64)
        for i in np.flatnonzero(at_highest == high.shape[1]):  # perhaps some before the cut are, too
            at_highest[i] = np.count_nonzero(flat[i] == highest[i])
        mean: F32 = np.full(len(flat), np.nan, np.float32)
        if top:
            mean = rows[:, n - top :].mean(axis=1, dtype=np.float64).astype(np.float32)
        self.count, self.pixels = len(flat), n
        self.around, self.lowest, self.highest = around, low.min(axis=1), highest
        self.at_highest, self.top_mean = at_highest, mean

    def repeated(self, count: int) -> Ranked:
        """That of one row, as if there were `count` of it."""
        new = copy(self)
        new._flat = np.broadcast_to(self._flat, (count, self.pixels))
        new.count, new.around = count, {index: each.repeated(count) for index, each in self.around.items()}
        new.lowest, new.highest = self.lowest.repeat(count), self.highest.repeat(count)
        new.at_highest, new.top_mean = self.at_highest.repeat(count), self.top_mean.repeat(count)
        return new

    def row(self, i: int) -> F32:
        """The scores of one map, (n,)."""
        row: F32 = self._flat[i]
        return row

    def statistics(self, index: I64) -> F32:
        """The scores at an index for each row in ascending order, (B,) -> (B,)."""
        if self._flat.strides[0] == 0:
            found: F32 = np.sort(self._flat[0])[index]
            return found
        return np.array([np.partition(row, i)[i] for row, i in zip(self._flat, index, strict=True)], np.float32)

    def counted(self, level: F32) -> I64:
        """How many scores of each row are not below `level`, where a statistic says so, else -1; (B,) -> (B,)."""
        found = np.full(len(level), -1)
        for below, at, above, from_at, from_above in self.around.values():
            found = np.where((below < level) & (level <= at), from_at, found)
            found = np.where((at < level) & (level <= above), from_above, found)
        return found


_FEW = 4
"""As many statistics are faster found by partitions than by sorting everything."""


def _partition(rows: F32, places: Sequence[int]) -> None:
    """Bring the values at these places there, in every row; those before are then not above, those behind not below."""
    done: list[int] = []
    for place in places:
        # The values at earlier places are where they belong and must stay there.
        start = max((other + 1 for other in done if other < place), default=0)
        stop = min((other for other in done if other > place), default=rows.shape[1])
        rows[:, start:stop].partition(place - start, axis=1)
        done.append(place)


def _around(rows: F32, index: int, places: Sequence[int]) -> Around:
    """What is around an order statistic of rows that have been cut at `places`."""
    n = rows.shape[1]
    start = max((place for place in places if place < index), default=0)
    stop = min((place + 1 for place in places if place > index), default=n)
    none = np.full(len(rows), np.inf, np.float32)
    at = rows[:, index].copy()
    below = rows[:, start:index].max(axis=1) if index > 0 else -none
    above = rows[:, index + 1 : stop].min(axis=1) if index + 1 < n else none
    from_at, from_above = np.full(len(rows), n - index), np.full(len(rows), n - index - 1)
    for i in np.flatnonzero((below == at) | (above == at)).tolist():  # the same score lies beside it
        lower, higher = rows[i] < at[i], rows[i] > at[i]
        below[i] = rows[i][lower].max(initial=-np.inf)
        above[i] = rows[i][higher].min(initial=np.inf)
        from_at[i], from_above[i] = n - np.count_nonzero(lower), np.count_nonzero(higher)
    return Around(below, at, above, from_at, from_above)


def _around_sorted(rows: F32, index: int) -> Around:
    """The same of sorted rows."""
    n = rows.shape[1]
    at = rows[:, index].copy()
    first, behind = np.full(len(rows), index), np.full(len(rows), index + 1)
    same = np.zeros(len(rows), np.bool_)
    if index > 0:
        same |= rows[:, index - 1] == at
    if index + 1 < n:
        same |= rows[:, index + 1] == at
    for i in np.flatnonzero(same).tolist():
        first[i], behind[i] = np.searchsorted(rows[i], at[i]), np.searchsorted(rows[i], at[i], side="right")
    each = np.arange(len(rows))
    below = np.where(first > 0, rows[each, first - 1], np.float32(-np.inf))
    above = np.where(behind < n, rows[each, np.minimum(behind, n - 1)], np.float32(np.inf))
    return Around(below, at, above, n - first, n - behind)


def lowest_kept(score: F32, threshold: np.float32, strict: bool, *, stretched: bool) -> np.float32:
    """The lowest of a map's scores (n,) whose stretched form (score - low) / (high - low) reaches the threshold.

    The threshold is the stretched form of `threshold`, or that value itself where it is a stretched one already.
    Rounding makes neighbours equal when they are stretched, so this can be a little below the score that was asked for.
    A map of one value is not stretched. Infinity where nothing reaches the threshold.
    """
    low, high = score.min(), score.max()
    low, width = (low, high - low) if high > low else (np.float32(0), np.float32(1))
    value = (score - low) / width
    at = threshold if stretched else (threshold - low) / width
    return _lowest(score[value > at if strict else value >= at])


def _lowest(values: F32) -> np.float32:
    return values.min() if len(values) else np.float32(np.inf)
