"""Maps at the size of a protocol beside their ground truth, in numpy: how pixels are ordered, and what lies inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from earsight.data.truth import truth_cells, truth_part
from earsight.metrics.base import F64
from earsight.ranks import Ranked
from earsight.types import F32, I64, Row


@dataclass(frozen=True)
class Truth:
    """The ground truth of a clip, cut to the part of the picture that has any.

    Args:
        cells: the boxes in whole pixels, (x0, y0, x1, y1).
        consensus: how many of them must cover a pixel for full weight.
        rows, columns: the part.
        weight: float32 of that part, or None when it is 1 all over.
        area: sum of the weights.
        support: pixels with any weight.
    """

    cells: Sequence[tuple[int, int, int, int]]
    consensus: int
    rows: slice
    columns: slice
    weight: F32 | None
    area: float
    support: int

    @classmethod
    def of(cls, row: Row, size: int) -> Truth:
        boxes = row.boxes if row.positive else ()
        cells = truth_cells(boxes, size)
        if len(cells) == row.consensus == 1:  # by far the most common: one box, one annotator; nothing to draw
            x0, y0, x1, y1 = cells[0]
            pixels = (y1 - y0) * (x1 - x0)
            return cls(cells, 1, slice(y0, y1), slice(x0, x1), None, float(pixels), pixels)
        rows, columns, part = truth_part(boxes, size, row.consensus)
        return cls(
            cells, row.consensus, rows, columns, part, float(part.sum(dtype=np.float64)), int(np.count_nonzero(part))
        )

    def inside(self, picture: F32, level: np.float32) -> tuple[float, int]:
        """Weight, and pixels with any weight, under the pixels of a map (H, W) that are not below `level`."""
        if self.support == 0:
            return 0.0, 0
        mask = picture[self.rows, self.columns] >= level
        if self.weight is None:
            covered = int(np.count_nonzero(mask))
            return float(covered), covered
        covered = int(np.count_nonzero(mask & (self.weight > 0)))
        return float(np.sum(self.weight, where=mask, dtype=np.float64)), covered


class Look:
    """B maps at the size of a protocol, and the ground truths that they meet there.

    Args:
        scores: (B, H, W); of one map for all clips, `np.broadcast_to` that many.
        ranked: the order of each map's scores.
        truths: the ground truth of each.
    """

    def __init__(self, scores: F32, ranked: Ranked, truths: Sequence[Truth]) -> None:
        self._scores, self.ranked, self.truths = scores, ranked, truths
        self.area = np.array([truth.area for truth in truths])
        self.support = np.array([truth.support for truth in truths])

    def inside(self, levels: F32) -> F64:
        """Of the pixels that are not below some levels: the truth's weight, how many have any, how many there are.

        (K, B) -> (3, K, B).
        """
        out = np.empty((3, *levels.shape))
        for k, level in enumerate(levels):
            same = self._scores.strides[0] == 0 and bool((level == level[0]).all())
            out[:2, k] = self._under_one(level[0]) if same else self._under(level)
            total = self.ranked.counted(level)
            for i in np.flatnonzero(total < 0).tolist():
                total[i] = np.count_nonzero(self._scores[i] >= level[i])
            out[2, k] = total
        return out

    def _under(self, level: F32) -> F64:
        """Weight and pixels with any, (B,) -> (2, B)."""
        found = [truth.inside(one, at) for truth, one, at in zip(self.truths, self._scores, level, strict=True)]
        return np.array(found, np.float64).T

    def _under_one(self, level: np.float32) -> F64:
        """The same of one map for all clips: its boxes are looked up in sums over it."""
        out = np.empty((2, len(self.truths)))
        mask = self._scores[0] >= level
        sums = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), np.int64)
        sums[1:, 1:] = mask.cumsum(0).cumsum(1)
        boxes, corners, others = self._boxes
        x0, y0, x1, y1 = corners
        out[:, boxes] = sums[y1, x1] - sums[y0, x1] - sums[y1, x0] + sums[y0, x0]
        for i in others:
            out[:, i] = self.truths[i].inside(self._scores[0], level)
        return out

    @cached_property
    def _boxes(self) -> tuple[list[int], I64, list[int]]:
        """Clips whose truth is one box, the corners of these boxes (4, n), and the other clips."""
        boxes = [i for i, truth in enumerate(self.truths) if truth.weight is None]
        corners = np.array([self.truths[i].cells[0] for i in boxes], np.int64).reshape(-1, 4).T
        return boxes, corners, sorted(set(range(len(self.truths))).difference(boxes))
