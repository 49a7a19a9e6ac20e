"""Facts about connected parts of masks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from earsight.localize.regions import boxes_of


@pytest.mark.parametrize("seed", range(60))
def test_parts_equal_scipys(seed: int) -> None:
    random = np.random.default_rng(seed)
    mask = random.random(random.integers(1, 40, 2)) < random.random()
    found, _ = ndimage.label(mask, np.ones((3, 3)))
    areas = np.bincount(found.ravel())[1:]
    expected = [(s[1].start, s[0].start, s[1].stop, s[0].stop) for s in ndimage.find_objects(found)]
    got = boxes_of(mask, random.random(mask.shape).astype(np.float32), most=10**6)
    assert sorted(got) == sorted(expected)
    assert [areas[expected.index(box)] for box in got[:1]] == ([areas.max()] if len(areas) else [])


def test_the_largest_come_first_and_no_more_than_asked() -> None:
    mask = np.zeros((10, 20), dtype=bool)
    mask[0, 0] = mask[2:5, 2:5] = mask[7:9, 10:12] = True
    assert boxes_of(mask, most=2) == ((2, 2, 5, 5), (10, 7, 12, 9))


def test_equal_sizes_go_by_the_highest_score() -> None:
    mask = np.array([[1, 0, 1, 0, 1]], dtype=bool)
    assert boxes_of(mask, np.array([[0.1, 0, 0.9, 0, 0.5]], dtype=np.float32), most=2) == ((2, 0, 3, 1), (4, 0, 5, 1))


def test_a_spiral_is_one_part() -> None:
    mask = np.zeros((61, 61), dtype=bool)
    x, y, dx, dy, length = 30, 30, 1, 0, 2
    for turn in range(26):
        for _ in range(length):
            mask[y, x] = True
            x, y = x + dx, y + dy
        dx, dy = -dy, dx
        length += 2 * (turn % 2)
    assert ndimage.label(mask)[1] == 1
    assert len(boxes_of(mask)) == 1


def test_an_empty_mask_has_no_parts() -> None:
    assert boxes_of(np.zeros((5, 5), dtype=bool)) == ()
    assert boxes_of(np.zeros((0, 0), dtype=bool)) == ()
    assert boxes_of(np.ones((5, 7), dtype=bool)) == ((0, 0, 7, 5),)
