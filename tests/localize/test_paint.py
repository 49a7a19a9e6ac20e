"""Paint on planes, against the same drawing in red, green and blue."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.heatmap import draw_box, overlay
from earsight.localize.paint import Paint, Planes, caption_size, to_yuv


def plain(height: int, width: int, rgb: tuple[int, int, int] = (90, 140, 60)) -> Planes:
    """A frame of one colour."""
    y, u, v = to_yuv(np.array(rgb)[:, None])[:, 0].round().astype(np.uint8)
    half = (height // 2, width // 2)
    return np.full((height, width), y), np.full(half, u), np.full(half, v)


def noise(height: int, width: int) -> Planes:
    random = np.random.default_rng(0)
    sizes = ((height, width), (height // 2, width // 2), (height // 2, width // 2))
    y, u, v = (random.integers(0, 256, size, dtype=np.uint8) for size in sizes)
    return y, u, v


def painted(paint: Paint, frame: Planes) -> Planes:
    y, u, v = (np.full_like(plane, 77) for plane in frame)
    paint.over(frame, (y, u, v))
    return y, u, v


def planes_of(rgb: np.ndarray) -> Planes:
    """uint8 (3, H, W) as planes."""
    y, u, v = to_yuv(rgb.reshape(3, -1)).reshape(rgb.shape)
    half = (rgb.shape[1] // 2, 2, rgb.shape[2] // 2, 2)
    return y, u.reshape(half).mean(axis=(1, 3)), v.reshape(half).mean(axis=(1, 3))


def test_no_paint_changes_nothing() -> None:
    frame = noise(70, 50)
    for new, old in zip(painted(Paint(70, 50), frame), frame, strict=True):
        np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize("opacity", [0.0, 0.65, 1.0])
def test_heat_looks_as_it_does_on_pictures(opacity: float) -> None:
    height, width = 100, 140
    rows, columns = np.mgrid[: height // 2, : width // 2]
    step = (255 * np.exp(-((rows - 12) ** 2 + (columns - 40) ** 2) / 150)).astype(np.uint8)
    rgb = np.broadcast_to(np.array([90, 140, 60], np.uint8)[:, None, None], (3, height, width))
    score = np.kron(step, np.ones((2, 2), np.uint8)).astype(np.float32) / 255
    expected = planes_of(overlay(rgb, score, alpha=opacity))
    paint = Paint(height, width)
    paint.heat(step, opacity)
    for new, wanted in zip(painted(paint, plain(height, width)), expected, strict=True):
        np.testing.assert_allclose(new, wanted, atol=2)


@pytest.mark.parametrize(
    "box", [(20, 30, 81, 70), (0, 0, 140, 100), (-9, 50, 30, 120), (7, 9, 8, 10), (200, 0, 220, 5)]
)
def test_a_frame_is_where_it_is_on_pictures(box: tuple[int, int, int, int]) -> None:
    rgb = np.broadcast_to(np.array([90, 140, 60], np.uint8)[:, None, None], (3, 100, 140)).copy()
    draw_box(rgb, box, (88, 214, 141), 2)
    paint = Paint(100, 140)
    paint.frame(box, (88, 214, 141), 2)
    brightness = painted(paint, plain(100, 140))[0]
    assert (np.abs(brightness - planes_of(rgb)[0]) > 3).mean() < 0.002  # corners of tiny boxes


def test_brightness_never_wraps_around() -> None:
    for value in (0, 255):
        frame = tuple(np.full(size, value, np.uint8) for size in ((64, 64), (32, 32), (32, 32)))
        paint = Paint(64, 64)
        for step in np.linspace(0, 255, 9).astype(np.uint8):
            paint.heat(np.full((32, 32), step), 1.0)
            for _ in range(5):
                paint.fill((3, 3, 60, 60), (255, 255, 255), 0.5)
            found = painted(paint, frame)[0].astype(int)
            assert found[20, 20] >= 225
            assert 0 <= found[0, 0] <= 255
            if step < 70:  # clear there
                assert found[0, 0] == value


def test_a_caption_is_written_along_the_lower_edge() -> None:
    paint = Paint(240, 320)
    paint.caption("visible source  0.50", (255, 255, 255), 240, 320)
    frame = plain(240, 320, (200, 200, 200))
    found = painted(paint, frame)[0]
    room = caption_size("visible source  0.50", 240, 320)
    assert room is not None
    np.testing.assert_array_equal(found[: 240 - room[1]], frame[0][: 240 - room[1]])
    bar = found[240 - room[1] :].astype(int)
    assert bar.min() < 70
    assert bar[:, 4:].max() > 220


def test_a_thumbnail_and_a_sliver_have_no_caption() -> None:
    assert caption_size("visible source", 16, 16) is None
    paint = Paint(16, 300)
    paint.caption("visible source", (255, 255, 255), 16, 300)
    frame = noise(16, 300)
    np.testing.assert_array_equal(painted(paint, frame)[0], frame[0])


def test_a_caption_wider_than_the_picture_is_cut_off() -> None:
    paint = Paint(90, 40)
    paint.caption("no visible source  0.50", (255, 255, 255), 90, 40)
    assert painted(paint, plain(90, 40))[0].shape == (90, 40)
