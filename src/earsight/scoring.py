"""Maps against ground truth: one record a clip, under several protocols at once, in numpy.

Protocols that look at the maps at the same size share the work of ranking pixels, and every mask is "from this score
upward", so that a protocol costs a comparison and two counts more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from earsight import registry
from earsight.data.truth import Truth, rasterise
from earsight.errors import UsageError
from earsight.metrics.base import EXTRA, F64, SIZES, ClipMap, Records
from earsight.predict import confidences
from earsight.protocols import Protocol
from earsight.resampling import scaled, upsampled
from earsight.thresholds import OrderStatistics, need_finite, needed, rank, thresholds
from earsight.types import F32, MapArrays, Maps, Mask, Row

CHUNK = 64
"""Most maps that one thread ranks at a time."""
THREADS = 8
"""Most threads that rank. Each of their calls takes Python's lock, for which more would wait longer."""


def score(
    maps: Maps | MapArrays,
    rows: Sequence[Row],
    protocols: Sequence[Protocol],
    sizes: bool = False,
    metrics: Sequence[str] = (),
) -> list[Records]:
    """Records of these maps (B, h, w) and rows under each protocol; with `sizes` also at fixed prediction sizes.

    A map that all clips share (`np.broadcast_to`) is ranked once. Of `metrics` from outside the package, those with a
    `per_clip` are asked about every map.

    >>> row = Row("a", boxes=((0.0, 0.0, 0.5, 1.0),))
    >>> left = np.array([[[1.0, 0.0], [1.0, 0.0]]], np.float32)
    >>> [r.ciou.tolist() for r in score(MapArrays(left, left), [row], [Protocol("tiny", size=2)])]
    [[1.0]]
    """
    maps = maps.arrays()
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, protocol in enumerate(protocols):
        of = "dense" if maps.native is maps.dense else protocol.map
        same_size = maps.which(of)[0].shape[1:] == (protocol.size, protocol.size)
        how = () if same_size else (protocol.upsample, protocol.align_corners)
        groups.setdefault((of, protocol.size, *how), []).append(i)
    asked = [module for name in metrics if hasattr(module := registry.load("metric", name), "per_clip")]
    truths = cache(lambda size: [rasterise(row.boxes if row.positive else (), size, row.consensus) for row in rows])
    found: dict[int, Records] = {}
    for (_, size, *_), at in groups.items():
        here = [protocols[i] for i in at]
        cuts, top = needed(here, size**2)
        cuts = list(dict.fromkeys([*cuts, *(_size_cuts(size**2) if sizes else [])]))
        parts = []
        for part, ranked in _ranked(maps, here[0], cuts, top):
            chunk = _Chunk(maps[part], ranked, rows[part], truths(size)[part])
            parts.append(_measured(chunk, here, sizes, asked))
        for i, columns in zip(at, zip(*parts, strict=True), strict=True):
            whole = {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
            found[i] = Records.of(rows, **whole)
    return [found[i] for i in range(len(protocols))]


def _ranked(
    maps: MapArrays, protocol: Protocol, cuts: Sequence[int], top: int
) -> Iterator[tuple[slice, OrderStatistics]]:
    """Some of the maps at a time: which they are, and their scores at the protocol's size.

    Threads enlarge the maps and rank their pixels, chunk by chunk, in few and long calls of numpy; the many short ones
    that follow are made where these are used, where no other thread waits for them.
    """
    raw, bounds = maps.which(protocol.map)
    size, shared = protocol.size, raw.strides[0] == 0 and len(raw) > 1
    grids = raw[:1] if shared else raw
    enlarge = grids.shape[1:] != (size, size)
    scores = _scores.take(len(grids), size**2).reshape(-1, size, size) if enlarge or bounds is not None else grids

    def work(chunk: slice) -> OrderStatistics:
        here = scores[chunk]
        if enlarge:
            upsampled(grids[chunk], size, size, protocol, out=here)
        scaled(here if enlarge else grids[chunk], bounds, out=here)
        flat = here.reshape(-1, size**2)
        return rank(flat, cuts=cuts, top=top, room=_room.take(*flat.shape))

    threads = min(cores(), THREADS)
    each = min(CHUNK, -(-len(grids) // threads))
    chunks = [slice(i, i + each) for i in range(0, len(grids), each)]
    ranks = _pool(threads).map(work, chunks) if len(chunks) > 1 < threads else map(work, chunks)
    yield from zip([slice(None)] if shared else chunks, ranks, strict=True)


def cores() -> int:
    """Processors that this process may use, as torch and its launcher are told too."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(int(told), there) if told.isdigit() and int(told) else there


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
_scores = _Room()
"""The scores at the size of a protocol, of all maps that are scored at a time."""


class _Chunk(NamedTuple):
    """Some of the maps, their scores at a protocol's size, and what they are held against."""

    maps: MapArrays
    ranked: OrderStatistics
    rows: Sequence[Row]
    truths: Sequence[Truth]


def _measured(
    chunk: _Chunk, protocols: Sequence[Protocol], sizes: bool, metrics: Sequence[ModuleType]
) -> list[dict[str, F64]]:
    """The columns of records under each protocol."""
    maps, ranked, _, truths = chunk
    need_finite(ranked.lowest, ranked.highest)
    area, support = np.array([truth.area for truth in truths]), np.array([truth.support for truth in truths])
    kept = [thresholds(ranked, protocol, support) for protocol in protocols]
    fixed = [ranked.around[index].at for index in _size_cuts(ranked.pixels)] if sizes else []
    # Thresholds that are the same are counted once.
    levels = {level.tobytes(): level for level in (ranked.highest, *kept, *fixed)}
    counts = {key: _counts(ranked, truths, level) for key, level in levels.items()}
    peak = counts[ranked.highest.tobytes()][0] / ranked.at_highest
    out: list[dict[str, F64]] = []
    for protocol, level in zip(protocols, kept, strict=True):
        found = counts[level.tobytes()]
        # Of maps as large as the protocol's square, the highest score is known.
        known = protocol.confidence == "max" and maps.which(protocol.map)[0].shape[1:] == 2 * (protocol.size,)
        sure = ranked.highest if known else confidences(maps, protocol, ranked)
        columns = {
            "area": area,
            "support": support.astype(np.float64),
            "predicted": found[2],
            "ciou": _ciou(found, area, protocol),
            "peak": peak,  # where several pixels are the highest it is any of them: what their mean says
            "confidence": np.broadcast_to(sure, len(truths)).astype(np.float64),
        }
        if sizes:
            columns["by_size"] = np.stack([_ciou(counts[at.tobytes()], area, protocol) for at in fixed], axis=1)
        for module in metrics:
            columns |= _per_clip(chunk, protocol, level, module)
        out.append(columns)
    return out


def _per_clip(chunk: _Chunk, protocol: Protocol, level: F32, module: ModuleType) -> dict[str, F64]:
    """What a metric measures of each map, one column for each of its numbers."""
    size = protocol.size
    scores = chunk.ranked.flat.reshape(-1, size, size)
    scores = scores.view()
    scores.flags.writeable = False
    found: list[dict[str, float]] = []
    for row, truth, one, at in zip(
        chunk.rows, chunk.truths, _for_all(scores, chunk.truths), _for_all(level, chunk.truths), strict=True
    ):
        numbers = module.per_clip(ClipMap(row, one, one >= at, truth.grid()), protocol)
        if found and set(numbers) != set(found[0]):
            raise UsageError(
                f"Expected the same numbers for every clip from per_clip of {module.__name__}, but got "
                f"{', '.join(numbers)} for '{row.id}' after {', '.join(found[0])}. Give NaN where one is undefined."
            )
        found.append(numbers)
    return {f"{EXTRA}{name}": np.array([float(one[name]) for one in found]) for name in found[0]}


def _size_cuts(pixels: int) -> list[int]:
    """The order statistics from which the fixed shares of the pixels are kept; at least one pixel is."""
    return [pixels - max(round(pixels * share), 1) for share in SIZES]


def _counts(ranked: OrderStatistics, truths: Sequence[Truth], level: F32) -> F64:
    """Of the pixels that are not below a level: the truth's weight, how many have any, how many there are, (3, B)."""
    size, out = truths[0].size, np.empty((3, len(truths)))
    scores = ranked.flat.reshape(-1, size, size)
    out[2] = ranked.count(level)
    if len(scores) == len(level) == 1:
        out[:2] = _covered_by_one(scores[0] >= level[0], truths)
    else:
        each = zip(truths, _for_all(scores, truths), _for_all(level, truths), strict=True)
        found = [_covered(truth, one[truth.rows, truth.columns] >= at) for truth, one, at in each]
        out[:2] = np.array(found, np.float64).T
    return out


def _for_all(values: F32, truths: Sequence[Truth]) -> F32:
    """What clips share, for each of them."""
    return values if len(values) == len(truths) else np.broadcast_to(values, (len(truths), *values.shape[1:]))


def _covered(truth: Truth, mask: Mask) -> tuple[float, int]:
    """The weight of a truth, and pixels with any, under a mask of its part of the picture."""
    pixels = int(np.count_nonzero(mask))
    if truth.weight is None:
        return float(pixels), pixels
    weight = float(np.sum(truth.weight, where=mask, dtype=np.float64))
    return weight, int(np.count_nonzero(mask & (truth.weight > 0)))


def _covered_by_one(mask: Mask, truths: Sequence[Truth]) -> F64:
    """The same for one mask (H, W) of all clips, (2, B): boxes are looked up in sums over it."""
    sums = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), np.int64)
    sums[1:, 1:] = mask.cumsum(0).cumsum(1)
    parts = [(truth.rows, truth.columns) for truth in truths]
    y0, y1, x0, x1 = np.array([(y.start, y.stop, x.start, x.stop) for y, x in parts]).T
    out = np.tile((sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]).astype(np.float64), (2, 1))
    for i, truth in enumerate(truths):
        if truth.weight is not None:
            out[:, i] = _covered(truth, mask[truth.rows, truth.columns])
    return out


def _ciou(counts: F64, area: F64, protocol: Protocol) -> F64:
    """Consensus IoU (B,) of masks P with truth g from what each mask covers: sum(P g), #(P where g > 0) and #P.

    union: sum(P g) / (sum(g) + #(P where g = 0)); no_miss: sum(P g) / (sum(P g) + #(P where g = 0)). 0/0 counts as 0.
    """
    inside, covered, total = counts
    below = (area if protocol.ciou == "union" else inside) + (total - covered)
    found: F64 = np.divide(inside, below, out=np.zeros_like(area), where=below > 0)
    return found
