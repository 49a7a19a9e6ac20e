"""Ground truth: boxes as fractions of the picture become a map of weights, through the same crop as the picture."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from earsight.types import F32, Box


def truth_map(boxes: Iterable[Box], size: int, consensus: int = 1) -> F32:
    """Weight of each pixel, float32 (size, size) in [0, 1]: min(1, boxes that cover it / consensus).

    Coordinates are clipped to [0, 1] before scaling, since some lists hold values such as -2.88e16, then multiplied by
    `size` and cut to whole pixels; a box covers rows y0 to y1 - 1. A box that is empty or inverted covers nothing.

    >>> truth_map([(0.0, 0.0, 0.5, 0.5), (0.25, 0.25, 1.0, 0.5)], 4, consensus=2).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.5, 1.0, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    whole: F32 = np.zeros((size, size), dtype=np.float32)
    rows, columns, weight = truth_part(boxes, size, consensus)
    whole[rows, columns] = weight
    return whole


def truth_part(boxes: Iterable[Box], size: int, consensus: int = 1) -> tuple[slice, slice, F32]:
    """The smallest rectangle that holds all of `truth_map`'s weights: its rows, its columns, and the weights in it.

    >>> rows, columns, weight = truth_part([(0.0, 0.0, 0.5, 0.5)], 4)
    >>> rows, columns, weight.tolist()
    (slice(0, 2, None), slice(0, 2, None), [[1.0, 1.0], [1.0, 1.0]])
    """
    cells = truth_cells(boxes, size)
    if not cells:
        return slice(0, 0), slice(0, 0), np.zeros((0, 0), dtype=np.float32)
    left, top = min(cell[0] for cell in cells), min(cell[1] for cell in cells)
    right, bottom = max(cell[2] for cell in cells), max(cell[3] for cell in cells)
    count = np.zeros((bottom - top, right - left), dtype=np.float32)
    for x0, y0, x1, y1 in cells:
        count[y0 - top : y1 - top, x0 - left : x1 - left] += 1
    weight: F32 = np.minimum(count / np.float32(consensus), np.float32(1))
    return slice(top, bottom), slice(left, right), weight


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
