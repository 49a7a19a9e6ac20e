"""Facts about ground-truth maps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from earsight.data.truth import crop_boxes, truth_map


def test_boxes_are_cut_to_whole_pixels_and_joined() -> None:
    got = truth_map([(0.1, 0.2, 0.55, 0.61), (0.5, 0.5, 0.9, 0.9)], 10)
    expected = np.zeros((10, 10), dtype=np.float32)
    expected[2:6, 1:5] = 1
    expected[5:9, 5:9] = 1
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == np.float32


def test_one_annotator_of_two_counts_half() -> None:
    got = truth_map([(0, 0, 1, 0.5), (0, 0, 0.5, 1), (0, 0, 0.5, 1)], 2, consensus=2)
    assert got.tolist() == [[1.0, 0.5], [1.0, 0.0]]


def test_a_grid_of_256_scales_as_the_published_lists_do() -> None:
    assert np.nonzero(truth_map([(100 / 256, 0, 1, 1)], 224)[0])[0][0] == 87


def test_absurd_coordinates_are_clipped_before_scaling() -> None:
    assert truth_map([(-2.88e16, 0.0, 0.5, 2.88e16)], 4).sum() == 8


@pytest.mark.parametrize("box", [(0.5, 0.5, 0.5, 0.9), (0.8, 0.2, 0.3, 0.9), (1.0, 1.0, 1.0, 1.0)])
def test_degenerate_boxes_cover_nothing(box: tuple[float, float, float, float]) -> None:
    assert truth_map([box], 16).sum() == 0


def test_the_map_of_a_crop_is_the_crop_of_the_map() -> None:
    boxes = [(0.25, 0.125, 0.75, 0.5), (0.0, 0.75, 0.375, 1.0), (0.875, 0.875, 1.0, 1.0)]
    whole = truth_map(boxes, 64)
    for flip in (False, True):
        cut = whole[8:40, 16:48]
        got = truth_map(crop_boxes(boxes, left=16 / 64, top=8 / 64, width=0.5, height=0.5, flip=flip), 32)
        np.testing.assert_array_equal(got, cut[:, ::-1] if flip else cut)


def test_the_whole_picture_is_a_crop_that_changes_nothing() -> None:
    boxes = ((0.1, 0.2, 0.3, 0.4),)
    assert crop_boxes(boxes) == boxes


def test_sizes_of_the_real_list_equal_the_published_ones(shared: Path) -> None:
    rows = json.loads((shared / "metadata" / "vggss.json").read_text())
    areas = [float(truth_map(map(tuple, row["bbox"]), 224).sum()) for row in rows]
    assert np.histogram(areas, [0, 1024, 9216, 20736, np.inf])[0].tolist() == [134, 1796, 1726, 1502]
    empty = {row["file"] for row, area in zip(rows, areas, strict=True) if area == 0}
    assert empty == {"M1P1xla8rg0_000000", "MKC9LvRivTM_000030"}
