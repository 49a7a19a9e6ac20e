"""Order statistics of many maps at once, on the CPU, each found with as little sorting and copying as possible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earsight.types import F32, I64

Bounds = tuple[float, float]


class Ranked:
    """Order statistics of maps, rows of values (B, n): those at `cuts`, and the mean of the `top` highest.

    With `bounds`, every answer is in scores, (value - low) / (high - low), while the values themselves stay as they
    are: scaling never changes their order, so few of them have to be scaled.

    numpy partitions fast around one index only, so statistics are found one after another, each in the part of the row
    that an earlier one has left it in; many of them are found by sorting. Looking only between two values of a sorted
    sample is faster where numpy partitions slowly, with AVX-512 on a Zen 4, but slower where it does so fast. `room` is
    memory of the maps' shape to move values about in; what has been used before is far faster than new memory.

    >>> ranked = Ranked(np.array([[3.0, 1.0, 2.0, 4.0]], np.float32), cuts=[1], top=2)
    >>> ranked.statistic(1).tolist(), ranked.top_mean.tolist(), [x.tolist() for x in ranked.span]
    ([2.0], [3.5], [[1.0], [4.0]])
    """

    def __init__(
        self,
        flat: F32,
        bounds: Bounds | None = None,
        *,
        cuts: Sequence[int] = (),
        top: int = 0,
        room: F32 | None = None,
    ) -> None:
        self.flat, self.bounds = flat, bounds
        n = flat.shape[1]
        rows = np.empty_like(flat) if room is None else room
        np.copyto(rows, flat)
        places = list(dict.fromkeys([*cuts, *([n - top] if top else [])]))
        if len(places) > _FEW:
            rows.sort(axis=1)
        else:
            _partition(rows, places)
        self._around = {index: _neighbours(rows, index, places) for index in cuts}
        # What lies between the cuts cannot be lower or higher, and what is no number comes last.
        low, high = rows[:, : min(places, default=n - 1) + 1], rows[:, max(places, default=0) :]
        self.highest: F32 = high.max(axis=1)
        """Highest value of each row, (B,)."""
        self.span = self._score(low.min(axis=1)), self._score(self.highest)
        """Lowest and highest score of each row, (B,) each; not finite where a value is not."""
        self.at_highest: I64 = np.count_nonzero(high == self.highest[:, None], axis=1).astype(np.int64)
        """How many values of each row are its highest, (B,)."""
        for i in np.flatnonzero(self.at_highest == high.shape[1]):  # perhaps some before the cut are, too
            self.at_highest[i] = np.count_nonzero(flat[i] == self.highest[i])
        self.top_mean = self._mean(rows[:, n - top :]) if top else np.full(len(flat), np.nan, np.float32)
        """Mean of the `top` highest scores of each row, summed in double precision, (B,)."""

    def statistic(self, index: int) -> F32:
        """The score at `index` of each row in ascending order, (B,)."""
        return self._score(self._around[index][1])

    def beside(self, index: int) -> tuple[F32, F32]:
        """The highest score before `index` and the lowest behind it, (B,) each; infinite at the ends."""
        before, _, behind = self._around[index]
        return self._score(before), self._score(behind)

    def row(self, i: np.intp) -> F32:
        """The scores of one map, (n,)."""
        return self._score(self.flat[i])

    def statistics(self, index: I64) -> F32:
        """The scores at an index for each row, (B,) -> (B,)."""
        found = [np.partition(row, i)[i] for row, i in zip(self.flat, index, strict=True)]
        return self._score(np.array(found, np.float32))

    def values(self, level: F32, index: int | None = None) -> F32:
        """Values that part the rows as the levels part their scores, (B,): value >= this wherever score >= level.

        `index` is an order statistic near the levels, if there is one.
        """
        found: F32 = np.full(len(level), np.nan, np.float32)
        if index is not None:
            # Nearly always the level is the statistic's own score, or just above it, and no neighbour's is the same.
            before, at, behind = self._around[index]
            lower, here, upper = self._score(before) < level, self._score(at) >= level, self._score(behind) >= level
            found = np.where(lower & here, at, np.where(~here & upper, behind, found))
        for i in np.flatnonzero(np.isnan(found)):
            found[i] = level[i] if self.bounds is None else _lowest(self.flat[i][self.row(i) >= level[i]])
        return found

    def count(self, value: F32) -> I64:
        """How many values of each row are not below `value`, (B,) -> (B,)."""
        n = self.flat.shape[1]
        found = np.full(len(value), -1)
        for cut, (before, at, behind) in self._around.items():
            found = np.where((before < value) & (value <= at), n - cut, found)
            found = np.where((at < value) & (value <= behind), n - cut - 1, found)
        for i in np.flatnonzero(found < 0):
            found[i] = np.count_nonzero(self.flat[i] >= value[i])
        return found

    def _mean(self, values: F32) -> F32:
        score = self._score(values, out=values)  # the last that is asked of this memory
        mean: F32 = score.mean(axis=1, dtype=np.float64).astype(np.float32)
        return mean

    def _score(self, values: F32, out: F32 | None = None) -> F32:
        """Values as shares of the bounds, in numpy's arithmetic, which is torch's: one rounding for each step."""
        if self.bounds is None:
            return values
        low, high = self.bounds
        score: F32 = np.subtract(values, np.float32(low), out=out)
        score /= np.float32(high - low)
        return score


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


def _neighbours(rows: F32, index: int, places: Sequence[int]) -> tuple[F32, F32, F32]:
    """The values next before `index`, at it and next behind it, (B,) each, in rows that have been cut at `places`."""
    start = max((place for place in places if place < index), default=0)
    stop = min((place + 1 for place in places if place > index), default=rows.shape[1])
    none = np.full(len(rows), np.inf, np.float32)
    before = rows[:, start:index].max(axis=1) if index > 0 else -none
    behind = rows[:, index + 1 : stop].min(axis=1) if index + 1 < rows.shape[1] else none
    return before, rows[:, index].copy(), behind


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
