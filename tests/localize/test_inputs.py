"""Pictures and sounds in the forms people have them."""

from __future__ import annotations

from pathlib import Path

import make
import numpy as np
import pytest
import torch
from PIL import Image

from earsight.config import Inputs
from earsight.data.clips import fit_waveform
from earsight.errors import MediaError, UsageError
from earsight.localize import inputs
from earsight.localize.inputs import AudioWindows, is_silent, loud_time_of, picture_of, sound_of
from earsight.media.read import read_audio, read_image

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)


def test_every_form_of_a_picture_is_the_same_picture(tmp_path: Path) -> None:
    pixels = make.corners()
    expected = pixels.transpose(2, 0, 1)
    path = make.picture(tmp_path / "a.png", pixels)
    forms = [path, str(path), Image.fromarray(pixels), pixels, expected, torch.from_numpy(pixels), pixels.tolist()]
    forms[-1] = np.asarray(forms[-1], np.uint8)
    for form in forms:
        np.testing.assert_array_equal(picture_of(form), expected)


def test_a_pil_image_is_turned_and_laid_on_white_as_its_file_is(tmp_path: Path) -> None:
    pixels = np.dstack([make.corners(), np.full((48, 64), 100, np.uint8)])
    exif = Image.Exif()
    exif[0x112] = 6
    path = make.picture(tmp_path / "a.png", pixels, exif=exif)
    with Image.open(path) as image:
        np.testing.assert_array_equal(picture_of(image), read_image(path))


@pytest.mark.parametrize(
    "bad",
    [np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8), np.zeros((0, 4, 3), np.uint8), 7],
)
def test_what_is_no_picture_is_refused(bad: object) -> None:
    with pytest.raises(UsageError, match=r"Expected a picture .*, but got .*\. Scale values to 0\.\.255"):
        picture_of(bad)


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000])
def test_an_array_is_heard_as_the_file_that_holds_it(tmp_path: Path, rate: int) -> None:
    whole = (make.chirp(1.0, rate) * 32767).astype(np.int16)
    path = make.wav(tmp_path / "a.wav", whole, rate)
    from_file = sound_of(path, None, INPUTS)
    np.testing.assert_allclose(sound_of(whole, rate, INPUTS), from_file, atol=1e-5)
    np.testing.assert_allclose(sound_of(whole / 32768, rate, INPUTS), from_file, atol=1e-5)
    np.testing.assert_allclose(sound_of(torch.from_numpy(whole), rate, INPUTS), from_file, atol=1e-5)
    assert from_file.shape == (8000,)
    assert from_file.dtype == np.float32


def test_channels_are_mixed() -> None:
    left = make.chirp(1.0, 8000)
    np.testing.assert_allclose(sound_of(np.stack([left, 0 * left]), 8000, INPUTS), left / 2, atol=1e-6)


def test_no_sound_is_silence_and_short_sound_is_repeated() -> None:
    assert not sound_of(np.zeros(0), 44100, INPUTS).any()
    heard = sound_of(make.chirp(0.25, 8000), 8000, INPUTS)
    np.testing.assert_array_equal(heard[:2000], heard[2000:4000])


@pytest.mark.parametrize(
    ("bad", "rate", "message"),
    [
        (np.full(100, 30000.0), 8000, r"float waveform in \[-1, 1\], but got a peak of 30000\. Divide it by its full"),
        (np.zeros((100, 2)), 8000, r"\(channels, S\), but got \(100, 2\)\. Transpose"),
        (np.zeros(9, np.int64), 8000, "of int16, but got int64"),
        (np.array([0.0, np.nan]), 8000, "finite numbers, but got NaN"),
        (np.zeros(9), None, "Expected the rate .* but got None"),
        (np.zeros(9), 0, "Expected the rate .* but got 0"),
    ],
)
def test_what_is_no_waveform_is_refused(bad: np.ndarray, rate: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sound_of(bad, rate, INPUTS)


def test_a_time_before_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="a time of at least 0"):
        sound_of(np.zeros(9), 8000, INPUTS, -1.0)


def test_a_picture_file_as_sound_is_refused(tmp_path: Path) -> None:
    path = make.picture(tmp_path / "a.png", make.corners())
    with pytest.raises(MediaError, match="has no audio track"):
        sound_of(path, None, INPUTS)


def test_without_a_time_the_loud_stretch_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = np.concatenate([np.zeros(24000), make.chirp(1.0, 8000), np.zeros(40000)]).astype(np.float32)
    path = make.wav(tmp_path / "a.wav", sound, 8000, tag=3)
    np.testing.assert_allclose(sound_of(sound, 8000, INPUTS), make.chirp(1.0, 8000), atol=1e-6)
    np.testing.assert_allclose(sound_of(path, None, INPUTS), make.chirp(1.0, 8000), atol=1e-6)
    assert loud_time_of(path, INPUTS) == 3.5
    monkeypatch.setattr(inputs, "CHUNK", 0.7)  # read in pieces, the same place is found
    assert loud_time_of(path, INPUTS) == 3.5


