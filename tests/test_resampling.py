"""Sizes without torch: maps and pictures come out as torch makes them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from earsight.config import Inputs
from earsight.data.view import eval_picture
from earsight.protocols import Protocol, get
from earsight.resampling import squeezed, upsampled


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(("count", "to"), [(7, 224), (14, 720), (1, 5), (2, 2), (20, 7), (64, 1), (3, 100), (100, 720)])
def test_maps_are_interpolated_as_torch_does(mode: Any, corners: bool, count: int, to: int) -> None:
    maps = np.random.default_rng(0).uniform(-1, 1, (20, count, count)).astype(np.float32)
    tensors = torch.from_numpy(maps)[:, None]
    protocol = Protocol("any", upsample=mode, align_corners=corners)
    # Whether the product in a place, scale * (i + 0.5) - 0.5, is rounded before the sum depends on the processor and on
    # the version of torch (2.15 rounds, 2.11 does not): half a spacing of the place, in two directions, between
    # neighbours that differ by at most 2.
    rounding = 2 * 2 * np.spacing(np.float32(count)) / 2
    for height, width in ((to, to), (to, count), (count, to)):
        single, double = (
            interpolate(x, size=(height, width), mode=mode, align_corners=corners)[:, 0].numpy()
            for x in (tensors, tensors.double())
        )
        ours = upsampled(maps, height, width, protocol)
        np.testing.assert_allclose(ours, single, rtol=0, atol=1e-6 + rounding)
        assert np.abs(ours - double).max() <= np.abs(single - double).max() + 1e-6


def test_maps_are_enlarged_alike_alone_and_together_and_on_every_processor() -> None:
    maps = (np.arange(50 * 49) * 7919 % 1000 / np.float32(1000)).astype(np.float32).reshape(50, 7, 7)
    seen = hashlib.sha256()
    for protocol in (get("exact"), get("official"), get("exact:upsample=bilinear")):
        large = upsampled(maps, 48, 60, protocol)
        room = np.full((50, 48, 60), np.nan, np.float32)
        assert upsampled(maps, 48, 60, protocol, out=room) is room
        assert np.array_equal(large, room)
        assert all(
            np.array_equal(upsampled(one, 48, 60, protocol), wanted) for one, wanted in zip(maps, large, strict=True)
        )
        seen.update(large.tobytes())
    assert seen.hexdigest()[:16] == "bda93362baf1f5de"


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
