"""Maps against ground truth: one record a clip, under several protocols at once.

In numpy, wherever the maps were made. Protocols that look at the maps at the same size share the work of ranking
pixels, and every mask is "from this score upward", so that a protocol costs a comparison and two counts more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earsight.judging import Bounds, scaled
from earsight.levels import levels, need_finite, needed
from earsight.looks import Look, Truth
from earsight.masking import native_confidence
from earsight.metrics.base import F64, SIZES, Records
from earsight.protocols import Protocol
from earsight.ranks import Ranked
from earsight.resampling import upsampled
from earsight.types import F32, Maps, Row

CHUNK = 64
"""Most maps that one thread ranks at a time."""
THREADS = 8
"""Most threads that rank. Each of their calls takes Python's lock, for which more would wait longer."""


def score(maps: Maps, rows: Sequence[Row], protocols: Sequence[Protocol], sizes: bool = False) -> list[Records]:
    """Records of these maps (B, h, w) and rows under each protocol; with `sizes` also at fixed prediction sizes.

    >>> row = Row("a", boxes=((0.0, 0.0, 0.5, 1.0),))
    >>> left = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> [r.ciou.tolist() for r in score(Maps(left, left), [row], [Protocol("tiny", size=2)])]
    [[1.0]]
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, protocol in enumerate(protocols):
        of = "dense" if maps.native is maps.dense else protocol.map
        how = (
            (protocol.size,)
            if _as_large(maps, protocol)
            else (protocol.size, protocol.upsample, protocol.align_corners)
        )
        groups.setdefault((of, *how), []).append(i)
    truths = cache(lambda size: [Truth.of(row, size) for row in rows])
    found: dict[int, Records] = {}
    for (of, *_), at in groups.items():
        here = [protocols[i] for i in at]
        raw, bounds = maps.which(of)
        raw = raw.detach().float()
        for i, columns in zip(at, _columns(raw, bounds, truths, here, sizes), strict=True):
            if protocols[i].confidence == "max" and not _as_large(maps, protocols[i]):
                columns["confidence"] = scaled(raw.amax((1, 2)).cpu().numpy(), bounds).astype(np.float64)
            elif protocols[i].confidence == "native":
                columns["confidence"] = native_confidence(maps).double().cpu().numpy()
            found[i] = Records.of(rows, **columns)
    return [found[i] for i in range(len(protocols))]


def _as_large(maps: Maps, protocol: Protocol) -> bool:
    """Whether maps are of the protocol's size already."""
    return tuple(maps.which(protocol.map)[0].shape[1:]) == (protocol.size, protocol.size)


def _columns(
    raw: Tensor,
    bounds: Bounds,
    truths_at: Callable[[int], list[Truth]],
    protocols: Sequence[Protocol],
    sizes: bool,
) -> list[dict[str, F64]]:
    """What each protocol makes of maps (B, h, w) at its size; `truths_at` gives their ground truth at a size."""
    n = protocols[0].size ** 2
    cuts, top = needed(protocols, n)
    cuts = list(dict.fromkeys([*cuts, *(_size_cuts(n) if sizes else [])]))
    done = [_measured(look, protocols, sizes) for look in _looks(raw, bounds, protocols[0], cuts, top, truths_at)]
    return [
        {name: np.concatenate([one[i][name] for one in done]) for name in done[0][i]} for i in range(len(protocols))
    ]


def _looks(
    raw: Tensor,
    bounds: Bounds,
    protocol: Protocol,
    cuts: Sequence[int],
    top: int,
    truths_at: Callable[[int], list[Truth]],
) -> Iterator[Look]:
    """Some of the maps at a time.

    Threads enlarge the maps and rank their pixels, chunk by chunk, in few and long calls of numpy; the many short ones
    that follow are made where these looks are used, where no other thread waits for them.
    """
    grids: F32 = raw.cpu().numpy()
    side = protocol.size
    same = grids.strides[0] == 0 and len(grids) > 1
    grids = grids[:1] if same else grids
    enlarge = grids.shape[1:] != (side, side)
    change = enlarge or bounds is not None
    scores = _scores.take(len(grids), side * side).reshape(-1, side, side) if change else grids
    threads = min(torch.get_num_threads(), os.cpu_count() or 1, THREADS)
    each = min(CHUNK, -(-len(grids) // threads))
    chunks = [slice(i, i + each) for i in range(0, len(grids), each)]

    def rank(chunk: slice) -> Ranked:
        here = scores[chunk]
        if enlarge:
            upsampled(grids[chunk], side, side, protocol, out=here)
        if bounds is not None:
            np.subtract(here if enlarge else grids[chunk], np.float32(bounds[0]), out=here)
            here /= np.float32(bounds[1] - bounds[0])
        flat = here.reshape(-1, side * side)
        return Ranked(flat, cuts=cuts, top=top, room=_room.take(*flat.shape))

    ranks = _pool(threads).map(rank, chunks) if len(chunks) > 1 < threads else map(rank, chunks)
    truths = truths_at(side)  # while the threads are at work
    for chunk, ranked in zip(chunks, ranks, strict=True):
        if same:
            count = len(truths)
            yield Look(np.broadcast_to(scores[0], (count, side, side)), ranked.repeated(count), truths)
        else:
            yield Look(scores[chunk], ranked, truths[chunk])


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


def _measured(look: Look, protocols: Sequence[Protocol], sizes: bool) -> list[dict[str, F64]]:
    """The columns of records under each protocol."""
    ranked, area = look.ranked, look.area
    need_finite((ranked.lowest, ranked.highest))
    kept = [levels(ranked, protocol, look.support) for protocol in protocols]
    by_size = [ranked.around[index].at for index in _size_cuts(ranked.pixels)] if sizes else []
    counted = _counts(look, [ranked.highest, *kept, *by_size])
    peak, fixed = counted[0][0] / ranked.at_highest, counted[1 + len(kept) :]
    out: list[dict[str, F64]] = []
    for protocol, counts in zip(protocols, counted[1:], strict=False):
        columns = {
            "area": area,
            "support": look.support.astype(np.float64),
            "predicted": counts[2],
            "ciou": _ciou(counts, area, protocol),
            "peak": peak,  # where several pixels are the highest it is any of them: what their mean says
            "confidence": ranked.highest.astype(np.float64),  # "peak", and "max" of maps as large as this; see `score`
        }
        if protocol.confidence == "top_quarter_mean":
            columns["confidence"] = ranked.top_mean.astype(np.float64)
        if sizes:
            columns["by_size"] = np.stack([_ciou(one, area, protocol) for one in fixed], axis=1)
        out.append(columns)
    return out


def _counts(look: Look, asked: Sequence[F32]) -> list[F64]:
    """What `inside` says of each of these levels (B,), (3, B); the same ones are asked about only once."""
    keys = [level.tobytes() for level in asked]
    once = dict(zip(keys, asked, strict=True))
    found = dict(zip(once, look.inside(np.stack(list(once.values()))).swapaxes(0, 1), strict=True))
    return [found[key] for key in keys]


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
