"""Maps against ground truth: one record a clip, under several protocols at once.

Always on the CPU, so that the same maps give the same numbers whatever device made them. Protocols that look at the
maps at the same size share the work of ranking pixels, and every mask is "from this score upward", so that a protocol
costs a comparison and two counts more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from earsight.data.truth import truth_cells, truth_part
from earsight.masking import levels, native_confidence, need_finite, resized, scaled
from earsight.metrics.base import F64, SIZES, Records
from earsight.protocols import Protocol
from earsight.ranks import Ranked
from earsight.types import F32, Maps, Mask, Row

CHUNK = 32
"""Maps that one thread works on at a time: few enough to stay in its cache, enough to make numpy worth calling."""


@dataclass(frozen=True)
class Truth:
    """The ground truth of a clip, cut to the part of the picture that has any.

    Args:
        rows, columns: the part.
        weight: float32 of that part, or None when it is known to be 1 all over.
        some: where the weight is above 0, or None when that is everywhere.
        area: sum of the weights.
        support: pixels with any weight.
    """

    rows: slice
    columns: slice
    weight: F32 | None
    some: Mask | None
    area: float
    support: int

    @classmethod
    def of(cls, row: Row, size: int) -> Truth:
        boxes = row.boxes if row.positive else ()
        if len(boxes) == row.consensus == 1:  # by far the most common: one box, one annotator; nothing to draw
            for x0, y0, x1, y1 in truth_cells(boxes, size):
                pixels = (y1 - y0) * (x1 - x0)
                return cls(slice(y0, y1), slice(x0, x1), None, None, float(pixels), pixels)
        rows, columns, part = truth_part(boxes, size, row.consensus)
        some = part > 0
        support = int(np.count_nonzero(some))
        return cls(
            rows,
            columns,
            part,
            None if support == part.size else some,
            float(part.sum(dtype=np.float64)),
            support,
        )

    def inside(self, mask: Mask) -> tuple[float, int]:
        """Weight, and pixels with any weight, that a mask (H, W) covers."""
        part = mask[self.rows, self.columns]
        covered = int(np.count_nonzero(part if self.some is None else part & self.some))
        if self.weight is None or self.area == self.support:  # all weights are 0 or 1
            return float(covered), covered
        return float(np.sum(self.weight, where=part, dtype=np.float64)), covered


def score(maps: Maps, rows: Sequence[Row], protocols: Sequence[Protocol], sizes: bool = False) -> list[Records]:
    """Records of these maps (B, h, w) and rows under each protocol; with `sizes` also at fixed prediction sizes.

    >>> row = Row("a", boxes=((0.0, 0.0, 0.5, 1.0),))
    >>> left = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> [r.ciou.tolist() for r in score(Maps(left, left), [row], [Protocol("tiny", size=2)])]
    [[1.0]]
    """
    dense = maps.dense.detach().float().cpu()
    looks: dict[tuple[Any, ...], list[int]] = {}
    for i, protocol in enumerate(protocols):
        same = tuple(dense.shape[1:]) == (protocol.size, protocol.size)
        how = (protocol.size,) if same else (protocol.size, protocol.upsample, protocol.align_corners)
        looks.setdefault(how, []).append(i)
    truths: dict[int, list[Truth]] = {}
    found: dict[int, Records] = {}
    peak: F64 | None = None
    for at in looks.values():
        first, here = protocols[at[0]], [protocols[i] for i in at]
        if first.size not in truths:
            truths[first.size] = [Truth.of(row, first.size) for row in rows]
        pictures = resized(dense, (first.size, first.size), first).numpy()
        for i, columns in zip(at, _columns(pictures, maps.bounds, truths[first.size], here, sizes), strict=True):
            if protocols[i].confidence == "max":
                if peak is None:
                    peak = scaled(dense.flatten(1).amax(1), maps.bounds).double().numpy()
                columns["confidence"] = peak
            elif protocols[i].confidence == "native":
                columns["confidence"] = native_confidence(maps).double().cpu().numpy()
            found[i] = Records.of(rows, **columns)
    return [found[i] for i in range(len(protocols))]


def _columns(
    pictures: F32,
    bounds: tuple[float, float] | None,
    truths: Sequence[Truth],
    protocols: Sequence[Protocol],
    sizes: bool,
) -> list[dict[str, F64]]:
    """What each protocol makes of maps (B, H, W) at its size, chunk by chunk in threads."""
    chunks = [slice(i, i + CHUNK) for i in range(0, len(pictures), CHUNK)]

    def work(chunk: slice) -> list[dict[str, F64]]:
        part = pictures[chunk]
        return _chunk(_score(part, bounds), truths[chunk], protocols, sizes)

    threads = min(len(chunks), torch.get_num_threads(), os.cpu_count() or 1)
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            done = list(pool.map(work, chunks))
    else:
        done = [work(chunk) for chunk in chunks]
    return [
        {name: np.concatenate([one[i][name] for one in done]) for name in done[0][i]} for i in range(len(protocols))
    ]


def _score(pictures: F32, bounds: tuple[float, float] | None) -> F32:
    """Maps as shares of their bounds. numpy's arithmetic is torch's here: one rounding for each of the two steps."""
    if bounds is None:
        return np.ascontiguousarray(pictures)
    out: F32 = np.subtract(pictures, np.float32(bounds[0]))
    out /= np.float32(bounds[1] - bounds[0])
    return out


def _chunk(pictures: F32, truths: Sequence[Truth], protocols: Sequence[Protocol], sizes: bool) -> list[dict[str, F64]]:
    flat = pictures.reshape(len(pictures), -1)
    n = flat.shape[1]
    ranked = Ranked(flat, whole=sizes)
    need_finite(ranked.span)
    area = np.array([truth.area for truth in truths])
    support = np.array([truth.support for truth in truths])
    counts: dict[bytes, F64] = {}

    def counted(level: F32) -> F64:
        """Weight inside, pixels inside and pixels in all from `level` upward, (3, B); the same levels only once."""
        key = level.tobytes()
        if key not in counts:
            masks = (flat >= level[:, None]).reshape(pictures.shape)
            inside = [truth.inside(mask) for truth, mask in zip(truths, masks, strict=True)]
            total = [np.count_nonzero(mask) for mask in masks]
            counts[key] = np.array([[a for a, _ in inside], [b for _, b in inside], total], np.float64)
        return counts[key]

    out: list[dict[str, F64]] = []
    for protocol in protocols:
        kept = counted(levels(ranked, protocol, support))
        columns = {
            "area": area,
            "support": support.astype(np.float64),
            "predicted": kept[2],
            "ciou": _ciou(kept, area, protocol),
        }
        if protocol.confidence == "top_quarter_mean":
            columns["confidence"] = ranked.top_mean(max(n // 4, 1)).astype(np.float64)
        if sizes:
            at = [counted(ranked.statistic(n - round(n * share))) for share in SIZES]
            columns["by_size"] = np.stack([_ciou(one, area, protocol) for one in at], axis=1)
        out.append(columns)
    return out


def _ciou(counts: F64, area: F64, protocol: Protocol) -> F64:
    """Consensus IoU (B,) of masks P with truth g from what each mask covers: sum(P g), #(P where g > 0) and #P.

    union: sum(P g) / (sum(g) + #(P where g = 0)); no_miss: sum(P g) / (sum(P g) + #(P where g = 0)). 0/0 counts as 0.
    """
    inside, covered, total = counts
    below = (area if protocol.ciou == "union" else inside) + (total - covered)
    found: F64 = np.divide(inside, below, out=np.zeros_like(area), where=below > 0)
    return found
