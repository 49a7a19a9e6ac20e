"""The values that cross borders check their shapes once, when they are made."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from earsight.errors import EarsightError, MediaError
from earsight.localize import Localization
from earsight.types import Batch, Clip, Maps, Row

FRAME = np.zeros((3, 4, 5), dtype=np.uint8)
WAVE = np.zeros(8, dtype=np.float32)


def test_a_clip_may_be_of_any_shape_and_without_sound() -> None:
    clip = Clip("a", FRAME, WAVE[:0], 8000, 0.0)
    assert clip.frame.shape == (3, 4, 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frame": FRAME.astype(np.float32)}, r"Expected frame uint8 \(3, H, W\), but got"),
        ({"frame": FRAME.transpose(1, 2, 0)}, r"Expected frame uint8 \(3, H, W\), but got"),
        ({"frame": FRAME[:, :0]}, r"Expected frame uint8 \(3, H, W\), but got"),
        ({"waveform": WAVE.astype(np.float64)}, r"Expected waveform float32 or int16 \(S,\), but got"),
        ({"waveform": WAVE[None]}, r"Expected waveform float32 or int16 \(S,\), but got"),
        ({"rate": 0}, "Expected a positive rate, but got 0"),
    ],
)
def test_a_clip_of_the_wrong_shape_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Clip(**{"id": "a", "frame": FRAME, "waveform": WAVE, "rate": 8000, "time": 0.0, **changes})


def test_a_row_is_positive_unless_it_says_otherwise() -> None:
    assert Row("a").positive
    assert not Row("a", kind="easy").positive


def good_batch() -> dict[str, Any]:
    return {
        "frames": torch.zeros(2, 3, 4, 4, dtype=torch.uint8),
        "waveforms": torch.zeros(2, 9),
        "index": torch.arange(2),
        "rows": (Row("a"), Row("b")),
        "truth": torch.zeros(2, 4, 4),
        "supervised": torch.ones(2, dtype=torch.bool),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frames": torch.zeros(3, 3, 4, 4)}, r"Expected frames \(2, 3, S, S\), but got \(3, 3, 4, 4\)"),
        ({"frames": torch.zeros(2, 3, 4, 5)}, r"Expected frames \(2, 3, S, S\), but got \(2, 3, 4, 5\)"),
        ({"waveforms": torch.zeros(2, 1, 9)}, r"Expected waveforms \(2, N\), but got \(2, 1, 9\)"),
        ({"index": torch.zeros(2, 1)}, r"Expected index \(2,\), but got \(2, 1\)"),
        ({"rows": (Row("a"),)}, "Expected 2 rows or none, but got 1"),
        ({"neighbour_pictures": torch.zeros(2, 3, 5, 5)}, r"Expected neighbour_pictures \(2, 3, 4, 4\), but got"),
        ({"neighbour_sounds": torch.zeros(2, 8)}, r"Expected neighbour_sounds \(2, 9\), but got \(2, 8\)"),
        ({"truth": torch.zeros(2, 5, 4)}, r"Expected truth \(2, 4, 4\), but got \(2, 5, 4\)"),
        ({"supervised": torch.zeros(2, 1)}, r"Expected supervised \(2,\), but got \(2, 1\)"),
    ],
)
def test_a_batch_of_the_wrong_shape_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Batch(**{**good_batch(), **changes})


def test_a_batch_moves_as_a_whole() -> None:
    batch = Batch(**good_batch())
    moved = batch.to("meta")
    assert len(moved) == len(batch) == 2
    assert moved.rows == batch.rows
    assert moved.ids == ("a", "b")
    tensors = (moved.frames, moved.waveforms, moved.index, moved.truth, moved.supervised)
    assert all(x is not None and x.is_meta for x in tensors)
    bare = Batch(**{**good_batch(), "truth": None, "supervised": None}).to("cpu")
    assert bare.truth is None
    assert bare.supervised is None


@pytest.mark.parametrize(
    ("native", "dense", "confidence", "message"),
    [
        ((2, 7, 7), (2, 49), None, r"Expected maps \(B, h, w\), but got"),
        ((1, 7, 7), (2, 7, 7), None, r"Expected as many native maps as dense ones \(2\), but got 1"),
        ((2, 7, 7), (2, 7, 7), (2, 1), r"Expected confidence \(2,\), but got \(2, 1\)"),
    ],
)
def test_maps_of_the_wrong_shape_are_refused(
    native: tuple[int, ...], dense: tuple[int, ...], confidence: tuple[int, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Maps(torch.zeros(native), torch.zeros(dense), None, None if confidence is None else torch.zeros(confidence))


@pytest.mark.parametrize(
    ("threshold", "silent", "verdict"),
    [
        (None, False, "not calibrated"),
        (0.4, False, "visible source"),
        (0.6, False, "no visible source"),
        (0.4, True, "silent"),
    ],
)
def test_a_verdict_is_said_in_words(threshold: float | None, silent: bool, verdict: str) -> None:
    score, mask = np.zeros((2, 2), np.float32), np.zeros((2, 2), np.bool_)
    answer = Localization(score, mask, (), 0.5, threshold, silent, picture=np.zeros((3, 2, 2), np.uint8))
    assert answer.verdict == verdict


def test_a_media_error_names_the_file_and_crosses_process_borders() -> None:
    error = MediaError("a.mp4", "has no sound.", "Give another.")
    assert str(error) == "a.mp4: has no sound. Give another."
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, MediaError)
    assert isinstance(again, EarsightError)
    assert (str(again), again.path, again.reason, again.advice) == (
        str(error),
        "a.mp4",
        "has no sound.",
        "Give another.",
    )
    assert str(MediaError("b.wav", "is empty.")) == "b.wav: is empty."


def test_bounds_of_one_map_are_those_of_both_names() -> None:
    one, other = torch.zeros(2, 7, 7), torch.ones(2, 7, 7)
    same = Maps(one, one, (-1.0, 1.0))
    assert same.native_bounds == (-1.0, 1.0)
    assert Maps(other, one, (-1.0, 1.0)).native_bounds is None
    two = Maps(other, one, (-1.0, 1.0), native_bounds=(0.0, 2.0))
    arrays = two.arrays()
    assert arrays.which("dense") == (arrays.dense, (-1.0, 1.0))
    assert arrays.which("native") == (arrays.native, (0.0, 2.0))
    assert (arrays.native == 1).all()


def test_maps_change_as_a_whole_and_stay_one_where_they_are_one() -> None:
    one, other = torch.zeros(2, 7, 7), torch.ones(2, 5, 5)
    cut = Maps(other, one, None, torch.arange(2.0), (0.0, 2.0)).each(lambda x: x[1:])
    assert (cut.native.shape, cut.dense.shape) == ((1, 5, 5), (1, 7, 7))
    assert cut.confidence is not None
    assert cut.confidence.tolist() == [1.0]
    assert cut.native_bounds == (0.0, 2.0)
    same = Maps(one, one, (0.0, 1.0)).each(lambda x: x[1:])
    assert same.native is same.dense
