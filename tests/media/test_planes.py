"""Frames as planes: upright, of one size, and with the colours of the original."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path

import av
import make
import numpy as np
import pytest

from earsight.media.planes import iter_planes
from earsight.media.read import iter_frames, probe
from earsight.media.write import VideoWriter
from earsight.overlay import Overlay


def copied(path: Path, to: Path) -> Path:
    """The video written again through its planes, with nothing painted."""
    info = probe(path)
    nothing = Overlay(info.height, info.width, yuv=True)
    with VideoWriter(to, info.width, info.height, Fraction(10), None) as film:
        for time, planes in iter_planes(path, info.height, info.width):
            film.fill(partial(nothing.into, planes), time)
    return to


def film(path: Path, width: int = 64, height: int = 48, codec: str = "libx264", **tags: object) -> Path:
    """Three frames of four colours."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = width, height, str(tags.pop("pix_fmt", "yuv420p"))
        for name, value in tags.items():
            setattr(stream.codec_context, name, value)
        for k in range(3):
            frame = av.VideoFrame.from_ndarray(make.corners(width, height), format="rgb24")
            space, wide = tags.get("colorspace", 5), tags.get("color_range", 1)
            frame = frame.reformat(format=stream.pix_fmt, dst_colorspace=space, dst_color_range=wide)
            frame.pts, frame.time_base = k, Fraction(1, 10)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(
    "tags",
    [
        {},
        {"colorspace": 1, "color_range": 1},
        {"colorspace": 5, "color_range": 1},
        {"colorspace": 1, "color_range": 2, "pix_fmt": "yuvj420p"},
        {"pix_fmt": "yuv444p"},
        {"pix_fmt": "yuv422p10le", "colorspace": 1, "color_range": 1},
    ],
    ids=str,
)
def test_colours_stay_whatever_they_are_stored_as(tmp_path: Path, tags: dict) -> None:
    path = film(tmp_path / "a.mkv", **tags)
    new = copied(path, tmp_path / "b.mp4")
    for (_, a), (_, b) in zip(iter_frames(path), iter_frames(new), strict=True):
        inside = np.abs(a.astype(int) - b)[:, 4:20, 4:28]  # away from edges, which coarse colour blurs
        assert inside.max() <= 8
        assert np.abs(a.astype(int) - b).mean() < 4


def test_a_large_video_that_does_not_say_its_colours_is_taken_as_players_take_it(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mkv", 1280, 720, colorspace=1)
    with av.open(str(path)) as stored:
        first = next(stored.decode(video=0))
        assert first.colorspace == 1
        brightness = first.to_ndarray()[100, 100]
    _, planes = next(iter_planes(path, 720, 1280))
    assert planes[0][100, 100] == brightness


@pytest.mark.parametrize(("width", "height"), [(63, 47), (64, 47), (63, 48)])
def test_an_odd_size_gets_one_more_row_or_column(tmp_path: Path, width: int, height: int) -> None:
    path = film(tmp_path / "a.avi", width, height, "mpeg4")
    for _, (y, u, v) in iter_planes(path, height, width):
        assert y.shape == (height + height % 2, width + width % 2)
        assert u.shape == v.shape == (y.shape[0] // 2, y.shape[1] // 2)
    info = probe(copied(path, tmp_path / "b.mp4"))
    assert (info.width, info.height) == (width + width % 2, height + height % 2)


@pytest.mark.parametrize("matrix", [(0, 1, -1, 0), (-1, 0, 0, -1), (0, -1, 1, 0), (-1, 0, 0, 1)])
def test_a_turned_video_is_upright(tmp_path: Path, matrix: tuple[int, int, int, int]) -> None:
    path = make.held(film(tmp_path / "a.mp4"), matrix)
    new = copied(path, tmp_path / "b.mp4")
    (_, wanted), (_, found) = next(iter_frames(path)), next(iter_frames(new))
    assert wanted.shape == found.shape
    assert np.abs(wanted.astype(int) - found).mean() < 4


def test_frames_of_another_size_than_the_first_are_scaled(tmp_path: Path) -> None:
    for _, (y, u, _) in iter_planes(film(tmp_path / "a.mp4"), 96, 32):
        assert y.shape == (96, 32)
        assert u.shape == (48, 16)


def test_only_the_asked_for_span_is_read(tmp_path: Path) -> None:
    path = make.steps(tmp_path / "a.mp4", 2.0, 10)
    wanted = [time for time, _ in iter_frames(path, None, 0.55, 1.5)]
    assert [time for time, _ in iter_planes(path, 48, 64, 0.55, 1.5)] == wanted


def test_a_film_that_is_cut_has_no_sound_after_its_pictures(tmp_path: Path) -> None:
    path = make.steps(tmp_path / "a.mp4", 4.0, 10)
    with VideoWriter(tmp_path / "b.mp4", 64, 48, Fraction(10), path) as film:
        for time, planes in iter_planes(path, 48, 64):
            film.fill(partial(Overlay(48, 64, yuv=True).into, planes), time)
            if time > 0.95:
                film.cut()
                break
    found = probe(tmp_path / "b.mp4")
    assert found.has_audio
    assert found.duration == pytest.approx(1.1, abs=0.1)
