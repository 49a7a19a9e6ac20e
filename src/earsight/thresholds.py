"""Where a protocol draws the line through each map: order statistics and thresholds of many maps at once, in numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from earsight.errors import DataError, UsageError
from earsight.protocols import Protocol
from earsight.types import F32, I64

_FEW = 4
"""As many statistics are faster found by partitions than by sorting everything."""


class Neighbours(NamedTuple):
    """An order statistic of each map and the scores next to it in order, which may be equal to it, (B,) each.

    Minus infinity and infinity stand for those beyond the lowest and the highest.
    """

    below: F32
    at: F32
    above: F32


@dataclass(frozen=True)
class OrderStatistics:
    """What thresholds need to know of the scores of B maps; of one map for all clips, B is 1.

    Args:
        flat: the scores, (B, n).
        around: the order statistics that were asked for, by their place in ascending order.
        lowest, highest: of each map, (B,); not finite where a score is not.
        at_highest: how many scores of each map are its highest, (B,).
        top_mean: mean of the highest scores of each map, summed in double precision, (B,); NaN when not asked for.
    """

    flat: F32
    around: Mapping[int, Neighbours]
    lowest: F32
    highest: F32
    at_highest: I64
    top_mean: F32

    @property
    def pixels(self) -> int:
        return int(self.flat.shape[1])

    def at(self, index: I64) -> F32:
        """The scores at an index for each map in ascending order, (B,) -> (B,)."""
        if len(self.flat) == 1:
            found: F32 = np.sort(self.flat[0])[index]
            return found
        return np.array([np.partition(row, i)[i] for row, i in zip(self.flat, index, strict=True)], np.float32)

    def count(self, level: F32) -> I64:
        """How many scores of each map are not below a level, (B,) -> (B,)."""
        n = self.pixels
        if len(self.flat) == 1 < len(level):
            return n - np.searchsorted(np.sort(self.flat[0]), level)
        total = np.full(len(level), -1)
        for index, (below, at, above) in self.around.items():
            total[(below < level) & (level <= at)] = n - index
            total[(at < level) & (level <= above)] = n - index - 1
        for i in np.flatnonzero(total < 0).tolist():
            total[i] = np.count_nonzero(self.flat[i] >= level[i])
        return total


def rank(flat: F32, *, cuts: Sequence[int] = (), top: int = 0, room: F32 | None = None) -> OrderStatistics:
    """The order statistics at `cuts`, and the mean of the `top` highest, of the scores of maps (B, n).

    numpy partitions fast around one index only, so statistics are found one after another, each in the part of the row
    that an earlier one has left it in; many of them are found by sorting. Looking only between two values of a sorted
    sample is faster where numpy partitions slowly, with AVX-512 on a Zen 4, but slower where it does so fast. `room` is
    memory of the maps' shape to move scores about in; what has been used before is far faster than new memory.

    >>> ranked = rank(np.array([[3.0, 1.0, 2.0, 4.0]], np.float32), cuts=[1], top=2)
    >>> ranked.around[1].at.tolist(), ranked.top_mean.tolist(), ranked.lowest.tolist(), ranked.highest.tolist()
    ([2.0], [3.5], [1.0], [4.0])
    """
    n = flat.shape[1]
    rows = np.empty_like(flat) if room is None else room
    np.copyto(rows, flat)
    places = list(dict.fromkeys([*cuts, *([n - top] if top else [])]))
    first, last = min(places, default=n - 1), max(places, default=0)
    ordered: Sequence[int] = sorted(places)
    if len(places) > _FEW:
        rows.sort(axis=1)
        ordered = range(n)
    else:
        _partition(rows, places)
    around = {index: _neighbours(rows, index, ordered) for index in cuts}
    # What lies between the places cannot be lower or higher, and what is no number comes last.
    lowest, high = rows[:, : first + 1].min(axis=1), rows[:, last:]
    highest = high.max(axis=1)
    at_highest = np.count_nonzero(high == highest[:, None], axis=1).astype(np.int64)
    for i in np.flatnonzero(at_highest == high.shape[1]):  # perhaps some before the last place are, too
        at_highest[i] = np.count_nonzero(flat[i] == highest[i])
    mean: F32 = np.full(len(flat), np.nan, np.float32)
    if top:
        mean = rows[:, n - top :].mean(axis=1, dtype=np.float64).astype(np.float32)
    return OrderStatistics(flat, around, lowest, highest, at_highest, mean)


def _partition(rows: F32, places: Sequence[int]) -> None:
    """Bring the values at these places there, in every row; those before are then not above, those behind not below."""
    done: list[int] = []
    for place in places:
        # The values at earlier places are where they belong and must stay there.
        start = max((other + 1 for other in done if other < place), default=0)
        stop = min((other for other in done if other > place), default=rows.shape[1])
        rows[:, start:stop].partition(place - start, axis=1)
        done.append(place)


def _neighbours(rows: F32, index: int, places: Sequence[int]) -> Neighbours:
    """The neighbours of an order statistic in rows that are in order at `places` (ascending), `index` among them."""
    n, here = rows.shape[1], places.index(index)
    start = places[here - 1] if here > 0 else 0
    stop = places[here + 1] + 1 if here + 1 < len(places) else n
    none = np.full(len(rows), np.inf, np.float32)
    below = rows[:, start:index].max(axis=1) if index > 0 else -none
    above = rows[:, index + 1 : stop].min(axis=1) if index + 1 < n else none
    return Neighbours(below, rows[:, index].copy(), above)


def needed(protocols: Sequence[Protocol], pixels: int) -> tuple[list[int], int]:
    """The order statistics, and the number of highest scores, that the protocols will ask for."""
    halves = [at for at in (_order_statistic(protocol, pixels) for protocol in protocols) if at is not None]
    quarter = max(pixels // 4, 1) if any(p.confidence == "top_quarter_mean" for p in protocols) else 0
    return list(dict.fromkeys(halves)), quarter


def thresholds(ranked: OrderStatistics, protocol: Protocol, support: I64 | None = None) -> F32:
    """For each map, the lowest score that the protocol keeps, (B,): its mask is score >= threshold, strict or not.

    `ranked` must hold what `needed` says. `support` counts the pixels of each ground truth, which `adaptive` needs.
    """
    n = ranked.pixels
    index = _order_statistic(protocol, n)
    if index is not None:
        at = ranked.around[index].at
    elif protocol.threshold == "adaptive":
        if support is None:
            raise UsageError(
                "Expected a ground truth for the policy adaptive, but there is none here. Use another protocol."
            )
        at = ranked.at(n - np.where(support > 0, support, max(n // 2, 1)))
    else:
        if math.isnan(protocol.level):
            raise UsageError(
                f"Expected a level for the protocol {protocol.name}, but got none. Estimate it on validation negatives."
            )
        at = np.full(len(ranked.flat), protocol.level, np.float32)
    if protocol.scaling == "minmax":
        return _stretched(ranked, at, protocol)
    return np.nextafter(at, np.float32(np.inf)) if protocol.strict else at


def _order_statistic(protocol: Protocol, pixels: int) -> int | None:
    """The place of the threshold among the pixels in ascending order, where the policy says one."""
    return int(pixels * protocol.level) if protocol.threshold == "top_half" else None


def _stretched(ranked: OrderStatistics, at: F32, protocol: Protocol) -> F32:
    """The lowest score of each map that reaches the threshold `at` when the map is stretched to [0, 1], (B,).

    An order statistic parts a stretched map where it parts the map, unless another value became equal to it: only then,
    and where the threshold is no order statistic, the map itself is looked at.
    """
    level = np.nextafter(at, np.float32(np.inf)) if protocol.strict else at.copy()
    apart = np.zeros(len(at), np.bool_)
    index = _order_statistic(protocol, ranked.pixels)
    if index is not None:
        low, (below, _, above) = ranked.lowest, ranked.around[index]
        under, over = (at, above) if protocol.strict else (below, at)
        width = np.maximum(ranked.highest - low, np.finfo(np.float32).tiny)
        apart = (under - low) / width < (over - low) / width
    stretched = protocol.threshold in ("absolute", "universal")  # the level is a stretched value already
    for i in np.flatnonzero(~apart).tolist():
        scores = ranked.flat[i % len(ranked.flat)]  # of one map for all clips, there may be many thresholds
        level[i] = lowest_kept(scores, at[i], protocol.strict, stretched=stretched)
    return level


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
    kept = score[value > at if strict else value >= at]
    return kept.min() if len(kept) else np.float32(np.inf)


def need_finite(lowest: npt.NDArray[Any], highest: npt.NDArray[Any]) -> None:
    """Refuse maps with NaN or infinity, given the lowest and the highest value of each, (B,) and (B,)."""
    bad = np.flatnonzero(~(np.isfinite(lowest) & np.isfinite(highest)))
    if len(bad):
        raise DataError(
            f"Expected finite maps, but got NaN or infinity in {len(bad)} of {len(lowest)} maps (first at {bad[0]}). "
            "Check the weights: training may have diverged."
        )
