"""The localizer: answers in the picture's own pixels, with the numbers that evaluation gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import make
import numpy as np
import pytest

import earsight
from earsight.checkpoint import load_weights
from earsight.data.sets import toybox
from earsight.errors import CheckpointError, UsageError
from earsight.localize import Localizer
from earsight.localize.notebook import localization_html
from earsight.localize.regions import region, spread
from earsight.model_evaluation import EvalSettings, evaluate
from earsight.types import MapArrays

SOUND = make.chirp(1.0, 8000)


def photo(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_the_public_name_is_the_localizer() -> None:
    assert earsight.Localizer is Localizer


@pytest.mark.parametrize(("height", "width"), [(48, 64), (301, 97), (32, 32), (5, 1000)])
def test_answers_have_the_size_of_the_picture(trusting: Localizer, height: int, width: int) -> None:
    answer = trusting.localize(photo(height, width), SOUND, 8000)
    assert answer.map.shape == answer.mask.shape == (height, width)
    assert answer.map.dtype == np.float32
    assert answer.mask.dtype == bool
    assert answer.visible is True
    assert answer.verdict == "visible source"
    for x0, y0, x1, y1 in answer.boxes:
        assert 0 <= x0 < x1 <= width
        assert 0 <= y0 < y1 <= height


def test_the_confidence_does_not_depend_on_the_size_of_the_picture(localizer: Localizer) -> None:
    small = np.full((32, 32, 3), 90, np.uint8)
    large = np.full((300, 200, 3), 90, np.uint8)
    one, other = (localizer.localize(picture, SOUND, 8000).confidence for picture in (small, large))
    assert one == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("protocol", ["exact", "official", "paper"])
def test_the_confidence_is_the_one_that_evaluation_gives(make_weights: Callable[..., Path], protocol: str) -> None:
    weights = make_weights(0.5, protocol)
    localizer = Localizer.load(weights, "cpu")
    clips = earsight.data.clips.Limited(toybox.open("extended"), 6)
    records = evaluate(load_weights(weights).model, clips, localizer.protocol, EvalSettings(batch_size=4)).records
    for i in range(len(clips)):
        clip = clips.read(i, 8000, 1.0)
        answer = localizer.localize(clip.frame, clip.waveform, clip.rate, time=clip.time)
        assert answer.confidence == pytest.approx(records.confidence[i], abs=1e-6)
        assert answer.visible == (answer.confidence >= 0.5)


def test_the_verdict_follows_the_calibrated_threshold(make_weights: Callable[..., Path], localizer: Localizer) -> None:
    free = localizer.localize(photo(40, 40), SOUND, 8000)
    assert free.visible is None
    assert free.verdict == "not calibrated"
    assert free.boxes
    at = Localizer.load(make_weights(free.confidence), "cpu").localize(photo(40, 40), SOUND, 8000)
    above = Localizer.load(make_weights(np.nextafter(free.confidence, 9)), "cpu").localize(photo(40, 40), SOUND, 8000)
    assert at.visible is True
    assert at.boxes == free.boxes
    assert above.visible is False
    assert above.boxes == ()


@pytest.mark.parametrize("threshold", [None, -9.0])
def test_silence_has_no_visible_source_however_sure_the_model_is(
    make_weights: Callable[..., Path], threshold: float | None
) -> None:
    sure = Localizer.load(make_weights(threshold), "cpu")
    answer, other = sure.localize_many([photo(40, 40)] * 2, [SOUND * 1e-6, SOUND], 8000)
    assert (answer.silent, answer.visible, answer.verdict, answer.boxes) == (True, False, "silent", ())
    assert repr(answer).startswith("Localization(silent, 40 x 40")
    assert "confidence" not in localization_html(answer)
    assert not other.silent
    assert other.boxes


def test_many_answers_are_those_of_one_at_a_time(localizer: Localizer) -> None:
    sizes = [(40, 40), (64, 48), (30, 90), (41, 41), (50, 20)]
    images = [photo(*size, seed=i) for i, size in enumerate(sizes)]
    sounds = [SOUND * (i + 1) / 5 for i in range(5)]
    alone = [localizer.localize(i, s, 8000) for i, s in zip(images, sounds, strict=True)]
    for batch_size in (1, 2, 5):
        many = localizer.localize_many(images, sounds, 8000, batch_size=batch_size)
        for one, other in zip(alone, many, strict=True):
            assert one.confidence == pytest.approx(other.confidence, abs=1e-5)
            np.testing.assert_allclose(one.map, other.map, atol=1e-5)


def test_files_and_arrays_give_the_same_answer(localizer: Localizer, tmp_path: Path) -> None:
    image = make.picture(tmp_path / "a.png", photo(40, 60))
    sound = make.wav(tmp_path / "a.wav", make.chirp(3.0), make.RATE, tag=3)
    files = localizer.localize(image, sound)
    arrays = localizer.localize(photo(40, 60), make.chirp(3.0), make.RATE)
    np.testing.assert_allclose(files.map, arrays.map, atol=1e-5)


def test_lists_of_different_lengths_are_refused(localizer: Localizer) -> None:
    with pytest.raises(UsageError, match="Expected as many sounds as pictures, but got 0 for 1"):
        localizer.localize_many([photo(9, 9)], [], 8000)
    with pytest.raises(UsageError, match="Expected as many times"):
        localizer.localize_many([photo(9, 9)], [SOUND], 8000, times=[])
    with pytest.raises(UsageError, match="a batch_size of at least 1"):
        localizer.localize_many([], [], 8000, batch_size=0)


def test_missing_weights_and_unknown_devices_are_refused(tmp_path: Path, make_weights: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match="nothing at"):
        Localizer.load(tmp_path / "none.safetensors")
    with pytest.raises(UsageError, match="Expected device"):
        Localizer.load(make_weights(), "abacus")


def test_boxes_go_around_the_peak_and_not_around_half_of_the_picture(trusting: Localizer) -> None:
    dense = np.zeros((1, 8, 8), np.float32)
    dense[0, 2, 5] = 1.0
    answer = trusting.answer(MapArrays(dense, dense, (-1.0, 1.0)), np.zeros((3, 80, 160), np.uint8))
    assert answer.mask.mean() >= 0.5
    ((x0, y0, x1, y1),) = answer.boxes
    assert x0 < 110 < x1
    assert y0 < 25 < y1
    assert (x1 - x0) * (y1 - y0) < 0.05 * 80 * 160


def test_a_flat_map_has_no_region() -> None:
    flat = np.full((4, 5), 0.3, np.float32)
    assert not region(flat, *spread(flat)).any()
