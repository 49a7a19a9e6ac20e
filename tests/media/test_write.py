"""Writing media: what is read back is what was written, at the right speed, with the sound in time."""

from __future__ import annotations

import wave
from fractions import Fraction
from pathlib import Path

import av
import make
import numpy as np
import pytest
from PIL import Image

from earsight.errors import MediaError, UsageError
from earsight.media.read import iter_frames, probe, read_audio
from earsight.media.write import VideoWriter, write_png, write_wav


def planar(picture: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(picture.transpose(2, 0, 1))


def write_steps(path: Path, count: int = 75, **more) -> Path:
    with VideoWriter(path, 64, 48, Fraction(25), **more) as out:
        for k in range(count):
            out.write(planar(make.gray_frame(20 + 2 * k)), more.get("start", 0.0) + k / 25)
    return path


def lag(wanted: np.ndarray, got: np.ndarray, rate: int, most: float = 0.1) -> float:
    """Seconds by which `got` comes too late."""
    return make.lag(wanted, got, round(most * rate)) / rate


def test_a_png_holds_the_same_pixels(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 37, 51), dtype=np.uint8)
    write_png(tmp_path / "a.png", pixels)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")).transpose(2, 0, 1), pixels)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_wav_holds_the_same_sound(tmp_path: Path) -> None:
    sound = make.chirp(0.5, 16000)
    write_wav(tmp_path / "a.wav", np.concatenate([sound, [3.0]]).astype(np.float32), 16000)
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
    got = read_audio(tmp_path / "a.wav", 16000)
    np.testing.assert_allclose(got[:-1], sound, atol=1e-4)
    assert got[-1] == pytest.approx(1, abs=1e-4)


def test_a_video_plays_at_the_right_speed(tmp_path: Path) -> None:
    path = write_steps(tmp_path / "a.mp4")
    info = probe(path)
    assert info.duration == pytest.approx(3.0, abs=0.05)
    assert float(info.fps or 0) == pytest.approx(25, rel=0.01)
    assert not info.has_audio
    got = list(iter_frames(path))
    assert [time for time, _ in got] == pytest.approx([k / 25 for k in range(75)])
    assert max(abs(frame.mean() - 20 - 2 * k) for k, (_, frame) in enumerate(got)) < 2.5


def test_variable_times_and_broadcast_rates_are_kept(tmp_path: Path) -> None:
    for name, times in {"vfr": [0.0, 0.1, 0.15, 1.5, 1.6, 3.0], "film": [k * 1001 / 24000 for k in range(30)]}.items():
        with VideoWriter(tmp_path / f"{name}.mp4", 64, 48, Fraction(24000, 1001)) as out:
            for k, time in enumerate(times):
                out.write(planar(make.gray_frame(20 + 5 * k)), time)
        assert [time for time, _ in iter_frames(tmp_path / f"{name}.mp4")] == pytest.approx(times, abs=1e-5)


def test_colours_are_kept(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", 64, 48, Fraction(25)) as out:
        for k in range(3):
            out.write(planar(make.corners()), k / 25)
    _, frame = next(iter_frames(tmp_path / "a.mp4"))
    for y, x in [(12, 16), (12, 48), (36, 16), (36, 48)]:
        assert np.abs(frame[:, y, x].astype(int) - make.corners()[y, x]).max() < 12


@pytest.mark.parametrize(("width", "height"), [(63, 48), (64, 47), (1, 1), (33, 17)])
def test_odd_sizes_get_one_more_pixel(tmp_path: Path, width: int, height: int) -> None:
    with VideoWriter(tmp_path / "a.mp4", width, height, Fraction(25)) as out:
        out.write(planar(make.gray_frame(100, width, height)), 0.0)
    _, frame = next(iter_frames(tmp_path / "a.mp4"))
    assert frame.shape == (3, height + height % 2, width + width % 2)
    assert frame.mean() == pytest.approx(100, abs=3)


@pytest.mark.parametrize(
    ("suffix", "codec"), [(".mp4", "aac"), (".mkv", "aac"), (".webm", "aac"), (".wav", "aac"), (".mp3", "mp3float")]
)
def test_the_original_sound_is_kept_in_time(tmp_path: Path, suffix: str, codec: str) -> None:
    if suffix in make.VIDEO_CODECS:
        source = make.steps(tmp_path / f"from{suffix}", 3)
    else:
        source = make.sound_file(tmp_path / f"from{suffix}", make.chirp(3))
    path = write_steps(tmp_path / "a.mp4", sound_from=source)
    with av.open(str(path)) as file:
        assert file.streams.audio[0].codec_context.name == codec
    got = read_audio(path, 22050)
    assert abs(lag(make.chirp(3, 22050), got, 22050)) < 0.002
    assert len(got) / 22050 == pytest.approx(3, abs=0.06)


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".wav"])
def test_a_part_of_a_video_keeps_the_sound_of_that_part(tmp_path: Path, suffix: str) -> None:
    if suffix in make.VIDEO_CODECS:
        source = make.steps(tmp_path / f"from{suffix}", 4)
    else:
        source = make.sound_file(tmp_path / f"from{suffix}", make.chirp(4))
    path = write_steps(tmp_path / "a.mp4", 25, sound_from=source, start=1.5, end=2.5)
    got = read_audio(path, 22050)
    wanted = make.chirp(4, 22050)[round(1.5 * 22050) :]
    skip = 2000  # copied packets set in up to one packet late
    assert abs(lag(wanted[skip:], got[skip:], 22050)) < 0.003
    assert len(got) / 22050 == pytest.approx(1, abs=0.06)
    assert [time for time, _ in iter_frames(path)][:3] == pytest.approx([0, 0.04, 0.08])


