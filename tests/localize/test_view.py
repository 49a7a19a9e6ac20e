"""Moments as they are shown: maps at any size, and what lies between two moments."""

from __future__ import annotations

import numpy as np
import pytest

from earsight import protocols
from earsight.localize.regions import source_boxes
from earsight.localize.smoothing import Answer
from earsight.localize.view import View, drawn

EXACT = protocols.get("exact")


def view(score: np.ndarray, height: int, width: int, verdict: str = "visible source") -> View:
    answer = Answer(1.5, score.astype(np.float32), 0.6, 0.5, verdict == "silent", verdict)
    return View.of_answer(answer, EXACT, height, width)


def test_the_peak_and_the_boxes_are_in_the_pictures_own_pixels() -> None:
    score = np.zeros((8, 8))
    score[2, 5] = 1.0
    seen = view(score, 80, 160)
    assert seen.moment.peak == pytest.approx((110, 25), abs=10)
    ((x0, y0, x1, y1),) = seen.moment.boxes
    assert x0 < 110 < x1
    assert y0 < 25 < y1
    assert seen.strength == 1


def test_what_is_unseen_or_silent_has_no_boxes_and_little_heat_or_none() -> None:
    score = np.eye(8)
    unseen = view(score, 40, 40, "no visible source")
    silent = view(score, 40, 40, "silent")
    assert unseen.moment.boxes == silent.moment.boxes == ()
    assert 0 < unseen.strength < 0.5
    assert silent.strength == 0
    picture = np.full((3, 40, 40), 90, np.uint8)
    np.testing.assert_array_equal(drawn(picture, silent), picture)


def test_levels_go_from_nowhere_special_to_the_peak_and_over_half_inside_the_boxes() -> None:
    score = np.zeros((6, 6))
    score[1, 1], score[4, 3] = 1.0, 0.8
    seen = view(score, 60, 90)
    levels = seen.levels(60, 90)
    assert levels.max() >= 0.98
    assert (levels <= 0).mean() > 0.3
    inside = np.zeros(levels.shape, bool)
    for x0, y0, x1, y1 in seen.moment.boxes:
        inside[y0:y1, x0:x1] = True
    assert (levels[~inside] <= 0.5).all()


@pytest.mark.parametrize("seed", range(20))
def test_boxes_that_are_drawn_are_those_of_the_answer(seed: int) -> None:
    """The level of a box is the middle between median and maximum, in the map and in what is drawn of it."""
    seen = view(np.random.default_rng(seed).random((7, 9)), 90, 120)
    assert source_boxes(seen.levels(90, 120), 0, 1) == seen.moment.boxes


def test_a_flat_map_has_no_heat() -> None:
    assert not view(np.full((4, 4), 0.3), 20, 20).levels(20, 20).any()


def test_between_two_moments_everything_is_between_and_the_words_are_the_nearer_ones() -> None:
    a = view(np.eye(4), 20, 20)
    b = view(np.eye(4)[::-1], 20, 20, "silent")
    assert a.towards(b, 0.0) is a
    near, far = a.towards(b, 0.25), a.towards(b, 0.75)
    assert near.moment is a.moment
    assert far.moment is b.moment
    np.testing.assert_allclose(near.score, 0.75 * a.score + 0.25 * b.score, atol=1e-6)
    assert near.strength == pytest.approx(0.75)


def test_a_caption_keeps_the_size_and_is_left_out_where_it_does_not_fit() -> None:
    seen = view(np.eye(4), 240, 320)
    for size, there in (((3, 240, 320), True), ((3, 16, 16), False)):
        picture = np.full(size, 200, np.uint8)
        plain, captioned = drawn(picture, seen), drawn(picture, seen, caption=())
        assert captioned.shape == picture.shape
        changed = np.nonzero((plain != captioned).any(axis=(0, 2)))[0]
        assert bool(len(changed)) == there
        assert not there or (changed.min() > 215 and changed.max() == 239)


def test_notes_stand_over_the_verdict() -> None:
    picture, seen = np.full((3, 200, 300), 90, np.uint8), view(np.eye(4), 200, 300, "silent")
    plain, noted = drawn(picture, seen, caption=()), drawn(picture, seen, caption=["these weights know toys only"])
    bar = int(np.nonzero((plain != picture).any(axis=(0, 2)))[0].min())
    np.testing.assert_array_equal(noted[:, bar:], plain[:, bar:])
    above = np.nonzero((noted[:, :bar] != picture[:, :bar]).any(axis=(0, 2)))[0]
    assert above.min() > 150
    assert above.max() == bar - 1
