"""Sizes without torch: maps and pictures come out as torch makes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from earsight.config import Inputs
from earsight.data.view import eval_picture
from earsight.resampling import interpolation, squeezed


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(("count", "to"), [(7, 224), (14, 720), (1, 5), (2, 2), (20, 7), (64, 1), (3, 100)])
def test_maps_are_interpolated_as_torch_does(mode: str, corners: bool, count: int, to: int) -> None:
    eye = torch.eye(count)[None, None]
    wanted = interpolate(eye, size=(to, count), mode=mode, align_corners=corners)[0, 0].numpy()
    np.testing.assert_allclose(interpolation(count, to, mode, corners), wanted, atol=1e-5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("height", "width"),
    [(720, 1280), (64, 64), (64, 100), (100, 64), (30, 500), (65, 63), (1, 1), (2, 3), (1000, 37), (240, 320)],
)
@pytest.mark.parametrize("side", [64, 224])
@pytest.mark.parametrize("order", ["planes", "pixels"])
def test_a_model_without_torch_sees_the_same_levels(height: int, width: int, side: int, order: str) -> None:
    frame = np.random.default_rng(height).integers(0, 256, (3, height, width), dtype=np.uint8)
    if order == "pixels":  # as decoders leave them
        frame = np.ascontiguousarray(frame.transpose(1, 2, 0)).transpose(2, 0, 1)
    wanted = eval_picture(frame, Inputs(image_size=side, resize=side)).numpy()
    assert np.array_equal(squeezed(frame, side), wanted)


def test_sharp_edges_stay_within_the_levels() -> None:
    frame = np.zeros((3, 40, 40), np.uint8)
    frame[:, :, 20:] = 255
    wanted = eval_picture(frame, Inputs(image_size=100, resize=100)).numpy()
    assert np.array_equal(squeezed(frame, 100), wanted)
