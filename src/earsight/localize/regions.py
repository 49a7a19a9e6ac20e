"""Where in a map the source is: the region around its peak, and boxes around the connected parts of a mask.

In numpy alone, and fast enough for video.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from earsight.overlay import PixelBox
from earsight.types import F32, I64, Mask


def spread(score: F32) -> tuple[float, float]:
    """The median and the maximum of a map (H, W): what is nowhere special, and the most special place."""
    return float(np.median(score)), float(score.max())


def region(score: F32, low: float, high: float) -> Mask:
    """The part of a map (H, W) that boxes go around: pixels above the middle between its median and its maximum.

    A protocol's mask answers to its ground truth: that of `top_half` always covers half of the picture, wherever the
    source is and however large. This rule follows the map's own peak instead. A flat map has no region.

    >>> score = np.array([[0, 0, 0, 0.4], [0, 0, 0.6, 1]], np.float32)
    >>> region(score, *spread(score)).astype(int).tolist()
    [[0, 0, 0, 0], [0, 0, 1, 1]]
    """
    above: Mask = score > (low + high) / 2
    return above


def source_boxes(score: F32, low: float, high: float, most: int = 5) -> tuple[PixelBox, ...]:
    """Boxes around the parts of a map (H, W) that lie above the middle between its median and its maximum."""
    return boxes_of(region(score, low, high), score, most)


def boxes_of(mask: Mask, score: F32 | None = None, most: int = 5) -> tuple[PixelBox, ...]:
    """Boxes around the 8-connected parts of a mask (H, W), largest part first, at most `most` of them.

    Parts of equal size go by their highest score (H, W), then from the top down.

    >>> mask = np.array([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]], dtype=bool)
    >>> boxes_of(mask)
    ((0, 0, 2, 2), (3, 1, 4, 2))
    """
    rows, starts, ends = _runs(mask)
    if len(rows) == 0 or most < 1:
        return ()
    part = _join(len(rows), *_touching(rows, starts, ends, mask.shape[1]))
    _, part = np.unique(part, return_inverse=True)
    count = int(part.max()) + 1

    def reduced(ufunc: np.ufunc, values: npt.NDArray[np.generic], first: float) -> npt.NDArray[np.float64]:
        out = np.full(count, first)
        ufunc.at(out, part, values)
        return out

    area = np.bincount(part, weights=ends - starts)
    x0, y0 = reduced(np.minimum, starts, np.inf), reduced(np.minimum, rows, np.inf)
    x1, y1 = reduced(np.maximum, ends, 0), reduced(np.maximum, rows + 1, 0)
    peak = np.zeros(count) if score is None else reduced(np.maximum, _run_peaks(mask, score, len(rows)), -np.inf)
    order = np.lexsort((np.arange(count), -peak, -area))[:most]
    return tuple((int(x0[i]), int(y0[i]), int(x1[i]), int(y1[i])) for i in order)


def _runs(mask: Mask) -> tuple[I64, I64, I64]:
    """Row, first column and one past the last column of every horizontal run, in reading order."""
    padded = np.zeros((mask.shape[0], mask.shape[1] + 2), dtype=np.int8)
    padded[:, 1:-1] = mask
    step = np.diff(padded, axis=1)
    rows, starts = np.nonzero(step == 1)
    return rows, starts, np.nonzero(step == -1)[1]


def _run_peaks(mask: Mask, score: F32, runs: int) -> npt.NDArray[np.float32]:
    """Highest score in each run."""
    begins = mask.copy()
    begins[:, 1:] &= ~mask[:, :-1]
    at = np.nonzero(begins[mask])[0]
    peaks: npt.NDArray[np.float32] = np.maximum.reduceat(score[mask].astype(np.float32), at[:runs])
    return peaks


def _touching(rows: I64, starts: I64, ends: I64, width: int) -> tuple[I64, I64]:
    """Pairs of runs in neighbouring rows that touch, corners included."""
    stride = width + 2  # keeps the keys of one row apart from the next row's
    first = np.searchsorted(rows * stride + ends, (rows + 1) * stride + starts, side="left")
    last = np.searchsorted(rows * stride + starts, (rows + 1) * stride + ends, side="right")
    many = np.maximum(last - first, 0)
    above = np.repeat(np.arange(len(rows)), many)
    offset = np.arange(len(above)) - np.repeat(np.cumsum(many) - many, many)
    return above, first[above] + offset


def _join(count: int, a: I64, b: I64) -> I64:
    """Smallest run of each run's part, given the pairs (a, b) that belong together.

    Every round hooks the higher of two roots below the lower one and flattens the trees, so the number of separate
    roots of a part at least halves: a spiral takes a few rounds, not one per turn.
    """
    root = np.arange(count)
    while True:
        low, high = np.minimum(root[a], root[b]), np.maximum(root[a], root[b])
        apart = low != high
        if not apart.any():
            return root
        np.minimum.at(root, high[apart], low[apart])
        while True:
            flatter = root[root]
            if np.array_equal(flatter, root):
                break
            root = flatter
