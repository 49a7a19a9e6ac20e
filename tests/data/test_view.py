"""Pictures cut while they are resized, against torchvision, which resizes all and then cuts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

from earsight.data.view import cut_and_resized
from earsight.types import U8

Seen = tuple[int, int, int, int, int]
"""Height and width that a picture is resized to, left, top, mirrored or not."""

SIDE = 32
SIZES = ((3, 5), (1, 1), (2, 90), (90, 2), (40, 40), (33, 400), (400, 33), (120, 200), (201, 119), (64, 64), (17, 31))
KINDS = ("noise", "black and white", "soft")


def picture(size: tuple[int, int], kind: str, seed: int = 0) -> U8:
    (h, w), random = size, np.random.default_rng(seed)
    if kind == "noise":
        return random.integers(0, 256, (3, h, w), dtype=np.uint8)
    if kind == "black and white":
        return random.integers(0, 2, (3, h, w), dtype=np.uint8) * np.uint8(255)
    coarse = torch.from_numpy(random.uniform(0, 255, (1, 3, h // 16 + 2, w // 16 + 2)))
    fine = torch.nn.functional.interpolate(coarse, (h, w), mode="bicubic")[0].numpy() + random.normal(0, 6, (3, h, w))
    return fine.round().clip(0, 255).astype(np.uint8)


def expected(frame: U8, view: Seen, side: int) -> Tensor:
    height, width, left, top, flip = view
    whole = torch.from_numpy(frame.copy())
    if whole.shape[1:] != (height, width):
        whole = resize(whole, [height, width], InterpolationMode.BICUBIC, antialias=True)
    cut: Tensor = whole[:, top : top + side, left : left + side]
    return cut.flip(-1) if flip else cut


def views(size: tuple[int, int], shorter: int, side: int, count: int = 6) -> list[Seen]:
    """All of the picture, the corners, and places between, of a picture whose shorter side becomes `shorter`."""
    random = np.random.default_rng(1)
    height, width = (max(shorter, round(x * shorter / min(size))) for x in size)
    some = [(random.integers(width - side + 1), random.integers(height - side + 1)) for _ in range(count)]
    corners = [(0, 0), (width - side, 0), (0, height - side), (width - side, height - side)]
    inside = [(height, width, int(left), int(top), i % 2) for i, (left, top) in enumerate(corners + some)]
    return [(side, side, 0, 0, 0), *inside]


@pytest.mark.parametrize("size", [*SIZES, (246, 328), (256, 341), (256, 455), (480, 270)])
@pytest.mark.parametrize("kind", KINDS)
def test_one_picture_is_level_for_level_what_torchvision_gives(size: tuple[int, int], kind: str) -> None:
    frame = picture(size, kind)
    for side, shorter in ((SIDE, 40), (SIDE, 32), (224, 246), (224, 256)):
        for view in views(size, shorter, side):
            height, width, left, top, flip = view
            got = cut_and_resized(frame, height, width, left, top, side, bool(flip))
            assert got.shape == (3, side, side)
            assert got.dtype == torch.uint8
            assert torch.equal(got, expected(frame, view, side)), view


def test_one_picture_may_lie_in_memory_in_any_way() -> None:
    frame = picture((120, 200), "noise")
    beside = np.ascontiguousarray(frame.transpose(1, 2, 0)).transpose(2, 0, 1)
    turned = np.ascontiguousarray(frame[:, ::-1, ::-1])[:, ::-1, ::-1]
    part = np.concatenate([frame, frame], axis=2)[:, :, :200]
    for same in (beside, turned, part):
        assert np.array_equal(same, frame)
        got = cut_and_resized(same, 48, 80, 11, 3, SIDE, True)
        assert torch.equal(got, expected(frame, (48, 80, 11, 3, 1), SIDE))


def test_one_picture_is_left_as_it_was() -> None:
    frame = picture((64, 64), "noise")
    before = frame.copy()
    for height in (64, 40):
        cut_and_resized(frame, height, height, 2, 2, SIDE, True)
    assert np.array_equal(frame, before)


def test_a_side_that_is_as_long_as_what_is_seen_of_it_is_resized_all_the_same() -> None:
    for size, view, side in (((33, 80), (36, 87, 40, 1, 1), 32), ((80, 33), (87, 36, 1, 40, 0), 32),
                             ((40, 40), (44, 44, 0, 4, 0), 36), ((40, 40), (46, 46, 6, 3, 1), 34)):  # fmt: skip
        frame = picture(size, "noise")
        assert torch.equal(cut_and_resized(frame, *view[:4], side, bool(view[4])), expected(frame, view, side))
