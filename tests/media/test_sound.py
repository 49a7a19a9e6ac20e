"""Sound of every container, layout and sample format, in time to the sample."""

from __future__ import annotations

from pathlib import Path

import make
import numpy as np
import pytest

from earsight.media.read import probe, read_audio
from earsight.media.sound import resampled

VIDEOS = list(make.VIDEO_CODECS)
SOUNDS = list(make.SOUND_FILES)


def delay(wanted: np.ndarray, got: np.ndarray, most: int = 700) -> tuple[int, float]:
    """By how many samples `got` lags, and how alike the two are then."""
    best = make.lag(wanted, got, most)
    size = min(len(wanted), len(got)) - 2 * most
    return best, float(np.corrcoef(wanted[most : most + size], got[most + best : most + best + size])[0, 1])


@pytest.mark.parametrize("suffix", [*VIDEOS, *SOUNDS])
def test_whole_sound_is_in_time(videos: dict[str, Path], sounds: dict[str, Path], suffix: str) -> None:
    got = read_audio((videos | sounds)[suffix], 22050)
    assert got.dtype == np.float32
    shift, likeness = delay(make.chirp(4, 22050), got)
    # AVI has no place to say how much lead-in the MP3 encoder added (25 ms).
    assert abs(shift) <= (600 if suffix == ".avi" else 1)
    assert likeness > 0.98
    assert abs(len(got) - 4 * 22050) < 0.06 * 22050


@pytest.mark.parametrize("suffix", [*VIDEOS, *SOUNDS])
@pytest.mark.parametrize("start", [0.3, 1.7, 2.9])
def test_a_span_of_sound_equals_that_part_of_the_whole(
    videos: dict[str, Path], sounds: dict[str, Path], suffix: str, start: float
) -> None:
    path = (videos | sounds)[suffix]
    whole, span = read_audio(path, 16000), read_audio(path, 16000, start, 0.5)
    assert len(span) == 8000
    wanted = whole[round(start * 16000) :][:8000]
    if suffix in (".mkv", ".webm"):  # these store times in milliseconds
        shift, likeness = delay(wanted, span, 40)
        assert abs(shift) <= 16 * 1.5
        assert likeness > 0.98
    else:
        np.testing.assert_allclose(span, wanted, atol=2e-3)


def test_sound_resampled_between_awkward_rates_is_in_phase(tmp_path: Path) -> None:
    path = make.sound_file(tmp_path / "a.wav", make.chirp(3, 44101), 44101)
    for start in (0.0, 1.23):
        got = read_audio(path, 16000, start, 1.0)
        wanted = make.chirp(3, 16000)[round(start * 16000) :][:16000]
        np.testing.assert_allclose(got[50:], wanted[50:], atol=2e-3)


def test_a_span_past_the_end_is_shorter_or_empty(sounds: dict[str, Path]) -> None:
    assert len(read_audio(sounds[".wav"], 16000, 3.5, 3.0)) == 8000
    assert len(read_audio(sounds[".wav"], 16000, 9.0, 3.0)) == 0
    assert len(read_audio(sounds[".mp3"], 16000, 9.0)) == 0


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_sound_that_sets_in_late_is_silent_before(tmp_path: Path, suffix: str) -> None:
    frames = [make.gray_frame(50)] * 75
    path = make.video(tmp_path / f"late{suffix}", frames, [k / 25 for k in range(75)], make.chirp(2), sound_start=1.0)
    got = read_audio(path, 22050)
    assert np.abs(got[: round(0.95 * 22050)]).max() == 0
    shift, likeness = delay(make.chirp(2, 22050), got[22050:])
    assert abs(shift) <= 25
    assert likeness > 0.98
    np.testing.assert_allclose(read_audio(path, 22050, 0.5, 1.0)[:10000], 0, atol=0.02)


@pytest.mark.parametrize(("channels", "layout"), [(2, "stereo"), (6, "5.1"), (8, "7.1")])
def test_all_channels_weigh_the_same(tmp_path: Path, channels: int, layout: str) -> None:
    levels = np.linspace(-0.5, 0.8, channels, dtype=np.float32)
    path = make.sound_file(tmp_path / "a.wav", np.repeat(levels[:, None], 8000, 1), 16000, layout)
    np.testing.assert_allclose(read_audio(path, 16000), levels.mean(), atol=1e-4)


@pytest.mark.parametrize("suffix", [".m4a", ".flac", ".ogg"])
def test_eight_channels_are_mixed(tmp_path: Path, suffix: str) -> None:
    tone = 0.5 * np.sin(np.arange(48000) / 40)
    data = np.outer(np.linspace(0.2, 1.0, 8), tone).astype(np.float32)
    path = make.sound_file(tmp_path / f"a{suffix}", data, 48000, "7.1")
    assert probe(path).channels == 8
    shift, likeness = delay(data.mean(axis=0), read_audio(path, 48000), 30)
    assert abs(shift) <= 1
    assert likeness > 0.99


@pytest.mark.parametrize("channels", [3, 5, 17])
def test_channels_without_a_known_layout_are_mixed(tmp_path: Path, channels: int) -> None:
    samples = np.tile(np.arange(channels, dtype=np.int16) * 1000, 500)
    got = read_audio(make.wav(tmp_path / "a.wav", samples, 8000, channels), 8000)
    np.testing.assert_allclose(got, np.full(500, (channels - 1) * 500 / 32768), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float32, np.float64])
def test_every_sample_format_has_full_scale_at_one(tmp_path: Path, dtype: type) -> None:
    wave = 0.5 * np.sin(np.arange(2000) / 20)
    if dtype is np.uint8:
        samples = np.round(wave * 128 + 128).astype(dtype)
    else:
        samples = (wave * (np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 1)).astype(dtype)
    path = make.wav(tmp_path / "a.wav", samples, 8000, tag=3 if np.issubdtype(dtype, np.floating) else 1)
    np.testing.assert_allclose(read_audio(path, 8000), wave, atol=0.005)


def test_loud_float_sound_is_clipped(tmp_path: Path) -> None:
    path = make.wav(tmp_path / "a.wav", np.full(4000, 1e30, np.float32), tag=3)
    assert read_audio(path, 22050).max() == 1.0


def test_one_sample_of_sound_is_sound(tmp_path: Path) -> None:
    path = make.wav(tmp_path / "a.wav", np.array([16384], np.int16))
    assert read_audio(path, 44100).tolist() == [0.5]
    assert len(read_audio(path, 22050)) == 1


def test_resampling_keeps_a_tone_and_removes_what_the_new_rate_cannot_hold() -> None:
    t = np.arange(44100) / 44100
    low, high = (np.sin(2 * np.pi * f * t).astype(np.float32) for f in (440, 9000))
    at = np.arange(8000) / 8000
    kept = resampled(low, 44100, 8000)[200:-200]
    np.testing.assert_allclose(kept, np.sin(2 * np.pi * 440 * at)[200:-200], atol=0.01)
    assert np.abs(resampled(high, 44100, 8000)[200:-200]).max() < 0.01


@pytest.mark.parametrize("count", [1, 100, 8000, 8001, 20000])
def test_resampled_sound_lasts_as_long_as_it_did(count: int) -> None:
    assert len(resampled(np.ones(count, np.float32), 8000, 22050)) == -(-count * 22050 // 8000)
