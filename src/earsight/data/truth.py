"""Ground truth: boxes as fractions of the picture become a map of weights, through the same crop as the picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from earsight.types import F32, Box


@dataclass(frozen=True)
class Truth:
    """The ground truth of a clip on a square grid, cut to the part that has any.

    Args:
        size: side of the grid.
        rows, columns: the smallest rectangle that holds all weights.
        weight: float32 of that rectangle, in [0, 1]; None when it is 1 all over.
        area: sum of the weights.
        support: pixels with any weight.
    """

    size: int
    rows: slice
    columns: slice
    weight: F32 | None
    area: float
    support: int

    def grid(self) -> F32:
        """The weight of each pixel, float32 (size, size)."""
        whole: F32 = np.zeros((self.size, self.size), dtype=np.float32)
        whole[self.rows, self.columns] = 1 if self.weight is None else self.weight
        return whole


def rasterise(boxes: Iterable[Box], size: int, consensus: int = 1) -> Truth:
    """Ground truth on a grid of (size, size): the weight of a pixel is min(1, boxes that cover it / consensus).

    Coordinates are clipped to [0, 1] before scaling, since some lists hold values such as -2.88e16, then multiplied by
    `size` and cut to whole pixels; a box covers rows y0 to y1 - 1. A box that is empty or inverted covers nothing.

    >>> truth = rasterise([(0.0, 0.0, 0.5, 0.5)], 4)
    >>> truth.rows, truth.columns, truth.area
    (slice(0, 2, None), slice(0, 2, None), 4.0)
    >>> rasterise([(0.0, 0.0, 0.5, 0.5), (0.25, 0.25, 1.0, 0.5)], 4, consensus=2).grid().tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.5, 1.0, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    cells = truth_cells(boxes, size)
    if not cells:
        return Truth(size, slice(0, 0), slice(0, 0), None, 0.0, 0)
    left, top = min(cell[0] for cell in cells), min(cell[1] for cell in cells)
    right, bottom = max(cell[2] for cell in cells), max(cell[3] for cell in cells)
    rows, columns = slice(top, bottom), slice(left, right)
    if len(cells) == consensus == 1:  # by far the most common: one box, one annotator; nothing to draw
        pixels = (bottom - top) * (right - left)
        return Truth(size, rows, columns, None, float(pixels), pixels)
    count = np.zeros((bottom - top, right - left), dtype=np.float32)
    for x0, y0, x1, y1 in cells:
        count[y0 - top : y1 - top, x0 - left : x1 - left] += 1
    weight: F32 = np.minimum(count / np.float32(consensus), np.float32(1))
    return Truth(size, rows, columns, weight, float(weight.sum(dtype=np.float64)), int(np.count_nonzero(weight)))


def truth_map(boxes: Iterable[Box], size: int, consensus: int = 1) -> F32:
    """The weights of `rasterise` as a whole grid, float32 (size, size)."""
    return rasterise(boxes, size, consensus).grid()


def truth_cells(boxes: Iterable[Box], size: int) -> list[tuple[int, int, int, int]]:
    """Boxes in whole pixels (x0, y0, x1, y1), those that cover nothing left out."""
    cells = []
    for box in boxes:
        x0, y0, x1, y1 = _inside(box)
        cell = (int(x0 * size), int(y0 * size), int(x1 * size), int(y1 * size))
        if cell[0] < cell[2] and cell[1] < cell[3]:
            cells.append(cell)
    return cells


def crop_boxes(
    boxes: Iterable[Box],
    left: float = 0.0,
    top: float = 0.0,
    width: float = 1.0,
    height: float = 1.0,
    flip: bool = False,
) -> tuple[Box, ...]:
    """Boxes as seen in a crop of the picture; the crop's corner and size are fractions of the picture too.

    `flip` mirrors left and right after the crop. What sticks out of the crop is cut off by `truth_map`.

    >>> crop_boxes([(0.5, 0.5, 0.75, 1.0)], left=0.5, width=0.5)
    ((0.0, 0.5, 0.5, 1.0),)
    >>> crop_boxes([(0.5, 0.5, 0.75, 1.0)], left=0.5, width=0.5, flip=True)
    ((0.5, 0.5, 1.0, 1.0),)
    """
    seen: list[Box] = []
    for x0, y0, x1, y1 in map(_inside, boxes):
        x0, x1 = (x0 - left) / width, (x1 - left) / width
        if flip:
            x0, x1 = 1 - x1, 1 - x0
        seen.append((x0, (y0 - top) / height, x1, (y1 - top) / height))
    return tuple(seen)


def _inside(box: Box) -> Box:
    x0, y0, x1, y1 = box
    return min(max(x0, 0.0), 1.0), min(max(y0, 0.0), 1.0), min(max(x1, 0.0), 1.0), min(max(y1, 0.0), 1.0)
