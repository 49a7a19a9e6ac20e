"""Drawings on pictures and on the planes of film frames, which agree."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.overlay import COLORS, SMALLEST_TEXT, Overlay, overlay, scaled, stretch, text_ink, text_width, to_yuv

Planes = tuple[np.ndarray, np.ndarray, np.ndarray]
PICTURE = np.full((3, 60, 80), 128, dtype=np.uint8)
GREEN = (88, 214, 141)


def plain(height: int, width: int, rgb: tuple[int, int, int] = (90, 140, 60)) -> np.ndarray:
    """A picture of one colour."""
    return np.broadcast_to(np.array(rgb, np.uint8)[:, None, None], (3, height, width)).copy()


def noise(height: int, width: int) -> Planes:
    random = np.random.default_rng(0)
    sizes = ((height, width), (height // 2, width // 2), (height // 2, width // 2))
    y, u, v = (random.integers(0, 256, size, dtype=np.uint8) for size in sizes)
    return y, u, v


def painted(drawing: Overlay, frame: Planes) -> Planes:
    y, u, v = (np.full_like(plane, 77) for plane in frame)
    drawing.into(frame, (y, u, v))
    return y, u, v


def planes_of(rgb: np.ndarray) -> Planes:
    """uint8 (3, H, W) as planes."""
    y, u, v = to_yuv(rgb.reshape(3, -1)).reshape(rgb.shape).round().astype(np.uint8)
    half = (rgb.shape[1] // 2, 2, rgb.shape[2] // 2, 2)
    return y, *(plane.reshape(half).mean(axis=(1, 3)).round().astype(np.uint8) for plane in (u, v))


def both(height: int, width: int) -> tuple[Overlay, Overlay]:
    """A drawing on pictures, and the same on planes."""
    return Overlay(height, width), Overlay(height, width, yuv=True)


def test_no_drawing_changes_nothing() -> None:
    frame = noise(70, 50)
    for new, old in zip(painted(Overlay(70, 50, yuv=True), frame), frame, strict=True):
        np.testing.assert_array_equal(new, old)
    np.testing.assert_array_equal(overlay(PICTURE, np.zeros((60, 80), dtype=np.float32)), PICTURE)


def test_the_hottest_takes_the_last_colour() -> None:
    drawing = Overlay(60, 80)
    drawing.heat(np.full((60, 80), 255, np.uint8), 1.0)
    np.testing.assert_array_equal(drawing.over(PICTURE)[:, 0, 0], COLORS[:, -1])


def test_lightness_of_the_colours_only_rises() -> None:
    lightness = np.array([0.2126, 0.7152, 0.0722]) @ COLORS.astype(float)
    assert (np.diff(lightness) > -0.5).all()
    assert lightness[-1] > lightness[0] + 150


def test_the_input_is_not_changed() -> None:
    before = PICTURE.copy()
    mask = np.zeros((60, 80), dtype=bool)
    mask[10:40, 10:40] = True
    assert (overlay(PICTURE, mask.astype(np.float32), mask, [(1, 1, 50, 50)]) != PICTURE).any()
    np.testing.assert_array_equal(PICTURE, before)


def test_the_outline_is_bright_and_lies_at_the_border_of_the_mask() -> None:
    mask = np.zeros((60, 80), dtype=bool)
    mask[20:40, 30:50] = True
    changed = (overlay(PICTURE, np.zeros((60, 80), dtype=np.float32), mask) != PICTURE).any(0)
    assert changed[20, 30:50].all()
    assert not changed[25:35, 35:45].any()
    assert not changed[:17].any()


def test_boxes_may_stick_out_of_the_picture() -> None:
    score = np.zeros((60, 80), dtype=np.float32)
    out = overlay(PICTURE, score, boxes=[(-10, -10, 30, 30), (70, 50, 200, 200), (5, 5, 6, 6)])
    assert (out != PICTURE).any()
    assert out[:, 29, 10].tolist() == [72, 219, 251]


def test_lines_grow_with_the_picture() -> None:
    assert Overlay(60, 80).thick == 1
    assert Overlay(1080, 1920).thick == 5


def test_a_score_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"score of .* like the picture"):
        overlay(PICTURE, np.zeros((10, 10), dtype=np.float32))


def test_stretch_of_a_flat_map_is_zero() -> None:
    assert stretch(np.full((2, 2), 7, dtype=np.float32)).tolist() == [[0, 0], [0, 0]]
    assert stretch(np.array([[0.0, 2.0]], dtype=np.float32), 0, 1).tolist() == [[0, 1]]


@pytest.mark.parametrize("opacity", [0.0, 0.65, 1.0])
def test_heat_looks_the_same_on_pictures_and_on_planes(opacity: float) -> None:
    height, width = 100, 140
    rows, columns = np.mgrid[: height // 2, : width // 2]
    step = (255 * np.exp(-((rows - 12) ** 2 + (columns - 40) ** 2) / 150)).astype(np.uint8)
    pictures, planes = both(height, width)
    pictures.heat(np.kron(step, np.ones((2, 2), np.uint8)), opacity)
    planes.heat(step, opacity)
    expected = planes_of(pictures.over(plain(height, width)))
    for new, wanted in zip(painted(planes, planes_of(plain(height, width))), expected, strict=True):
        np.testing.assert_allclose(new.astype(int), wanted.astype(int), atol=3)


@pytest.mark.parametrize(
    "box", [(20, 30, 81, 70), (0, 0, 140, 100), (-9, 50, 30, 120), (7, 9, 8, 10), (200, 0, 220, 5)]
)
def test_frames_and_captions_are_the_same_on_pictures_and_on_planes(box: tuple[int, int, int, int]) -> None:
    pictures, planes = both(100, 140)
    for drawing in (pictures, planes):
        drawing.frame(box, GREEN)
        drawing.caption([("visible source  0.50", GREEN)])
    expected = planes_of(pictures.over(plain(100, 140)))[0].astype(int)
    brightness = painted(planes, planes_of(plain(100, 140)))[0]
    assert (np.abs(brightness - expected) > 3).mean() < 0.001


def test_brightness_never_wraps_around() -> None:
    for value in (0, 255):
        frame = tuple(np.full(size, value, np.uint8) for size in ((64, 64), (32, 32), (32, 32)))
        drawing = Overlay(64, 64, yuv=True)
        for step in np.linspace(0, 255, 9).astype(np.uint8):
            drawing.heat(np.full((32, 32), step), 1.0)
            for _ in range(5):
                drawing.fill((3, 3, 60, 60), (255, 255, 255), 0.5)
            found = painted(drawing, frame)[0].astype(int)
            assert found[20, 20] >= 225
            assert 0 <= found[0, 0] <= 255
            if step < 70:  # clear there
                assert found[0, 0] == value


def test_planes_of_an_odd_size_have_one_more_row_and_column() -> None:
    drawing = Overlay(47, 63, yuv=True)
    drawing.heat(np.full((24, 32), 255, np.uint8), 0.5)
    drawing.frame((0, 0, 63, 47), GREEN)
    assert painted(drawing, noise(48, 64))[0].shape == (48, 64)


@pytest.mark.parametrize("width", [40, 90, 320, 1280])
def test_a_caption_is_legible_along_the_lower_edge(width: int) -> None:
    height = width * 3 // 4 if width > 40 else 90
    drawing = Overlay(height, width)
    drawing.caption([("these weights know drawn toys of the built-in set only", (255, 255, 255)), ("silent", GREEN)])
    found = drawing.over(np.full((3, height, width), 200, np.uint8)).astype(int)
    rows = np.nonzero((found != 200).any(axis=(0, 2)))[0]
    assert rows.max() == height - 1
    assert height // 3 >= len(rows) >= SMALLEST_TEXT
    bar = found[:, height - len(rows) // 4 - 4 :]
    assert bar.min() < 70
    assert bar[1, :, 4:].max() > 180


def test_a_thumbnail_and_a_sliver_have_no_caption() -> None:
    for height, width in ((16, 16), (16, 300)):
        drawing = Overlay(height, width)
        drawing.caption([("visible source", GREEN)])
        np.testing.assert_array_equal(drawing.over(plain(height, width)), plain(height, width))


@pytest.mark.parametrize("size", [11, 14, 27])
def test_letters_of_any_language_are_drawn_as_high_as_others(size: int) -> None:
    lines = ["Abg", "\u00e9\u0436\u03a9\u4e2d", "\U0001f600", ""]
    assert len({text_ink(line, size).shape[0] for line in lines}) == 1
    assert text_ink("Abg", size).max() > 0.8
    e, zhe = text_ink("\u00e9", size), text_ink("\u0436", size)
    assert e.shape != zhe.shape or (e != zhe).any()  # no letter is replaced by a mark for all unknown ones
    assert text_width("Abg", 2 * size) > 1.8 * text_width("Abg", size)


def test_pictures_are_made_small_and_never_large() -> None:
    assert scaled(PICTURE, 40).shape == (3, 30, 40)
    assert scaled(PICTURE, 400) is PICTURE
    assert scaled(PICTURE, 60, aspect=2.0).shape == (3, 22, 60)
