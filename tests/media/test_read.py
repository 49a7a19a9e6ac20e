"""Reading media of every kind: the right frame, the right way up, with the right sound around it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import make
import numpy as np
import pytest
from PIL import Image, ImageOps

from earsight.errors import MediaError
from earsight.media.read import (
    Limits,
    iter_frames,
    pictures_missing,
    probe,
    read_audio,
    read_clip,
    read_frame,
    read_image,
    read_pair,
)

VIDEOS = list(make.VIDEO_CODECS)


def number(frame: np.ndarray) -> float:
    """Which frame of `steps` this is."""
    return (float(frame.mean()) - 20) / 2


# What a file holds


@pytest.mark.parametrize("suffix", VIDEOS)
def test_probe_tells_size_rate_and_length(videos: dict[str, Path], suffix: str) -> None:
    info = probe(videos[suffix])
    assert (info.has_video, info.has_audio, info.is_image) == (True, True, False)
    assert (info.width, info.height, info.channels, info.rotation) == (64, 48, 1, 0)
    assert info.duration == pytest.approx(4.0, abs=0.06)
    assert info.fps is not None
    assert float(info.fps) == pytest.approx(25, rel=0.02)
    assert info.rate == (48000 if suffix == ".webm" else 44100)


def test_probe_of_a_picture_has_no_length(tmp_path: Path) -> None:
    info = probe(make.picture(tmp_path / "a.png", make.corners(31, 17)))
    assert (info.is_image, info.has_video, info.has_audio) == (True, False, False)
    assert (info.width, info.height, info.duration, info.fps) == (31, 17, None, None)


@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_that_is_cut_off_is_refused(tmp_path: Path, progressive: bool) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.jpg", progressive=progressive)
    data = (tmp_path / "whole.jpg").read_bytes()
    for share in (0.3, 0.6, 0.95):
        (tmp_path / "cut.jpg").write_bytes(data[: int(share * len(data))])
        with pytest.raises(MediaError, match="holds no picture that can be decoded"):
            read_image(tmp_path / "cut.jpg")
    whole = read_image(tmp_path / "whole.jpg")
    for kept in (data[:-2], data + b"more"):  # some writers forget the end marker, others put more behind it
        (tmp_path / "kept.jpg").write_bytes(kept)
        np.testing.assert_array_equal(read_image(tmp_path / "kept.jpg"), whole)


def test_a_song_with_a_cover_has_no_video(tmp_path: Path) -> None:
    song = make.sound_file(tmp_path / "song.mp3", make.chirp(0.5)).read_bytes()
    cover = make.picture(tmp_path / "cover.jpg", make.corners()).read_bytes()
    body = b"\0image/jpeg\0\x03\0" + cover
    tag = b"APIC" + len(body).to_bytes(4) + b"\0\0" + body
    size = bytes(len(tag) >> shift & 0x7F for shift in (21, 14, 7, 0))
    path = tmp_path / "covered.mp3"
    path.write_bytes(b"ID3\x03\0\0" + size + tag + song[song.index(b"\xff\xfb") :])
    assert not probe(path).has_video
    with pytest.raises(MediaError, match="no video track"):
        read_frame(path, 0)


# Pictures


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".bmp", ".gif"])
def test_pictures_of_every_kind_are_read(tmp_path: Path, suffix: str) -> None:
    got = read_image(make.picture(tmp_path / f"a{suffix}", make.corners(80, 50)))
    assert got.dtype == np.uint8
    assert got.flags.c_contiguous
    assert np.abs(got.transpose(1, 2, 0).astype(int) - make.corners(80, 50)).mean() < 6


@pytest.mark.parametrize("mode", ["L", "1", "P", "I;16"])
def test_gray_and_palette_pictures_become_rgb(tmp_path: Path, mode: str) -> None:
    gray = np.add.outer(np.arange(40), np.arange(60)).astype(np.uint8)
    if mode == "I;16":
        Image.fromarray(gray.astype(np.uint16) * 257).save(tmp_path / "a.png")
        wanted = np.repeat(gray[None], 3, 0)
    else:
        image = (
            Image.fromarray(make.corners()).convert("RGB").quantize(8)
            if mode == "P"
            else Image.fromarray(gray).convert(mode)
        )
        image.save(tmp_path / "a.png")
        wanted = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    assert np.abs(read_image(tmp_path / "a.png").astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_transparent_parts_lie_on_white(tmp_path: Path, suffix: str) -> None:
    rgba = np.zeros((8, 8, 4), np.uint8)
    rgba[:4, :, 3], rgba[4:, :4] = 255, (200, 100, 0, 128)
    got = read_image(make.picture(tmp_path / f"a{suffix}", rgba, lossless=True, exact=True))
    assert got[:, 0, 0].tolist() == [0, 0, 0]
    assert got[:, 7, 7].tolist() == [255, 255, 255]
    assert got[:, 7, 0].tolist() == [227, 177, 127]


def test_a_jpeg_of_four_inks_is_not_transparent(tmp_path: Path) -> None:
    Image.fromarray(make.corners()).convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    assert np.abs(read_image(tmp_path / "a.jpg").transpose(1, 2, 0).astype(int) - make.corners()).mean() < 6


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_held_any_way_are_turned_upright(tmp_path: Path, suffix: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x112] = orientation
    path = make.picture(tmp_path / f"a{suffix}", make.corners(), exif=exif)
    wanted = np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
    got = read_image(path).transpose(1, 2, 0)
    assert got.shape == wanted.shape
    assert np.abs(got.astype(int) - wanted).mean() < 6
    info = probe(path)
    assert (info.height, info.width) == wanted.shape[:2]


def test_a_picture_is_known_by_its_content_not_its_name(tmp_path: Path) -> None:
    path = make.picture(tmp_path / "a.png", make.corners()).rename(tmp_path / "clip%03d.mp4")
    assert read_image(path).shape == (3, 48, 64)
    assert read_frame(path, 3.0)[1] == 0.0


# Frames


@pytest.mark.parametrize("suffix", VIDEOS)
@pytest.mark.parametrize("time", [0.0, 0.5, 1.0, 1.02, 1.99, 2.5, 3.7, 3.96])
def test_the_frame_shown_at_a_time_is_exact(videos: dict[str, Path], suffix: str, time: float) -> None:
    frame, own = read_frame(videos[suffix], time)
    assert frame.shape == (3, 48, 64)
    # The avi encoder's own grays and first time are off by more.
    assert abs(number(frame) - int(time * 25 + 1e-6)) < (2.5 if suffix == ".avi" else 0.8)
    assert own <= time < own + 0.04 + 1e-6 or suffix == ".avi"


@pytest.mark.parametrize("suffix", VIDEOS)
def test_each_frame_is_found_again_by_its_own_time(videos: dict[str, Path], suffix: str) -> None:
    for time, frame in list(iter_frames(videos[suffix]))[::9]:
        again, own = read_frame(videos[suffix], time)
        assert own == time
        np.testing.assert_array_equal(again, frame)


def test_past_the_end_the_last_frame_is_shown(videos: dict[str, Path]) -> None:
    frame, own = read_frame(videos[".mp4"], 1000.0)
    assert own == pytest.approx(3.96)
    assert number(frame) == pytest.approx(99, abs=0.8)


def test_before_the_first_frame_the_first_is_shown(tmp_path: Path) -> None:
    path = make.video(tmp_path / "a.mkv", [make.gray_frame(50), make.gray_frame(90)], [0.5, 0.7], make.chirp(1))
    frame, own = read_frame(path, 0.1)
    assert own == pytest.approx(0.5)
    assert frame.mean() == pytest.approx(50, abs=2)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov", ".webm", ".ts"])
def test_a_file_that_begins_late_is_as_long_as_it_plays(tmp_path: Path, suffix: str) -> None:
    times = [20 + k / 25 for k in range(75)]
    path = make.video(tmp_path / f"a{suffix}", [make.gray_frame(20 + k) for k in range(75)], times)
    assert probe(path).duration == pytest.approx(3.0, abs=0.05)
    assert [time for time, _ in iter_frames(path, 0.5)] == pytest.approx([0.5 * k for k in range(6)])
    assert pictures_missing(path, 2.5) is None


@pytest.mark.parametrize(("suffix", "b_frames"), [(".mp4", "0"), (".mp4", "3"), (".mkv", "0"), (".mov", "0")])
def test_a_picture_that_stands_at_the_end_is_shown_to_its_end(tmp_path: Path, suffix: str, b_frames: str) -> None:
    path = make.still(tmp_path / f"a{suffix}", 6.0, encoder={"bf": b_frames})
    assert [time for time, _ in iter_frames(path, 0.5)] == [0.5 * k for k in range(12)]
    one = make.video(tmp_path / f"one{suffix}", [make.gray_frame(90)], [0.0], make.chirp(5.0), lasts=5.0)
    assert [time for time, _ in iter_frames(one, 0.5)] == [0.5 * k for k in range(10)]


@pytest.mark.parametrize("suffix", VIDEOS)
def test_sound_that_goes_on_alone_holds_no_picture_and_misses_none(tmp_path: Path, suffix: str) -> None:
    pictures = [make.gray_frame(20 + k) for k in range(25)]
    path = make.video(tmp_path / f"a{suffix}", pictures, [k / 25 for k in range(25)], make.chirp(4.0))
    assert [time for time, _ in iter_frames(path, 0.4)] == pytest.approx([0.0, 0.4, 0.8])
    assert pictures_missing(path, 0.8) is None


def test_how_long_a_last_picture_claims_to_last_is_bounded(tmp_path: Path) -> None:
    make.still(tmp_path / "a.mkv", 20.0, encoder={"bf": "0"})
    endless = make.without_length(tmp_path / "a.mkv", tmp_path / "endless.mkv")
    assert [time for time, _ in iter_frames(endless, 5.0)] == [0.0, 5.0, 10.0, 15.0]
    with pytest.raises(MediaError, match=r"plays for 20 s, over the limit of 10 s\."):
        list(iter_frames(endless, 5.0, limits=Limits(max_seconds=10)))


@pytest.mark.parametrize("suffix", VIDEOS)
def test_a_cut_video_tells_when_its_pictures_end_and_should(
    videos: dict[str, Path], tmp_path: Path, suffix: str
) -> None:
    front = {"movflags": "faststart"} if suffix in (".mp4", ".mov") else None
    found = pictures_missing(make.cut(make.steps(tmp_path / f"a{suffix}", options=front), 0.6), 1.0)
    assert found is not None
    assert found == (pytest.approx(2.4, abs=0.2), pytest.approx(4.0, abs=0.05))
    assert pictures_missing(videos[suffix], 1.0) is None


def test_pictures_that_cannot_be_decoded_are_missed_although_the_sound_goes_on(tmp_path: Path) -> None:
    whole = make.steps(tmp_path / "a.mp4", 4.0)
    with av.open(str(whole)) as file:
        places = [(packet.pos, packet.size) for packet in file.demux(video=0) if packet.size and packet.dts > 0]
    data = bytearray(whole.read_bytes())
    for at, size in places[len(places) // 2 :]:
        data[at : at + size] = bytes(size)
    whole.write_bytes(data)
    found = pictures_missing(whole, 1.0)
    assert found is not None
    assert found == (pytest.approx(2.0, abs=0.4), pytest.approx(4.0, abs=0.05))


def test_a_broadcast_stream_is_read_from_any_time(tmp_path: Path) -> None:
    path = make.steps(tmp_path / "a.ts", 3.0, gop=250)
    for time in (0.5, 1.0, 2.5):
        assert read_frame(path, time)[1] == pytest.approx(time, abs=0.08)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_the_shape_of_pixels_is_known(tmp_path: Path, suffix: str) -> None:
    path = make.video(tmp_path / f"a{suffix}", [make.gray_frame(90)] * 5, np.arange(5) / 10, aspect=Fraction(16, 9))
    assert probe(path).aspect == pytest.approx(16 / 9)
    assert probe(make.steps(tmp_path / f"b{suffix}", 0.5)).aspect == 1
    if suffix == ".mp4":
        assert probe(make.held(path, (0, 1, -1, 0))).aspect == pytest.approx(9 / 16)


def test_sound_tracks_are_counted(tmp_path: Path) -> None:
    assert probe(make.steps(tmp_path / "a.mkv", 0.5, tracks=2)).tracks == 2
    assert probe(make.picture(tmp_path / "a.png", make.corners())).tracks == 0


def test_variable_frame_rate_goes_by_the_times_of_the_frames(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.15, 1.5, 1.6, 3.0, 3.01]
    path = make.video(tmp_path / "vfr.mp4", [make.gray_frame(20 + 30 * k) for k in range(7)], times)
    for asked, wanted in [(0.05, 0), (0.12, 1), (1.49, 2), (1.5, 3), (2.9, 4), (3.005, 5), (3.5, 6)]:
        frame, own = read_frame(path, asked)
        assert own == pytest.approx(times[wanted])
        assert frame.mean() == pytest.approx(20 + 30 * wanted, abs=3)
    assert [time for time, _ in iter_frames(path)] == pytest.approx(times)


@pytest.mark.parametrize(
    ("matrix", "orientation", "rotation"),
    [((0, 1, -1, 0), 6, 90), ((-1, 0, 0, -1), 3, 180), ((0, -1, 1, 0), 8, 270), ((-1, 0, 0, 1), 2, 0)],
)
def test_rotated_phone_video_is_turned_upright(tmp_path: Path, matrix, orientation: int, rotation: int) -> None:
    path = make.held(make.video(tmp_path / "phone.mp4", [make.corners()] * 5, [k / 25 for k in range(5)]), matrix)
    turns = {6: Image.Transpose.ROTATE_270, 3: Image.Transpose.ROTATE_180, 8: Image.Transpose.ROTATE_90}
    turns[2] = Image.Transpose.FLIP_LEFT_RIGHT
    wanted = np.asarray(Image.fromarray(make.corners()).transpose(turns[orientation]))
    info = probe(path)
    assert (info.rotation, info.height, info.width) == (rotation, *wanted.shape[:2])
    for frame in (read_frame(path, 0.1)[0], *(frame for _, frame in iter_frames(path))):
        assert frame.shape[1:] == wanted.shape[:2]
        assert np.abs(frame.transpose(1, 2, 0).astype(int) - wanted).mean() < 12


def test_frames_at_even_steps_are_those_shown_then(videos: dict[str, Path]) -> None:
    got = list(iter_frames(videos[".mp4"], every=0.3, start=1.1, end=3.0))
    assert [time for time, _ in got] == pytest.approx([1.1, 1.4, 1.7, 2.0, 2.3, 2.6, 2.9])
    for time, frame in got:
        np.testing.assert_array_equal(frame, read_frame(videos[".mp4"], time)[0])


def test_steps_finer_than_the_frames_repeat_them_to_the_end(tmp_path: Path) -> None:
    path = make.video(tmp_path / "a.mp4", [make.gray_frame(50), make.gray_frame(150)], [0.0, 1.0])
    got = [(time, round(float(frame.mean()), -1)) for time, frame in iter_frames(path, every=0.4)]
    assert got == [(0.0, 50), (0.4, 50), (0.8, 50), (pytest.approx(1.2), 150), (1.6, 150)]


def test_all_frames_of_a_span_are_those_shown_in_it(videos: dict[str, Path]) -> None:
    times = [time for time, _ in iter_frames(videos[".mp4"], start=1.1, end=1.3)]
    assert times == pytest.approx([1.08, 1.12, 1.16, 1.2, 1.24, 1.28])


# Both together


def test_a_clip_is_a_frame_with_the_sound_around_it(videos: dict[str, Path]) -> None:
    clip = read_clip(videos[".mp4"], 2.0, 16000, 1.0, id="mine")
    assert (clip.id, clip.rate, clip.time, len(clip.waveform)) == ("mine", 16000, 0.5, 16000)
    np.testing.assert_array_equal(clip.frame, read_frame(videos[".mp4"], 2.0)[0])
    np.testing.assert_array_equal(clip.waveform, read_audio(videos[".mp4"], 16000, 1.5, 1.0))


def test_at_both_ends_of_a_video_the_sound_moves_inside(videos: dict[str, Path]) -> None:
    first, last = (read_clip(videos[".mp4"], time, 16000, 1.0) for time in (0.1, 3.9))
    assert (first.time, len(first.waveform)) == (0.1, 16000)
    assert last.time == pytest.approx(0.9)
    assert len(last.waveform) == 16000
    assert first.id == "steps@0.1"


def test_a_photo_and_a_sound_make_a_clip(tmp_path: Path, sounds: dict[str, Path], videos: dict[str, Path]) -> None:
    photo = make.picture(tmp_path / "photo.png", make.corners())
    clip = read_pair(photo, sounds[".wav"], 1.0, 16000, 2.0)
    assert (clip.id, clip.time, len(clip.waveform)) == ("photo+chirp@1", 1.0, 32000)
    np.testing.assert_array_equal(clip.frame.transpose(1, 2, 0), make.corners())
    video = read_pair(videos[".mp4"], sounds[".wav"], 1.0, 16000, 2.0, id="v")
    assert number(video.frame) == pytest.approx(50, abs=0.8)


# Real media


@pytest.mark.slow
def test_real_clips_are_read_whole(shared_media: Path) -> None:
    for path in sorted((shared_media / "clips").glob("*.mp4")):
        info = probe(path)
        assert info.duration is not None
        assert info.has_video
        assert info.has_audio
        frame, time = read_frame(path, info.duration / 2)
        assert frame.shape == (3, info.height, info.width)
        assert 0 <= info.duration / 2 - time < 0.2
        clip = read_clip(path, info.duration / 2, 22050, 3.0)
        assert len(clip.waveform) == 3 * 22050
        assert clip.waveform.std() > 1e-4
        assert isinstance(info.fps, Fraction)


def test_real_photos_and_sounds_pair_up(shared_media: Path) -> None:
    for name in ("bird", "car", "dog"):
        folder = shared_media / "clips"
        clip = read_pair(folder / f"{name}.jpg", folder / f"{name}.wav", 0.5, 22050, 3.0)
        wanted = np.asarray(ImageOps.exif_transpose(Image.open(folder / f"{name}.jpg")).convert("RGB"))
        assert np.abs(clip.frame.transpose(1, 2, 0).astype(int) - wanted).mean() < 3
        assert clip.waveform.std() > 1e-4
