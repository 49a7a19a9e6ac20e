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
    count = np.zeros((size, size), dtype=np.float32)
    for box in boxes:
        x0, y0, x1, y1 = (int(value * size) for value in _inside(box))
        count[y0:y1, x0:x1] += 1
    weight: F32 = np.minimum(count / np.float32(consensus), np.float32(1))
    return weight


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
    x0, y0, x1, y1 = (min(max(float(value), 0.0), 1.0) for value in box)
    return x0, y0, x1, y1
