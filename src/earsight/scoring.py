"""Maps against ground truth: one record a clip, under several protocols at once.

Always on the CPU, so that the same maps give the same numbers whatever device made them. Protocols that look at the
maps at the same size share the work of ranking pixels, and every mask is "from this score upward", so that a protocol
costs a comparison and two counts more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from earsight.data.truth import truth_cells, truth_part
from earsight.judging import scaled
from earsight.levels import levels, need_finite, needed, order_statistic
from earsight.masking import native_confidence
from earsight.metrics.base import F64, SIZES, Records
from earsight.protocols import Protocol
from earsight.ranks import Ranked
from earsight.resampling import upsampled
from earsight.types import F32, Maps, Row

CHUNK = 64
"""Most maps that one thread ranks at a time."""
THREADS = 8
"""Most threads that rank. Each of their calls takes Python's lock, and so do those that keep a GPU busy meanwhile."""


@dataclass(frozen=True)
class Truth:
    """The ground truth of a clip, cut to the part of the picture that has any.

    Args:
        rows, columns: the part.
        weight: float32 of that part, or None when it is 1 all over.
        area: sum of the weights.
        support: pixels with any weight.
    """

    rows: slice
    columns: slice
    weight: F32 | None
    area: float
    support: int

    @classmethod
    def of(cls, row: Row, size: int) -> Truth:
        boxes = row.boxes if row.positive else ()
        if len(boxes) == row.consensus == 1:  # by far the most common: one box, one annotator; nothing to draw
            for x0, y0, x1, y1 in truth_cells(boxes, size):
                pixels = (y1 - y0) * (x1 - x0)
                return cls(slice(y0, y1), slice(x0, x1), None, float(pixels), pixels)
        rows, columns, part = truth_part(boxes, size, row.consensus)
        return cls(rows, columns, part, float(part.sum(dtype=np.float64)), int(np.count_nonzero(part)))

    def at(self, row: int, column: int) -> float:
        """Weight of one pixel of the picture."""
        y, x = row - self.rows.start, column - self.columns.start
        if not (0 <= y < self.rows.stop - self.rows.start and 0 <= x < self.columns.stop - self.columns.start):
            return 0.0
        return 1.0 if self.weight is None else float(self.weight[y, x])

    def inside(self, picture: F32, value: np.float32) -> tuple[float, int]:
        """Weight, and pixels with any weight, under the pixels of a map (H, W) that are not below `value`."""
        if self.support == 0:
            return 0.0, 0
        mask = picture[self.rows, self.columns] >= value
        if self.weight is None:
            covered = int(np.count_nonzero(mask))
            return float(covered), covered
        covered = int(np.count_nonzero(mask & (self.weight > 0)))
        return float(np.sum(self.weight, where=mask, dtype=np.float64)), covered


def score(maps: Maps, rows: Sequence[Row], protocols: Sequence[Protocol], sizes: bool = False) -> list[Records]:
    """Records of these maps (B, h, w) and rows under each protocol; with `sizes` also at fixed prediction sizes.

    >>> row = Row("a", boxes=((0.0, 0.0, 0.5, 1.0),))
    >>> left = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> [r.ciou.tolist() for r in score(Maps(left, left), [row], [Protocol("tiny", size=2)])]
    [[1.0]]
    """
    looks: dict[tuple[Any, ...], list[int]] = {}
    for i, protocol in enumerate(protocols):
        of = "dense" if maps.native is maps.dense else protocol.map
        same = tuple(maps.which(of)[0].shape[1:]) == (protocol.size, protocol.size)
        how = (protocol.size,) if same else (protocol.size, protocol.upsample, protocol.align_corners)
        looks.setdefault((of, *how), []).append(i)
    truths = cache(lambda size: [Truth.of(row, size) for row in rows])
    found: dict[int, Records] = {}
    for (of, *_), at in looks.items():
        first, here = protocols[at[0]], [protocols[i] for i in at]
        raw, bounds = maps.which(of)
        grids: F32 = raw.detach().float().cpu().numpy()
        pictures = _Pictures(grids, first)
        for i, columns in zip(at, _columns(pictures, bounds, truths, here, sizes), strict=True):
            if protocols[i].confidence == "max" and pictures.enlarged:
                columns["confidence"] = scaled(grids.max(axis=(1, 2)), bounds).astype(np.float64)
            elif protocols[i].confidence == "native":
                columns["confidence"] = native_confidence(maps).double().cpu().numpy()
            found[i] = Records.of(rows, **columns)
    return [found[i] for i in range(len(protocols))]


class _Pictures:
    """Maps (B, h, w) at the size of a protocol, made by whoever ranks them."""

    def __init__(self, grids: F32, protocol: Protocol) -> None:
        self._grids, self._protocol = grids, protocol
        side = protocol.size
        self.enlarged = grids.shape[1:] != (side, side)
        self.at: F32 = _pictures.take(len(grids), side * side).reshape(-1, side, side) if self.enlarged else grids

    def make(self, chunk: slice) -> F32:
        """Those of a chunk, (n, H, W)."""
        made, side = self.at[chunk], self._protocol.size
        return upsampled(self._grids[chunk], side, side, self._protocol, out=made) if self.enlarged else made


