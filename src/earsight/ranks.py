"""Order statistics of many maps at once, on the CPU, each found with as little sorting and copying as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from earsight.types import F32

Ints = npt.NDArray[np.int64]
Bounds = tuple[float, float]

STEP = 17
"""Of each row every so many-th value tells about where a statistic lies. A prime, so that no column of a map is left
out."""
MARGIN = 64
"""As many of those values to each side of where a statistic should lie are looked between first."""
_FEW = 4
"""As many statistics are found faster one by one than by sorting everything."""


class Ranked:
    """Order statistics of maps, rows of values (B, n): those at `cuts`, and the mean of the `top` highest.

    With `bounds`, every answer is in scores, (value - low) / (high - low), while the values themselves stay as they
    are: scaling never changes their order, so few of them have to be scaled.

    A statistic is looked for among the few values around where a part of the row says that it lies, and only these are
    sorted; for many statistics, everything is. `room` is memory of the maps' shape to work in; what has been used
    before is far faster than new memory.

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
        places = dict.fromkeys([*cuts, *([n - top] if top else [])])
        if len(places) > _FEW:
            rows = np.empty_like(flat) if room is None else room
            np.copyto(rows, flat)
            rows.sort(axis=1)
            self._around = {place: _in_sorted(rows, place) for place in places}
        else:
            some = np.sort(flat[:, ::STEP], axis=1)
            self._around = {place: _around(flat, some, place) for place in places}
        self.highest: F32 = flat.max(axis=1)
        """Highest value of each row, (B,)."""
        self.span = self._score(flat.min(axis=1)), self._score(self.highest)
        """Lowest and highest score of each row, (B,) each; not finite where a value is not."""
        self.at_highest: Ints = _counts(flat == self.highest[:, None])
        """How many values of each row are its highest, (B,)."""
        self.top_mean = self._mean(top, room) if top else np.full(len(flat), np.nan, np.float32)
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

    def statistics(self, index: Ints) -> F32:
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

    def count(self, value: F32) -> Ints:
        """How many values of each row are not below `value`, (B,) -> (B,)."""
        n = self.flat.shape[1]
        found = np.full(len(value), -1)
        for cut, (before, at, behind) in self._around.items():
            found = np.where((before < value) & (value <= at), n - cut, found)
            found = np.where((at < value) & (value <= behind), n - cut - 1, found)
        for i in np.flatnonzero(found < 0):
            found[i] = np.count_nonzero(self.flat[i] >= value[i])
        return found

    def _mean(self, top: int, room: F32 | None) -> F32:
        # Lower values are raised to the lowest of the highest, so that what they add is known.
        n = self.flat.shape[1]
        lowest = self._around[n - top].at
        raised = np.maximum(self.flat, lowest[:, None], out=room)
        total = self._score(raised, out=raised).sum(axis=1, dtype=np.float64)
        mean: F32 = ((total - (n - top) * self._score(lowest).astype(np.float64)) / top).astype(np.float32)
        return mean

    def _score(self, values: F32, out: F32 | None = None) -> F32:
        """Values as shares of the bounds, in numpy's arithmetic, which is torch's: one rounding for each step."""
        if self.bounds is None:
            return values
        low, high = self.bounds
        score: F32 = np.subtract(values, np.float32(low), out=out)
        score /= np.float32(high - low)
        return score


class _Around(NamedTuple):
    """The values next before a place, at it and next behind it in ascending order, (B,) each; infinite at the ends."""

    before: F32
    at: F32
    behind: F32


def _around(flat: F32, some: F32, place: int) -> _Around:
    """What lies around a place of each row (B, n), of which `some` values (B, m) are known in ascending order."""
    (_, n), m = flat.shape, some.shape[1]
    near = round(place * m / n)
    first, last = near - MARGIN, near + MARGIN
    low = some[:, first] if first >= 0 else np.full(len(flat), -np.inf, np.float32)
    high = some[:, last] if last < m else np.full(len(flat), np.inf, np.float32)
    enough, between = flat >= low[:, None], flat <= high[:, None]
    between &= enough
    below, counts = (n - _counts(enough)).tolist(), _counts(between).tolist()
    values = flat[between]
    found, end, first = _nothing(len(flat)), 0, min(place, 1)
    for i, (under, count) in enumerate(zip(below, counts, strict=True)):
        part, end = values[end : end + count], end + count
        before, behind = place - under, under + count - 1 - place
        if before < first or behind < min(n - 1 - place, 1):  # it lies elsewhere, or a neighbour does
            part, before = flat[i].copy(), place
        part.sort()
        near = part[before - first : before + 2]
        found[1 - first : 1 - first + len(near), i] = near
    return _Around(*found)


def _in_sorted(rows: F32, place: int) -> _Around:
    found, first = _nothing(len(rows)), min(place, 1)
    near = rows[:, place - first : place + 2].T
    found[1 - first : 1 - first + len(near)] = near
    return _Around(*found)


def _nothing(count: int) -> F32:
    """What lies before, at and behind a place where there is nothing, (3, B)."""
    return np.repeat(np.array([[-np.inf], [np.nan], [np.inf]], np.float32), count, axis=1)


def _counts(mask: npt.NDArray[np.bool_]) -> Ints:
    """How many of each row are true, (B, n) -> (B,); row by row, which is several times as fast as all at once."""
    return np.array([np.count_nonzero(row) for row in mask], np.int64)


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
