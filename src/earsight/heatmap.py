"""Heat maps over pictures: colours, outlines, boxes and captions, in numpy alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from earsight import font
from earsight.types import F32, U8, Mask

Color = tuple[int, int, int]
WHITE, BLACK, CYAN, ORANGE = (255, 255, 255), (0, 0, 0), (72, 219, 251), (255, 159, 28)

# Dark violet over red and orange to pale yellow: lightness only ever rises, so it also reads in grey and for people
# who do not tell red from green.
_STOPS = ((20, 11, 80), (84, 15, 109), (158, 40, 100), (221, 81, 58), (251, 155, 20), (252, 245, 155))


def _table() -> U8:
    at = np.linspace(0, 1, 256)
    stops = np.linspace(0, 1, len(_STOPS))
    return np.stack([np.interp(at, stops, [color[c] for color in _STOPS]) for c in range(3)]).round().astype(np.uint8)


COLORS: U8 = _table()
"""The colour of each of 256 steps, uint8 (3, 256)."""


def stretch(score: F32, low: float | None = None, high: float | None = None) -> F32:
    """A map (H, W) moved to [0, 1] by its own or the given range, clipped; a flat map becomes 0.

    >>> stretch(np.array([[1.0, 2.0, 5.0]], dtype=np.float32)).tolist()
    [[0.0, 0.25, 1.0]]
    """
    low = float(score.min()) if low is None else low
    high = float(score.max()) if high is None else high
    if high <= low:
        return np.zeros(score.shape, dtype=np.float32)
    moved: F32 = np.clip((score - low) / (high - low), 0, 1).astype(np.float32)
    return moved


def overlay(
    rgb: U8,
    score: F32,
    mask: Mask | None = None,
    boxes: Iterable[tuple[int, int, int, int]] = (),
    alpha: float = 0.65,
    box_color: Color = CYAN,
) -> U8:
    """A picture uint8 (3, H, W) with a score (H, W) in 0..1 as colour, clear where the score is low.

    `mask` (H, W) gets an outline, `boxes` in pixels get frames; their lines grow with the picture. `alpha` is how
    opaque the highest score is.
    """
    shape = rgb.shape[1:]
    for what, value in (("score", score), ("mask", mask)):
        if value is not None and value.shape != shape:
            raise ValueError(f"Expected a {what} of {shape} like the picture, but got {value.shape}.")
    step = (np.clip(score, 0, 1) * 255).astype(np.uint8)
    rise = np.clip((np.linspace(0, 1, 256) - 0.3) / 0.5, 0, 1)
    weight = (alpha * rise * rise * (3 - 2 * rise) * 256).astype(np.int32)[step]
    out = np.empty_like(rgb)
    for c in range(3):
        under = rgb[c].astype(np.int32)
        out[c] = under + ((COLORS[c].astype(np.int32)[step] - under) * weight >> 8)
    thick = line_width(rgb)
    if mask is not None:
        edge = mask & ~_shrunk(mask)
        _paint(out, _grown(edge, thick), BLACK, 0.45)
        _paint(out, _grown(edge, thick // 2), WHITE, 0.95)
    for box in boxes:
        draw_box(out, box, box_color, thick)
    return out


def line_width(rgb: U8) -> int:
    """Pixels of a line that looks the same on a thumbnail and on a film frame."""
    _, height, width = rgb.shape
    return max(1, round(int(min(height, width)) / 200))


def draw_box(rgb: U8, box: tuple[int, int, int, int], color: Color, thick: int) -> None:
    """A frame inside the pixel box (x0, y0, x1, y1), drawn into the picture, with a dark line on both sides."""
    for grow, paint, opacity in ((1, BLACK, 0.45), (0, color, 1.0)):
        frame = np.zeros(rgb.shape[1:], dtype=bool)
        x0, y0, x1, y1 = box[0] - grow, box[1] - grow, box[2] + grow, box[3] + grow
        width = thick + 2 * grow
        frame[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)] = True
        frame[max(y0 + width, 0) : max(y1 - width, 0), max(x0 + width, 0) : max(x1 - width, 0)] = False
        _paint(rgb, frame, paint, opacity)


def text_size(text: str, scale: int = 1) -> tuple[int, int]:
    """Width and height of a caption in pixels, its plate included."""
    return (font.WIDTH * len(text) + 3) * scale, (font.HEIGHT + 3) * scale


def draw_text(
    rgb: U8, text: str, xy: tuple[int, int] = (0, 0), scale: int = 1, color: Color = WHITE, plate: float = 0.6
) -> U8:
    """A copy of the picture with a line of ASCII text whose plate has its upper left corner at `xy`.

    `plate` is how dark the ground behind the letters is. What does not fit into the picture is cut off.
    """
    out = rgb.copy()
    width, height = text_size(text, scale)
    ink = np.zeros((height, width), dtype=np.float32)
    letters = font.line(text, scale)[:, : width - 2 * scale]
    ink[2 * scale : 2 * scale + letters.shape[0], 2 * scale : 2 * scale + letters.shape[1]] = letters
    x0, y0 = max(xy[0], 0), max(xy[1], 0)
    x1, y1 = min(xy[0] + width, rgb.shape[2]), min(xy[1] + height, rgb.shape[1])
    if x1 <= x0 or y1 <= y0:
        return out
    ink = ink[y0 - xy[1] : y1 - xy[1], x0 - xy[0] : x1 - xy[0]]
    part = out[:, y0:y1, x0:x1].astype(np.float32) * (1 - plate)
    part += (np.array(color, dtype=np.float32)[:, None, None] - part) * ink
    out[:, y0:y1, x0:x1] = part.round().astype(np.uint8)
    return out


def _paint(rgb: U8, where: Mask, color: Color, opacity: float) -> None:
    at = np.nonzero(where)
    tint: npt.NDArray[np.float32] = np.array(color, dtype=np.float32)[:, None]
    under = rgb[:, at[0], at[1]].astype(np.float32)
    rgb[:, at[0], at[1]] = (under + (tint - under) * opacity).round().astype(np.uint8)


def _grown(mask: Mask, by: int) -> Mask:
    """Every pixel within `by` rows and columns of the mask."""
    for axis in (0, 1):
        grown = mask.copy()
        far, near = (np.swapaxes(x, 0, axis) for x in (grown, mask))
        for d in range(1, by + 1):
            far[d:] |= near[:-d]
            far[:-d] |= near[d:]
        mask = grown
    return mask


def _shrunk(mask: Mask) -> Mask:
    """The mask without its border pixels; the picture's own edge is no border."""
    return ~_grown(~mask, 1)
