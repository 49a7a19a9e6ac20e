"""The contact sheet's parts: even spacing, times, and sheets of every shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earsight import protocols
from earsight.errors import MediaError
from earsight.localize.settings import Settings
from earsight.localize.sheet import TILES, Tiles, clock, is_tile, write_sheet
from earsight.localize.timeline import Moment, Timeline
from earsight.localize.view import View
from earsight.media.read import read_image

MOMENT = Moment(0.0, "visible source", 0.5, 0.5, (4, 4), ())


@pytest.mark.parametrize("count", [1, 2, 11, 12, 13, 100, 5000])
def test_tiles_are_spread_evenly_and_few_are_held(count: int) -> None:
    tiles, exact = Tiles(), protocols.get("exact")
    for i in range(count):
        picture = np.zeros((3, 4, 4), np.uint8) if is_tile(i) else None
        tiles.add(i, View(replace(MOMENT, time=float(i)), np.eye(2, dtype=np.float32), 0, 1, 1, exact), picture)
        assert len(tiles._views) <= 6 * TILES
    spaced = [moment.time for moment, _ in tiles.drawn(Settings())]
    assert len(spaced) == min(count, TILES)
    assert spaced[0] == 0
    gaps = np.diff(spaced)
    assert len(gaps) == 0 or gaps.max() <= 1.4 * gaps.min() + 1
    assert spaced[-1] >= 0.9 * (count - 1)


def test_times_are_written_as_a_player_does() -> None:
    assert [clock(t) for t in (0, 0.6, 59.96, 61, 3600)] == ["0:00.0", "0:00.6", "0:59.9", "1:01.0", "1:00:00.0"]


@pytest.mark.parametrize(("count", "height", "width"), [(1, 90, 160), (5, 90, 160), (12, 160, 90), (12, 60, 60)])
def test_sheets_of_every_shape_are_written(tmp_path: Path, count: int, height: int, width: int) -> None:
    kinds = ["visible source", "no visible source", "silent"]
    items = tuple(Moment(i * 0.5, kinds[i % 3], 0.1 * i, 0.1 * i, (0, 0), ()) for i in range(count))
    timeline = Timeline("a.mp4", "a.mp4", "w", "exact", 0.4, 0.5, 1.0, 0.5, width, height, items)
    picture = np.full((3, height, width), 90, np.uint8)
    write_sheet(tmp_path / "a.png", [(item, picture) for item in items], timeline)
    sheet = read_image(tmp_path / "a.png")
    assert sheet.shape[2] == 1300
    assert (sheet == 90).all(axis=0).sum() > 1000 * count


def test_notes_stand_between_the_pictures_and_the_plot(tmp_path: Path) -> None:
    told = ("these weights know $drawn^ toys", "x" * 200)
    timeline = Timeline("a.mp4", "", "w", "exact", None, 0.5, 1.0, 0.0, 90, 90, (MOMENT,))
    picture = np.full((3, 90, 90), 90, np.uint8)
    for name, notes in (("plain", ()), ("noted", told)):
        write_sheet(tmp_path / f"{name}.png", [(MOMENT, picture)], replace(timeline, notes=notes))
    plain, noted = (read_image(tmp_path / f"{name}.png").astype(int) for name in ("plain", "noted"))
    assert plain.shape[2] == noted.shape[2]
    noted = noted[:, : plain.shape[1]]
    apart = np.nonzero((plain != noted).any(axis=(0, 2)))[0]
    assert apart.min() > plain.shape[1] - 300  # below the pictures


@pytest.mark.parametrize(("height", "width"), [(360, 1), (1, 360)])
def test_no_shape_of_a_video_makes_a_huge_sheet(tmp_path: Path, height: int, width: int) -> None:
    items = tuple(Moment(i * 0.5, "silent", 0.1, 0.1, (0, 0), ()) for i in range(12))
    timeline = Timeline("a.mp4", "a.mp4", "w", "exact", 0.4, 0.5, 1.0, 0.5, width, height, items)
    write_sheet(tmp_path / "a.png", [(item, np.full((3, height, width), 90, np.uint8)) for item in items], timeline)
    sheet = read_image(tmp_path / "a.png")
    assert sheet.shape[2] == 1300
    assert sheet.shape[1] <= 2000


def test_any_name_of_a_file_can_be_written_on_a_sheet(tmp_path: Path) -> None:
    timeline = Timeline("a$^$b_\\frac \u4e2d\udcff.mp4", "", "w", "exact", None, 0.5, 1.0, 0.0, 9, 9, (MOMENT,))
    write_sheet(tmp_path / "a.png", [(MOMENT, np.zeros((3, 9, 9), np.uint8))], timeline)
    assert read_image(tmp_path / "a.png").size


def test_a_sheet_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    timeline = Timeline("a.mp4", "", "w", "exact", None, 0.5, 1.0, 0.0, 9, 9, (MOMENT,))
    (tmp_path / "a.png").mkdir()
    with pytest.raises(MediaError, match=r"cannot be written \(.*\)\. Check that its folder"):
        write_sheet(tmp_path / "a.png", [(MOMENT, np.zeros((3, 9, 9), np.uint8))], timeline)
