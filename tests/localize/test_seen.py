"""Moments as they are shown: maps at any size, and what lies between two moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from earsight import protocols
from earsight.localize.seen import Seen
from earsight.localize.steady import Glance
from earsight.resampling import upsampled

EXACT = protocols.get("exact")


def glance(score: np.ndarray, verdict: str = "visible source", silent: bool = False) -> Glance:
    return Glance(1.5, score.astype(np.float32), 0.6, 0.5, silent, verdict)


def _by_torch(score: np.ndarray, height: int, width: int, how: protocols.Protocol) -> np.ndarray:
    given = torch.from_numpy(score)[None, None]
    return interpolate(given, (height, width), mode=how.upsample, align_corners=how.align_corners)[0, 0].numpy()


@pytest.mark.parametrize("protocol", ["exact", "official", "paper"])
@pytest.mark.parametrize(("height", "width"), [(224, 224), (48, 64), (5, 301), (7, 7), (3, 2)])
def test_maps_are_upsampled_as_protocols_do(protocol: str, height: int, width: int) -> None:
    score = np.random.default_rng(0).random((7, 9), dtype=np.float32)
    expected = _by_torch(score, height, width, protocols.get(protocol))
    np.testing.assert_allclose(upsampled(score, height, width, protocols.get(protocol)), expected, atol=1e-5)


def test_cubic_upsampling_works_too() -> None:
    cubic = replace(EXACT, upsample="bicubic")
    score = np.random.default_rng(0).random((7, 9), dtype=np.float32)
    expected = _by_torch(score, 40, 33, cubic)
    np.testing.assert_allclose(upsampled(score, 40, 33, cubic), expected, atol=1e-5)


def test_the_peak_and_the_boxes_are_in_the_pictures_own_pixels() -> None:
    score = np.zeros((8, 8))
    score[2, 5] = 1.0
    seen = Seen.of(glance(score), EXACT, 80, 160)
    assert seen.moment.peak == pytest.approx((110, 25), abs=10)
    ((x0, y0, x1, y1),) = seen.moment.boxes
    assert x0 < 110 < x1
    assert y0 < 25 < y1
    assert (seen.visible, seen.sounding) == (1, 1)


def test_what_is_unseen_or_silent_has_no_boxes() -> None:
    score = np.eye(8)
    unseen = Seen.of(glance(score, "no visible source"), EXACT, 40, 40)
    silent = Seen.of(glance(score, "silent", silent=True), EXACT, 40, 40)
    assert unseen.moment.boxes == silent.moment.boxes == ()
    assert (unseen.visible, unseen.sounding) == (0, 1)
    assert (silent.visible, silent.sounding) == (0, 0)


def test_heat_goes_from_nowhere_special_to_the_peak_and_over_half_inside_the_boxes() -> None:
    score = np.zeros((6, 6))
    score[1, 1], score[4, 3] = 1.0, 0.8
    seen = Seen.of(glance(score), EXACT, 60, 90)
    heat = seen.heat(60, 90, EXACT)
    assert heat.dtype == np.uint8
    assert heat.max() >= 250
    assert (heat == 0).mean() > 0.3
    inside = np.zeros(heat.shape, bool)
    for x0, y0, x1, y1 in seen.moment.boxes:
        inside[y0:y1, x0:x1] = True
    assert (heat[~inside] <= 128).all()


def test_a_flat_map_has_no_heat() -> None:
    assert not Seen.of(glance(np.full((4, 4), 0.3)), EXACT, 20, 20).heat(20, 20, EXACT).any()


def test_between_two_moments_everything_is_between_and_the_words_are_the_nearer_ones() -> None:
    a = Seen.of(glance(np.eye(4)), EXACT, 20, 20)
    b = Seen.of(glance(np.eye(4)[::-1], "no visible source"), EXACT, 20, 20)
    assert a.towards(b, 0.0) is a
    near, far = a.towards(b, 0.25), a.towards(b, 0.75)
    assert near.moment is a.moment
    assert far.moment is b.moment
    np.testing.assert_allclose(near.score, 0.75 * a.score + 0.25 * b.score, atol=1e-6)
    assert near.visible == pytest.approx(0.75)