def test_sound_that_sets_in_late_stays_late(tmp_path: Path) -> None:
    for suffix in (".mp4", ".webm"):
        frames = [make.gray_frame(50)] * 75
        times = [k / 25 for k in range(75)]
        source = make.video(tmp_path / f"late{suffix}", frames, times, make.chirp(2), sound_start=1.0)
        got = read_audio(write_steps(tmp_path / "a.mp4", sound_from=source), 22050)
        assert np.abs(got[: round(0.95 * 22050)]).max() < 0.02
        assert abs(lag(make.chirp(2, 22050), got[22050:], 22050)) < 0.003


@pytest.mark.parametrize(("channels", "layout", "rate"), [(2, "stereo", 44100), (6, "5.1", 48000), (1, "mono", 50000)])
def test_sound_of_any_layout_and_rate_is_taken(tmp_path: Path, channels: int, layout: str, rate: int) -> None:
    sound = np.repeat(make.chirp(2, rate)[None], channels, 0)
    source = make.sound_file(tmp_path / "a.wav", sound, rate, layout)
    path = write_steps(tmp_path / "a.mp4", 50, sound_from=source)
    assert probe(path).channels == (2 if channels == 2 else 1)
    assert abs(lag(make.chirp(2, 22050), read_audio(path, 22050), 22050)) < 0.002


def test_a_failed_video_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"the old one")

    def fail() -> None:
        with VideoWriter(tmp_path / "a.mp4", 64, 48, Fraction(25)) as out:
            out.write(planar(make.gray_frame(100)), 0.0)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]
    assert (tmp_path / "a.mp4").read_bytes() == b"the old one"


def test_sound_that_cannot_be_read_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    silent = make.steps(tmp_path / "silent.mp4", 1, sound=False)
    for source, match in [(silent, r"silent\.mp4: has no audio track"), (tmp_path / "no.mp4", "does not exist")]:
        with pytest.raises(MediaError, match=match):
            write_steps(tmp_path / "a.mp4", sound_from=source)
    assert [path.name for path in tmp_path.iterdir()] == ["silent.mp4"]


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    pixels = planar(make.gray_frame(1))
    for write in (
        lambda: write_png(nowhere / "a.png", pixels),
        lambda: write_wav(nowhere / "a.wav", np.zeros(5, np.float32), 8000),
        lambda: write_steps(nowhere / "a.mp4"),
    ):
        with pytest.raises(MediaError, match=r"nowhere/a\.\w+: cannot be written .*Check that its folder exists"):
            write()
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(MediaError, match="cannot be written"):
        write_png(tmp_path / "folder.png", pixels)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_wrong_settings_are_the_callers_fault(tmp_path: Path) -> None:
    pixels = planar(make.gray_frame(1))

    def write(*calls: tuple[np.ndarray, float], name: str = "a.mp4", fps: int = 25, **more) -> None:
        with VideoWriter(tmp_path / name, 64, 48, Fraction(fps), **more) as out:
            for call in calls:
                out.write(*call)

    for call, match in [
        (lambda: write(), "Expected at least one frame"),
        (lambda: write((pixels, 0.1), (pixels, 0.1)), r"Expected a time after that of the last frame \(0\.1"),
        (lambda: write((pixels[:, 1:], 0.0)), r"Expected frames \(3, 48, 64\)"),
        (lambda: write((pixels, 0.0), name="a.avi"), r"name that ends in \.mp4"),
        (lambda: write((pixels, 0.0), fps=0), "Expected fps above 0"),
        (lambda: write((pixels, 0.0), start=2.0, end=1.0), "Expected a start of at least 0 and an end after it"),
        (lambda: write_png(tmp_path / "a.png", pixels[0]), "Expected a picture uint8"),
        (lambda: write_wav(tmp_path / "a.wav", np.zeros((2, 5), np.float32), 8000), "Expected a waveform"),
        (lambda: write_wav(tmp_path / "a.wav", np.zeros(5, np.float32), 0), "Expected a rate above 0"),
        (lambda: VideoWriter(tmp_path / "a.mp4", 0, 5, Fraction(25)), "Expected a width and height of 1 to 16384"),
    ]:
        with pytest.raises(UsageError, match=match):
            call()
    assert list(tmp_path.iterdir()) == []


def test_a_real_clip_is_rewritten_in_time(tmp_path: Path, shared_media: Path) -> None:
    source = shared_media / "clips" / "drum.mp4"
    info = probe(source)
    with VideoWriter(tmp_path / "a.mp4", info.width, info.height, info.fps or Fraction(25), source) as out:
        times = []
        for time, frame in iter_frames(source, end=4.0):
            out.write(frame, time)
            times.append(time)
    assert [time for time, _ in iter_frames(tmp_path / "a.mp4")] == pytest.approx(times, abs=1e-4)
    assert abs(lag(read_audio(source, 22050), read_audio(tmp_path / "a.mp4", 22050), 22050)) < 0.001
