"""Facts about heat maps, outlines, boxes and captions."""

from __future__ import annotations

import numpy as np
import pytest

from earsight import font
from earsight.heatmap import COLORS, draw_text, line_width, overlay, stretch, text_size

PICTURE = np.full((3, 60, 80), 128, dtype=np.uint8)


def test_a_low_score_leaves_the_picture_as_it_is() -> None:
    np.testing.assert_array_equal(overlay(PICTURE, np.zeros((60, 80), dtype=np.float32)), PICTURE)


def test_a_high_score_takes_the_last_colour() -> None:
    out = overlay(PICTURE, np.ones((60, 80), dtype=np.float32), alpha=1.0)
    np.testing.assert_array_equal(out[:, 0, 0], COLORS[:, -1])


def test_lightness_of_the_colours_only_rises() -> None:
    lightness = np.array([0.2126, 0.7152, 0.0722]) @ COLORS.astype(float)
    assert (np.diff(lightness) > -0.5).all()
    assert lightness[-1] > lightness[0] + 150


def test_the_input_is_not_changed() -> None:
    before = PICTURE.copy()
    mask = np.zeros((60, 80), dtype=bool)
    mask[10:40, 10:40] = True
    overlay(PICTURE, mask.astype(np.float32), mask, [(1, 1, 50, 50)])
    draw_text(PICTURE, "caption")
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
    assert line_width(PICTURE) == 1
    assert line_width(np.zeros((3, 1080, 1920), dtype=np.uint8)) == 5


def test_a_score_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"score of .* like the picture"):
        overlay(PICTURE, np.zeros((10, 10), dtype=np.float32))


def test_stretch_of_a_flat_map_is_zero() -> None:
    assert stretch(np.full((2, 2), 7, dtype=np.float32)).tolist() == [[0, 0], [0, 0]]
    assert stretch(np.array([[0.0, 2.0]], dtype=np.float32), 0, 1).tolist() == [[0, 1]]


def test_every_printable_character_has_its_own_dots() -> None:
    glyphs = {font.glyph(chr(code)).tobytes() for code in range(32, 127)}
    assert len(glyphs) == 95
    assert all(font.glyph(chr(code)).any() for code in range(33, 127))
    assert not font.glyph("A")[:, -1].any()
    np.testing.assert_array_equal(font.glyph("é"), font.glyph("?"))


@pytest.mark.parametrize("scale", [1, 2, 3, 4])
def test_text_covers_what_text_size_says(scale: int) -> None:
    black = np.full((3, 100, 300), 200, dtype=np.uint8)
    changed = (draw_text(black, "dog 0.63", (4, 6), scale) != black).any(0)
    width, height = text_size("dog 0.63", scale)
    rows, columns = np.nonzero(changed.any(1))[0], np.nonzero(changed.any(0))[0]
    assert (rows[0], rows[-1] + 1, columns[0], columns[-1] + 1) == (6, 6 + height, 4, 4 + width)


def test_text_outside_the_picture_is_cut_off() -> None:
    assert (draw_text(PICTURE, "a long caption that does not fit", (-5, 55), 2) != PICTURE).any()
    np.testing.assert_array_equal(draw_text(PICTURE, "gone", (500, 500)), PICTURE)
    assert draw_text(PICTURE, "").shape == PICTURE.shape