def test_a_steady_sound_is_heard_in_its_middle() -> None:
    sound = np.sin(np.arange(5 * 8000) * 0.3).astype(np.float32)
    np.testing.assert_array_equal(sound_of(sound, 8000, INPUTS), sound[16000:24000])


def test_a_time_says_what_is_heard(tmp_path: Path) -> None:
    sound = make.chirp(5.0, 8000)
    path = make.wav(tmp_path / "a.wav", sound, 8000, tag=3)
    for time, first in ((0.0, 0), (2.0, 12000), (4.99, 32000)):
        np.testing.assert_allclose(sound_of(sound, 8000, INPUTS, time), sound[first : first + 8000], atol=1e-6)
        np.testing.assert_allclose(sound_of(path, None, INPUTS, time), sound[first : first + 8000], atol=1e-6)


def test_a_time_past_the_end_of_a_sound_is_refused(tmp_path: Path) -> None:
    sound = make.chirp(5.0, 8000)
    told = r"plays for 5 s, but the start is at 9 s\. Start earlier\."
    with pytest.raises(MediaError, match=f"the waveform: {told}"):
        sound_of(sound, 8000, INPUTS, 9.0)
    with pytest.raises(MediaError, match=rf"a\.wav: {told}"):
        sound_of(make.wav(tmp_path / "a.wav", sound, 8000, tag=3), None, INPUTS, 9.0)
    make.steps(tmp_path / "b.mkv", 2.0)
    endless = make.without_length(tmp_path / "b.mkv", tmp_path / "endless.mkv")
    with pytest.raises(
        MediaError, match=r"endless\.mkv: plays for 2\.\d+ s, but the start is at 9 s\. Start earlier\."
    ):
        sound_of(endless, None, INPUTS, 9.0)
    assert len(sound_of(endless, None, INPUTS, 1.9)) == 8000


def test_chunks_join_to_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make.sound_file(tmp_path / "a.m4a", make.chirp(4.3))
    monkeypatch.setattr(inputs, "CHUNK", 1.0)
    joined = np.concatenate(list(inputs.sound_chunks(path, 8000)))
    np.testing.assert_allclose(joined, read_audio(path, 8000), atol=2e-3)


def test_silence_is_what_stays_below_a_thousandth() -> None:
    assert is_silent(np.zeros(0, np.float32))
    assert is_silent(np.full(10, 0.0009, np.float32))
    assert not is_silent(np.full(10, -0.0011, np.float32))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "CHUNK", 1.0)


@pytest.mark.parametrize("start", [0.0, 3.3, 5.9])
@pytest.mark.usefixtures("small_chunks")
def test_windows_are_those_of_the_whole_sound(tmp_path: Path, start: float) -> None:
    sound = make.chirp(6.0, 8000)
    path = make.wav(tmp_path / "a.wav", sound, 8000, tag=3)
    heard = AudioWindows(path, 8000, 1.5, 6.0, start)
    for time in np.arange(start, 6.2, 0.17):
        expected = fit_waveform(sound, 8000, time, 12000)
        np.testing.assert_allclose(heard.around(time), expected, atol=1e-6, err_msg=f"at {time}")


def test_sound_shorter_than_the_window_is_repeated(tmp_path: Path) -> None:
    sound = make.chirp(0.5, 8000)
    heard = AudioWindows(make.wav(tmp_path / "a.wav", sound, 8000, tag=3), 8000, 1.25, 0.5)
    np.testing.assert_allclose(heard.around(0.2), np.tile(sound, 3)[:10000], atol=1e-6)
    np.testing.assert_allclose(heard.around(0.4), np.tile(sound, 3)[:10000], atol=1e-6)


@pytest.mark.usefixtures("small_chunks")
def test_sound_that_ends_long_before_the_pictures_is_followed_by_silence(tmp_path: Path) -> None:
    sound = make.chirp(2.0, 8000)
    path = make.wav(tmp_path / "a.wav", sound, 8000, tag=3)
    heard = AudioWindows(path, 8000, 1.0, 7.0)
    np.testing.assert_allclose(heard.around(1.9)[:4800], sound[-4800:], atol=1e-6)
    assert not heard.around(3.0).any()
    assert not heard.around(7.0).any()
    late = AudioWindows(path, 8000, 1.0, 7.0, start=6.0)
    assert not late.around(6.0).any()


@pytest.mark.usefixtures("small_chunks")
def test_little_is_held_however_long_the_sound_is(tmp_path: Path) -> None:
    path = make.wav(tmp_path / "a.wav", np.ones(8000 * 30, np.int16), 8000)
    heard = AudioWindows(path, 8000, 0.5, 30.0)
    most = max(len(heard._held) for time in np.arange(0, 30, 0.2) if len(heard.around(time)))
    assert most <= 3 * 8000