def _columns(
    pictures: _Pictures,
    bounds: tuple[float, float] | None,
    truths_at: Callable[[int], list[Truth]],
    protocols: Sequence[Protocol],
    sizes: bool,
) -> list[dict[str, F64]]:
    """What each protocol makes of maps at its size; `truths_at` gives their ground truth at a size.

    Threads enlarge the maps and rank their pixels, chunk by chunk, in few and long calls of numpy; the many short ones
    that follow are made here, where no other thread waits for them.
    """
    n = pictures.at[0].size
    cuts, top = needed(protocols, n)
    cuts += _size_cuts(n) if sizes else []
    threads = min(torch.get_num_threads(), os.cpu_count() or 1, THREADS)
    count = len(pictures.at)
    each = min(CHUNK, -(-count // threads))
    chunks = [slice(i, i + each) for i in range(0, count, each)]

    def rank(chunk: slice) -> tuple[Ranked, list[int]]:
        flat = pictures.make(chunk).reshape(-1, n)
        peaks: list[int] = flat.argmax(axis=1).tolist()
        return Ranked(flat, bounds, cuts=cuts, top=top, room=_room.take(len(flat), n)), peaks

    ranks = _pool(threads).map(rank, chunks) if len(chunks) > 1 < threads else map(rank, chunks)
    truths = truths_at(protocols[0].size)  # while the threads are at work
    done = [
        _chunk(pictures.at[chunk], ranked, peaks, truths[chunk], protocols, sizes)
        for chunk, (ranked, peaks) in zip(chunks, ranks, strict=True)
    ]
    return [
        {name: np.concatenate([one[i][name] for one in done]) for name in done[0][i]} for i in range(len(protocols))
    ]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay, and with them the memory they work in."""
    return ThreadPoolExecutor(threads, "scoring")


class _Room(threading.local):
    """Each thread's own memory for maps of one size."""

    def __init__(self) -> None:
        self.values = np.empty((0, 0), np.float32)

    def take(self, count: int, pixels: int) -> F32:
        if self.values.shape[1] != pixels or len(self.values) < count:
            self.values = np.empty((count, pixels), np.float32)
        return self.values[:count]


_room = _Room()
"""Where one chunk is ranked."""
_pictures = _Room()
"""Where maps are enlarged to, all that are scored at a time."""


def _chunk(
    pictures: F32,
    ranked: Ranked,
    peaks: Sequence[int],
    truths: Sequence[Truth],
    protocols: Sequence[Protocol],
    sizes: bool,
) -> list[dict[str, F64]]:
    n = pictures[0].size
    need_finite(ranked.span)
    area = np.array([truth.area for truth in truths])
    support = np.array([truth.support for truth in truths])
    counts: dict[bytes, F64] = {}

    def counted(level: F32, index: int | None) -> F64:
        """Weight inside, pixels inside and pixels in all from `level` upward, (3, B); the same values only once.

        `index` is the order statistic that the level comes from, if any.
        """
        value = ranked.values(level, index)
        key = value.tobytes()
        if key not in counts:
            inside = [truth.inside(one, v) for truth, one, v in zip(truths, pictures, value, strict=True)]
            counts[key] = np.array([[a for a, _ in inside], [b for _, b in inside], ranked.count(value)], np.float64)
        return counts[key]

    peak = np.array([truth.at(*divmod(place, pictures.shape[2])) for truth, place in zip(truths, peaks, strict=True)])
    for i in np.flatnonzero(ranked.at_highest > 1).tolist():  # then the peak is any of them: what their mean says
        peak[i] = truths[i].inside(pictures[i], ranked.highest[i])[0] / ranked.at_highest[i]
    out: list[dict[str, F64]] = []
    for protocol in protocols:
        kept = counted(levels(ranked, protocol, support), order_statistic(protocol, n))
        columns = {
            "area": area,
            "support": support.astype(np.float64),
            "predicted": kept[2],
            "ciou": _ciou(kept, area, protocol),
            "peak": peak,
            "confidence": ranked.span[1].astype(np.float64),  # "peak", and "max" of maps as large as this; see `score`
        }
        if protocol.confidence == "top_quarter_mean":
            columns["confidence"] = ranked.top_mean.astype(np.float64)
        if sizes:
            many = [counted(ranked.statistic(index), index) for index in _size_cuts(n)]
            columns["by_size"] = np.stack([_ciou(one, area, protocol) for one in many], axis=1)
        out.append(columns)
    return out


def _size_cuts(pixels: int) -> list[int]:
    """The order statistics from which the fixed shares of the pixels are kept; at least one pixel is."""
    return [pixels - max(round(pixels * share), 1) for share in SIZES]


def _ciou(counts: F64, area: F64, protocol: Protocol) -> F64:
    """Consensus IoU (B,) of masks P with truth g from what each mask covers: sum(P g), #(P where g > 0) and #P.

    union: sum(P g) / (sum(g) + #(P where g = 0)); no_miss: sum(P g) / (sum(P g) + #(P where g = 0)). 0/0 counts as 0.
    """
    inside, covered, total = counts
    below = (area if protocol.ciou == "union" else inside) + (total - covered)
    found: F64 = np.divide(inside, below, out=np.zeros_like(area), where=below > 0)
    return found
